"""Thresholded histogram encoding, without drawing the Laplace noise that defines it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.checks import check_double, check_epsilon
from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.mechanisms.protocols.unary import UnaryMechanism

__all__ = ["ThresholdHistogram"]


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdHistogram(UnaryMechanism):
    """One-hot plus Laplace(2/epsilon) noise, and each entry reported as "above the threshold" or
    not (Wang et al. 2017, 4.3).

    Only the bits matter, so they are drawn with the probabilities the noise would give them: a = 1
    - e^(epsilon (t - 1)/2)/2 and b = e^(-epsilon t/2)/2, for a threshold t between 1/2 and 1; by
    default the t with the least variance for rare values. `epsilon` is the loss of the bits, which
    is smaller than that of the noise.

    >>> ThresholdHistogram(16, 1.0).epsilon < 1.0
    True
    """

    values: Any
    epsilon: float
    threshold: float | None = None

    def __post_init__(self) -> None:
        requested_epsilon = check_epsilon(self.epsilon)
        threshold = _best_threshold(requested_epsilon) if self.threshold is None else self.threshold
        t, half = check_double("threshold", threshold), Fraction(requested_epsilon) / 2
        if t <= Fraction(1, 2):
            raise ParameterError("threshold", threshold, "must lie strictly between 1/2 and 1")
        a = exact.down(1 - exact.exp(half * (t - 1)) / 2)
        b = exact.up(exact.exp(-half * t) / 2)
        self._set(requested_epsilon=requested_epsilon, threshold=float(t))
        self._derive(self.values, a, b)

    def parameters(self) -> dict[str, Any]:
        return {
            "values": self.domain.spec(),
            "epsilon": self.requested_epsilon,
            "threshold": self.threshold,
        }


def _best_threshold(epsilon: float) -> float:
    """The threshold in (1/2, 1) that minimises b (1 - b) / (a - b)^2, by golden section: the
    function has one valley."""

    def variance(t: float) -> float:
        b = math.exp(-epsilon * t / 2) / 2
        gap = 1 - math.exp(epsilon * (t - 1) / 2) / 2 - b
        return b * (1 - b) / gap**2

    low, high = 0.5 + 1e-9, 1 - 1e-9
    ratio = (math.sqrt(5) - 1) / 2
    while high - low > 1e-7:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if variance(left) < variance(right):
            high = right
        else:
            low = left
    # Rounded, so that every machine finds the same one.
    return round((low + high) / 2, 6)
