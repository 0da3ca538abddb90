"""Statistics of estimated tables, each with its standard error.

All take a :class:`~deniable.Table` or an :class:`~deniable.Estimate` and return a :class:`~deniable.Statistic`. The standard
error is the delta method's: with gradient g of the statistic by the cells, the variance is g' Cov g (Wang, Wu and Hu 2016,
section 5.2), where Cov is that of the estimated table, finite population included. It includes both the coins and the sampling.

Estimated shares may lie below 0, where an entropy has no meaning. Such a table is first projected onto the simplex, and `notes`
says so. The projection sets some cells to 0 and moves the others by one constant, so it is linear around the estimate and the
gradient goes through it; but it is biased, so no interval is given.

Where "value ± standard errors" would not cover, the interval has its own law (:mod:`deniable.estimation.interval_laws`):
the measures of dependence near independence, and quantiles. A statistic of an estimate that was made consistent (`ems`,
norm-sub, …) takes its value from that and its interval from the unbiased one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.association import noise_traces, quadratic_law
from deniable.estimation.estimate import Estimate
from deniable.estimation.interval_laws import (
    BinnedQuantileLaw,
    IntervalLaw,
    QuantileLaw,
    ShortfallLaw,
    WidenedLaw,
)
from deniable.estimation.simplex import ascending, project
from deniable.estimation.statistic import Statistic, normal_reach
from deniable.estimation.tables import Table

__all__ = [
    "chi_square",
    "correlation",
    "cramers_v",
    "derived",
    "difference",
    "entropy",
    "g_square",
    "mean",
    "mutual_information",
    "phi_square",
    "proportion",
    "quantile",
    "ratio",
    "variance",
]

_Floats = NDArray[np.float64]
Subject = Table | Estimate
Axes = str | tuple[str, ...]
_Derive = TypeVar("_Derive", bound=Callable[..., Statistic])
_LARGEST_CUMULATED = 1025
"""The most edges for which the error of the distribution is computed at each."""
_POINTS_A_BIN = 8
PROJECTED = (
    "projected onto the simplex first because some estimated shares were negative: biased, and its interval does not cover "
    "the bias"
)
MONOTONE = (
    "the cumulative distribution was first replaced by the nearest one that does not fall, because some shares were negative"
)


def _of_unbiased(derive: _Derive) -> _Derive:
    """For a consistent estimate: its value, and the interval of the unbiased one, extended to contain it."""

    @functools.wraps(derive)
    def derived_statistic(subject: Subject, *arguments: Any, **options: Any) -> Statistic:
        found = derive(subject, *arguments, **options)
        if not isinstance(subject, Estimate) or subject.unbiased is None:
            return found
        honest = derive(subject.without_bias(), *arguments, **options)
        law = WidenedLaw(found.value, honest.value, honest.stderr, honest.law)
        return replace(found, stderr=honest.stderr, law=None if honest.biased else law, biased=honest.biased)

    return derived_statistic  # type: ignore[return-value]


# --- shares ---------------------------------------------------------------------------------------------------------


@_of_unbiased
def proportion(subject: Subject, event: Any) -> Statistic:
    """The share of people for whom `event` holds.

    An event is a label of a table with one axis, or a mapping from axes to a label or a list of labels.

    >>> from deniable import DirectEncoding
    >>> survey = DirectEncoding(["never", "once", "often"], epsilon=2.0)
    >>> answers = survey.estimate(["never"] * 600 + ["once"] * 250 + ["often"] * 150)
    >>> print(proportion(answers, {"value": ["once", "often"]}))
    share of value = once or often: 0.2748, 0.2301 to 0.3194 (95 %, from 1,000 reports)
    """
    table = _whole(subject)
    weights, name = _event(table, event)
    return _delta(table, float((weights * table.proportions).sum()), weights, f"share of {name}")


@_of_unbiased
def difference(subject: Subject, first: Any, second: Any) -> Statistic:
    """The share of the first event minus that of the second; events as for :func:`proportion`."""
    table = _whole(subject)
    (plus, one), (minus, other) = _event(table, first), _event(table, second)
    value = float(((plus - minus) * table.proportions).sum())
    return _delta(table, value, plus - minus, f"share of {one} less share of {other}")


@_of_unbiased
def ratio(subject: Subject, first: Any, second: Any) -> Statistic:
    """The share of the first event over that of the second; events as for :func:`proportion`.

    With A/B: gradient (w_A - (A/B) w_B)/B.
    """
    table = _whole(subject)
    (above, one), (below, other) = _event(table, first), _event(table, second)
    base = float((below * table.proportions).sum())
    if base <= 0:
        raise ParameterError(f"estimated share of {other}", base, "must be positive to divide by")
    value = float((above * table.proportions).sum()) / base
    return _delta(table, value, (above - value * below) / base, f"share of {one} over share of {other}")


# --- one attribute ----------------------------------------------------------------------------------------------------


@_of_unbiased
def entropy(subject: Subject, axes: Axes | None = None, base: float = 2) -> Statistic:
    """Entropy of one attribute, or of several together, in bits: -sum pi log2 pi, gradient -(log2 pi + 1/ln 2).

    At its maximum, when all values are equally frequent, the gradient vanishes and the estimate is biased downwards. Its interval
    is therefore that of the distance from the maximum: ln k - H is half of a squared length, of which chance adds tr(C/pi).

    >>> from deniable import DirectEncoding
    >>> coin = DirectEncoding(2, epsilon=3.0)
    >>> print(entropy(coin.estimate([0] * 800 + [1] * 200)))
    entropy of value: 0.6544, 0.5887 to 0.7149 (at least 95 %, from 1,000 reports)
    """
    table = _marginal(subject, axes)
    shares, back, notes = _proper(table)
    unit = math.log(_check_base(base))
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0) / unit
    value = -float((shares * logs).sum())
    found = _delta(table, value, back(-(logs + 1 / unit)), f"entropy of {', '.join(table.axes)}", notes)
    return found if found.biased else replace(found, law=_entropy_law(table, found, unit))


def _entropy_law(table: Table, found: Statistic, unit: float) -> ShortfallLaw | None:
    """Of the distance to the maximum, ln k: half of the squared length of (pi - 1/k)/sqrt(pi), close to there."""
    covariance = table.covariance
    if covariance is None:
        return None
    largest = math.log(table.proportions.size)
    # A share that may be 0 would let chance seem to add any amount: it is taken to be at least its standard error.
    shares = np.maximum(table.proportions, table.stderr).reshape(-1)
    spread = covariance / np.sqrt(np.outer(shares, shares))
    length = max(2 * (largest - found.value * unit), 0.0)
    traces = float(np.trace(spread)), float((spread**2).sum())
    law = quadratic_law(traces, length, (2 * unit * found.stderr) ** 2, 1 / (2 * unit), root=False)
    return ShortfallLaw(largest / unit, law)


@_of_unbiased
def mean(subject: Subject, axis: str | None = None, scores: Sequence[float] | None = None) -> Statistic:
    """Mean of an attribute's scores: its labels if they are numbers, otherwise those given, one per label."""
    table, values = _scored(subject, axis, scores)
    return _delta(table, float(values @ table.proportions), values, f"mean of {table.axes[0]}")


@_of_unbiased
def variance(subject: Subject, axis: str | None = None, scores: Sequence[float] | None = None) -> Statistic:
    """Variance of an attribute's scores over the population, E x^2 - (E x)^2; gradient (x - E x)^2."""
    table, values = _scored(subject, axis, scores)
    shares, back, notes = _proper(table, always=False, bad=lambda p: _variance(values, p) < 0)
    centred = (values - values @ shares) ** 2
    return _delta(table, _variance(values, shares), back(centred), f"variance of {table.axes[0]}", notes)


@_of_unbiased
def quantile(
    subject: Subject,
    level: float = 0.5,
    axis: str | None = None,
    scores: Sequence[float] | None = None,
    edges: Sequence[float] | None = None,
    evenly: bool = False,
) -> Statistic:
    """The smallest value that a proportion `level` of the population does not exceed; by default the median.

    Labels that are whole numbers, and `scores`, are the values themselves. Other numbers, and `edges` (one more than labels), are
    bins: without `edges` from the midpoints between neighbouring labels, the outermost reaching as far to either side. Bins that
    begin and end halfway between whole numbers hold whole numbers. With F the estimated distribution, the interval has all values
    of all bins that may hold the quantile, as tests of F at their edges find them (Woodruff, "Confidence intervals for medians
    and other position measures", JASA 1952): it covers however people are spread within a bin. The value is interpolated.

    With `evenly`, people count as spread evenly over each bin, which smooth data are nearly and rounded ones are not. The
    interval then consists of the points at which F, a straight line within each bin, is within its own errors of the level.

    With s the standard error of F at the quantile, the standard error is half the distance over which such an F crosses
    from level - s to level + s. If negative shares make F fall, the value is that of the
    nearest F that does not, and `notes` says so.
    """
    if not 0 < level < 1:
        raise ParameterError("level", level, "must lie strictly between 0 and 1")
    listed = edges is None and (scores is not None or _whole_labels(subject, axis))
    bounds = None if edges is None else _check_edges(edges)
    table, values = _scored(subject, axis, scores if bounds is None else (bounds[1:] + bounds[:-1]) / 2)
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
    points, heights, errors = _cumulated(table, bounds, raw, s)
    law: IntervalLaw = QuantileLaw(level, points, heights, errors, table.stderr)
    if not evenly:
        lowest, highest = (values, values) if listed else _ends(bounds)
        bin_ = min(int(np.searchsorted(below[1:], level)), values.size - 1)
        value = min(max(float(np.round(value)) if _holds_whole(bounds) else value, lowest[bin_]), highest[bin_])
        law = BinnedQuantileLaw(level, lowest, highest, raw, errors[:: (errors.size - 1) // values.size])
    return Statistic(name, value, float(high - low) / 2, table.n, (*table.notes, *([MONOTONE] if falls else [])), law)


def _whole_labels(subject: Subject, axis: str | None) -> bool:
    """Whether the labels are whole numbers, each of which is a value by itself."""
    labels = _marginal(subject, axis).labels[0]
    return all(isinstance(label, int) for label in labels)


def _holds_whole(edges: _Floats) -> bool:
    return bool(np.all(edges % 1 == 0.5))


def _ends(edges: _Floats) -> tuple[_Floats, _Floats]:
    """The smallest and the largest value of each bin."""
    inside = 0.5 if _holds_whole(edges) else 0.0
    return edges[:-1] + inside, edges[1:] - inside


def _cumulated(table: Table, edges: _Floats, below: _Floats, at_quantile: float) -> tuple[_Floats, _Floats, _Floats]:
    """Points along the edges and between them, F there, and its standard error: 0 at the ends, where F is 0 and 1 for certain.

    Between two edges F is their weighted mean, so its variance is made of theirs and their covariance.
    """
    if edges.size > _LARGEST_CUMULATED:
        return edges, below, np.concatenate([[0.0], np.full(edges.size - 2, at_quantile), [0.0]])
    inner = table.covariance_of(np.tri(edges.size - 2, edges.size - 1))
    covariance = np.pad(inner, 1)
    own, next_to = np.diagonal(covariance), np.diagonal(covariance, 1)
    part = np.arange(_POINTS_A_BIN) / _POINTS_A_BIN
    between = (1 - part) ** 2 * own[:-1, None] + part**2 * own[1:, None] + 2 * part * (1 - part) * next_to[:, None]
    points = np.append((edges[:-1, None] + np.diff(edges)[:, None] * part).reshape(-1), edges[-1])
    return points, np.interp(points, edges, below), np.append(np.sqrt(np.maximum(between, 0)).reshape(-1), 0.0)


# --- two attributes, or two groups of them -----------------------------------------------------------------------------


@_of_unbiased
def mutual_information(subject: Subject, rows: Axes | None = None, columns: Axes | None = None, base: float = 2) -> Statistic:
    """What one attribute reveals about the other, in bits: sum pi_ij log2( pi_ij / (pi_i+ pi_+j) ).

    Near independence the gradient vanishes and with it the stated error, while the value is biased upwards: use
    :func:`~deniable.independence_test` to decide whether there is any dependence at all.
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _information(two.table, two.shape)
    unit = math.log(_check_base(base))
    return _dependence(two, 2 * value, 2 * gradient, f"mutual information of {two.name}", notes, 1 / (2 * unit))


@_of_unbiased
def g_square(subject: Subject, rows: Axes | None = None, columns: Axes | None = None, size: int | None = None) -> Statistic:
    """G^2 = 2 N sum pi_ij ln( pi_ij / (pi_i+ pi_+j) ) that N true answers with these shares would show.

    N is `size`, else the population, else the number of reports. See :func:`mutual_information` about the neighbourhood of
    independence, and do not look up G^2 in a chi-square table: it includes the noise of the coins.
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _information(two.table, two.shape)
    return _dependence(two, 2 * value, 2 * gradient, f"G² of {two.name}", notes, _size(two.table, size))


@_of_unbiased
def phi_square(subject: Subject, rows: Axes | None = None, columns: Axes | None = None) -> Statistic:
    """Pearson's mean square contingency, chi-square over the number of people: sum pi_ij^2 / (pi_i+ pi_+j) - 1."""
    two = two_way(subject, rows, columns)
    value, gradient, notes = _contingency(two.table, two.shape)
    return _dependence(two, value, gradient, f"phi² of {two.name}", notes, 1.0)


@_of_unbiased
def chi_square(subject: Subject, rows: Axes | None = None, columns: Axes | None = None, size: int | None = None) -> Statistic:
    """The chi-square that N true answers with these shares would show: N times :func:`phi_square`.

    N is `size`, else the population, else the number of reports. Do not look it up in a chi-square table: it includes the noise
    of the coins, and would nearly always reject independence. :func:`~deniable.independence_test` is the valid test.
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _contingency(two.table, two.shape)
    return _dependence(two, value, gradient, f"chi-square of {two.name}", notes, _size(two.table, size))


@_of_unbiased
def cramers_v(subject: Subject, rows: Axes | None = None, columns: Axes | None = None) -> Statistic:
    """Cramér's V = sqrt( phi^2 / (min(rows, columns) - 1) ): 0 for independent attributes, 1 if one determines the other.

    phi^2 of the estimated table is too large by tr S, the contribution of noise (:mod:`deniable.estimation.association`), which
    is subtracted; a negative result counts as 0. The interval is valid near independence too, where a symmetric one would exclude
    0 far too often (64 % of the time in one case).
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _contingency(two.table, two.shape)
    return _dependence(two, value, gradient, f"Cramér's V of {two.name}", notes, 1 / (min(two.shape) - 1), root=True)


@_of_unbiased
def correlation(
    subject: Subject,
    first: str | None = None,
    second: str | None = None,
    scores: Mapping[str, Sequence[float]] | None = None,
) -> Statistic:
    """Pearson's correlation of two scored attributes; `scores` gives those of axes whose labels are not numbers.

    With z, w the standardized scores, gradient z w - r (z^2 + w^2)/2.
    """
    table, _, pair, _ = two_way(subject, first, second)
    if len(table.axes) != 2:
        raise ParameterError("axes", table.axes, "must be two: a correlation is between two attributes")
    given = scores or {}
    x, y = (_scores(table, i, given.get(axis)) for i, axis in enumerate(table.axes))

    def degenerate(p: _Floats) -> bool:
        return _variance(x, p.sum(axis=1)) <= 0 or _variance(y, p.sum(axis=0)) <= 0

    shares, back, notes = _proper(table, always=False, bad=degenerate)
    if degenerate(shares):
        raise ParameterError("variance", 0.0, f"of {pair} must be positive in both for a correlation")
    z = (x - x @ shares.sum(axis=1)) / math.sqrt(_variance(x, shares.sum(axis=1)))
    w = (y - y @ shares.sum(axis=0)) / math.sqrt(_variance(y, shares.sum(axis=0)))
    value = float(z @ shares @ w)
    gradient = np.outer(z, w) - value * (z[:, None] ** 2 + w[None, :] ** 2) / 2
    return _delta(table, value, back(gradient), f"correlation of {pair}", notes)


# --- any function ------------------------------------------------------------------------------------------------------


@_of_unbiased
def derived(subject: Subject, function: Callable[[_Floats], float], name: str, step: float = 1e-6) -> Statistic:
    """Any smooth function of the tensor of shares, with its gradient taken by central differences.

    >>> from deniable import DirectEncoding
    >>> coin = DirectEncoding(2, epsilon=3.0).estimate([0] * 400 + [1] * 600)
    >>> odds = derived(coin, lambda p: p[1] / p[0], "odds")
    >>> abs(odds.stderr / ratio(coin, 1, 0).stderr - 1) < 1e-6
    True
    """
    table = _whole(subject)
    shares = table.proportions
    gradient = np.empty_like(shares)
    for at in np.ndindex(*shares.shape):
        moved = np.zeros_like(shares)
        moved[at] = step
        gradient[at] = (function(shares + moved) - function(shares - moved)) / (2 * step)
    return _delta(table, float(function(shares)), gradient, name)


# --- the common parts --------------------------------------------------------------------------------------------------


def _delta(table: Table, value: float, gradient: _Floats, name: str, notes: tuple[str, ...] = ()) -> Statistic:
    stderr = math.sqrt(table.covariance_of(gradient.reshape(1, *table.shape))[0, 0])
    return Statistic(name, float(value), stderr, table.n, (*table.notes, *notes), biased=PROJECTED in notes)


def _dependence(
    two: TwoWay, length: float, gradient: _Floats, name: str, notes: tuple[str, ...], scale: float, root: bool = False
) -> Statistic:
    """A measure of dependence: `scale` times a squared length that is 0 for independent attributes, or the root of that."""
    plain = _delta(two.table, scale * length, scale * gradient, name, notes)
    traces = None if plain.biased else noise_traces(two.table, two.shape, two.n_rows)
    value, stderr = plain.value, plain.stderr
    if root:
        clean = max(length - (traces[0] if traces else 0.0), 0.0)
        value = math.sqrt(scale * clean)
        stderr = plain.stderr / (2 * math.sqrt(scale * length)) if length > 0 else 0.0
    if traces is None:
        return replace(plain, value=value, stderr=stderr, biased=True)
    law = quadratic_law(traces, length, (plain.stderr / scale) ** 2, scale, root)
    if root:  # near 0 the gradient is useless: use the width of the interval
        low, high = law.interval(0.95)
        stderr = max(stderr, (high - low) / (2 * normal_reach(0.95)))
    return replace(plain, value=value, stderr=stderr, law=law)


def _whole(subject: Subject) -> Table:
    """The subject as a table of shares that sum to 1."""
    table = Table.of(subject) if isinstance(subject, Estimate) else subject
    total = float(table.proportions.sum())
    if not abs(total - 1) < 1e-6:
        raise ParameterError("total", total, "of the table's shares must be 1: for a slice or a conditional use given(...)")
    return table


def _marginal(subject: Subject, axes: Axes | None) -> Table:
    table = _whole(subject)
    return table if axes is None else table.marginal(*_names(axes))


class TwoWay(NamedTuple):
    """A table whose axes are split into two groups."""

    table: Table
    shape: tuple[int, int]
    """Combinations of the rows' labels by combinations of the columns'."""
    name: str
    n_rows: int
    """How many of the axes are the rows'."""


def two_way(subject: Subject, rows: Axes | None, columns: Axes | None) -> TwoWay:
    """The table of both groups of axes."""
    table = _whole(subject)
    if rows is None and columns is None and len(table.axes) == 2:
        rows, columns = table.axes
    if rows is None or columns is None:
        raise ParameterError("axes", table.axes, "must be two; otherwise say which are rows and which are columns")
    rows, columns = _names(rows), _names(columns)
    both = table.marginal(*rows, *columns)
    height = math.prod(both.shape[: len(rows)])
    shape = height, both.proportions.size // height
    return TwoWay(both, shape, f"{', '.join(rows)} and {', '.join(columns)}", len(rows))


def _proper(
    table: Table, always: bool = True, bad: Callable[[_Floats], bool] = lambda p: False
) -> tuple[_Floats, Callable[[_Floats], _Floats], tuple[str, ...]]:
    """The shares, projected if the statistic needs it; the projection's effect on the gradient; and the notes."""
    shares = table.proportions
    if not (bad(shares) or (always and shares.min() < 0)):
        return shares, lambda gradient: gradient, ()
    shares = project(shares.reshape(-1)).reshape(shares.shape)
    kept = shares > 0

    def back(gradient: _Floats) -> _Floats:
        return np.where(kept, gradient - gradient[kept].mean(), 0.0)

    return shares, back, (PROJECTED,)


def _information(table: Table, matrix: tuple[int, int]) -> tuple[float, _Floats, tuple[str, ...]]:
    """Mutual information in nats, and its gradient ln( pi_ij / (pi_i+ pi_+j) ) - 1."""
    shares, back, notes = _proper(table)
    p = shares.reshape(matrix)
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
    logs = np.log(np.divide(p, expected, out=np.ones_like(p), where=p > 0))
    return float((p * logs).sum()), back((logs - 1).reshape(table.shape)), notes


def _contingency(table: Table, matrix: tuple[int, int]) -> tuple[float, _Floats, tuple[str, ...]]:
    """phi^2 and its gradient, with q = pi_ij^2 / (r_i c_j): 2 q/pi - (row sum of q)/r_i - (column sum of q)/c_j.

    Cells may be negative, marginals must not be.
    """

    def without_margin(shares: _Floats) -> bool:
        cells = shares.reshape(matrix)
        return bool(cells.sum(axis=1).min() <= 0 or cells.sum(axis=0).min() <= 0)

    shares, back, notes = _proper(table, always=False, bad=without_margin)
    p = shares.reshape(matrix)
    r, c = p.sum(axis=1, keepdims=True), p.sum(axis=0, keepdims=True)
    rate = np.divide(p, r * c, out=np.zeros_like(p), where=r * c > 0)
    q = p * rate
    by_row = np.divide(q.sum(axis=1, keepdims=True), r, out=np.zeros_like(r), where=r > 0)
    by_column = np.divide(q.sum(axis=0, keepdims=True), c, out=np.zeros_like(c), where=c > 0)
    return float(q.sum() - 1), back((2 * rate - by_row - by_column).reshape(table.shape)), notes


def _event(table: Table, event: Any) -> tuple[_Floats, str]:
    """Ones at the cells where the event holds, and its name."""
    if not isinstance(event, Mapping):
        if len(table.axes) != 1:
            raise ParameterError("event", event, f"must be a mapping from some of {', '.join(table.axes)} to labels")
        event = {table.axes[0]: event}
    weights = np.ones(table.shape)
    texts = []
    for axis, wanted in event.items():
        labels = wanted if isinstance(wanted, list | set | frozenset) else [wanted]
        inside = [table.position(axis, label) for label in labels]
        along = np.zeros(table.shape[table.axes.index(axis)])
        along[inside] = 1
        weights *= along.reshape([-1 if name == axis else 1 for name in table.axes])
        texts.append(f"{axis} = {' or '.join(map(str, labels))}")
    return weights, ", ".join(texts)


def _scored(subject: Subject, axis: str | None, scores: Sequence[float] | _Floats | None) -> tuple[Table, _Floats]:
    table = _marginal(subject, axis)
    if len(table.axes) != 1:
        raise ParameterError("axis", axis, f"must be one of {', '.join(table.axes)}")
    return table, _scores(table, 0, scores)


def _scores(table: Table, axis: int, scores: Sequence[float] | _Floats | None) -> _Floats:
    name, labels = table.axes[axis], table.labels[axis]
    given = labels if scores is None else scores
    if scores is None and not all(isinstance(label, int | float) for label in labels):
        raise ParameterError("scores", None, f"must be given, because the labels of {name!r} are not numbers")
    values = np.asarray(given, dtype=np.float64)
    if values.shape != (len(labels),) or not np.all(np.isfinite(values)):
        raise ParameterError("scores", scores, f"must be {len(labels)} finite numbers, one per label of {name!r}")
    return values


def _variance(values: _Floats, shares: _Floats) -> float:
    return float(((values - values @ shares) ** 2) @ shares)


def _check_edges(edges: Sequence[float]) -> _Floats:
    bounds = np.asarray(edges, dtype=np.float64)
    if bounds.ndim != 1 or bounds.size < 2 or not np.all(np.diff(bounds) > 0):
        raise ParameterError("edges", edges, "must ascend, one more than there are labels")
    return bounds


def _midpoints(name: str, values: _Floats) -> _Floats:
    if not np.all(np.diff(values) > 0):
        raise ParameterError("scores", values.tolist(), f"must ascend along the labels of {name!r} for a quantile")
    between = (values[1:] + values[:-1]) / 2
    return np.concatenate([[2 * values[0] - between[0]], between, [2 * values[-1] - between[-1]]])


def _check_base(base: float) -> float:
    if not base > 1:
        raise ParameterError("base", base, "must exceed 1")
    return base


def _size(table: Table, size: int | None) -> float:
    return table.share * (table.population or table.n) if size is None else size


def _names(axes: Axes) -> tuple[str, ...]:
    return (axes,) if isinstance(axes, str) else tuple(axes)
