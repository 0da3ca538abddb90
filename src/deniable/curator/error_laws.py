"""How far a released number may be from the exact one, for each kind of statistic."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from deniable.checks import check_confidence
from deniable.curator.law import DiscreteLaplace, proportion_limits, sum_reach
from deniable.results import Result

__all__ = [
    "BracketError",
    "ErrorLaw",
    "LinearError",
    "NoError",
    "RatioError",
    "RootError",
    "VarianceError",
]


class ErrorLaw(Protocol):
    """What is known about an error without knowing the exact value."""

    @property
    def stderr(self) -> float:
        """The standard deviation of the released value; NaN where only limits are known."""

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """Low and high around the released value, which cover the exact one with at least the given
        probability."""


@dataclass(frozen=True, eq=False)
class NoError(Result):
    """The value is public."""

    @property
    def stderr(self) -> float:
        """None at all."""
        return 0.0

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """The value itself."""
        check_confidence(confidence)
        return value, value


@dataclass(frozen=True, eq=False)
class LinearError(Result):
    """The value is the exact one plus noise of this law."""

    law: DiscreteLaplace

    @property
    def stderr(self) -> float:
        """The noise's standard deviation."""
        return self.law.stderr

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """Exact: the noise lies within as many steps with at least this probability."""
        reach = self.law.reach(confidence)
        return value - reach, value + reach


@dataclass(frozen=True, eq=False)
class RatioError(Result):
    """The value lies `part/total` of the way from `low` to `low + width`; part and rest carry
    Laplace noise of this scale."""

    part: float
    total: float
    scale: float
    grid: float
    low: float
    width: float

    @property
    def stderr(self) -> float:
        """By the delta method; that of noise alone where it drowns the total."""
        proportion = min(max(self.part / self.total, 0.0), 1.0) if self.total > 0 else 1.0
        spread = (
            self.scale * math.sqrt(2 * ((1 - proportion) ** 2 + proportion**2)) / self.total
            if self.total > 0
            else math.inf
        )
        return self.width * min(spread, 0.5)

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """Fieller's limits, which hold for few rows too: at worst they are the bounds."""
        low, high = proportion_limits(
            self.part, self.total, self.scale, 2, check_confidence(confidence), self.grid
        )[0]
        return self.low + self.width * float(low), self.low + self.width * float(high)


SMALLEST_TOTAL = 60.0
"""Noise scales that the number of rows must reach for the linear error of a variance to hold;
below, all is possible."""


@dataclass(frozen=True, eq=False)
class VarianceError(Result):
    """The variance of `total` rows from three noisy sums, whose noise enters with these weights, to
    first order."""

    weights: tuple[float, float, float]
    total: float
    scale: float
    grid: float
    width: float
    centre: float | None = None
    """The estimate before it was brought between 0 and what is possible; None in documents of
    earlier versions."""

    @property
    def stderr(self) -> float:
        """By the delta method."""
        if self.total <= 0:
            return self._largest / 2
        spread = self.scale * math.sqrt(2 * sum(weight**2 for weight in self.weights))
        return min(self.width**2 * spread / self.total, self._largest / 2)

    @property
    def _largest(self) -> float:
        """No values between bounds have a larger variance."""
        return self.width**2 / 4

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """The reach of the weighted sum of three noises, within what is possible.

        It is laid around the estimate that was not cut off at 0, or it would cover more than it
        says. Where nothing possible is in reach of that one, it is laid around the value.
        """
        check_confidence(confidence)
        if self.total < SMALLEST_TOTAL * self.scale:
            return 0.0, self._largest
        grid = self.width**2 * self.grid / 2 * max(map(abs, self.weights)) / self.total
        reach = float(sum_reach(np.array(self.weights), confidence)) * self.stderr + grid
        centre = (
            value
            if self.centre is None or not -reach < self.centre < self._largest + reach
            else self.centre
        )
        return max(centre - reach, 0.0), min(centre + reach, self._largest)


@dataclass(frozen=True, eq=False)
class RootError(Result):
    """The value is the square root of one with this error."""

    square: float
    error: ErrorLaw

    @property
    def stderr(self) -> float:
        """By the delta method; NaN where the square may be 0."""
        return (
            self.error.stderr / (2 * math.sqrt(self.square))
            if self.square > self.error.stderr
            else math.nan
        )

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """The roots of the limits: they cover exactly as often."""
        low, high = self.error.limits(self.square, confidence)
        return math.sqrt(max(low, 0.0)), math.sqrt(max(high, 0.0))


@dataclass(frozen=True, eq=False)
class BracketError(Result):
    """Limits that were paid for with the value, at one confidence; at a higher one only the bounds
    are known to hold."""

    low: float
    high: float
    bounds: tuple[float, float]
    confidence: float = 0.95

    @property
    def stderr(self) -> float:
        """Depends on how dense the values are, which is not known."""
        return math.nan

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """The limits paid for, if they are good enough."""
        return (
            (self.low, self.high)
            if check_confidence(confidence) <= self.confidence
            else self.bounds
        )
