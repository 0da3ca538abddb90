"""Projection onto the probability simplex."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["project"]


def project(proportions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest point, in Euclidean distance, with no negative entry and sum 1 (Held, Wolfe and Crowder 1974).

    >>> project(np.array([0.8, 0.5, -0.3])).round(3).tolist()
    [0.65, 0.35, 0.0]
    """
    descending = np.sort(proportions)[::-1]
    excess = np.cumsum(descending) - 1
    kept = np.flatnonzero(descending > excess / np.arange(1, descending.size + 1))[-1]
    projected: NDArray[np.float64] = np.maximum(proportions - excess[kept] / (kept + 1), 0.0)
    return projected
