"""The degree distribution: the proportion of nodes with at most a given number of neighbours.

Noise blurs degrees, and no unbiased estimate of their distribution is useful if the noise is wider
than the distribution. What can be said with certainty follows from one fact: the more neighbours,
the larger the reported number R. Let G(r) be the proportion of nodes with R <= r on average, F(k)
that with a degree of at most k, and p_k(r) = P(R <= r | degree k), which is known exactly. Then

    G(r) >= F(k) p_k(r)   and   G(r) <= F(k) + (1 - F(k)) p_(k+1)(r),

so that limits of G, from counting, give limits of F at any r; the best of several are taken, at a
confidence that allows for their number. They cover at least as often as they say. The estimate
between them is the most likely one (expectation maximisation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.display import Bar, Display
from deniable.errors import ParameterError
from deniable.estimation.em import em
from deniable.graphs.limits import ENOUGH, flips, ones_at_most
from deniable.results import Result

if TYPE_CHECKING:
    from deniable.graphs.reports import GraphReports
    from deniable.graphs.two_rounds import FirstRound

__all__ = ["DegreeDistribution", "from_first_round", "from_reports"]

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_Law = Callable[[_Floats, _Floats], _Floats]
"""P(R <= r | degree k), elementwise."""

_DEVIATES = np.array([0.5, 1.0, 1.5, 2.0, 2.5])
"""Where G is looked at, in standard deviations of R from what the degree in question would
report."""
_CELLS, _GRID = 120, 60
_MULTIPLES = (0, 0.25, 0.5, 0.75, 1, 1.5, 2, 3, 5)


@dataclass(frozen=True, eq=False)
class DegreeDistribution(Result):
    """The proportion of nodes with a degree of at most each of some thresholds.

    >>> print(DegreeDistribution((2, 5), np.array([0.2, 0.7]), np.array([0.1, 0.6]), np.array([0.3, 0.9]), 0.95, 50))
    degree   nodes   95 % or more
    <= 2    20.0 %   10.0 to 30.0
    <= 5    70.0 %   60.0 to 90.0
    """

    thresholds: tuple[int, ...]
    at_most: _Floats
    low: _Floats
    high: _Floats
    confidence: float
    nodes: int

    def _display(self, confidence: float = 0.95) -> Display:
        rows = [
            (k, float(proportion), float(low), float(high))
            for k, proportion, low, high in zip(
                self.thresholds, self.at_most, self.low, self.high, strict=True
            )
        ]
        bars = [
            Bar(f"at most {k}", 100 * proportion, 100 * low, 100 * high)
            for k, proportion, low, high in rows
        ]
        notes = (f"{self.nodes:,} nodes; the limits cover {100 * self.confidence:g} % or more",)
        return Display(("degree at most", "nodes", "low", "high"), rows, notes, bars, "nodes (%)")

    def __str__(self) -> str:
        width = max(6, *(len(f"<= {k}") for k in self.thresholds))
        lines = [f"{'degree':<{width}}   nodes   {100 * self.confidence:g} % or more"]
        rows = zip(
            self.thresholds, 100 * self.at_most, 100 * self.low, 100 * self.high, strict=True
        )
        return "\n".join(
            lines
            + [
                f"{f'<= {k}':<{width}}  {p:4.1f} %   {low:.1f} to {high:.1f}"
                for k, p, low, high in rows
            ]
        )


def from_reports(
    reports: GraphReports, thresholds: Sequence[int] | None, confidence: float = 0.95
) -> DegreeDistribution:
    """From the ones of each row, which are two binomial counts: of edges, and of other pairs."""
    from scipy.stats import norm  # noqa: PLC0415 - slow to import

    channel, nodes = reports.response.channel, reports.nodes
    ones = reports.bits().sum(axis=1, dtype=np.float64)
    tosses, b, gap = channel.copies * (nodes - 1), channel.b, channel.gap

    def law(r: _Floats, k: _Floats) -> _Floats:
        if flips(nodes - 1, channel) < ENOUGH:
            places = (
                np.floor(r).astype(np.int64).reshape(-1),
                np.minimum(k, nodes - 1).astype(np.int64).reshape(-1),
            )
            return ones_at_most(*places, nodes - 1, channel).reshape(r.shape)
        mean = tosses * b + channel.copies * k * gap
        variance = tosses * b * (1 - b) + channel.copies * k * (
            channel.a * (1 - channel.a) - b * (1 - b)
        )
        out: _Floats = norm.cdf((np.floor(r) + 0.5 - mean) / np.sqrt(np.maximum(variance, 1e-9)))
        return out

    noise = math.sqrt(tosses * max(b * (1 - b), channel.a * (1 - channel.a)))
    mean = float((ones.mean() - tosses * b) / (channel.copies * gap))
    # Two nodes share the bits of their pair, and so all rows move together a little.
    shared = channel.copies * b * (1 - b)
    return _distribution(
        ones,
        law,
        lambda k: tosses * b + channel.copies * gap * k,
        noise,
        mean,
        thresholds,
        nodes,
        confidence,
        shared,
    )


def from_first_round(
    first: FirstRound, thresholds: Sequence[int] | None, confidence: float = 0.95
) -> DegreeDistribution:
    """From degrees with discrete Laplace noise, which are independent."""
    scale = float(first.protocol.degree_scale)
    q = math.exp(-1 / scale)

    def law(r: _Floats, k: _Floats) -> _Floats:
        x = np.floor(r) - k
        return np.where(
            x < 0, q ** np.maximum(-x, 0) / (1 + q), 1 - q ** np.maximum(x + 1, 0) / (1 + q)
        )

    degrees = first.degrees.astype(np.float64)
    noise = math.sqrt(2) * scale
    return _distribution(
        degrees,
        law,
        lambda k: k,
        noise,
        float(degrees.mean()),
        thresholds,
        first.nodes,
        confidence,
        0.0,
    )


def _distribution(
    seen: _Floats,
    law: _Law,
    centre: Callable[[_Floats], _Floats],
    noise: float,
    mean: float,
    thresholds: Sequence[int] | None,
    nodes: int,
    confidence: float,
    shared: float,
) -> DegreeDistribution:
    tail = (1 - check_confidence(confidence)) / 2 / _DEVIATES.size
    chosen = _thresholds(thresholds, mean, nodes)
    k = np.array(chosen, dtype=np.float64)
    # nearly everybody with degree k reports less than this
    upper_at = centre(k)[:, None] + noise * _DEVIATES
    # hardly anybody with a larger degree reports less than this
    lower_at = centre(k + 1)[:, None] - noise * _DEVIATES
    _, most = _proportions(seen, upper_at, tail, noise, shared)
    least, _ = _proportions(seen, lower_at, tail, noise, shared)
    high = (most / law(upper_at, np.broadcast_to(k[:, None], upper_at.shape))).min(axis=1)
    above = law(lower_at, np.broadcast_to(k[:, None] + 1, lower_at.shape))
    low = ((least - above) / (1 - above)).max(axis=1)
    # Proportions grow with the threshold, and everybody has at most n - 1 neighbours.
    high = np.minimum.accumulate(np.clip(high, 0, 1)[::-1])[::-1]
    low = np.maximum.accumulate(np.clip(low, 0, 1))
    low = np.where(k >= nodes - 1, 1.0, low)
    estimate = np.clip(_most_likely(seen, law, k, noise, mean, nodes), low, np.maximum(low, high))
    return DegreeDistribution(
        chosen, np.maximum.accumulate(estimate), low, np.maximum(low, high), confidence, nodes
    )


def _thresholds(given: Sequence[int] | None, mean: float, nodes: int) -> tuple[int, ...]:
    if given is None:
        return tuple(
            sorted({min(round(max(mean, 1) * multiple), nodes - 1) for multiple in _MULTIPLES})
        )
    if not given or any(
        isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 0 for k in given
    ):
        raise ParameterError("thresholds", given, "must be whole numbers, none below 0")
    if list(given) != sorted(set(given)):
        raise ParameterError("thresholds", given, "must ascend")
    return tuple(int(k) for k in given)


def _proportions(
    seen: _Floats, at: _Floats, tail: float, noise: float, shared: float
) -> tuple[_Floats, _Floats]:
    """Limits of G(r) for each r, missed with probability `tail` on either side: Clopper and
    Pearson's.

    Sums of indicators with unequal probabilities vary less than binomial counts (Hoeffding 1956).
    Where rows share bits, the covariances add `shared` times the squared density of R at r; the
    number of nodes is reduced by as much.
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - slow to import

    n, ordered = seen.size, np.sort(seen)
    proportion = np.searchsorted(ordered, at, side="right") / n
    width = max(noise / 2, 1.0)
    density = (
        np.searchsorted(ordered, at + width, side="right")
        - np.searchsorted(ordered, at - width, side="left")
    ) / (2 * width * n)
    own = np.maximum(proportion * (1 - proportion), 1 / n)
    size = n * own / (own + n * shared * density**2)
    x = proportion * size
    low = np.where(x > 0, betaincinv(np.maximum(x, 1e-9), size - x + 1, tail), 0.0)
    high = np.where(x < size, betaincinv(x + 1, np.maximum(size - x, 1e-9), 1 - tail), 1.0)
    return low, high


def _most_likely(
    seen: _Floats, law: _Law, k: _Floats, noise: float, mean: float, nodes: int
) -> _Floats:
    """The most likely distribution on a grid of degrees, at the thresholds."""
    reach = min(nodes - 1.0, max(k.max() + 1, mean + (seen.max() - seen.mean()), 2.0))
    grid = np.unique(np.concatenate([np.rint(np.linspace(0, reach, _GRID)), k[k <= nodes - 1]]))
    edges = np.linspace(seen.min() - 1, seen.max(), min(_CELLS, int(seen.max() - seen.min()) + 2))
    counts = np.histogram(seen, np.concatenate([[-np.inf], np.floor(edges[1:-1]) + 0.5, [np.inf]]))[
        0
    ]
    cdf = law(
        np.floor(edges[1:-1])[:, None] + np.zeros(grid.size),
        np.broadcast_to(grid, (edges.size - 2, grid.size)),
    )
    matrix = np.diff(np.vstack([np.zeros(grid.size), cdf, np.ones(grid.size)]), axis=0)
    fitted = em(counts, np.maximum(matrix, 1e-12), tolerance=0.1, max_iterations=500)
    return np.array([fitted[grid <= threshold].sum() for threshold in k])
