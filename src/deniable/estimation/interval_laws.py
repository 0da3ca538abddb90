"""Intervals of statistics for which "value ± standard errors" is not valid: laws that give limits
for any confidence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.numerics import boundary, normal_quantile
from deniable.results import Result

__all__ = [
    "BinnedQuantileLaw",
    "IntervalLaw",
    "LikelihoodLaw",
    "OwnVarianceLaw",
    "ProportionLaw",
    "QuadraticLaw",
    "QuantileLaw",
    "ShortfallLaw",
    "WidenedLaw",
]

_Floats = NDArray[np.float64]
_LARGEST_NONCENTRALITY = 1e4
"""Beyond this a noncentral chi-square is normal to four digits, and its sum would be slow."""
_AROUND = 0.9999
"""Confidence of the interval over which the rise of a distribution around its quantile is
measured."""
_CLEAR_RISE = 1.75
"""Standard errors that a distribution rises per bin where its quantile's interval covers as stated.

Chosen by simulation of 8 designs with 6 to 64 bins, 4 levels each
(`benchmarks/quantile_coverage.py`).
"""


class IntervalLaw(Protocol):
    """What a statistic's interval is made from."""

    def interval(self, confidence: float) -> tuple[float, float]: ...

    def covers_more(self, confidence: float) -> bool:
        """Whether the interval covers more often than its confidence: it then says "at least"."""
        ...


@dataclass(frozen=True, eq=False)
class QuadraticLaw(Result):
    """For a squared length Z = |u|^2, with u normal around mu with covariance S: the values of
    |mu|^2 that explain Z.

    Near 0 the delta method fails, because its gradient vanishes. Here Z is taken to be c times a
    noncentral chi-square, with its true first two moments: E Z = m + tr S and Var Z = 2 tr S^2 + 4
    m s, with m = |mu|^2 and s = mu' S mu/m the spread along mu. So c = (tr S^2 + 2 m s)/(tr S + 2
    m), with tr S/c degrees of freedom and noncentrality m/c. Far from 0 the limits are those of the
    delta method. A statistic is `scale` times m, or the root of that.
    """

    observed: float
    trace: float
    square_trace: float
    along: float
    scale: float = 1.0
    root: bool = False

    def interval(self, confidence: float) -> tuple[float, float]:
        tail = (1 - check_confidence(confidence)) / 2
        if self.observed > _LARGEST_NONCENTRALITY * self.along:
            reach = -normal_quantile(tail) * math.sqrt(
                2 * self.square_trace + 4 * self.observed * self.along
            )
            low, high = self.observed - self.trace - reach, self.observed - self.trace + reach
        else:
            low, high = self._where(1 - tail), self._where(tail)
        # A length of exactly 0 is never certain: the interval keeps at least a tenth of its noise,
        # as at the edge of a proportion.
        high = max(high, 0.01 * self.trace)
        low, high = max(low, 0.0) * self.scale, high * self.scale
        return (math.sqrt(low), math.sqrt(high)) if self.root else (low, high)

    def covers_more(self, confidence: float) -> bool:
        """Always: an interval cannot miss a true 0 from above, and covers more often near it.

        To say so only of intervals that begin at 0 would leave those that do not with a plain
        claim, and of a true 0 all of them are wrong.
        """
        return True

    def _below(self, length: float) -> float:
        """P(Z <= observed) if |mu|^2 = length."""
        from scipy.special import chndtr  # noqa: PLC0415 - slow to import

        c = (self.square_trace + 2 * length * self.along) / (self.trace + 2 * length)
        return float(chndtr(self.observed / c, self.trace / c, length / c))

    def _where(self, level: float) -> float:
        """The squared length at which P(Z <= observed) has fallen to `level`; 0 if it is below that
        already there."""
        if self._below(0.0) <= level:
            return 0.0
        low, high = 0.0, self.observed + self.trace
        while self._below(high) > level:
            low, high = high, 2 * high
        return boundary(lambda length: self._below(length) <= level, low, high)


@dataclass(frozen=True, eq=False)
class ShortfallLaw(Result):
    """For a statistic with a maximum, near which its gradient vanishes, such as an entropy: the
    maximum less a squared length."""

    maximum: float
    shortfall: QuadraticLaw

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = self.shortfall.interval(confidence)
        return max(self.maximum - high, 0.0), self.maximum - low

    def covers_more(self, confidence: float) -> bool:
        """As of the distance from the maximum."""
        return self.shortfall.covers_more(confidence)


@dataclass(frozen=True, eq=False)
class QuantileLaw(Result):
    """For a quantile of smooth data: the points x at which the estimated F(x) is within z of its
    standard errors of the level.

    A test of F(x) = level at each x, inverted (Woodruff, "Confidence intervals for medians and
    other position measures", JASA 1952): the true quantile passes it with the given probability,
    whatever the shape of F. Where noise makes F fall and rise again, the interval reaches from the
    first such point to the last, and covers more often.
    """

    level: float
    points: _Floats
    """The same number of points for each bin, evenly spaced, and the last edge."""
    below: _Floats
    """F at the points."""
    stderr: _Floats
    """The standard error of F at the points."""
    rise_stderr: _Floats
    """For each bin, the standard error of the rise of F across it."""

    def interval(self, confidence: float) -> tuple[float, float]:
        z = -normal_quantile((1 - check_confidence(confidence)) / 2)
        up, down = (
            self.below + z * self.stderr - self.level,
            self.below - z * self.stderr - self.level,
        )
        return _first_crossing(self.points, up), _last_crossing(self.points, down)

    def covers_more(self, confidence: float) -> bool:
        """Whether F rises so little per bin around the interval that noise may well make it fall
        there.

        Judged over a much wider interval (`_AROUND`), for two reasons: whether F falls inside the
        interval itself depends on the noise that decides whether the interval contains the truth,
        so intervals chosen by it would cover more or less often than all of them; and the mean rise
        over many bins is known better than any single one.
        """
        low, high = self.interval(max(confidence, _AROUND))
        bins = np.interp(
            [low, high], self.points, np.linspace(0, self.rise_stderr.size, self.points.size)
        )
        touched = self.rise_stderr[int(bins[0]) : max(math.ceil(bins[1]), int(bins[0]) + 1)]
        rise = np.diff(np.interp([low, high], self.points, self.below)) / max(
            bins[1] - bins[0], 1e-9
        )
        return bool(rise[0] < _CLEAR_RISE * math.sqrt(np.mean(touched**2)))


@dataclass(frozen=True, eq=False)
class BinnedQuantileLaw(Result):
    """For a quantile of any data: Woodruff's test at the edges of the bins, then all values of the
    bins that pass.

    Nothing is known about where in a bin people are: all of them may have the same value. If the
    quantile lies in bin j, then F is at least the level at its upper edge and at most at its lower
    one, and each end is missed with half of 1 - confidence.
    """

    level: float
    lowest: _Floats
    """The smallest value of each bin."""
    highest: _Floats
    """The largest value of each bin; of a bin with a single value, the same."""
    below: _Floats
    """At the edges, one more than there are bins: F, or an estimate that is in expectation at most
    F."""
    stderr: _Floats
    """The standard errors of `below`."""
    above: _Floats | None = None
    """At the edges, an estimate that is in expectation at least F, if it is not `below`."""
    above_stderr: _Floats | None = None
    """The standard errors of `above`."""

    def interval(self, confidence: float) -> tuple[float, float]:
        z = -normal_quantile((1 - check_confidence(confidence)) / 2)
        above = self.below if self.above is None else self.above
        above_stderr = self.stderr if self.above_stderr is None else self.above_stderr
        reached = np.flatnonzero(above[1:] + z * above_stderr[1:] >= self.level)
        not_passed = np.flatnonzero(self.below[:-1] - z * self.stderr[:-1] <= self.level)
        return float(self.lowest[reached[0]]), float(self.highest[not_passed[-1]])

    def covers_more(self, confidence: float) -> bool:
        """Whole bins are more than needed."""
        return True


@dataclass(frozen=True, eq=False)
class WidenedLaw(Result):
    """For a statistic of a consistent estimate: the interval of the unbiased one, extended to
    contain the value."""

    value: float
    unbiased: float
    stderr: float
    law: IntervalLaw | None = None

    def interval(self, confidence: float) -> tuple[float, float]:
        if self.law is not None:
            low, high = self.law.interval(confidence)
        else:
            reach = -normal_quantile((1 - check_confidence(confidence)) / 2) * self.stderr
            low, high = self.unbiased - reach, self.unbiased + reach
        return min(low, self.value), max(high, self.value)

    def covers_more(self, confidence: float) -> bool:
        """Whether it was extended, or was conservative before."""
        if self.law is not None and self.interval(confidence) == self.law.interval(confidence):
            return bool(self.law.covers_more(confidence))
        return self.value != self.unbiased


@dataclass(frozen=True, eq=False)
class OwnVarianceLaw(Result):
    """For an estimate whose variance at a true value x is constant + slope x - x^2/n: the values
    within z of their own errors."""

    value: float
    constant: float
    slope: float
    n: int

    def interval(self, confidence: float) -> tuple[float, float]:
        squared = normal_quantile((1 - check_confidence(confidence)) / 2) ** 2
        middle, lead = self.value + squared * self.slope / 2, 1 + squared / self.n
        root = math.sqrt(max(middle**2 - lead * (self.value**2 - squared * self.constant), 0.0))
        return (middle - root) / lead, (middle + root) / lead

    def covers_more(self, confidence: float) -> bool:
        """It covers as stated."""
        return False


@dataclass(frozen=True, eq=False)
class LikelihoodLaw(Result):
    """For a proportion in [0, 1] that mixes two known distributions of reports: the proportions
    that a likelihood-ratio test accepts."""

    value: float
    counts: NDArray[np.int64]
    without: _Floats
    """The probabilities of the reports of people without the property."""
    having: _Floats
    """The same of people with it."""

    def interval(self, confidence: float) -> tuple[float, float]:
        drop = normal_quantile((1 - check_confidence(confidence)) / 2) ** 2 / 2
        most = self._likelihood(self.value)
        ends = []
        for edge in (0.0, 1.0):
            outside = edge
            if most - self._likelihood(edge) > drop:
                outside = boundary(
                    lambda proportion: most - self._likelihood(proportion) > drop, self.value, edge
                )
            ends.append(outside)
        return ends[0], ends[1]

    def covers_more(self, confidence: float) -> bool:
        """It covers as stated."""
        return False

    def _likelihood(self, proportion: float) -> float:
        from scipy.special import xlogy  # noqa: PLC0415 - slow to import

        return float(
            xlogy(self.counts, proportion * self.having + (1 - proportion) * self.without).sum()
        )


@dataclass(frozen=True, eq=False)
class ProportionLaw(Result):
    """For the proportion of one label: the interval that the whole estimate gives it."""

    estimate: Any
    place: int

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = self.estimate.interval(confidence)[self.place].tolist()
        return low, high

    def covers_more(self, confidence: float) -> bool:
        """As the whole estimate says of this label."""
        return bool(self.estimate.covers_more(confidence)[self.place])


def _first_crossing(points: _Floats, heights: _Floats) -> float:
    """The first point from which on the heights, straight between points, have reached 0 once."""
    at = int(np.argmax(heights >= 0)) if np.any(heights >= 0) else heights.size - 1
    if at == 0 or heights[at] < 0:
        return float(points[at])
    rise = heights[at] - heights[at - 1]
    return float(points[at] - heights[at] / rise * (points[at] - points[at - 1]))


def _last_crossing(points: _Floats, heights: _Floats) -> float:
    """The last point at which the heights are at most 0."""
    return -_first_crossing(-points[::-1], -heights[::-1])
