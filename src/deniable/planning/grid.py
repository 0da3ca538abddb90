"""Lavengood's grid search, to reproduce the thesis's table and as the benchmark that a plan must
not fall behind."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from deniable.renames import reads_old_names

__all__ = ["GridPoint", "lavengood_grid"]


@reads_old_names
class GridPoint(NamedTuple):
    """The parameters that a grid search finds, and the smallest proportion they detect."""

    sampling: float
    p: float
    q: float
    smallest_proportion: float


def lavengood_grid(
    epsilon: float, population: int, cv: float, step: float | None = 0.001
) -> GridPoint:
    """The s, p and q, each in hundredths, that detect the smallest proportion with the given `cv`
    at the sampled loss `epsilon`.

    As in the thesis, proportions are compared in steps of 0.001, and of equally good parameters the
    first are used, s before p before q; the proportion returned is the exact one of those
    parameters, as in its table 6.1. With `step` None proportions are compared exactly: the best
    that a grid of hundredths can do. Lavengood 2017, section 5.5.

    >>> best = lavengood_grid(0.7, 10_000, 0.05)
    >>> best.sampling, best.p, best.q, round(100 * best.smallest_proportion, 2)
    (0.43, 0.54, 0.5, 27.39)
    """
    hundredths = np.arange(1, 100) / 100
    p, q = np.meshgrid(hundredths, hundredths, indexing="ij")
    b = (1 - p) * q
    a = p + b
    growth = np.maximum(a / b, (1 - b) / (1 - a)) - 1
    best = GridPoint(1.0, 0.01, 0.5, math.inf)
    least = math.inf
    for s in np.arange(1, 101) / 100:
        square = p * p * (1 + s * population * cv * cv)
        linear = p * (1 - 2 * b)
        proportion = (linear + np.sqrt(linear**2 + 4 * square * b * (1 - b))) / (2 * square)
        proportion[np.log1p(s * growth) > epsilon] = math.inf
        compared = proportion if step is None else np.ceil(proportion / step - 1e-9)
        i = int(compared.argmin())
        if compared.flat[i] < least:
            least = float(compared.flat[i])
            best = GridPoint(
                float(s), float(p.flat[i]), float(q.flat[i]), float(proportion.flat[i])
            )
    return best
