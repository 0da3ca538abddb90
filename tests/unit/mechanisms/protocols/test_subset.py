"""Subset selection against its exact law and its formulas."""

from __future__ import annotations

import math
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from deniable import SubsetSelection, seeded_source
from deniable.errors import ParameterError
from toolkit.references.contracts import (
    assert_a_finite_population_narrows_the_error,
    assert_bytes_come_back,
    assert_covariance_is,
    refuse_rows,
    simulate,
)
from toolkit.references.laws import (
    assert_bulk_draws_follow_the_channel,
    assert_errors_are_as_stated,
    assert_private_and_unbiased,
    exact_law,
    exact_laws,
)


@pytest.mark.parametrize(
    ("k", "epsilon"),
    [
        (2, 1.0),
        (3, 0.5),
        (["a", "b", "c", "d", "e", "f"], 1.0),
        (8, 0.2),
        (9, 1.0),
        (7, 1e-6),
        (5, 6.0),
    ],
)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(k: object, epsilon: float) -> None:
    assert_private_and_unbiased(SubsetSelection(k, epsilon))


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (6, 1.0), (9, 0.3)])
def test_the_channel_states_what_is_drawn(k: int, epsilon: float) -> None:
    mechanism = SubsetSelection(k, epsilon)
    a, b = mechanism.channel()
    for value, law in enumerate(exact_laws(mechanism)):
        marginal = np.zeros(k)
        for row, probability in law.items():
            marginal += (
                float(probability)
                * np.unpackbits(np.frombuffer(row, np.uint8), bitorder="little")[:k]
            )
        np.testing.assert_allclose(marginal, np.where(np.arange(k) == value, a, b), rtol=1e-13)


def test_a_set_depends_on_nothing_but_whether_it_holds_the_true_value() -> None:
    mechanism = SubsetSelection(6, 1.0)
    assert mechanism.w == 2
    for value in range(6):
        law = exact_law(mechanism, value)
        assert len(law) == math.comb(6, 2)
        kinds: dict[bool, set[Fraction]] = {True: set(), False: set()}
        for row, probability in law.items():
            kinds[bool(row[0] >> value & 1)].add(probability)
        assert len(kinds[True]) == len(kinds[False]) == 1


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, math.log(3), 5.0, 20.0])
def test_the_whole_epsilon_is_spent_and_no_more(epsilon: float) -> None:
    assert epsilon * (1 - 1e-6) < SubsetSelection(100, epsilon).epsilon <= epsilon


def test_probabilities_are_those_of_the_paper() -> None:
    mechanism = SubsetSelection(16, 1.0)
    k, w, growth = 16, 4, math.e
    scale = w * growth + k - w
    assert mechanism.w == w
    a, b = (
        w * growth / scale,
        (w - 1) / (k - 1) * w * growth / scale + w / (k - 1) * (k - w) / scale,
    )
    assert mechanism.channel() == pytest.approx((a, b), rel=1e-14)


@pytest.mark.parametrize("k", [2, 3, 10, 128])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 8.0])
def test_no_other_size_has_a_smaller_total_variance(k: int, epsilon: float) -> None:
    growth = math.exp(epsilon)

    def total(w: int) -> float:
        # The sum of lam (1 - lam) / (a - b)^2 over the values, of a population where all values are
        # as common.
        a = w * growth / (w * growth + k - w)
        b = (w - a) / (k - 1)
        return k * (w / k) * (1 - w / k) / (a - b) ** 2

    assert total(SubsetSelection(k, epsilon).w) <= min(map(total, range(1, k))) * (1 + 1e-12)


@pytest.mark.parametrize("k", [4, 9])
def test_bulk_draws_follow_the_channel_and_no_other(k: int) -> None:
    assert_bulk_draws_follow_the_channel(lambda epsilon: SubsetSelection(k, epsilon), value=2)


@pytest.mark.parametrize("value", [0, 57, 99])
def test_wide_sets_hold_the_true_value_as_often_as_stated_and_all_others_alike(value: int) -> None:
    n, mechanism = 100_000, SubsetSelection(100, 1.0)
    counts = mechanism.count(mechanism.privatize(np.full(n, value), seeded_source(value)).data)
    a, b = mechanism.channel()
    expected = np.where(np.arange(100) == value, a, b)
    # 7.2 standard deviations: 1e-9 for all hundred together.
    assert (np.abs(counts / n - expected) < 7.2 * np.sqrt(expected * (1 - expected) / n)).all()


def pure_variance(a: float, b: float, f: float) -> float:
    return b * (1 - b) / (a - b) ** 2 + f * (1 - a - b) / (a - b) + f * (1 - f)


@pytest.mark.slow
def test_simulated_errors_are_the_stated_ones() -> None:
    mechanism = SubsetSelection(4, 1.0)
    a, b = mechanism.channel()
    assert_errors_are_as_stated(
        mechanism, lambda f: pure_variance(a, b, f), np.array([0.5, 0.3, 0.15, 0.05])
    )


@pytest.mark.slow
@pytest.mark.parametrize(("k", "epsilon"), [(7, 1.0), (6, 0.2), (2, 1.0)])
def test_simulated_covariances_are_those_of_the_exact_law(k: int, epsilon: float) -> None:
    # The theory here walks every path of the draws, and not the formula that the estimate states.
    n, mechanism = 500, SubsetSelection(k, epsilon)
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02])[:k]
    shares /= shares.sum()
    law: defaultdict[bytes, float] = defaultdict(float)
    for share, conditional in zip(shares, exact_laws(mechanism), strict=True):
        for row, probability in conditional.items():
            law[row] += share * float(probability)
    rows = np.array(
        [np.unpackbits(np.frombuffer(row, np.uint8), bitorder="little")[:k] for row in law],
        dtype=float,
    )
    a, b = mechanism.channel()
    theory = np.cov(rows, rowvar=False, aweights=list(law.values()), ddof=0) / (a - b) ** 2
    assert_covariance_is(simulate(mechanism, shares, n, trials=4_000, seed=3), theory / n)


@pytest.mark.parametrize("seed", range(8))
def test_proportions_sum_to_one_whatever_was_drawn(seed: int) -> None:
    mechanism = SubsetSelection(12, 1.0)
    few = mechanism.estimate(mechanism.privatize(np.arange(12), seeded_source(seed)))
    assert few.proportions.sum() == pytest.approx(1, abs=1e-12)
    # Of a label that hardly any report supports, the error is that of a rate of b/2; with 1,200
    # reports there is no such label.
    many = mechanism.estimate(mechanism.privatize(np.tile(np.arange(12), 100), seeded_source(seed)))
    assert many.proportions.sum() == pytest.approx(1, abs=1e-12)
    assert many.covariance is not None
    np.testing.assert_allclose(many.covariance.sum(axis=0), 0, atol=1e-12)


def test_beyond_the_largest_covariance_only_variances_are_stated() -> None:
    mechanism = SubsetSelection(1500, 5.0)
    estimate = mechanism.estimate(mechanism.privatize(np.arange(1500)))
    assert estimate.covariance is None
    assert estimate.variance.shape == (1500,)


@pytest.mark.slow
def test_a_finite_population_narrows_the_error() -> None:
    assert_a_finite_population_narrows_the_error(SubsetSelection(4, 4.0))


@pytest.mark.parametrize("k", [8, ["a", "b", "c"], 9, 100])
def test_reports_and_tallies_come_back_from_their_bytes(k: object) -> None:
    assert_bytes_come_back(SubsetSelection(k, 1.0))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ([0b00001111, 0], "not have 2 values"),
        ([0b00000001, 0], "not have 2 values"),
        ([1, 2], "beyond"),
    ],
)
def test_a_set_of_another_size_or_with_spare_bits_is_refused(row: list[int], message: str) -> None:
    mechanism = SubsetSelection(9, 1.0)
    assert mechanism.w == 2
    refuse_rows(mechanism, np.array([row], dtype=np.uint8), message)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        SubsetSelection(5, epsilon)
