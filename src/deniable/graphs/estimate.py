"""What an analyst learns about a graph: counts with honest error bars."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.display import Display
from deniable.errors import GraphError
from deniable.estimation.tables.statistic import displayed_statistics, normal_reach
from deniable.graphs.limits import (
    ENOUGH,
    LOUD,
    UnimodalLaw,
    flips,
)
from deniable.graphs.moments import Degrees, Triangles, count_degrees, count_triangles
from deniable.graphs.response import EdgeChannel, Progress
from deniable.graphs.statistic import AT_LEAST, DegreeNoise, GraphStatistic
from deniable.results import Result, fields_of

if TYPE_CHECKING:
    from deniable.graphs.reports import GraphReports

__all__ = [
    "DROWNED",
    "GraphEstimate",
    "clustering_of",
    "estimate_reports",
]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GraphEstimate(Result):
    """Edges, density, degrees, and where they were asked for triangles, wedges and clustering, with
    the errors of each.

    Counts of one round are unbiased, so they may be below 0, as a fair error bar around a small
    count does. Triangles of two rounds are too few on average, by at most `triangles.lost`.
    """

    nodes: int
    edges: GraphStatistic
    density: GraphStatistic
    degrees: _Floats
    degrees_stderr: _Floats
    degree_noise: DegreeNoise
    triangles: GraphStatistic | None = None
    node_triangles: _Floats | None = None
    """Triangles at each node; None where they were not counted."""
    node_triangles_stderr: _Floats | None = None
    wedges: GraphStatistic | None = None
    """Pairs of edges that share a node."""
    clustering: GraphStatistic | None = None
    """3 triangles / wedges, the global clustering coefficient."""
    epsilon: float = math.nan
    """The loss of an edge."""
    mechanism: str = ""
    labels: tuple[Hashable, ...] | None = None
    notes: tuple[str, ...] = field(default=())

    def statistics(self) -> tuple[GraphStatistic, ...]:
        """The figures of the whole graph, those that there are."""
        every = (self.edges, self.density, self.triangles, self.wedges, self.clustering)
        return tuple(statistic for statistic in every if statistic is not None)

    def degree_interval(self, confidence: float = 0.95) -> _Floats:
        """One row per node: low and high, which cover its degree with the given probability."""
        return self.degree_noise.limits(self.degrees, self.degrees_stderr, self.nodes, confidence)

    @property
    def degree_coverage(self) -> str:
        """What the limits of degrees claim, as :attr:`GraphStatistic.coverage`."""
        return self.degree_noise.coverage(self.nodes)

    @property
    def node_triangle_coverage(self) -> str:
        """What the limits of triangles at nodes claim, likewise."""
        return "all possible" if self.degree_coverage == "at least" else "as stated"

    def node_triangle_interval(self, confidence: float = 0.95) -> _Floats:
        """One row per node: low and high, which cover its triangles with the given probability.

        Where less than a dozen coins of a row turn over, the error is too far from normal for an
        interval, and it is everything that is possible.
        """
        if self.node_triangles is None or self.node_triangles_stderr is None:
            raise GraphError("triangles at single nodes were not counted")
        reach = normal_reach(confidence) * self.node_triangles_stderr
        if self.node_triangle_coverage == "all possible":
            return np.tile([0.0, float(comb(self.nodes - 1, 2))], (self.nodes, 1))
        return np.column_stack([self.node_triangles - reach, self.node_triangles + reach])

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with intervals of the figures and what the
        others claim."""
        figures = {
            name: figure.to_dict(confidence)
            for name, figure in vars(self).items()
            if isinstance(figure, GraphStatistic)
        }
        at_nodes = None if self.node_triangles is None else self.node_triangle_coverage
        return {
            **fields_of(self),
            **figures,
            "degree_coverage": self.degree_coverage,
            "node_triangle_coverage": at_nodes,
        }

    def plot(self, ax: Any = None, *, confidence: float = 0.95, truth: Any = None) -> Any:
        """Draw the degrees, largest first, with their intervals, and the true ones where they are
        given; returns the axes."""
        from deniable.graphs.plots import plot_degrees  # noqa: PLC0415 - an extra, slow to import

        return plot_degrees(self, ax, truth=truth)

    def _display(self, confidence: float = 0.95) -> Display:
        return displayed_statistics(
            self.statistics(), tuple(str(self).splitlines()[-1 - len(self.notes) :]), confidence
        )

    def __str__(self) -> str:
        rows = [("nodes", f"{self.nodes:,}")] + [
            (s.name, s.with_interval()) for s in self.statistics()
        ]
        more = AT_LEAST if self.degree_coverage == "at least" else ""
        rows.append(
            (
                "degree of a node",
                f"intervals typically {self._typical(self.degree_interval()):,.3g} wide{more}",
            )
        )
        if self.node_triangles is not None and self.node_triangle_coverage == "as stated":
            rows.append(
                (
                    "triangles at a node",
                    f"intervals typically {self._typical(self.node_triangle_interval()):,.3g} wide",
                )
            )
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {text}" for name, text in rows]
        return "\n".join(
            [
                *lines,
                f"epsilon {self.epsilon:.4g} per edge, {self.mechanism}; intervals cover 95 %",
                *self.notes,
            ]
        )

    @staticmethod
    def _typical(limits: _Floats) -> float:
        return float(np.median(limits[:, 1] - limits[:, 0]))

    def __repr__(self) -> str:
        return f"<GraphEstimate of {self.nodes:,} nodes, epsilon {self.epsilon:.4g} per edge>"


_FEW = "So few coins flip that {} far from normal: there is no interval."
_UNIMODAL = (
    "So few coins flip that the errors of triangles and wedges are far from normal: their intervals"
    " allow for any law with one mode, and clustering has none."
)
DROWNED = "The wedges do not stand out from the noise: any clustering is possible."


def estimate_reports(
    reports: GraphReports, triangles: bool, progress: Progress | None = None
) -> GraphEstimate:
    """Everything that can be estimated from one round of reports."""
    channel, nodes = reports.response.channel, reports.nodes
    bits = reports.bits()
    counted = count_degrees(bits, channel, channel)
    ones = round(float(bits.sum(dtype=np.float64)) / 2)
    few = flips(comb(nodes, 2), channel) < ENOUGH
    exact = (ones, comb(nodes, 2), channel.a, channel.b, channel.copies) if few else None
    edges = GraphStatistic(
        "edges", counted.edges, math.sqrt(counted.edges_variance), nodes, exact=exact
    )
    pairs = comb(nodes, 2)
    notes: list[str] = []
    more: dict[str, Any] = {}
    if triangles:
        more = _triangles(
            count_triangles(bits, channel, channel, progress), edges.value, nodes, channel, notes
        )
    return GraphEstimate(
        nodes=nodes,
        edges=edges,
        density=GraphStatistic(
            "density", edges.value / pairs, edges.stderr / pairs, nodes, exact=exact, unit=1 / pairs
        ),
        degrees=counted.degrees,
        degrees_stderr=np.sqrt(_floored(counted, nodes, channel)),
        degree_noise=DegreeNoise(channel),
        epsilon=reports.response.epsilon,
        mechanism="each pair reported "
        + ("once" if reports.response.reporting == "once" else "by both ends"),
        labels=reports.labels,
        notes=tuple(notes),
        **more,
    )


def _floored(counted: Degrees, nodes: int, channel: EdgeChannel) -> _Floats:
    """Variances with degrees that exist: an unbiased one below 0 or above n - 1 would make them too
    small."""
    degrees = np.clip(counted.degrees, 0, nodes - 1)
    return (nodes - 1) * channel.variance + channel.excess * degrees


def _wedges_slope(wedges: float, edges: float, nodes: int, channel: EdgeChannel) -> float:
    """How the variance of wedges grows with them.

    It owes v ((n - 2) sum d^2 + 4 m^2) to the degrees d, and sum d^2 = 2 (W + m).

    Of the square of the edges, the part 4 m^2 / (n sum d^2) grows with the wedges: all of it where
    degrees are equal.
    """
    squares = 2 * (wedges + edges)
    evenness = min(4 * edges**2 / (nodes * squares), 1.0) if squares > 0 and edges > 0 else 1.0
    return 2 * channel.variance * ((nodes - 2) + nodes * evenness)


def _triangles(
    counted: Triangles, edges: float, nodes: int, channel: EdgeChannel, notes: list[str]
) -> dict[str, Any]:
    # The least that the variances can be: that of the coins in a graph without edges, or with all
    # of them.
    v = min(channel.variance, channel.variance + channel.excess)
    variance = max(counted.variance, v**3 * comb(nodes, 3))
    least = v**2 * nodes * comb(nodes - 1, 2)
    profile = (counted.wedges_variance, _wedges_slope(counted.wedges, edges, nodes, channel), least)
    most = comb(nodes, 3)
    few = flips(comb(nodes, 2), channel) < 4 * ENOUGH
    if few:
        notes.append(_UNIMODAL)
    if flips(nodes - 1, channel) < ENOUGH:
        notes.append(_FEW.format("the error of triangles at single nodes is"))
    total = GraphStatistic(
        "triangles",
        counted.total,
        math.sqrt(variance),
        nodes,
        law=UnimodalLaw(counted.total, math.sqrt(variance), 0.0, float(most)) if few else None,
    )
    stderr = math.sqrt(max(counted.wedges_variance, least))
    wedges = GraphStatistic(
        "wedges",
        counted.wedges,
        stderr,
        nodes,
        law=UnimodalLaw(counted.wedges, stderr, 0.0, 3.0 * most) if few else None,
        profile=profile,
        wide=channel.variance > LOUD,
    )
    clustering = clustering_of(total, wedges, counted.covariance, few)
    if not few and clustering.coverage == "all possible":
        notes.append(DROWNED)
    return {
        "triangles": total,
        "node_triangles": counted.per_node,
        "node_triangles_stderr": np.sqrt(
            _node_variances(counted.per_node_variance, edges, channel)
        ),
        "wedges": wedges,
        "clustering": clustering,
    }


def _node_variances(found: _Floats, edges: float, channel: EdgeChannel) -> _Floats:
    """The variances of triangles at nodes: unbiased estimates, drawn towards their mean by as much
    as they are noise.

    Each sums the squares of the n - 1 numbers C_ij of common neighbours, whose own variances are
    about (n - 2) v^2 + v (D_i + D_j), so that its noise has the variance 2 n v^2 that^2. Of the
    spread between nodes, only what exceeds this noise is real (James and Stein 1961). A floor alone
    would keep what noise adds and drop what it takes: intervals too wide.
    """
    n, v = found.size, channel.variance
    least = min(v, v + channel.excess) ** 3 * comb(n - 1, 2)
    noise = 2 * n * (v * ((n - 2) * v**2 + v * 4 * max(edges, 0.0) / n)) ** 2
    spread, mean = float(found.var()), max(float(found.mean()), least)
    kept = max(0.0, 1 - noise / spread) if spread > 0 else 0.0
    shrunk: _Floats = np.maximum(mean + kept * (found - found.mean()), least)
    return shrunk


def clustering_of(
    triangles: GraphStatistic, wedges: GraphStatistic, covariance: float, few: bool = False
) -> GraphStatistic:
    """3 triangles / wedges; see :func:`quotient_limits`."""
    top, bottom = 3 * triangles.value, wedges.value
    # Estimated one by one, the three could claim a correlation beyond 1.
    largest = 0.999 * triangles.stderr * wedges.stderr
    shared = 3 * min(max(covariance, -largest), largest)
    top_variance, bottom_variance = 9 * triangles.stderr**2, wedges.stderr**2
    value = top / bottom if bottom else math.nan
    squared = (
        (top_variance - 2 * value * shared + value**2 * bottom_variance) / bottom**2
        if bottom
        else math.inf
    )
    ratio = None if few else (top, bottom, top_variance, shared, bottom_variance)
    stderr, n = math.sqrt(squared), triangles.n
    return GraphStatistic(
        "clustering", value, stderr, n, bounds=(0.0, 1.0), ratio=ratio, lost=triangles.lost
    )
