"""An undirected graph, made from common formats and checked."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import whole
from deniable.errors import GraphError, MissingExtraError, ParameterError

__all__ = ["LARGEST_GRAPH", "Graph", "check_nodes"]

LARGEST_GRAPH = 1 << 17
"""The most nodes. Every pair is reported, so memory and time grow at least with the square of this
number."""

_Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes 0 … `nodes` - 1 and undirected edges between them, without loops, each pair at most
    once.

    >>> Graph.of([(0, 1), (1, 2)], nodes=4)
    <Graph of 4 nodes>
    >>> Graph.of([(0, 1), (1, 0)], nodes=4)
    Traceback (most recent call last):
    deniable.errors.GraphError: edges[1] is a pair that was listed before
    """

    nodes: int
    edges: _Ints
    """One row per edge, the smaller node first, in ascending order."""
    labels: tuple[Hashable, ...] | None = None
    """The nodes' names, which are public; without them, their numbers."""

    @staticmethod
    def of(graph: Any, nodes: int | None = None, labels: Sequence[Hashable] | None = None) -> Graph:
        """The graph of a networkx graph, a SciPy sparse or NumPy adjacency matrix, or pairs of node
        numbers.

        Pairs need `nodes` or `labels`: a node without an edge is in no pair.
        """
        if isinstance(graph, Graph):
            return graph
        if hasattr(graph, "is_directed"):
            return _from_networkx(graph)
        if hasattr(graph, "tocoo"):
            return _from_matrix(graph.tocoo(), labels)
        pairs = np.asarray(graph)
        if (
            pairs.ndim == 2
            and pairs.shape[0] == pairs.shape[1]
            and nodes is None
            and labels is None
        ):
            from scipy.sparse import coo_array  # noqa: PLC0415 - slow to import

            return _from_matrix(coo_array(pairs), labels)
        count = len(labels) if nodes is None and labels is not None else nodes
        if count is None:
            raise ParameterError(
                "nodes", None, "must be given with pairs: a node without an edge is in no pair"
            )
        return _from_pairs(pairs, check_nodes(count), labels)

    @property
    def degrees(self) -> _Ints:
        """How many neighbours each node has."""
        return np.bincount(self.edges.reshape(-1), minlength=self.nodes).astype(np.int64)

    def to_sparse(self) -> Any:
        """The adjacency matrix, as a SciPy sparse array of zeros and ones."""
        from scipy.sparse import csr_array  # noqa: PLC0415 - slow to import

        low, high = self.edges.T
        ones = np.ones(2 * len(self.edges), dtype=np.int64)
        places = (np.concatenate([low, high]), np.concatenate([high, low]))
        return csr_array((ones, places), shape=(self.nodes, self.nodes))

    def to_networkx(self) -> Any:
        """A networkx graph with the nodes' labels."""
        try:
            import networkx as nx  # noqa: PLC0415 - an extra
        except ImportError:
            raise MissingExtraError("networkx", "graphs", "to_networkx()") from None
        names = range(self.nodes) if self.labels is None else self.labels
        out = nx.Graph()
        out.add_nodes_from(names)
        out.add_edges_from((names[i], names[j]) for i, j in self.edges.tolist())
        return out

    def __repr__(self) -> str:
        return f"<Graph of {self.nodes:,} nodes>"  # how many edges there are is not public


def check_nodes(nodes: Any) -> int:
    """The number of nodes, checked."""
    return whole("nodes", nodes, 2, LARGEST_GRAPH)


def _from_networkx(graph: Any) -> Graph:
    if graph.is_directed() or graph.is_multigraph():
        raise GraphError("the graph must be undirected, with at most one edge per pair")
    labels = tuple(graph.nodes)
    places = {label: place for place, label in enumerate(labels)}
    pairs = [(places[i], places[j]) for i, j in graph.edges]
    numbered = labels == tuple(range(len(labels)))
    return _from_pairs(
        np.array(pairs, dtype=np.int64).reshape(-1, 2),
        check_nodes(len(labels)),
        None if numbered else labels,
    )


def _from_matrix(matrix: Any, labels: Sequence[Hashable] | None) -> Graph:
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise GraphError(f"the adjacency matrix must be square, not of shape {tuple(matrix.shape)}")
    kept = matrix.data != 0
    if (matrix.data[kept] != 1).any():
        raise GraphError(
            "the adjacency matrix must contain only zeros and ones, each pair once per direction"
        )
    rows, columns = matrix.row[kept].astype(np.int64), matrix.col[kept].astype(np.int64)
    if (rows == columns).any():
        raise GraphError("the adjacency matrix has a one on its diagonal: a self-loop")
    lower = rows > columns
    nodes = check_nodes(matrix.shape[0])
    below, above = rows[lower] * nodes + columns[lower], columns[~lower] * nodes + rows[~lower]
    if not np.array_equal(np.sort(below), np.sort(above)):
        raise GraphError(
            "the adjacency matrix must be symmetric: both ends of an edge know about it"
        )
    return _from_pairs(np.column_stack([columns[lower], rows[lower]]), nodes, labels)


def _from_pairs(pairs: NDArray[Any], nodes: int, labels: Sequence[Hashable] | None) -> Graph:
    """Errors name the position of a pair, never its nodes: an edge is an answer."""
    if labels is not None and len(labels) != nodes:
        raise ParameterError("len(labels)", len(labels), f"must be the number of nodes, {nodes}")
    if labels is not None and len(set(labels)) != nodes:
        raise ParameterError("distinct labels", len(set(labels)), f"must be {nodes}")
    if pairs.size == 0:
        return Graph(
            nodes, np.empty((0, 2), dtype=np.int64), None if labels is None else tuple(labels)
        )
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise GraphError("edges must be pairs of whole numbers, one row per edge")
    pairs = pairs.astype(np.int64)
    _refuse(
        (pairs.min(axis=1) < 0) | (pairs.max(axis=1) >= nodes),
        f"has a node outside 0 to {nodes - 1}",
    )
    _refuse(pairs[:, 0] == pairs[:, 1], "is a self-loop")
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    keys = low * nodes + high
    order = np.argsort(keys, kind="stable")
    again = np.zeros(len(keys), dtype=bool)
    again[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    _refuse(again, "is a pair that was listed before")
    return Graph(
        nodes, np.column_stack([low, high])[order], None if labels is None else tuple(labels)
    )


def _refuse(wrong: NDArray[np.bool_], rule: str) -> None:
    if wrong.any():
        raise GraphError(rule, int(np.flatnonzero(wrong)[0]))
