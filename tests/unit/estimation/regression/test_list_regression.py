"""Regression of list experiments: a hand-written likelihood, statsmodels' HC3, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import optimize, stats
from scipy.special import expit

from deniable import ItemCount, LinearRegression, Regression, Sample, regress_list
from deniable.errors import ParameterError
from deniable.estimation.regression.lists import ListModel

Floats = NDArray[np.float64]
minimize: Any = optimize.minimize


def people(n: int = 1_200, seed: int = 1) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    age, treated = rng.normal(size=n), np.arange(n) % 2
    sensitive = rng.random(n) < expit(-0.8 + 0.9 * age)
    return age, treated, rng.binomial(3, expit(0.3 - 0.4 * age)) + treated * sensitive


def test_the_likelihood_is_the_mixtures_and_at_its_maximum() -> None:
    """The data of Imai 2011 are not ours to copy: simulated ones stand in, and scipy's search for
    Newton's method."""
    age, treated, counts = people()
    fit = regress_list(ItemCount(3), counts, treated, age, names=["age"])
    assert isinstance(fit, Regression)

    def negative(parameters: Floats) -> float:
        g, p = (
            expit(parameters[0] + parameters[1] * age),
            expit(parameters[2] + parameters[3] * age),
        )
        control = stats.binom.pmf(counts, 3, p)
        mixed = g * stats.binom.pmf(counts - 1, 3, p) + (1 - g) * control
        return -float(np.log(np.where(treated == 1, mixed, control)).sum())

    rough = minimize(
        negative,
        np.array([-1.0, 0.5, 0.0, 0.0]),
        method="Nelder-Mead",
        options={"maxiter": 5_000, "fatol": 1e-10},
    )
    best = minimize(negative, rough.x, method="BFGS", options={"gtol": 1e-8})
    assert fit.log_likelihood == pytest.approx(-best.fun, abs=1e-6)
    np.testing.assert_allclose(fit.coefficients[0], best.x[:2], atol=1e-4)
    assert np.all(np.abs(fit.coefficients[0] - [-0.8, 0.9]) < 4.5 * fit.stderr[0])


def test_scores_are_the_derivatives_of_the_likelihood() -> None:
    age, treated, counts = people(80)
    model = ListModel(
        np.column_stack([np.ones(80), age]), counts.astype(float), treated.astype(bool), 3
    )
    at = np.array([-0.5, 0.3, 0.2, -0.4])
    steps = 1e-6 * np.eye(4)
    by_difference = np.stack(
        [(model.evaluate(at + s)[0] - model.evaluate(at - s)[0]) / 2e-6 for s in steps], axis=1
    )
    np.testing.assert_allclose(model.evaluate(at)[1], by_difference, atol=1e-7)


def test_linear_with_interactions_is_least_squares_with_hc3() -> None:
    age, treated, counts = people()
    fit = regress_list(ItemCount(3), counts, treated, age, names=["age"], method="linear")
    assert isinstance(fit, LinearRegression)
    x = sm.add_constant(age)
    theirs = sm.OLS(counts, np.hstack([x, x * treated[:, None]])).fit(cov_type="HC3")
    assert fit.names == (
        "harmless: (intercept)",
        "harmless: age",
        "sensitive: (intercept)",
        "sensitive: age",
    )
    np.testing.assert_allclose(fit.coefficients, theirs.params, rtol=1e-9)
    np.testing.assert_allclose(fit.covariance, theirs.cov_params(), rtol=1e-8)


def test_without_covariates_linear_is_the_difference_of_means() -> None:
    _, treated, counts = people()
    fit = regress_list(ItemCount(3), counts, treated, method="linear")
    of = [np.bincount(counts[treated == arm], minlength=4 + arm) for arm in (0, 1)]
    plain = ItemCount(3).estimate_counts(control=of[0].tolist(), treated=of[1].tolist())
    assert isinstance(fit, LinearRegression)
    assert fit.coefficients[1] == pytest.approx(plain["pi"].value)
    assert fit.stderr[1] == pytest.approx(plain["pi"].stderr, rel=1e-3)


def test_weights_and_kinds_of_errors() -> None:
    age, treated, counts = people()
    whole = np.random.default_rng(2).integers(1, 4, age.size)
    weighted = regress_list(ItemCount(3), counts, treated, age, sample=Sample(weights=whole))
    repeated = regress_list(
        ItemCount(3), *(np.repeat(part, whole) for part in (counts, treated, age))
    )
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, atol=1e-6)
    assert isinstance(repeated, Regression)
    assert repeated.with_errors("scores").stderr[0, 1] == pytest.approx(
        repeated.stderr[0, 1], rel=0.15
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regress_list(ItemCount(3), [0, 4], [0, 0]), "counts[1] = '…' must be a whole number"),
        (lambda: regress_list(ItemCount(3), [0, 4], [1, 1]), "each of the two lists"),
        (lambda: regress_list(ItemCount(3), [0, 4], [0, 2]), "must be 0 or 1 for each of the 2 counts"),
        (lambda: regress_list(ItemCount(3), [0, 4], [0, 1], method="nls"), "method = 'nls' must be 'ml' or 'linear'"),
        (lambda: regress_list(ItemCount(3), [0, 4], [0, 1], [1.0]), "len(covariates) = 1 must be"),
    ],
)  # fmt: skip
def test_nonsense_is_refused_in_one_clear_line(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ParameterError) as refused:
        call()
    assert message in str(refused.value)
