"""The controller: after each window it compares the half-width with the target, and signs a new
version of the query if needed.

It reads what is released and counted, decides by the rule of :mod:`deniable.planning.feedback`, and
publishes a version within the envelope that the analyst signed
(:mod:`deniable.queries.signed.envelope`). Version, relay orders and history are one transaction,
and the window examined is recorded in it, so that a controller that is killed decides each window
once. It works on the state of any engine. What it changes depends only on released results and on
how many answers arrived.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from deniable.aggregator.counting.catalogue import Published, publish, published
from deniable.aggregator.operations.relay import PUBLISH, order_relay
from deniable.aggregator.state import Clock
from deniable.aggregator.windows.granules import released_granules
from deniable.aggregator.windows.stored import read_window
from deniable.aggregator.windows.window import INCOMPLETE, MALFORMED, PROXY_DOWN, Window
from deniable.counts import Counts, add_by_key
from deniable.errors import PublicationError, QueryError
from deniable.planning.allocation import neyman
from deniable.planning.feedback import (
    Coins,
    Decision,
    Limits,
    Outlook,
    Setting,
    decide,
    sustainable_rate,
)
from deniable.queries.header import digest_of
from deniable.queries.query import Query
from deniable.queries.signed.envelope import Envelope, Version
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign_version
from deniable.randomness import ONE

__all__ = ["Change", "Controller"]

_LOGGER = logging.getLogger("deniable.aggregator")
_EPSILON_STEPS = 25
_GROWTH = 1.1
"""People are joining while each window has this many times as many as the one before."""


@dataclass(frozen=True)
class Change:
    """A version that the controller made."""

    query: str
    serial: int
    before: Setting
    after: Setting
    reason: str
    achieved: float | None

    def words(self) -> str:
        """What changed, and why, in one sentence."""
        return (
            f"{self.query}, version {self.serial}: {self.before.words()} became"
            f" {self.after.words()}, because {self.reason}"
        )


class Controller:
    """Signs versions of the queries whose envelopes name its key."""

    def __init__(
        self,
        key: AnalystKey,
        ring: Callable[[], KeyRing],
        proxies: Sequence[str],
        clock: Clock,
        on_change: Callable[[sqlite3.Connection, Change], None] = lambda *_: None,
    ) -> None:
        """`on_change` is called with each version inside the transaction that publishes it: if it
        fails, nothing is published."""
        self.key, self.ring, self.proxies, self.clock, self.on_change = (
            key,
            ring,
            tuple(proxies),
            clock,
            on_change,
        )

    def step(self, connection: sqlite3.Connection) -> list[Change]:
        """Examine the windows released since the last step, and publish the versions that follow
        from them."""
        connection.execute("BEGIN IMMEDIATE")
        try:
            newest = {entry.query.id: entry for entry in published(connection)}
            changes = [
                self._control(connection, entry)
                for entry in newest.values()
                if self._is_mine(entry)
            ]
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
        return [change for change in changes if change is not None]

    def _is_mine(self, entry: Published) -> bool:
        query, now = entry.query, self.clock()
        envelope = query.envelope
        if (
            envelope is None
            or query.budget.target is None
            or entry.stopped is not None
            or now >= query.schedule.expires
        ):
            return False
        return envelope.controller == self.key.public.raw.hex() and (
            envelope.until is None or now < envelope.until
        )

    def _control(self, connection: sqlite3.Connection, entry: Published) -> Change | None:
        query = entry.query
        found = connection.execute(
            "SELECT number, document FROM results WHERE query = ?1 AND number > coalesce((SELECT"
            " number FROM controlled WHERE query = ?1), -1) ORDER BY number DESC, revision DESC"
            " LIMIT 1",
            (query.id,),
        ).fetchone()
        if found is None:
            return None
        number, window = int(found[0]), read_window(found[1])
        if not window.final and window.expected is None:
            return None  # an unknown number of answers is still to come
        connection.execute("INSERT OR REPLACE INTO controlled VALUES (?, ?)", (query.id, number))
        # answers are missing, but not because people stay away; or there are too few to judge by
        if window.estimate is None or window.condition in (PROXY_DOWN, MALFORMED, INCOMPLETE):
            return None
        decision = self._decision(connection, query, number, window)
        if decision is None or not decision.changed:
            return None
        return self._publish(connection, entry, number, decision, window.half_width)

    def _decision(
        self, connection: sqlite3.Connection, query: Query, number: int, window: Window
    ) -> Decision | None:
        envelope, limits = query.envelope, _limits(query.content)
        support = query.mechanism.support()
        if envelope is None or limits is None or support is None or query.budget.target is None:
            return None
        if query.budget.epsilon is not None and not query.memoize:
            spent, left = _spent(connection, query, self.clock())
            rate = sustainable_rate(query.budget.epsilon - spent, left, envelope.epsilon_per_answer)
            limits = replace(limits, spending=rate)
        outlook = _outlook(connection, query, number, window)
        if outlook is None:
            return None
        present = _present(query)
        if query.strata:  # which need not be sampled equally
            present = replace(
                present, sampling=_mean_sampling(connection, query, number) or query.sampling
            )
        last = connection.execute(
            "SELECT max(number) FROM versions WHERE query = ?", (query.id,)
        ).fetchone()[0]
        channel = float(support[0][-1]), float(support[1][-1])
        return decide(
            query.budget.target,
            present,
            channel,
            limits.one_step_from(present.sampling, query.epsilon_local),
            outlook,
            None if last is None else number - last,
            joining=_joining(connection, query, number),
        )

    def _publish(
        self,
        connection: sqlite3.Connection,
        entry: Published,
        number: int,
        decision: Decision,
        achieved: float | None,
    ) -> Change | None:
        base, query, setting = entry.signed.without_version(), entry.query, decision.setting
        serial = query.serial + 1
        analysts = base.unverified()
        if analysts.envelope is None or serial > analysts.serial + analysts.envelope.versions:
            return None  # the envelope has no serial left: only the analyst can continue
        coins = dict(setting.coins)
        if analysts.envelope.inversion:
            coins.setdefault("inverted", False)
        strata = _allocated(connection, query, number, setting.sampling) if query.strata else None
        version = Version(digest_of(base.content).hex(), serial, setting.sampling, coins, strata)
        try:
            publish(
                connection,
                sign_version(base, version, self.key),
                self.ring(),
                self.proxies,
                self.clock(),
            )
        # such as an expired key: the queries of others still adapt
        except (PublicationError, QueryError) as error:
            _LOGGER.warning(
                "query cannot adapt", extra={"fields": {"query": query.id, "problem": str(error)}}
            )
            return None
        order_relay(connection, query.id, serial, PUBLISH, len(self.proxies))
        row = (query.id, serial, number, decision.reason, query.budget.target, achieved)
        connection.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", row)
        change = Change(query.id, serial, _present(query), setting, decision.reason, achieved)
        self.on_change(connection, change)
        return change


def _present(query: Query) -> Setting:
    names = ("p", "q", "inverted", "epsilon")
    return Setting(
        query.sampling, {name: query.recipe[name] for name in names if name in query.recipe}
    )


@lru_cache(maxsize=64)
def _limits(content: bytes) -> Limits | None:
    """What may be chosen for a query with these canonical bytes; None if its reports do not support
    labels."""
    query = Query.from_content(content)
    envelope = query.envelope
    if envelope is None:
        return None
    coins = _coins(query, envelope)
    return (
        None
        if coins is None
        else Limits(
            envelope.sampling, coins.within(envelope.epsilon_per_answer), query.minimum_cohort
        )
    )


def _coins(query: Query, envelope: Envelope) -> Coins | None:
    if envelope.p is not None and envelope.q is not None:
        changes = query.most_rows * query.ones
        return Coins.two(envelope.p, envelope.q, changes, envelope.inversion).through(
            query.instantaneous, changes
        )
    made, parameters = [query], [dict[str, float | bool]()]
    if envelope.epsilon is not None:
        low, high = envelope.epsilon
        values = sorted(
            {low, high, *np.linspace(low, high, _EPSILON_STEPS).round(3).clip(low, high).tolist()}
        )
        parameters = [{"epsilon": value} for value in values]
        made = [
            query.revised(mechanism={**query.recipe, **each}, envelope=None) for each in parameters
        ]
    support = [each.mechanism.support() for each in made]
    if any(each is None for each in support):
        return None
    a, b = (np.array([side[i][-1] for side in support if side is not None]) for i in (0, 1))
    return Coins(parameters, a, b, np.array([each.epsilon_local for each in made]))


def _outlook(
    connection: sqlite3.Connection, query: Query, number: int, window: Window
) -> Outlook | None:
    """What the next window will be like if people continue as in the newest epoch; None if nothing
    was counted."""
    epochs = query.schedule.epochs_of_window(number)
    people = _people(connection, query, epochs[-1])
    if people <= 0:
        return None
    if not window.final and window.expected is not None:
        people *= 1 + window.expected / max(window.n, 1)
    proportions = None if window.estimate is None else window.estimate.proportions.tolist()
    known = query.population if not query.strata else None
    reached = 0.0 if known is None or query.rows == "several" else min(1.0, people / known)
    return Outlook(people * (1 if query.memoize else len(epochs)), proportions, reached)


def _people(connection: sqlite3.Connection, query: Query, epoch: int) -> float:
    """How many people could have answered in an epoch: its answers over their sampling."""
    versions = {entry.query.serial: entry.query for entry in published(connection, query.id)}
    rows = connection.execute(
        "SELECT serial, stratum, n FROM panes WHERE query = ? AND epoch = ?", (query.id, epoch)
    ).fetchall()
    return float(
        sum(
            n / (versions[serial].sampling_of(stratum) / ONE)
            for serial, stratum, n in rows
            if serial in versions
        )
    )


def _joining(connection: sqlite3.Connection, query: Query, number: int) -> bool:
    """Whether people are still joining: this is the first window, or there are clearly more than in
    the one before."""
    if number == 0:
        return True
    before, now = (
        _people(connection, query, query.schedule.epochs_of_window(each)[-1])
        for each in (number - 1, number)
    )
    return now > _GROWTH * before


def _allocated(
    connection: sqlite3.Connection, query: Query, number: int, sampling: float
) -> list[float]:
    """The sampling of each stratum: all equal, or by Neyman's allocation from what this version
    counted in the window."""
    alike = [sampling] * len(query.strata)
    envelope, epochs, support = (
        query.envelope,
        query.schedule.epochs_of_window(number),
        query.mechanism.support(),
    )
    if envelope is None or envelope.allocation != "neyman" or support is None:
        return alike
    totals: dict[int, Counts] = {}
    # a version is published, so it is a figure like any other
    for granule in released_granules(connection, query.id, epochs):
        if granule.serial == query.serial:
            add_by_key(totals, {granule.stratum: Counts.total(granule.panes.values())})
    if (
        set(totals) != set(range(len(query.strata)))
        or min(each.n for each in totals.values()) < query.minimum_cohort
    ):
        return alike
    people = [totals[i].n / (query.sampling_of(i) / ONE) for i in range(len(query.strata))]
    sizes = [float(each.population or people[i]) for i, each in enumerate(query.strata)]
    a, b = float(support[0][-1]), float(support[1][-1])
    solved = [query.mechanism.solve(each.counts, each.n)[0] for _, each in sorted(totals.items())]
    rates = np.clip([b + (a - b) * proportions for proportions in solved], 0, 1)
    spread = np.sqrt(rates * (1 - rates)) / abs(a - b)
    widest = int(
        np.argmax(
            (np.array(sizes)[:, None] ** 2 * spread**2 / np.array(people)[:, None]).sum(axis=0)
        )
    )
    found = neyman(sizes, spread[:, widest].tolist(), people, sampling, envelope.sampling)
    low, high = envelope.sampling
    return [min(max(round(each, 4), low), high) for each in found]


def _mean_sampling(connection: sqlite3.Connection, query: Query, number: int) -> float | None:
    """The proportion of this version's population that answered in the newest epoch, over all
    strata."""
    epoch = query.schedule.epochs_of_window(number)[-1]
    rows = connection.execute(
        "SELECT stratum, n FROM panes WHERE query = ? AND serial = ? AND epoch = ?",
        (query.id, query.serial, epoch),
    ).fetchall()
    people = sum(n / (query.sampling_of(stratum) / ONE) for stratum, n in rows)
    return sum(n for _, n in rows) / people if people else None


def _spent(connection: sqlite3.Connection, query: Query, now: int) -> tuple[float, int]:
    """What a person is expected to have spent on the versions of a query so far, and how many
    epochs are left."""
    schedule = query.schedule
    entries = published(connection, query.id)
    starts = [schedule.epochs_over(entry.published) for entry in entries] + [
        schedule.epochs_over(now)
    ]
    spans = zip(entries, starts, starts[1:], strict=False)
    spent = sum(
        max(0, end - start) * entry.query.sampling * entry.query.epsilon_local
        for entry, start, end in spans
    )
    return spent, schedule.n_epochs - starts[-1]
