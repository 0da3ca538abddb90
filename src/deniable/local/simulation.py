"""A whole system that runs for a while: people, proxies, an aggregator, a signed query, and the
windows that come out."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.conservation import Account, statement
from deniable.aggregator.windows.window import COMPLETE, Window
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.sandbox import interface as sandbox
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import ParameterError, ResponseError, SandboxError
from deniable.local.crowd import Crowd
from deniable.local.datasets import Dataset
from deniable.local.people import Answers, make_vaults
from deniable.local.services import LocalProxy, Services, publish_everywhere
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.queries.times import with_times

__all__ = ["WHOLE_DEVICES", "Simulation", "demo_query", "simulate_dataset"]

WHOLE_DEVICES = 40
"""How many of the people are devices with their own vault file, by default."""
_EVERY = 2
"""Seconds of an epoch in the demonstration, and of a window."""
_GRACE = 1
_SECONDS_AFTER = 20.0
_POLL = 0.1
_LONGEST = 86_400
SHORT = "short"
"""Answers are missing because the simulation could not keep up."""
_CERTAIN = 6
"""Standard deviations of the number of answers below what is expected that chance does not
explain."""


class Simulation:
    """A system that runs. Made by :func:`simulate_dataset` or of one's own query and people; a
    context that ends all of it.

    `ask` makes the query, once the addresses of the proxies and the time are known; `people` are
    made while the services start.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[str], int], Query],
        people: Callable[[Query, Path], tuple[Answers, Sequence[Vault]]],
        n_proxies: int,
    ) -> None:
        if not 2 <= n_proxies <= 16:
            raise ParameterError("proxies", n_proxies, "must lie between 2 and 16")
        self._ask, self._make_people, self._n_proxies = ask, people, n_proxies
        self._stack = contextlib.ExitStack()
        self.windows: list[Window] = []
        self.started = False

    def __enter__(self) -> Simulation:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self) -> None:
        self.folder = Path(
            self._stack.enter_context(
                tempfile.TemporaryDirectory(prefix="deniable-", ignore_cleanup_errors=True)
            )
        )
        # their addresses are not known yet
        anywhere = [f"proxy-{i}" for i in range(self._n_proxies)]
        key = AnalystKey.generate(self._ask(anywhere, int(time.time())).analyst)
        ring = KeyRing().add(key.public)
        intake = {"deadline": 1, "grace": _GRACE, "skew": 2}
        self.services = Services.on_free_ports(
            self.folder / "services", ring, self._n_proxies, intake, patience=60
        )
        proxies = self.services.proxies
        names = [proxy.address.url for proxy in proxies]
        self._stack.callback(self.services.stop)
        for name in self.services.names:  # they start while the people are made
            self.services.start(name)
        draft = self._ask(names, int(time.time()))
        answers, vaults = self._make_people(draft, self.folder / "vaults")
        self.truth: NDArray[np.float64] = answers.truth
        self.n_people, self.n_devices = len(answers), len(vaults)
        tokens = [
            self.services.token(proxy, quota=_LONGEST * draft.most_rows * len(answers))
            for proxy in proxies
        ]
        policies = self._policies(draft, ring, proxies, len(vaults), answers)
        # the sandbox's processes start here, and not within the first epoch
        with contextlib.suppress(SandboxError):
            for vault in vaults[:1]:
                sandbox.check(vault, draft.sql, isolated=False)
                sandbox.run(vault, draft.sql, isolated=False)
        for name in self.services.names:
            self.services.wait_until_up(name)
        self.query = self._ask(names, int(time.time()) + 1)
        self.analyst = self._stack.enter_context(self.services.analyst())
        publish_everywhere(self.analyst, sign(self.query, key))
        devices = [
            Device(vault, policy, Store(self.folder / f"{i}.client", durable=False), isolated=False)
            for i, (vault, policy) in enumerate(zip(vaults, policies, strict=True))
        ]
        fleet = answers.part(len(vaults)) if len(vaults) < len(answers) else None
        self.crowd = Crowd(self.query, fleet, tokens, devices)
        self.crowd.start()
        self._stack.callback(self.crowd.stop)
        self.started = True

    def _policies(
        self, query: Query, ring: KeyRing, proxies: Sequence[LocalProxy], n: int, answers: Answers
    ) -> list[Policy]:
        """A policy a device, with tokens of its own, that lets it answer to the end: nobody is
        really asked here."""
        if not n:
            return []
        tokens = [self.services.token(proxy, count=n).split("\n") for proxy in proxies]
        ceiling = query.epsilon_local + 1e-9
        strata: list[tuple[str, ...]] = [()] * n
        if answers.strata is not None:
            strata = [(query.strata[place].name,) for place in answers.strata[:n].tolist()]
        return [
            Policy(
                ring,
                {proxy.address.url: own for proxy, own in zip(proxies, mine, strict=True)},
                epsilon_per_answer=ceiling,
                limits=(Limit(round(ceiling * _LONGEST)),),
                upload_within=0,
                strata=belongs,
            )
            for belongs, mine in zip(strata, zip(*tokens, strict=True), strict=True)
        ]

    # --- while it runs

    def look(self) -> list[Window]:
        """The windows that were completed since the last look. An error if one of the services has
        ended."""
        self.services.check()
        after = self.windows[-1].start + 1 if self.windows else 0
        try:
            fresh = list(self.analyst.range(self.query, start=after))
        except ResponseError as error:
            if error.status:
                raise
            return []  # it is busy: look again
        self.windows += fresh
        return fresh

    @property
    def seconds(self) -> float:
        """How long the crowd has been answering."""
        return time.time() - self.query.schedule.origin

    @property
    def answers_per_second(self) -> float:
        """Answers that were joined and counted, for each second of the epochs that they came
        from."""
        seconds = sum(window.end - window.start for window in self.windows)
        return (
            sum(window.n + window.nothing for window in self.windows) / seconds if seconds else 0.0
        )

    def expected(self, window: Window) -> float | None:
        """How many answers a window would have if everybody who was drawn had answered in time;
        None if that is not known."""
        if self.query.rows == "several" or self.query.strata:
            return None
        epochs = (window.end - window.start) // self.query.schedule.every
        return epochs * self.n_people * (1.0 if self.query.cover else self.query.sampling)

    def condition(self, window: Window) -> str:
        """The window's condition; "short" if so many answers are missing that chance does not
        explain it.

        Then the simulated people did not get round to answering in time: the machine is too slow
        for so many. The aggregator cannot know that, for to it they are people who did not answer.
        """
        expected = self.expected(window)
        if window.condition != COMPLETE or expected is None:
            return window.condition
        spread = math.sqrt(expected * max(1 - self.query.sampling, 0.01))
        return (
            SHORT
            if window.n + window.nothing < expected - _CERTAIN * spread - 1
            else window.condition
        )

    @property
    def overload(self) -> str:
        """What to print if the simulation cannot keep up; otherwise empty."""
        short = [window for window in self.windows if self.condition(window) == SHORT]
        if not short:
            return ""
        lacking = 1 - sum(window.n + window.nothing for window in short) / sum(
            self.expected(window) or 0 for window in short
        )
        return (
            f"This machine cannot keep up with {self.n_people:,} clients: {len(short)} of"
            f" {len(self.windows)} windows are short, by {100 * lacking:.0f} % of their answers."
            " Simulate fewer clients."
        )

    def finish(self, wait: Callable[[], None] = lambda: None) -> None:
        """Stop asking, and wait for the windows whose epochs were all answered; for the first one
        in any case."""
        schedule = self.query.schedule
        answered = int(self.seconds) // schedule.every * schedule.every
        last = max(0, (answered - schedule.window) // schedule.slide)
        self.crowd.stop()
        give_up = time.monotonic() + schedule.window + _SECONDS_AFTER
        while not (self.windows and self.windows[-1].index >= last) and time.monotonic() < give_up:
            self.look()
            wait()
            time.sleep(_POLL)

    def to_dict(self) -> dict[str, Any]:
        """All results, as a JSON-compatible dictionary."""
        return {
            "query": self.query.id,
            "question": self.query.question,
            "clients": self.n_people,
            "whole_devices": self.n_devices,
            "proxies": list(self.query.proxies),
            "epsilon_local": self.query.epsilon_local,
            **self.query.sampled_loss.sampled_fields(),
            "answers_per_second": self.answers_per_second,
            "overload": self.overload,
            "windows": [self._window(window) for window in self.windows],
            "conservation": total_conservation(self.windows),
        }

    def _window(self, window: Window) -> dict[str, Any]:
        document = window.to_dict()
        names = ("start", "end", "n", "condition", "labels", "estimate", "stderr", "low", "high")
        out = with_times({name: document.get(name) for name in names}, "start", "end")
        out |= {"condition": self.condition(window), "expected": self.expected(window)}
        return {**out, "truth": self.truth.tolist(), "conservation": document["conservation"]}


def total_conservation(windows: Sequence[Window]) -> dict[str, Any]:
    """What became of all shares of windows that do not overlap, per proxy, and whether every
    account balances."""
    totals: dict[str, Account] = {}
    end = 0
    for window in windows:
        if window.start < end:
            continue
        end = window.end
        for name, document in window.conservation["proxies"].items():
            account = totals.setdefault(name, Account())
            account += Account(
                **{field.name: document[field.name] for field in dataclasses.fields(Account)}
            )
    return dict(statement(totals, dict(enumerate(totals.values()))))


def demo_query(dataset: Dataset, n_clients: int) -> Callable[[Sequence[str], int], Query]:
    """The question of a dataset, answered every two seconds: two coins with p = q = 1/2, and three
    clients in five each time."""

    def ask(proxies: Sequence[str], now: int) -> Query:
        return Query(
            id=f"demo-{dataset.name}",
            analyst="Demo",
            question=dataset.question,
            sql=dataset.sql,
            columns=dataset.columns,
            schedule=Schedule(now, now + _LONGEST, _EVERY, _EVERY, _EVERY),
            proxies=proxies,
            mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
            sampling=0.6,
            population=n_clients,
            minimum_cohort=max(1, min(100, n_clients // 4)),
            rows="aggregate",
        )

    return ask


def simulate_dataset(
    dataset: Dataset, n_clients: int = 10_000, n_proxies: int = 2, seed: int = 2013
) -> Simulation:
    """The system with a population of a dataset, of whom the first :data:`WHOLE_DEVICES` are whole
    devices."""

    def people(query: Query, folder: Path) -> tuple[Answers, Sequence[Vault]]:
        rows = dataset.rows(n_clients, seed)
        newest = np.array([own[-1][1] for own in rows])
        answers = Answers(query, query.buckets.index_many([newest]).reshape(-1, 1).tolist())
        return answers, make_vaults(
            folder, dataset.table, dataset.kinds, rows[:WHOLE_DEVICES], list(dataset.kinds)
        )

    return Simulation(demo_query(dataset, n_clients), people, n_proxies)
