"""Two searches over one variable, for functions that cost a mechanism each time they are asked."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["first_below", "least"]

_GOLDEN = (3 - math.sqrt(5)) / 2


def least(f: Callable[[float], float], low: float, high: float, tolerance: float) -> float:
    """The point of [low, high] where a function with one valley is least: parabolas where they help, golden section where not.

    Brent 1973, chapter 5. The two ends are looked at too.

    >>> round(least(lambda x: (x - 2) ** 2, 0.0, 10.0, 1e-6), 4)
    2.0
    """
    left, right = low, high
    best = second = third = low + _GOLDEN * (high - low)
    at_best = at_second = at_third = f(best)
    step = before_last = 0.0
    while right - left > 2 * tolerance:
        middle = (left + right) / 2
        if abs(best - middle) <= 2 * tolerance - (right - left) / 2:
            break
        parabola = math.nan
        if abs(before_last) > tolerance:
            r = (best - second) * (at_best - at_third)
            q = (best - third) * (at_best - at_second)
            p = (best - third) * q - (best - second) * r
            q = 2 * (q - r)
            if q != 0:
                parabola = -p / q
        if left < best + parabola < right and abs(parabola) < abs(before_last) / 2:
            before_last, step = step, parabola
            if min(best + step - left, right - best - step) < 2 * tolerance:
                step = math.copysign(tolerance, middle - best)
        else:
            before_last = (left if best >= middle else right) - best
            step = _GOLDEN * before_last
        point = best + (step if abs(step) >= tolerance else math.copysign(tolerance, step))
        value = f(point)
        if value <= at_best:
            left, right = (best, right) if point >= best else (left, best)
            third, at_third, second, at_second = second, at_second, best, at_best
            best, at_best = point, value
        else:
            left, right = (point, right) if point < best else (left, point)
            if value <= at_second or second == best:
                third, at_third, second, at_second = second, at_second, point, value
            elif value <= at_third or third in (best, second):
                third, at_third = point, value
    for end in (low, high):
        if abs(best - end) <= 4 * tolerance and f(end) <= at_best:
            return end
    return best


def first_below(f: Callable[[float], float], level: float, low: float, high: float, tolerance: float) -> float:
    """The smallest x of [low, high] from which on a falling, positive function is at most `level`; `high` must be one.

    >>> round(first_below(lambda x: 1 / x, 0.25, 1.0, 100.0, 1e-9), 6)
    4.0
    """
    left, right = low, high
    above, below = math.log(f(left) / level), math.log(f(right) / level)
    if above <= 0:
        return low
    kept = 0
    while right - left > tolerance:
        point = left + (right - left) * above / (above - below)
        point = min(max(point, left + tolerance / 2), right - tolerance / 2)
        value = math.log(f(point) / level)
        if value <= 0:
            right, below = point, value
            above, kept = (above / 2 if kept == 1 else above), 1
        else:
            left, above = point, value
            below, kept = (below / 2 if kept == -1 else below), -1
    return right
