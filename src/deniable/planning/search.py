"""Two searches over one variable."""

from __future__ import annotations

import math
from collections.abc import Callable

from deniable.numerics import boundary

__all__ = ["first_below", "least"]

_RATIO = (math.sqrt(5) - 1) / 2


def least(f: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """A point within `tolerance` of the minimum of a unimodal function on [low, high], by golden
    section.

    For a smooth function, its value is then off only by the order of the tolerance squared.

    >>> round(least(lambda x: (x - 2) ** 2, 0.0, 10.0, 1e-6), 4)
    2.0
    """
    points = [low, high - _RATIO * (high - low), low + _RATIO * (high - low), high]
    values = [f(x) for x in points]
    while points[3] - points[0] > 2 * tolerance:
        if values[1] <= values[2]:
            points = [points[0], points[2] - _RATIO * (points[2] - points[0]), points[1], points[2]]
            values = [values[0], f(points[1]), values[1], values[2]]
        else:
            points = [points[1], points[2], points[1] + _RATIO * (points[3] - points[1]), points[3]]
            values = [values[1], values[2], f(points[2]), values[3]]
    return points[values.index(min(values))]


def first_below(
    f: Callable[[float], float], level: float, low: float, high: float, tolerance: float
) -> float:
    """The first x in [low, high], to within `tolerance`, at which a decreasing function is at most
    `level`; true at `high`.

    >>> round(first_below(lambda x: 1 / x, 0.25, 1.0, 100.0, 1e-9), 6)
    4.0
    """
    return boundary(lambda x: f(x) <= level, low, high, tolerance=tolerance)
