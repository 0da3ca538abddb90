"""What a questionnaire asks: one question, and how well a mechanism answers it at an epsilon."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deniable.checks import check_range, whole
from deniable.errors import ParameterError
from deniable.matrices import left_inverse
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice
from deniable.mechanisms.protocols.subset import SubsetSelection
from deniable.mechanisms.protocols.unary import OptimizedUnary, SymmetricUnary
from deniable.mechanisms.protocols.waves.square_wave import SquareWave
from deniable.planning.precision import ProportionVariance
from deniable.planning.splitting import VarianceCurve
from deniable.renames import reads_old_names
from deniable.results import Result

__all__ = ["Question"]

_AS_GOOD = 1.01
"""Variances within 1 % count as equal: the simpler mechanism wins."""
_MOST_BINS = 64
_CURVES: dict[Any, VarianceCurve] = {}
"""By the shape of a question: questionnaires have many questions of few shapes."""


@reads_old_names
@dataclass(frozen=True, eq=False)
class Question(Result):
    """A question with labels, of which a person has one or chooses up to `choose`; or a number from
    `low` to `high`.

    `importance` weights its squared error against those of other questions; `proportion` is the
    proportion at which the error is planned (by default, the hardest to estimate).
    """

    name: str
    labels: tuple[Hashable, ...] = ()
    choose: int = 1
    low: float | None = None
    high: float | None = None
    integers: bool = False
    importance: float = 1.0
    proportion: float | None = None

    def __post_init__(self) -> None:
        if self.numeric and self.labels:
            raise ParameterError(
                "labels", list(self.labels), "cannot be combined with a range (low, high)"
            )
        object.__setattr__(self, "importance", check_range("importance", self.importance, above=0))
        if self.proportion is not None:
            check_range("proportion", self.proportion, above=0, below=1)
        if self.numeric:
            if self.low is None or self.high is None:
                raise ParameterError(
                    "high" if self.high is None else "low",
                    None,
                    "must be given: a number has a range",
                )
            self._wave(1.0)  # refuses an invalid range
            return
        domain = Domain.of(self.labels)
        object.__setattr__(self, "labels", tuple(domain.labels))
        whole("choose", self.choose, 1, len(domain))

    @property
    def numeric(self) -> bool:
        """Whether the answer is a number."""
        return self.low is not None or self.high is not None

    @property
    def multiple(self) -> bool:
        """Whether a person may choose several labels."""
        return self.choose > 1

    @property
    def fakeable(self) -> bool:
        """Whether fake answers can be drawn."""
        return not (self.numeric or self.multiple)

    def _wave(self, epsilon: float) -> SquareWave:
        """The square wave of a number. Bins of several whole numbers are of equal size, the last
        may reach beyond `high`."""
        assert self.low is not None  # noqa: S101 - a number has a range
        assert self.high is not None  # noqa: S101 - a number has a range
        count = round(self.high - self.low) + 1
        # an invalid range is refused by the wave
        if not self.integers or not float(self.low).is_integer() or count < 2:
            return SquareWave(epsilon, _MOST_BINS, self.low, self.high, self.integers)
        width = math.ceil(count / _MOST_BINS)
        bins = math.ceil(count / width)
        return SquareWave(epsilon, bins, self.low, self.high + bins * width - count, integers=True)

    def candidates(self, epsilon: float, fakeable: bool = False) -> list[Mechanism]:
        """The mechanisms that can answer it at an epsilon, the simpler ones first."""
        if self.numeric:
            return [self._wave(epsilon)]
        labels = list(self.labels)
        if self.multiple:
            return [MultipleChoice(labels, epsilon, self.choose)]
        found: list[Mechanism] = [DirectEncoding(labels, epsilon)]
        if len(labels) > 2:
            found += [OptimizedUnary(labels, epsilon), SymmetricUnary(labels, epsilon)]
            found += [] if fakeable else [SubsetSelection(labels, epsilon)]
        return found

    def mechanism(self, epsilon: float) -> Mechanism:
        """The one with the smallest error at an epsilon or below it.

        Some mechanisms do worse with more: at an epsilon at which subset selection reports smaller
        sets, or a square wave is narrower by a bin, the variance of the planned proportion rises.
        Such a mechanism is given less than it may spend.
        """
        found, variance = self._best(epsilon)
        lower, least = self._curve.least_up_to(epsilon)
        return self._best(lower)[0] if least < variance / _AS_GOOD else found

    def _best(self, epsilon: float) -> tuple[Mechanism, float]:
        """The simplest of the mechanisms at this epsilon that are as good as the best, and its
        variance."""
        found = self.candidates(epsilon)
        variances = [self.variance(mechanism) for mechanism in found]
        best = next(
            at for at, variance in enumerate(variances) if variance <= _AS_GOOD * min(variances)
        )
        return found[best], variances[best]

    def _kind_and_variance(self, epsilon: float) -> tuple[Hashable, float]:
        """The best mechanism's kind, with the whole numbers that change with epsilon, and its
        variance."""
        mechanism, variance = self._best(epsilon)
        whole = (
            mechanism.w
            if isinstance(mechanism, SubsetSelection)
            else getattr(mechanism, "half_width", None)
        )
        return (type(mechanism), whole), variance

    def planned_proportion(self, mechanism: Mechanism) -> float:
        """The proportion at which the error is stated."""
        return (
            ProportionVariance.of(mechanism).worst_proportion
            if self.proportion is None
            else self.proportion
        )

    def variance(self, mechanism: Mechanism) -> float:
        """n times the variance of a proportion; for a number, of its mean relative to its range, if
        all are equally frequent."""
        if isinstance(mechanism, SquareWave):
            matrix = mechanism.channel()
            assert self.low is not None  # noqa: S101 - a number has a range
            assert self.high is not None  # noqa: S101 - a number has a range
            weights = (np.array(mechanism.labels) - self.low) / (self.high - self.low)
            contributions = weights @ left_inverse(matrix)
            rates = matrix.mean(axis=1)
            return float(rates @ contributions**2 - (rates @ contributions) ** 2)
        spread = ProportionVariance.of(mechanism)
        return spread.variance(self.planned_proportion(mechanism))

    @cached_property
    def _curve(self) -> VarianceCurve:
        shape = round((self.high or 0) - (self.low or 0)) if self.integers else None
        key = (
            ("number", shape) if self.numeric else (len(self.labels), self.choose, self.proportion)
        )
        if key not in _CURVES:
            _CURVES[key] = VarianceCurve.of(self._kind_and_variance)
        return _CURVES[key]

    def variances(self, epsilons: Any) -> Any:
        """The least variances that some epsilons allow, by interpolation, for the search over
        budgets."""
        return self._curve.variances(epsilons)
