"""The law of the noise: two-sided geometric noise on a grid, sums of several such, and the
intervals that follow from them.

OpenDP draws the noise (:mod:`deniable.curator.noise`); nothing here is random.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.numerics import boundaries, boundary, normal_quantile
from deniable.results import Result

__all__ = ["DiscreteLaplace", "choice_shortfall", "proportion_limits", "sum_reach"]

_Floats = NDArray[np.float64]
_HALVINGS = 45


@dataclass(frozen=True, eq=False)
class DiscreteLaplace(Result):
    """Noise X `unit`, with P(X = x) = (1 - alpha)/(1 + alpha) alpha^|x| and alpha = exp(-1/scale),
    x any whole number.

    `scale` is sensitivity/epsilon in units of the grid (Ghosh, Roughgarden and Sundararajan 2012).

    >>> law = DiscreteLaplace(scale=2.0)
    >>> law.reach(0.95), round(law.tail(6), 6)
    (6.0, 0.037593)
    """

    scale: float
    unit: float = 1.0
    """How far one step of the grid is."""

    @property
    def alpha(self) -> float:
        """The ratio of the probabilities of two neighbouring values."""
        return math.exp(-1 / self.scale)

    @property
    def variance(self) -> float:
        """2 alpha/(1 - alpha)^2, in squared units."""
        return self.unit**2 * 2 * self.alpha / math.expm1(-1 / self.scale) ** 2

    @property
    def stderr(self) -> float:
        """The standard deviation."""
        return math.sqrt(self.variance)

    @property
    def mean_absolute(self) -> float:
        """The expected absolute error, 2 alpha/(1 - alpha^2) units."""
        return self.unit * 2 * self.alpha / -math.expm1(-2 / self.scale)

    def tail(self, steps: int) -> float:
        """The probability of an error of more than so many steps to either side."""
        return 2 * math.exp(-(steps + 1) / self.scale) / (1 + self.alpha)

    def reach(self, confidence: float) -> float:
        """The smallest error that is not exceeded with the given probability."""
        failure = 1 - check_confidence(confidence)
        # tail(t) <= failure, solved for t
        return self.unit * max(
            math.ceil(self.scale * math.log(2 / (failure * (1 + self.alpha)))) - 1, 0
        )

    def expected_largest(self, draws: int) -> float:
        """The expected absolute error of the worst of so many independent draws."""
        # Sum over t of P(largest > t). A fine grid is summed in strides, by which the sum changes
        # too little to matter.
        stride = max(1, int(self.scale // 1000))
        last = math.ceil(self.scale * (math.log(draws) + 40))
        steps = np.arange(0, last + stride, stride)
        below = 1 - 2 * np.exp(-(steps + (stride + 1) / 2) / self.scale) / (1 + self.alpha)
        return float(self.unit * stride * -np.expm1(draws * np.log(below)).sum())


@lru_cache(maxsize=64)
def _reach_table(confidence: float) -> tuple[_Floats, _Floats]:
    """How many standard deviations sums of `terms` equal Laplace variables reach, for terms from 1
    (Laplace) to many (normal)."""
    from scipy.special import roots_genlaguerre  # noqa: PLC0415 - slow to import

    terms = 1 / np.linspace(1, 1 / 150, 40)
    reaches = np.empty(terms.size)
    for i, shape in enumerate(terms):
        # Laplace noise is normal noise whose variance is Gamma distributed: P(|Z| > t) = E erfc(t /
        # (2 sqrt(G))).
        nodes, weights = roots_genlaguerre(120, shape - 1)
        weights = weights / weights.sum()
        arguments = math.sqrt(2 * shape) / (2 * np.sqrt(nodes))
        reaches[i] = boundary(partial(_is_reached, weights, arguments, confidence), 0.0, 100.0)
    normal = normal_quantile((1 + confidence) / 2)
    return 1 / np.concatenate([terms, [math.inf]]), np.concatenate([reaches, [normal]])


def _is_reached(weights: _Floats, arguments: _Floats, confidence: float, deviations: float) -> bool:
    from scipy.special import erfc  # noqa: PLC0415 - slow to import

    return float(weights @ erfc(deviations * arguments)) <= 1 - confidence


def sum_reach(weights: Any, confidence: float) -> _Floats:
    """How many standard deviations a weighted sum of independent Laplace variables (last axis)
    reaches with this probability.

    The sum is taken as one of `m` equally weighted variables, m = (sum of w^2)^2 / sum of w^4,
    which has the same variance and kurtosis; that is exact for one variable and for equal weights,
    as Satterthwaite's degrees of freedom are for variances.

    >>> sum_reach([1.0, 0.0], 0.95).round(3).item(), sum_reach([1.0] * 1000, 0.95).round(3).item()
    (2.118, 1.96)
    """
    squares = np.asarray(weights, dtype=np.float64) ** 2
    return _reach_of_terms(squares.sum(axis=-1) ** 2 / (squares**2).sum(axis=-1), confidence)


def _reach_of_terms(terms: Any, confidence: float) -> _Floats:
    inverse, reaches = _reach_table(check_confidence(confidence))
    return np.asarray(
        np.interp(1 / np.asarray(terms, dtype=np.float64), inverse[::-1], reaches[::-1])
    )


def proportion_limits(
    parts: Any, total: Any, scale: float, terms: int, confidence: float, grid: float = 1.0
) -> _Floats:
    """Low and high for each part's proportion of a total, where part and total carry noise: one row
    per part.

    Each of `terms` parts has Laplace noise of the given scale and grid, and the total is the sum of
    the noisy parts. For the true proportion r, part - r total is noise alone, (1 - r) X - r Y with
    Y the noise of the other parts: all r for which it is not larger than this noise reaches are in
    the interval (Fieller 1954). Half a step of the grid is added, because noise on a grid reaches
    up to that much further than continuous noise. If the noise drowns the total, it is 0 to 1.
    """
    noisy, totals = np.broadcast_arrays(
        np.atleast_1d(np.asarray(parts, dtype=np.float64)), np.asarray(total, dtype=np.float64)
    )
    others = terms - 1

    def within(r: _Floats) -> NDArray[np.bool_]:
        square = (1 - r) ** 2 + others * r**2
        effective = square**2 / ((1 - r) ** 4 + others * r**4)
        reach = scale * np.sqrt(2 * square) * _reach_of_terms(effective, confidence) + grid / 2
        return np.asarray(np.abs(noisy[:, np.newaxis] - r * totals[:, np.newaxis]) <= reach)

    drowned = totals <= 3 * scale * math.sqrt(2 * terms)
    proportion = np.clip(noisy / np.where(drowned, 1.0, totals), 0, 1)
    inside, outside = (
        np.column_stack([proportion, proportion]),
        np.tile([0.0, 1.0], (noisy.size, 1)),
    )
    ends = within(outside) | drowned[:, np.newaxis]
    return np.where(ends, [0.0, 1.0], boundaries(within, outside, inside))


def choice_shortfall(scale: float, candidates: int, confidence: float) -> float:
    """How far the score of a noisy choice lies below the largest at most, with the given
    probability.

    With exponential noise of this scale, a score that lies d below the largest overtakes it with
    probability exp(-d/scale)/2; the rest is the union bound.

    >>> round(choice_shortfall(2.0, 1025, 0.95), 2)
    18.47
    """
    failure = 1 - check_confidence(confidence)
    return max(scale * math.log((candidates - 1) / (2 * failure)), 0.0) if candidates > 1 else 0.0
