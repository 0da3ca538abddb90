"""Hierarchical ranges: exact law, exact least squares, and the errors of ranges beside theory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from deniable import DirectEncoding, HierarchicalRanges, SubsetSelection, seeded_source
from deniable.errors import ParameterError
from deniable.estimation.tables.tree_consistency import TreeConsistency
from deniable.mechanisms import exact
from deniable.mechanisms.protocols.hierarchy.fan_outs import (
    best_fan_outs,
    level_sizes,
    node_variance,
    range_variance,
)
from toolkit.references.contracts import (
    assert_a_finite_population_narrows_the_error,
    assert_bytes_come_back,
    assert_covariance_is,
    refuse_rows,
    simulate,
)
from toolkit.references.laws import (
    assert_bulk_draws_follow_the_channel,
    assert_private_and_unbiased,
)


@pytest.mark.parametrize(
    ("values", "epsilon", "fan_outs"),
    [
        (2, 1.0, None),
        (["a", "b", "c", "d"], 1.0, (2, 2)),
        (6, 0.5, (3, 2)),
        (5, 1.0, (3, 2)),
        (8, 2.0, (2, 2, 2)),
        (9, 0.3, (3, 3)),
        (7, 1e-6, (4, 2)),
        (6, 6.0, (3, 2)),
    ],
)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(
    values: object, epsilon: float, fan_outs: tuple[int, ...] | None
) -> None:
    assert_private_and_unbiased(HierarchicalRanges(values, epsilon, fan_outs))


def test_bulk_draws_follow_the_channel_and_no_other() -> None:
    assert_bulk_draws_follow_the_channel(
        lambda epsilon: HierarchicalRanges(6, epsilon, (3, 2)), value=4
    )


def _matrix(sizes: tuple[int, ...], fan_outs: tuple[int, ...]) -> np.ndarray:
    """One row per node: which leaves are below it."""
    rows: list[np.ndarray] = []
    width = 1
    for size, fan_out in zip(reversed(sizes), reversed(fan_outs), strict=True):
        rows.insert(0, np.arange(sizes[-1])[None] // width == np.arange(size)[:, None])
        width *= fan_out
    return np.vstack(rows).astype(float)


@pytest.mark.parametrize(
    ("values", "fan_outs"), [(8, (2, 2, 2)), (16, (4, 4)), (11, (2, 3, 2)), (7, (4, 2)), (5, (5,))]
)
def test_consistency_is_generalized_least_squares(values: int, fan_outs: tuple[int, ...]) -> None:
    sizes = level_sizes(values, fan_outs)
    variances = [1.0 + 0.7 * i for i in range(len(sizes))]
    tree, nodes = TreeConsistency(sizes, fan_outs, variances), _matrix(sizes, fan_outs)
    y = np.random.default_rng(values).normal(size=len(nodes))
    precision = 1 / np.repeat(variances, sizes)
    # Lagrange: the leaves sum to 1.
    normal = np.block(
        [
            [nodes.T * precision @ nodes, np.ones((values, 1))],
            [np.ones((1, values)), np.zeros((1, 1))],
        ]
    )
    best = np.linalg.solve(normal, np.append(nodes.T * precision @ y, 1))[:values]
    levels = np.split(y, np.cumsum(sizes)[:-1])
    np.testing.assert_allclose(tree.leaves(levels), best, atol=1e-12)


def test_the_covariance_is_that_of_the_linear_map() -> None:
    sizes, rng = (3, 8), np.random.default_rng(1)
    tree = TreeConsistency(sizes, (3, 3), [1.0, 2.0])
    covariances = [m @ m.T for m in (rng.normal(size=(size, size)) for size in sizes)]
    maps = [tree.level_map(i, np.eye(size)) for i, size in enumerate(sizes)]
    expected = sum(m @ c @ m.T for m, c in zip(maps, covariances, strict=True))
    np.testing.assert_allclose(tree.covariance(covariances), expected, atol=1e-12)


@pytest.mark.parametrize(("values", "fan_outs"), [(16, (4, 2, 2)), (27, (3, 3, 3)), (12, (12,))])
def test_the_variance_by_which_trees_are_chosen_is_the_mean_over_all_ranges(
    values: int, fan_outs: tuple[int, ...]
) -> None:
    epsilon = 1.0
    mechanism = HierarchicalRanges(values, epsilon, fan_outs)
    growth = exact.exp(epsilon)
    errors = [
        node_variance(size, growth) * (np.eye(size) - np.full((size, size), 1 / size))
        for size in mechanism.sizes
    ]
    covariance = mechanism._tree.covariance(errors) * len(mechanism.sizes)
    ranges = [
        (np.arange(values) >= a) & (np.arange(values) <= b)
        for a in range(values)
        for b in range(a, values)
    ]
    mean = np.mean([g @ covariance @ g for g in np.array(ranges, dtype=float)])
    assert range_variance(values, fan_outs, epsilon) == pytest.approx(mean, rel=1e-9)


def test_the_chosen_tree_is_better_than_any_other_of_its_kind() -> None:
    chosen = range_variance(64, best_fan_outs(64, 1.0), 1.0)
    for fan_outs in [
        (64,),
        (2,) * 6,
        (4, 4, 4),
        (8, 8),
        (16, 4),
        (4, 16),
        (8, 2, 2, 2),
        (16, 2, 2),
    ]:
        assert chosen <= range_variance(64, fan_outs, 1.0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("values", [256, 1024, 2048])
def test_ranges_err_at_most_half_as_much_as_of_a_flat_report(values: int, epsilon: float) -> None:
    """A tree of one level is subset selection, the best flat report there is."""
    tree = range_variance(values, best_fan_outs(values, epsilon), epsilon)
    assert math.sqrt(tree) <= math.sqrt(range_variance(values, (values,), epsilon)) / 2


@pytest.mark.parametrize("values", [16, 100, 256])
def test_the_error_never_rises_with_epsilon(values: int) -> None:
    epsilons = np.linspace(0.1, 8, 80).tolist()
    errors = [range_variance(values, best_fan_outs(values, e), e) for e in epsilons]
    assert np.all(np.diff(errors) <= 0)


def test_levels_are_reported_by_the_protocol_with_the_least_error() -> None:
    mechanism = HierarchicalRanges(64, 1.0, (4, 4, 4))
    assert [type(level) for level in mechanism.levels] == [
        DirectEncoding,
        SubsetSelection,
        SubsetSelection,
    ]
    assert mechanism.report_bytes == 1 + 64 // 8


@pytest.mark.slow
def test_simulated_covariances_are_those_of_theory_and_of_the_estimate() -> None:
    mechanism = HierarchicalRanges(6, 1.0, (3, 2))
    shares = np.array([0.4, 0.05, 0.2, 0.1, 0.05, 0.2])
    n = 2_000
    errors = []
    for level, width in zip(mechanism.levels, (2, 1), strict=True):
        nodes = np.add.reduceat(shares, np.arange(0, 6, width))
        laws = level.support()
        lam = laws[1] + (laws[0] - laws[1]) * nodes
        counts = np.rint(lam * 2**40).astype(np.int64)
        errors.append(level.solve(counts, 2**40)[2] * 2**40)
    theory = mechanism._tree.covariance(errors) * 2 / n
    np.testing.assert_allclose(
        mechanism.expected_errors(n, shares), np.sqrt(np.diagonal(theory)), rtol=1e-9
    )
    assert_covariance_is(simulate(mechanism, shares, n, trials=4_000, seed=3), theory)


@pytest.mark.slow
def test_a_finite_population_narrows_the_error() -> None:
    assert_a_finite_population_narrows_the_error(HierarchicalRanges(4, 4.0, (2, 2)))


@pytest.mark.parametrize("values", [8, ["a", "b", "c"], 100])
def test_reports_and_tallies_come_back_from_their_bytes(values: object) -> None:
    assert_bytes_come_back(HierarchicalRanges(values, 1.0))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([2, 0, 0], "none of the 2 levels"),
        ([0, 3, 0], "outside 0 to 2"),
        ([0, 1, 1], "beyond its level"),
        ([1, 255, 1], "values"),
        ([1, 0, 2], "beyond"),
    ],
)
def test_a_report_that_no_level_draws_is_refused(row: list[int], message: str) -> None:
    mechanism = HierarchicalRanges(9, 1.0, (3, 3))
    assert mechanism.levels[1].w == 2
    refuse_rows(mechanism, np.array([row], dtype=np.uint8), message)


@pytest.mark.parametrize("fan_outs", [(2, 2), (8, 1), (3, 4), (), "42", (9,), (2.5, 4)])
def test_fan_outs_that_are_not_those_of_the_values_are_refused(fan_outs: object) -> None:
    with pytest.raises(ParameterError, match="fan_outs"):
        HierarchicalRanges(8, 1.0, fan_outs)


def test_too_many_values_are_refused() -> None:
    with pytest.raises(ParameterError, match="at most 2048"):
        HierarchicalRanges(2049, 1.0)


def test_the_influence_of_liars_is_never_exceeded_by_any_reports() -> None:
    """All reports of a small tree, in a crowd whose levels have equal size."""
    mechanism = HierarchicalRanges(4, 1.0, (2, 2))
    rng, n = np.random.default_rng(1), 4_000
    bound = mechanism.influence(n, 1)
    largest = np.zeros(4)
    for answers in (np.zeros(n, dtype=int), np.full(n, 3), rng.integers(0, 4, n)):
        drawn = mechanism.privatize(answers, seeded_source(2)).data
        order = np.argsort(drawn[:, 0], kind="stable")
        half = min(np.bincount(drawn[:, 0]))
        data = np.concatenate([drawn[order][:half], drawn[order][-half:]])
        kinds = np.unique(data, axis=0)
        base = mechanism.count(data)
        before = mechanism.solve(base, 2 * half)[0]
        changes = [
            mechanism.solve(
                base - mechanism.count(old[None]) + mechanism.count(new[None]), 2 * half
            )[0]
            - before
            for old in kinds
            for new in kinds
        ]
        largest = np.maximum(largest, np.abs(changes).max(axis=0) * (2 * half / n))
    # A report more or fewer changes a level's mean by a part in its size, which is about n/2.
    assert (largest <= bound * (1 + 4 / n)).all()
    assert (largest >= 0.9 * bound).all()
