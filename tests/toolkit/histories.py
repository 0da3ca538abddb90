"""A history in a test: reports that an engine has counted, or that are filed straight away, and
someone who asks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.answer import HistoryReader
from deniable.aggregator.history.file_catalogue import ensure_slice_key, snapshot
from deniable.aggregator.history.maintenance import HistoryMaintainer
from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.history.scan import Scan
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import State, connect
from deniable.aggregator.step import Step
from deniable.aggregator.windows.granules import form_granules
from deniable.counts import Counts
from deniable.queries.query import Query
from deniable.queries.signed.signing import sign
from deniable.randomness import Source
from toolkit.crowds import KEY, RING

EVERYTHING = range(1 << 40)


class FiledHistory:
    """A state and a folder to which reports are filed without shares, proxies and engines."""

    def __init__(self, folder: Path, versions: Sequence[Query], **settings: Any) -> None:
        self.path, self.versions = folder / "state.db", list(versions)
        self.settings = HistorySettings(str(folder / "history"), **settings)
        self.now = versions[0].schedule.origin
        self.state = State(self.path, versions[0].proxies)
        with self.state.transaction():
            ensure_slice_key(self.state.connection)
            for query in versions:
                publish(self.state.connection, sign(query, KEY), RING, query.proxies, self.now)
        self.keeper = HistoryMaintainer(connect(self.path), self.settings, lambda: self.now)

    def file(
        self, query: Query, answers: NDArray[np.intp], epochs: Any, strata: Any, source: Source
    ) -> None:
        """Randomize answers, count them and stage the reports: what a step of an engine does."""
        n = len(answers)
        epochs, strata = np.broadcast_to(epochs, n), np.broadcast_to(strata, n)
        drawn = query.mechanism.draw(np.asarray(answers, dtype=np.intp), source)
        rows = np.ascontiguousarray(drawn).reshape(n, -1).view(np.uint8)
        step = Step()
        order = np.lexsort([strata, epochs])
        changes = np.any(np.diff(np.stack([epochs[order], strata[order]])), axis=0)
        for chosen in np.split(order, np.flatnonzero(changes) + 1):
            epoch, stratum = int(epochs[chosen[0]]), int(strata[chosen[0]])
            key = PaneKey(query.id, query.serial, epoch, stratum)
            step.panes[key] = Counts(query.mechanism.count(drawn[chosen]), chosen.size)
            step.reports.append((key, rows[chosen]))
        with self.state.transaction():
            self.state.apply(step)
            self.state.connection.execute(
                "UPDATE channels SET front = max(front, ?)", (int(epochs.max()) + 1,)
            )
            form_granules(self.state.connection, self.versions, range(int(epochs.max()) + 1))

    def publish(self) -> None:
        """Move everything to files."""
        self.keeper.publish(everything=True)

    def reader(self) -> HistoryReader:
        return HistoryReader(self.keeper.folder, lambda: connect(self.path), self.versions)

    def ask(self, **parameters: Any) -> dict[str, Any]:
        return self.reader().answer(HistoryRequest.from_parameters(parameters))

    def counted(self) -> dict[PaneKey, Counts]:
        """The panes of windows."""
        return self.state.panes(self.versions[0].id, EVERYTHING)

    def stored(self) -> dict[PaneKey, Counts]:
        """The same, counted from the stored reports."""
        return stored_counts(self.keeper.connection, self.keeper, self.versions)

    def close(self) -> None:
        self.keeper.connection.close()
        self.state.close()


def stored_counts(
    connection: sqlite3.Connection, keeper: HistoryMaintainer, versions: Sequence[Query]
) -> dict[PaneKey, Counts]:
    """The panes of all stored reports of a query."""
    scan = Scan(
        keeper.folder,
        snapshot(connection, versions[0].id, EVERYTHING),
        {q.serial: q for q in versions},
        EVERYTHING,
    )
    scan.read_to(1.0)
    return scan.panes


def without_silence(panes: dict[PaneKey, Counts]) -> dict[PaneKey, Counts]:
    """Panes without messages that said nothing, which leave no report."""
    return {key: Counts(pane.counts, pane.n) for key, pane in panes.items() if pane.n}


def filed_rows(folder: Path) -> Iterator[Any]:
    """The tables of all files."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - beside its only use

    for path in sorted(folder.rglob("*.parquet")):
        yield pq.ParquetFile(path).read()
