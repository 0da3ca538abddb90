"""The history behind a service: maintained in the background, read and deleted on request."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable
from typing import Annotated, Any, TypedDict

import numpy as np

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.history.answer import HistoryReader
from deniable.aggregator.history.file_catalogue import (
    DeletionReceipt,
    first_open_epoch,
    kept_epochs,
)
from deniable.aggregator.history.maintenance import HistoryMaintainer
from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.state import Clock
from deniable.aggregator.windows.granules import pane_sizes, released_granules, released_panes
from deniable.documents import Timestamp, WrittenAs, times_of
from deniable.queries.times import with_times

__all__ = ["HistoryService", "epoch_counts", "history_reader"]

_SECONDS_BETWEEN_LOOKS = 2.0


def history_reader(
    connect: Callable[[], sqlite3.Connection], query_id: str, history: HistoryService | None
) -> HistoryReader:
    """A reader for questions about a query: from stored reports or, if none are kept, from counts
    alone."""
    connection = connect()
    try:
        versions = [entry.query for entry in published(connection, query_id)]
    finally:
        connection.close()
    return HistoryReader(None if history is None else history.keeper.folder, connect, versions)


class PaneDocument(TypedDict):
    """The counts of one epoch, or of several that are released together."""

    serial: int
    epoch: int
    start: Timestamp
    end: Timestamp
    stratum: str | None
    n: int
    counts: list[int]


class PanesDocument(TypedDict):
    """The counts of a period."""

    query: str
    panes: list[Annotated[dict[str, Any], WrittenAs(PaneDocument)]]
    withheld: int
    """Panes of which some reports are not given."""


class ExtentDocument(TypedDict):
    """The stored reports of a query."""

    n_reports: int
    start: Timestamp | None
    end: Timestamp | None


def epoch_counts(
    connection: sqlite3.Connection, query_id: str, start: int | None, end: int | None
) -> PanesDocument:
    """The counts of each closed epoch of a period, or of several together where one has fewer
    reports than the minimum cohort.

    Only whole granules within the period are given; `withheld` is the number of panes of which some
    reports are not.
    """
    versions = {entry.query.serial: entry.query for entry in published(connection, query_id)}
    schedule = versions[max(versions)].schedule
    first = 0 if start is None else max(0, -((start - schedule.origin) // -schedule.every))
    last = schedule.n_epochs if end is None else (end - schedule.origin) // schedule.every
    last = min(last, first_open_epoch(connection, query_id))
    epochs = range(first, max(first, last))
    granules = released_granules(connection, query_id, epochs)
    rows: list[dict[str, Any]] = []
    for granule in granules:
        query = versions[granule.serial]
        counts = sum(pane.counts for pane in granule.panes.values())
        pane: PaneDocument = {
            "serial": granule.serial,
            "epoch": granule.first,
            "start": schedule.start_of_epoch(granule.first),
            "end": schedule.end_of_epoch(granule.last),
            "stratum": query.strata[granule.stratum].name if query.strata else None,
            "n": granule.n,
            "counts": np.asarray(counts).tolist(),
        }
        rows.append(with_times(pane, *times_of(PaneDocument)))
    given = released_panes(granules)
    sizes = pane_sizes(connection, query_id, epochs)
    withheld = sum(n > (given[key].n if key in given else 0) for key, n in sizes.items())
    return {"query": query_id, "panes": rows, "withheld": withheld}


class HistoryService:
    """Maintains the files of a state. Only one process may do this for a state."""

    def __init__(
        self,
        settings: HistorySettings,
        connect: Callable[[], sqlite3.Connection],
        clock: Clock,
        engine: str,
    ) -> None:
        self.settings = settings
        self._connect, self._lock = connect, threading.Lock()
        self.keeper = HistoryMaintainer(
            connect(), settings, clock, own_batches=engine == "embedded"
        )

    def close(self) -> None:
        """Release the state."""
        self.keeper.connection.close()

    def step(self) -> float:
        """Do what is due; returns the seconds until the next step."""
        with self._lock:
            self.keeper.step()
        return _SECONDS_BETWEEN_LOOKS

    def delete(self, query_id: str) -> DeletionReceipt:
        """Delete all reports of a query; returns the receipt."""
        with self._lock:
            return self.keeper.delete(query_id)

    def receipts(self, query_id: str) -> list[DeletionReceipt]:
        """The receipts of deletions on request, oldest first."""
        connection = self._connect()
        try:
            rows = connection.execute(
                "SELECT document FROM history_receipts WHERE query = ? ORDER BY seq", (query_id,)
            )
            return [json.loads(document) for (document,) in rows]
        finally:
            connection.close()

    def extent(self, query_id: str) -> dict[str, Any]:
        """How many reports of a query there are, and from which period (seconds of UTC)."""
        connection = self._connect()
        try:
            found = kept_epochs(connection, query_id)
            extent: ExtentDocument = {"n_reports": 0, "start": None, "end": None}
            if found is not None:
                epochs, n = found
                schedule = published(connection, query_id)[-1].query.schedule
                extent = {
                    "n_reports": n,
                    "start": schedule.start_of_epoch(epochs.start),
                    "end": schedule.start_of_epoch(epochs.stop),
                }
        finally:
            connection.close()
        return with_times(extent, *times_of(ExtentDocument))
