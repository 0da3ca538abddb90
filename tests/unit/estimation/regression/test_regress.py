"""Regression on randomized answers: identities and refusals; its errors are simulated in
tests/statistical."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import optimize, stats

from deniable import (
    BinaryResponse,
    regress,
)
from deniable.errors import FitError, NoReportsError, ParameterError

minimize: Any = optimize.minimize  # its stubs do not know every way to call it
SURVEY = BinaryResponse(0.5, 0.5)


def people(n: int = 400) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((n, 2))
    return x, (rng.random(n) < 1 / (1 + np.exp(-x[:, 0]))).astype(int)


def test_without_covariates_that_matter_the_intercept_is_the_unbiased_share() -> None:
    answers = [1] * 150 + [0] * 250
    fit = regress(SURVEY, answers, np.zeros((400, 0)))
    share = SURVEY.estimate(answers).proportions[1]
    assert math.isclose(fit.coefficients[0, 0], math.log(share / (1 - share)), abs_tol=1e-6)
    deviation = fit.stderr[0, 0] * share * (1 - share)
    assert math.isclose(
        deviation, SURVEY.estimate(answers).stderr[1] * math.sqrt(399 / 400), rel_tol=1e-6
    )


def test_the_likelihood_is_at_its_maximum() -> None:
    x, y = people()
    fit = regress(SURVEY, y, x)

    def likelihood(beta: Any) -> float:
        chance = 0.25 + 0.5 / (1 + np.exp(-(beta[0] + x @ beta[1:])))
        return float(np.log(np.where(y, chance, 1 - chance)).sum())

    assert math.isclose(fit.log_likelihood, likelihood(fit.coefficients[0]), rel_tol=1e-12)
    best = minimize(lambda beta: -likelihood(beta), np.zeros(3), method="BFGS")
    np.testing.assert_allclose(fit.coefficients[0], best.x, atol=1e-4)


def test_covariates_may_be_scaled_and_named_and_come_in_frames() -> None:
    x, y = people()
    plain = regress(SURVEY, y, x)
    frame = pd.DataFrame({"age": x[:, 0] * 1e4, "income": x[:, 1] / 1e4})
    for table in (frame, pl.DataFrame({name: frame[name].to_numpy() for name in frame})):
        fit = regress(SURVEY, y, table)
        assert fit.names == ("(intercept)", "age", "income")
        np.testing.assert_allclose(fit.coefficients * [1, 1e4, 1e-4], plain.coefficients, atol=1e-6)
        np.testing.assert_allclose(fit.z, plain.z, rtol=1e-4)
        np.testing.assert_allclose(fit.predict(table), plain.predict(x), atol=1e-6)
    assert "income" in str(regress(SURVEY, y, frame))


def test_predictions_are_the_models_probabilities() -> None:
    x, y = people()
    fit = regress(SURVEY, y, x, intercept=False)
    np.testing.assert_allclose(fit.predict(x)[:, 1], 1 / (1 + np.exp(-x @ fit.coefficients[0])))
    np.testing.assert_allclose(fit.predict(x).sum(axis=1), 1)
    with pytest.raises(ParameterError, match=r"names = .* must have one name per covariate, 1"):
        fit.predict(x[:, :1])


def test_intervals_and_p_values_are_walds() -> None:
    fit = regress(SURVEY, people()[1], people()[0])
    np.testing.assert_allclose(
        fit.p_value, 2 * stats.norm.sf(np.abs(fit.coefficients / fit.stderr))
    )
    np.testing.assert_allclose(
        fit.interval(0.9)[..., 1] - fit.coefficients, stats.norm.ppf(0.95) * fit.stderr
    )


def test_which_covariate_is_redundant_is_said() -> None:
    x, y = people()
    with pytest.raises(FitError, match="'x3' is a linear combination of"):
        regress(SURVEY, y, np.column_stack([x, x[:, 0] - 2 * x[:, 1]]))
    with pytest.raises(FitError, match="'x2' is a linear combination"):
        regress(SURVEY, y, np.column_stack([x[:, 0], np.ones(len(x))]))
    with pytest.raises(FitError, match="'x1' is 0 for everybody"):
        regress(SURVEY, y, np.zeros(len(y)))


def test_a_likelihood_without_a_maximum_is_said_to_have_none() -> None:
    x, _ = people()
    truthful = BinaryResponse(1 - 1e-9, 0.5)
    with pytest.raises(FitError, match="no maximum"):
        regress(truthful, (x[:, 0] > 0).astype(int), x)  # the covariate separates the answers
    with pytest.raises(FitError, match="no maximum"):
        # fewer yes than the coins alone would say
        regress(SURVEY, [1] * 40 + [0] * 360, np.zeros((400, 0)))


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        (np.zeros(3), r"len\(covariates\) = 3 must be"),
        (
            np.array([[math.nan]] * 4),
            "covariates.0. = '…' must not have a missing or infinite entry",
        ),
        ([["a"], ["b"], ["c"], ["d"]], "must hold numbers only"),
        (np.zeros((4, 1, 1)), "must be .people, covariates."),
    ],
)
def test_covariates_that_do_not_fit_are_refused(covariates: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        regress(SURVEY, [0, 1, 1, 0], covariates)


def test_regression_needs_reports_and_as_many_names_as_columns() -> None:
    with pytest.raises(NoReportsError):
        regress(SURVEY, np.array([], dtype=int), np.zeros((0, 1)))
    with pytest.raises(ParameterError, match="names"):
        regress(SURVEY, people()[1], people()[0], names=["age"])
