"""Limits where value ± standard errors would not cover: counts of few coins, quotients, and figures
that move their variance."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.tables.statistic import normal_reach
from deniable.graphs.response import EdgeChannel
from deniable.numerics import boundaries
from deniable.results import Result

__all__ = [
    "CLEAR",
    "ENOUGH",
    "LOUD",
    "UnimodalLaw",
    "count_limits",
    "denominator_visible",
    "flips",
    "ones_at_most",
    "profile_limits",
    "quotient_limits",
]

_Floats = NDArray[np.float64]

ENOUGH = 9.0
"""The variance of the number of ones among pairs without an edge from which on a count is as good
as normal."""

_VISIBLE = 2.0
"""Standard errors by which a denominator must exceed 0 for its quotient to be given an interval."""
CLEAR = 10.0
"""Standard errors of its denominator below which the limits of a quotient rather err on the wide
side."""
LOUD = 5.0
"""The variance of an entry above which variances estimated from reports mostly stand on their
floors, and limits err likewise."""
_STEPS = 500
_Quotient = tuple[float, float, float, float, float]
"""Numerator, denominator, and their variances and covariance: numerator's, both's,
denominator's."""


@dataclass(frozen=True, eq=False)
class UnimodalLaw(Result):
    """For an error far from normal: value ± 2/3 standard errors over the root of the failure.

    Whatever law with one mode an error has, it exceeds k standard deviations with a probability of
    at most 4/(9 k^2), if k^2 is at least 8/3 (Vysochanskij and Petunin 1980): 2.98 for 95 %, where
    a normal law needs 1.96.

    >>> [round(limit, 2) for limit in UnimodalLaw(10.0, 1.0, 0.0, 12.0).interval(0.95)]
    [7.02, 12.0]
    """

    value: float
    stderr: float
    least: float
    """The smallest possible figure."""
    most: float
    """The largest."""

    def interval(self, confidence: float) -> tuple[float, float]:
        reach = max(2 / 3 / math.sqrt(1 - confidence), math.sqrt(8 / 3)) * self.stderr
        low, high = self.value - reach, self.value + reach
        return min(max(low, self.least), self.most), min(max(high, self.least), self.most)

    def covers_more(self, confidence: float) -> bool:
        """It holds for every such law."""
        return True


def flips(pairs: float, channel: EdgeChannel) -> float:
    """The variance of the number of ones among pairs without an edge."""
    return pairs * channel.copies * channel.b * (1 - channel.b)


def count_limits(
    ones: NDArray[np.int64], pairs: int, channel: EdgeChannel, confidence: float
) -> _Floats:
    """Low and high for the number of edges among `pairs` pairs of which `ones` bits are 1, one row
    per entry of `ones`.

    All numbers of edges d under which neither P(ones or more | d) nor P(ones or fewer | d) is at
    most (1 - confidence)/2: they cover at least as often as they say, and there is at least one
    (Clopper and Pearson 1934, seen through the coins).

    >>> count_limits(np.array([3]), 10, EdgeChannel(1.0, 0.0, 1), 0.95).tolist()
    [[3.0, 3.0]]
    """
    seen, which = np.unique(ones, return_inverse=True)
    tail = (1 - confidence) / 2
    # The tails move one way with d, so that the ends are found by bisection, for all counts at
    # once.
    low = _smallest(
        lambda d: 1 - ones_at_most(seen - 1, d, pairs, channel) > tail, seen.size, pairs
    )
    high = _smallest(lambda d: ones_at_most(seen, d, pairs, channel) <= tail, seen.size, pairs) - 1
    # Between two edges of a lattice this coarse, nothing may fit; then the nearest number does.
    return np.column_stack([np.minimum(low, high), np.maximum(low, high)])[
        which.reshape(-1)
    ].astype(np.float64)


def _smallest(
    holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]], size: int, largest: int
) -> NDArray[np.int64]:
    """The smallest number up to `largest` for which a condition holds that, once true, stays true;
    else `largest` + 1."""
    below, above = np.full(size, -1, dtype=np.int64), np.full(size, largest + 1, dtype=np.int64)
    return boundaries(lambda d: holds(np.maximum(d, 0)), below, above, halvings=64)


def ones_at_most(
    ones: NDArray[np.int64], edges: NDArray[np.int64], pairs: int, channel: EdgeChannel
) -> _Floats:
    """P(at most so many ones | so many edges): ones of edges and of other pairs are two independent
    binomial counts."""
    from scipy.stats import binom  # noqa: PLC0415 - slow to import

    tosses = channel.copies * edges
    spread = np.sqrt(tosses.max(initial=0) * channel.a * (1 - channel.a))
    reach = int(12 * spread + 30)
    # Lost ones: a window of so many standard deviations around their mean holds all of their mass
    # but 1e-15.
    start = np.maximum(np.floor(tosses * (1 - channel.a)).astype(np.int64) - reach, 0)
    lost = start[:, None] + np.arange(2 * reach + 1)
    mass = binom.pmf(lost, tosses[:, None], 1 - channel.a)
    others = binom.cdf(
        ones[:, None] - (tosses[:, None] - lost),
        (channel.copies * pairs - tosses)[:, None],
        channel.b,
    )
    return np.asarray(np.sum(mass * others, axis=1), dtype=np.float64)


def profile_limits(
    value: float, profile: tuple[float, float, float], confidence: float
) -> tuple[float, float]:
    """All figures x with (x - value)^2 <= z^2 max(floor, variance + slope (x - value)), given
    (variance, slope, floor).

    >>> [round(limit, 3) for limit in profile_limits(10.0, (4.0, 0.0, 1.0), 0.95)]
    [6.08, 13.92]
    """
    variance, slope, floor = profile
    squared = normal_reach(confidence) ** 2
    least = math.sqrt(squared * floor)
    low, high = value - least, value + least
    within = squared * variance + (squared * slope / 2) ** 2
    if within >= 0:
        middle, reach = value + squared * slope / 2, math.sqrt(within)
        low, high = min(low, middle - reach), max(high, middle + reach)
    return low, high


def denominator_visible(parts: _Quotient, standard_errors: float = _VISIBLE) -> bool:
    """Whether a quotient's denominator stands out of its noise."""
    return parts[1] > standard_errors * math.sqrt(parts[4])


def quotient_limits(parts: _Quotient, confidence: float) -> tuple[float, float]:
    """Low and high for a quotient between 0 and 1 whose denominator is visible.

    Fieller's (1954): all r under which D = numerator - r denominator lies where it would with
    probability `confidence` if its mean were 0. That an interval is given at all depends on the
    denominator B being large; D and B covary, and among collections that get an interval, D is no
    longer normal but a normal cut off: with U = B - beta D, beta = Cov(B, D)/Var(D), which is
    independent of D, it is known from where on (Lee, Sun, Sun and Taylor 2016). So intervals cover
    as stated among those given.
    """
    wide = np.linspace(0, 1, _STEPS + 1)
    held = np.flatnonzero(_fits(wide, parts, confidence))
    if not held.size:
        # Only quotients outside 0 to 1 fit: the nearest end.
        end = 0.0 if parts[0] < parts[1] / 2 else 1.0
        return end, end
    # The ends, between two steps, are looked for in as many again.
    first, last = wide[max(held[0] - 1, 0)], wide[min(held[-1] + 1, _STEPS)]
    low = np.linspace(first, wide[held[0]], _STEPS + 1)
    high = np.linspace(wide[held[-1]], last, _STEPS + 1)
    return float(low[_fits(low, parts, confidence)].min()), float(
        high[_fits(high, parts, confidence)].max()
    )


def _fits(r: _Floats, parts: _Quotient, confidence: float) -> NDArray[np.bool_]:
    from scipy.special import log_ndtr  # noqa: PLC0415 - slow to import

    top, bottom, top_variance, covariance, bottom_variance = parts
    spread = np.sqrt(top_variance - 2 * r * covariance + r**2 * bottom_variance)
    deviate = (top - r * bottom) / spread
    together = (covariance - r * bottom_variance) / spread
    # How far the deviate lies from where the denominator would not have been visible.
    room = (bottom - _VISIBLE * math.sqrt(bottom_variance)) / np.maximum(np.abs(together), 1e-300)
    side = np.where(together > 0, -1.0, 1.0)
    tail = log_ndtr(side * deviate) - log_ndtr(side * deviate + room)
    outside = (1 - confidence) / 2
    fits: NDArray[np.bool_] = (tail >= math.log(outside)) & (tail <= math.log1p(-outside))
    return fits
