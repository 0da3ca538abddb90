"""What two-sample designs have in common: two rates of "yes" that are linear in two unknowns.

Respondents fall into classes that nobody sees (carriers and others, honest and not). Each sample
has its own exact channel from class to answer; neither alone determines the classes' proportions,
but both together do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.mechanisms import solving
from deniable.mechanisms.designs.design import draw_exactly, drawable
from deniable.mechanisms.designs.parameters import count
from deniable.randomness import Source, source_or_system

__all__ = ["TwoGroupDesign"]

_Floats = NDArray[np.float64]


class TwoGroupDesign(ABC):
    """A frozen dataclass of probabilities; `names` are the parameters that are estimated."""

    names: ClassVar[tuple[str, ...]]
    meanings: ClassVar[dict[str, str]] = {}
    """What a parameter is, where its name does not say so."""
    compliance: ClassVar[str]
    """The rate that :meth:`answer_chances` depends on: how many follow the instructions, or say yes
    to another question."""
    _rows: _Floats
    _shift: _Floats
    _inverse: _Floats
    _bounds: list[tuple[float, float]]
    """The smallest and the largest possible rate of yes in each sample."""

    def _derive(
        self, groups: Sequence[Any], rows: Sequence[Sequence[Any]], shift: Sequence[Any]
    ) -> None:
        """Take lam = rows @ unknowns + shift; `groups` are the exact parameters, in the order of
        the fields."""
        for name, value in zip(self.__dataclass_fields__, groups, strict=True):  # type: ignore[attr-defined]
            object.__setattr__(self, name, value)
        (a, b), (c, d) = rows
        if a * d == b * c:
            names = list(self.__dataclass_fields__)  # type: ignore[attr-defined]
            raise ParameterError(
                names[-1],
                str(groups[-1]),
                "makes both samples alike: they must differ for two unknowns to be estimated",
            )
        derived = {
            "_rows": np.array(rows, dtype=np.float64),
            "_shift": np.array(shift, dtype=np.float64),
            "_inverse": np.asarray(
                np.linalg.inv(np.array(rows, dtype=np.float64)), dtype=np.float64
            ),
            "_bounds": [
                (float(row.min()), float(row.max()))
                for row in (self.channel(index)[1] for index in (0, 1))
            ],
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    # --- what a design says about itself

    @property
    @abstractmethod
    def epsilon(self) -> float:
        """The loss of the instruction, for people who follow it: the worst over both answers and
        both samples."""

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """The kinds of respondents."""

    @abstractmethod
    def class_channel(self, index: int) -> tuple[tuple[Fraction, ...], ...]:
        """One row per class: P(no), P(yes) in one sample."""

    @abstractmethod
    def class_proportions(self, *values: float) -> _Floats:
        """The proportions of the classes, from the values of the first two parameters."""

    @abstractmethod
    def answer_chances(
        self, index: int
    ) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
        """For a true answer of no, then yes: P(yes said) in one sample as constant + slope × the
        rate `compliance`."""

    def _finish(self, estimate: solving.DesignEstimate) -> solving.DesignEstimate:
        """The parameters of interest, from the two linear unknowns."""
        return estimate

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a person who answers should know."""
        return ()

    def channel(self, index: int) -> _Floats:
        """P[report, class] in one sample; the reports are no and yes, and there are more classes
        than reports."""
        return np.array([[float(p) for p in row] for row in self.class_channel(index)]).T

    def rates(self, *values: float) -> _Floats:
        """The expected proportions of yes in both samples, from the values of the first two
        parameters."""
        proportions = self.class_proportions(*values)
        return np.array([float(self.channel(index)[1] @ proportions) for index in (0, 1)])

    # --- estimating

    def estimate_counts(self, *, yes: Sequence[int], n: Sequence[int]) -> solving.DesignEstimate:
        """The parameters from the numbers of yes and of people in both samples."""
        counts, people = self.counted(yes, n)
        inverse = self._inverse
        rates = solving.GroupRates.of(counts, people, self._bounds, inverse, -inverse @ self._shift)
        estimate = solving.DesignEstimate.linear(
            rates, str(self), self.names[:2], self.epsilon, notes=self.warnings
        )
        return self._finish(estimate.replaced(meanings=self.meanings))

    @staticmethod
    def counted(
        yes: Sequence[int], n: Sequence[int], name: str = "yes"
    ) -> tuple[list[int], list[int]]:
        """The numbers of yes and of people in both samples, after checking that they are
        possible."""
        for what, pair in ((name, yes), ("n", n)):
            if isinstance(pair, int | float | str) or len(pair) != 2:
                raise ParameterError(what, pair, "must be two numbers, one per sample")
        people = [count(f"n[{i}]", value) for i, value in enumerate(n)]
        counts = [count(f"{name}[{i}]", value, people[i]) for i, value in enumerate(yes)]
        if min(people) < 2:
            raise ParameterError("n", list(n), "must be at least 2 people in each sample")
        return counts, people

    def estimate(self, groups: Sequence[Any]) -> solving.DesignEstimate:
        """The parameters from the answers of both samples: columns of 0 and 1, or of "no" and
        "yes"."""
        if len(groups) != 2:
            raise ParameterError("len(groups)", len(groups), "must be 2")
        answers = [np.asarray(group) for group in groups]
        said = [
            np.isin(group, ["yes"]) if group.dtype.kind in "UO" else group.astype(bool)
            for group in answers
        ]
        return self.estimate_counts(
            yes=[int(part.sum()) for part in said], n=[part.size for part in said]
        )

    def privatize(
        self, classes: Sequence[str], index: int, source: Source | None = None
    ) -> NDArray[np.uint8]:
        """What people of these classes say in one sample, 1 for yes: with coins of exactly the
        stated fractions."""
        known = {name: place for place, name in enumerate(self.classes)}
        try:
            places = np.array([known[name] for name in classes], dtype=np.intp)
        except KeyError:
            raise ParameterError("classes", "…", f"must be of {', '.join(known)}") from None
        return draw_exactly(
            drawable(self.class_channel(index)), places, source_or_system(source)
        ).astype(np.uint8)

    def expected_stderr(self, n: Sequence[int], *values: float, parameter: str = "pi") -> float:
        """The standard error of a parameter from `n` people in both samples, if the first two
        parameters have these values."""
        rates = self.rates(*values)
        inverse = self._inverse
        spread = rates * (1 - rates) / np.asarray(n, dtype=np.float64)
        covariance = (inverse * spread) @ inverse.T
        gradient = self._gradient(parameter, inverse @ (rates - self._shift))
        return math.sqrt(float(gradient @ covariance @ gradient))

    def at_null(
        self, values: tuple[float, ...], parameter: str, null: float
    ) -> tuple[float, tuple[float, ...]]:
        """The parameter's value, and the first two parameters if it were `null` and the others
        unchanged."""
        at = self._place(parameter)
        moved = list(values)
        moved[at] = null
        return values[at], tuple(moved)

    def _place(self, parameter: str) -> int:
        if parameter not in self.names:
            raise ParameterError("parameter", parameter, f"must be one of {', '.join(self.names)}")
        return self.names.index(parameter)

    def _gradient(self, parameter: str, unknowns: _Floats) -> _Floats:
        """The derivatives of a parameter with respect to the two linear unknowns."""
        return np.asarray(np.eye(2)[self._place(parameter)])

    def __str__(self) -> str:
        shown = ", ".join(
            f"{name}={str(getattr(self, name))!r}"
            for name in self.__dataclass_fields__  # type: ignore[attr-defined]
        )
        return f"{type(self).__name__}({shown})"
