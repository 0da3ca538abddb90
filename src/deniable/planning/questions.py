"""What a questionnaire asks: one question, and how well a mechanism answers it at an epsilon."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from deniable.errors import ParameterError
from deniable.matrices import left_inverse
from deniable.mechanisms.direct import DirectEncoding
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.exact import LARGEST_EPSILON, SMALLEST_EPSILON, check_number, check_whole
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.multiple_choice import MultipleChoice
from deniable.mechanisms.square_wave import SquareWave
from deniable.mechanisms.subset import SubsetSelection
from deniable.mechanisms.unary import OptimizedUnary, SymmetricUnary
from deniable.planning.precision import Spread
from deniable.results import Result

__all__ = ["Question"]

_AS_GOOD = 1.01
"""Variances within 1 % count as equal: the simpler mechanism wins."""
_MOST_BINS = 64
_LEAST_EPSILON = 5e-3
_POINTS = 65


@dataclass(frozen=True, eq=False)
class Question(Result):
    """A question with labels, of which a person has one or chooses up to `choose`; or a number from `low` to `high`.

    `importance` weights its squared error against those of other questions; `share` is the share at which the error is planned
    (by default, the hardest to estimate).
    """

    name: str
    labels: tuple[Hashable, ...] = ()
    choose: int = 1
    low: float | None = None
    high: float | None = None
    integers: bool = False
    importance: float = 1.0
    share: float | None = None

    def __post_init__(self) -> None:
        if self.numeric and self.labels:
            raise ParameterError("labels", list(self.labels), "cannot be combined with a range (low, high)")
        importance = check_number("importance", self.importance)
        if not (math.isfinite(importance) and importance > 0):
            raise ParameterError("importance", self.importance, "must be finite and above 0")
        object.__setattr__(self, "importance", importance)
        if self.share is not None and not 0 < check_number("share", self.share) < 1:
            raise ParameterError("share", self.share, "must lie strictly between 0 and 1")
        if self.numeric:
            if self.low is None or self.high is None:
                raise ParameterError("high" if self.high is None else "low", None, "must be given: a number has a range")
            SquareWave(1.0, self._bins, self.low, self.high, self.integers)  # refuses an invalid range
            return
        domain = Domain.of(self.labels)
        object.__setattr__(self, "labels", tuple(domain.labels))
        check_whole("choose", self.choose, 1, len(domain))

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

    @property
    def _bins(self) -> int:
        if not self.integers:
            return _MOST_BINS
        assert self.low is not None and self.high is not None  # noqa: S101, PT018 - checked before
        count = round(self.high - self.low) + 1
        return max(bins for bins in range(1, min(count, _MOST_BINS) + 1) if count % bins == 0) if count > 1 else 1

    def candidates(self, epsilon: float, fakeable: bool = False) -> list[Mechanism]:
        """The mechanisms that can answer it at an epsilon, the simpler ones first."""
        if self.numeric:
            assert self.low is not None and self.high is not None  # noqa: S101, PT018 - checked when it was made
            return [SquareWave(epsilon, self._bins, self.low, self.high, self.integers)]
        labels = list(self.labels)
        if self.multiple:
            return [MultipleChoice(labels, epsilon, self.choose)]
        found: list[Mechanism] = [DirectEncoding(labels, epsilon)]
        if len(labels) > 2:
            found += [OptimizedUnary(labels, epsilon), SymmetricUnary(labels, epsilon)]
            found += [] if fakeable else [SubsetSelection(labels, epsilon)]
        return found

    def mechanism(self, epsilon: float) -> Mechanism:
        """The one with the smallest error at an epsilon."""
        found = self.candidates(epsilon)
        variances = [self.variance(mechanism) for mechanism in found]
        return next(m for m, v in zip(found, variances, strict=True) if v <= _AS_GOOD * min(variances))

    def planned_share(self, mechanism: Mechanism) -> float:
        """The share at which the error is stated."""
        return Spread.of(mechanism).worst_share if self.share is None else self.share

    def variance(self, mechanism: Mechanism) -> float:
        """n times the variance of a share; for a number, of its mean relative to its range, if all are equally frequent."""
        if isinstance(mechanism, SquareWave):
            matrix = mechanism.channel()
            weights = (np.array(mechanism.labels) - mechanism.low) / (mechanism.high - mechanism.low)
            contributions = weights @ left_inverse(matrix)
            rates = matrix.mean(axis=1)
            return float(rates @ contributions**2 - (rates @ contributions) ** 2)
        spread = Spread.of(mechanism)
        return spread.variance(self.planned_share(mechanism))

    @cached_property
    def _curve(self) -> tuple[Any, Any]:
        """Logarithms of epsilons and of the least variance at each."""
        epsilons = np.geomspace(_LEAST_EPSILON, LARGEST_EPSILON, _POINTS)
        variances = np.log([self.variance(self.mechanism(float(epsilon))) for epsilon in epsilons])
        # Below this, the variance grows with 1/epsilon^2.
        return np.log([SMALLEST_EPSILON, *epsilons]), np.insert(
            variances, 0, variances[0] + 2 * np.log(_LEAST_EPSILON / SMALLEST_EPSILON)
        )

    def variances(self, epsilons: Any) -> Any:
        """The least variances at some epsilons, by interpolation, for the search over budgets."""
        return np.exp(np.interp(np.log(epsilons), *self._curve))
