"""An aggregator whose figures show who is in them, and an adversary who subtracts everything from
everything.

Every answer goes to a bucket of its own, and hardly any randomness is added, so that a published
estimate names its members. The adversary reads published documents only: from them it forms all
sets of answers that combinations of figures can isolate.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from deniable.aggregator.counting.catalogue import Catalogue, publish, published
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.answer import HistoryReader
from deniable.aggregator.history.file_catalogue import ensure_slice_key
from deniable.aggregator.history.maintenance import HistoryMaintainer
from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.history.service import epoch_counts
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import State, connect
from deniable.aggregator.step import Step
from deniable.aggregator.windows.closing import close_epoch, revise
from deniable.counts import Counts
from deniable.errors import NoReportsError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed.signing import sign
from deniable.randomness import seeded_source
from toolkit.crowds import KEY, RING, minute_query

N_LABELS = 120
_PRESENT = 1e-6
"""A proportion above this is that of a bucket with an answer: the randomness adds some 1e-15."""


def telling_query(**changes: Any) -> Query:
    """A query with a bucket for every answer of a run."""
    columns = [Column("who", [str(i) for i in range(N_LABELS - 1)], other=True, kind="text")]
    return minute_query(**{"columns": columns, **changes})


class ReleasingAggregator:
    """The part of an aggregator that both engines share: panes and reports in, windows and history
    out."""

    def __init__(self, folder: Path, queries: Sequence[Query], early: int) -> None:
        self.folder, self.proxies = folder, queries[0].proxies
        self.now = queries[0].schedule.origin
        self.limits = EngineLimits(early=early)
        self.settings = HistorySettings(str(folder / "history"))
        self.source = seeded_source(5)
        self.cohorts: dict[str, list[int]] = {query.id: [] for query in queries}
        """For each answer to a query, by its bucket, the minimum cohort of the version that was
        answered."""
        self._open()
        with self.state.transaction():
            ensure_slice_key(self.state.connection)
            self.state.connection.execute(
                "UPDATE meta SET value = ? WHERE name = 'history_slices'", ("00" * 32,)
            )
        for query in queries:
            self.publish(query)
        self.keeper = HistoryMaintainer(
            connect(folder / "state.db"), self.settings, lambda: self.now
        )

    def _open(self) -> None:
        self.state = State(self.folder / "state.db", self.proxies)
        # no power is cut here, and there are many small steps
        self.state.connection.execute("PRAGMA synchronous = OFF")

    def restart(self) -> None:
        self.state.close()
        self._open()

    def close(self) -> None:
        self.keeper.connection.close()
        self.state.close()

    def publish(self, query: Query) -> None:
        with self.state.transaction():
            publish(self.state.connection, sign(query, KEY), RING, self.proxies, self.now)

    @property
    def channel(self) -> Any:
        (channel,) = Catalogue.load(self.state.connection).channels.values()
        return channel

    @property
    def front(self) -> int:
        (front,) = self.state.fronts().values()
        return front

    def answer(self, query: Query, epoch: int, stratum: int, n: int) -> None:
        """Count answers of an open epoch, as a step of an engine does."""
        taken = self.cohorts[query.id]
        values = np.arange(len(taken), min(len(taken) + n, N_LABELS))
        if epoch < self.front or not values.size:
            return
        taken += [query.minimum_cohort] * values.size
        drawn = query.mechanism.draw(values.astype(np.intp), self.source)
        key = PaneKey(query.id, query.serial, epoch, stratum)
        reports = np.ascontiguousarray(drawn).reshape(len(values), -1).view(np.uint8)
        step = Step(
            panes={key: Counts(query.mechanism.count(drawn), values.size)}, reports=[(key, reports)]
        )
        with self.state.transaction():
            self.state.apply(step)

    def revise(self) -> None:
        with self.state.transaction():
            revise(self.state, [self.channel], self.state.firsts(), self.now, self.limits.early)

    def close_epochs(self, before: int) -> None:
        for epoch in range(self.front, before):
            with self.state.transaction():
                close_epoch(self.state, self.channel, epoch, [], 0, self.now, self.limits)

    # --- what is published

    def windows(self, query: Query) -> list[dict[str, Any]]:
        rows = self.state.connection.execute(
            "SELECT document FROM results WHERE query = ? ORDER BY seq", (query.id,)
        )
        return [json.loads(document) for (document,) in rows]

    def panes(self, query: Query, start: int, end: int) -> dict[str, Any]:
        return dict(epoch_counts(self.state.connection, query.id, start, end))

    def ask(self, query: Query, **parameters: Any) -> dict[str, Any] | None:
        """An answer of the history; None if there is none."""
        versions = [entry.query for entry in published(self.state.connection, query.id)]
        reader = HistoryReader(
            self.keeper.folder, lambda: sqlite3.connect(self.folder / "state.db"), versions
        )
        try:
            return reader.answer(HistoryRequest.from_parameters(parameters))
        except NoReportsError:
            return None


class Adversary:
    """Collects figures about one query, and isolates the smallest sets of answers that they tell
    apart."""

    def __init__(self) -> None:
        self.figures: set[frozenset[int]] = set()

    def read(self, document: Any) -> None:
        """Take every figure of a published document."""
        self.figures |= set(_figures(document))

    def isolated(self) -> list[set[int]]:
        """The atoms of all figures: answers that are in the same figures cannot be told apart, and
        all others can."""
        within = np.zeros((N_LABELS, len(self.figures)), dtype=bool)
        for column, figure in enumerate(self.figures):
            within[list(figure), column] = True
        seen: dict[bytes, set[int]] = {}
        for member in np.flatnonzero(within.any(axis=1)).tolist():
            seen.setdefault(within[member].tobytes(), set()).add(member)
        return list(seen.values())

    def exposed(self, cohorts: Sequence[int]) -> list[set[int]]:
        """The isolated sets that are smaller than the minimum cohort of their answers."""
        return [
            atom for atom in self.isolated() if len(atom) < max(cohorts[member] for member in atom)
        ]


def _figures(document: Any) -> Iterator[frozenset[int]]:
    """The members of every estimate and count in a document, however deep."""
    if isinstance(document, list):
        for part in document:
            yield from _figures(part)
    if isinstance(document, dict):
        for name, value in document.items():
            if (
                name in ("estimate", "counts")
                and isinstance(value, list)
                and len(value) == N_LABELS
            ):
                yield frozenset(np.flatnonzero(np.array(value) > _PRESENT).tolist())
            else:
                yield from _figures(value)
