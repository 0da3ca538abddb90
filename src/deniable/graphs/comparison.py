"""Errors side by side at equal epsilon: figures 5 and 6 of Wang, Wu and Hu (2016), for any graph.

It looks at the true graph, so its results are not private: it is for anyone who holds a graph and
wants to know what collecting or publishing it would cost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import whole
from deniable.graphs.baselines import (
    curator_degrees,
    curator_triangles,
    smooth_curator_triangles,
    triangles_per_node,
)
from deniable.graphs.graph import Graph
from deniable.graphs.moments import count_degrees, count_triangles
from deniable.graphs.plan import plan_graph
from deniable.graphs.response import EdgeResponse, Progress
from deniable.randomness import Source, source_or_system
from deniable.results import Result

__all__ = ["METHODS", "MethodError", "compare_graph"]

_Floats = NDArray[np.float64]
_Row = tuple[_Floats | None, _Floats | None, float]

METHODS = {
    "response": "randomized response, each pair reported once",
    "response-both": "randomized response, both ends report",
    "laplace-local": "Laplace noise on each pair, rounded",
    "two-rounds": "two rounds",
    "curator-global": "curator, Laplace by global sensitivity",
    "curator-smooth": "curator, Laplace by smooth sensitivity: (epsilon, delta)",
}


@dataclass(frozen=True, eq=False)
class MethodError(Result):
    """How far one method is off on average; None for what it does not estimate."""

    method: str
    epsilon: float
    trusted: bool
    """Whether somebody has to be trusted with the whole graph."""
    degrees: float | None
    """Mean absolute error of a node's degree."""
    node_triangles: float | None
    """Mean absolute error of the triangles at a node."""
    triangles: float
    """Root of the mean squared error of the number of triangles."""


def compare_graph(
    graph: Any,
    epsilons: Sequence[float],
    *,
    trials: int = 20,
    delta: float = 1e-6,
    source: Source | None = None,
    progress: Progress | None = None,
) -> list[MethodError]:
    """The errors of every method at every epsilon, over some simulated collections and releases."""
    graph, source = Graph.of(graph), source_or_system(source)
    whole("trials", trials, 1)
    at_node = triangles_per_node(graph).astype(np.float64)
    degrees, total = graph.degrees.astype(np.float64), float(at_node.sum() / 3)
    out: list[MethodError] = []
    steps = len(epsilons) * len(METHODS)
    for epsilon in epsilons:
        for method, run in _runs(graph, epsilon, delta, source).items():
            rows = [run() for _ in range(trials)]
            off = (
                _mean_error([row[0] for row in rows], degrees),
                _mean_error([row[1] for row in rows], at_node),
            )
            root = math.sqrt(sum((row[2] - total) ** 2 for row in rows) / trials)
            out.append(
                MethodError(method, float(epsilon), method.startswith("curator"), *off, root)
            )
            if progress:
                progress(len(out) / steps)
    return out


def _mean_error(rows: list[_Floats | None], truth: _Floats) -> float | None:
    known = [row for row in rows if row is not None]
    return float(np.mean([np.abs(row - truth).mean() for row in known])) if known else None


def _runs(
    graph: Graph, epsilon: float, delta: float, source: Source
) -> dict[str, Callable[[], _Row]]:
    """For each method, one collection or release."""
    degrees = graph.degrees
    two = plan_graph(
        graph.nodes, epsilon, mean_degree=float(degrees.mean()), degree_sd=float(degrees.std())
    ).two

    def local(response: EdgeResponse) -> _Row:
        bits, channel = response.privatize(graph, source).bits(), response.channel
        counted = count_triangles(bits, channel, channel)
        return count_degrees(bits, channel, channel).degrees, counted.per_node, counted.total

    def rounds() -> _Row:
        reports = two.privatize(graph, source)
        return reports.first.degrees.astype(np.float64), None, reports.triangles

    def curator() -> _Row:
        node = curator_triangles(graph, epsilon, source, per_node=True).values.astype(np.float64)
        total = float(curator_triangles(graph, epsilon, source).values[0])
        return curator_degrees(graph, epsilon, source).values.astype(np.float64), node, total

    def smooth() -> _Row:
        node = smooth_curator_triangles(graph, epsilon, delta, source, per_node=True).values.astype(
            np.float64
        )
        return None, node, float(smooth_curator_triangles(graph, epsilon, delta, source).values[0])

    return {
        "response": lambda: local(EdgeResponse(epsilon)),
        "response-both": lambda: local(EdgeResponse(epsilon, "both")),
        "laplace-local": lambda: local(EdgeResponse.laplace(epsilon)),
        "two-rounds": rounds,
        "curator-global": curator,
        "curator-smooth": smooth,
    }
