"""One round or two: which counts triangles better, given guesses about the graph."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from math import comb

import numpy as np

from deniable.checks import check_epsilon, check_number, check_range
from deniable.display import Bar, Display
from deniable.errors import ParameterError
from deniable.graphs.graph import check_nodes
from deniable.graphs.response import EdgeResponse
from deniable.graphs.two_rounds import TwoRounds
from deniable.results import Result

__all__ = ["GraphPlan", "plan_graph"]

_DEGREE_PARTS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4)
_EDGE_PARTS = (0.3, 0.4, 0.5, 0.6)
_CUTS = (0.001, 0.01, 0.03, 0.1)


@dataclass(frozen=True, eq=False)
class GraphPlan(Result):
    """Which protocol to use, and the errors to expect for each."""

    nodes: int
    one: EdgeResponse
    two: TwoRounds
    """At the best division of epsilon."""
    one_round: float
    """The standard error of the number of triangles in one round."""
    two_rounds: float
    """In two; what cut lists can lose is counted in."""
    triangles: float
    """How many the guesses amount to."""
    degree_errors: tuple[float, float]
    """The standard error of a degree in one round and in two."""

    @property
    def rounds(self) -> int:
        """1 or 2, whichever counts triangles better."""
        return 1 if self.one_round <= self.two_rounds else 2

    @property
    def protocol(self) -> EdgeResponse | TwoRounds:
        """The better one for triangles."""
        return self.one if self.rounds == 1 else self.two

    def _display(self, confidence: float = 0.95) -> Display:
        errors = zip((1, 2), (self.one_round, self.two_rounds), self.degree_errors, strict=True)
        rows = [(rounds, triangles, degree) for rounds, triangles, degree in errors]
        bars = [
            Bar(("one round", "two rounds")[rounds - 1], triangles) for rounds, triangles, _ in rows
        ]
        columns = ("rounds", "stderr of triangles", "stderr of a degree")
        return Display(
            columns,
            rows,
            tuple(str(self).splitlines()),
            bars,
            "standard error of the number of triangles",
        )

    def __str__(self) -> str:
        best = min(self.one_round, self.two_rounds)
        choice = ("one round", "two rounds")[self.rounds - 1]
        lines = [
            f"Use {choice}: ± {1.96 * best:,.0f} on some {self.triangles:,.0f} triangles",
            (
                f"one round   triangles ± {1.96 * self.one_round:,.0f}   degrees ±"
                f" {1.96 * self.degree_errors[0]:,.1f}"
            ),
            (
                f"two rounds  triangles ± {1.96 * self.two_rounds:,.0f}   degrees ±"
                f" {1.96 * self.degree_errors[1]:,.1f}"
            ),
        ]
        if 1.96 * best > self.triangles:
            lines.append("Neither can distinguish this many triangles from none at this epsilon.")
        return "\n".join(lines)


def plan_graph(
    nodes: int,
    epsilon: float,
    *,
    mean_degree: float,
    degree_sd: float | None = None,
    clustering: float = 0.1,
    noisy_edges: float | None = None,
) -> GraphPlan:
    """Compare one round with two for a graph with `nodes` nodes.

    `mean_degree`, `degree_sd` (by default as large as the mean) and `clustering` are guesses;
    `noisy_edges` limits how many noisy edges may be passed around between the rounds. With m edges,
    W wedges and T = clustering W/3 triangles, and a pair that has common neighbours at all having 1
    + clustering mean_degree of them,

        one round:   v W (1 + …) + v^2 n m + v^3 n^3/6
        two rounds:  v W/3 (1 + …) + 2 sum over nodes of (bound - 1)^2/(epsilon_2 (a - b))^2

    are the variances. The first grows with n^3 and the second with n, so that two rounds win in
    large graphs.

    >>> plan_graph(500, 1.0, mean_degree=10).rounds, plan_graph(20_000, 1.0, mean_degree=10).rounds
    (1, 2)
    """
    n = check_nodes(nodes)
    check_epsilon(epsilon)
    spread = mean_degree if degree_sd is None else degree_sd
    for name, value, most in (
        ("mean_degree", mean_degree, n - 1),
        ("degree_sd", spread, n),
        ("clustering", clustering, 1),
    ):
        if not 0 <= check_number(name, value) <= most:
            raise ParameterError(name, value, f"must lie between 0 and {most}")
    edges = n * mean_degree / 2
    wedges = max(n * (mean_degree**2 + spread**2 - mean_degree) / 2, 0.0)
    triangles, shared = clustering * wedges / 3, 1 + clustering * mean_degree
    once = EdgeResponse(epsilon)
    v = once.channel.variance
    one_round = math.sqrt(v * wedges * shared + v * v * (n - 2) * edges + v**3 * comb(n, 3))
    best, least = None, math.inf
    for degree_part, edge_part, cut in product(_DEGREE_PARTS, _EDGE_PARTS, _CUTS):
        if degree_part + edge_part > 0.9:
            continue
        two = _two_rounds(
            n, epsilon, (degree_part, edge_part, 1 - degree_part - edge_part), cut, noisy_edges
        )
        channel = two.response.channel
        noise = (
            2
            * n
            * _mean_square_bound(n, mean_degree, spread, two)
            / (float(two.count_epsilon) * channel.gap) ** 2
        )
        error = math.sqrt(channel.variance * wedges / 3 * shared + noise) + cut * triangles
        if error < least:
            best, least = two, error
    assert best is not None  # noqa: S101 - the grid is not empty
    errors = (math.sqrt((n - 1) * v), math.sqrt(2) * float(best.degree_scale))
    return GraphPlan(n, once, best, one_round, least, triangles, errors)


def _mean_square_bound(n: int, mean_degree: float, spread: float, two: TwoRounds) -> float:
    """Of the lengths of lists: in order of their noisy degrees, the degree and the margin, or the
    nodes that come after.

    Degrees and their noise together are taken as one Laplace variable.
    """
    places = (np.arange(400) + 0.5) / 400
    scale = math.sqrt(float(two.degree_scale) ** 2 + spread**2 / 2)
    noisy = mean_degree - scale * np.sign(places - 0.5) * np.log1p(-2 * np.abs(places - 0.5))
    bounds = np.clip(noisy + two.margin, 0, n * (1 - places))
    return float((np.maximum(bounds - 1, 0) ** 2).mean())


def _two_rounds(
    n: int, epsilon: float, parts: tuple[float, float, float], cut: float, noisy_edges: float | None
) -> TwoRounds:
    whole = TwoRounds(epsilon, parts, cut=cut)
    if noisy_edges is None:
        return whole
    check_range("noisy_edges", noisy_edges, above=0)
    expected = comb(n, 2) * whole.response.channel.b
    return (
        whole if expected <= noisy_edges else TwoRounds(epsilon, parts, noisy_edges / expected, cut)
    )
