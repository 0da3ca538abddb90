"""Graphs under edge randomized response: exact laws, exact means and variances, and the refusal of
what is no graph."""

from __future__ import annotations

import itertools
import json
import math
from collections import defaultdict
from fractions import Fraction
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from deniable import every_path, seeded_source
from deniable.errors import GraphError, ParameterError
from deniable.graphs import EdgeResponse, Graph, GraphEstimate, GraphReports, exact_moments
from deniable.graphs.limits import count_limits
from deniable.graphs.moments import count_triangles
from deniable.graphs.response import EdgeChannel
from deniable.mechanisms.exact import log_ratio
from deniable.randomness import ONE


def pairs(text: str) -> list[tuple[int, int]]:
    return [(int(pair[0]), int(pair[1])) for pair in text.split()]


PRISM = Graph.of(pairs("01 12 02 34 45 35 03 14 25"), nodes=6)
WHEEL = Graph.of(pairs("01 02 03 04 05 12 23 34 45 15"), nodes=6)
BOW_TIE = Graph.of(pairs("01 02 12 03 04 34 45 56"), nodes=7)
CUBE = Graph.of(pairs("01 12 23 03 45 56 67 47 04 15 26 37"), nodes=8)
PAW = Graph.of(pairs("01 12 02 23"), nodes=4)

# graph, response, then mean and variance of edges, degree of node 0, triangles, triangles at node 0
CHECKED = [
    (
        PRISM,
        EdgeResponse.from_probabilities(0.75, 0.25),
        (9, 11.25),
        (3, 3.75),
        (2, 51.1875),
        (1, 24.09375),
    ),
    (
        WHEEL,
        EdgeResponse.from_probabilities(0.7, 0.2),
        (10, 11.6),
        (5, 4.2),
        (5, 66.38368),
        (5, 45.38144),
    ),
    (
        BOW_TIE,
        EdgeResponse(1.0),
        (8, 19.334145478364),
        (4, 5.5240415652468),
        (2, 73.18833891293),
        (2, 42.17676099116),
    ),
    (
        CUBE,
        EdgeResponse(2.0),
        (12, 5.0684316267642),
        (3, 1.267107906691),
        (0, 11.380084077934),
        (0, 3.7244852835006),
    ),
]


@pytest.mark.parametrize(("graph", "response", "edges", "degree", "triangles", "at_node"), CHECKED)
def test_means_and_variances_are_those_computed_independently(
    graph: Graph, response: EdgeResponse, edges: Any, degree: Any, triangles: Any, at_node: Any
) -> None:
    first, second = exact_moments(graph, response.channel)
    found = [
        (first.edges, first.edges_variance),
        (first.degrees[0], first.degrees_variance[0]),
        (second.total, second.variance),
        (second.per_node[0], second.per_node_variance[0]),
    ]
    np.testing.assert_allclose(found, [edges, degree, triangles, at_node], rtol=1e-12)


def law_of_pairs(graph: Graph, response: EdgeResponse) -> list[tuple[float, NDArray[np.float32]]]:
    """Every matrix of bits that can be reported, with its probability."""
    channel, n = response.channel, graph.nodes
    upper = np.triu_indices(n, 1)
    edges = graph.to_sparse().toarray()[upper]
    out = []
    for bits in itertools.product(range(channel.copies + 1), repeat=edges.size):
        probability = 1.0
        for bit, edge in zip(bits, edges, strict=True):
            p = channel.a if edge else channel.b
            probability *= (
                math.comb(channel.copies, bit) * p**bit * (1 - p) ** (channel.copies - bit)
            )
        matrix = np.zeros((n, n), dtype=np.float32)
        matrix[upper] = bits
        out.append((probability, matrix + matrix.T))
    return out


@pytest.mark.parametrize(
    "response",
    [
        EdgeResponse(1.0),
        EdgeResponse(1.3, "both"),
        EdgeResponse.from_probabilities(0.6, 0.1),
        EdgeResponse.sparse(2.0, 0.5),
    ],
    ids=["once", "both", "asymmetric", "sparse"],
)
def test_over_every_outcome_estimates_and_their_variances_are_unbiased(
    response: EdgeResponse,
) -> None:
    channel = response.channel
    law = law_of_pairs(PAW, response)
    probabilities = np.array([probability for probability, _ in law])
    counted = [count_triangles(matrix, channel, channel) for _, matrix in law]
    values = np.array([[c.total, c.wedges, *c.per_node] for c in counted])
    stated = np.array([[c.variance, c.wedges_variance, *c.per_node_variance] for c in counted])
    mean = probabilities @ values
    np.testing.assert_allclose(mean, [1, 5, 1, 1, 1, 0], atol=1e-9)
    covariance = (values - mean).T * probabilities @ (values - mean)
    np.testing.assert_allclose(probabilities @ stated, np.diag(covariance), rtol=1e-9)
    np.testing.assert_allclose(
        probabilities @ [c.covariance for c in counted], covariance[0, 1], rtol=1e-9
    )
    exact = exact_moments(PAW, channel)[1]
    np.testing.assert_allclose(
        [exact.variance, exact.wedges_variance, exact.covariance],
        [covariance[0, 0], covariance[1, 1], covariance[0, 1]],
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    "response", [EdgeResponse(1.0), EdgeResponse(1.5, "both"), EdgeResponse.sparse(1.0, 0.4)]
)
def test_an_edge_changes_the_probability_of_no_report_by_more_than_epsilon(
    response: EdgeResponse,
) -> None:
    """Every path of the coins of all three people, with and without the edge between 0 and 2: the
    loss is exactly epsilon."""
    laws = []
    for edges in ([(0, 1)], [(0, 1), (0, 2)]):
        graph = Graph.of(edges, nodes=3)
        law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
        for probability, reports in every_path(partial(response.privatize, graph)):
            law[reports.rows.tobytes()] += probability
        laws.append(law)
    assert set(laws[0]) == set(laws[1])
    assert all(sum(law.values()) == 1 for law in laws)
    ratios = [laws[0][outcome] / laws[1][outcome] for outcome in laws[0]]
    assert log_ratio(max(*ratios, *(1 / ratio for ratio in ratios))) == pytest.approx(
        response.epsilon, rel=1e-15
    )


def test_an_edge_that_both_ends_report_loses_twice_what_a_bit_does() -> None:
    both = EdgeResponse(1.0, "both")
    assert both.bit_epsilon == 0.5
    assert both.epsilon == 1.0
    assert both.channel.b == pytest.approx(1 / (math.exp(0.5) + 1), rel=1e-15)
    # The mean of two bits at half of epsilon each is worse than one bit: (sqrt(E) + 2 +
    # 1/sqrt(E))/2 times its variance.
    factor = (math.exp(0.5) + 2 + math.exp(-0.5)) / 2
    assert both.channel.variance == pytest.approx(
        factor * EdgeResponse(1.0).channel.variance, rel=1e-12
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("keep", [1.0, 0.5, 0.1])
def test_sparse_responses_never_lose_more_than_asked_for(epsilon: float, keep: float) -> None:
    if epsilon == 0.01 and keep == 0.1:
        keep = 0.9
    response = EdgeResponse.sparse(epsilon, keep)
    assert response.epsilon <= epsilon
    assert response.epsilon > 0.9 * epsilon
    assert response.coins is not None
    assert all(coin % (ONE >> 16) == 0 for coin in response.coins)


@pytest.mark.parametrize(
    ("reporting", "mask"), [("once", np.tri(6, k=-1)), ("both", 1 - np.eye(6))]
)
def test_one_person_reports_what_everybody_together_would(
    reporting: str, mask: NDArray[np.float64]
) -> None:
    """With coins that practically never turn over, reports show whose pairs are whose."""
    response = EdgeResponse(40.0, reporting)
    matrix = WHEEL.to_sparse().toarray()
    neighbours = [np.flatnonzero(row).tolist() for row in matrix]
    rows = [
        (node, response.report(node, neighbours[node], 6, seeded_source(1)).tobytes())
        for node in range(6)
    ]
    single = GraphReports.from_rows(response, rows, 6)
    assert single == response.privatize(WHEEL, seeded_source(2))
    np.testing.assert_array_equal(
        np.unpackbits(single.rows, axis=1, count=6, bitorder="little"), matrix * mask
    )


def test_bulk_coins_turn_bits_over_as_often_as_they_should() -> None:
    """499,500 pairs of an empty graph: a z-test at a false-alarm rate of 1e-9, which rejects 0.8
    and 1.2 epsilon."""
    empty = Graph.of(np.empty((0, 2), dtype=np.int64), nodes=1000)
    for response in (EdgeResponse(1.0), EdgeResponse.from_probabilities(0.7, 0.2)):
        ones = float(response.privatize(empty, seeded_source(5)).bits().sum()) / 2
        n = 999 * 500

        def z(b: float, ones: float = ones, n: int = n) -> float:
            return abs(ones - n * b) / math.sqrt(n * b * (1 - b))

        assert z(response.channel.b) < 6.11
    for factor in (0.8, 1.2):
        ones = float(EdgeResponse(1.0).privatize(empty, seeded_source(5)).bits().sum()) / 2
        wrong = EdgeResponse(factor).channel.b
        assert abs(ones - n * wrong) / math.sqrt(n * wrong * (1 - wrong)) > 6.11


def test_reports_go_through_bytes_unchanged_and_bad_bytes_are_refused() -> None:
    reports = EdgeResponse(1.0).privatize(
        nx.relabel_nodes(BOW_TIE.to_networkx(), lambda i: f"person {i}"), seeded_source(3)
    )
    content = reports.to_bytes()
    assert GraphReports.from_bytes(content) == reports
    assert reports.labels == tuple(f"person {i}" for i in range(7))
    for bad in (
        b"",
        content[:3],
        content[:-1],
        content + b"\0",
        b"xyz" + content[3:],
        content[:3] + b"\x09" + content[4:],
    ):
        with pytest.raises(GraphError):
            GraphReports.from_bytes(bad)
    beyond = bytearray(content)
    beyond[-7] |= 1  # node 0 has no pair to report
    with pytest.raises(GraphError, match="node 0 contains a pair that it must not report"):
        GraphReports.from_bytes(bytes(beyond))


def test_reports_of_people_must_be_there_once_each_and_of_the_right_size() -> None:
    response = EdgeResponse(1.0)
    rows = [(node, bytes(1)) for node in range(5)]
    assert GraphReports.from_rows(response, rows, 5).nodes == 5
    with pytest.raises(GraphError, match="node 3 reported twice"):
        GraphReports.from_rows(response, [*rows, (3, bytes(1))], 5)
    with pytest.raises(GraphError, match="1 of 5 nodes did not report, among them node 4"):
        GraphReports.from_rows(response, rows[:4], 5)
    with pytest.raises(GraphError, match="node 2 has 2 bytes, not 1"):
        GraphReports.from_rows(response, [*rows[:2], (2, bytes(2))], 5)
    with pytest.raises(GraphError, match="node 5, but the nodes are 0 to 4"):
        GraphReports.from_rows(response, [(5, bytes(1))], 5)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([(0, 1), (2, 2)], r"edges\[1\] is a self-loop"),
        ([(0, 1), (2, 3), (1, 0)], r"edges\[2\] is a pair that was listed before"),
        ([(0, 1), (1, 4)], r"edges\[1\] has a node outside 0 to 3"),
        ([(0, 1), (-1, 2)], r"edges\[1\] has a node outside 0 to 3"),
        ([(0.5, 1.0)], "edges must be pairs of whole numbers"),
        ([(0, 1, 2)], "edges must be pairs of whole numbers"),
    ],
)
def test_pairs_that_are_no_graph_are_refused_by_position(edges: Any, message: str) -> None:
    with pytest.raises(GraphError, match=message):
        Graph.of(edges, nodes=4)


def test_matrices_that_are_no_graph_are_refused() -> None:
    with pytest.raises(GraphError, match="self-loop"):
        Graph.of(np.eye(3))
    with pytest.raises(GraphError, match="symmetric"):
        Graph.of(np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]]))
    with pytest.raises(GraphError, match="zeros and ones"):
        Graph.of(sp.csr_array(np.array([[0, 2], [2, 0]])))
    with pytest.raises(GraphError, match="square"):
        Graph.of(sp.csr_array(np.zeros((2, 3))))
    with pytest.raises(GraphError, match="undirected"):
        Graph.of(nx.DiGraph([(0, 1)]))
    with pytest.raises(GraphError, match="self-loop"):
        Graph.of(nx.Graph([(0, 0), (0, 1)]))
    with pytest.raises(ParameterError, match="nodes = None"):
        Graph.of([(0, 1), (1, 2), (0, 2)])
    with pytest.raises(GraphError, match="own neighbour"):
        EdgeResponse(1.0).report(1, [1], 3)
    with pytest.raises(GraphError, match="listed twice"):
        EdgeResponse(1.0).report(2, [1, 1], 3)


def test_graphs_go_through_networkx_and_sparse_matrices_unchanged() -> None:
    for other in (
        WHEEL.to_networkx(),
        WHEEL.to_sparse(),
        WHEEL.to_sparse().toarray(),
        WHEEL.edges[:, ::-1],
    ):
        again = (
            Graph.of(other, nodes=6)
            if isinstance(other, np.ndarray) and other.shape[1] == 2
            else Graph.of(other)
        )
        np.testing.assert_array_equal(again.edges, WHEEL.edges)
        assert again.nodes == 6


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: EdgeResponse(0.0), "epsilon"),
        (lambda: EdgeResponse(math.nan), "epsilon"),
        (lambda: EdgeResponse(1.0, "twice"), "reporting"),
        (lambda: EdgeResponse.from_probabilities(0.2, 0.7), "a"),
        (lambda: EdgeResponse.from_probabilities(1.0, 0.5), "a"),
        (lambda: EdgeResponse.sparse(1.0, 0.0), "keep"),
        (lambda: EdgeResponse(1.0, coins=(5, 5)), "coins"),
    ],
)
def test_parameters_that_break_a_rule_are_named(make: Any, name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert caught.value.name == name


def test_estimates_go_through_json_unchanged() -> None:
    graph = nx.barabasi_albert_graph(40, 3, seed=1)
    estimate = EdgeResponse(2.0).privatize(graph, seeded_source(1)).estimate()
    again = GraphEstimate.from_dict(json.loads(json.dumps(estimate.to_dict())))
    assert str(again) == str(estimate)
    assert again.to_dict() == estimate.to_dict()
    np.testing.assert_array_equal(again.degree_interval(0.9), estimate.degree_interval(0.9))


def test_without_noise_to_speak_of_every_figure_is_the_true_one() -> None:
    graph = nx.powerlaw_cluster_graph(60, 4, 0.5, seed=2)
    groups = [node % 3 for node in graph]
    nx.set_node_attributes(graph, dict(enumerate(groups)), "group")
    reports = EdgeResponse(39.0).privatize(graph, seeded_source(1))
    estimate = reports.estimate()
    assert estimate.triangles is not None
    assert estimate.clustering is not None
    assert estimate.node_triangles is not None
    assert estimate.edges.value == pytest.approx(graph.number_of_edges(), abs=1e-9)
    assert estimate.triangles.value == pytest.approx(
        sum(nx.triangles(graph).values()) / 3, abs=1e-6
    )
    assert estimate.clustering.value == pytest.approx(nx.transitivity(graph), abs=1e-9)
    np.testing.assert_allclose(estimate.degrees, [degree for _, degree in graph.degree], atol=1e-9)
    np.testing.assert_allclose(
        estimate.node_triangles, list(nx.triangles(graph).values()), atol=1e-6
    )
    wanted = nx.attribute_assortativity_coefficient(graph, "group")
    assert reports.assortativity(groups).value == pytest.approx(wanted, abs=1e-9)
    np.testing.assert_array_equal(reports.synthetic(seeded_source(2)).edges, Graph.of(graph).edges)
    distribution = reports.degree_distribution()
    truth = [np.mean([degree <= k for _, degree in graph.degree]) for k in distribution.thresholds]
    assert np.all(distribution.low <= truth)
    assert np.all(truth <= distribution.high)


def test_limits_of_few_coins_cover_by_enumeration() -> None:
    """For every number of edges among 30 pairs, the exact probability that the limits hold it is at
    least 95 %."""
    from scipy.stats import binom  # noqa: PLC0415 - for this test only

    channel = EdgeChannel(0.9, 0.05, 1)
    limits = count_limits(np.arange(31), 30, channel, 0.95)
    for edges in range(31):
        law = np.convolve(
            binom.pmf(np.arange(edges + 1), edges, 0.9),
            binom.pmf(np.arange(31 - edges), 30 - edges, 0.05),
        )
        held = (limits[:, 0] <= edges) & (edges <= limits[:, 1])
        assert law[held].sum() >= 0.95 - 1e-12
    assert (limits[:, 1] - limits[:, 0]).mean() < 12  # and they say something


def test_a_synthetic_graph_has_the_estimated_number_of_edges_and_more_of_the_true_ones_than_chance() -> (
    None
):
    graph = Graph.of(nx.barabasi_albert_graph(300, 5, seed=1))
    for response in (EdgeResponse(3.0), EdgeResponse(4.0, "both")):
        reports = response.privatize(graph, seeded_source(1))
        made = reports.synthetic(seeded_source(2))
        assert len(made.edges) == round(reports.estimate(triangles=False).edges.value)
        kept = len(set(map(tuple, made.edges.tolist())) & set(map(tuple, graph.edges.tolist())))
        # By Bayes m' P(edge | z) of the drawn pairs are edges; by chance, m' m/N = 50.
        channel = response.channel
        density = len(graph.edges) / (150 * 299)
        expected = 0.0
        for z in range(channel.copies + 1):
            one, zero = (
                math.comb(channel.copies, z) * p**z * (1 - p) ** (channel.copies - z)
                for p in (channel.a, channel.b)
            )
            expected += (
                len(made.edges) * one * one * density / (one * density + zero * (1 - density))
            )
        assert kept == pytest.approx(expected, rel=0.1)


def test_nothing_that_is_printed_tells_an_edge_of_the_true_graph() -> None:
    assert repr(WHEEL) == "<Graph of 6 nodes>"
    with pytest.raises(GraphError) as caught:
        Graph.of([(3, 1), (1, 3)], nodes=5)
    assert "3" not in str(caught.value)
