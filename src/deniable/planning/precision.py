"""How precise an estimate will be, before any report arrives."""

from __future__ import annotations

import math
from typing import NamedTuple

from deniable.checks import check_confidence
from deniable.errors import PlanError
from deniable.mechanisms.mechanism import Mechanism
from deniable.numerics import normal_quantile

__all__ = ["FEWEST_REPORTS", "ProportionVariance", "deviations"]

FEWEST_REPORTS = 30
"""With fewer, the error is not normally distributed, and no ± is worth printing."""


class ProportionVariance(NamedTuple):
    """The variance of an estimated proportion f, times the number of reports: constant + slope * f
    - f^2.

    For any mechanism whose reports support a label with probability a if it is true and b if it is
    not, because then lam (1 - lam) / (a - b)^2 with lam = b + (a - b) f is a quadratic in f:
    constant = b (1 - b)/(a - b)^2 and slope = (1 - 2 b)/(a - b).

    >>> from deniable import OptimizedUnary
    >>> spread = ProportionVariance.of(OptimizedUnary(4, 1.0))
    >>> round(spread.constant, 6) == round(4 * math.e / (math.e - 1) ** 2, 6), round(spread.slope, 6)
    (True, 2.0)
    """

    constant: float
    slope: float

    @classmethod
    def of(cls, mechanism: Mechanism) -> ProportionVariance:
        """For a mechanism's last label: "yes" for a yes/no question; otherwise all labels are
        alike."""
        support = mechanism.support()
        if support is None:
            raise PlanError(
                f"{type(mechanism).__name__} does not report supported labels, so its error depends"
                " on the whole population"
            )
        return cls.of_pair(float(support[0][-1]), float(support[1][-1]))

    @classmethod
    def of_pair(cls, a: float, b: float) -> ProportionVariance:
        """For reports that support a true label with probability `a` and any other with `b`."""
        return cls(b * (1 - b) / (a - b) ** 2, (1 - 2 * b) / (a - b))

    def variance(self, proportion: float) -> float:
        """n times the variance of the estimate of `proportion`, in an infinite population."""
        return self.constant + (self.slope - proportion) * proportion

    @property
    def worst_proportion(self) -> float:
        """The proportion with the largest variance."""
        return min(self.slope / 2, 1.0)

    def stderr(self, proportion: float, n: float, reached: float = 0.0) -> float:
        """The standard error from `n` reports; `reached` is the fraction of a finite population
        that they come from, else 0.

        V = ( variance - reached * f (1 - f) ) / n: those who were asked add no sampling error.
        """
        return math.sqrt(
            max(self.variance(proportion) - reached * proportion * (1 - proportion), 0.0) / n
        )

    def smallest_proportion(self, cv: float, n: float, reached: float = 0.0) -> float:
        """The proportion at which the standard error is `cv` times the proportion; above 1 if there
        is none.

        The root of (cv^2 n + 1 - reached) f^2 - (slope - reached) f - constant = 0.
        """
        square, linear = cv * cv * n + 1 - reached, self.slope - reached
        return (linear + math.sqrt(linear * linear + 4 * square * self.constant)) / (2 * square)


def deviations(confidence: float) -> float:
    """How many standard errors to either side the ± of a confidence spans.

    >>> round(deviations(0.95), 4)
    1.96
    """
    return normal_quantile((1 + check_confidence(confidence)) / 2)
