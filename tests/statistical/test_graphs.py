"""How often intervals about graphs hold the truth, and which method is ahead of which.

Coverage over 3,000 simulated collections has a standard error of 0.4 points; the bounds of 94 to 96
% are what intervals claim. Seeds are fixed: a test that passes passes always. With a true coverage
of 95 %, another seed would fail a figure with probability 1.2 %. Figures per node average over
nodes and vary less.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm

from deniable import seeded_source
from deniable.graphs import (
    EdgeResponse,
    Graph,
    TwoRounds,
    compare_graph,
    exact_moments,
    plan_graph,
)
from deniable.graphs.baselines import triangles_per_node
from deniable.graphs.limits import denominator_visible, quotient_limits
from deniable.graphs.noise import discrete_laplace, discrete_laplace_each
from deniable.graphs.two_rounds import FirstRound, TwoRoundReports

CLUSTERED = nx.watts_strogatz_graph(80, 10, 0.1, seed=1)
SKEWED = nx.barabasi_albert_graph(100, 5, seed=2)


def truths(graph: nx.Graph) -> dict[str, float]:
    triangles = sum(nx.triangles(graph).values()) / 3
    wedges = sum(degree * (degree - 1) / 2 for _, degree in graph.degree)
    pairs = graph.number_of_nodes() * (graph.number_of_nodes() - 1) / 2
    edges = graph.number_of_edges()
    return {
        "edges": edges,
        "density": edges / pairs,
        "triangles": triangles,
        "wedges": wedges,
        "clustering": 3 * triangles / wedges,
    }


@pytest.mark.parametrize(
    ("graph", "response"),
    [
        (CLUSTERED, EdgeResponse(1.5)),
        (SKEWED, EdgeResponse(2.0)),
        (SKEWED, EdgeResponse(2.5, "both")),
        (CLUSTERED, EdgeResponse.from_probabilities(0.6, 0.15)),
    ],
    ids=["clustered", "skewed", "both", "asymmetric"],
)
def test_intervals_of_one_round_cover_what_they_claim_and_estimates_are_unbiased(
    graph: nx.Graph, response: EdgeResponse
) -> None:
    trials, source = 3000, seeded_source(11)
    truth = truths(graph)
    checked = Graph.of(graph)
    degrees, at_node = checked.degrees, triangles_per_node(checked)
    groups = [node % 2 for node in graph]
    nx.set_node_attributes(graph, dict(enumerate(groups)), "group")
    mixing = nx.attribute_assortativity_coefficient(graph, "group")
    held = dict.fromkeys([*truth, "degree", "node", "mixing"], 0.0)
    values = np.empty((trials, 3))
    for trial in range(trials):
        reports = response.privatize(checked, source)
        estimate = reports.estimate()
        for statistic in estimate.statistics():
            low, high = statistic.interval()
            held[statistic.name] += low <= truth[statistic.name] <= high
        low, high = reports.assortativity(groups).interval()
        held["mixing"] += low <= mixing <= high
        for name, limits, figures in (
            ("degree", estimate.degree_interval(), degrees),
            ("node", estimate.node_triangle_interval(), at_node),
        ):
            held[name] += float(((limits[:, 0] <= figures) & (figures <= limits[:, 1])).mean())
        assert estimate.triangles is not None
        assert estimate.wedges is not None
        values[trial] = estimate.edges.value, estimate.triangles.value, estimate.wedges.value
    covered = {name: count / trials for name, count in held.items()}
    # of the assortativity, all intervals claim 95 % or more
    assert covered.pop("mixing") >= 0.94
    assert all(0.94 <= covering <= 0.96 for covering in covered.values()), covered
    first, second = exact_moments(checked, response.channel)
    variances = np.array([first.edges_variance, second.variance, second.wedges_variance])
    z = (values.mean(axis=0) - [truth["edges"], truth["triangles"], truth["wedges"]]) / np.sqrt(
        variances / trials
    )
    assert np.abs(z).max() < 4.5  # false alarm 2e-5
    np.testing.assert_allclose(values.var(axis=0), variances, rtol=0.12)


@pytest.mark.parametrize(("graph", "epsilon"), [(CLUSTERED, 0.5), (SKEWED, 0.5), (CLUSTERED, 0.8)])
def test_where_noise_drowns_a_graph_intervals_still_cover_what_they_claim(
    graph: nx.Graph, epsilon: float
) -> None:
    """3,000 collections at an epsilon where wedges stand 1.2 to 2.4 standard errors out of the
    noise, triangles 0.1 to 1.1.

    Clustering has an interval in the part of the collections where wedges are visible; it must
    cover among those as well. That is a claim of "95 % or more", and its bound allows for three
    standard errors of the number given (false alarm 0.1 %).
    """
    trials, source, response = 3000, seeded_source(16), EdgeResponse(epsilon)
    truth, at_node = truths(graph), triangles_per_node(Graph.of(graph))
    given, held, node = Counter[tuple[str, str]](), Counter[tuple[str, str]](), 0.0
    checked = Graph.of(graph)
    for _ in range(trials):
        estimate = response.privatize(checked, source).estimate()
        for statistic in estimate.statistics():
            low, high = statistic.interval()
            given[statistic.name, statistic.coverage] += 1
            held[statistic.name, statistic.coverage] += low <= truth[statistic.name] <= high
        limits = estimate.node_triangle_interval()
        node += float(((limits[:, 0] <= at_node) & (at_node <= limits[:, 1])).mean()) / trials
    covered = {key: held[key] / times for key, times in given.items()}
    for name in ("edges", "density", "triangles", "wedges"):
        assert given[name, "as stated"] == trials
        assert 0.94 <= covered[name, "as stated"] <= 0.96, covered
    assert 0.94 <= node <= 0.96
    shown = given["clustering", "at least"]
    assert shown > 100
    assert given["clustering", "all possible"] > 100
    assert covered["clustering", "at least"] >= 0.95 - 3 * math.sqrt(0.95 * 0.05 / shown), covered


def collections_of(
    protocol: TwoRounds, graph: Graph, trials: int, seed: int
) -> Iterator[TwoRoundReports]:
    """What `privatize` draws, many times over, with the noise of all collections drawn at once."""
    source = seeded_source(seed)
    degrees = graph.degrees + discrete_laplace(
        protocol.degree_scale, trials * graph.nodes, source
    ).reshape(trials, -1)
    firsts = [
        FirstRound(protocol, row, protocol.response.privatize(graph, source)) for row in degrees
    ]
    scales = np.concatenate([protocol.count_scales(first.bounds) for first in firsts])
    noise = np.zeros_like(scales)
    noise[scales > 0] = discrete_laplace_each(scales[scales > 0], source)
    matrix = graph.to_sparse()
    matrix.sort_indices()
    lists = np.split(matrix.indices.astype(np.int64), matrix.indptr[1:-1])
    nodes = np.arange(graph.nodes)
    for first, own in zip(firsts, noise.reshape(trials, -1), strict=True):
        yield TwoRoundReports(first, first.counts(nodes, lists) + own)


@pytest.mark.parametrize(
    ("graph", "protocol"),
    [
        (CLUSTERED, TwoRounds(2.0)),
        (CLUSTERED, TwoRounds(4.0, (0.3, 0.35, 0.35))),
        (SKEWED, TwoRounds(6.0, (0.3, 0.4, 0.3), keep=0.5, cut=0.01)),
    ],
    ids=["loud", "clustered", "skewed and sparse"],
)
def test_intervals_of_two_rounds_cover_what_they_claim(
    graph: nx.Graph, protocol: TwoRounds
) -> None:
    """3,000 collections. Of degrees, which are whole numbers with an exact law, and of triangles
    and clustering, which allow for lists that are cut, intervals claim 95 % or more; all others
    claim 95 %. Where lists are rarely cut, all cover 94 to 96 %.
    """
    trials, checked = 3000, Graph.of(graph)
    truth, degrees = truths(graph), checked.degrees
    held = dict.fromkeys([*truth, "degree"], 0.0)
    for reports in collections_of(protocol, checked, trials, 12):
        estimate = reports.estimate()
        for statistic in estimate.statistics():
            low, high = statistic.interval()
            assert statistic.coverage == (
                "at least" if statistic.name in {"triangles", "clustering"} else "as stated"
            )
            held[statistic.name] += low <= truth[statistic.name] <= high
        limits = estimate.degree_interval()
        held["degree"] += float(((limits[:, 0] <= degrees) & (degrees <= limits[:, 1])).mean())
        assert estimate.degree_coverage == "at least"
    covered = {name: count / trials for name, count in held.items()}
    assert 0.95 <= covered.pop("degree") + 0.001 < 0.98  # exact: its standard error is 0.05 points
    assert all(0.94 <= share <= 0.96 for share in covered.values()), covered


@pytest.mark.parametrize(
    "protocol", [EdgeResponse(3.0), TwoRounds(6.0)], ids=["one round", "two rounds"]
)
def test_limits_of_the_degree_distribution_hold_it_at_least_as_often_as_they_say(
    protocol: EdgeResponse | TwoRounds,
) -> None:
    degrees, source = Graph.of(SKEWED).degrees, seeded_source(13)
    misses, width = 0, 0.0
    for _ in range(60):
        found = protocol.privatize(SKEWED, source).degree_distribution([4, 6, 8, 12, 20])
        truth = np.array([np.mean(degrees <= k) for k in found.thresholds])
        misses += int(((truth < found.low) | (truth > found.high)).sum())
        width += float((found.high - found.low).mean()) / 60
        assert np.all((found.low <= found.at_most) & (found.at_most <= found.high))
    assert misses <= 0.05 * 300
    assert width < 0.6  # and they say something


def test_randomized_response_is_ahead_of_laplace_on_triangles_at_nodes() -> None:
    """The paper's figure 6 on a graph of its size (185 nodes, some 700 edges), at every epsilon
    from 0.5 to 5.

    Local reports beat a trusted curator's noise here, global or smooth; and on degrees the curator
    is ahead, as in figure 5.
    """
    graph = nx.powerlaw_cluster_graph(185, 4, 0.4, seed=3)
    errors = compare_graph(graph, [0.5, 1.0, 2.0, 3.0, 5.0], trials=3, source=seeded_source(14))
    by = {(error.method, error.epsilon): error for error in errors}
    for epsilon in (0.5, 1.0, 2.0, 3.0, 5.0):
        response, local = by["response", epsilon], by["laplace-local", epsilon]
        assert response.node_triangles is not None
        assert local.node_triangles is not None
        assert response.degrees is not None
        assert local.degrees is not None
        assert response.node_triangles < local.node_triangles
        assert response.degrees < local.degrees
        for curator in ("curator-global", "curator-smooth"):
            noise = by[curator, epsilon].node_triangles
            assert noise is not None
            if epsilon >= 1:
                assert response.node_triangles < noise, (curator, epsilon)
        trusted = by["curator-global", epsilon].degrees
        assert trusted is not None
        assert trusted < response.degrees


def test_two_rounds_are_ahead_of_one_where_the_plan_says_so_and_behind_where_it_does_not() -> None:
    """One round's error is exact; that of two is simulated 30 times, which gives it a relative
    standard error of some 15 %."""
    source, v = seeded_source(15), EdgeResponse(1.0).channel.variance
    for nodes, ahead in ((200, False), (4000, True)):
        graph = Graph.of(nx.watts_strogatz_graph(nodes, 6, 0.1, seed=1))
        plan = plan_graph(nodes, 1.0, mean_degree=6, degree_sd=1, clustering=0.5)
        assert (plan.rounds == 2) is ahead
        truth = float(triangles_per_node(graph).sum()) / 3
        two = math.sqrt(
            np.mean([(plan.two.privatize(graph, source).triangles - truth) ** 2 for _ in range(30)])
        )
        common = graph.to_sparse() @ graph.to_sparse()
        common.setdiag(0)
        one = math.sqrt(
            v * (common**2).sum() / 2
            + v**2 * (nodes - 2) * len(graph.edges)
            + v**3 * math.comb(nodes, 3)
        )
        assert (2 * two < one) if ahead else (2 * one < two)
        assert plan.one_round == pytest.approx(one, rel=0.1)
        # The noise of the counts, which is nearly all of the error, is public once the degrees are.
        first = plan.two.first(graph, source)
        noise = math.sqrt(2 * ((plan.two.count_scales(first.bounds) / 65536) ** 2).sum())
        assert plan.two_rounds == pytest.approx(noise / plan.two.response.channel.gap, rel=0.25)


@pytest.mark.parametrize("mean", [1.0, 2.5, 6.0])
def test_a_quotient_is_covered_among_the_collections_whose_denominator_is_visible(
    mean: float,
) -> None:
    """4,000 visible ones: a standard error of 0.34 points. Without allowing for the condition,
    Fieller's limits cover 84 % of those whose denominator, of mean 1, comes out above 2 standard
    errors: the same draws must show that.
    """
    random, quotient, spread = np.random.default_rng(17), 0.5, 0.1
    # By inversion: a normal denominator given that it is above 2.
    bottom = norm.isf(random.random(4000) * norm.sf(2.0, mean), mean)
    top = quotient * mean + spread * random.normal(size=4000)
    parts = [(float(t), float(b), spread**2, 0.0, 1.0) for t, b in zip(top, bottom, strict=True)]
    assert all(denominator_visible(each) for each in parts)
    limits = np.array([quotient_limits(each, 0.95) for each in parts])
    held = float(((limits[:, 0] <= quotient) & (quotient <= limits[:, 1])).mean())
    assert 0.94 <= held <= 0.96
    plain = np.abs(top - quotient * bottom) <= 1.96 * math.hypot(spread, quotient)
    if mean == 1.0:
        assert plain.mean() < 0.9


def small_graph(name: str) -> nx.Graph:
    """A graph of a few dozen people from the literature, nodes by number, in two groups."""
    graph = {
        "karate": nx.karate_club_graph,
        "davis": nx.davis_southern_women_graph,
        "florentine": nx.florentine_families_graph,
    }[name]()
    return nx.convert_node_labels_to_integers(graph)


@pytest.mark.parametrize("epsilon", [3.0, 4.0, 6.0])
@pytest.mark.parametrize("name", ["karate", "davis", "florentine"])
def test_triangles_and_wedges_have_intervals_where_few_coins_flip(
    name: str, epsilon: float
) -> None:
    """400 collections each. They had none, although there was one at epsilon 1.

    The claim is 95 % or more: less than 91 % of 400 has probability 4e-4 in each of 18 cases.
    """
    graph, source, response = small_graph(name), seeded_source(21), EdgeResponse(epsilon)
    checked, truth = Graph.of(graph), truths(graph)
    held, widths = Counter[str](), list[float]()
    for _ in range(400):
        estimate = response.privatize(checked, source).estimate()
        for statistic in (estimate.triangles, estimate.wedges):
            assert statistic is not None
            assert statistic.coverage == "at least"
            low, high = statistic.interval()
            held[statistic.name] += low <= truth[statistic.name] <= high
            widths += [high - low] * (statistic.name == "triangles")
    assert min(held.values()) >= 0.91 * 400
    assert np.mean(widths) < 70  # of 455 to 5,984 that are possible


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0])
def test_an_assortativity_always_has_an_interval_and_those_that_say_something_cover(
    epsilon: float,
) -> None:
    """1,500 collections of the karate club. When an interval was given only where the edges seemed
    to stand out, at epsilon 1 the 6 % that were given covered 72.6 %.

    All say "95 % or more", so what is said does not depend on the noise. 93 % or less of 1,500 has
    probability 5e-4.
    """
    graph, source, response = nx.karate_club_graph(), seeded_source(22), EdgeResponse(epsilon)
    groups = [graph.nodes[node]["club"] for node in graph]
    truth, checked = nx.attribute_assortativity_coefficient(graph, "club"), Graph.of(graph)
    found = [response.privatize(checked, source).assortativity(groups) for _ in range(1_500)]
    assert {statistic.coverage for statistic in found} == {"at least"}
    limits = np.array([statistic.interval() for statistic in found])
    held = (limits[:, 0] <= truth) & (truth <= limits[:, 1])
    assert held.mean() > 0.93
    says = np.diff(limits, axis=1)[:, 0] < 1.9
    if says.mean() > 0.1:
        # at least 600 of them: 92 % or less of 600 has probability 1e-3
        assert says.sum() >= 600
        assert held[says].mean() > 0.92
    else:
        assert epsilon == 0.5
