"""The curator's baselines: sensitivities to the digits computed independently, and noise that
follows its law."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from deniable import seeded_source
from deniable.errors import ParameterError
from deniable.graphs import (
    Graph,
    curator_degrees,
    curator_triangles,
    smooth_curator_triangles,
    smooth_sensitivity,
)
from deniable.graphs.baselines import local_sensitivities, smooth_beta
from deniable.graphs.noise import (
    discrete_laplace,
    discrete_laplace_each,
    laplace_fourth_moment,
    laplace_quantile,
    laplace_variance,
    scale_for,
)

PATH = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5)]
PRISM = [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5)]
K4_TAIL = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (3, 4), (4, 5)]


@pytest.mark.parametrize(
    ("edges", "beta", "local", "smooth"),
    [
        (PATH, 0.5, [1, 2, 3, 3, 4], 1.2130613194253),
        (PRISM, 0.2, [2, 3, 4], 2.6812801841426),
        (K4_TAIL, 0.1, [2, 3, 3, 4], 2.9632728827269),
    ],
)
def test_smooth_sensitivities_are_those_computed_independently(
    edges: list[tuple[int, int]], beta: float, local: list[int], smooth: float
) -> None:
    graph = Graph.of(edges, nodes=6)
    assert local_sensitivities(graph).tolist() == local
    assert smooth_sensitivity(graph, beta) == pytest.approx(smooth, rel=1e-13)


def test_local_sensitivities_are_those_of_a_search_through_all_graphs() -> None:
    """Breadth-first search over all 64 graphs of 4 nodes: the largest change by one edge within s
    edges."""
    pairs = list(itertools.combinations(range(4), 2))
    graphs = list(itertools.product((0, 1), repeat=6))

    def change(graph: tuple[int, ...]) -> int:
        adjacent = {pair for pair, bit in zip(pairs, graph, strict=True) if bit}
        common = [
            sum(
                {tuple(sorted((i, k))), tuple(sorted((j, k)))} <= adjacent
                for k in range(4)
                if k not in {i, j}
            )
            for i, j in pairs
        ]
        return max(common)

    changes = {graph: change(graph) for graph in graphs}
    for graph in graphs:
        edges = [pair for pair, bit in zip(pairs, graph, strict=True) if bit]
        found = local_sensitivities(
            Graph.of(np.array(edges, dtype=np.int64).reshape(-1, 2), nodes=4)
        )
        for s, value in enumerate(found.tolist()):
            within = max(
                changes[g]
                for g in graphs
                if sum(x != y for x, y in zip(g, graph, strict=True)) <= s
            )
            assert value == within


@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(7, 3), Fraction(40)])
def test_discrete_laplace_noise_follows_its_law_and_no_other(scale: Fraction) -> None:
    """Chi-square over 200,000 draws, false alarm 1e-9; the same draws are rejected against 0.8 and
    1.2 times the scale."""
    n = 200_000
    drawn = discrete_laplace(scale, n, seeded_source(1))

    def p_value(tried: float) -> float:
        q = math.exp(-1 / tried)
        reach = laplace_quantile(tried, 1 - 20 / n)
        law = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
        seen = np.bincount(np.clip(drawn, -reach, reach) + reach, minlength=law.size).astype(float)
        law[[0, -1]] = q**reach / (1 + q)
        return float(stats.chisquare(seen, law * n).pvalue)

    assert p_value(float(scale)) > 1e-9
    assert p_value(0.8 * float(scale)) < 1e-9
    assert p_value(1.2 * float(scale)) < 1e-9


def test_each_draw_has_its_own_scale() -> None:
    """Two groups of 100,000: a sample variance has variance (E x^4 - V^2)/n; five standard errors,
    false alarm 1e-6."""
    scales = np.tile([3, 50], 100_000)
    drawn = discrete_laplace_each(scales, seeded_source(2)).astype(float)
    for scale in (3, 50):
        own, variance = drawn[scales == scale], laplace_variance(scale)
        spread = math.sqrt((laplace_fourth_moment(scale) - variance**2) / own.size)
        assert abs((own**2).mean() - variance) < 5 * spread
        assert abs(own.mean()) < 5 * math.sqrt(variance / own.size)


def test_moments_and_quantiles_are_those_of_the_law() -> None:
    for scale in (0.4, 2.5, 30.0):
        x = np.arange(-3000, 3001)
        q = math.exp(-1 / scale)
        law = (1 - q) / (1 + q) * q ** np.abs(x)
        assert laplace_variance(scale) == pytest.approx((law * x**2.0).sum(), rel=1e-9)
        assert laplace_fourth_moment(scale) == pytest.approx((law * x**4.0).sum(), rel=1e-9)
        for confidence in (0.5, 0.95, 0.999):
            k = laplace_quantile(scale, confidence)
            assert law[np.abs(x) <= k].sum() >= confidence - 1e-12
            assert k == 0 or law[np.abs(x) <= k - 1].sum() < confidence


def test_scales_are_never_below_what_epsilon_asks_for_and_hardly_above() -> None:
    for sensitivity, epsilon in ((2, 0.3), (1000, 0.001), (3, 7.7), (30_000, 0.01)):
        wanted = Fraction(sensitivity) / Fraction(epsilon)
        assert (
            wanted
            <= scale_for(sensitivity, epsilon)
            <= wanted + max(Fraction(1, 2**20), wanted / 2**30)
        )
    with pytest.raises(ParameterError):
        scale_for(1 << 40, 1.0)


def test_baselines_use_the_sensitivities_they_should() -> None:
    graph = Graph.of(nx.barabasi_albert_graph(50, 3, seed=1))
    source = seeded_source(1)
    assert curator_degrees(graph, 0.5, source).scale == 4
    assert curator_triangles(graph, 0.5, source).scale == 96
    assert curator_triangles(graph, 0.5, source, per_node=True).scale == 288
    smooth = smooth_curator_triangles(graph, 0.5, 1e-6, source)
    assert smooth.delta == 1e-6
    assert "delta 1e-06" in str(smooth)
    assert float(smooth.scale) == pytest.approx(
        4 * smooth_sensitivity(graph, smooth_beta(0.5, 1e-6)), rel=1e-5
    )


def test_releases_are_off_by_no_more_than_they_say() -> None:
    """50 nodes, 200 releases: the proportion of intervals that hold the truth is no less than 95 %
    but for 4 standard errors."""
    graph = Graph.of(nx.barabasi_albert_graph(50, 3, seed=1))
    source = seeded_source(4)
    held = 0
    for _ in range(200):
        low, high = curator_degrees(graph, 1.0, source).interval().T
        held += int(((low <= graph.degrees) & (graph.degrees <= high)).sum())
    assert held / 10_000 > 0.95 - 4 * math.sqrt(0.95 * 0.05 / 10_000)


@pytest.mark.parametrize(
    ("epsilon", "delta", "dimensions"),
    [(0.5, 1e-6, 1), (2.0, 0.01, 1), (1.0, 1e-3, 3), (3.0, 1e-2, 2)],
)
def test_scales_that_differ_by_beta_are_within_half_of_epsilon_and_delta(
    epsilon: float, delta: float, dimensions: int
) -> None:
    """The exact hockey-stick divergence between noise of two scales, in both directions.

    Vectors whose magnitudes have the same sum have the same ratio of probabilities, so that the law
    of that sum is enough.
    """
    beta = smooth_beta(epsilon, delta, dimensions)
    smallest = (6 if dimensions > 1 else 2) / epsilon
    for scale in (smallest, 3 * smallest):
        reach = int(40 * scale) + 40
        laws = []
        for s in (scale, scale * math.exp(beta)):
            q = math.exp(-1 / s)
            magnitude = (
                (1 - q) / (1 + q) * q ** np.arange(reach) * np.where(np.arange(reach) > 0, 2, 1)
            )
            law = magnitude
            for _ in range(dimensions - 1):
                law = np.convolve(law, magnitude)
            laws.append(law)
        for p, r in (laws, laws[::-1]):
            assert np.maximum(p - math.exp(epsilon / 2) * r, 0).sum() <= delta
