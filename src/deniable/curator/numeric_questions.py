"""Sums, means, variances and noisy maxima of one column.

Values are clamped to declared bounds and put on a grid, so that sums are exact and their
sensitivity is a whole number.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, ClassVar

from deniable.curator.error_laws import (
    ErrorLaw,
    LinearError,
    RatioError,
    RootError,
    VarianceError,
)
from deniable.curator.grid import Grid, check_bounds
from deniable.curator.law import DiscreteLaplace
from deniable.curator.noise import LaplaceNoise
from deniable.curator.protection import Protection
from deniable.curator.questions import CuratorQuestion, Foresight, QuestionRows
from deniable.curator.results import Release
from deniable.errors import ParameterError

__all__ = ["Mean", "NoisyMax", "Sum", "Variance"]


_FINE = 2**24
"""Steps of a sum's grid: 2**31 rows of it fit into 64 bits, and its rounding is far below any
noise."""


_FINE_SQUARES = 2**15
"""The same for squares."""


_MOST = 2**32


_MOST_SQUARES = 2**16


class _NumericQuestion(CuratorQuestion):
    """A statistic of the numbers in one column."""

    numeric = True
    most_fine: ClassVar[int] = _FINE
    most: ClassVar[int] = _MOST
    title: ClassVar[str]
    noised: ClassVar[str] = "the sum"
    power: ClassVar[int] = 1
    """Of the values in what noise is added to."""

    def __init__(self, column: str, bounds: Any = None, step: Any = None) -> None:
        self.column, self.columns, self.name = column, (column,), f"{self.title} of {column}"
        self.grid = Grid.over(
            check_bounds(bounds, column), step, self.most_fine if step is None else self.most
        )

    def _linear(self, noise: LaplaceNoise, unit: float) -> LinearError:
        return LinearError(DiscreteLaplace(noise.scale, unit))

    def mechanism(self, noise: LaplaceNoise) -> str:
        return (
            f"discrete Laplace on {self.noised}, scale"
            f" {noise.scale * self.grid.step**self.power:.6g}"
        )


class Sum(_NumericQuestion):
    """The sum of a column."""

    title = "sum"

    def __init__(self, column: str, bounds: Any = None, step: Any = None) -> None:
        super().__init__(column, bounds, step)
        if max(abs(self.grid.first), abs(self.grid.last)) > _MOST * 4:
            raise ParameterError(
                "bounds",
                bounds,
                "must be further apart for a sum, relative to their distance from 0",
            )

    def noise(self, protection: Protection, epsilon: Fraction) -> LaplaceNoise:
        return LaplaceNoise(protection.of_sum(self.grid.first, self.grid.last), epsilon)

    def exact(self, rows: QuestionRows, protection: Protection) -> int:
        places = self.grid.places(rows.numbers(self.column))
        return int(places.sum()) + places.size * self.grid.first

    def answer(
        self, exact: int, noise: LaplaceNoise, protection: Protection, epsilon: Fraction
    ) -> Release:
        (noisy,) = noise.add([exact])
        error = self._linear(noise, self.grid.step)
        value = noisy * self.grid.step
        return Release(
            self.name,
            value,
            error.stderr,
            protection.size,
            epsilon=float(epsilon),
            protection=protection,
            error=error,
        )

    def foresee(self, noise: LaplaceNoise, protection: Protection, size: int | None) -> Foresight:
        return Foresight(self._linear(noise, self.grid.step))


class Mean(_NumericQuestion):
    """The mean of a column.

    If the number of rows n is public, it is a noisy sum, divided by n. Otherwise two sums are
    released, A = sum of (x - low) and B = sum of (high - x). A row adds high - low to both
    together, whatever x is: both get noise for the whole epsilon, and no part of it goes to a
    count. The mean is low + (high - low) A/(A + B).
    """

    title = "mean"

    def noise(self, protection: Protection, epsilon: Fraction) -> LaplaceNoise:
        steps = self.grid.steps
        return LaplaceNoise(
            protection.of_vector(steps) if protection.size is None else protection.of_sum(0, steps),
            epsilon,
        )

    def exact(self, rows: QuestionRows, protection: Protection) -> list[int]:
        places = self.grid.places(rows.numbers(self.column))
        above = int(places.sum())
        return (
            [above, places.size * self.grid.steps - above] if protection.size is None else [above]
        )

    def answer(
        self, exact: list[int], noise: LaplaceNoise, protection: Protection, epsilon: Fraction
    ) -> Release:
        noisy, grid = noise.add(exact), self.grid
        error: ErrorLaw
        if protection.size is not None:
            value, n = grid.low + noisy[0] * grid.step / protection.size, protection.size
            error = self._linear(noise, grid.step / protection.size)
        else:
            part, total = noisy[0] / grid.steps, sum(noisy) / grid.steps
            value = grid.low + grid.width * (min(max(part / total, 0.0), 1.0) if total > 0 else 0.5)
            n = max(round(total), 0)
            error = RatioError(
                part, total, noise.scale / grid.steps, 1 / grid.steps, grid.low, grid.width
            )
        return Release(
            self.name,
            value,
            error.stderr,
            n,
            epsilon=float(epsilon),
            protection=protection,
            error=error,
        )

    def foresee(self, noise: LaplaceNoise, protection: Protection, size: int | None) -> Foresight:
        rows = _needed(size, protection)
        return Foresight(self._linear(noise, self.grid.step / rows), bound=protection.size is None)


class Variance(_NumericQuestion):
    """The variance of a column, or with `root` its standard deviation: of the rows in the table
    (divided by n, not n - 1).

    If n is public, the sum of squared deviations is released, which one person moves by (high -
    low)^2 (n-1)/n at most. Otherwise three sums, of (1-x)^2, 2x(1-x) and x^2, where x is the
    value's place between the bounds, from 0 to 1: a row adds 1 to all together. Their sum is the
    count, and they give the first two moments.
    """

    title = "variance"
    noised = "the sum of squares"
    power = 2
    most_fine = _FINE_SQUARES
    most = _MOST_SQUARES

    def __init__(
        self, column: str, bounds: Any = None, step: Any = None, root: bool = False
    ) -> None:
        super().__init__(column, bounds, step)
        self.root = root
        if root:
            self.name = f"standard deviation of {column}"

    def noise(self, protection: Protection, epsilon: Fraction) -> LaplaceNoise:
        squared, n = self.grid.steps**2, protection.size
        # The sum of squared deviations is rounded to a whole number, which may move it by one more.
        return LaplaceNoise(
            protection.of_vector(squared) if n is None else -(-squared * (n - 1) // n) + 1, epsilon
        )

    def exact(self, rows: QuestionRows, protection: Protection) -> list[int]:
        places = self.grid.places(rows.numbers(self.column))
        n, first, second = places.size, int(places.sum()), int((places**2).sum())
        if protection.size is not None:
            return [(2 * (n * second - first**2) + n) // (2 * n)]
        steps = self.grid.steps
        return [n * steps**2 - 2 * steps * first + second, 2 * (steps * first - second), second]

    def answer(
        self, exact: list[int], noise: LaplaceNoise, protection: Protection, epsilon: Fraction
    ) -> Release:
        noisy, grid = noise.add(exact), self.grid
        error: ErrorLaw
        if protection.size is not None:
            n, unit = protection.size, grid.step**2 / protection.size
            value, error = noisy[0] * unit, self._linear(noise, unit)
        else:
            total = sum(noisy) / grid.steps**2
            n = max(round(total), 0)
            value, error = self._from_moments(noisy, total, noise)
        if self.root:
            error = RootError(value, error)
            value = math.sqrt(max(value, 0.0))
        return Release(
            self.name,
            value,
            error.stderr,
            n,
            epsilon=float(epsilon),
            protection=protection,
            error=error,
        )

    def _from_moments(
        self, noisy: list[int], total: float, noise: LaplaceNoise
    ) -> tuple[float, VarianceError]:
        squared, width = self.grid.steps**2, self.grid.width
        counted = max(total, 1.0) * squared
        raw_second, raw_first = noisy[2] / counted, (noisy[2] + noisy[1] / 2) / counted
        second, first = min(max(raw_second, 0.0), 1.0), min(max(raw_first, 0.0), 1.0)
        value = width**2 * min(max(second - first**2, 0.0), 0.25)
        # How the variance second/n - (first/n)^2 changes with each of the three sums.
        lead = 2 * first**2 - min(max(second, first**2), first)
        weights = (lead, lead - first, lead + 1 - 2 * first)
        centre = width**2 * (raw_second - raw_first**2)
        return value, VarianceError(
            weights, total, noise.scale / squared, 1 / squared, width, centre
        )

    def foresee(self, noise: LaplaceNoise, protection: Protection, size: int | None) -> Foresight:
        rows = _needed(size, protection)
        error = self._linear(noise, self.grid.step**2 / rows)
        return Foresight(
            error, "of the variance" if self.root else "", bound=protection.size is None
        )


class NoisyMax(_NumericQuestion):
    """The largest value plus noise that hides a person who alone moves it from bound to bound
    (NOISYMAX, Steephenson 2017).

    The scale is (high - low)/epsilon for any number of rows: `maximum` is better on any table that
    is not tiny.
    """

    title = "noisy maximum"
    noised = "the largest value"

    def noise(self, protection: Protection, epsilon: Fraction) -> LaplaceNoise:
        return LaplaceNoise(protection.of_extreme(self.grid.steps), epsilon)

    def exact(self, rows: QuestionRows, protection: Protection) -> int:
        return int(self.grid.places(rows.numbers(self.column)).max(initial=0))

    def answer(
        self, exact: int, noise: LaplaceNoise, protection: Protection, epsilon: Fraction
    ) -> Release:
        (noisy,) = noise.add([exact])
        error = self._linear(noise, self.grid.step)
        value = self.grid.low + noisy * self.grid.step
        return Release(
            self.name,
            value,
            error.stderr,
            protection.size,
            epsilon=float(epsilon),
            protection=protection,
            error=error,
        )

    def foresee(self, noise: LaplaceNoise, protection: Protection, size: int | None) -> Foresight:
        return Foresight(self._linear(noise, self.grid.step))


def _needed(size: int | None, protection: Protection) -> int:
    if protection.size is not None:
        return protection.size
    if size is None:
        raise ParameterError(
            "size",
            size,
            "must be given: the error depends on the number of rows, which is private here",
        )
    return size
