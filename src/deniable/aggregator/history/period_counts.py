"""The counts of a period within a budget: how much of it is read, and the result."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deniable.aggregator.history.file_catalogue import snapshot
from deniable.aggregator.history.history_request import ReadBudget
from deniable.aggregator.history.report_files import SLICES, ReportFolder
from deniable.aggregator.history.scan import Progress, Scan
from deniable.aggregator.panes import Pane, PaneKey
from deniable.aggregator.state import stored_panes
from deniable.errors import NoReportsError, ReportFormatError
from deniable.queries.query import Query
from deniable.randomness import Source

__all__ = ["PeriodCounts", "read_panes", "read_period"]

_MOST_TRIES = 5
_RESERVE = 1.1
"""The factor by which a sample that a pilot finds large enough is enlarged, because the pilot has an error of its own."""


Widest = Callable[[Mapping[PaneKey, Pane]], float | None]
"""Returns the half-width of the widest interval of an answer; None if there are too few reports for one."""


@dataclass(frozen=True)
class PeriodCounts:
    """What was read of a period."""

    panes: Mapping[PaneKey, Pane]
    n_reports: int
    """How many reports of the period there are."""
    fraction: float
    """The probability with which each of them was read."""
    notes: tuple[str, ...] = ()

    @property
    def scanned(self) -> int:
        """How many were read."""
        return sum(pane.n for pane in self.panes.values())


def read_panes(connection: sqlite3.Connection, query: str, epochs: range) -> PeriodCounts:
    """The counts of a period that are kept for each epoch, whether or not its reports are kept."""
    panes = stored_panes(connection, query, epochs)
    return PeriodCounts(panes, sum(pane.n for pane in panes.values()), 1.0)


def read_period(
    folder: ReportFolder,
    connection: sqlite3.Connection,
    versions: Sequence[Query],
    epochs: range,
    budget: ReadBudget | None = None,
    widest: Widest | None = None,
    *,
    progress: Progress | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    source: Source | None = None,
) -> PeriodCounts:
    """The counts of a period from its stored reports, or from as many of them as the budget allows.

    `connection` is to the aggregator's state, and used only briefly. A budget's margin needs `widest`, which says how wide the
    answer from some counts would be. `source` draws the thinning: for simulation.
    """
    budget = budget or ReadBudget()
    for _ in range(_MOST_TRIES):
        found = snapshot(connection, versions[-1].id, epochs)
        if not found.n_reports:
            raise NoReportsError(f"the history has no reports of {versions[-1].id} in this period")
        by_serial = {query.serial: query for query in versions}
        try:
            scan = Scan(folder, found, by_serial, epochs, progress=progress, cancelled=cancelled, source=source)
            notes = _read(scan, budget, widest)
        except FileNotFoundError:  # merged or deleted since the snapshot was taken, so there is a newer one
            continue
        return PeriodCounts(scan.panes, found.n_reports, scan.fraction, notes)
    raise ReportFormatError("the history's files are missing, or change faster than they can be read: ask again")


def _read(scan: Scan, budget: ReadBudget, widest: Widest | None) -> tuple[str, ...]:
    if budget.seconds is not None:
        return _read_for(scan, budget.seconds)
    if budget.margin is not None and widest is not None:
        return _read_until(scan, budget.margin, widest)
    scan.read_to(1.0 if budget.fraction is None else budget.fraction)
    return ()


def _read_for(scan: Scan, seconds: float) -> tuple[str, ...]:
    """Read as many slices as the time allows, at least one: first a few, to see how long they take."""
    began = time.monotonic()
    step = 1
    while True:
        before = time.monotonic()
        scan.read_to((scan.slices + step) / SLICES)
        now = time.monotonic()
        left, each = seconds - (now - began), (now - before) / step
        if scan.slices == SLICES or left < each:
            break
        step = min(SLICES - scan.slices, max(1, int(0.8 * left / max(each, 1e-9))), 4 * scan.slices)
    return (f"read for {time.monotonic() - began:.2f} of {seconds:g} seconds",)


def _read_until(scan: Scan, margin: float, widest: Widest) -> tuple[str, ...]:
    """Read slices until the widest interval is narrow enough; how many that takes is predicted from those already read.

    A variance falls at least as fast as 1/n, so the prediction is on the safe side.
    """
    scan.read_to(1 / SLICES)
    while True:
        reach = widest(scan.panes)
        if reach is not None and reach <= margin:
            return (f"the widest interval reaches ± {100 * reach:.3g} points; ± {100 * margin:.3g} was asked for",)
        if scan.slices == SLICES:
            found = "too few answers for some part" if reach is None else f"± {100 * reach:.3g} points"
            return (f"all reports were read, and give {found}; ± {100 * margin:.3g} was asked for",)
        needed = scan.slices * 2 if reach is None else int(np.ceil(scan.slices * _RESERVE * (reach / margin) ** 2))
        scan.read_to(min(SLICES, max(scan.slices + 1, needed)) / SLICES)
