"""What a trusted curator who sees the whole graph would publish: the baselines of Wang, Wu and Hu's
figures 5 and 6.

Neighbouring graphs differ in one edge. All noise is discrete Laplace on whole numbers, drawn
exactly. Each published figure spends its own epsilon; reports under randomized response can be
evaluated again and again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, check_range
from deniable.display import Bar, Display, coverage_text, limits_text
from deniable.graphs.graph import Graph
from deniable.graphs.noise import (
    discrete_laplace,
    laplace_quantile,
    laplace_variance,
    round_up,
    scale_for,
)
from deniable.randomness import Source, source_or_system
from deniable.results import Result

__all__ = [
    "CuratorRelease",
    "curator_degrees",
    "curator_triangles",
    "local_sensitivities",
    "smooth_beta",
    "smooth_curator_triangles",
    "smooth_sensitivity",
    "triangles_per_node",
]

_BLOCK_ROWS = 512


@dataclass(frozen=True, eq=False)
class CuratorRelease(Result):
    """Whole numbers with discrete Laplace noise.

    With smooth sensitivity the scale depends on the graph: its size tells something, and that is
    paid for by `delta` and by part of epsilon, as long as the values are published and the scale is
    used for nothing but the ±.
    """

    values: NDArray[np.int64]
    scale: Fraction
    epsilon: float
    delta: float = 0.0
    """Above 0, the guarantee is (epsilon, delta): with that probability it may fail."""

    @property
    def stderr(self) -> float:
        """Of each value."""
        return math.sqrt(laplace_variance(self.scale))

    def interval(self, confidence: float = 0.95) -> NDArray[np.int64]:
        """Low and high, one row per value; they cover at least as often as they say."""
        reach = laplace_quantile(self.scale, confidence)
        return np.column_stack([self.values - reach, self.values + reach])

    def _display(self, confidence: float = 0.95) -> Display:
        limits = self.interval(confidence).tolist()
        rows = [(at, int(value), *limits[at]) for at, value in enumerate(self.values)]
        bars = [Bar(str(place), float(value), low, high) for place, value, low, high in rows]
        return Display(("number", "value", "low", "high"), rows, (str(self),), bars, "value")

    def __str__(self) -> str:
        guarantee = f"epsilon {self.epsilon:.4g}" + (
            f", delta {self.delta:.2g}" if self.delta else ""
        )
        reach = laplace_quantile(self.scale, 0.95)
        if self.values.size == 1:
            figure = f"{self.values[0]:,}, {limits_text(self.interval(0.95)[0], 0)}"
        else:
            figure = f"{self.values.size:,} values, each ± {reach:,}"
        return (
            f"{figure} ({coverage_text(at_least=True)}), {guarantee} per edge, for anyone but the"
            " curator"
        )


def curator_degrees(graph: Any, epsilon: float, source: Source | None = None) -> CuratorRelease:
    """The degree sequence with noise of scale 2/epsilon: an edge counts at both of its ends."""
    graph = Graph.of(graph)
    return _noisy(graph.degrees, scale_for(2, epsilon), epsilon, 0.0, source)


def curator_triangles(
    graph: Any, epsilon: float, source: Source | None = None, *, per_node: bool = False
) -> CuratorRelease:
    """The number of triangles with noise by global sensitivity, n - 2; or at each node, where that
    is 3 (n - 2)."""
    graph = Graph.of(graph)
    counts = triangles_per_node(graph)
    values = counts if per_node else counts.sum(keepdims=True) // 3
    return _noisy(
        values,
        scale_for(max(1, graph.nodes - 2) * (3 if per_node else 1), epsilon),
        epsilon,
        0.0,
        source,
    )


def smooth_curator_triangles(
    graph: Any,
    epsilon: float,
    delta: float,
    source: Source | None = None,
    *,
    per_node: bool = False,
) -> CuratorRelease:
    """The same with noise by smooth sensitivity (Nissim, Raskhodnikova and Smith 2007): (epsilon,
    delta), not epsilon.

    The scale is 2 S/epsilon. Half of epsilon pays for the difference between neighbouring counts,
    at most S; the other half for the difference between neighbouring scales, at most a factor
    e^beta (:func:`smooth_beta`). The L1 sensitivity of the sequence is 3 times that of the total.
    """
    graph = Graph.of(graph)
    counts = triangles_per_node(graph)
    values = counts if per_node else counts.sum(keepdims=True) // 3
    beta = smooth_beta(epsilon, delta, dimensions=values.size)
    sensitivity = max(1.0, smooth_sensitivity(graph, beta)) * (3 if per_node else 1)
    return _noisy(
        values, round_up(Fraction(2 * sensitivity) / Fraction(epsilon)), epsilon, delta, source
    )


def _noisy(
    values: NDArray[np.int64], scale: Fraction, epsilon: float, delta: float, source: Source | None
) -> CuratorRelease:
    noise = discrete_laplace(scale, values.size, source_or_system(source))
    return CuratorRelease(values + noise, scale, epsilon, delta)


def smooth_beta(epsilon: float, delta: float, dimensions: int = 1) -> float:
    """How fast smooth sensitivity may change per edge, so that discrete Laplace noise of its scale
    gives (epsilon, delta).

    A scale that is a factor e^beta larger makes an outcome of noise that sums to x scales (over all
    dimensions) at most e^(x (e^beta - 1)) times as likely, and x exceeds its (1 - delta) quantile
    with probability delta only. A smaller scale makes it at most e^(dimensions beta) times as
    likely. So e^beta - 1 is epsilon/2 over the quantile, or over the number of dimensions if that
    is larger, less a bit for the rounding of the scale. In one dimension ln(2/delta) is beyond the
    quantile; the sum of d magnitudes is at most a Gamma variable with shape d plus d/2 over the
    scale, which is no less than 6/epsilon for a sequence.
    """
    check_epsilon(epsilon)
    check_range("delta", delta, above=0, below=1)
    if dimensions == 1:
        quantile = math.log(2 / delta)
    else:
        from scipy.stats import gamma  # noqa: PLC0415 - slow to import

        quantile = float(gamma.isf(delta, dimensions)) + dimensions * epsilon / 12
    # Scales are rounded up to multiples of 2**-20 and are at least 2/epsilon.
    return math.log1p(epsilon / 2 / max(quantile, dimensions) - epsilon * 2.0**-20)


def triangles_per_node(graph: Graph) -> NDArray[np.int64]:
    """How many triangles each node is part of."""
    matrix = graph.to_sparse()
    return np.asarray((matrix @ matrix).multiply(matrix).sum(axis=1)).reshape(-1) // 2


def local_sensitivities(graph: Graph) -> NDArray[np.int64]:
    """LS(s), s = 0, 1, …: the most that one edge can change the triangles of any graph within s
    edges of this one.

    LS(s) = max over pairs of min(a + floor((s + min(s, b))/2), n - 2), with a common neighbours of
    the pair and b neighbours of exactly one of the two: with one more edge a neighbour of one
    becomes common, with two more anybody does. It ends where n - 2 is reached.

    >>> local_sensitivities(Graph.of([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], nodes=6)).tolist()
    [1, 2, 3, 3, 4]
    """
    n = graph.nodes
    if n == 2:
        return np.zeros(1, dtype=np.int64)
    matrix, degrees = graph.to_sparse(), graph.degrees
    # Both a and b only help: of all pairs with the same a, the one with the most b counts.
    most = np.full(n - 1, -1, dtype=np.int64)
    for start in range(0, n, _BLOCK_ROWS):
        rows = matrix[start : start + _BLOCK_ROWS]
        common = np.asarray((rows @ matrix).toarray(), dtype=np.int64)
        one_sided = (
            degrees[start : start + _BLOCK_ROWS, None] + degrees - 2 * common - 2 * rows.toarray()
        )
        own = np.arange(len(common))
        common[own, start + own] = 0
        one_sided[own, start + own] = -1  # a node and itself are no pair
        np.maximum.at(most, common.reshape(-1), one_sided.reshape(-1))
    a = np.flatnonzero(most >= 0)
    b = most[a]
    out: list[int] = []
    while not out or out[-1] < n - 2:
        s = len(out)
        out.append(int(np.minimum(a + (s + np.minimum(s, b)) // 2, n - 2).max()))
    return np.array(out)


def smooth_sensitivity(graph: Any, beta: float) -> float:
    """max over s of e^(-beta s) LS(s): an upper bound of the local sensitivity that changes by at
    most e^beta per edge.

    >>> round(smooth_sensitivity(Graph.of([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)], nodes=6), 0.5), 6)
    1.213061
    """
    local = local_sensitivities(Graph.of(graph))
    return float((local * np.exp(-beta * np.arange(local.size))).max())
