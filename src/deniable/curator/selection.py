"""Quantiles, extremes and the most frequent label: chosen with noise from public candidates."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence, check_proportion, check_range
from deniable.curator.error_laws import BracketError
from deniable.curator.grid import Grid, check_bounds
from deniable.curator.histograms import check_labels
from deniable.curator.law import choice_shortfall
from deniable.curator.noise import LaplaceNoise, NoisyChoice
from deniable.curator.protection import Protection
from deniable.curator.questions import CuratorQuestion, Foresight, QuestionRows
from deniable.curator.results import Choice, Release

__all__ = ["MostFrequent", "Quantile"]

_CANDIDATES = 2**10 - 1
"""Found in ten halvings."""
_MOST_CANDIDATES = 2**16
_FINEST_LEVEL = 10**6
_CONFIDENCE = 0.95

_Integers = NDArray[np.int64]


class _End(Protocol):
    """How the last candidate that is on the right side of a quantile is found.

    Candidates have imbalances that never fall from one to the next; from 0 on they are on the wrong
    side. With probability `failure` a wrong one is taken for right.
    """

    @property
    def threshold(self) -> int:
        """How far below 0 the imbalance is that is looked for."""
        ...

    def reach(self, failure: float) -> float:
        """How far from there the imbalance of what is found lies, but for this probability."""
        ...

    def last(self, imbalances: _Integers) -> int:
        """The place of the last candidate that is taken to be right; -1 if none is."""
        ...

    def __str__(self) -> str: ...


def _end(candidates: int, sensitivity: int, epsilon: Fraction, failure: float) -> _End:
    """The end that is nearer to the quantile: a choice, unless there are very many candidates."""
    chosen = _ChosenEnd(NoisyChoice(sensitivity, epsilon), candidates, failure)
    searched = _SearchedEnd.among(candidates, sensitivity, epsilon, failure)
    return chosen if chosen.threshold <= searched.threshold else searched


@dataclass(frozen=True)
class _ChosenEnd:
    """A noisy choice of the quantile of a lower rank.

    A candidate's ranks reach from its own imbalance to that of the next one; before the first there
    is a place for all lower ranks. Its loss is how far these ranks are from -`threshold`. So it is
    0 for a candidate that is right, and at least `threshold` for every wrong one.
    """

    noise: NoisyChoice
    candidates: int
    failure: float

    def reach(self, failure: float) -> float:
        """What the loss of the choice does not exceed, but for this probability."""
        return choice_shortfall(self.noise.scale, self.candidates + 1, 1 - failure)

    @property
    def threshold(self) -> int:
        return math.ceil(self.reach(self.failure))

    def last(self, imbalances: _Integers) -> int:
        loss = np.zeros(imbalances.size + 1, dtype=np.int64)
        loss[1:] = np.maximum(loss[1:], imbalances + self.threshold)
        loss[:-1] = np.maximum(loss[:-1], -imbalances - self.threshold)
        return self.noise.largest((-loss).tolist()) - 1

    def __str__(self) -> str:
        return f"noisy choice of {self.candidates} candidates, scale {self.noise.scale:.6g}"


@dataclass(frozen=True)
class _SearchedEnd:
    """A noisy search, which halves the candidates.

    It looks at the imbalance of the middle one with noise. Those at or below -`threshold` are taken
    to be right, so that noise takes a wrong one for right with probability `failure` in all steps
    together.
    """

    noise: LaplaceNoise
    steps: int
    failure: float

    @classmethod
    def among(
        cls, candidates: int, sensitivity: int, epsilon: Fraction, failure: float
    ) -> _SearchedEnd:
        """The search for which epsilon is enough, in as many steps as the candidates need."""
        steps = candidates.bit_length()
        return cls(LaplaceNoise(sensitivity, epsilon / steps), steps, failure)

    def reach(self, failure: float) -> int:
        """What the noise of no step exceeds to one side, but for this probability: P(X >= t) is
        alpha^t/(1 + alpha)."""
        return math.ceil(
            self.noise.scale * math.log(self.steps / (failure * (1 + self.noise.law.alpha)))
        )

    @property
    def threshold(self) -> int:
        return self.reach(self.failure)

    def last(self, imbalances: _Integers) -> int:
        right, wrong = -1, imbalances.size
        while wrong - right > 1:
            middle = (right + wrong) // 2
            (noisy,) = self.noise.add([int(imbalances[middle])])
            right, wrong = (middle, wrong) if noisy <= -self.threshold else (right, middle)
        return right

    def __str__(self) -> str:
        return f"{self.steps} noisy counts, scale {self.noise.scale:.6g}"


@dataclass(frozen=True)
class _Draws:
    """What is drawn for a quantile: the value itself, and the ends of its interval. None for what
    is not."""

    value: NoisyChoice | None
    low: _End | None
    high: _End | None


class Quantile(CuratorQuestion):
    """The value below which a proportion `level` of the rows lies, with an interval that is bought
    with it.

    Candidates lie a `step` apart between the bounds, and values count as the nearest one. Of n rows
    and with level p/q, the loss of a candidate c is how far q #(x < c) - p n or p n - q #(x <= c)
    lies above 0: it is 0 at the quantile, and one candidate is chosen by it (after Smith 2011). How
    far that is off depends on how dense the values are there, which is private too. So a part
    `bracket` of epsilon buys two ends, of lower and of higher rank: whatever the data are, each
    lies on its side of the quantile but for half the failure. Levels 0 and 1 need one end only,
    which is the value: the smallest or largest value that noise does not hide. Without a bracket
    the interval is that of the bounds.
    """

    numeric = True

    def __init__(
        self,
        column: str,
        level: Any,
        bounds: Any = None,
        step: Any = None,
        bracket: Any = 0.5,
        name: str | None = None,
    ) -> None:
        check_proportion("level", level)
        check_range("bracket", bracket, least=0, below=1)
        self.column, self.columns = column, (column,)
        self.level = Fraction(str(level) if isinstance(level, float) else level).limit_denominator(
            _FINEST_LEVEL
        )
        self.bracket = Fraction(str(bracket) if isinstance(bracket, float) else bracket)
        self.name = name or f"quantile {float(level):g} of {column}"
        self.bounds = check_bounds(bounds, column)
        if step is None:  # any candidates do, so they divide the bounds whatever these are
            self.step, self.count = (
                (self.bounds[1] - self.bounds[0]) / (_CANDIDATES - 1),
                _CANDIDATES,
            )
        else:
            grid = Grid.over(self.bounds, step, _MOST_CANDIDATES)
            self.step, self.count = grid.step, grid.steps + 1

    def noise(self, protection: Protection, epsilon: Fraction) -> _Draws:
        p, q = self.level.numerator, self.level.denominator
        sensitivity, failure = protection.of_scores(q - p, p), 1 - _CONFIDENCE
        if self.level in (0, 1):
            # a failed search ends near the extreme, a failed choice anywhere beyond it
            only = _SearchedEnd.among(self.count, sensitivity, epsilon, failure)
            return _Draws(
                None, only if self.level == 1 else None, only if self.level == 0 else None
            )
        value = NoisyChoice(sensitivity, epsilon * (1 - self.bracket))
        if not self.bracket:
            return _Draws(value, None, None)
        end = _end(self.count, sensitivity, epsilon * self.bracket / 2, failure / 2)
        return _Draws(value, end, end)

    def exact(self, rows: QuestionRows, protection: Protection) -> _Integers:
        """How many values there are at each candidate."""
        values = np.clip(rows.numbers(self.column), *self.bounds)
        return np.bincount(
            np.rint((values - self.bounds[0]) / self.step).astype(np.intp), minlength=self.count
        )

    def imbalances(self, exact: _Integers) -> tuple[_Integers, _Integers, _Integers]:
        """Of each candidate as the lower end from below, as the upper end from above, and the
        larger of both.

        A lower end that is too high has at least p/q of all rows below it, an upper end that is too
        low at most p/q up to it.
        """
        p, q = self.level.numerator, self.level.denominator
        up_to = np.cumsum(exact)
        lower, upper = q * (up_to - exact) - p * up_to[-1], p * up_to[-1] - q * up_to
        return lower, upper[::-1], np.maximum(np.maximum(lower, upper), 0)

    def answer(
        self, exact: _Integers, noise: _Draws, protection: Protection, epsilon: Fraction
    ) -> Release:
        low, high = self.bounds
        from_below, from_above, loss = self.imbalances(exact)
        if noise.low is not None:
            low = self._candidate(noise.low.last(from_below))
        if noise.high is not None:
            high = self._candidate(self.count - 1 - noise.high.last(from_above))
        if noise.value is not None:
            value = self._candidate(noise.value.largest((-loss).tolist()))
        else:
            value = low if self.level == 1 else high
        half = self.step / 2
        bracket = (
            max(self.bounds[0], min(low, value) - half),
            min(self.bounds[1], max(high, value) + half),
        )
        error = BracketError(*bracket, self.bounds, _CONFIDENCE)
        return Release(
            self.name,
            value,
            error.stderr,
            protection.size,
            epsilon=float(epsilon),
            protection=protection,
            error=error,
        )

    def _candidate(self, place: int) -> float:
        """The candidate at this place; the bound, where no candidate was found."""
        return min(max(self.bounds[0] + place * self.step, self.bounds[0]), self.bounds[1])

    def foresee(self, noise: _Draws, protection: Protection, size: int | None) -> Foresight:
        """In ranks, because in values it depends on the data: how many rows lie between the value
        and the quantile, at most."""
        if noise.value is not None:
            return Foresight(
                _ShortfallError(noise.value.scale, self.count, 1 / self.level.denominator),
                "rows in rank",
                True,
            )
        return Foresight(_SearchError(_only(noise)), "rows in rank", True)

    def mechanism(self, noise: _Draws) -> str:
        if noise.value is not None:
            return f"noisy choice of {self.count} candidates, scale {noise.value.scale:.6g}"
        return str(_only(noise))


def _only(noise: _Draws) -> _End:
    end = noise.low or noise.high
    assert end is not None  # noqa: S101 - there is no value without one of them
    return end


@dataclass(frozen=True)
class _SearchError:
    """How many rows lie beyond the last candidate that a search takes for right."""

    end: _End

    @property
    def stderr(self) -> float:
        """Depends on the data."""
        return math.nan

    def limits(self, value: float, confidence: float) -> tuple[float, float]:
        """The next candidate was taken for wrong, so that its imbalance is not further from 0 than
        threshold and noise."""
        reach = self.end.threshold + self.end.reach(1 - check_confidence(confidence))
        return value - reach, value + reach


class MostFrequent(CuratorQuestion):
    """The label that most rows have: the largest of the noisy counts, of which only the label is
    released (report noisy max)."""

    def __init__(self, column: str, labels: Any = None) -> None:
        self.column, self.columns, self.name = column, (column,), f"most frequent {column}"
        self.labels: tuple[Hashable, ...] = check_labels(labels, f"labels of {column}")

    def noise(self, protection: Protection, epsilon: Fraction) -> NoisyChoice:
        # Rows that come move all counts up, rows that go move them down: each on its own is
        # monotonic.
        return NoisyChoice(protection.of_vector(1), epsilon, monotonic=True)

    def exact(self, rows: QuestionRows, protection: Protection) -> NDArray[np.int64]:
        codes = rows.codes(self.column, self.labels)
        return np.bincount(codes[codes >= 0], minlength=len(self.labels))

    def answer(
        self,
        exact: NDArray[np.int64],
        noise: NoisyChoice,
        protection: Protection,
        epsilon: Fraction,
    ) -> Choice:
        label = self.labels[noise.largest(exact.tolist())]
        return Choice(self.name, label, float(epsilon), protection, noise.scale, len(self.labels))

    def foresee(self, noise: NoisyChoice, protection: Protection, size: int | None) -> Foresight:
        return Foresight(
            _ShortfallError(noise.scale, len(self.labels)),
            "rows short of the most frequent",
            bound=True,
        )

    def mechanism(self, noise: NoisyChoice) -> str:
        return f"noisy choice of {len(self.labels)} labels, scale {noise.scale:.6g}"


@dataclass(frozen=True)
class _ShortfallError:
    """How far a choice falls short of the best: `factor` times the reach of the noise among so many
    candidates."""

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
