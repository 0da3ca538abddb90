"""k-anonymity, l-diversity and t-closeness: which classes of a table break them, and how well a
table satisfies them.

None of them is differential privacy: they protect against someone who knows a person's attributes
and nothing else.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_number, check_proportion, check_range, whole
from deniable.errors import ParameterError
from deniable.release.classes import Classes
from deniable.results import Result

__all__ = [
    "Constraint",
    "DistinctDiversity",
    "EntropyDiversity",
    "KAnonymity",
    "RecursiveDiversity",
    "TCloseness",
    "satisfying",
    "sensitive_columns",
]

_Floats = NDArray[np.float64]
_BLOCK = 4_000_000
_SLACK = 1e-12
"""Tolerance: a class that attains a bound satisfies it, whatever the last digits of a logarithm."""


class Constraint(Result, ABC):
    """A rule for the classes of a table."""

    @abstractmethod
    def measure(self, classes: Classes) -> _Floats:
        """The measure of each class."""

    @abstractmethod
    def keeps(self, measured: _Floats) -> NDArray[np.bool_]:
        """Whether the measure is enough."""

    def achieved(self, classes: Classes) -> float:
        """The measure of the whole table: that of its worst class."""
        measured = self.measure(classes)
        return (
            float(measured.max() if isinstance(self, TCloseness) else measured.min())
            if measured.size
            else math.nan
        )


@dataclass(frozen=True, eq=False)
class KAnonymity(Constraint):
    """Each class has k rows or more (Samarati and Sweeney 1998)."""

    k: int

    def __post_init__(self) -> None:
        whole("k", self.k, 1)

    def measure(self, classes: Classes) -> _Floats:
        """The sizes."""
        return classes.sizes.astype(np.float64)

    def keeps(self, measured: _Floats) -> NDArray[np.bool_]:
        """At least k?"""
        return measured >= self.k


@dataclass(frozen=True, eq=False)
class DistinctDiversity(Constraint):
    """Each class has l different values of the column or more (Machanavajjhala et al. 2006)."""

    column: str
    l: float  # noqa: E741 - its name in the field

    def __post_init__(self) -> None:
        _check_diversity(self.l)

    def measure(self, classes: Classes) -> _Floats:
        """The number of different values."""
        of_class, _, _ = classes.values_per_class(self.column)
        return np.bincount(of_class, minlength=classes.sizes.size).astype(np.float64)

    def keeps(self, measured: _Floats) -> NDArray[np.bool_]:
        """At least l?"""
        return measured >= self.l


@dataclass(frozen=True, eq=False)
class EntropyDiversity(Constraint):
    """The entropy of the column in each class is at least ln l: as even as l equally frequent
    values, or more."""

    column: str
    l: float  # noqa: E741

    def __post_init__(self) -> None:
        _check_diversity(self.l)

    def measure(self, classes: Classes) -> _Floats:
        """exp of the entropy."""
        of_class, _, counts = classes.values_per_class(self.column)
        proportion = counts / classes.sizes[of_class]
        return np.exp(
            -np.bincount(
                of_class, weights=proportion * np.log(proportion), minlength=classes.sizes.size
            )
        )

    def keeps(self, measured: _Floats) -> NDArray[np.bool_]:
        """At least l?"""
        return measured >= self.l * (1 - _SLACK)


@dataclass(frozen=True, eq=False)
class RecursiveDiversity(Constraint):
    """(c, l): the most frequent value is rarer than c times all from the l-th most frequent on
    together."""

    column: str
    l: int  # noqa: E741
    c: float = 1.0

    def __post_init__(self) -> None:
        _check_diversity(self.l)
        if not isinstance(self.l, int) or isinstance(self.l, bool):
            raise ParameterError("l", self.l, "must be a whole number")
        check_range("c", self.c, above=0)

    def measure(self, classes: Classes) -> _Floats:
        """How many times the rare values fit into c times; above 1 is enough."""
        of_class, _, counts = classes.values_per_class(self.column)
        order = np.lexsort((-counts, of_class))
        of_class, counts = of_class[order], counts[order]
        starts = np.searchsorted(of_class, np.arange(classes.sizes.size))
        rank = np.arange(of_class.size) - starts[of_class]
        rare = np.bincount(
            of_class, weights=np.where(rank >= self.l - 1, counts, 0), minlength=classes.sizes.size
        )
        return self.c * rare / counts[starts]

    def keeps(self, measured: _Floats) -> NDArray[np.bool_]:
        """Above 1?"""
        return measured > 1


@dataclass(frozen=True, eq=False)
class TCloseness(Constraint):
    """In each class the column is distributed as in the whole table, up to an earth mover's
    distance of t (Li et al. 2007).

    Values are all equally far from each other; or, if `ordered`, as far as their ranks, over the
    number of values less one.
    """

    column: str
    t: float
    ordered: bool = False

    def __post_init__(self) -> None:
        check_proportion("t", self.t)

    def measure(self, classes: Classes) -> _Floats:
        """The distance of each class from all of them."""
        of_class, values, counts = classes.values_per_class(self.column)
        present, values = np.unique(values, return_inverse=True)
        overall = np.bincount(values, weights=counts) / max(classes.n, 1)
        proportion = counts / classes.sizes[of_class]
        if not self.ordered:
            # What one exceeds the other by in some places, the other exceeds it by elsewhere.
            above = np.maximum(proportion - overall[values], 0)
            return np.asarray(
                np.bincount(of_class, weights=above, minlength=classes.sizes.size), dtype=np.float64
            )
        out = np.empty(classes.sizes.size)
        step = max(1, _BLOCK // max(present.size, 1))
        for start in range(0, out.size, step):
            here = (of_class >= start) & (of_class < start + step)
            block = np.zeros((min(step, out.size - start), present.size))
            block[of_class[here] - start, values[here]] = proportion[here]
            out[start : start + step] = np.abs(np.cumsum(block - overall, axis=1)).sum(
                axis=1
            ) / max(present.size - 1, 1)
        return out

    def keeps(self, measured: _Floats) -> NDArray[np.bool_]:
        """At most t?"""
        return measured <= self.t + _SLACK


def _check_diversity(number: float) -> None:
    if not 1 <= check_number("l", number) < math.inf:
        raise ParameterError("l", number, "must be finite and at least 1")


def sensitive_columns(constraints: Sequence[Constraint]) -> list[str]:
    """The columns that constraints are about."""
    return list(
        dict.fromkeys(
            constraint.column for constraint in constraints if hasattr(constraint, "column")
        )
    )


def satisfying(classes: Classes, constraints: Sequence[Constraint]) -> NDArray[np.bool_]:
    """Which classes can stay so that all remaining ones satisfy the constraints.

    Classes that break one are removed repeatedly: t-closeness compares with the whole table, which
    shrinks with them.
    """
    keep = np.ones(classes.sizes.size, dtype=np.bool_)
    while True:
        left = classes.kept(keep)
        good = np.ones(left.sizes.size, dtype=np.bool_)
        for constraint in constraints:
            good &= constraint.keeps(constraint.measure(left))
        if good.all():
            return keep
        keep[np.flatnonzero(keep)[~good]] = False
