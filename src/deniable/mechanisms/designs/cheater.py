"""Cheater detection: two samples reveal how many people say no whatever the dice say."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.mechanisms import solving
from deniable.mechanisms.designs.design import exact_loss
from deniable.mechanisms.designs.forced import ForcedResponse
from deniable.mechanisms.designs.parameters import chance
from deniable.mechanisms.designs.two_group import TwoGroupDesign

__all__ = ["CheaterDetection", "SymmetricCheaterDetection"]

_CLASSES = ("honest yes", "honest no", "cheater")


class _Cheaters(TwoGroupDesign):
    names = ("pi", "beta", "gamma")
    compliance = "gamma"
    meanings = {  # noqa: RUF012 - a constant of the class
        "pi": "honest carriers: a lower bound of the prevalence",
        "beta": "honest others",
        "gamma": "people who say no whatever they are told",
    }

    @property
    def classes(self) -> tuple[str, ...]:
        return _CLASSES

    def class_proportions(self, *values: float) -> NDArray[np.float64]:
        pi, beta = values
        return np.array([pi, beta, 1 - pi - beta])

    def answer_chances(
        self, index: int
    ) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
        (_, yes), (_, no), _ = self.class_channel(index)
        return (no, -no), (yes, -yes)  # a cheater says no

    def _finish(self, estimate: solving.DesignEstimate) -> solving.DesignEstimate:
        note = "the prevalence lies between pi and pi + gamma: cheaters may be carriers or not"
        spread = np.array([[1, 0], [0, 1], [-1, -1]])
        return estimate.transformed(self.names, spread, np.array([0.0, 0.0, 1.0])).replaced(
            notes=(*estimate.notes, note)
        )

    def at_null(
        self, values: tuple[float, ...], parameter: str, null: float
    ) -> tuple[float, tuple[float, ...]]:
        """People not of the kind in question then count as honest others; whether they cheat does
        not matter."""
        pi, beta = values
        if parameter == "gamma":
            return 1 - pi - beta, (pi, 1 - pi - null)
        if parameter == "pi":
            return pi, (null, beta + pi - null)
        return super().at_null(values, parameter, null)

    def _gradient(self, parameter: str, unknowns: NDArray[np.float64]) -> NDArray[np.float64]:
        return (
            np.array([-1.0, -1.0])
            if parameter == "gamma"
            else super()._gradient(parameter, unknowns)
        )


@dataclass(frozen=True)
class CheaterDetection(_Cheaters):
    """Clark and Desharnais 1998: sample i is told to say yes with probability `p1` or `p2`, and to
    tell the truth otherwise.

    The proportions pi, beta and gamma are those of honest carriers, honest others and cheaters, who
    always say no: lam_i = pi + p_i beta. Nobody is ever told to say no, so an honest carrier never
    does: epsilon is **infinite**. :class:`SymmetricCheaterDetection` has a finite one. RRreg "CDM"
    has p = (p1, p2).

    >>> print(CheaterDetection(1 / 4, 3 / 4).estimate_counts(yes=(150, 260), n=(400, 400)))
    pi      23.75 %   16.24 to 31.57   honest carriers: a lower bound of the prevalence
    beta    55.00 %   41.08 to 68.34   honest others
    gamma   21.25 %   13.85 to 29.00   people who say no whatever they are told
    CheaterDetection(p1='1/4', p2='3/4'): 400 + 400 people; epsilon infinite
    intervals cover at least 95 %; standard errors by n - 1
    a "no" rules out an honest carrier: epsilon is infinite
    the prevalence lies between pi and pi + gamma: cheaters may be carriers or not
    """

    p1: Any
    p2: Any

    def __post_init__(self) -> None:
        p1, p2 = chance("p1", self.p1), chance("p2", self.p2)
        self._derive((p1, p2), [[1, p1], [1, p2]], [0, 0])

    @property
    def epsilon(self) -> float:
        return math.inf

    @property
    def warnings(self) -> tuple[str, ...]:
        return ('a "no" rules out an honest carrier: epsilon is infinite',)

    def group(self, index: int) -> ForcedResponse:
        """The instruction of one sample, as a design of its own."""
        p = (self.p1, self.p2)[index]
        return ForcedResponse(1 - p, yes=p)

    def class_channel(self, index: int) -> tuple[tuple[Fraction, ...], ...]:
        p, one, zero = (self.p1, self.p2)[index], Fraction(1), Fraction(0)
        return ((zero, one), (1 - p, p), (one, zero))


@dataclass(frozen=True)
class SymmetricCheaterDetection(_Cheaters):
    """Ostapczuk et al. 2009: as :class:`CheaterDetection`, but people may be told to say no as
    well, so that epsilon is finite.

    Sample i is told to say yes with probability y_i, no with n_i, and to tell the truth otherwise:
    lam_i = pi (1 - n_i) + beta y_i. The epsilon is that of the instruction: a cheater's "no" is not
    an answer to protect. RRreg "CDMsym" has p = (y1, n1, y2, n2).

    >>> design = SymmetricCheaterDetection(3 / 10, 1 / 5, 3 / 5, 1 / 10)
    >>> print(design.estimate_counts(yes=(140, 210), n=(400, 400)))  # doctest: +ELLIPSIS
    pi      25.00 %    9.87 to 40.72   honest carriers: a lower bound of the prevalence
    beta    50.00 %   21.60 to 77.60   honest others
    gamma   25.00 %   11.38 to 38.85   people who say no whatever they are told
    SymmetricCheaterDetection(y1='3/10', n1='1/5', y2='3/5', n2='1/10'): 400 + 400 people; epsilon 1.386
    intervals cover at least 95 %; standard errors by n - 1
    the prevalence lies between pi and pi + gamma: cheaters may be carriers or not
    """

    y1: Any
    n1: Any
    y2: Any
    n2: Any

    def __post_init__(self) -> None:
        y1, n1, y2, n2 = (
            chance(name, getattr(self, name), edges=True) for name in ("y1", "n1", "y2", "n2")
        )
        for name, yes, no in (("n1", y1, n1), ("n2", y2, n2)):
            if yes + no >= 1:
                raise ParameterError(
                    name,
                    getattr(self, name),
                    f"must leave some people to tell the truth: y + n = {yes + no}",
                )
        self._derive((y1, n1, y2, n2), [[1 - n1, y1], [1 - n2, y2]], [0, 0])

    def _instruction(self, index: int) -> tuple[Fraction, Fraction]:
        return ((self.y1, self.n1), (self.y2, self.n2))[index]

    @property
    def epsilon(self) -> float:
        return max(exact_loss(self.class_channel(index)[:2]) for index in (0, 1))

    def group(self, index: int) -> ForcedResponse:
        """The instruction of one sample, as a design of its own."""
        yes, no = self._instruction(index)
        return ForcedResponse(1 - yes - no, yes=yes)

    def class_channel(self, index: int) -> tuple[tuple[Fraction, ...], ...]:
        yes, no = self._instruction(index)
        return ((no, 1 - no), (1 - yes, yes), (Fraction(1), Fraction(0)))
