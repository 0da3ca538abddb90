"""A figure of a graph with its interval, and how degrees were seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.display import limits_text
from deniable.estimation.tables.statistic import Statistic, normal_reach
from deniable.graphs.limits import (
    CLEAR,
    ENOUGH,
    count_limits,
    denominator_visible,
    flips,
    profile_limits,
    quotient_limits,
)
from deniable.graphs.noise import laplace_quantile
from deniable.graphs.response import EdgeChannel

if TYPE_CHECKING:
    pass

__all__ = ["AT_LEAST", "DegreeNoise", "GraphStatistic"]

_Floats = NDArray[np.float64]


AT_LEAST = ", 95 % or more"


@dataclass(frozen=True, eq=False)
class GraphStatistic(Statistic):
    """A figure of a graph with its standard error and an interval.

    >>> print(GraphStatistic("triangles", 120.0, 10.0, n=50))
    triangles: 120.0, 100.4 to 139.6 (95 %, from 50 reports)
    """

    bounds: tuple[float, float] | None = None
    """The possible values of the figure: its interval if too few coins flip for a better one."""
    ratio: tuple[float, float, float, float, float] | None = None
    """Of a quotient: numerator, denominator, and their variances and covariance (numerator's,
    both's, denominator's)."""
    exact: tuple[int, int, float, float, int] | None = None
    """Of a count of few coins: ones, pairs, a, b, bits per pair."""
    unit: float = 1.0
    """What one edge adds to such a count."""
    profile: tuple[float, float, float] | None = None
    """How the variance depends on the true figure x, where it does enough to make a symmetric
    interval miss on one side: it is variance + slope (x - value), but no less than a floor.
    Variance, slope, floor."""
    wide: bool = False
    """Whether the standard error is conservative."""
    lost: float = 0.0
    """At most so much of the true figure is missing from the mean of the estimate; the interval is
    extended by it."""

    @property
    def coverage(self) -> str:
        """What the interval claims: "as stated", "at least" as often as stated, or "all possible":
        it rules nothing out."""
        if self.exact is not None or (self.law is not None and self.law.covers_more(0.95)):
            return "at least"
        if self.bounds is not None and (self.ratio is None or not denominator_visible(self.ratio)):
            return "all possible"
        drowning = self.ratio is not None and not denominator_visible(self.ratio, CLEAR)
        return "at least" if self.lost or self.wide or drowning else "as stated"

    def covers_more(self, confidence: float = 0.95) -> bool:
        """Whether the interval covers at least, not just, as often as stated."""
        return self.coverage != "as stated" or super().covers_more(confidence)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high, which cover the true figure with the given probability; see
        :attr:`coverage`.

        All figures within that many of their own standard errors: estimate ± normal quantile times
        standard error where the standard error does not depend on the figure. Of a quotient see
        :func:`quotient_limits`; of a count of few coins, it comes from the exact law.
        """
        check_confidence(confidence)
        if self.law is not None:
            return self.law.interval(confidence)
        if self.exact is not None:
            ones, pairs, a, b, copies = self.exact
            low, high = count_limits(
                np.array([ones]), pairs, EdgeChannel(a, b, copies), confidence
            )[0].tolist()
            return low * self.unit, high * self.unit
        if self.bounds is not None and self.coverage == "all possible":
            return self.bounds
        if self.ratio is not None:
            low, high = quotient_limits(self.ratio, confidence)
        elif self.profile is not None:
            low, high = profile_limits(self.value, self.profile, confidence)
        else:
            reach = normal_reach(confidence) * self.stderr
            low, high = self.value - reach, self.value + reach
        high = high / (1 - self.lost) if high > 0 else high
        return low, high if self.bounds is None else min(high, self.bounds[1])

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with an interval and what it claims."""
        return {**super().to_dict(confidence), "coverage": self.coverage}

    def with_interval(self) -> str:
        """The value and its interval, if there is one."""
        low, high = self.interval()
        digits = _digits((high - low) / 2)
        value = f"{self.value:,.{digits}f}"
        if self.coverage == "all possible":
            return f"{value}, no interval"
        if low == high:
            return f"{self.value:,.6g}  ({low:,.6g}{AT_LEAST})"
        return (
            f"{value} "
            f" ({limits_text((low, high), digits)}{AT_LEAST if self.coverage == 'at least' else ''})"
        )


def _digits(reach: float) -> int:
    return next((digits for digits in range(9) if reach * 10**digits >= 10), 9) if reach > 0 else 0


@dataclass(frozen=True)
class DegreeNoise:
    """How degrees were seen: as ones among the bits of a row, or with Laplace noise of a scale."""

    channel: EdgeChannel | None = None
    scale: float | None = None

    def coverage(self, nodes: int) -> str:
        """What the limits claim, as :attr:`GraphStatistic.coverage`: the exact law of whole numbers
        covers more often."""
        few = self.channel is not None and flips(nodes - 1, self.channel) < ENOUGH
        return "at least" if few or self.scale is not None else "as stated"

    def limits(self, degrees: _Floats, stderr: _Floats, nodes: int, confidence: float) -> _Floats:
        """Low and high, one row per node."""
        if self.scale is not None:
            reach = float(laplace_quantile(self.scale, check_confidence(confidence)))
            return np.column_stack([degrees - reach, degrees + reach])
        channel = self.channel
        if channel is not None and self.coverage(nodes) == "at least":
            ones = np.rint(
                channel.copies * ((nodes - 1) * channel.b + channel.gap * degrees)
            ).astype(np.int64)
            return count_limits(ones, nodes - 1, channel, check_confidence(confidence))
        reach_all = normal_reach(confidence) * stderr
        return np.column_stack([degrees - reach_all, degrees + reach_all])
