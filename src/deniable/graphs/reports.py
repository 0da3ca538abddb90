"""The reports of everybody in a graph: packed rows, their bytes, and what can be learned from
them."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import GraphError, WireError
from deniable.graphs.graph import Graph, check_nodes
from deniable.graphs.response import EdgeResponse, Progress
from deniable.mechanisms.bits import row_bytes
from deniable.randomness import Source
from deniable.wire.containers import GRAPH, pack_container, unpack_container

if TYPE_CHECKING:
    from deniable.graphs.degrees import DegreeDistribution
    from deniable.graphs.estimate import GraphEstimate
    from deniable.graphs.statistic import GraphStatistic

__all__ = ["GraphReports", "pack", "unpack"]

_Bytes = NDArray[np.uint8]
_BLOCK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class GraphReports:
    """One row of packed bits per node, as :meth:`EdgeResponse.report` makes them."""

    response: EdgeResponse
    rows: _Bytes
    labels: tuple[Hashable, ...] | None = None

    def __post_init__(self) -> None:
        nodes = check_nodes(len(self.rows))
        if (
            self.rows.ndim != 2
            or self.rows.dtype != np.uint8
            or self.rows.shape[1] != row_bytes(nodes)
        ):
            raise GraphError(
                f"a report of {nodes} nodes takes {row_bytes(nodes)} bytes per node, one row per"
                " node"
            )
        for start in range(0, nodes, _BLOCK_ROWS):
            end = min(start + _BLOCK_ROWS, nodes)
            beyond = (self.rows[start:end] & ~self.response.mask(start, end, nodes)).any(axis=1)
            if beyond.any():
                who = start + int(np.flatnonzero(beyond)[0])
                raise GraphError(
                    f"the report of node {who} contains a pair that it must not report"
                )

    @staticmethod
    def from_rows(
        response: EdgeResponse,
        rows: Mapping[int, bytes] | Sequence[tuple[int, bytes]],
        nodes: int,
        labels: Any = None,
    ) -> GraphReports:
        """The reports that single people sent, each with its node; every node must have reported
        exactly once."""
        check_nodes(nodes)
        out = np.zeros((nodes, row_bytes(nodes)), dtype=np.uint8)
        seen = np.zeros(nodes, dtype=bool)
        for node, row in rows.items() if isinstance(rows, Mapping) else rows:
            if not 0 <= node < nodes:
                raise GraphError(
                    f"a report comes from node {node}, but the nodes are 0 to {nodes - 1}"
                )
            if seen[node]:
                raise GraphError(f"node {node} reported twice: its pairs would be counted twice")
            content = bytes(row)
            if len(content) != row_bytes(nodes):
                raise GraphError(
                    f"the report of node {node} has {len(content)} bytes, not {row_bytes(nodes)}"
                )
            out[node] = np.frombuffer(content, dtype=np.uint8)
            seen[node] = True
        if not seen.all():
            missing = int(np.flatnonzero(~seen)[0])
            raise GraphError(
                f"{int((~seen).sum())} of {nodes} nodes did not report, among them node {missing}"
            )
        return GraphReports(response, out, None if labels is None else tuple(labels))

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.rows)

    def bits(self) -> NDArray[np.float32]:
        """How many of its bits are 1 for every pair, as a symmetric matrix with a zero diagonal.

        Whole numbers of four bytes, so that products of the matrix, which stay below 2**24, are
        exact.
        """
        nodes = self.nodes
        out = np.empty((nodes, nodes), dtype=np.float32)
        for start in range(0, nodes, _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            out[part] = np.unpackbits(self.rows[part], axis=1, count=nodes, bitorder="little")
        for start in range(0, nodes, _BLOCK_ROWS):
            part = slice(start, start + _BLOCK_ROWS)
            for other in range(0, start + 1, _BLOCK_ROWS):
                place = slice(other, other + _BLOCK_ROWS)
                both = out[part, place] + out[place, part].T
                out[part, place] = both
                out[place, part] = both.T
        return out

    def estimate(
        self, *, triangles: bool = True, progress: Progress | None = None
    ) -> GraphEstimate:
        """Edges, density and degrees, and with `triangles` also triangles, wedges and clustering,
        each with its error.

        Without triangles the time grows with the square of the number of nodes, with them with its
        cube.
        """
        from deniable.graphs.estimate import estimate_reports  # noqa: PLC0415 - a cycle

        return estimate_reports(self, triangles, progress)

    def degree_distribution(self, thresholds: Sequence[int] | None = None) -> DegreeDistribution:
        """The proportion of nodes with a degree of at most each of some thresholds; see
        :class:`DegreeDistribution`."""
        from deniable.graphs.degrees import from_reports  # noqa: PLC0415 - each needs the other

        return from_reports(self, thresholds)

    def assortativity(self, groups: Sequence[Hashable]) -> GraphStatistic:
        """How much more often edges stay within a group than they would by chance (Newman 2003, eq.
        2).

        `groups` is a public attribute, one value per node. Between -1 and 1; 0 if edges are
        independent of the groups.
        """
        from deniable.graphs.mixing import assortativity  # noqa: PLC0415 - each needs the other

        return assortativity(self, groups)

    def synthetic(self, source: Source | None = None) -> Graph:
        """A graph that could be the true one, with the estimated number of edges; see
        :mod:`deniable.graphs.synthetic`."""
        from deniable.graphs.synthetic import synthetic_graph  # noqa: PLC0415 - a cycle

        return synthetic_graph(self, source)

    def to_bytes(self) -> bytes:
        """The reports with the description of their response and the nodes' labels."""
        description = {
            "kind": "reports",
            "nodes": self.nodes,
            "labels": self.labels,
            "response": self.response.to_dict(),
        }
        return pack(description, self.rows.tobytes())

    @staticmethod
    def from_bytes(content: bytes) -> GraphReports:
        """The reports that :meth:`to_bytes` wrote."""
        description, body = unpack(content)
        if description.get("kind") != "reports":
            raise GraphError(
                f"these bytes hold {description.get('kind')!r}, not the reports of one round"
            )
        nodes, response = (
            check_nodes(description.get("nodes")),
            EdgeResponse.from_dict(description.get("response")),
        )
        return GraphReports(response, read_rows(body, nodes), read_labels(description, nodes))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GraphReports):
            return NotImplemented
        return (self.response, self.labels) == (other.response, other.labels) and np.array_equal(
            self.rows, other.rows
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<reports of {self.nodes:,} nodes, epsilon {self.response.epsilon:.4g} per edge>"


def pack(description: Mapping[str, Any], body: bytes) -> bytes:
    """Self-describing bytes."""
    try:
        head = json.dumps(description, separators=(",", ":"), ensure_ascii=False).encode()
    except TypeError:
        raise GraphError("the labels of nodes must be texts or numbers to be written") from None
    return pack_container(GRAPH, head, body)


def unpack(content: bytes) -> tuple[dict[str, Any], bytes]:
    """What :func:`pack` was given."""
    try:
        head, body = unpack_container(GRAPH, "reports about a graph", content)
    except WireError as error:
        raise GraphError(str(error)) from None
    try:
        description = json.loads(head)
    except (ValueError, RecursionError):
        raise GraphError("the description of the reports is not JSON") from None
    if not isinstance(description, dict):
        raise GraphError("the description of the reports is not a JSON object")
    return description, body


def read_rows(body: bytes, nodes: int) -> _Bytes:
    """One packed row per node, out of exactly as many bytes as they take."""
    size = nodes * row_bytes(nodes)
    if len(body) != size:
        raise GraphError(f"the rows of {nodes} nodes take {size} bytes, but {len(body)} follow")
    return np.frombuffer(body, dtype=np.uint8).reshape(nodes, -1)


def read_labels(description: Mapping[str, Any], nodes: int) -> tuple[Hashable, ...] | None:
    """The labels, one per node and no two alike."""
    labels = description.get("labels")
    if labels is None:
        return None
    if not isinstance(labels, list) or len(labels) != nodes or len(set(map(str, labels))) != nodes:
        raise GraphError(f"there must be {nodes} distinct labels, one per node")
    return tuple(labels)
