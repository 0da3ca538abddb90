"""The shape of a range tree: which levels answer ranges with the least error."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np

from deniable.mechanisms import exact
from deniable.mechanisms.protocols.subset import best_size

__all__ = ["best_fan_outs", "level_sizes", "node_variance", "range_variance"]

_FAN_OUTS = (2, 3, 4, 5, 6, 8, 10, 16, 32)
"""The fan-outs tried below the first level, whose own follows from the number of values."""


def level_sizes(values: int, fan_outs: Sequence[int]) -> tuple[int, ...]:
    """The numbers of nodes of the levels below the root, the leaves last, from the fan-outs of the
    root and of each level but the leaves.

    >>> level_sizes(100, (7, 5, 3))
    (7, 34, 100)
    """
    sizes = [values]
    for fan_out in reversed(fan_outs[1:]):
        sizes.insert(0, -(-sizes[0] // fan_out))
    return tuple(sizes)


def node_variance(nodes: int, growth: Fraction) -> float:
    """n times the variance of a node's estimate less its covariance with another node's, if all
    nodes of the level are equally frequent.

    By subset selection of w nodes, direct encoding being the case w = 1: m/(m - 1) lam (1 -
    lam)/(a - b)^2 with lam = w/m.
    """
    w = best_size(nodes, growth)
    a = w * growth / (w * growth + nodes - w)
    b = (w - a) / (nodes - 1)
    return float(Fraction(w * (nodes - w), nodes * (nodes - 1)) / (a - b) ** 2)


@cache
def _energy(values: int, block: int) -> float:
    """The mean over all ranges of the squared length of their projection onto blocks of leaves.

    A range that contains d leaves of a block of s adds d^2/s. The last block may be cut off.
    """
    start = np.arange(0, values, block, dtype=np.int64)
    size = np.minimum(block, values - start)
    inside = size * (size + 1) ** 2 * (size + 2) // 12
    one_end = (values - size) * (size * (size + 1) * (2 * size + 1) // 6)
    covered = start * (values - start - size) * size**2
    return int((inside + one_end + covered).sum()) / (block * (values * (values + 1) // 2))


def range_variance(values: int, fan_outs: Sequence[int], epsilon: float) -> float:
    """n times the variance of the estimated proportion of a range, on average over all ranges.

    Exact for full trees whose leaves are equally frequent.

    Vectors that are constant on the nodes of level j and sum to zero within those of level j - 1
    are measured by level j and all levels below it, each with precision (leaves of a
    node)/(variance of a node), and a range is the sum of its independent projections onto these
    spaces.
    """
    growth, sizes = exact.exp(epsilon), level_sizes(values, fan_outs)
    total, precision, block = 0.0, 0.0, 1
    for size, fan_out in zip(reversed(sizes), reversed(fan_outs), strict=True):
        precision += block / node_variance(size, growth)
        total += (_energy(values, block) - _energy(values, block * fan_out)) / precision
        block *= fan_out
    return len(sizes) * total


@lru_cache(maxsize=256)
def best_fan_outs(values: int, epsilon: float) -> tuple[int, ...]:
    """The fan-outs with the least :func:`range_variance`, from the root down.

    A search over all trees whose fan-outs below the root are among a few, which leaves out what
    cannot become better than the best one found. Doubles are added, multiplied and divided in a
    fixed order, so that every machine finds the same tree.

    >>> best_fan_outs(256, 1.0), best_fan_outs(8, 1.0)
    ((8, 4, 4, 2), (8,))
    """
    growth = exact.exp(epsilon)
    variance = cache(lambda nodes: node_variance(nodes, growth))
    best: tuple[float, tuple[int, ...]] = (float("inf"), ())

    def extend(fan_outs: tuple[int, ...], block: int, precision: float, total: float) -> None:
        """Try all trees whose lowest fan-outs are these: with `block` leaves per node."""
        nonlocal best
        depth, size = len(fan_outs) + 1, -(-values // block)
        precision += block / variance(size)
        here = _energy(values, block)
        whole = depth * (total + (here - _energy(values, block * size)) / precision)
        best = min(best, (whole, (size, *fan_outs)), key=lambda found: found[0])
        for fan_out in _FAN_OUTS:
            if fan_out >= size:
                break
            below = total + (here - _energy(values, block * fan_out)) / precision
            if (depth + 1) * below < best[0]:
                extend((fan_out, *fan_outs), block * fan_out, precision, below)

    extend((), 1, 0.0, 0.0)
    return best[1]
