"""Projection onto the probability simplex, and onto nondecreasing sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ascending", "project"]


def project(proportions: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest point, in Euclidean distance, with no negative entry and sum 1 (Held, Wolfe and
    Crowder 1974).

    >>> project(np.array([0.8, 0.5, -0.3])).round(3).tolist()
    [0.65, 0.35, 0.0]
    """
    descending = np.sort(proportions)[::-1]
    excess = np.cumsum(descending) - 1
    kept = np.flatnonzero(descending > excess / np.arange(1, descending.size + 1))[-1]
    projected: NDArray[np.float64] = np.maximum(proportions - excess[kept] / (kept + 1), 0.0)
    return projected


def ascending(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The nearest nondecreasing sequence, in Euclidean distance, by pooling adjacent violators
    (Ayer et al. 1955).

    >>> ascending(np.array([1.0, 3.0, 2.0, 4.0])).tolist()
    [1.0, 2.5, 2.5, 4.0]
    """
    means: list[float] = []
    sizes: list[int] = []
    for value in values.tolist():
        means.append(value)
        sizes.append(1)
        while len(means) > 1 and means[-2] > means[-1]:
            size = sizes[-2] + sizes[-1]
            means[-2:] = [(sizes[-2] * means[-2] + sizes[-1] * means[-1]) / size]
            sizes[-2:] = [size]
    return np.repeat(np.array(means, dtype=np.float64), sizes)
