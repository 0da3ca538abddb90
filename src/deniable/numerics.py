"""Where a condition begins to hold, the root of a function, and quantiles of the normal law: one of
each, used everywhere."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["boundaries", "boundary", "first_whole", "normal_quantile", "root"]

_HALVINGS = 200
_NORMAL = NormalDist()


def normal_quantile(level: float) -> float:
    """The point below which a standard normal variable lies with probability `level`.

    >>> round(normal_quantile(0.975), 4)
    1.96
    """
    return _NORMAL.inv_cdf(level)


def boundary(
    holds: Callable[[float], bool],
    without: float,
    having: float,
    *,
    tolerance: float = 0.0,
    relative: float = 0.0,
) -> float:
    """The point nearest to `without` at which a condition is known to hold, by bisection.

    It holds at `having`, does not at `without`, and changes once between them; either may be the
    larger. The result holds, and is within `tolerance`, plus `relative` times its size, of a point
    that does not; with neither, as near as doubles are.

    >>> round(boundary(lambda x: x * x >= 2, 0.0, 2.0), 6)
    1.414214
    """
    for _ in range(_HALVINGS):
        middle = (without + having) / 2
        if middle in (without, having) or abs(having - without) <= tolerance + relative * abs(
            having
        ):
            break
        without, having = (without, middle) if holds(middle) else (middle, having)
    return having


def boundaries(
    holds: Callable[[Any], NDArray[np.bool_]],
    without: NDArray[Any],
    having: NDArray[Any],
    halvings: int = 60,
) -> NDArray[Any]:
    """The same for many conditions at once; for whole numbers, the first ones at which each holds.

    >>> boundaries(lambda x: x * x >= np.array([10, 50]), np.zeros(2, int), np.full(2, 9)).tolist()
    [4, 8]
    """
    whole = np.issubdtype(np.result_type(without, having), np.integer)
    for _ in range(halvings):
        middle = (without + having) // 2 if whole else (without + having) / 2
        if whole and not (np.abs(having - without) > 1).any():
            break
        good = holds(middle)
        without, having = np.where(good, without, middle), np.where(good, middle, having)
    return np.asarray(having)


def first_whole(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest whole number above `low` at which a condition holds that, once true, stays true,
    up to `high`.

    >>> first_whole(lambda k: k * k >= 50, 0, 100)
    8
    """
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def root(
    f: Callable[[float], float],
    low: float,
    high: float,
    at_low: float,
    at_high: float,
    *,
    tolerance: float = 0.0,
    relative: float = 0.0,
) -> float:
    """A point at which f, whose values at the ends have different signs, has the sign it has at
    `high`; next to a root.

    For functions that are expensive and nearly straight: the line between the ends finds it in a
    few steps, if the weight of an end that stays is halved (the Illinois rule).

    >>> round(root(lambda x: x**3 - 2, 0.0, 2.0, -2.0, 6.0, tolerance=1e-9), 6)
    1.259921
    """
    sign = 1.0 if at_high > 0 else -1.0
    while abs(high - low) > tolerance + relative * abs(high):
        width = high - low
        step = min(max(at_high / (at_high - at_low), 0.02), 0.98)
        middle = high - step * width
        found = f(middle)
        if found * sign > 0 or found == 0:
            high, at_high, at_low = middle, found, at_low / 2
        else:
            low, at_low, at_high = middle, found, at_high / 2
    return high
