"""What a report tells of one person, against the exact laws; and randomized response against
Laplace."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import (
    BinaryResponse,
    DesignMatrix,
    DirectEncoding,
    Mechanism,
    OptimizedUnary,
    SymmetricUnary,
    UnaryEncoding,
    guess,
    posterior,
    proportion_errors,
    value_errors,
)
from deniable.errors import ParameterError
from deniable.estimation.laplace_comparison import laplace_matrix, response_matrix
from deniable.estimation.likelihood import likelihoods
from toolkit.references.laws import exact_laws, report_of

THREE = [[0.7, 0.2, 0.25], [0.2, 0.6, 0.25], [0.1, 0.2, 0.5]]
SURVEY = BinaryResponse(0.5, 0.5)


# --- one person

SMALL: list[Mechanism] = [
    SURVEY,
    BinaryResponse(0.3, 0.9),
    DirectEncoding(4, 1.0),
    DesignMatrix(THREE),
    OptimizedUnary(3, 1.0),
    SymmetricUnary(4, 0.5),
    UnaryEncoding(3, 0.9, 0.2),
]
PRIORS = {2: [0.9, 0.1], 3: [0.5, 0.1, 0.4], 4: [0.7, 0.1, 0.2, 0.0]}


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_the_posterior_is_that_of_the_exact_law_of_every_report(mechanism: Mechanism) -> None:
    laws, prior = exact_laws(mechanism), PRIORS[len(mechanism.labels)]
    for row in laws[0]:
        joint = np.array([p * float(law[row]) for p, law in zip(prior, laws, strict=True)])
        np.testing.assert_allclose(
            posterior(mechanism, report_of(mechanism, row), prior)[0],
            joint / joint.sum(),
            rtol=1e-12,
        )
        alike = np.array([float(law[row]) for law in laws])
        found = likelihoods(mechanism, report_of(mechanism, row))[0]
        np.testing.assert_allclose(found / found.sum(), alike / alike.sum(), rtol=1e-12)


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_guesses_are_right_as_often_as_the_exact_laws_say(
    mechanism: Mechanism, given: bool
) -> None:
    laws, k = exact_laws(mechanism), len(mechanism.labels)
    prior = PRIORS[k] if given else [1 / k] * k
    joint = np.array(
        [[p * float(law[row]) for p, law in zip(prior, laws, strict=True)] for row in laws[0]]
    )
    found = guess(mechanism, prior if given else None)
    assert math.isclose(found.best, joint.max(axis=1).sum(), rel_tol=1e-12)
    assert found.blind == max(prior)
    assert found.blind <= found.best + 1e-12
    assert found.best <= found.limit + 1e-12
    assert found.matched is not None
    for value, law in enumerate(laws):
        right = sum(
            float(law[row]) * joint[i, value] / joint[i].sum() for i, row in enumerate(laws[0])
        )
        assert math.isclose(found.matched[value], right, rel_tol=1e-12, abs_tol=1e-15)


def test_direct_encoding_reaches_the_limit_of_its_epsilon() -> None:
    found = guess(DirectEncoding(10, 2.0))
    assert math.isclose(found.best, found.limit)
    assert guess(OptimizedUnary(10, 2.0)).best < 0.8 * found.best


def test_many_bits_are_guessed_without_listing_reports() -> None:
    found = guess(OptimizedUnary(5_000, 1.0))
    assert found.matched is None
    assert found.blind < found.best < found.limit


@pytest.mark.parametrize("prior", [[0.5, 0.6], [1.5, -0.5], [1.0], "ab", [math.nan, 1.0]])
def test_a_prior_that_is_no_distribution_is_refused(prior: Any) -> None:
    with pytest.raises(ParameterError, match="prior"):
        posterior(SURVEY, [1], prior)


# --- against Laplace


@pytest.mark.parametrize("k", [2, 3, 8])
def test_the_laplace_matrix_is_rounded_noise(k: int) -> None:
    noise = stats.laplace(scale=(k - 1) / 1.5)
    expected = np.array(
        [[noise.cdf(u - v + 0.5) - noise.cdf(u - v - 0.5) for v in range(k)] for u in range(k)]
    )
    expected[0] = [noise.cdf(0.5 - v) for v in range(k)]
    expected[-1] = [noise.sf(k - 1.5 - v) for v in range(k)]
    np.testing.assert_allclose(laplace_matrix(k, 1.5), expected, atol=1e-14)
    np.testing.assert_allclose(
        response_matrix(k, 1.5), DirectEncoding(k, 1.5).channel(), atol=1e-12
    )


def test_theorem_2_holds_for_every_prior() -> None:
    for epsilon in (0.05, 0.5, 1.0, 3.0, 8.0):
        for share in np.linspace(0, 1, 41):
            errors = value_errors(2, epsilon, [1 - share, share])
            assert np.all(errors.response <= errors.laplace + 1e-12)


def test_theorem_3_holds_for_every_share() -> None:
    for epsilon in (0.05, 0.5, 1.0, 3.0, 8.0):
        for share in np.linspace(0, 1, 41):
            errors = proportion_errors(2, epsilon, 100, [1 - share, share])
            assert np.all(errors.response <= errors.laplace)


def test_theorem_4_does_not_hold() -> None:
    ends = value_errors(3, 0.1)
    assert ends.means[0] < ends.means[1]
    assert ends.response[0] > ends.laplace[0]
    many = value_errors(20, 0.5)
    assert many.means[0] > many.means[1]
    distant = value_errors(10, 1.0, [0.5, *[0] * 8, 0.5])
    assert np.all(distant.response[[0, 9]] > distant.laplace[[0, 9]] + 0.03)
    rng = np.random.default_rng(1)
    for _ in range(200):
        errors = value_errors(10, 4.0, rng.dirichlet(np.ones(10)))
        assert np.all(errors.response < errors.laplace)


def test_beyond_two_values_proportions_are_better_under_randomized_response() -> None:
    rng = np.random.default_rng(2)
    for k in (3, 6, 12):
        for epsilon in (0.1, 1.0, 5.0):
            for _ in range(20):
                errors = proportion_errors(k, epsilon, 100, rng.dirichlet(np.ones(k)))
                assert np.all(errors.response < errors.laplace)


def test_rounded_noise_loses_less_than_it_is_granted() -> None:
    assert math.isclose(value_errors(2, 1.0).laplace_epsilon, math.log(2 * math.exp(0.5) - 1))
    assert value_errors(6, 1.0).laplace_epsilon < 1


def test_both_errors_are_those_of_simulated_guesses_and_estimates() -> None:
    """A million guesses: each frequency within 5 standard errors; 20,000 crowds: each variance
    within 5."""
    rng, k, epsilon, prior = np.random.default_rng(3), 4, 1.0, np.array([0.4, 0.3, 0.2, 0.1])
    guesses, proportions = (
        value_errors(k, epsilon, prior),
        proportion_errors(k, epsilon, 500, prior),
    )
    noisy = np.round(
        np.arange(k)[:, np.newaxis] + rng.laplace(scale=(k - 1) / epsilon, size=(k, 250_000))
    )
    for said, wrong, spread in (
        (np.clip(noisy, 0, k - 1).astype(int), guesses.laplace, proportions.laplace),
        (
            np.array(
                [rng.choice(k, 250_000, p=response_matrix(k, epsilon)[:, v]) for v in range(k)]
            ),
            guesses.response,
            proportions.response,
        ),
    ):
        channel = np.array([np.bincount(row, minlength=k) / row.size for row in said]).T
        after = channel * prior / (channel @ prior)[:, np.newaxis]
        for value in range(k):
            right = rng.random(said.shape[1]) < after[said[value], value]
            assert abs(1 - right.mean() - wrong[value]) < 5 * math.sqrt(0.25 / right.size)
        matrix = (
            laplace_matrix(k, epsilon) if wrong is guesses.laplace else response_matrix(k, epsilon)
        )
        estimates = np.linalg.solve(
            matrix, rng.multinomial(500, matrix @ prior, size=20_000).T / 500
        )
        np.testing.assert_allclose(estimates.var(axis=1), spread, rtol=5 * math.sqrt(2 / 20_000))


@pytest.mark.parametrize(
    ("k", "epsilon"),
    [(1, 1.0), (2.5, 1.0), (True, 1.0), (3, 0), (3, -1.0), (3, math.inf), (3, math.nan)],
)
def test_impossible_designs_are_refused(k: Any, epsilon: Any) -> None:
    with pytest.raises(ParameterError, match=r"k = |epsilon = "):
        value_errors(k, epsilon)
