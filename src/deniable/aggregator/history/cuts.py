"""New cuts of old answers: parts of a period, coarser buckets, marginals and conditionals, trends.

All of them follow from the counts of epochs and strata, because a mechanism's counts add up and its
estimate is linear in them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.report_files import SECONDS_PER_DAY, day_name
from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.windows.estimates import estimate_period
from deniable.aggregator.windows.granules import Granule, released_panes
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.intervals import critical_values
from deniable.estimation.tables.merging import Group, merged, proportions_among
from deniable.queries.columns.column import Column
from deniable.queries.columns.ranges import Range
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule, spoken_duration

__all__ = ["Part", "Trend", "cut_period", "relabel", "trend"]

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LONGEST = {"hour": 3600, "weekday": SECONDS_PER_DAY, "day": SECONDS_PER_DAY}


@dataclass(frozen=True)
class Part:
    """A part of an answer: an hour, a weekday, a day, a stratum, or the people with some label."""

    name: str
    n: int
    """The number of reports it is based on."""
    estimate: Estimate | None
    """None if it is withheld."""
    position: float | None = None
    """Its place in time, in days, if the parts are consecutive."""


def cut_period(
    request: HistoryRequest,
    versions: Sequence[Query],
    granules: Sequence[Granule],
    period: tuple[int, int],
    counted: Iterable[PaneKey] = (),
) -> list[Part]:
    """The parts that `by` or `given` asks for, with coarser buckets and marginals as requested.

    A granule that lies in several parts is in none of them. Parts of which nothing is released are
    listed if they have one of the `counted` panes.
    """
    newest, _, whole = estimate_period(versions, released_panes(granules), period)
    if request.given is not None:
        return [] if whole is None else _among(request, newest, whole)
    if request.by is None:
        return []
    same = {query.serial for query in versions if query.labels == newest.labels}
    groups: dict[int, list[Granule]] = {}
    place = _places(request.by, newest)
    for key in counted:
        if key.serial in same:
            groups[place(key)] = []
    for granule in granules:
        numbers = {place(key) for key in granule.panes}
        if granule.serial in same and len(numbers) == 1:
            groups.setdefault(numbers.pop(), []).append(granule)
    parts = []
    for number in sorted(groups):
        _, n, found = estimate_period(versions, released_panes(groups[number]), period)
        estimate = (
            None
            if found is None
            else relabel(request, newest, _without_strata_note(found, request.by))
        )
        parts.append(
            Part(
                _name(request.by, number, newest),
                n,
                estimate,
                float(number) if request.by == "day" else None,
            )
        )
    return parts


def _places(by: str, query: Query) -> Callable[[PaneKey], int]:
    schedule = query.schedule
    if by == "stratum":
        if not query.strata:
            raise ParameterError("by", by, f"needs strata, and {query.id} has none")
        return lambda key: key.stratum
    if schedule.every > _LONGEST[by]:
        rule = (
            f"needs epochs of at most {spoken_duration(_LONGEST[by])}, and those of {query.id}"
            " take "
        )
        raise ParameterError("by", by, rule + spoken_duration(schedule.every))
    if by == "hour":
        return lambda key: _start(schedule, key) // 3600 % 24
    if by == "weekday":
        # 1970 began on a Thursday
        return lambda key: (_start(schedule, key) // SECONDS_PER_DAY + 3) % 7
    return lambda key: _start(schedule, key) // SECONDS_PER_DAY


def _start(schedule: Schedule, key: PaneKey) -> int:
    return schedule.start_of_epoch(key.epoch)


def _name(by: str, number: int, query: Query) -> str:
    if by == "hour":
        return f"{number:02d}:00"
    if by == "weekday":
        return _WEEKDAYS[number]
    return day_name(number) if by == "day" else query.strata[number].name


def _without_strata_note(estimate: Estimate, by: str) -> Estimate:
    """The estimate without the note that the other strata are left out, which is obvious for a
    single stratum."""
    if by != "stratum":
        return estimate
    notes = tuple(
        note for note in estimate.notes if not note.startswith(("too few answers from", "strata "))
    )
    return dataclasses.replace(estimate, notes=notes)


# --- labels


def relabel(request: HistoryRequest, query: Query, estimate: Estimate) -> Estimate:
    """The estimate for the requested column and coarser buckets."""
    columns: Sequence[Column] = query.buckets.columns
    if request.marginal is not None:
        column = _column("marginal", request.marginal, query)
        if len(columns) > 1:
            estimate = merged(estimate, _column_groups(query, column))
        columns = [column]
    if request.merge:
        labels = [str(label) for label in estimate.labels]
        estimate = merged(
            estimate, merge_groups(labels, request.merge, columns[0] if len(columns) == 1 else None)
        )
    return estimate


def _column(parameter: str, name: str, query: Query) -> Column:
    for column in query.buckets.columns:
        if column.name == name:
            return column
    raise ParameterError(
        parameter,
        name,
        f"must be one of the columns {', '.join(c.name for c in query.buckets.columns)}",
    )


def _grid(query: Query) -> NDArray[np.intp]:
    """The indices of all buckets, with one axis per column."""
    return np.arange(len(query.buckets)).reshape([len(column) for column in query.buckets.columns])


def _column_groups(
    query: Query, column: Column, places: NDArray[np.intp] | None = None
) -> list[Group]:
    """For each label of a column, the buckets that have it."""
    grid = np.moveaxis(
        _grid(query) if places is None else places, query.buckets.columns.index(column), 0
    )
    return [(label, grid[i].reshape(-1).tolist()) for i, label in enumerate(column.labels)]


def _among(request: HistoryRequest, query: Query, whole: Estimate) -> list[Part]:
    """The distribution of the other columns among those who have each label of the column
    `given`."""
    condition = _column("given", str(request.given), query)
    others = [column for column in query.buckets.columns if column is not condition]
    if not others:
        raise ParameterError(
            "given", condition.name, "leaves nothing to estimate: the query has no other column"
        )
    column = others[0] if request.marginal is None else _column("marginal", request.marginal, query)
    if column is condition or (request.marginal is None and len(others) > 1):
        names = ", ".join(other.name for other in others)
        raise ParameterError(
            "marginal",
            request.marginal,
            f"must be one of the columns {names} beside given = {condition.name}",
        )
    at = query.buckets.columns.index(condition)
    parts = []
    for i, label in enumerate(condition.labels):
        inside = np.take(_grid(query), [i], axis=at)
        groups = _column_groups(query, column, inside)
        if request.merge:
            labels = [str(name) for name, _ in groups]
            chosen = merge_groups(labels, request.merge, column)
            groups = [
                (name, [place for j in places for place in groups[j][1]]) for name, places in chosen
            ]
        found = proportions_among(whole, groups, f"{condition.name} = {label}")
        parts.append(Part(f"{condition.name} = {label}", whole.n, found))
    return parts


def merge_groups(
    labels: Sequence[str], asked: Sequence[str], column: Column | None = None
) -> list[Group]:
    """The requested coarser buckets, in the order of the stored ones; buckets that are not named
    stay as they are.

    >>> merge_groups(["[0,1)", "[1,2)", "[2,3)", "other"], ["[0,2)"], Column("x", ["[0,1)", "[1,2)", "[2,3)"], other=True))
    [('[0,2)', [0, 1]), ('[2,3)', [2]), ('other', [3])]
    >>> merge_groups(["red", "blue", "green"], ["cold=blue|green"])
    [('red', [0]), ('cold', [1, 2])]
    >>> merge_groups(["[0,1)", "[1,2)"], ["[0,1.5)"], Column("x", ["[0,1)", "[1,2)"]))
    Traceback (most recent call last):
    deniable.errors.ParameterError: merge = '[0,1.5)' splits the stored bucket '[1,2)': reports do not tell its halves apart
    """
    if len(asked) == 1 and asked[0].isascii() and asked[0].isdecimal():
        return _neighbours(labels, int(asked[0]), column)
    groups: list[Group] = []
    taken: dict[int, str] = {}
    for text in asked:
        name, places = (
            _named(text, labels) if "=" in text else (text, _inside(text, labels, column))
        )
        for place in places:
            if place in taken:
                raise ParameterError(
                    "merge",
                    text,
                    f"includes {labels[place]!r}, which is already in {taken[place]!r}",
                )
            taken[place] = text
        groups.append((name, places))
    groups += [(label, [i]) for i, label in enumerate(labels) if i not in taken]
    groups.sort(key=lambda group: min(group[1]))
    names = [str(name) for name, _ in groups]
    twice = next((name for i, name in enumerate(names) if name in names[:i]), None)
    if twice is not None:
        raise ParameterError("merge", twice, "is the name of two buckets")
    return groups


def _neighbours(labels: Sequence[str], n: int, column: Column | None) -> list[Group]:
    if n < 1:
        raise ParameterError("merge", n, "must be at least 1: so many neighbours become one bucket")
    k = len(labels) - (column is not None and column.other)
    groups: list[Group] = []
    for start in range(0, k, n):
        places = list(range(start, min(start + n, k)))
        name = labels[start] if len(places) == 1 else f"{labels[start]} to {labels[places[-1]]}"
        if column is not None and column.kind == "number":
            first, last = (column.buckets[place] for place in (places[0], places[-1]))
            assert isinstance(first, Range)  # noqa: S101 - numbers have ranges
            assert isinstance(last, Range)  # noqa: S101
            name = str(Range(first.low, last.high, first.low_closed, last.high_closed))
        groups.append((name, places))
    return groups + [(label, [i]) for i, label in enumerate(labels) if i >= k]


def _named(text: str, labels: Sequence[str]) -> tuple[str, list[int]]:
    name, _, rest = text.partition("=")
    places = []
    for label in rest.split("|"):
        if label not in labels:
            raise ParameterError(
                "merge",
                text,
                f"names {label!r}, which is no stored bucket; there are {', '.join(labels)}",
            )
        places.append(labels.index(label))
    if not name or len(set(places)) < len(places):
        raise ParameterError(
            "merge", text, "must be name=label|label, with a name and no label twice"
        )
    return name, sorted(places)


def _inside(text: str, labels: Sequence[str], column: Column | None) -> list[int]:
    if column is None or column.kind != "number":
        raise ParameterError(
            "merge",
            text,
            "must be name=label|label: these buckets are no ranges of one column of numbers",
        )
    try:
        wanted = Range.parse(text)
    except ParameterError as error:
        raise ParameterError(
            "merge", text, f"{error.rule}, name=label|label, or a number of neighbours"
        ) from None
    places = []
    for i, stored in enumerate(column.buckets):
        assert isinstance(stored, Range)  # noqa: S101 - numbers have ranges
        if stored.last < wanted.first or stored.first > wanted.last:
            continue
        if stored.first < wanted.first or stored.last > wanted.last:
            raise ParameterError(
                "merge",
                text,
                f"splits the stored bucket {str(stored)!r}: reports do not tell its halves apart",
            )
        places.append(i)
    if not places:
        raise ParameterError("merge", text, f"holds none of the stored buckets {', '.join(labels)}")
    return places


# --- trends


@dataclass(frozen=True, eq=False)
class Trend:
    """How each proportion changes per day: the slope of the line through the days' estimates,
    weighted by their reports."""

    labels: tuple[Any, ...]
    slope: NDArray[np.float64]
    covariance: NDArray[np.float64] | None
    variance: NDArray[np.float64]

    def to_dict(self, confidence: float, simultaneous: bool) -> dict[str, Any]:
        """Slopes per day with limits, and the probability of one at least as steep if there is no
        trend (two-sided, normal)."""
        from scipy.special import ndtr  # noqa: PLC0415 - slow to import

        free = np.full(self.slope.size, np.inf)
        stderr = np.sqrt(self.variance)
        reach = critical_values(confidence, free, self.covariance, simultaneous) * stderr
        z = np.divide(self.slope, stderr, out=np.zeros_like(self.slope), where=stderr > 0)
        return {
            "labels": list(self.labels),
            "slope_per_day": self.slope.tolist(),
            "stderr": stderr.tolist(),
            "low": (self.slope - reach).tolist(),
            "high": (self.slope + reach).tolist(),
            "p": (2 * ndtr(-np.abs(z))).tolist(),
        }


def trend(parts: Sequence[Part]) -> Trend | None:
    """The trend over parts that are consecutive in time; None for fewer than three.

    With t_d the days, n_d their reports, weights w_d = n_d and c_d = w_d (t_d - mean t) / sum w (t
    - mean t)^2, the slope is the sum of c_d p_d and its covariance the sum of c_d^2 C_d. Weights
    that depend only on counts of reports leave it unbiased.
    """
    days = [
        (part.position, part.n, part.estimate)
        for part in parts
        if part.position is not None and part.estimate is not None
    ]
    if len(days) < 3:
        return None
    at = np.array([position for position, _, _ in days], dtype=np.float64)
    weights = np.array([n for _, n, _ in days], dtype=np.float64)
    away = at - (weights * at).sum() / weights.sum()
    factors = weights * away / (weights * away**2).sum()
    estimates = [estimate for _, _, estimate in days if estimate is not None]
    covariances = [estimate.covariance for estimate in estimates]
    return Trend(
        estimates[0].labels,
        np.sum(
            [c * estimate.proportions for c, estimate in zip(factors, estimates, strict=True)],
            axis=0,
        ),
        (
            None
            if any(c is None for c in covariances)
            else sum(f**2 * c for f, c in zip(factors, covariances, strict=True) if c is not None)
        ),
        np.sum(
            [c**2 * estimate.variance for c, estimate in zip(factors, estimates, strict=True)],
            axis=0,
        ),
    )
