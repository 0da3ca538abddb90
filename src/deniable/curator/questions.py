"""Counts, sums, means and variances: what is asked of a table, as exact whole numbers to which
noise is added.

Values are clamped to declared bounds and put on a grid, so that sums are exact and their
sensitivity is a whole number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.curator.error_laws import (
    ErrorLaw,
    LinearError,
    NoError,
)
from deniable.curator.noise import LaplaceNoise
from deniable.curator.protection import Protection
from deniable.curator.results import Release
from deniable.curator.table import CuratedTable

__all__ = [
    "Count",
    "CuratorQuestion",
    "Foresight",
    "QuestionRows",
]


@dataclass(frozen=True)
class QuestionRows:
    """Some rows of a table. How many there are is private."""

    table: CuratedTable
    chosen: NDArray[np.bool_]

    def numbers(self, column: str) -> NDArray[np.float64]:
        """The values of a column."""
        return self.table.numbers(column)[self.chosen]

    def codes(self, column: str, labels: tuple[Any, ...]) -> NDArray[np.intp]:
        """Each row's place among the labels, or -1."""
        return self.table.codes(column, labels)[self.chosen]

    def count(self) -> int:
        """How many there are."""
        return int(np.count_nonzero(self.chosen))


@dataclass(frozen=True)
class Foresight:
    """What is known of an error before anything is released."""

    error: ErrorLaw
    unit: str = ""
    bound: bool = False


class CuratorQuestion(ABC):
    """A statistic of a table: which noise it needs, which exact numbers, and what becomes of
    both."""

    columns: tuple[str, ...]
    """Columns that must have a value in every row, and be numbers if `numeric`."""
    numeric: ClassVar[bool] = False
    name: str

    def public(self, protection: Protection) -> bool:
        """Whether all neighbours give the same answer, so that it costs nothing."""
        return False

    @abstractmethod
    def noise(self, protection: Protection, epsilon: Fraction) -> Any:
        """The noise that will be drawn, made and checked by OpenDP. Depends only on public
        things."""

    @abstractmethod
    def exact(self, rows: QuestionRows, protection: Protection) -> Any:
        """What noise will be added to."""

    @abstractmethod
    def answer(self, exact: Any, noise: Any, protection: Protection, epsilon: Fraction) -> Any:
        """Draw the noise, and make of it what is released."""

    @abstractmethod
    def foresee(self, noise: Any, protection: Protection, size: int | None) -> Foresight:
        """How large the error will be, for about `size` rows where it depends on their number."""

    def mechanism(self, noise: Any) -> str:
        """What is drawn, in words."""
        return f"discrete Laplace, scale {noise.scale:.6g}"


@dataclass(frozen=True)
class Count(CuratorQuestion):
    """How many rows there are."""

    columns: tuple[str, ...] = ()
    name: str = "count"

    def public(self, protection: Protection) -> bool:
        return protection.size is not None

    def noise(self, protection: Protection, epsilon: Fraction) -> LaplaceNoise | None:
        return None if self.public(protection) else LaplaceNoise(protection.of_sum(0, 1), epsilon)

    def exact(self, rows: QuestionRows, protection: Protection) -> int:
        return rows.count()

    def answer(
        self, exact: int, noise: LaplaceNoise | None, protection: Protection, epsilon: Fraction
    ) -> Release:
        if noise is None:
            return Release(self.name, float(exact), 0.0, exact, epsilon=0.0, protection=protection)
        (noisy,) = noise.add([exact])
        error = LinearError(noise.law)
        return Release(
            self.name,
            float(noisy),
            error.stderr,
            None,
            epsilon=float(epsilon),
            protection=protection,
            error=error,
        )

    def foresee(
        self, noise: LaplaceNoise | None, protection: Protection, size: int | None
    ) -> Foresight:
        return Foresight(NoError() if noise is None else LinearError(noise.law))

    def mechanism(self, noise: LaplaceNoise | None) -> str:
        return "none" if noise is None else super().mechanism(noise)
