"""Quantiles of an estimated distribution, with intervals by tests of the distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_range
from deniable.errors import ParameterError
from deniable.estimation.interval_laws import (
    BinnedQuantileLaw,
    IntervalLaw,
    QuantileLaw,
)
from deniable.estimation.simplex import ascending
from deniable.estimation.tables.deriving import Subject, marginal_table, of_unbiased, scored_table
from deniable.estimation.tables.edge_means import edge_means
from deniable.estimation.tables.statistic import Statistic
from deniable.estimation.tables.table import Table

__all__ = ["MONOTONE", "quantile"]

_Floats = NDArray[np.float64]


_LARGEST_CUMULATED = 1025
"""The most edges for which the error of the distribution is computed at each."""


_POINTS_A_BIN = 8


MONOTONE = (
    "the cumulative distribution was first replaced by the nearest one that does not fall, because"
    " some proportions were negative"
)


@of_unbiased
def quantile(
    subject: Subject,
    level: float = 0.5,
    axis: str | None = None,
    scores: Sequence[float] | None = None,
    edges: Sequence[float] | None = None,
    evenly: bool = False,
) -> Statistic:
    """The smallest value that a proportion `level` of the population does not exceed; by default
    the median.

    Labels that are whole numbers, and `scores`, are the values themselves. Other numbers, and
    `edges` (one more than labels), are bins: without `edges` from the midpoints between
    neighbouring labels, the outermost reaching as far to either side. Bins that begin and end
    halfway between whole numbers hold whole numbers. With F the estimated distribution, the
    interval has all values of all bins that may hold the quantile, as tests of F at their edges
    find them (Woodruff, "Confidence intervals for medians and other position measures", JASA 1952):
    it covers however people are spread. Where single bins are noisy, F is tested by its means over
    several edges (:mod:`deniable.estimation.tables.edge_means`). The value is interpolated.

    With `evenly`, people count as spread evenly over each bin, which smooth data are nearly and
    rounded ones are not. The interval then consists of the points at which F, a straight line
    within each bin, is within its own errors of the level.

    With s the standard error of F at the quantile, the standard error is half the distance over
    which such an F crosses from level - s to level + s. If negative proportions make F fall, the
    value is that of the nearest F that does not, and `notes` says so.
    """
    check_range("level", level, above=0, below=1)
    listed = edges is None and (scores is not None or _whole_labels(subject, axis))
    bounds = None if edges is None else _check_edges(edges)
    table, values = scored_table(
        subject, axis, scores if bounds is None else (bounds[1:] + bounds[:-1]) / 2
    )
    bounds = _midpoints(table.axes[0], values) if bounds is None else bounds
    below = np.concatenate([[0.0], np.cumsum(table.proportions)])
    below[-1] = 1.0
    raw = below.copy()
    falls = bool(np.any(np.diff(below) < 0))
    if falls:
        below[1:-1] = np.clip(ascending(below[1:-1]), 0, 1)
    value = float(np.interp(level, below, bounds))
    weights = np.clip((value - bounds[:-1]) / np.diff(bounds), 0, 1)
    s = math.sqrt(table.covariance_of(weights[None])[0, 0])
    low, high = np.interp([level - s, level + s], below, bounds)
    name = f"{level:g} quantile of {table.axes[0]}"
    covariance = _edge_covariance(table)
    law: IntervalLaw
    if evenly:
        law = QuantileLaw(level, *_cumulated(bounds, raw, covariance, s), table.stderr)
    else:
        lowest, highest = (values, values) if listed else _ends(bounds)
        bin_ = min(int(np.searchsorted(below[1:], level)), values.size - 1)
        value = min(
            max(float(np.round(value)) if _holds_whole(bounds) else value, lowest[bin_]),
            highest[bin_],
        )
        law = _binned_law(level, lowest, highest, raw, covariance, s)
    return Statistic(
        name,
        value,
        float(high - low) / 2,
        table.n,
        (*table.notes, *([MONOTONE] if falls else [])),
        law,
    )


def _whole_labels(subject: Subject, axis: str | None) -> bool:
    """Whether the labels are whole numbers, each of which is a value by itself."""
    labels = marginal_table(subject, axis).labels[0]
    return all(isinstance(label, int) for label in labels)


def _holds_whole(edges: _Floats) -> bool:
    return bool(np.all(edges % 1 == 0.5))


def _ends(edges: _Floats) -> tuple[_Floats, _Floats]:
    """The smallest and the largest value of each bin."""
    inside = 0.5 if _holds_whole(edges) else 0.0
    return edges[:-1] + inside, edges[1:] - inside


def _edge_covariance(table: Table) -> _Floats | None:
    """The covariance of the estimated F at the edges, 0 at the ends, where F is 0 and 1 for
    certain; None if there are too many edges."""
    bins = table.proportions.size
    if bins + 1 > _LARGEST_CUMULATED:
        return None
    return np.pad(table.covariance_of(np.tri(bins - 1, bins)), 1)


def _equal_errors(edges: int, at_quantile: float) -> _Floats:
    """Standard errors of F at the edges, where there are too many to compute each."""
    return np.concatenate([[0.0], np.full(edges - 2, at_quantile), [0.0]])


def _binned_law(
    level: float,
    lowest: _Floats,
    highest: _Floats,
    below: _Floats,
    covariance: _Floats | None,
    at_quantile: float,
) -> BinnedQuantileLaw:
    if covariance is None:
        return BinnedQuantileLaw(
            level, lowest, highest, below, _equal_errors(below.size, at_quantile)
        )
    means = edge_means(below, covariance)
    return BinnedQuantileLaw(
        level,
        lowest,
        highest,
        means.at_most,
        means.at_most_stderr,
        means.at_least,
        means.at_least_stderr,
    )


def _cumulated(
    edges: _Floats, below: _Floats, covariance: _Floats | None, at_quantile: float
) -> tuple[_Floats, _Floats, _Floats]:
    """Points along the edges and between them, F there, and its standard error.

    Between two edges F is their weighted mean, so its variance is made of theirs and their
    covariance.
    """
    if covariance is None:
        return edges, below, _equal_errors(edges.size, at_quantile)
    own, next_to = np.diagonal(covariance), np.diagonal(covariance, 1)
    part = np.arange(_POINTS_A_BIN) / _POINTS_A_BIN
    between = (
        (1 - part) ** 2 * own[:-1, None]
        + part**2 * own[1:, None]
        + 2 * part * (1 - part) * next_to[:, None]
    )
    points = np.append((edges[:-1, None] + np.diff(edges)[:, None] * part).reshape(-1), edges[-1])
    return (
        points,
        np.interp(points, edges, below),
        np.append(np.sqrt(np.maximum(between, 0)).reshape(-1), 0.0),
    )


def _check_edges(edges: Sequence[float]) -> _Floats:
    bounds = np.asarray(edges, dtype=np.float64)
    if bounds.ndim != 1 or bounds.size < 2 or not np.all(np.diff(bounds) > 0):
        raise ParameterError("edges", edges, "must ascend, one more than there are labels")
    return bounds


def _midpoints(name: str, values: _Floats) -> _Floats:
    if not np.all(np.diff(values) > 0):
        raise ParameterError(
            "scores", values.tolist(), f"must ascend along the labels of {name!r} for a quantile"
        )
    between = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - between[0]], between, [2 * values[-1] - between[-1]]])
