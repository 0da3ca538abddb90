"""The square wave over k ordered values: near the truth all reports are equally likely, e^epsilon
times as likely as elsewhere.

With half-width b there are k + 2b reports, the places from b before the first value to b after the
last, so that every value has all of its 2b + 1 near places: p = e^epsilon / ((2b + 1) e^epsilon + k
- 1) for each of those, q = p / e^epsilon for the k - 1 others.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable.mechanisms import exact

__all__ = ["half_width", "in_places", "wave_columns"]


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


def wave_columns(k: int, half: int, epsilon: float) -> NDArray[np.uint64]:
    """The wave's integer columns, with a loss of at most `epsilon`."""
    distance = np.abs(np.arange(-half, k + half) - np.arange(k)[:, None])
    places = (distance > half).astype(np.intp)

    def build(target: float) -> NDArray[np.uint64]:
        growth = exact.exp(target)
        total = (2 * half + 1) * growth + k - 1
        return exact.placed_columns([growth / total, 1 / total], places)

    return exact.private(build, epsilon)
