"""The inverse of a channel: used to check a mechanism when it is made, and to solve reports."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["left_inverse"]

_Floats = NDArray[np.float64]


def left_inverse(matrix: _Floats) -> _Floats:
    """The inverse of a channel P[u, v]; with more outputs than values, the left inverse that
    weights an output by how rare it is.

    The weights are those of a uniform population, not of the data, so the estimate stays unbiased.
    """
    if matrix.shape[0] == matrix.shape[1]:
        return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    scale = 1 / np.sqrt(matrix.mean(axis=1, keepdims=True))
    # and not the normal equations, which would square the condition number
    q, r = np.linalg.qr(scale * matrix)
    return np.asarray(np.linalg.solve(r, q.T * scale.T), dtype=np.float64)
