"""Limits around counts of edges: where many coins fall, normal; where few do, from the exact law of the count."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from deniable.graphs.response import EdgeChannel

__all__ = ["ENOUGH", "count_limits", "flips", "ones_at_most"]

_Floats = NDArray[np.float64]

ENOUGH = 9.0
"""The variance of the number of ones among pairs without an edge from which on a count is as good as normal."""


def flips(pairs: float, channel: EdgeChannel) -> float:
    """The variance of the number of ones among pairs without an edge."""
    return pairs * channel.copies * channel.b * (1 - channel.b)


def count_limits(ones: NDArray[np.int64], pairs: int, channel: EdgeChannel, confidence: float) -> _Floats:
    """Low and high for the number of edges among `pairs` pairs of which `ones` bits are 1, one row per entry of `ones`.

    All numbers of edges d under which neither P(ones or more | d) nor P(ones or fewer | d) is at most (1 - confidence)/2: they
    cover at least as often as they say, and there is at least one (Clopper and Pearson 1934, seen through the coins).

    >>> count_limits(np.array([3]), 10, EdgeChannel(1.0, 0.0, 1), 0.95).tolist()
    [[3.0, 3.0]]
    """
    seen, which = np.unique(ones, return_inverse=True)
    tail = (1 - confidence) / 2
    # The tails move one way with d, so that the ends are found by bisection, for all counts at once.
    low = _smallest(lambda d: 1 - ones_at_most(seen - 1, d, pairs, channel) > tail, seen.size, pairs)
    high = _smallest(lambda d: ones_at_most(seen, d, pairs, channel) <= tail, seen.size, pairs) - 1
    # Between two edges of a lattice this coarse, nothing may fit; then the nearest number does.
    return np.column_stack([np.minimum(low, high), np.maximum(low, high)])[which.reshape(-1)].astype(np.float64)


def _smallest(holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]], size: int, largest: int) -> NDArray[np.int64]:
    """The smallest number up to `largest` for which a condition holds that, once true, stays true; else `largest` + 1."""
    low, high = np.zeros(size, dtype=np.int64), np.full(size, largest + 1, dtype=np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        open_ = low < high
        found = holds(np.minimum(middle, largest)) & open_
        high = np.where(found, middle, high)
        low = np.where(open_ & ~found, middle + 1, low)
    return low


def ones_at_most(ones: NDArray[np.int64], edges: NDArray[np.int64], pairs: int, channel: EdgeChannel) -> _Floats:
    """P(at most so many ones | so many edges): ones of edges and of other pairs are two independent binomial counts."""
    from scipy.stats import binom  # noqa: PLC0415 - slow to import

    tosses = channel.copies * edges
    spread = np.sqrt(tosses.max(initial=0) * channel.a * (1 - channel.a))
    reach = int(12 * spread + 30)
    # Lost ones: a window of so many standard deviations around their mean holds all of their mass but 1e-15.
    start = np.maximum(np.floor(tosses * (1 - channel.a)).astype(np.int64) - reach, 0)
    lost = start[:, None] + np.arange(2 * reach + 1)
    mass = binom.pmf(lost, tosses[:, None], 1 - channel.a)
    others = binom.cdf(ones[:, None] - (tosses[:, None] - lost), (channel.copies * pairs - tosses)[:, None], channel.b)
    return np.asarray(np.sum(mass * others, axis=1), dtype=np.float64)
