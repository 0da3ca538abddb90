"""What an analyst learns about a graph: counts with honest error bars."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, dataclass, field
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import GraphError
from deniable.estimation.intervals import check_confidence
from deniable.estimation.statistic import Statistic, normal_reach
from deniable.graphs.limits import ENOUGH, count_limits, flips
from deniable.graphs.moments import Degrees, Triangles, count_degrees, count_triangles
from deniable.graphs.noise import laplace_quantile
from deniable.graphs.response import EdgeChannel, Progress
from deniable.results import Result

if TYPE_CHECKING:
    from deniable.graphs.reports import GraphReports

__all__ = ["DegreeNoise", "GraphEstimate", "GraphStatistic", "clustering_of", "estimate_reports"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class GraphStatistic(Statistic):
    """A figure of a graph ± its standard error.

    >>> print(GraphStatistic("triangles", 120.0, 10.0, n=50))
    triangles: 120.0 ± 19.6 (95 %, from 50 reports)
    """

    bounds: tuple[float, float] | None = None
    """What the figure can be at all: its interval where coins fall too rarely for a better one."""
    ratio: tuple[float, float, float, float, float] | None = None
    """Of a quotient: numerator, denominator, and their variances and covariance (numerator's, both's, denominator's)."""
    exact: tuple[int, int, float, float, int] | None = None
    """Of a count of few coins: ones, pairs, a, b, bits per pair."""
    unit: float = 1.0
    """What one edge adds to such a count."""
    slope: float = 0.0
    """How fast the variance grows with the true figure, where it does enough to make a symmetric interval miss on one side."""
    lost: float = 0.0
    """At most so much of the true figure is missing from the mean of the estimate; the interval is drawn out by it."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high, which cover the true figure with the given probability.

        All figures within that many of their own standard errors: estimate ± normal quantile times standard error where the
        standard error does not depend on the figure. Of a quotient it is Fieller's (1954), cut to what it can be; of a count of
        few coins, it comes from the exact law.
        """
        check_confidence(confidence)
        if self.exact is not None:
            ones, pairs, a, b, copies = self.exact
            low, high = count_limits(np.array([ones]), pairs, EdgeChannel(a, b, copies), confidence)[0].tolist()
            return low * self.unit, high * self.unit
        if self.bounds is not None and self.ratio is None:
            return self.bounds
        if self.ratio is None:
            squared = normal_reach(confidence) ** 2
            middle, reach = (
                self.value + squared * self.slope / 2,
                math.sqrt(squared * self.stderr**2 + (squared * self.slope / 2) ** 2),
            )
            high = middle + reach
            return middle - reach, high / (1 - self.lost) if high > 0 else high
        return _fieller(self.ratio, self.bounds or (-math.inf, math.inf), normal_reach(confidence) ** 2)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON, from which :meth:`from_dict` makes the same statistic."""
        out = super().to_dict(confidence)
        return out | {
            "bounds": self.bounds,
            "ratio": self.ratio,
            "exact": self.exact,
            "unit": self.unit,
            "slope": self.slope,
            "lost": self.lost,
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> GraphStatistic:
        """The statistic that :meth:`to_dict` described."""
        own: dict[str, Any] = {
            key: None if document[key] is None else tuple(document[key]) for key in ("bounds", "ratio", "exact")
        }
        plain = {key: document[key] for key in ("name", "value", "stderr", "n", "unit", "slope", "lost")}
        return cls(**plain, **own, notes=tuple(document["notes"]))

    def plus_minus(self) -> str:
        """The value and its ± or, where it has none, its interval."""
        low, high = self.interval()
        digits = _digits((high - low) / 2)
        if self.ratio is not None or self.exact is not None or self.bounds is not None or self.slope:
            return f"{self.value:,.{digits}f}  ({low:,.{digits}f} to {high:,.{digits}f})"
        return f"{self.value:,.{digits}f} ± {(high - low) / 2:,.{digits}f}"


def _digits(reach: float) -> int:
    return next((digits for digits in range(9) if reach * 10**digits >= 10), 9) if reach > 0 else 0


def _fieller(parts: tuple[float, float, float, float, float], bounds: tuple[float, float], z2: float) -> tuple[float, float]:
    """All quotients r under which numerator - r denominator lies within its own standard errors of 0."""
    top, bottom, top_variance, covariance, bottom_variance = parts
    # (bottom^2 - z2 Vb) r^2 - 2 (top bottom - z2 C) r + top^2 - z2 Vt <= 0
    lead, half, rest = bottom**2 - z2 * bottom_variance, top * bottom - z2 * covariance, top**2 - z2 * top_variance
    discriminant = half**2 - lead * rest
    if lead <= 0 or discriminant < 0:
        return bounds  # the denominator itself could be 0: any quotient fits, but for what lies between two numbers
    root = math.sqrt(discriminant)
    low, high = (half - root) / lead, (half + root) / lead
    return min(max(low, bounds[0]), bounds[1]), max(min(high, bounds[1]), bounds[0])


@dataclass(frozen=True)
class DegreeNoise:
    """How degrees were seen: as ones among the bits of a row, or with Laplace noise of a scale."""

    channel: EdgeChannel | None = None
    scale: float | None = None

    def limits(self, degrees: _Floats, stderr: _Floats, nodes: int, confidence: float) -> _Floats:
        """Low and high, one row per node."""
        if self.scale is not None:
            reach = float(laplace_quantile(self.scale, check_confidence(confidence)))
            return np.column_stack([degrees - reach, degrees + reach])
        channel = self.channel
        if channel is not None and flips(nodes - 1, channel) < ENOUGH:
            ones = np.rint(channel.copies * ((nodes - 1) * channel.b + channel.gap * degrees)).astype(np.int64)
            return count_limits(ones, nodes - 1, channel, check_confidence(confidence))
        reach_all = normal_reach(confidence) * stderr
        return np.column_stack([degrees - reach_all, degrees + reach_all])


@dataclass(frozen=True, eq=False)
class GraphEstimate(Result):
    """Edges, density, degrees, and where they were asked for triangles, wedges and clustering, with the errors of each.

    All counts are unbiased, so that they may lie below 0: that is what a fair error bar around a small count looks like.
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

    def node_triangle_interval(self, confidence: float = 0.95) -> _Floats:
        """One row per node: low and high, which cover its triangles with the given probability.

        Where less than a dozen coins of a row turn over, the error is too far from normal for an interval, and it is
        everything that is possible.
        """
        if self.node_triangles is None or self.node_triangles_stderr is None:
            raise GraphError("triangles at single nodes were not counted")
        reach = normal_reach(confidence) * self.node_triangles_stderr
        channel = self.degree_noise.channel
        if channel is not None and flips(self.nodes - 1, channel) < ENOUGH:
            return np.tile([0.0, float(comb(self.nodes - 1, 2))], (self.nodes, 1))
        return np.column_stack([self.node_triangles - reach, self.node_triangles + reach])

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON, from which :meth:`from_dict` makes the same estimate."""
        figures = {name: getattr(self, name) for name in _FIGURES}
        return {
            "nodes": self.nodes,
            **{name: None if figure is None else figure.to_dict(confidence) for name, figure in figures.items()},
            **{name: None if getattr(self, name) is None else getattr(self, name).tolist() for name in _ARRAYS},
            "degree_noise": asdict(self.degree_noise),
            "epsilon": self.epsilon,
            "mechanism": self.mechanism,
            "labels": None if self.labels is None else list(self.labels),
            "notes": list(self.notes),
        }

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> GraphEstimate:
        """The estimate that :meth:`to_dict` described."""
        noise = content["degree_noise"]
        channel = None if noise["channel"] is None else EdgeChannel(**noise["channel"])
        figures = {name: None if content[name] is None else GraphStatistic.from_dict(content[name]) for name in _FIGURES}
        arrays = {name: None if content[name] is None else np.array(content[name], dtype=np.float64) for name in _ARRAYS}
        plain = {name: content[name] for name in ("nodes", "epsilon", "mechanism")}
        made: dict[str, Any] = figures | arrays | plain
        labels = None if content["labels"] is None else tuple(content["labels"])
        return GraphEstimate(
            **made, degree_noise=DegreeNoise(channel, noise["scale"]), labels=labels, notes=tuple(content["notes"])
        )

    def plot(self, ax: Any = None, *, truth: Any = None) -> Any:
        """Draw the degrees, largest first, with their intervals, and the true ones where they are given; returns the axes."""
        from deniable.graphs.plots import plot_degrees  # noqa: PLC0415 - matplotlib is an extra, and slow to import

        return plot_degrees(self, ax, truth=truth)

    def __str__(self) -> str:
        rows = [("nodes", f"{self.nodes:,}")] + [(s.name, s.plus_minus()) for s in self.statistics()]
        rows.append(("degree of a node", f"± {self._typical(self.degree_interval()):,.3g}"))
        channel = self.degree_noise.channel
        if self.node_triangles is not None and channel is not None and flips(self.nodes - 1, channel) >= ENOUGH:
            rows.append(("triangles at a node", f"± {self._typical(self.node_triangle_interval()):,.3g}"))
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {text}" for name, text in rows]
        return "\n".join([*lines, f"epsilon {self.epsilon:.4g} per edge, {self.mechanism}; ± covers 95 %", *self.notes])

    @staticmethod
    def _typical(limits: _Floats) -> float:
        return float(np.median(limits[:, 1] - limits[:, 0]) / 2)

    def __repr__(self) -> str:
        return f"<GraphEstimate of {self.nodes:,} nodes, epsilon {self.epsilon:.4g} per edge>"


_FIGURES = ("edges", "density", "triangles", "wedges", "clustering")
_ARRAYS = ("degrees", "degrees_stderr", "node_triangles", "node_triangles_stderr")
_FEW = "So few coins turn over that {} far from normal: what is possible stands in place of an interval."


def estimate_reports(reports: GraphReports, triangles: bool, progress: Progress | None = None) -> GraphEstimate:
    """Everything that one round of reports tells."""
    channel, nodes = reports.response.channel, reports.nodes
    bits = reports.bits()
    counted = count_degrees(bits, channel, channel)
    ones = round(float(bits.sum(dtype=np.float64)) / 2)
    few = flips(comb(nodes, 2), channel) < ENOUGH
    exact = (ones, comb(nodes, 2), channel.a, channel.b, channel.copies) if few else None
    edges = GraphStatistic("edges", counted.edges, math.sqrt(counted.edges_variance), nodes, exact=exact)
    pairs = comb(nodes, 2)
    notes: list[str] = []
    more: dict[str, Any] = {}
    if triangles:
        more = _triangles(count_triangles(bits, channel, channel, progress), edges.value, nodes, channel, notes)
    return GraphEstimate(
        nodes=nodes,
        edges=edges,
        density=GraphStatistic("density", edges.value / pairs, edges.stderr / pairs, nodes, exact=exact, unit=1 / pairs),
        degrees=counted.degrees,
        degrees_stderr=np.sqrt(_floored(counted, nodes, channel)),
        degree_noise=DegreeNoise(channel),
        epsilon=reports.response.epsilon,
        mechanism="each pair reported " + ("once" if reports.response.reporting == "once" else "by both ends"),
        labels=reports.labels,
        notes=tuple(notes),
        **more,
    )


def _floored(counted: Degrees, nodes: int, channel: EdgeChannel) -> _Floats:
    """Variances with degrees that exist: an unbiased one below 0 or above n - 1 would make them too small."""
    degrees = np.clip(counted.degrees, 0, nodes - 1)
    return (nodes - 1) * channel.variance + channel.excess * degrees


def _wedges_slope(wedges: float, edges: float, nodes: int, channel: EdgeChannel) -> float:
    """How the variance of wedges grows with them.

    It owes v ((n - 2) sum d^2 + 4 m^2) to the degrees d, and sum d^2 = 2 (W + m).

    Of the square of the edges, the part 4 m^2 / (n sum d^2) grows with the wedges: all of it where degrees are equal.
    """
    squares = 2 * (wedges + edges)
    evenness = min(4 * edges**2 / (nodes * squares), 1.0) if squares > 0 and edges > 0 else 1.0
    return 2 * channel.variance * ((nodes - 2) + nodes * evenness)


def _triangles(counted: Triangles, edges: float, nodes: int, channel: EdgeChannel, notes: list[str]) -> dict[str, Any]:
    # The least that the variances can be: that of the coins in a graph without edges, or with all of them.
    v = min(channel.variance, channel.variance + channel.excess)
    variance = max(counted.variance, v**3 * comb(nodes, 3))
    wedges_variance = max(counted.wedges_variance, v**2 * nodes * comb(nodes - 1, 2))
    most = comb(nodes, 3)
    few = flips(comb(nodes, 2), channel) < 4 * ENOUGH
    if few:
        notes.append(_FEW.format("the errors of triangles and wedges are"))
    if flips(nodes - 1, channel) < ENOUGH:
        notes.append(_FEW.format("the error of triangles at single nodes is"))
    total = GraphStatistic("triangles", counted.total, math.sqrt(variance), nodes, bounds=(0.0, float(most)) if few else None)
    bounds = (0.0, 3.0 * most) if few else None
    slope = _wedges_slope(counted.wedges, edges, nodes, channel)
    wedges = GraphStatistic("wedges", counted.wedges, math.sqrt(wedges_variance), nodes, bounds=bounds, slope=slope)
    return {
        "triangles": total,
        "node_triangles": counted.per_node,
        "node_triangles_stderr": np.sqrt(np.maximum(counted.per_node_variance, v**3 * comb(nodes - 1, 2))),
        "wedges": wedges,
        "clustering": clustering_of(total, wedges, counted.covariance, few),
    }


def clustering_of(triangles: GraphStatistic, wedges: GraphStatistic, covariance: float, few: bool = False) -> GraphStatistic:
    """3 triangles / wedges, with Fieller's interval."""
    top, bottom = 3 * triangles.value, wedges.value
    # Estimated one by one, the three could claim a correlation beyond 1.
    largest = 0.999 * triangles.stderr * wedges.stderr
    shared = 3 * min(max(covariance, -largest), largest)
    top_variance, bottom_variance = 9 * triangles.stderr**2, wedges.stderr**2
    value = top / bottom if bottom else math.nan
    squared = (top_variance - 2 * value * shared + value**2 * bottom_variance) / bottom**2 if bottom else math.inf
    parts = (top, bottom, top_variance, shared, bottom_variance)
    return GraphStatistic("clustering", value, math.sqrt(squared), triangles.n, bounds=(0.0, 1.0), ratio=None if few else parts)
