"""Declared bounds, and the grid between them on which values are added up exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_range
from deniable.errors import ParameterError

__all__ = ["Grid", "check_bounds"]


def check_bounds(bounds: Any, column: str) -> tuple[float, float]:
    """Two finite numbers, the lower first. They are declared, never read from the data: the
    smallest value belongs to somebody."""
    if bounds is None:
        raise ParameterError(
            f"bounds of {column}",
            bounds,
            "must be declared: the lowest and the highest value that count",
        )
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise ParameterError(
            f"bounds of {column}", bounds, "must be two numbers, the lower first"
        ) from None
    if not (
        math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)
    ):
        raise ParameterError(
            f"bounds of {column}", bounds, "must be two finite numbers, the lower first"
        )
    return low, high


@dataclass(frozen=True)
class Grid:
    """The multiples of `step` from `first` to `last` times it, to which values are clamped and
    rounded.

    >>> Grid.over((18, 95), step=1, most=1000)
    Grid(step=1.0, first=18, last=95)
    """

    step: float
    first: int
    last: int

    @classmethod
    def over(cls, bounds: tuple[float, float], step: Any, most: int) -> Grid:
        """The grid of a declared step, or one that is finer than any noise: a power of two, of
        `most` steps about."""
        low, high = bounds
        if step is None:
            step = 2.0 ** math.floor(math.log2((high - low) / most) + 1)
            return cls._checked(step, low / step, high / step, bounds)
        check_range("step", step, above=0)
        if (high - low) / step > most:
            raise ParameterError(
                "step", step, f"must divide the bounds into at most {most:,} steps"
            )
        first, last = round(low / step), round(high / step)
        if any(
            abs(number * step - bound) > 1e-9 * (high - low)
            for number, bound in ((first, low), (last, high))
        ):
            raise ParameterError("step", step, f"must divide both bounds, {low:g} and {high:g}")
        return cls._checked(float(step), first, last, bounds)

    @classmethod
    def _checked(cls, step: float, first: float, last: float, bounds: tuple[float, float]) -> Grid:
        # beyond, doubles are further apart than the grid
        if not max(abs(first), abs(last)) <= 2**52:
            raise ParameterError(
                "bounds", bounds, "must be further apart, for how far they are from 0"
            )
        return cls(step, math.floor(first), math.ceil(last))

    @property
    def steps(self) -> int:
        """From the lower to the upper bound."""
        return self.last - self.first

    @property
    def low(self) -> float:
        """The lower end."""
        return self.first * self.step

    @property
    def width(self) -> float:
        """From the lower to the upper end."""
        return self.steps * self.step

    def places(self, values: NDArray[np.float64]) -> NDArray[np.int64]:
        """How many steps above the lower end each value lies, from 0 to `steps`."""
        clamped = np.clip(values, self.low, self.last * self.step)
        places: NDArray[np.int64] = np.clip(
            np.rint(clamped / self.step) - self.first, 0, self.steps
        ).astype(np.int64)
        return places
