"""How edges mix between groups of a public attribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.errors import GraphError
from deniable.estimation.tables.statistic import normal_reach
from deniable.graphs.limits import ENOUGH, flips
from deniable.graphs.statistic import GraphStatistic
from deniable.results import Result

if TYPE_CHECKING:
    from deniable.graphs.reports import GraphReports

__all__ = ["MixingLaw", "assortativity"]

_Floats = NDArray[np.float64]
_STEPS = 2000


@dataclass(frozen=True, eq=False)
class MixingLaw(Result):
    """For an assortativity r: the values under which D = N - r Q is as near to 0 as its noise
    leaves it.

    With x the numbers of edges between groups, N = 4 m W - S and Q = 4 m^2 - S are quadratic in x
    (m all edges, W those within a group, S the sum of the groups' squared ends), and r = N/Q. So D
    = x' B x, B = B0 + r B1. Of unbiased counts with covariance V it is too large by tr(BV), and has
    the variance 4 x' BVB x + 2 tr(BVBV). Nothing is divided, so the interval is valid whether or
    not the edges stand out of the noise, and is always given: to give it only where they seem to
    would select the collections whose edges noise has multiplied.
    """

    difference: tuple[float, float]
    """D without its bias: a number, and what is added per r."""
    along: tuple[float, float, float]
    """4 x' BVB x at the estimated counts, by powers of r."""
    squares: tuple[float, float, float]
    """2 tr(BVBV), likewise."""

    def interval(self, confidence: float) -> tuple[float, float]:
        reach = normal_reach(confidence)
        rough = self._accepted(np.linspace(-1, 1, _STEPS + 1), reach)
        if rough.size == 0:
            start, slope = self.difference
            root = -start / slope if slope else math.copysign(1.0, start)
            nearest = min(max(root, -1.0), 1.0)
            return nearest, nearest
        step = 2 / _STEPS
        low = self._accepted(np.linspace(max(rough[0] - step, -1), rough[0], _STEPS + 1), reach)
        high = self._accepted(np.linspace(rough[-1], min(rough[-1] + step, 1), _STEPS + 1), reach)
        return float(low[0]), float(high[-1])

    def covers_more(self, confidence: float) -> bool:
        """Where noise drowns the edges, nothing is ruled out."""
        return True

    def _accepted(self, r: _Floats, reach: float) -> _Floats:
        powers = np.stack([np.ones_like(r), r, r**2])
        squares = np.maximum(self.squares @ powers, 0)
        # Estimated counts make the first part too large by twice the second, which is left in: D is
        # skewed, and its variance small where it is far on one side.
        variance = self.along @ powers + squares
        return r[np.abs(self.difference @ powers[:2]) <= reach * np.sqrt(variance)]

    @classmethod
    def of(cls, edges: _Floats, variance: _Floats) -> MixingLaw:
        """From the estimated numbers of edges between groups and their variances."""
        first, second = np.triu_indices(len(edges))
        x, v = edges[first, second], variance[first, second]
        ends = np.zeros((len(edges), x.size))
        np.add.at(ends, (first, np.arange(x.size)), 1.0)
        np.add.at(ends, (second, np.arange(x.size)), 1.0)
        within, all_of = (first == second).astype(np.float64), np.ones(x.size)
        squared = ends.T @ ends
        constant = 2 * (np.outer(all_of, within) + np.outer(within, all_of)) - squared
        slope = squared - 4 * np.outer(all_of, all_of)
        parts = constant, slope
        difference = [float(x @ part @ x - np.diagonal(part) @ v) for part in parts]
        moved = [part @ x for part in parts]

        def by_powers(product: Callable[[int, int], float]) -> tuple[float, float, float]:
            return product(0, 0), 2 * product(0, 1), product(1, 1)

        return cls(
            (difference[0], difference[1]),
            by_powers(lambda i, j: float(4 * (moved[i] * v * moved[j]).sum())),
            by_powers(lambda i, j: float(2 * v @ (parts[i] * parts[j]) @ v)),
        )


def assortativity(reports: GraphReports, groups: Sequence[Hashable]) -> GraphStatistic:
    """Newman's coefficient r = (sum_g e_gg - sum_g a_g^2)/(1 - sum_g a_g^2) with its linearised
    error, and an interval of its own (:class:`MixingLaw`).

    e_gh is the proportion of edge ends between the groups g and h, a_g = sum_h e_gh. Each count of
    edges between two groups is the sum of its own pairs' entries, so that they are unbiased and
    independent, with known variances.
    """
    nodes, channel = reports.nodes, reports.response.channel
    if len(groups) != nodes:
        raise GraphError(f"there are {len(groups)} values of the attribute for {nodes} nodes")
    names = {name: place for place, name in enumerate(dict.fromkeys(groups))}
    if len(names) < 2:
        raise GraphError("the attribute has the same value everywhere: there is nothing to compare")
    member = np.zeros((nodes, len(names)), dtype=np.float32)
    member[np.arange(nodes), [names[name] for name in groups]] = 1
    sizes = member.sum(axis=0, dtype=np.float64)
    pairs = np.outer(sizes, sizes)
    np.fill_diagonal(pairs, sizes * (sizes - 1) / 2)
    # A block of rows at a time, in whole numbers below 2**24, and added up in doubles.
    bits = reports.bits()
    ones = np.zeros((len(names), len(names)))
    for start in range(0, nodes, 1024):
        part = slice(start, start + 1024)
        ones += member[part].T.astype(np.float64) @ (bits[part] @ member)
    ones /= channel.copies
    ones[np.diag_indices(len(names))] /= 2
    edges = (ones - channel.b * pairs) / channel.gap
    variance = channel.variance * pairs + channel.excess * np.clip(edges, 0, pairs)
    value, gradient = _newman(edges)
    upper = np.triu_indices(len(names))
    stderr = math.sqrt((gradient[upper] ** 2 * variance[upper]).sum())
    # public: it depends on the numbers of nodes and on the coins alone
    if flips(float(pairs[upper].sum()), channel) < ENOUGH:
        few = "Too few coins flip for an interval of the assortativity."
        return GraphStatistic("assortativity", value, stderr, nodes, (few,), bounds=(-1.0, 1.0))
    law = MixingLaw.of(edges, variance)
    return GraphStatistic("assortativity", value, stderr, nodes, law=law)


def _newman(edges: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """The coefficient and its derivative by the number of edges between each two groups."""
    within, m = float(np.trace(edges)), float(np.triu(edges).sum())
    ends = edges.sum(axis=1) + np.diag(edges)
    chance = float((ends**2).sum()) / (4 * m**2)
    own = np.eye(len(edges))
    chance_by = (ends[:, None] + ends[None, :]) / (2 * m**2) - 2 * chance / m
    top_by = own / m - within / m**2 - chance_by
    value = (within / m - chance) / (1 - chance)
    return value, (top_by + value * chance_by) / (1 - chance)
