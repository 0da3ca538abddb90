"""The history's answers: estimates of a period and of its parts, differences and trends, and what
they are based on."""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.aggregator.history.answer_documents import (
    AgainstDocument,
    AnswerHead,
    AnswerRest,
    DifferenceDocument,
    PartDifference,
    PartHead,
)
from deniable.aggregator.history.cuts import Part, cut_period, relabel, trend
from deniable.aggregator.history.file_catalogue import first_open_epoch, kept_epochs
from deniable.aggregator.history.period_counts import PeriodCounts, read_panes, read_period
from deniable.aggregator.history.report_files import ReportFolder
from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.history.scan import Progress
from deniable.aggregator.windows.estimate_documents import describe_estimate, plain_figures
from deniable.aggregator.windows.estimates import estimate_period
from deniable.aggregator.windows.granules import Granule, released_panes
from deniable.errors import NoReportsError, ParameterError
from deniable.estimation.comparison import Comparison, compare
from deniable.estimation.estimate import Estimate
from deniable.queries.query import Query
from deniable.queries.schedule import spoken_duration
from deniable.queries.times import iso_time
from deniable.results import encode

__all__ = ["STATEMENT", "HistoryReader"]

STATEMENT = (
    "Nobody was asked again. These reports were randomized before they left their devices, so this"
    " answer tells nothing more about anyone: nobody's epsilon grew."
)


@dataclass(frozen=True)
class _Read:
    """A period, what was read from it, and its estimate."""

    epochs: range
    period: tuple[int, int]
    counts: PeriodCounts
    newest: Query
    estimate: Estimate
    parts: list[Part]


@dataclass(frozen=True)
class HistoryReader:
    """Answers questions about one query from its stored reports."""

    folder: ReportFolder | None
    """None if no reports are kept: then only `source = "panes"` is possible."""
    connect: Callable[[], sqlite3.Connection]
    """Opens a connection to the aggregator's state, which is closed afterwards."""
    versions: Sequence[Query]
    """All versions of the query, oldest first."""

    def answer(
        self,
        request: HistoryRequest,
        progress: Progress | None = None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> dict[str, Any]:
        """The answer as JSON data (docs/history.md)."""
        first = self._read(
            request, (request.start, request.end), ("from", "to"), progress, cancelled
        )
        second = None
        if request.against_start is not None:
            fields = (request.against_start, request.against_end)
            second = self._read(
                request, fields, ("against_from", "against_to"), progress, cancelled
            )
            _refuse_overlap(first, second)
        # Parts have different reports, so all of them cover jointly if each covers with this
        # confidence.
        n_parts = max(1, sum(part.estimate is not None for part in first.parts))
        confidence = (
            request.confidence ** (1 / n_parts)
            if request.simultaneous and request.given is None
            else request.confidence
        )
        if request.simultaneous and request.given is not None:
            # conditions share reports: Bonferroni
            confidence = 1 - (1 - request.confidence) / n_parts
        described = describe_estimate(first.estimate, request.confidence, request.simultaneous)
        rest: AnswerRest = {
            "parts": [_part(part, request, confidence) for part in first.parts],
            "trend": _trend(first.parts, request),
            "against": None if second is None else _against(request, first, second, confidence),
            "epsilon_spent": 0,
            "statement": STATEMENT,
        }
        return {**_head(request, first), **described, **rest}

    def _read(
        self,
        request: HistoryRequest,
        bounds: tuple[int | None, int | None],
        names: tuple[str, str],
        progress: Progress | None,
        cancelled: Callable[[], bool],
    ) -> _Read:
        connection = self.connect()
        try:
            epochs = self._epochs(connection, bounds, names, request.source)
            schedule = self.versions[-1].schedule
            period = schedule.start_of_epoch(epochs.start), schedule.start_of_epoch(epochs.stop)
            counts = self._counts(connection, request, epochs, progress, cancelled)
        finally:
            connection.close()
        if not counts.scanned and not counts.held_back:
            raise NoReportsError(
                f"there are no reports of {self.versions[-1].id} {_spoken(period)}"
            )
        newest, n, found = estimate_period(self.versions, counts.panes, period)
        if found is None:
            least = max(query.minimum_cohort for query in self.versions)
            what = (
                "answers"
                if counts.fraction == 1.0
                else f"answers in the {100 * counts.fraction:g} % that was read"
            )
            few = (
                f"{newest.id} has {n:,} {what} {_spoken(period)} that can be released; at least"
                f" {least:,} are needed"
            )
            why = f": {_spoken_held_back(counts.held_back)}" if counts.held_back else ""
            raise NoReportsError(few + why)
        if request.marginal is not None and request.given is not None:
            estimate = found
        else:
            estimate = found if request.given is not None else relabel(request, newest, found)
        parts = cut_period(request, self.versions, counts.granules, period, counts.sizes)
        return _Read(epochs, period, counts, newest, estimate, parts)

    def _counts(
        self,
        connection: sqlite3.Connection,
        request: HistoryRequest,
        epochs: range,
        progress: Progress | None,
        cancelled: Callable[[], bool],
    ) -> PeriodCounts:
        if request.source == "panes":
            return read_panes(connection, self.versions[-1].id, epochs)
        if self.folder is None:
            rule = (
                "must be 'panes' here: this aggregator keeps no reports, its settings have no"
                " [history]"
            )
            raise ParameterError("source", request.source, rule)
        how: dict[str, Any] = {"progress": progress, "cancelled": cancelled}
        widest = functools.partial(self._widest, request, epochs)
        return read_period(
            self.folder, connection, self.versions, epochs, request.budget, widest, **how
        )

    def _widest(
        self, request: HistoryRequest, epochs: range, granules: Sequence[Granule]
    ) -> float | None:
        """Half the width of the widest interval in the answer; None if an estimate is withheld."""
        schedule = self.versions[-1].schedule
        period = schedule.start_of_epoch(epochs.start), schedule.start_of_epoch(epochs.stop)
        newest, _, found = estimate_period(self.versions, released_panes(granules), period)
        if found is None:
            return None
        parts = [part.estimate for part in cut_period(request, self.versions, granules, period)]
        reaches = [
            float(
                np.max(
                    np.ptp(
                        estimate.interval(request.confidence, simultaneous=request.simultaneous),
                        axis=1,
                    )
                )
                / 2
            )
            for estimate in parts or [relabel(request, newest, found)]
            if estimate is not None
        ]
        return max(reaches, default=None) if None not in parts else None

    def _epochs(
        self,
        connection: sqlite3.Connection,
        bounds: tuple[int | None, int | None],
        names: tuple[str, str],
        source: str,
    ) -> range:
        """The whole epochs of a period; if it is open-ended, from the first or to the last
        report."""
        query = self.versions[-1]
        every, origin = query.schedule.every, query.schedule.origin
        if source == "panes":
            first, last = connection.execute(
                "SELECT min(epoch), max(epoch) FROM panes WHERE query = ?", (query.id,)
            ).fetchone()
            known = None if first is None else range(first, last + 1)
        else:
            found = kept_epochs(connection, query.id) if self.folder is not None else None
            known = range(1) if self.folder is None else None if found is None else found[0]
        if known is None:
            raise NoReportsError(f"the history has no reports of {query.id}")
        start = known.start if bounds[0] is None else max(0, -((bounds[0] - origin) // -every))
        stop = known.stop if bounds[1] is None else max(0, (bounds[1] - origin) // every)
        stop = min(stop, first_open_epoch(connection, query.id))
        if start >= stop:
            if bounds == (None, None):
                raise NoReportsError(f"no epoch of {query.id} with reports is closed yet")
            given = [
                f"{name} = {iso_time(bound)}"
                for name, bound in zip(names, bounds, strict=True)
                if bound is not None
            ]
            length = spoken_duration(every)
            rule = f"only whole epochs that are closed count, and they take {length} each"
            raise NoReportsError(
                f"the history has no reports of {query.id} for {' and '.join(given)}: {rule}"
            )
        return range(start, stop)


def _spoken(period: tuple[int, int]) -> str:
    return f"from {iso_time(period[0])} to {iso_time(period[1])}"


def _spoken_held_back(n: int) -> str:
    """Why some reports of a period are not in its answer."""
    why = (
        "they are too few to be released by themselves, or are released together with epochs"
        " outside the period"
    )
    return f"{n:,} reports are held back, because {why}"


def _refuse_overlap(first: _Read, second: _Read) -> None:
    if first.epochs.start < second.epochs.stop and second.epochs.start < first.epochs.stop:
        rule = "must not overlap the first period: what both hold would be compared with itself"
        raise ParameterError("against_from", iso_time(second.period[0]), rule)
    if first.estimate.labels != second.estimate.labels:
        rule = (
            "must have the buckets of the first period: a version of the query changed them in"
            " between"
        )
        raise ParameterError("against_from", iso_time(second.period[0]), rule)


def _head(request: HistoryRequest, read: _Read) -> AnswerHead:
    return {
        "query": read.newest.id,
        "serial": read.newest.serial,
        "start": read.period[0],
        "end": read.period[1],
        "source": request.source,
        "n_reports": read.counts.n_reports,
        "scanned": read.counts.scanned,
        "fraction": read.counts.fraction,
        "budget": {
            name: value for name, value in vars(request.budget).items() if value is not None
        },
        "held_back": read.counts.held_back,
        "reading": [
            *read.counts.notes,
            *([_spoken_held_back(read.counts.held_back)] if read.counts.held_back else []),
        ],
        "by": request.by or (None if request.given is None else "given"),
        "simultaneous": request.simultaneous,
    }


def _part(part: Part, request: HistoryRequest, confidence: float) -> dict[str, Any]:
    document: PartHead = {
        "name": part.name,
        "n": part.n,
        "condition": "withheld" if part.estimate is None else "complete",
    }
    if part.estimate is None:
        return dict(document)
    described = describe_estimate(part.estimate, confidence, request.simultaneous)
    return {**document, **described, "confidence": request.confidence}


def _trend(parts: Sequence[Part], request: HistoryRequest) -> dict[str, Any] | None:
    found = trend(parts) if request.by == "day" else None
    if found is None:
        return None
    document = found.to_dict(request.confidence, request.simultaneous)
    return {**document, "labels": encode(list(found.labels))}


def _against(
    request: HistoryRequest, first: _Read, second: _Read, confidence: float
) -> AgainstDocument:
    """The first period minus the second, as a whole and part by part."""
    earlier = {part.name: part.estimate for part in second.parts}
    parts: list[PartDifference] = []
    for part in first.parts:
        other = earlier.get(part.name)
        if part.estimate is not None and other is not None:
            difference = compare(part.estimate, other)
            parts.append(
                {"name": part.name, **_difference(difference, confidence, request.simultaneous)}
            )
    return {
        "start": second.period[0],
        "end": second.period[1],
        "n_reports": second.counts.n_reports,
        "scanned": second.counts.scanned,
        "fraction": second.counts.fraction,
        "estimate": describe_estimate(second.estimate, request.confidence, request.simultaneous),
        "difference": _difference(
            compare(first.estimate, second.estimate), request.confidence, request.simultaneous
        ),
        "parts": parts,
    }


def _difference(found: Comparison, confidence: float, simultaneous: bool) -> DifferenceDocument:
    limits = found.interval(confidence, simultaneous=simultaneous)
    statistic, degrees, p = found.overall()
    return {
        "labels": encode(list(found.labels)),
        "difference": plain_figures(found.difference.tolist()),
        "stderr": plain_figures(found.stderr.tolist()),
        "low": plain_figures(limits[:, 0].tolist()),
        "high": plain_figures(limits[:, 1].tolist()),
        "p": plain_figures(found.p_value.tolist()),
        "n": list(found.n),
        "overall": {
            "chi_square": plain_figures(statistic),
            "degrees": plain_figures(degrees),
            "p": plain_figures(p),
        },
    }
