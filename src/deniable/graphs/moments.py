"""Sums over pairs, wedges and triangles of a noisy graph, and the variance of what is estimated
from them.

Let A be the true adjacency matrix and X the unbiased one: X_e = A_e + N_e, where the N_e are
independent with mean 0 and variance v_e = v + d A_e (d = 0 for a symmetric coin). Products of
distinct entries of X are unbiased for the same products of A: degrees D_i = sum_j X_ij, wedges W =
sum of X_e X_f over pairs that share a node, triangles T = sum of X_e X_f X_g. Expanding such a sum
in the N_e, terms with different sets of N are uncorrelated (Hoeffding 1948), so that with C_e the
common neighbours of the pair e, s_e = D_i + D_j - 2 A_e its other edges, and m edges of n nodes

    Var T   = sum_e v_e C_e^2 + sum over triples of (v_e v_f A_g + v_e A_f v_g + A_e v_f v_g) + sum over triples of v_e v_f v_g
    Var W   = sum_e v_e s_e^2 + sum over wedges of v_e v_f
    Cov     = sum_e v_e C_e s_e + sum over triples of (v_e v_f A_g + …)

In each, v_e = v + d A_e leaves polynomials of A, which X estimates without bias as well: with C and
s computed from X, C^2 exceeds the true square by its own variance, (n-2) v^2 + v (1+d) s + (2d +
d^2) C on average, s^2 by 2 (n-2) v + d s, and C s by v s + 2 d C. C_e and s_e do not involve X_e,
hence products with it stay unbiased. For a symmetric coin and known graph, for instance, Var T = v
sum_e C_e^2 + v^2 (n-2) m + v^3 n(n-1)(n-2)/6.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray

from deniable.graphs.graph import Graph
from deniable.graphs.response import EdgeChannel, Progress

__all__ = ["Degrees", "Triangles", "count_degrees", "count_triangles", "exact_moments"]

_Floats = NDArray[np.float64]
_Matrix = NDArray[np.float32]
_BLOCK = 1024


@dataclass(frozen=True)
class Degrees:
    """Edges and degrees, with variances."""

    edges: float
    edges_variance: float
    degrees: _Floats
    degrees_variance: _Floats


@dataclass(frozen=True)
class Triangles:
    """Wedges and triangles, with variances that are unbiased and may therefore be below 0."""

    total: float
    variance: float
    per_node: _Floats
    per_node_variance: _Floats
    wedges: float
    wedges_variance: float
    covariance: float
    """Of triangles and wedges."""


_TRUTH = EdgeChannel(1.0, 0.0, 1)


def exact_moments(graph: Graph, channel: EdgeChannel) -> tuple[Degrees, Triangles]:
    """The true figures of a graph, and the true variances of their estimates: what to expect of
    reports about it."""
    matrix = graph.to_sparse().toarray().astype(np.float32)
    return count_degrees(matrix, _TRUTH, channel), count_triangles(matrix, _TRUTH, channel)


def count_degrees(bits: _Matrix, seen: EdgeChannel, noise: EdgeChannel) -> Degrees:
    """Degrees out of the matrix of bits seen through one channel, with the variances of another
    one's noise.

    The two are the same for reports. For a true graph, nothing stands between it and the matrix.
    """
    n = len(bits)
    ones = bits.sum(axis=1, dtype=np.float64) / seen.copies
    degrees = (ones - (n - 1) * seen.b) / seen.gap
    edges = float(degrees.sum() / 2)
    v, d = noise.variance, noise.excess
    return Degrees(edges, comb(n, 2) * v + d * edges, degrees, (n - 1) * v + d * degrees)


def count_triangles(
    bits: _Matrix, seen: EdgeChannel, noise: EdgeChannel, progress: Progress | None = None
) -> Triangles:
    """Wedges and triangles, likewise. Takes n^3 multiplications, in blocks of the upper half of the
    matrix."""
    n = len(bits)
    counted = count_degrees(bits, seen, noise)
    pairs = _PairSums(bits, counted.degrees, seen, noise)
    edges = [(i, min(i + _BLOCK, n)) for i in range(0, n, _BLOCK)]
    blocks = list(combinations_with_replacement(edges, 2))
    for done, (rows, columns) in enumerate(blocks, 1):
        pairs.add(slice(*rows), slice(*columns))
        if progress:
            progress(done / len(blocks))
    return pairs.moments(counted.edges)


class _PairSums:
    """What is summed over pairs, per node: every pair counts at both of its ends."""

    def __init__(
        self, bits: _Matrix, degrees: _Floats, seen: EdgeChannel, noise: EdgeChannel
    ) -> None:
        self.bits, self.degrees, self.seen, self.noise = bits, degrees, seen, noise
        # What is subtracted from squares because they were computed from noise: nothing where the
        # graph itself is seen.
        self.bias = (seen.variance, seen.excess)
        self.ones = bits.sum(axis=1, dtype=np.float64) / seen.copies
        self.triangles, self.paths, self.common, self.sides, self.both, self.squares = np.zeros(
            (6, len(bits))
        )

    def add(self, rows: slice, columns: slice) -> None:
        """Count the pairs of a block in."""
        n, seen = len(self.bits), self.seen
        y = self.bits[rows, columns].astype(np.float64) / seen.copies
        x = (y - seen.b) / seen.gap
        common = (self.bits[rows] @ self.bits[columns].T).astype(np.float64) / seen.copies**2
        common -= seen.b * (self.ones[rows, None] + self.ones[columns] - 2 * y)
        common += (n - 2) * seen.b**2
        common /= seen.gap**2
        weight = self.noise.variance + self.noise.excess * x
        if rows == columns:
            for matrix in (x, common, weight):
                np.fill_diagonal(matrix, 0)
        side = self.degrees[rows, None] + self.degrees[columns] - 2 * x
        v, d = self.bias
        # Unbiased for C^2, s^2 and C s of each pair.
        common_square = common * (common - (2 * d + d * d)) - (n - 2) * v * v - v * (1 + d) * side
        side_square = side * (side - d) - 2 * (n - 2) * v
        product = common * (side - 2 * d) - v * side
        ahead, back = x * (self.degrees[columns] - x), x * (self.degrees[rows, None] - x)
        sums = (
            (self.triangles, x, common),
            (self.common, weight, common_square),
            (self.sides, weight, side_square),
            (self.both, weight, product),
            (self.squares, x, x),
        )
        for total, left, right in sums:
            total[rows] += np.einsum("ij,ij->i", left, right)
            if rows != columns:
                total[columns] += np.einsum("ij,ij->j", left, right)
        self.paths[rows] += ahead.sum(axis=1)
        if rows != columns:
            self.paths[columns] += back.sum(axis=0)

    def moments(self, m: float) -> Triangles:
        """What the sums add up to, with `m` edges."""
        n, v, d, degrees = len(self.bits), self.noise.variance, self.noise.excess, self.degrees
        at_node = self.triangles / 2
        # Pairs of distinct entries of a row: the square of their sum less their squares.
        centred = (degrees**2 - self.squares) / 2
        triangles, wedges = float(at_node.sum() / 3), float(centred.sum())
        second = v * v * (n - 2) * m + 2 * v * d * wedges + 3 * d * d * triangles
        third = v**3 * comb(n, 3) + v * v * d * (n - 2) * m + v * d * d * wedges + d**3 * triangles
        rest = m - degrees
        per_node = self.common + v * centred + d * at_node
        per_node += (
            v * v * (rest + degrees * (n - 2))
            + v * d * (2 * self.paths + 2 * centred)
            + 3 * d * d * at_node
        )
        per_node += v**3 * comb(n - 1, 2) + v * v * d * (degrees * (n - 2) + rest)
        per_node += v * d * d * (centred + self.paths) + d**3 * at_node
        adjacent = v * v * n * comb(n - 1, 2) + 2 * v * d * (n - 2) * m + d * d * wedges
        return Triangles(
            total=triangles,
            variance=float(self.common.sum() / 2) + second + third,
            per_node=at_node,
            per_node_variance=per_node,
            wedges=wedges,
            wedges_variance=float(self.sides.sum() / 2) + adjacent,
            covariance=float(self.both.sum() / 2) + second,
        )
