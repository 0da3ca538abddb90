"""Hadamard response against its exact law, its formulas and the Hadamard matrix itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.linalg import hadamard

from deniable import HadamardResponse
from deniable.errors import ParameterError
from deniable.mechanisms.protocols.hadamard import walsh_hadamard
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
    exact_laws,
)

SHARES = np.array([0.5, 0.3, 0.15, 0.05])


@pytest.mark.parametrize(
    ("k", "epsilon"), [(2, 1.0), (3, 0.5), (["a", "b", "c", "d"], 2.0), (7, 1e-6), (8, 1.0)]
)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(k: object, epsilon: float) -> None:
    assert_private_and_unbiased(HadamardResponse(k, epsilon))


@pytest.mark.parametrize("k", [2, 5, 8])
def test_the_channel_states_what_is_drawn(k: int) -> None:
    mechanism = HadamardResponse(k, 1.0)
    a, b = mechanism.channel()
    matrix = hadamard(mechanism.n_outputs)
    for value, law in enumerate(exact_laws(mechanism)):
        drawn = np.array([float(law[bytes([y])]) for y in range(mechanism.n_outputs)])
        plus = matrix[1 : k + 1] > 0
        chance = np.where(np.arange(k) == value, a, b)
        np.testing.assert_allclose(plus @ drawn, chance, rtol=1e-14)
        # Within each half, no column is likelier than another.
        np.testing.assert_allclose(
            drawn, np.where(plus[value], a, 1 - a) * 2 / mechanism.n_outputs, rtol=1e-14
        )


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, math.log(3), 5.0, 30.0])
def test_the_whole_epsilon_is_spent_and_no_more(epsilon: float) -> None:
    assert epsilon * (1 - 1e-6) < HadamardResponse(100, epsilon).epsilon <= epsilon


def test_probabilities_are_those_of_the_paper() -> None:
    assert HadamardResponse(5, 1.0).channel() == pytest.approx(
        (math.e / (math.e + 1), 0.5), rel=1e-15
    )


@pytest.mark.parametrize(
    ("k", "outputs"), [(2, 4), (3, 4), (4, 8), (7, 8), (8, 16), (1023, 1024), (1024, 2048)]
)
def test_there_are_as_many_columns_as_the_next_power_of_two_above_k(k: int, outputs: int) -> None:
    assert HadamardResponse(k, 1.0).n_outputs == outputs


@pytest.mark.parametrize("k", [4, 11])
def test_bulk_draws_follow_the_channel_and_no_other(k: int) -> None:
    assert_bulk_draws_follow_the_channel(lambda epsilon: HadamardResponse(k, epsilon), value=2)


@pytest.mark.parametrize("size", [1, 2, 8, 256])
def test_the_fast_transform_multiplies_by_the_hadamard_matrix(size: int) -> None:
    values = np.random.default_rng(size).integers(-1000, 1000, size)
    before = values.copy()
    np.testing.assert_array_equal(
        walsh_hadamard(values), hadamard(size) @ values if size > 1 else values
    )
    np.testing.assert_array_equal(values, before)


def test_simulated_errors_are_the_stated_ones() -> None:
    scale = (math.e + 1) / (math.e - 1)
    assert_errors_are_as_stated(HadamardResponse(4, 1.0), lambda f: scale**2 - f**2, SHARES)


@pytest.mark.parametrize("k", [7, 5])
def test_simulated_covariances_are_the_stated_ones(k: int) -> None:
    # With k = 7 every product of two rows is a third value's row; with k = 5 some are nobody's.
    n, scale = 500, (math.exp(2) + 1) / (math.exp(2) - 1)
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02])[:k]
    shares /= shares.sum()
    by_row = np.zeros(8)
    by_row[1 : k + 1] = shares
    rows = np.arange(1, k + 1)
    theory = scale * by_row[rows[:, None] ^ rows] - np.outer(shares, shares)
    np.fill_diagonal(theory, scale**2 - shares**2)
    assert_covariance_is(
        simulate(HadamardResponse(k, 2.0), shares, n, trials=4_000, seed=3), theory / n
    )


def test_the_stated_covariance_is_that_of_a_sample() -> None:
    # The estimate is a mean of one vector a report, so its unbiased covariance is the sample's over
    # n.
    mechanism = HadamardResponse(5, 1.0)
    reports = mechanism.privatize(np.arange(200) % 5)
    alone = np.array([mechanism.solve(mechanism.count(r.data), 1)[0] for r in reports])
    stated = mechanism.estimate(reports).covariance
    assert stated is not None
    np.testing.assert_allclose(stated, np.cov(alone, rowvar=False) / 200, rtol=1e-12, atol=1e-15)


def test_beyond_the_largest_covariance_only_variances_are_stated() -> None:
    mechanism = HadamardResponse(1500, 1.0)
    estimate = mechanism.estimate(mechanism.privatize(np.arange(1500)))
    assert estimate.covariance is None
    assert estimate.variance.shape == (1500,)


def test_a_finite_population_narrows_the_error() -> None:
    assert_a_finite_population_narrows_the_error(HadamardResponse(4, 4.0))


@pytest.mark.parametrize("k", [4, ["a", "b", "c"], 300])
def test_reports_and_tallies_come_back_from_their_bytes(k: object) -> None:
    assert_bytes_come_back(HadamardResponse(k, 1.0))


def test_a_column_that_is_not_there_is_refused() -> None:
    refuse_rows(HadamardResponse(5, 1.0), np.array([0, 8], dtype=np.uint8), "outside 0 to 7")


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        HadamardResponse(5, epsilon)
