"""An adaptive query, in one process on a simulated clock: a crowd that drifts and shrinks, and a
loop that follows it.

Everything in between is the code of devices, proxies, engine and controller: answers are randomized
and split by a fleet whose devices each have a ledger, shares are joined and counted, windows are
released, and every version is signed by the controller and verified as a device would verify it
before the fleet uses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.operations.controller import Change, Controller
from deniable.aggregator.windows.window import Window
from deniable.client.simulation.fleet import Fleet
from deniable.client.simulation.fleet_ledger import FleetLedger
from deniable.local.scratch import scratch_folder
from deniable.local.system import LocalSystem
from deniable.privacy.ledger import Limit
from deniable.proxy.intake.uploads import IntakeRules
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.envelope import Envelope
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import verify
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


def adaptive_demo_query(controller: AnalystKey, margin: float, epochs: int, total: float) -> Query:
    """A yes/no question asked every minute, which a controller may change inside wide ranges."""
    return Query(
        id="demo-adaptive",
        analyst="Demo",
        question="Did you use it in the last minute?",
        sql="SELECT used FROM minutes ORDER BY minute DESC LIMIT 1",
        columns=[Column("used", [0.0, 1.0])],
        schedule=Schedule(
            _ORIGIN, _ORIGIN + epochs * _MINUTE, _MINUTE, _WINDOW_EPOCHS * _MINUTE, _MINUTE
        ),
        proxies=["proxy-1", "proxy-2"],
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
        sampling=0.5,
        rows="aggregate",
        minimum_cohort=50,
        budget=Budget(epsilon=total, margin=margin),
        envelope=Envelope(
            controller.public.raw.hex(),
            sampling=(0.02, 1.0),
            epsilon_per_answer=2.5,
            p=(0.1, 0.6),
            q=(0.2, 0.8),
        ),
    )


class AdaptiveRun:
    """The loop over a crowd of `people`: the share of "yes" goes from 2 to 40 %, and half of the
    people leave halfway."""

    def __init__(
        self,
        people: int = 4_000,
        epochs: int = 60,
        margin: float = 0.035,
        seed: int | None = None,
        source: Source | None = None,
    ) -> None:
        self.people, self.epochs, self.margin = people, epochs, margin
        self._rng = np.random.default_rng(seed)
        self._source = source
        self.analyst, self.controller = (
            AnalystKey.generate("Demo"),
            AnalystKey.generate("controller of Demo"),
        )
        self.limit = 1.1 * epochs
        self.query = adaptive_demo_query(self.controller, margin, epochs, self.limit)

    def steps(self) -> Iterator[AdaptiveStep]:
        """The epochs one by one, as fast as the machine can run them."""
        rules, limits = IntakeRules(grace=0), EngineLimits(workers=1, bucket_bits=2)
        with (
            scratch_folder() as folder,
            LocalSystem(self.query, folder, rules=rules, limits=limits, key=self.analyst) as system,
        ):
            yield from self._steps(system)

    def _steps(self, system: LocalSystem) -> Iterator[AdaptiveStep]:
        query, ring, connection = self.query, system.ring, system.state.connection
        controller = Controller(self.controller, lambda: ring, query.proxies, lambda: system.now)
        ledger = FleetLedger(self.people, [Limit(round(self.limit, 6))], 2.5)
        fleet = Fleet(query, self.people, source=self._source, ledger=ledger)
        truths: list[tuple[float, int]] = []
        n_windows = 0
        for epoch in range(self.epochs):
            system.run(query.schedule.start_of_epoch(epoch) + 1)
            newest = published(connection, query.id)[-1]
            if newest.query.serial > fleet.query.serial:
                fleet = fleet.revised(verify(newest.signed, ring, system.now))
            share = 0.02 + 0.38 * epoch / max(1, self.epochs - 1)
            present = self._rng.random(self.people) < (1.0 if epoch < self.epochs // 2 else 0.5)
            yes = (self._rng.random(self.people) < share).astype(np.intp)
            truths.append((float(yes[present].mean()), int(present.sum())))
            system.send(fleet.answer(epoch, yes, present))
            system.run(query.schedule.end_of_epoch(epoch))
            released = system.windows()
            window = released[-1] if len(released) > n_windows else None
            n_windows = len(released)
            changes = controller.step(connection)
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
