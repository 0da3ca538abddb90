"""Triangles in two rounds: first noisy degrees and noisy edges, then everyone counts using their
own exact edges.

In one round all three sides of a triangle are noisy. In two, a person knows two of them exactly and
reads the third from the noisy graph, so the noise of n^3 triples becomes that of the wedges that
really exist, at the price of one noisy number per person (Imola, Murakami and Chaudhuri 2021; with
fewer noisy edges 2022).

1. Everybody publishes their degree with discrete Laplace noise (two degrees change with an edge:
   scale 2/epsilon_0), and their pairs with randomized response at epsilon_1, of which a part may be
   withheld (:meth:`EdgeResponse.sparse`).
2. The noisy degrees put the nodes in an order, which is public. Node i owns its edges to nodes
   after it; of a triangle, the first node owns two. Its list of owned neighbours is cut to a bound
   c_i: its noisy degree plus a margin, or the number of nodes after it if that is less. It sends
   w_i = the sum over pairs j, k of its list of (Y_jk - b), with discrete Laplace noise of scale
   (c_i - 1)/epsilon_2: one owned edge more or less, or another one in its place where the list was
   cut, changes at most c_i - 1 pairs by at most 1.

An edge is in two degrees, one report of a pair and one list: its loss is epsilon_0 + epsilon_1 +
epsilon_2.

T = sum w_i/(a - b) is unbiased except for lists that were cut. The owner of a triangle is the one
of its three nodes with the smallest noisy degree, and so the one whose list is most easily cut:
with c the probability that a list is cut, a triangle is lost with probability at most 1 - (1 -
c)^3, that any of the three is. The margin is such that this is at most `cut`: the mean is between (1 - cut) T
and T, and the interval is widened accordingly. The variance is the sum over pairs j, k of v_jk
c_jk^2, where c_jk is the number of lists that contain both, plus that of the noise. The latter
is known; the former is estimated from the noisy edges.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, check_number, check_probability
from deniable.errors import GraphError, ParameterError
from deniable.graphs.degrees import DegreeDistribution, from_first_round
from deniable.graphs.estimate import DROWNED, GraphEstimate, clustering_of
from deniable.graphs.graph import Graph, check_nodes
from deniable.graphs.noise import (
    LARGEST_SCALE,
    discrete_laplace,
    discrete_laplace_each,
    laplace_variance,
    scale_for,
)
from deniable.graphs.reports import GraphReports, pack, read_labels, read_rows, unpack
from deniable.graphs.response import EdgeResponse, Progress
from deniable.graphs.statistic import DegreeNoise, GraphStatistic
from deniable.graphs.two_round_errors import UNIT, estimated_triangles, estimated_wedges
from deniable.randomness import Source, source_or_system

__all__ = ["FirstRound", "TwoRoundReports", "TwoRounds"]

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_PAIRS = 4_000_000
"""How many pairs of neighbours are looked up at a time."""


@dataclass(frozen=True)
class TwoRounds:
    """The protocol: its epsilon, how it is divided among degrees, noisy edges and counts, and how
    many noisy edges are kept.

    >>> protocol = TwoRounds(3.0)
    >>> protocol.epsilon <= 3.0, round(protocol.response.epsilon, 3)
    (True, 1.2)
    """

    requested_epsilon: float
    parts: tuple[float, float, float] = (0.2, 0.4, 0.4)
    """How epsilon is divided: degrees, noisy edges, counts."""
    keep: float = 1.0
    """The fraction of the noisy edges that is published."""
    cut: float = 0.02
    """The largest probability that a triangle is missing from the counts because a list was cut:
    the noise on a degree was far below 0."""

    def __post_init__(self) -> None:
        check_epsilon(self.requested_epsilon)
        if len(self.parts) != 3 or min(check_number("parts", part) for part in self.parts) <= 0:
            raise ParameterError("parts", self.parts, "must be three numbers above 0")
        if not math.isclose(sum(self.parts), 1, abs_tol=1e-9):
            raise ParameterError(
                "parts", self.parts, f"must sum to 1, but they sum to {sum(self.parts):g}"
            )
        object.__setattr__(self, "parts", tuple(float(part) for part in self.parts))
        object.__setattr__(self, "keep", float(check_number("keep", self.keep)))
        object.__setattr__(self, "cut", float(check_probability("cut", self.cut)))
        _ = self.response, self.count_epsilon

    @cached_property
    def degree_scale(self) -> Fraction:
        """The scale of the noise on a degree."""
        return scale_for(2, self.requested_epsilon * self.parts[0])

    @cached_property
    def response(self) -> EdgeResponse:
        """How pairs are reported in the first round."""
        return EdgeResponse.sparse(self.requested_epsilon * self.parts[1], self.keep)

    @cached_property
    def count_epsilon(self) -> Fraction:
        """What the second round may spend: everything the first has left over, so that roundings
        cannot add up."""
        left = (
            Fraction(self.requested_epsilon)
            - 2 / self.degree_scale
            - Fraction(self.response.epsilon)
        )
        return min(left, Fraction(self.requested_epsilon) * Fraction(self.parts[2]))

    @property
    def epsilon(self) -> float:
        """The loss of an edge over both rounds."""
        total = 2 / self.degree_scale + Fraction(self.response.epsilon) + self.count_epsilon
        rounded = float(total)
        return rounded if Fraction(rounded) >= total else math.nextafter(rounded, math.inf)

    @property
    def margin(self) -> int:
        """What is added to a noisy degree: P(noise < -margin) = q^(margin + 1)/(1 + q) is at most
        `list_cut`."""
        scale = float(self.degree_scale)
        return max(0, math.ceil(-scale * math.log(self.list_cut * (1 + math.exp(-1 / scale))) - 1))

    @property
    def list_cut(self) -> float:
        """The largest probability that a list is cut, so that none of a triangle's three nodes has
        its list cut with probability 1 - `cut`."""
        return -math.expm1(math.log1p(-self.cut) / 3)

    def report_degree(self, degree: int, source: Source | None = None) -> int:
        """What one person sends about their degree."""
        return int(degree + discrete_laplace(self.degree_scale, 1, source_or_system(source))[0])

    def first(
        self, graph: Any, source: Source | None = None, progress: Progress | None = None
    ) -> FirstRound:
        """What everyone sends in the first round; all of it is then published."""
        graph, source = Graph.of(graph), source_or_system(source)
        degrees = graph.degrees + discrete_laplace(self.degree_scale, graph.nodes, source)
        return FirstRound(self, degrees, self.response.privatize(graph, source, progress))

    def count_scales(self, bounds: _Ints) -> _Ints:
        """The scale of the noise on counts, in units of 1/65536, for lists of at most these
        lengths; 0 if there is none."""
        distinct, which = np.unique(bounds, return_inverse=True)
        spent = self.count_epsilon
        scales = [
            0 if bound < 2 else math.ceil((bound - 1) * UNIT / spent) for bound in distinct.tolist()
        ]
        if max(scales, default=0) > LARGEST_SCALE:
            raise ParameterError(
                "epsilon",
                self.requested_epsilon,
                f"is too small for lists of {int(distinct[-1])} neighbours",
            )
        return np.array(scales, dtype=np.int64)[which.reshape(-1)]

    def report_count(
        self,
        node: int,
        neighbours: Collection[int],
        first: FirstRound,
        source: Source | None = None,
    ) -> int:
        """What one person sends in the second round, in units of 1/65536."""
        return int(
            self._counts(
                np.array([node]), [np.array(sorted(neighbours), dtype=np.int64)], first, source
            )[0]
        )

    def _counts(
        self, nodes: _Ints, lists: Sequence[_Ints], first: FirstRound, source: Source | None
    ) -> _Ints:
        scales = self.count_scales(first.bounds[nodes])
        noisy = np.flatnonzero(scales)  # where a list has room for a pair, which is public
        out = np.zeros(nodes.size, dtype=np.int64)
        out[noisy] = discrete_laplace_each(scales[noisy], source_or_system(source))
        out[noisy] += first.counts(nodes[noisy], [lists[place] for place in noisy.tolist()])
        return out

    def privatize(
        self, graph: Any, source: Source | None = None, progress: Progress | None = None
    ) -> TwoRoundReports:
        """What everyone sends in both rounds."""
        graph, source = Graph.of(graph), source_or_system(source)
        first = self.first(graph, source, progress)
        matrix = graph.to_sparse()
        matrix.sort_indices()
        lists = np.split(matrix.indices.astype(np.int64), matrix.indptr[1:-1])
        return TwoRoundReports(first, self._counts(np.arange(graph.nodes), lists, first, source))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, ready for JSON."""
        return {
            "epsilon": self.requested_epsilon,
            "parts": list(self.parts),
            "keep": self.keep,
            "triangles_cut": self.cut,
        }

    @staticmethod
    def from_dict(content: Any) -> TwoRounds:
        """The protocol that :meth:`to_dict` described."""
        try:
            # Release 0.1.0 states the probability that a list is cut.
            cut = (
                content["triangles_cut"]
                if "triangles_cut" in content
                else 1 - (1 - content["cut"]) ** 3
            )
            return TwoRounds(content["epsilon"], tuple(content["parts"]), content["keep"], cut)
        except (KeyError, TypeError):
            raise GraphError(
                "the description of the protocol is not one that this library writes"
            ) from None


@dataclass(frozen=True, eq=False)
class FirstRound:
    """What is public after the first round."""

    protocol: TwoRounds
    degrees: _Ints
    """With noise."""
    reports: GraphReports

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.reports.nodes

    @cached_property
    def ranks(self) -> _Ints:
        """The position of each node in the order: smaller noisy degree first, ties by number."""
        ranks = np.empty(self.nodes, dtype=np.int64)
        ranks[np.argsort(self.degrees, kind="stable")] = np.arange(self.nodes)
        return ranks

    @cached_property
    def bounds(self) -> _Ints:
        """How long each node's list may be."""
        return np.clip(self.degrees + self.protocol.margin, 0, self.nodes - 1 - self.ranks)

    def count(self, node: int, neighbours: _Ints) -> int:
        """The count of one node without noise, in units of 1/65536. Never leaves the device."""
        return int(self._counts(np.array([node]), [neighbours])[0])

    def counts(self, nodes: _Ints, lists: Sequence[_Ints]) -> _Ints:
        """The same for many nodes at once, for simulations."""
        out = np.zeros(nodes.size, dtype=np.int64)
        lengths = np.minimum([neighbours.size for neighbours in lists], self.bounds[nodes])
        # As many nodes at a time as keep the pairs of their lists within memory.
        parts = np.cumsum(lengths * (lengths - 1) // 2) // _PAIRS
        for part in np.unique(parts):
            chosen = np.flatnonzero(parts == part)
            out[chosen] = self._counts(nodes[chosen], [lists[place] for place in chosen.tolist()])
        return out

    def _counts(self, nodes: _Ints, lists: Sequence[_Ints]) -> _Ints:
        owner = np.repeat(np.arange(nodes.size), [neighbours.size for neighbours in lists])
        others = np.concatenate(lists)
        owned = self.ranks[others] > self.ranks[nodes[owner]]
        owner, others = owner[owned], others[owned]
        place = np.arange(owner.size) - np.searchsorted(owner, owner)  # in the owner's list
        kept = place < self.bounds[nodes[owner]]
        owner, others, place = owner[kept], others[kept], place[kept]
        # Each entry of a list makes a pair with every one before it.
        right = np.repeat(np.arange(owner.size), place)
        left = (
            np.arange(right.size)
            - np.repeat(np.cumsum(place) - place, place)
            + (right - np.repeat(place, place))
        )
        low, high = np.minimum(others[left], others[right]), np.maximum(others[left], others[right])
        seen = self.reports.rows[high, low >> 3] >> (low & 7).astype(np.uint8) & 1
        each = seen.astype(np.int64) * UNIT - round(self.protocol.response.channel.b * UNIT)
        # whole numbers below 2**53
        return np.bincount(owner[right], weights=each, minlength=nodes.size).astype(np.int64)


@dataclass(frozen=True, eq=False)
class TwoRoundReports:
    """What everyone sent in both rounds."""

    first: FirstRound
    counts: _Ints

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.first.nodes

    @property
    def protocol(self) -> TwoRounds:
        """How the reports were made."""
        return self.first.protocol

    @property
    def triangles(self) -> float:
        """The estimated number of triangles, without its error, which takes most of the time to
        compute."""
        return float(self.counts.sum()) / (UNIT * self.protocol.response.channel.gap)

    def estimate(self, *, progress: Progress | None = None) -> GraphEstimate:
        """Edges, density, degrees, wedges, triangles and clustering, each with its error."""
        nodes, protocol = self.nodes, self.protocol
        degrees = self.first.degrees.astype(np.float64)
        noise = laplace_variance(protocol.degree_scale)
        pairs = nodes * (nodes - 1) / 2
        edges = GraphStatistic("edges", degrees.sum() / 2, math.sqrt(nodes * noise) / 2, nodes)
        wedges = estimated_wedges(self, noise)
        triangles, notes = estimated_triangles(self, wedges, progress)
        # Given the degrees' noise, the triangles are unbiased: the two do not covary.
        clustering = clustering_of(triangles, wedges, 0.0)
        if clustering.coverage == "all possible":
            notes = (*notes, DROWNED)
        return GraphEstimate(
            nodes=nodes,
            edges=edges,
            density=GraphStatistic("density", edges.value / pairs, edges.stderr / pairs, nodes),
            degrees=degrees,
            degrees_stderr=np.full(nodes, math.sqrt(noise)),
            degree_noise=DegreeNoise(scale=float(protocol.degree_scale)),
            triangles=triangles,
            wedges=wedges,
            clustering=clustering,
            epsilon=protocol.epsilon,
            mechanism="in two rounds",
            labels=self.first.reports.labels,
            notes=notes,
        )

    def degree_distribution(self, thresholds: Sequence[int] | None = None) -> DegreeDistribution:
        """The proportion of nodes with a degree of at most each of some thresholds; see
        :class:`DegreeDistribution`."""
        return from_first_round(self.first, thresholds)

    def to_bytes(self) -> bytes:
        """The reports, with a description of their protocol and the nodes' labels."""
        reports = self.first.reports
        description = {
            "kind": "two rounds",
            "nodes": self.nodes,
            "labels": reports.labels,
            "protocol": self.protocol.to_dict(),
        }
        numbers = np.concatenate([self.first.degrees, self.counts]).astype("<i8").tobytes()
        return pack(description, numbers + reports.rows.tobytes())

    @staticmethod
    def from_bytes(content: bytes) -> TwoRoundReports:
        """The reports that :meth:`to_bytes` wrote."""
        description, body = unpack(content)
        if description.get("kind") != "two rounds":
            raise GraphError(
                f"these bytes hold {description.get('kind')!r}, not the reports of two rounds"
            )
        nodes, protocol = (
            check_nodes(description.get("nodes")),
            TwoRounds.from_dict(description.get("protocol")),
        )
        if len(body) < 16 * nodes:
            raise GraphError(
                f"the numbers of {nodes} nodes take {16 * nodes} bytes, and {len(body)} follow"
            )
        degrees, counts = (
            np.frombuffer(body[: 16 * nodes], dtype="<i8").astype(np.int64).reshape(2, nodes)
        )
        reports = GraphReports(
            protocol.response, read_rows(body[16 * nodes :], nodes), read_labels(description, nodes)
        )
        return TwoRoundReports(FirstRound(protocol, degrees, reports), counts)

    def __repr__(self) -> str:
        return (
            f"<reports of {self.nodes:,} nodes in two rounds, epsilon {self.protocol.epsilon:.4g}"
            " per edge>"
        )
