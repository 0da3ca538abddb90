"""Whether the number of ones in a crowd's reports is what honest coins produce.

Of n honest unary reports over k labels, each with one true label, the number of ones is Binomial(n,
a) + Binomial(n (k - 1), b), whatever the answers. Reports fabricated to raise or lower every label
change it. One report reveals nothing, since every report is possible, but the sum over the crowd
has a known law, and a tally keeps that sum.

The tail is bounded by P(T >= x) <= min over t of exp(K(t) - t x), with K the logarithm of the exact
moment generating function (Chernoff 1952). Every t gives a bound, so the stated rate of false
alarms is never exceeded, at any n.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["FALSE_ALARM", "SumLaw", "bits_law", "improbable_weight", "log_mean_exp"]

FALSE_ALARM = 1e-6
"""The largest probability that an honest crowd is flagged."""
_STEEPEST = 60.0


@dataclass(frozen=True)
class SumLaw:
    """The law of a sum of independent numbers: its mean, and the logarithm of its moment generating
    function."""

    mean: float
    cumulant: Callable[[float], float]

    def log_tail(self, total: float, sign: int) -> float:
        """An upper bound on ln P(sum >= total) with sign 1, on ln P(sum <= total) with sign -1."""

        def exponent(t: float) -> float:
            return self.cumulant(sign * t) - sign * t * total

        # Convex in t and 0 at t = 0: ternary search finds its minimum.
        low, high = 0.0, _STEEPEST
        for _ in range(50):
            third = (high - low) / 3
            if exponent(low + third) < exponent(high - third):
                high -= third
            else:
                low += third
        return min(exponent((low + high) / 2), 0.0)


def bits_law(bits: int, true: int, a: float, b: float) -> SumLaw:
    """How many of `bits` are reported as 1, if `true` of them are true."""
    mean = true * a + (bits - true) * b
    return SumLaw(
        mean,
        lambda t: (
            true * math.log1p(a * math.expm1(t)) + (bits - true) * math.log1p(b * math.expm1(t))
        ),
    )


def log_mean_exp(law: NDArray[np.float64], exponents: NDArray[np.float64]) -> float:
    """ln E e^x of a discrete law over the exponents."""
    largest = float(exponents.max())
    return largest + math.log(float(law @ np.exp(exponents - largest)))


def improbable_weight(
    what: str, total: int, n: int, fewest: SumLaw, most: SumLaw
) -> tuple[str, ...]:
    """A sentence if the sum is outside what honest coins give: below that of `fewest` true labels,
    or above that of `most`."""
    for law, sign, than in ((most, 1, "at most"), (fewest, -1, "at least")):
        if law.log_tail(total, sign) < math.log(FALSE_ALARM / 2):
            expected = law.mean / n
            return (
                (
                    f"improbable reports: {total / n:.4g} {what} per report on average, where"
                    f" honest coins give {than} {expected:.4g}; an honest crowd is flagged less"
                    f" than once in {1 / FALSE_ALARM:,.0f}, so some reports may be made up"
                ),
            )
    return ()
