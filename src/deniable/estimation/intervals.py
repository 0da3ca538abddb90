"""Intervals around estimated proportions: normal, score, and either of them for all labels at
once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.numerics import normal_quantile

__all__ = [
    "IntervalFields",
    "StratumCounts",
    "critical_values",
    "cut_to_proportions",
    "hull",
    "p_text",
    "score_limits",
    "skewed_reach",
    "square_and_add",
    "stratified_limits",
    "welch_degrees",
]

_Floats = NDArray[np.float64]
_EDGE = 0.02
"""The least width, in standard errors, of an interval at the edge of [0, 1]: visible, but too small
to raise coverage."""
_DRAWS = 30_000
_LARGEST_SIMULATED = 128
"""Beyond this many labels, Šidák's bound is as good and much cheaper."""


class IntervalFields(TypedDict):
    """What the document of an estimate has besides its fields."""

    stderr: list[float]
    """Standard errors."""
    low: list[float | None]
    high: list[float | None]
    """Limits that cover with `confidence`; None for an infinite one."""
    confidence: float
    covers_more: list[bool]
    """Whether they cover at least, not just, as often."""


def critical_values(
    confidence: float, degrees: _Floats, covariance: _Floats | None, simultaneous: bool
) -> _Floats:
    """How many standard errors an interval reaches to either side, one figure per label.

    For one label it is Student's quantile with its degrees of freedom (infinitely many: the normal
    one). For all k labels at once it is Student's quantile at confidence^(1/k): by Šidák's
    inequality (1967) that is enough whatever the correlations. If the covariance is known and the
    quantile of the largest of k correlated values is smaller, that is used. It is simulated with a
    fixed seed, taking the order statistic three standard errors above the quantile, so that it errs
    on the safe side and is reproducible.

    >>> critical_values(0.95, np.array([math.inf]), None, False).round(3).tolist()
    [1.96]
    """
    if not simultaneous:
        return _student(confidence, degrees)
    bound = _student(confidence ** (1 / degrees.size), degrees)
    if covariance is None or not 1 < degrees.size <= _LARGEST_SIMULATED:
        return bound
    # The level at which the normal quantile equals that of the maximum; Student's at the same level
    # is exact for one label.
    return np.minimum(
        bound, _student(math.erf(_largest(confidence, covariance) / math.sqrt(2)), degrees)
    )


def welch_degrees(terms: Sequence[Any], degrees: Sequence[Any]) -> _Floats:
    """Degrees of freedom of a sum of independent variances (Welch and Satterthwaite), from those of
    each term.

    Infinite where there is no variance at all.

    >>> welch_degrees([2.0, 2.0], [5.0, 5.0]).tolist()
    10.0
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            (np.asarray(term, dtype=np.float64), d) for term, d in zip(terms, degrees, strict=True)
        ]
        shrink = sum(np.where(term > 0, term**2 / d, 0.0) for term, d in parts)
        total = np.asarray(sum(term for term, _ in parts), dtype=np.float64)
        return np.where(total > 0, total**2 / shrink, np.inf)


def _student(confidence: float, degrees: _Floats) -> _Floats:
    # as for all labels of one group of reports
    if degrees.size and (degrees == degrees.flat[0]).all():
        return np.full(degrees.shape, _one_quantile(confidence, float(degrees.flat[0])))
    return _quantiles(confidence, degrees)


@lru_cache(maxsize=256)
def _one_quantile(confidence: float, degrees: float) -> float:
    return float(_quantiles(confidence, np.array([degrees]))[0])


def _quantiles(confidence: float, degrees: _Floats) -> _Floats:
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    level = (1 + confidence) / 2
    quantile = np.where(
        np.isinf(degrees), normal_quantile(level), stdtrit(np.clip(degrees, 1, 1e10), level)
    )
    # One report has no degrees of freedom, and nothing can be said about its error.
    return np.where(degrees > 0, quantile, math.inf)


def _largest(confidence: float, covariance: _Floats) -> float:
    """The quantile of the largest absolute value among correlated normal ones of variance 1."""
    spread = np.sqrt(np.diagonal(covariance))
    moving = spread > 0
    if not moving.any():
        return math.inf
    correlation = covariance[np.ix_(moving, moving)] / np.outer(spread[moving], spread[moving])
    weights, directions = np.linalg.eigh(correlation)
    # proportions that sum to 1 have a direction without any error
    kept = weights > 1e-9 * weights[-1]
    rng = np.random.default_rng(1967)
    values = (
        rng.standard_normal((_DRAWS, int(kept.sum())))
        @ (directions[:, kept] * np.sqrt(weights[kept])).T
    )
    largest = np.abs(values).max(axis=1)
    rank = math.ceil(_DRAWS * confidence + 3 * math.sqrt(_DRAWS * confidence * (1 - confidence)))
    return float(np.partition(largest, rank)[rank]) if rank < _DRAWS else math.inf


def score_limits(
    proportions: _Floats,
    support: tuple[_Floats, _Floats],
    n: float | _Floats,
    population: int | None,
    reach: float | _Floats,
) -> _Floats:
    """The proportions r that are at most `reach` of their own standard errors away from the
    estimate: one row per label, low and high.

    Solves (estimate - r)^2 = reach^2 V(r) with V(r) = lam (1 - lam) / ((a - b)^2 n) - r (1 - r)/U,
    lam = b + (a - b) r: a quadratic in r. With a = 1, b = 0 and no U it is Wilson's interval
    (1927). The variance is the one the proportion r would have, not the one the data happen to
    show, which is why it is valid for few reports and rare labels. The limits are not cut to [0,
    1].

    >>> one, zero = np.array([1.0]), np.array([0.0])
    >>> score_limits(np.array([0.1]), (one, zero), 30, None, 1.96).round(4).tolist()
    [[0.0346, 0.2562]]
    """
    a, b = support
    gap = a - b
    of_all = 0.0 if population is None else 1 / population
    # V(r) = constant + slope r + square r^2
    constant = b * (1 - b) / (n * gap**2)
    slope = (1 - 2 * b) / (n * gap) - of_all
    square = of_all - 1 / n
    squared_reach = np.asarray(reach, dtype=np.float64) ** 2
    middle = proportions + squared_reach * slope / 2
    lead = 1 - squared_reach * square
    # V at the estimate itself is never negative, so the estimate always is a solution of the
    # inequality and the root is real.
    root = np.sqrt(np.maximum(middle**2 - lead * (proportions**2 - squared_reach * constant), 0))
    return np.column_stack([middle - root, middle + root]) / np.reshape(lead, (-1, 1))


class StratumCounts(NamedTuple):
    """One part of a weighted sum of proportions: what its reports say, and how they were drawn."""

    weight: float
    proportions: _Floats
    support: tuple[_Floats, _Floats]
    n: float | _Floats
    """Of reports; one number per label where the coins stand for another variance
    (`Estimate.score_law`)."""
    population: int | None
    degrees: _Floats | None = None
    """Degrees of freedom of the variance of each label, where reports are not all of equal
    weight."""


def stratified_limits(strata: Sequence[StratumCounts], reach: _Floats) -> _Floats:
    """Score limits of r = sum w_i r_i, valid for many strata of few reports: one row per label, low
    and high.

    Solves (estimate - r)^2 = t^2 V(r). V at the estimate is the sum of w_i^2 times the strata's
    unbiased variances, with n_i - 1: those that the observed proportions would have, with n_i, are
    too small by (n_i - 1)/n_i, half of it for two reports. If every stratum moves by d = r -
    estimate, V changes by A d - B d^2, whose A is linear in the proportions and so estimated
    without bias. A stratum of a single report has no variance of its own: it gets that of the
    overall proportion.

    What is left of the variances' noise, after what they proportion with the proportions, is 2
    v_i^2/(n_i (n_i - 1)) in each stratum, exactly, because reports are ones and zeros. t is
    Student's quantile with the degrees of freedom that follow by Satterthwaite, (sum v_i)^2 / sum
    (v_i^2/(n_i (n_i - 1))). The limits are not cut to [0, 1].
    """
    from scipy.special import ndtr, stdtrit  # noqa: PLC0415 - slow to import

    if len(strata) == 1:
        return score_limits(
            strata[0].proportions, strata[0].support, strata[0].n, strata[0].population, reach
        )
    centre = sum((part.weight * part.proportions for part in strata), np.zeros(reach.size))
    variance, slope, square, total, noise = np.zeros((5, reach.size))
    for weight, proportions, (a, b), reports, population, degrees in strata:
        gap, of_all = a - b, 0.0 if population is None else 1 / population
        n, alone = np.broadcast_to(reports, reach.shape), np.broadcast_to(reports, reach.shape) <= 1
        linear = (1 - 2 * b) / (n * gap) - of_all
        pooled = np.clip(centre, 0, 1)
        typical = b * (1 - b) / (n * gap**2) + linear * pooled + (of_all - 1 / n) * pooled**2
        rate = b + gap * proportions
        others = np.where(alone, 1, n - 1)
        own = rate * (1 - rate) / (gap**2 * others)
        own = np.where(alone, typical, own - (proportions * (1 - proportions) + own) * of_all)
        variance += weight**2 * own
        slope += weight**2 * (linear + 2 * proportions * (of_all - 1 / n))
        square += weight**2 * (1 / n - of_all)
        term = weight**2 * np.maximum(typical, 1e-30)
        total += term
        noise += term**2 / (np.where(alone, 1, n * others) if degrees is None else degrees)
    t_squared = stdtrit(np.minimum(total**2 / noise, 1e10), ndtr(reach)) ** 2
    lead, half = 1 + t_squared * square, t_squared * slope / 2
    root = np.sqrt(np.maximum(half**2 + lead * t_squared * np.maximum(variance, 0), 0))
    return np.column_stack([centre + (half - root) / lead, centre + (half + root) / lead])


def cut_to_proportions(limits: _Floats, stderr: _Floats) -> _Floats:
    """Limits cut to [0, 1]. If no proportion fits the reports, a short interval at the edge: a
    point would claim certainty."""
    cut = np.clip(limits, 0, 1)
    edge = _EDGE * np.where(np.isfinite(stderr), stderr, 0.0)
    cut[:, 1] = np.maximum(cut[:, 1], np.minimum(edge, 1))
    cut[:, 0] = np.minimum(cut[:, 0], np.maximum(1 - edge, 0))
    return cut


def square_and_add(
    proportions: _Floats, parts: Sequence[tuple[float, _Floats, _Floats]]
) -> _Floats:
    """Limits for a weighted sum of independent proportions, from (weight, proportion, limits) of
    each.

    The distance to either limit is the root of the summed squares of the parts' weighted distances
    (Newcombe 1998; Zou and Donner 2008), so that the skewness of the parts' intervals is kept.
    """
    below = sum((weight * (proportion - limits[:, 0])) ** 2 for weight, proportion, limits in parts)
    above = sum((weight * (limits[:, 1] - proportion)) ** 2 for weight, proportion, limits in parts)
    return np.column_stack([proportions - np.sqrt(below), proportions + np.sqrt(above)])


def skewed_reach(
    skewness: float, kurtosis: float, n: int, confidence: float
) -> tuple[float, float]:
    """How many standard errors below and above a mean of `n` skewed contributions the limits are.

    Hall's cubic transformation takes out the skewness g: t = 3/a ((1 + a (x - a/6))^(1/3) - 1), a =
    g/sqrt(n) ("On the removal of skewness by transformation", Journal of the Royal Statistical
    Society B 1992). x is Student's quantile with the degrees of freedom that the contributions'
    kurtosis leaves to their variance, 2 n/(kurtosis - 1).

    >>> [round(end, 3) for end in skewed_reach(0.0, 3.0, 10_000, 0.95)]
    [-1.96, 1.96]
    """
    from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

    x = float(stdtrit(2 * n / max(kurtosis - 1, 1e-9), (1 + check_confidence(confidence)) / 2))
    a = skewness / math.sqrt(n)
    if abs(a) < 1e-6:
        return -x, x
    low, high = (3 / a * (float(np.cbrt(1 + a * (end - a / 6))) - 1) for end in (x, -x))
    return -low, -high


def p_text(p: float) -> str:
    """A p-value for display; tails beyond 1e-16 are not resolved.

    >>> p_text(0.01234), p_text(1e-40)
    ('p = 0.0123', 'p < 1e-16')
    """
    return f"p = {p:.3g}" if p >= 1e-16 else "p < 1e-16"


def hull(first: _Floats, second: _Floats) -> _Floats:
    """The smallest intervals that contain both, row by row."""
    return np.column_stack(
        [np.minimum(first[:, 0], second[:, 0]), np.maximum(first[:, 1], second[:, 1])]
    )
