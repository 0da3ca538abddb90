"""Consistent proportions of the nodes of a tree: the least-squares answer to noisy levels.

The nodes of a level are estimated from that level's reports alone, so parents differ from the sum
of their children. With independent errors, the same variance for all nodes of a level and a root of
exactly 1, the best linear unbiased answer takes one pass up and one pass down (Hay, Rastogi, Miklau
and Suciu, "Boosting the accuracy of differentially private histograms through consistency", VLDB
2010, theorem 3, here for levels of different variance and for trees that are not full). Going up, a
node's own estimate y of variance s and the sum of its children's, of variance t, give z = (t y + s
sum)/(s + t) of variance s t/(s + t). Going down, what a parent has more than the sum of its
children is given to them in proportion to their variances.

Errors that all nodes of a level share do not matter: they are along the root's direction, which is
known. So the answer is the best one too where every two nodes of a level have the same covariance.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["TreeConsistency"]

_Floats = NDArray[np.float64]


class TreeConsistency:
    """The linear map from estimates of all levels to consistent proportions of the leaves.

    `sizes` are the numbers of nodes of the levels below the root; the parent of node v is v //
    fan-out, with the fan-outs from the root down. `variances` are those of one node of each level,
    up to a common factor.

    >>> tree = TreeConsistency([2, 4], [2, 2], [1.0, 1.0])
    >>> tree.leaves([np.array([0.5, 0.5]), np.array([0.4, 0.2, 0.1, 0.1])]).round(4).tolist()
    [0.3833, 0.1833, 0.2167, 0.2167]
    """

    def __init__(
        self, sizes: Sequence[int], fan_outs: Sequence[int], variances: Sequence[float]
    ) -> None:
        self.sizes, self.fan_outs = tuple(sizes), tuple(fan_outs)
        self._own: list[_Floats] = []
        """For each level but the last, the weight of a node's own estimate."""
        self._gains: list[_Floats] = []
        """For each level, the part of its parent's surplus that a node gets."""
        spread = np.full(sizes[-1], float(variances[-1]))
        for level in reversed(range(len(sizes))):
            total = self._summed(spread, level)
            self._gains.insert(0, spread / self._spread_out(total, level))
            if level:
                own = total / (total + variances[level - 1])
                self._own.insert(0, own)
                spread = own * variances[level - 1]

    def leaves(self, levels: Sequence[_Floats | None], root: float = 1.0) -> _Floats:
        """The leaves' proportions; estimates may have further columns, and None is all zeros."""
        combined = list(levels)
        for level in reversed(range(len(self.sizes) - 1)):
            below, own = combined[level + 1], combined[level]
            part = None if below is None else self._summed(below, level + 1)
            weight = self._own[level]
            if part is not None:
                part = _times(1 - weight, part)
            if own is not None:
                own = _times(weight, own)
                part = own if part is None else part + own
            combined[level] = part
        first = next(part for part in combined if part is not None)
        above: _Floats = np.full((1, *first.shape[1:]), root)
        for level, size in enumerate(self.sizes):
            here = combined[level]
            here = np.zeros((size, *first.shape[1:])) if here is None else here
            surplus = above - self._summed(here, level)
            above = here + _times(self._gains[level], self._spread_out(surplus, level))
        return above

    def covariance(self, levels: Sequence[_Floats]) -> _Floats:
        """Of the leaves, from the covariance of each level's nodes; levels are independent."""
        total = np.zeros((self.sizes[-1], self.sizes[-1]))
        for level, covariance in enumerate(levels):
            half = self.level_map(level, covariance)
            total += self.level_map(level, np.ascontiguousarray(half.T))
        return (total + total.T) / 2

    def level_map(self, level: int, columns: _Floats) -> _Floats:
        """What the estimates of one level, in any number of columns, add to the leaves."""
        levels: list[_Floats | None] = [None] * len(self.sizes)
        levels[level] = columns
        return self.leaves(levels, root=0.0)

    def _summed(self, nodes: _Floats, level: int) -> _Floats:
        """The sums over the children of each parent."""
        starts = np.arange(0, self.sizes[level], self.fan_outs[level])
        return np.asarray(np.add.reduceat(nodes, starts, axis=0))

    def _spread_out(self, parents: _Floats, level: int) -> _Floats:
        """Each child's parent."""
        return np.repeat(parents, self.fan_outs[level], axis=0)[: self.sizes[level]]


def _times(weights: _Floats, nodes: _Floats) -> _Floats:
    return weights.reshape(-1, *[1] * (nodes.ndim - 1)) * nodes
