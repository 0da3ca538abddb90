"""The square wave over k ordered values: near the truth all reports are equally likely, e^epsilon
times as likely as elsewhere.

With a window of w places there are k + w - 1 reports, so that every value has all of its w near
places: p = e^epsilon / (w e^epsilon + k - 1) for each of those, q = p / e^epsilon for the k - 1
others. A half-width of b is a window of 2b + 1 places around the value.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import AnswerTypeError, MissingAnswerError, OutOfDomainError
from deniable.mechanisms import exact
from deniable.mechanisms.domain import column, numbers

__all__ = ["half_width", "in_places", "numbers_within", "wave_columns"]


def half_width(epsilon: float) -> Fraction:
    """The b that maximises the information in a report about a value in [0, 1]: Li et al. 2020,
    section 5.3.

    (epsilon E - E + 1) / (2 E (E - 1 - epsilon)) with E = e^epsilon. It falls from 1/2 to 0 as
    epsilon grows.

    >>> round(float(half_width(1.0)), 4)
    0.2561
    """
    growth, exponent = exact.exp(epsilon), Fraction(epsilon)
    return (exponent * growth - growth + 1) / (2 * growth * (growth - 1 - exponent))


def in_places(width: Fraction) -> int:
    """A half-width as a whole number of places: rounded down, but at least 1 from 1/2 on.

    At 0 the wave is direct encoding, whose earth mover's distance error is larger from about that
    width on (measured for 8 to 64 places).
    """
    return max(math.floor(width), 1 if 2 * width >= 1 else 0)


def wave_columns(k: int, window: int, epsilon: float) -> NDArray[np.uint64]:
    """The wave's integer columns, with a loss of at most `epsilon`."""
    after = np.arange(k + window - 1) - np.arange(k)[:, None]
    places = ((after < 0) | (after >= window)).astype(np.intp)

    def build(target: float) -> NDArray[np.uint64]:
        growth = exact.exp(target)
        total = window * growth + k - 1
        return exact.placed_columns([growth / total, 1 / total], places)

    return exact.private(build, epsilon)


def numbers_within(values: Any, low: float, high: float) -> NDArray[np.float64]:
    """A column of numbers, none of them missing or outside the interval: nothing is clipped."""
    array = numbers(column(values))
    if array.dtype.kind not in "fiu":
        raise AnswerTypeError(None if array.size == 0 else 0, "is not a number")
    # otherwise a short float would be compared with rounded bounds
    array = array.astype(np.float64, copy=False)
    missing = np.isnan(array)
    if missing.any():
        raise MissingAnswerError(int(missing.argmax()), "is missing (NaN or null)")
    outside = (array < low) | (array > high)
    if outside.any():
        raise OutOfDomainError(
            int(outside.argmax()), f"lies outside the interval from {low!r} to {high!r}"
        )
    return array
