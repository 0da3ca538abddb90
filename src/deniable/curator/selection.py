"""Quantiles, extremes and the most frequent label: chosen with noise from public candidates."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.curator.error_laws import BracketError
from deniable.curator.grid import Grid, check_bounds
from deniable.curator.histograms import check_labels
from deniable.curator.law import choice_shortfall
from deniable.curator.noise import NoisyChoice
from deniable.curator.protection import Protection
from deniable.curator.questions import Foresight, Question, Rows
from deniable.curator.results import Choice, Release
from deniable.errors import ParameterError

__all__ = ["MostFrequent", "Quantile"]

_CANDIDATES = 2**10
_MOST_CANDIDATES = 2**16
_FINEST_LEVEL = 10**6
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class _Draws:
    """The noisy choices of a quantile: the value itself, and the ends of its interval. None for what is not drawn."""

    value: NoisyChoice | None
    low: NoisyChoice | None
    high: NoisyChoice | None
    end_failure: float
    """The probability that an end lies on the wrong side."""


class Quantile(Question):
    """The value below which a proportion `level` of the rows lies, with an interval that is bought with it.

    Candidates lie a `step` apart between the bounds, and values count as the nearest one. With level p/q, the imbalance of a
    candidate c is (q - p) #(x < c) - p #(x > c), which is 0 at the quantile: the candidate is chosen by its absolute value (Smith
    2011). How far that is off depends on how dense the values are there, which is private too. So a part `bracket` of epsilon
    buys two ends: the candidates whose imbalances are about -t and t, where t is twice what the noise reaches. Whatever the data
    are, each end lies on its side of the quantile but for half the failure: a candidate beyond the quantile has a loss of at
    least t, and the bound, an end that is always right, has one of t/2. Levels 0 and 1 need one end only, which is the value: the
    smallest or largest value that noise does not hide. Without a bracket the interval is that of the bounds.
    """

    numeric = True

    def __init__(
        self, column: str, level: Any, bounds: Any = None, step: Any = None, bracket: Any = 0.5, name: str | None = None
    ) -> None:
        if isinstance(level, bool | str) or not isinstance(level, int | float | Fraction) or not 0 <= level <= 1:
            raise ParameterError("level", level, "must lie between 0 and 1")
        if isinstance(bracket, bool | str) or not isinstance(bracket, int | float | Fraction) or not 0 <= bracket < 1:
            raise ParameterError("bracket", bracket, "must be at least 0 and below 1")
        self.column, self.columns = column, (column,)
        self.level = Fraction(str(level) if isinstance(level, float) else level).limit_denominator(_FINEST_LEVEL)
        self.bracket = Fraction(str(bracket) if isinstance(bracket, float) else bracket)
        self.name = name or f"quantile {float(level):g} of {column}"
        self.bounds = check_bounds(bounds, column)
        if step is None:  # any candidates do, so they divide the bounds whatever these are
            self.step, self.count = (self.bounds[1] - self.bounds[0]) / _CANDIDATES, _CANDIDATES + 1
        else:
            grid = Grid.over(self.bounds, step, _MOST_CANDIDATES)
            self.step, self.count = grid.step, grid.steps + 1

    def noise(self, protection: Protection, epsilon: Fraction) -> _Draws:
        p, q = self.level.numerator, self.level.denominator
        sensitivity = protection.of_scores(q - p, p)
        if self.level in (0, 1):
            only = NoisyChoice(sensitivity, epsilon)
            return _Draws(None, only if self.level == 1 else None, only if self.level == 0 else None, 1 - _CONFIDENCE)
        value = NoisyChoice(sensitivity, epsilon * (1 - self.bracket))
        if not self.bracket:
            return _Draws(value, None, None, 0.0)
        end = NoisyChoice(sensitivity, epsilon * self.bracket / 2)
        return _Draws(value, end, end, (1 - _CONFIDENCE) / 2)

    def exact(self, rows: Rows, protection: Protection) -> NDArray[np.int64]:
        """How many values there are at each candidate."""
        values = np.clip(rows.numbers(self.column), *self.bounds)
        return np.bincount(np.rint((values - self.bounds[0]) / self.step).astype(np.intp), minlength=self.count)

    def answer(self, exact: NDArray[np.int64], noise: _Draws, protection: Protection, epsilon: Fraction) -> Release:
        p, q = self.level.numerator, self.level.denominator
        up_to = np.cumsum(exact)
        n, below = up_to[-1], up_to - exact
        low, high = self.bounds
        if noise.low is not None:  # a candidate that is too high has at least p/q of all rows below it
            low = self._end(noise.low, q * below - p * n, noise.end_failure)
        if noise.high is not None:  # one that is too low has at most p/q of them up to it
            high = self._end(noise.high, (p * n - q * up_to)[::-1], noise.end_failure, from_above=True)
        if noise.value is not None:
            place = noise.value.largest((-np.abs((q - p) * below - p * (n - up_to))).tolist())
            value = self._candidate(place)
        else:
            value = low if self.level == 1 else high
        half = self.step / 2
        bracket = max(self.bounds[0], min(low, value) - half), min(self.bounds[1], max(high, value) + half)
        error = BracketError(*bracket, self.bounds, _CONFIDENCE)
        return Release(self.name, value, error.stderr, protection.size, (), float(epsilon), protection, error)

    def _end(self, choice: NoisyChoice, imbalance: NDArray[np.int64], failure: float, from_above: bool = False) -> float:
        """The candidate whose imbalance is about -t. Where it is 0 or above, a candidate is on the wrong side."""
        target = self._target(choice, failure)
        loss = np.where(imbalance > -target, imbalance + target, np.minimum(-target - imbalance, target // 2))
        place = choice.largest([-(target // 2), *(-loss).tolist()]) - 1
        if place < 0:
            return self.bounds[1 if from_above else 0]
        return self._candidate(self.count - 1 - place if from_above else place)

    def _target(self, choice: NoisyChoice, failure: float) -> int:
        return 2 * math.ceil(choice_shortfall(choice.scale, self.count + 1, 1 - failure))

    def _candidate(self, place: int) -> float:
        return min(self.bounds[0] + place * self.step, self.bounds[1])

    def foresee(self, noise: _Draws, protection: Protection, size: int | None) -> Foresight:
        """In ranks, for in values it depends on the data: how many rows lie between the value and the quantile, at most."""
        if noise.value is not None:
            error = _ShortfallError(noise.value.scale, self.count, 1 / self.level.denominator)
        else:  # the target lies two reaches from the extreme, and the choice one from the target
            error = _ShortfallError(_only(noise).scale, self.count + 1, 3.0)
        return Foresight(error, "rows in rank", bound=True)

    def mechanism(self, noise: _Draws) -> str:
        return f"noisy choice of {self.count} candidates, scale {(noise.value or _only(noise)).scale:.6g}"


def _only(noise: _Draws) -> NoisyChoice:
    end = noise.low or noise.high
    assert end is not None  # noqa: S101 - there is no value without one of them
    return end


class MostFrequent(Question):
    """The label that most rows have: the largest of the noisy counts, of which only the label is released (report noisy max)."""

    def __init__(self, column: str, labels: Any = None) -> None:
        self.column, self.columns, self.name = column, (column,), f"most frequent {column}"
        self.labels: tuple[Hashable, ...] = check_labels(labels, f"labels of {column}")

    def noise(self, protection: Protection, epsilon: Fraction) -> NoisyChoice:
        # Rows that come move all counts up, rows that go move them down: each on its own is monotonic.
        return NoisyChoice(protection.of_vector(1), epsilon, monotonic=True)

    def exact(self, rows: Rows, protection: Protection) -> NDArray[np.int64]:
        codes = rows.codes(self.column, self.labels)
        return np.bincount(codes[codes >= 0], minlength=len(self.labels))

    def answer(self, exact: NDArray[np.int64], noise: NoisyChoice, protection: Protection, epsilon: Fraction) -> Choice:
        label = self.labels[noise.largest(exact.tolist())]
        return Choice(self.name, label, float(epsilon), protection, noise.scale, len(self.labels))

    def foresee(self, noise: NoisyChoice, protection: Protection, size: int | None) -> Foresight:
        return Foresight(_ShortfallError(noise.scale, len(self.labels)), "rows short of the most frequent", bound=True)

    def mechanism(self, noise: NoisyChoice) -> str:
        return f"noisy choice of {len(self.labels)} labels, scale {noise.scale:.6g}"


@dataclass(frozen=True)
class _ShortfallError:
    """How far a choice falls short of the best: `factor` times the reach of the noise among so many candidates."""

    scale: float
    candidates: int
    factor: float = 1.0

    @property
    def stderr(self) -> float:
        """Depends on how close the others come, which is not known."""
        return math.nan

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """The union bound."""
        reach = self.factor * choice_shortfall(self.scale, self.candidates, confidence)
        return value - reach, value + reach
