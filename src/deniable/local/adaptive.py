"""An adaptive query, in one process on a simulated clock: a crowd that drifts and shrinks, and a loop that follows it.

Everything in between is the code of devices, proxies' logs, engine and controller: answers are randomized and split by a fleet
whose devices each have a ledger, shares are joined and counted, windows are released, and every version is signed by the
controller and verified as a device would verify it before the fleet uses it.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from deniable.aggregator.catalogue import publish, published
from deniable.aggregator.controller import Change, Controller
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.limits import EngineLimits
from deniable.aggregator.state import State
from deniable.aggregator.windows import Window
from deniable.client.fleet import Fleet
from deniable.client.fleet_ledger import FleetLedger
from deniable.logs.share_logs import EmbeddedLog
from deniable.logs.sqlite_log import BlockLog
from deniable.privacy.ledger import Limit
from deniable.queries.buckets import Column
from deniable.queries.budget import Budget
from deniable.queries.envelope import Envelope
from deniable.queries.keys import AnalystKey, KeyRing
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signing import sign, verify
from deniable.randomness import Source

__all__ = ["AdaptiveRun", "AdaptiveStep", "adaptive_demo_query"]

_ORIGIN = 1_767_225_600
_MINUTE = 60
_WINDOW_EPOCHS = 3


@dataclass(frozen=True)
class AdaptiveStep:
    """The results of one epoch."""

    epoch: int
    people: int
    """People whose devices were switched on."""
    window: Window | None
    """The window that ended with the epoch."""
    truth: float
    """The proportion of "yes" among the people of that window."""
    query: Query
    """The version that was answered."""
    change: Change | None
    """What the controller changed for the next epoch."""
    spent: float
    """The devices' average spending, in local epsilon."""
    most_spent: float


def adaptive_demo_query(controller: AnalystKey, wish: float, epochs: int, total: float) -> Query:
    """A yes/no question asked every minute, which a controller may change inside wide ranges."""
    return Query(
        id="demo-adaptive",
        analyst="Demo",
        question="Did you use it in the last minute?",
        sql="SELECT used FROM minutes ORDER BY minute DESC LIMIT 1",
        columns=[Column("used", [0.0, 1.0])],
        schedule=Schedule(_ORIGIN, _ORIGIN + epochs * _MINUTE, _MINUTE, _WINDOW_EPOCHS * _MINUTE, _MINUTE),
        proxies=["proxy-1", "proxy-2"],
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
        sampling=0.5,
        rows="aggregate",
        minimum_cohort=50,
        budget=Budget(epsilon=total, error=wish),
        envelope=Envelope(controller.public.raw.hex(), sampling=(0.02, 1.0), epsilon_per_answer=2.5, p=(0.1, 0.6), q=(0.2, 0.8)),
    )


class AdaptiveRun:
    """The loop over a crowd of `people`: the share of "yes" goes from 2 to 40 %, and half of the people leave halfway."""

    def __init__(
        self, people: int = 4_000, epochs: int = 60, wish: float = 0.035, seed: int | None = None, source: Source | None = None
    ) -> None:
        self.people, self.epochs, self.wish = people, epochs, wish
        self._rng = np.random.default_rng(seed)
        self._source = source
        self.analyst, self.controller = AnalystKey.generate("Demo"), AnalystKey.generate("controller of Demo")
        self.limit = 1.1 * epochs
        self.query = adaptive_demo_query(self.controller, wish, epochs, self.limit)

    def steps(self) -> Iterator[AdaptiveStep]:
        """The epochs one by one, as fast as the machine can run them."""
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="deniable-adaptive-")))
            yield from self._steps(folder, stack)

    def _steps(self, folder: Path, stack: contextlib.ExitStack) -> Iterator[AdaptiveStep]:
        query, ring = self.query, KeyRing().add(self.analyst.public)
        now = _ORIGIN

        def clock() -> int:
            return now

        logs = [BlockLog(folder / f"log{i}.db") for i in range(len(query.proxies))]
        state = State(folder / "state.db", query.proxies)
        with state.transaction():
            publish(state.connection, sign(query, self.analyst), ring, query.proxies, now)
        readers = [EmbeddedLog(log.path) for log in logs]
        engine = Engine(state, readers, EngineLimits(workers=1, bucket_bits=2), clock)
        stack.callback(state.close)
        stack.callback(engine.close)
        for log in logs:
            stack.callback(log.close)
        for reader in readers:
            stack.callback(reader.close)
        controller = Controller(self.controller, lambda: ring, query.proxies, clock)
        ledger = FleetLedger(self.people, [Limit(round(self.limit, 6))], 2.5)
        fleet = Fleet(query, self.people, source=self._source, ledger=ledger)
        truths: list[tuple[float, int]] = []
        n_windows = 0
        for epoch in range(self.epochs):
            now = _ORIGIN + epoch * _MINUTE + 1
            newest = published(state.connection, query.id)[-1]
            if newest.query.serial > fleet.query.serial:
                fleet = fleet.revised(verify(newest.signed, ring, now))
            share = 0.02 + 0.38 * epoch / max(1, self.epochs - 1)
            present = self._rng.random(self.people) < (1.0 if epoch < self.epochs // 2 else 0.5)
            yes = (self._rng.random(self.people) < share).astype(np.intp)
            truths.append((float(yes[present].mean()), int(present.sum())))
            for log, blocks in zip(logs, fleet.answer(epoch, yes, present).blocks(), strict=True):
                log.append(blocks, now=now, marks={query.channel_tag: epoch + 1})
            now = _ORIGIN + (epoch + 1) * _MINUTE
            engine.drain()
            documents = state.connection.execute(
                "SELECT document FROM results ORDER BY seq LIMIT -1 OFFSET ?", (n_windows,)
            ).fetchall()
            n_windows += len(documents)
            window = Window.from_dict(json.loads(documents[-1][0])) if documents else None
            changes = controller.step(state.connection)
            recent = truths[-_WINDOW_EPOCHS:]
            truth = sum(value * n for value, n in recent) / sum(n for _, n in recent)
            spent = [float(each) for each in ledger.spent()]
            yield AdaptiveStep(
                epoch,
                truths[-1][1],
                window,
                truth,
                fleet.query,
                changes[-1] if changes else None,
                sum(spent) / len(spent),
                max(spent),
            )
