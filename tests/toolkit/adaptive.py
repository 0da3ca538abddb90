"""A query that adapts, a fleet with limits that answers it, and an engine and a controller that
read the answers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.operations.controller import Change, Controller
from deniable.client.simulation.fleet import Fleet
from deniable.client.simulation.fleet_ledger import FleetLedger
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.envelope import Envelope
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery
from deniable.randomness import seeded_source
from toolkit.crowds import ORIGIN, RING, Crowd, minute_query

CONTROLLER = AnalystKey("controller", bytes([7]) * 32)
YES_NO = [Column("x", ["[0,1)", "[1,2)"])]


def envelope(**changes: Any) -> Envelope:
    given: dict[str, Any] = {
        "controller": CONTROLLER.public.raw.hex(),
        "sampling": (0.02, 1.0),
        "epsilon_per_answer": 2.5,
        "p": (0.1, 0.6),
        "q": (0.2, 0.8),
    }
    return Envelope(**{**given, **changes})


def adaptive_query(epochs: int, margin: float, total: float, **changes: Any) -> Query:
    """A yes/no question asked every minute, with windows of three epochs."""
    given: dict[str, Any] = {
        "columns": YES_NO,
        "mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5},
        "sampling": 0.5,
        "budget": Budget(epsilon=total, margin=margin),
        "envelope": envelope(),
        "minimum_cohort": 50,
        "schedule": Schedule(ORIGIN, ORIGIN + 60 * epochs, 60, 180, 60),
    }
    return minute_query(**{**given, **changes})


class AdaptiveRun:
    """Epochs one after the other: the fleet answers, the engine counts, the controller decides."""

    def __init__(
        self,
        folder: Path,
        query: Query,
        n: int,
        ledger: FleetLedger | None = None,
        seed: int = 1,
        strata: Any = 0,
    ) -> None:
        self.query = query
        self.crowd = Crowd(folder, query)
        self.engine = self.crowd.engine()
        self.controller = Controller(
            CONTROLLER, lambda: RING, query.proxies, lambda: self.crowd.now
        )
        self.fleet = Fleet(query, n, strata=strata, source=seeded_source(seed), ledger=ledger)
        self.changes: list[tuple[int, Change]] = []
        self.signed: SignedQuery | None = None

    def epoch(
        self,
        epoch: int,
        indices: Any,
        present: Any = None,
        on_asked: Callable[[SignedQuery, int], None] | None = None,
    ) -> None:
        """Let one epoch pass; `on_asked` is given the newest signed version, and the time."""
        assert self.crowd.state is not None
        connection = self.crowd.state.connection
        self.crowd.now = ORIGIN + 60 * epoch + 1
        newest = published(connection, self.query.id)[-1]
        if newest.query.serial != self.fleet.query.serial:
            self.fleet = self.fleet.revised(newest.query)
        if on_asked is not None:
            on_asked(newest.signed, self.crowd.now)
        shares = self.fleet.answer(epoch, indices, present)
        for proxy, blocks in enumerate(shares.blocks(2)):
            self.crowd.logs[proxy].append(blocks, now=self.crowd.now)
        self.crowd.now = ORIGIN + 60 * (epoch + 1)
        self.crowd.mark(epoch + 1)
        self.engine.drain()
        self.changes += [(epoch, change) for change in self.controller.step(connection)]

    def errors(self) -> np.ndarray[Any, Any]:
        """The widest half-width of each window; infinite where there is no estimate."""
        found = [window.half_width for window in self.crowd.windows()]
        return np.array([np.inf if error is None else error for error in found])

    def close(self) -> None:
        self.crowd.close_all()
