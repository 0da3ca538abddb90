"""Random projection against its exact law, its formulas and a matrix made by other means."""

from __future__ import annotations

import hashlib
import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from deniable import RandomProjection, seeded_source
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
    exact_laws,
)

SHARES = np.array([0.5, 0.3, 0.15, 0.05])
SCALE = (math.e + 1) / (math.e - 1)


def public_matrix(k: int, m: int) -> NDArray[np.float64]:
    """Phi, made of the keystream its key is said to make."""
    key = hashlib.sha256(
        b"deniable seeded source" + f"random projection of {k} values on {m} rows".encode()
    ).digest()[:16]
    length = (k + 7) // 8
    stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(m * length))
    bits = [[stream[r * length + v // 8] >> (v % 8) & 1 for v in range(k)] for r in range(m)]
    return (2 * np.array(bits) - 1) / math.sqrt(m)


@pytest.mark.parametrize(
    ("k", "epsilon", "m"),
    [(2, 1.0, 16), (3, 0.5, 8), (["a", "b", "c", "d"], 2.0, 32), (9, 1e-6, 64)],
)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(
    k: object, epsilon: float, m: int
) -> None:
    mechanism = RandomProjection(k, epsilon, m)
    assert mechanism.invertible
    assert_private_and_unbiased(mechanism)


@pytest.mark.parametrize(("k", "m"), [(2, 16), (10, 5), (9, 64)])
def test_the_channel_states_what_is_drawn(k: int, m: int) -> None:
    mechanism = RandomProjection(k, 1.0, m)
    signs = np.sign(public_matrix(k, m))
    channel = mechanism.channel()
    np.testing.assert_allclose(channel.sum(axis=0), 1, rtol=1e-14)
    kept = math.e / (math.e + 1)
    for value, law in enumerate(exact_laws(mechanism)):
        drawn = np.array([float(law[bytes([report])]) for report in range(2 * m)])
        np.testing.assert_allclose(drawn, channel[:, value], rtol=1e-14)
        for row in range(m):
            plus = kept if signs[row, value] > 0 else 1 - kept
            assert drawn[2 * row : 2 * row + 2] * m == pytest.approx([1 - plus, plus], rel=1e-14)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, math.log(3), 5.0, 30.0])
def test_the_whole_epsilon_is_spent_and_no_more(epsilon: float) -> None:
    assert epsilon * (1 - 1e-6) < RandomProjection(100, epsilon).epsilon <= epsilon


@pytest.mark.parametrize(
    ("k", "m"), [(2, 1024), (64, 1024), (65, 2048), (1000, 16_384), (5000, 65_536), (1 << 20, 4096)]
)
def test_the_default_has_sixteen_rows_a_value_within_bounds(k: int, m: int) -> None:
    assert RandomProjection(k, 1.0).m == m


def test_bulk_draws_follow_the_channel_and_no_other() -> None:
    assert_bulk_draws_follow_the_channel(
        lambda epsilon: RandomProjection(11, epsilon, m=16), value=9
    )


def test_simulated_errors_are_the_stated_ones() -> None:
    phi = public_matrix(4, 16)
    inverse = np.diagonal(np.linalg.inv(phi.T @ phi))
    spread = dict(zip(SHARES, inverse, strict=True))
    assert_errors_are_as_stated(
        RandomProjection(4, 1.0, m=16), lambda f: SCALE**2 * spread[f] - f**2, SHARES
    )


@pytest.mark.parametrize("estimator", ["least squares", "paper"])
def test_simulated_covariances_are_the_stated_ones(estimator: str) -> None:
    n, mechanism = 500, RandomProjection(4, 1.0, m=16)
    phi = public_matrix(4, 16)
    gram = phi.T @ phi
    centre, second = (
        (SHARES, np.linalg.inv(gram)) if estimator == "least squares" else (gram @ SHARES, gram)
    )
    theory = (SCALE**2 * second - np.outer(centre, centre)) / n
    estimates = simulate(mechanism, SHARES, n, trials=4_000, seed=3, estimator=estimator)
    assert_covariance_is(estimates, theory)
    # 6.5 standard deviations: below 1e-9 for the four of them.
    error = np.mean([e.proportions for e in estimates], axis=0) - centre
    assert (np.abs(error) < 6.5 * np.sqrt(np.diagonal(theory) / len(estimates))).all()


def test_the_papers_estimate_stops_at_its_floor_and_least_squares_does_not() -> None:
    # A million people at epsilon 8: coins and sampling leave an error of about 0.001, a fortieth of
    # the floor of 512 rows.
    k, n = 128, 1_000_000
    mechanism = RandomProjection(k, 8.0, m=512)
    assert mechanism.floor == pytest.approx(512**-0.5)
    people = np.where(np.arange(n) % 10 < 9, 7, np.arange(n) % k)
    truth = np.bincount(people, minlength=k) / n
    reports = mechanism.privatize(people, seeded_source(8))

    def error(estimator: str) -> float:
        off = mechanism.estimate(reports, estimator=estimator).proportions - truth
        return float(np.sqrt(np.mean(np.delete(off, 7) ** 2)))

    assert 0.8 * 0.9 * mechanism.floor < error("paper") < 1.2 * 0.9 * mechanism.floor
    assert error("least squares") < 0.05 * mechanism.floor


def test_inverting_costs_what_the_rows_leave() -> None:
    # At m = 16 k the mean diagonal of the inverse is near 1 / (1 - 1/16).
    mechanism = RandomProjection(64, 1.0)
    estimate = mechanism.estimate(mechanism.privatize(np.zeros(100, dtype=int)))
    spread = (estimate.variance * 99 + estimate.proportions**2) / SCALE**2
    assert spread.mean() == pytest.approx(16 / 15, rel=0.02)


def test_with_fewer_rows_than_values_only_the_papers_estimate_is_left_and_says_so() -> None:
    mechanism = RandomProjection(20, 1.0, m=16)
    reports = mechanism.privatize(np.arange(20))
    estimate = mechanism.estimate(reports)
    np.testing.assert_array_equal(
        estimate.proportions, mechanism.estimate(reports, estimator="paper").proportions
    )
    assert "m = 16 rows leave no other for k = 20 values" in estimate.notes[0]
    assert "0.25" in estimate.notes[0]
    with pytest.raises(ParameterError, match="estimator = 'least squares' needs"):
        mechanism.estimate(reports, estimator="least squares")


def test_dependent_columns_leave_only_the_papers_estimate() -> None:
    ranks = {m: np.linalg.matrix_rank(public_matrix(4, m)) for m in range(4, 9)}
    assert {rank < 4 for rank in ranks.values()} == {
        True,
        False,
    }, "no case of each kind to tell apart"
    for m, rank in ranks.items():
        assert RandomProjection(4, 1.0, m=m).invertible == (rank == 4)


def test_the_floor_is_noted_where_it_applies_and_only_there() -> None:
    mechanism = RandomProjection(20, 1.0)
    tally = mechanism.tally().update(mechanism.privatize(np.arange(20)))
    assert tally.estimate().notes == ()
    assert "intervals do not cover that" in tally.estimate(estimator="paper").notes[0]


def test_an_unknown_estimator_is_refused() -> None:
    mechanism = RandomProjection(20, 1.0)
    with pytest.raises(ParameterError, match="estimator = 'best' must be"):
        mechanism.estimate(mechanism.privatize([1, 2]), estimator="best")


def test_beyond_the_largest_covariance_only_variances_are_stated() -> None:
    for estimator in ("paper", "least squares"):
        mechanism = RandomProjection(1100, 1.0, m=2048)
        estimate = mechanism.estimate(mechanism.privatize(np.arange(1100)), estimator=estimator)
        assert estimate.covariance is None
        assert estimate.variance.shape == (1100,)


def test_a_finite_population_narrows_the_error() -> None:
    assert_a_finite_population_narrows_the_error(RandomProjection(4, 4.0))


@pytest.mark.parametrize("k", [4, ["a", "b", "c"], 300])
def test_reports_and_tallies_come_back_from_their_bytes(k: object) -> None:
    assert_bytes_come_back(RandomProjection(k, 1.0))


def test_a_row_that_is_not_there_is_refused() -> None:
    refuse_rows(
        RandomProjection(5, 1.0, m=10), np.array([0, 20], dtype=np.uint8), "outside 0 to 19"
    )


@pytest.mark.parametrize("m", [1, 0, -2, 2.5, "4", True, (1 << 24) + 1])
def test_an_impossible_number_of_rows_is_refused(m: object) -> None:
    with pytest.raises(ParameterError, match=r"m = .* must be a whole number from 2 to 16777216"):
        RandomProjection(5, 1.0, m)  # type: ignore[arg-type]


def test_a_matrix_that_no_memory_holds_is_refused() -> None:
    with pytest.raises(
        ParameterError, match="m times k = 8192 \\* 1048576 must be at most 4294967296 signs"
    ):
        RandomProjection(1 << 20, 1.0, m=8192)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        RandomProjection(5, epsilon)
