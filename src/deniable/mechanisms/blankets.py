"""Privacy blankets: the part of a report's law that is the same for every value (Balle, Bell,
Gascón and Nissim 2019).

Any law w with w(y) <= P(y | v) for all values v is a blanket: with probability g = sum of w, a
report is drawn from it, whatever the value. The largest one is w(y) = min over v of P(y | v). Only
the ratios P(y | v)/w(y) distinguish v from v', so reports with the same ratios may be merged, and
equivalent values may be left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Blanket", "matrix_blanket", "supporting_blanket"]

_Floats = NDArray[np.float64]
LARGEST_PAIRS = 32
"""The most values for which every pair is examined."""


class Blanket(NamedTuple):
    """A blanket over classes of reports, and how much more probable each class is under some
    values, for any pair of them."""

    weight: _Floats
    """w, one per class; the sum is the blanket's mass."""
    ratio: _Floats
    """P(class | value)/w(class), one row per class and one column per value; at least 1."""


def supporting_blanket(
    inside: float, outside: float, only: float, both: float, base: bool = False
) -> Blanket:
    """For reports whose probability is `inside` times that of a base law if they support the value,
    else `outside` times.

    Under the base law a report supports one of two values and not the other with probability
    `only`, for either of them, and both with probability `both`. With `base`, the base law is
    itself that of an answer.
    """
    mass = np.array([only, only, both, max(1 - 2 * only - both, 0.0)])
    columns = [[inside, outside, inside, outside], [outside, inside, inside, outside]]
    if base:
        columns.append([1.0] * 4)
    least = min(inside, outside)
    return Blanket(mass * least, np.array(columns).T / least)


def matrix_blanket(matrix: _Floats) -> Blanket:
    """For a channel P[report, value].

    For more than 32 values, a hypothetical pair that is at least as easy to distinguish as any two
    of them. With R the largest ratio and g the mass, moving all ratios of a pair to 1 or R keeps
    their means, so R has the mass (1 - g)/(R - 1) for each of the two; the pair is easiest to
    distinguish if it is never R for both.
    """
    least = matrix.min(axis=1)
    ratio = matrix / least[:, None]
    if matrix.shape[1] <= LARGEST_PAIRS:
        return Blanket(least, ratio)
    mass, largest = float(least.sum()), float(ratio.max())
    extreme = min((1 - mass) / (largest - 1), mass)
    both = max(2 * extreme - mass, 0.0)
    weight = np.array([extreme - both, extreme - both, both, mass - 2 * extreme + both])
    return Blanket(weight, np.array([[largest, 1], [1, largest], [largest, largest], [1, 1]]))
