"""Intervals around estimated proportions: normal, score, and either of them for all labels at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError

__all__ = ["check_confidence", "critical_values", "p_text", "score_limits", "skewed_reach", "square_and_add"]

_Floats = NDArray[np.float64]
_DRAWS = 30_000
_LARGEST_SIMULATED = 128
"""Beyond this many labels, Šidák's bound is as good and much cheaper."""


def check_confidence(confidence: Any) -> float:
    """The confidence, if it lies strictly between 0 and 1."""
    if isinstance(confidence, bool) or not isinstance(confidence, float | int) or not 0 < confidence < 1:
        raise ParameterError("confidence", confidence, "must lie strictly between 0 and 1")
    return float(confidence)


def critical_values(confidence: float, degrees: _Floats, covariance: _Floats | None, simultaneous: bool) -> _Floats:
    """How many standard errors an interval reaches to either side, one figure per label.

    For one label it is Student's quantile with its degrees of freedom (infinitely many: the normal one). For all k labels at
    once it is Student's quantile at confidence^(1/k): by Šidák's inequality (1967) that is enough whatever the correlations. If
    the covariance is known and the quantile of the largest of k correlated values is smaller, that is used. It is simulated with
    a fixed seed, taking the order statistic three standard errors above the quantile, so that it errs on the safe side and is
    reproducible.

    >>> critical_values(0.95, np.array([math.inf]), None, False).round(3).tolist()
    [1.96]
    """
    if not simultaneous:
        return _student(confidence, degrees)
    bound = _student(confidence ** (1 / degrees.size), degrees)
    if covariance is None or not 1 < degrees.size <= _LARGEST_SIMULATED:
        return bound
    # The level at which the normal quantile equals that of the maximum; Student's at the same level is exact for one label.
    return np.minimum(bound, _student(math.erf(_largest(confidence, covariance) / math.sqrt(2)), degrees))


def _student(confidence: float, degrees: _Floats) -> _Floats:
    if degrees.size and (degrees == degrees.flat[0]).all():  # as for all labels of one group of reports
        return np.full(degrees.shape, _one_quantile(confidence, float(degrees.flat[0])))
    return _quantiles(confidence, degrees)


@lru_cache(maxsize=256)
def _one_quantile(confidence: float, degrees: float) -> float:
    return float(_quantiles(confidence, np.array([degrees]))[0])


def _quantiles(confidence: float, degrees: _Floats) -> _Floats:
    from scipy.special import ndtri, stdtrit  # noqa: PLC0415 - slow to import

    level = (1 + confidence) / 2
    quantile = np.where(np.isinf(degrees), ndtri(level), stdtrit(np.clip(degrees, 1, 1e10), level))
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
    kept = weights > 1e-9 * weights[-1]  # proportions that sum to 1 have a direction without any error
    rng = np.random.default_rng(1967)
    values = rng.standard_normal((_DRAWS, int(kept.sum()))) @ (directions[:, kept] * np.sqrt(weights[kept])).T
    largest = np.abs(values).max(axis=1)
    rank = math.ceil(_DRAWS * confidence + 3 * math.sqrt(_DRAWS * confidence * (1 - confidence)))
    return float(np.partition(largest, rank)[rank]) if rank < _DRAWS else math.inf


def score_limits(
    shares: _Floats, support: tuple[_Floats, _Floats], n: int, population: int | None, reach: float | _Floats
) -> _Floats:
    """The shares r that are at most `reach` of their own standard errors away from the estimate: one row per label, low and high.

    Solves (estimate - r)^2 = reach^2 V(r) with V(r) = lam (1 - lam) / ((a - b)^2 n) - r (1 - r)/U, lam = b + (a - b) r: a
    quadratic in r. With a = 1, b = 0 and no U it is Wilson's interval (1927). The variance is the one the share r would have, not
    the one the data happen to show, which is why it is valid for few reports and rare labels. The limits are not cut to [0, 1].

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
    middle = shares + squared_reach * slope / 2
    lead = 1 - squared_reach * square
    # V at the estimate itself is never negative, so the estimate always is a solution of the inequality and the root is real.
    root = np.sqrt(np.maximum(middle**2 - lead * (shares**2 - squared_reach * constant), 0))
    return np.column_stack([middle - root, middle + root]) / np.reshape(lead, (-1, 1))


def square_and_add(shares: _Floats, parts: Sequence[tuple[float, _Floats, _Floats]]) -> _Floats:
    """Limits for a weighted sum of independent shares, from (weight, share, limits) of each.

    The distance to either limit is the root of the summed squares of the parts' weighted distances (Newcombe 1998; Zou and
    Donner 2008), so that the skewness of the parts' intervals is kept.
    """
    below = sum((weight * (share - limits[:, 0])) ** 2 for weight, share, limits in parts)
    above = sum((weight * (limits[:, 1] - share)) ** 2 for weight, share, limits in parts)
    return np.column_stack([shares - np.sqrt(below), shares + np.sqrt(above)])


def skewed_reach(skewness: float, kurtosis: float, n: int, confidence: float) -> tuple[float, float]:
    """How many standard errors below and above a mean of `n` skewed contributions the limits are.

    Hall's cubic transformation takes out the skewness g: t = 3/a ((1 + a (x - a/6))^(1/3) - 1), a = g/sqrt(n) ("On the removal of
    skewness by transformation", Journal of the Royal Statistical Society B 1992). x is Student's quantile with the degrees of
    freedom that the contributions' kurtosis leaves to their variance, 2 n/(kurtosis - 1).

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
