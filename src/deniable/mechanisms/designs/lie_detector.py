"""The stochastic lie detector: two samples reveal how many carriers tell the truth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.mechanisms import solving
from deniable.mechanisms.designs.mangat import Mangat
from deniable.mechanisms.designs.parameters import chance
from deniable.mechanisms.designs.two_group import TwoGroupDesign

__all__ = ["StochasticLieDetector"]


@dataclass(frozen=True)
class StochasticLieDetector(TwoGroupDesign):
    """Moshagen, Musch and Erdfelder 2012: Mangat's design in two samples; carriers follow it with
    probability t, else say no.

    Non-carriers say no with probability p_i: lam_i = pi t + (1 - pi)(1 - p_i). Here `pi` is the
    prevalence itself, and `t` the proportion of carriers who tell the truth. Only a liar or a
    non-carrier says "no": epsilon is **infinite**. If `pi` is estimated at or below 0, `t` is
    unknown, and both still have an interval. RRreg "SLD" has p = (p1, p2).

    >>> print(StochasticLieDetector(2 / 12, 10 / 12).estimate_counts(yes=(373, 398), n=(564, 692)))
    pi   87.07 %   78.92 to 95.34
    t    63.58 %   60.30 to 67.13   carriers who tell the truth
    StochasticLieDetector(p1='1/6', p2='5/6'): 564 + 692 people; epsilon infinite
    intervals cover at least 95 %; standard errors by n - 1
    a "no" rules out a carrier who follows the instruction: epsilon is infinite
    """

    p1: Any
    p2: Any

    names = ("pi", "t")
    compliance = "t"
    meanings = {"t": "carriers who tell the truth"}  # noqa: RUF012 - a constant of the class

    def __post_init__(self) -> None:
        p1, p2 = chance("p1", self.p1), chance("p2", self.p2)
        # Linear in pi and in pi t: lam = pi t + (1 - p)(1 - pi).
        self._derive((p1, p2), [[p1 - 1, 1], [p2 - 1, 1]], [1 - p1, 1 - p2])

    @property
    def epsilon(self) -> float:
        return math.inf

    @property
    def warnings(self) -> tuple[str, ...]:
        return ('a "no" rules out a carrier who follows the instruction: epsilon is infinite',)

    @property
    def classes(self) -> tuple[str, ...]:
        return ("truthful carrier", "lying carrier", "non-carrier")

    def group(self, index: int) -> Mangat:
        """The instruction of one sample, as a design of its own."""
        return Mangat((self.p1, self.p2)[index])

    def class_channel(self, index: int) -> tuple[tuple[Fraction, ...], ...]:
        p, one, zero = (self.p1, self.p2)[index], Fraction(1), Fraction(0)
        return ((zero, one), (one, zero), (p, 1 - p))

    def class_proportions(self, *values: float) -> NDArray[np.float64]:
        pi, t = values
        return np.array([pi * t, pi * (1 - t), 1 - pi])

    def answer_chances(
        self, index: int
    ) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
        p = (self.p1, self.p2)[index]
        return (1 - p, Fraction(0)), (Fraction(0), Fraction(1))

    def _finish(self, estimate: solving.DesignEstimate) -> solving.DesignEstimate:
        return estimate.ratio("t", numerator=1, denominator=0)

    def _gradient(self, parameter: str, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        if parameter == "t":
            pi, product = unknowns
            return np.array([-product / pi**2, 1 / pi])
        return super()._gradient(parameter, unknowns)
