"""Projective geometry response against its exact law, its geometry and published errors."""

from __future__ import annotations

import numpy as np
import pytest

from deniable import HadamardResponse, ProjectiveResponse, SubsetSelection, seeded_source
from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.mechanisms.protocols.projective.response import best_field, projective_variance
from deniable.mechanisms.protocols.projective.space import ProjectiveSpace, is_prime
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


@pytest.mark.parametrize(
    ("values", "epsilon", "q"),
    [
        (2, 1.0, None),
        (["a", "b", "c", "d"], 1.0, 3),
        (7, 0.5, 2),
        (6, 2.0, 5),
        (13, 1.0, 3),
        (9, 1e-6, 2),
        (5, 6.0, None),
    ],
)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(
    values: object, epsilon: float, q: int | None
) -> None:
    assert_private_and_unbiased(ProjectiveResponse(values, epsilon, q))


@pytest.mark.parametrize(("k", "q"), [(4, 3), (13, 3), (7, 2), (10, 2)])
def test_the_channel_states_what_is_drawn(k: int, q: int) -> None:
    mechanism = ProjectiveResponse(k, 1.0, q)
    a, b = mechanism.channel()
    dtype, _ = mechanism.layout
    for value, law in enumerate(exact_laws(mechanism)):
        assert len(law) == mechanism.n_outputs
        marginal = np.zeros(k)
        for row, probability in law.items():
            marginal += float(probability) * mechanism.supports(np.frombuffer(row, dtype))[0]
        np.testing.assert_allclose(marginal, np.where(np.arange(k) == value, a, b), rtol=1e-13)


@pytest.mark.parametrize(("q", "t"), [(2, 2), (2, 5), (3, 3), (5, 3), (7, 2)])
def test_any_two_points_are_on_as_many_hyperplanes(q: int, t: int) -> None:
    space = ProjectiveSpace(q, t)
    points = np.arange(space.n_points)
    vectors = space.vectors(space.codes(points))
    np.testing.assert_array_equal(space.numbers(vectors), points)
    np.testing.assert_array_equal(space.numbers(vectors * (q - 1) % q), points)
    incidence = ((vectors @ vectors.T) % q == 0).astype(int)
    common = incidence @ incidence.T
    assert (np.diagonal(common) == space.below(t - 1)).all()
    assert (common[~np.eye(len(points), dtype=bool)] == space.below(t - 2)).all()
    counts = np.random.default_rng(q).integers(0, 1000, len(points))
    np.testing.assert_array_equal(space.orthogonal_sums(counts), incidence @ counts)


@pytest.mark.parametrize(
    ("k", "epsilon", "q", "published"),
    [
        (64, 0.5, 3, "15.58"),
        (64, 3.0, 17, "0.2282"),
        (1024, 3.0, 19, "0.2218"),
        (1024, 5.0, 139, "0.02816"),
    ],
)
def test_the_best_prime_and_its_variance_are_the_known_ones(
    k: int, epsilon: float, q: int, published: str
) -> None:
    """By independent code, n times the mean variance of equally frequent values, coins only."""
    assert best_field(k, epsilon) == q
    assert f"{float(projective_variance(k, q, exact.exp(epsilon))):.4g}" == published


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0, 5.0])
@pytest.mark.parametrize("k", [64, 1024])
def test_the_error_is_close_to_that_of_subset_selection(k: int, epsilon: float) -> None:
    def total(mechanism: SubsetSelection | ProjectiveResponse) -> float:
        a, b = mechanism.channel()
        return (b * (1 - b) * (k - 1) + a * (1 - a)) / (k * (a - b) ** 2)

    assert total(ProjectiveResponse(k, epsilon)) < 1.16 * total(SubsetSelection(k, epsilon))


def test_the_stated_variance_is_that_of_the_channel() -> None:
    a, b = ProjectiveResponse(100, 2.0).channel()
    expected = (99 * b * (1 - b) + a * (1 - a)) / (100 * (a - b) ** 2)
    stated = projective_variance(100, best_field(100, 2.0), exact.exp(2.0))
    assert float(stated) == pytest.approx(expected, rel=1e-12)


def test_at_large_epsilon_it_errs_far_less_than_hadamard_response() -> None:
    projective, hadamard = (
        kind(22_000, 5.0).stderr(100_000, 0.001) for kind in (ProjectiveResponse, HadamardResponse)
    )
    assert projective < hadamard / 5


@pytest.mark.parametrize("k", [8, 64])
def test_the_error_never_rises_with_epsilon(k: int) -> None:
    epsilons = np.linspace(0.1, 8, 60).tolist()
    errors = [float(projective_variance(k, best_field(k, e), exact.exp(e))) for e in epsilons]
    assert np.all(np.diff(errors) <= 0)


def test_bulk_draws_follow_the_channel_and_no_other() -> None:
    assert_bulk_draws_follow_the_channel(
        lambda epsilon: ProjectiveResponse(10, epsilon, 3), value=7
    )


@pytest.mark.slow
def test_simulated_errors_are_the_stated_ones() -> None:
    mechanism = ProjectiveResponse(4, 1.0)
    a, b = mechanism.channel()
    assert_errors_are_as_stated(
        mechanism,
        lambda f: b * (1 - b) / (a - b) ** 2 + f * (1 - a - b) / (a - b) + f * (1 - f),
        np.array([0.5, 0.3, 0.15, 0.05]),
    )


@pytest.mark.slow
def test_simulated_covariances_are_those_of_the_exact_law() -> None:
    n, mechanism = 500, ProjectiveResponse(7, 1.0, 2)
    shares = np.array([0.4, 0.25, 0.15, 0.1, 0.05, 0.03, 0.02])
    channel = np.zeros((mechanism.n_outputs, 7))
    dtype, _ = mechanism.layout
    for value, law in enumerate(exact_laws(mechanism)):
        for row, probability in law.items():
            channel[int(np.frombuffer(row, dtype)[0]), value] = float(probability)
    rate = channel @ shares
    sets = mechanism.supports(np.arange(mechanism.n_outputs)).astype(float)
    a, b = mechanism.channel()
    theory = np.cov(sets, rowvar=False, aweights=rate, ddof=0) / (a - b) ** 2
    assert_covariance_is(simulate(mechanism, shares, n, trials=4_000, seed=3), theory / n)


@pytest.mark.slow
def test_a_finite_population_narrows_the_error() -> None:
    assert_a_finite_population_narrows_the_error(ProjectiveResponse(4, 4.0))


@pytest.mark.parametrize("k", [8, ["a", "b", "c"], 300])
def test_reports_and_tallies_come_back_from_their_bytes(k: object) -> None:
    assert_bytes_come_back(ProjectiveResponse(k, 1.0))


def test_a_point_outside_the_space_is_refused() -> None:
    refuse_rows(ProjectiveResponse(4, 1.0, 3), np.array([4], dtype=np.uint8), "outside 0 to 3")


@pytest.mark.parametrize(("q", "message"), [(4, "prime"), (1, "q = 1"), (8191, "too large")])
def test_a_field_that_cannot_be_used_is_refused(q: int, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        ProjectiveResponse(64, 1.0, q)


def test_primes_are_primes() -> None:
    assert [q for q in range(30) if is_prime(q)] == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]


def test_large_domains_are_counted_without_a_matrix() -> None:
    mechanism = ProjectiveResponse(20_000, 3.0)
    people = np.repeat([3, 19_999], [30_000, 10_000])
    estimate = mechanism.estimate(mechanism.privatize(people, seeded_source(1)))
    # 6 standard errors: missed less than once in 1e8
    assert estimate.proportions[3] == pytest.approx(0.75, abs=6 * estimate.stderr[3])
    assert estimate.proportions[19_999] == pytest.approx(0.25, abs=6 * estimate.stderr[19_999])
    assert estimate.stderr.max() < 0.01
