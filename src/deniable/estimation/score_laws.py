"""Score intervals of estimates whose reports do not simply support a label or not: weighted,
combined, or of a general matrix.

A score interval needs the variance that the estimate of a label has if its true proportion is r.
For reports that support labels it is a quadratic in r with two coins and a number of reports; here
the same kind of quadratic is derived, and stated as the coins and the number of reports that would
have it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.exact_intervals import few_reports
from deniable.estimation.simplex import project

__all__ = ["ScoreLaw", "combined_law", "equivalent_coins", "matrix_law"]

_Floats = NDArray[np.float64]
ScoreLaw = tuple[_Floats, _Floats, _Floats]
"""For each label: the two coins, and the number of reports."""


def equivalent_coins(constant: _Floats, slope: _Floats, n: _Floats) -> ScoreLaw:
    """The coins a and b with which n reports have the variance (constant + slope r - r^2)/n at a
    proportion r.

    b (1 - b)/g^2 = constant and (1 - 2 b)/g = slope, with g = a - b.

    >>> a, b, n = equivalent_coins(np.array([0.75]), np.array([1.0]), np.array([100.0]))
    >>> float(a[0]), float(b[0])
    (0.75, 0.25)
    """
    ratio = (np.sqrt(slope**2 + 4 * constant) - slope) / 2  # b/g
    gap = 1 / (slope + 2 * ratio)
    return gap * (1 + ratio), gap * ratio, n


def matrix_law(
    proportions: _Floats, n: int, inverse: _Floats, channel: _Floats
) -> tuple[ScoreLaw, NDArray[np.bool_]]:
    """For a channel and its inverse: the law of each label, and whether so few reports may carry it
    that limits must be exact.

    If a label has proportion r and the others have theirs in proportion, its estimate has the
    variance (A r + B (1 - r) - r^2)/n, with A and B the mean squares of a report's contribution
    under the label and under the others. Whether limits are exact is decided by the least B of any
    truth, and so does not depend on the reports.
    """
    squares = inverse**2 @ channel  # one row per label, one column per truth
    own, projected = np.diagonal(squares), project(proportions)
    others = squares @ projected - own * projected
    rest = np.divide(others, 1 - projected, out=squares.mean(axis=1), where=projected < 1 - 1e-9)
    counts = np.full(own.size, float(n))
    least = np.where(np.eye(own.size, dtype=bool), np.inf, squares).min(axis=1, initial=np.inf)
    a, b, _ = equivalent_coins(least, own - least, counts)
    return equivalent_coins(rest, own - rest, counts), few_reports(n, a, b)


def combined_law(weights: _Floats, laws: Sequence[ScoreLaw]) -> ScoreLaw:
    """The law of a weighted sum of independent estimates of the same proportions; one row of
    weights per estimate."""
    constant, slope, square = np.zeros((3, weights.shape[1]))
    for weight, (a, b, n) in zip(weights, laws, strict=True):
        gap, part = a - b, weight**2 / n
        constant = constant + part * b * (1 - b) / gap**2
        slope = slope + part * (1 - 2 * b) / gap
        square = square + part
    return equivalent_coins(constant / square, slope / square, 1 / square)
