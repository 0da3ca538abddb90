"""Regression on randomized answers: unbiased, with the standard errors it states, where ignoring
the coins is neither."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable import (
    BinaryResponse,
    DesignMatrix,
    DirectEncoding,
    Mechanism,
    OptimizedUnary,
    Reports,
    regress,
)

Floats = NDArray[np.float64]
BETA = np.array([-0.6, 0.8, -0.5])


def covariates(rng: np.random.Generator, n: int) -> Floats:
    return np.column_stack([rng.uniform(-1.5, 1.5, n), rng.integers(0, 2, n)])


def answers(rng: np.random.Generator, x: Floats, beta: Floats) -> NDArray[np.intp]:
    """Per row one of the values, by their log-odds against the first."""
    logits = np.column_stack([np.zeros(len(x)), beta[:, 0] + x @ beta[:, 1:].T])
    chances = np.exp(logits)
    chances /= chances.sum(axis=1, keepdims=True)
    return np.asarray((rng.random(len(x))[:, np.newaxis] > np.cumsum(chances, axis=1)).sum(axis=1))


def reported(
    rng: np.random.Generator, matrix: Floats, values: NDArray[np.intp]
) -> NDArray[np.intp]:
    return np.asarray(
        (rng.random(values.size)[:, np.newaxis] > np.cumsum(matrix[:, values], axis=0).T).sum(
            axis=1
        )
    )


def assert_errors_are_as_stated(
    mechanism: Mechanism, beta: Floats, n: int, bias: float, trials: int = 2_000
) -> None:
    """Stated over empirical standard deviation within 5 % at 2,000 trials; the mean off by at most
    `bias` standard errors.

    A maximum-likelihood estimate has a bias of order 1/n beside its error of order 1/sqrt(n).
    """
    rng = np.random.default_rng(1)
    x = covariates(rng, n)[:, : beta.shape[1] - 1]
    fitted, variances = [], []
    for _ in range(trials):
        fit = regress(mechanism, reported(rng, mechanism.channel(), answers(rng, x, beta)), x)
        fitted.append(fit.coefficients.ravel())
        variances.append(np.diagonal(fit.covariance))
    spread = np.std(fitted, axis=0, ddof=1)
    np.testing.assert_allclose(np.sqrt(np.mean(variances, axis=0)) / spread, 1, atol=0.05)
    np.testing.assert_array_less(
        np.abs(np.mean(fitted, axis=0) - beta.ravel()), (bias + 4.5 / np.sqrt(trials)) * spread
    )


def test_yes_no_regression_is_unbiased_with_the_standard_errors_stated() -> None:
    assert_errors_are_as_stated(
        BinaryResponse.from_epsilon(2.0), BETA[np.newaxis], n=2_000, bias=0.08
    )


def test_categories_under_a_matrix_are_unbiased_with_the_standard_errors_stated() -> None:
    survey = DesignMatrix([[0.8, 0.1, 0.15], [0.1, 0.8, 0.15], [0.1, 0.1, 0.7]])
    assert_errors_are_as_stated(survey, np.array([[0.3, 0.7], [-0.2, -0.5]]), n=1_500, bias=0.08)


def test_ignoring_the_coins_is_biased_towards_nothing() -> None:
    rng, survey, n = np.random.default_rng(2), BinaryResponse.from_epsilon(1.0), 40_000
    x = covariates(rng, n)
    reports = reported(rng, survey.channel(), answers(rng, x, BETA[np.newaxis]))
    fit = regress(survey, reports, x)
    naive = regress(DesignMatrix([[1 - 1e-9, 1e-9], [1e-9, 1 - 1e-9]]), reports, x)
    assert np.all(np.abs(fit.coefficients[0] - BETA) < 4.5 * fit.stderr[0])
    assert np.all(np.abs(naive.coefficients[0, 1:]) < 0.5 * np.abs(BETA[1:]))
    assert abs(naive.coefficients[0, 1] - BETA[1]) > 20 * naive.stderr[0, 1]


@pytest.mark.parametrize("k", [2, 3])
def test_an_unrandomized_answer_gives_ordinary_logistic_regression(k: int) -> None:
    """Against Newton's method written down for that case alone."""
    rng, n = np.random.default_rng(3), 2_000
    x = covariates(rng, n)
    beta = np.array([[0.4, -0.7, 0.3], [-0.2, 0.5, 0.8]])[: k - 1]
    values = answers(rng, x, beta)
    design = np.column_stack([np.ones(n), x])
    ordinary = np.zeros_like(beta)
    for _ in range(30):
        logits = np.column_stack([np.zeros(n), design @ ordinary.T])
        chances = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        gradient = np.array(
            [design.T @ ((values == v) - chances[:, v]) for v in range(1, k)]
        ).ravel()
        blocks = [
            [
                (design * (chances[:, u] * ((u == v) - chances[:, v]))[:, np.newaxis]).T @ design
                for v in range(1, k)
            ]
            for u in range(1, k)
        ]
        information = np.block(blocks)
        ordinary += np.linalg.solve(information, gradient).reshape(ordinary.shape)
    tiny = 1e-12
    fit = regress(DesignMatrix(np.eye(k) * (1 - k * tiny) + tiny), values, x)
    np.testing.assert_allclose(fit.coefficients, ordinary, atol=1e-5)
    np.testing.assert_allclose(fit.covariance, np.linalg.inv(information), rtol=1e-4)


def test_unary_reports_can_be_regressed_and_tell_what_their_information_promises() -> None:
    rng, survey, n, beta = (
        np.random.default_rng(4),
        OptimizedUnary(3, 3.0),
        20_000,
        np.array([[0.3, 0.7], [-0.2, -0.5]]),
    )
    x = rng.uniform(-1.5, 1.5, (n, 1))
    values = answers(rng, x, beta)
    a, b = survey.channel()
    bits = rng.random((n, 3)) < np.where(np.arange(3) == values[:, np.newaxis], a, b)
    fit = regress(survey, Reports(survey, np.packbits(bits, axis=1, bitorder="little")), x)
    assert np.all(np.abs(fit.coefficients - beta) < 4.5 * fit.stderr)
    direct = regress(
        DirectEncoding(3, 3.0), reported(rng, DirectEncoding(3, 3.0).channel(), values), x
    )
    # for three values direct encoding is the better protocol
    assert np.all(fit.stderr > direct.stderr)
