"""The counts of a period within a budget: how much of it is read, and the result.

A period is read as whole granules (`deniable.aggregator.windows.granules`): those that lie within
it. A part of the reports is read in the `STEPS` of the slices. Of every granule, what lies between
two numbers of slices that may be asked for is empty or at least a minimum cohort, so that no two
answers, from whatever periods and fractions, differ by fewer.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.file_catalogue import complete_epochs, snapshot
from deniable.aggregator.history.report_files import SLICES, STEPS, ReportFolder
from deniable.aggregator.history.request import ReadBudget
from deniable.aggregator.history.scan import Progress, Scan
from deniable.aggregator.windows.granules import (
    Granule,
    pane_sizes,
    released_granules,
    released_panes,
)
from deniable.counts import Counts
from deniable.errors import NoReportsError, ReportFormatError
from deniable.queries.query import Query

__all__ = ["PeriodCounts", "ends_a_block", "read_panes", "read_period"]

_MOST_TRIES = 5
_RESERVE = 1.1
"""The factor by which a sample that a pilot finds large enough is enlarged, because the pilot has
an error of its own."""


Widest = Callable[[Sequence[Granule]], float | None]
"""Returns the half-width of the widest interval of an answer; None if there are too few reports for
one."""


@dataclass(frozen=True)
class PeriodCounts:
    """What was read of a period."""

    granules: Sequence[Granule]
    """With the counts of the reports that were read."""
    n_reports: int
    """How many reports they have."""
    sizes: Mapping[PaneKey, int]
    """How many reports the panes of the period have, released or not."""
    fraction: float
    """The probability with which each report was read."""
    notes: tuple[str, ...] = ()

    @cached_property
    def panes(self) -> Mapping[PaneKey, Counts]:
        """The reports that were read, by epoch."""
        return released_panes(self.granules)

    @property
    def held_back(self) -> int:
        """How many reports of the period are in no granule that lies whole within it."""
        return sum(self.sizes.values()) - self.n_reports

    @property
    def scanned(self) -> int:
        """How many reports were read."""
        return sum(granule.n for granule in self.granules)


def read_panes(connection: sqlite3.Connection, query: str, epochs: range) -> PeriodCounts:
    """The counts of a period that are kept for each epoch, whether or not its reports are kept."""
    granules = released_granules(connection, query, epochs)
    return PeriodCounts(
        granules, sum(granule.n for granule in granules), pane_sizes(connection, query, epochs), 1.0
    )


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
) -> PeriodCounts:
    """The counts of a period from its stored reports, or from as many of them as the budget allows.

    `connection` is to the aggregator's state, and used only briefly. A budget's margin needs
    `widest`, which says how wide the answer from some counts would be.
    """
    query = versions[-1].id
    by_serial = {version.serial: version for version in versions}
    for _ in range(_MOST_TRIES):
        found = snapshot(connection, query, epochs)
        if not found.n_reports:
            raise NoReportsError(f"the history has no reports of {query} in this period")
        stored = complete_epochs(connection, query, epochs)
        granules = [
            granule
            for granule in released_granules(connection, query, epochs)
            if all((key.serial, key.epoch) in stored for key in granule.panes)
        ]
        n_reports = sum(granule.n for granule in granules)
        sizes = {
            key: n
            for key, n in pane_sizes(connection, query, epochs).items()
            if (key.serial, key.epoch) in stored
        }
        try:
            scan = Scan(folder, found, by_serial, epochs, progress=progress, cancelled=cancelled)
            sample = _Sample(
                scan,
                granules,
                sizes,
                {serial: each.minimum_cohort for serial, each in by_serial.items()},
            )
            notes = _read(sample, budget or ReadBudget(), widest)
        # merged or deleted since the snapshot was taken, so there is a newer one
        except FileNotFoundError:
            continue
        return PeriodCounts(sample.granules(), n_reports, sizes, scan.fraction, notes)
    raise ReportFormatError(
        "the history's files are missing, or change faster than they can be read: ask again"
    )


def ends_a_block(read: Sequence[int], n: int, cohort: int) -> bool:
    """Whether a granule of `n` reports may be shown as far as it was read, given how many were read
    in each step so far.

    Steps are joined to blocks of at least a cohort, starting with the first; a part may end only
    with a block, and must leave a cohort or nothing.

    >>> ends_a_block([60], 1000, 50), ends_a_block([60, 10], 1000, 50), ends_a_block([60, 10, 40], 1000, 50)
    (True, False, True)
    >>> ends_a_block([60], 100, 50), ends_a_block([60, 40], 100, 50)
    (False, True)
    """
    block = 0
    for step in read:
        block = 0 if block + step >= cohort else block + step
    rest = n - sum(read)
    return rest == 0 or (block == 0 and rest >= cohort)


class _Sample:
    """What a scan has read of some granules."""

    def __init__(
        self,
        scan: Scan,
        granules: Sequence[Granule],
        sizes: Mapping[PaneKey, int],
        cohorts: Mapping[int, int],
    ) -> None:
        """`sizes` are the numbers of reports of the panes, `cohorts` the minimum cohorts of the
        versions."""
        self.scan, self._granules, self._cohorts = scan, granules, cohorts
        # Stored reports do not say which granule they are in: only a pane that is in one, and all
        # of it, can be read in part.
        self._single = [
            not granule.joined and all(pane.n == sizes[key] for key, pane in granule.panes.items())
            for granule in granules
        ]

    def granules(self) -> list[Granule]:
        """The granules with the counts of what was read; those that cannot be read in part, whole
        as they were released."""
        return [
            self._taken(granule) if single else granule
            for granule, single in zip(self._granules, self._single, strict=True)
        ]

    def _taken(self, granule: Granule) -> Granule:
        empty = {key: Counts.empty(pane.counts.size) for key, pane in granule.panes.items()}
        return granule._replace(
            panes={key: self.scan.panes.get(key, none) for key, none in empty.items()}
        )

    def may_be_shown(self) -> bool:
        """Whether what was read so far isolates fewer than a cohort nowhere."""
        if self.scan.slices == SLICES:
            return True
        n_steps = STEPS.index(self.scan.slices) + 1
        for granule in self._granules:
            steps = [self.scan.steps.get(key, [0] * len(STEPS))[:n_steps] for key in granule.panes]
            read = [sum(step) for step in zip(*steps, strict=True)]
            if not ends_a_block(read, granule.n, self._cohorts[granule.serial]):
                return False
        return True

    def read_to(self, slices: float) -> None:
        """Read up to the next step that has at least this many slices, and further until what was
        read may be shown."""
        least = slices if all(self._single) else SLICES
        for step in (step for step in STEPS if step >= min(least, SLICES)):
            self.scan.read_to(step / SLICES)
            if self.may_be_shown():
                return


def _read(sample: _Sample, budget: ReadBudget, widest: Widest | None) -> tuple[str, ...]:
    if budget.seconds is not None:
        return _read_for(sample, budget.seconds)
    if budget.margin is not None and widest is not None:
        return _read_until(sample, budget.margin, widest)
    fraction = 1.0 if budget.fraction is None else budget.fraction
    sample.read_to(fraction * SLICES - 1e-9)
    if sample.scan.fraction <= fraction + 1e-9:
        return ()
    why = (
        f"an answer may be from {', '.join(map(str, STEPS))} % of the reports, with at least the"
        " minimum cohort of every epoch"
    )
    return (
        (
            f"read {sample.scan.slices} % of the reports where {100 * fraction:g} % were asked for:"
            f" {why}"
        ),
    )


def _read_for(sample: _Sample, seconds: float) -> tuple[str, ...]:
    """Read as many slices as the time allows, at least one: first a few, to see how long they
    take."""
    scan, began = sample.scan, time.monotonic()
    sample.read_to(1)
    while scan.slices < SLICES:
        spent = time.monotonic() - began
        reachable = scan.slices * seconds / max(spent, 1e-9)
        steps = [step for step in STEPS if scan.slices < step <= min(reachable, 5 * scan.slices)]
        if not steps:
            break
        sample.read_to(steps[-1])
    return (f"read for {time.monotonic() - began:.2f} of {seconds:g} seconds",)


def _read_until(sample: _Sample, margin: float, widest: Widest) -> tuple[str, ...]:
    """Read slices until the widest interval is narrow enough; how many that takes is predicted from
    those already read.

    A variance falls at least as fast as 1/n, so the prediction is on the safe side.
    """
    scan = sample.scan
    sample.read_to(1)
    while True:
        reach = widest(sample.granules())
        if reach is not None and reach <= margin:
            return (
                (
                    f"the widest interval reaches ± {100 * reach:.3g} points; ± {100 * margin:.3g}"
                    " was asked for"
                ),
            )
        if scan.slices == SLICES:
            found = (
                "too few answers for some part" if reach is None else f"± {100 * reach:.3g} points"
            )
            return (f"all reports were read, and give {found}; ± {100 * margin:.3g} was asked for",)
        needed = (
            scan.slices * 2 if reach is None else scan.slices * _RESERVE * (reach / margin) ** 2
        )
        sample.read_to(max(scan.slices + 1, needed))
