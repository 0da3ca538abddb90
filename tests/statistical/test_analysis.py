"""Analyses of randomized surveys of 500 people: their intervals cover what they say, and their
tests reject as often as they say.

Seeds are fixed. Tolerances are about three and a half standard errors of the coverage, 0.7 points
for 1,000 surveys. All designs and analyses are simulated 5,000 times by
`benchmarks/survey_coverage.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit

from deniable import (
    CheaterDetection,
    ForcedResponse,
    ItemCount,
    Regression,
    Reports,
    Sample,
    StochasticLieDetector,
    Warner,
    correlate,
    regress,
    regress_linear,
    regress_list,
    weighted_estimate,
)
from deniable.errors import FitError

SURVEYS, PEOPLE = 1_000, 500
Floats = NDArray[np.float64]
BETA = np.array([-0.4, 0.8, 0.5])
FORCED = ForcedResponse(0.75, 1 / 8)


def reported(rng: np.random.Generator, mechanism: Any, values: NDArray[Any]) -> Reports:
    ends = np.cumsum(mechanism.channel()[:, values.astype(int)].T, axis=1)
    return Reports(
        mechanism,
        (rng.random(values.size)[:, None] > ends[:, :-1]).sum(axis=1).astype(mechanism.layout[0]),
    )


def covariates(rng: np.random.Generator) -> Floats:
    return np.column_stack([rng.uniform(-1.5, 1.5, PEOPLE), rng.integers(0, 2, PEOPLE)])


def inside(limits: Any, truth: Any) -> NDArray[np.bool_]:
    low, high = np.asarray(limits).reshape(-1, 2).T
    return np.asarray((low <= truth) & (truth <= high))


def coverage(survey: Callable[[np.random.Generator], Any], surveys: int = SURVEYS) -> Floats:
    rng = np.random.default_rng(31)
    return np.asarray(np.mean([survey(rng) for _ in range(surveys)], axis=0))


def test_a_randomized_outcome_is_explained_with_intervals_that_cover() -> None:
    said: list[bool] = []

    def survey(rng: np.random.Generator) -> Any:
        x = covariates(rng)
        fit = regress(
            FORCED, reported(rng, FORCED, rng.random(PEOPLE) < expit(BETA[0] + x @ BETA[1:])), x
        )
        said.append("intervals cover 95 %" in str(fit))
        return inside(fit.interval(), BETA)

    np.testing.assert_allclose(coverage(survey), 0.95, atol=0.023)
    assert np.mean(said) > 0.9


@pytest.mark.parametrize(
    ("design", "rate"),
    [(StochasticLieDetector(1 / 6, 5 / 6), 0.65), (CheaterDetection(0.25, 0.75), 0.2)],
)
def test_two_samples_say_that_they_cover_at_least_so_often(design: Any, rate: float) -> None:
    without = 0

    def survey(rng: np.random.Generator) -> Any:
        nonlocal without
        x, group = covariates(rng), np.arange(PEOPLE) % 2
        truth = (rng.random(PEOPLE) < expit(BETA[0] + x @ BETA[1:])).astype(int)
        chances = np.array([design.answer_chances(sample) for sample in (0, 1)], dtype=float)[
            group, truth
        ] @ [1, rate]
        try:
            fit = regress(design, (rng.random(PEOPLE) < chances).astype(int), x, group=group)
        except FitError:
            without += 1
            return [True] * 4
        assert fit.conservative
        assert fit._fit is not None
        # in the profile interval
        kept = 2 * (fit.log_likelihood - fit._fit.constrained({3: rate})) < 3.841459
        return [*inside(fit.interval(), BETA), kept]

    found = coverage(survey, 400)
    assert np.all(found[:3] > 0.95 - 0.011)
    assert abs(found[3] - 0.95) < 0.036
    assert without < 5


def test_an_answer_that_predicts_has_intervals_that_cover_where_the_reports_themselves_mislead() -> (
    None
):
    beta, naive = np.array([-0.5, 0.4, 1.0]), []

    def survey(rng: np.random.Generator) -> Any:
        w = rng.normal(size=PEOPLE)
        used = rng.random(PEOPLE) < expit(-0.2 + 0.5 * w)
        outcome = (rng.random(PEOPLE) < expit(beta[0] + beta[1] * w + beta[2] * used)).astype(int)
        reports = reported(rng, FORCED, used)
        naive.append(regress(None, outcome, np.column_stack([w, reports.data])).coefficients[0, 2])
        return inside(
            regress(None, outcome, w, randomized={"used": (FORCED, reports)}).interval(), beta
        )

    np.testing.assert_allclose(coverage(survey, 120), 0.95, atol=0.07)
    assert np.mean(naive) < 0.8


def test_random_intercepts_cover_where_a_plain_regression_does_not() -> None:
    """200 surveys of 50 clusters of 10 people. Without the intercepts, an interval of a covariate that
    clusters share misses in a fifth of them. And where clusters are alike, the test of sigma
    rejects one in twenty."""
    plain = []

    def survey(rng: np.random.Generator) -> Any:
        cluster = np.arange(PEOPLE) // 10
        x = np.column_stack([rng.normal(size=PEOPLE), rng.normal(size=50)[cluster]])
        common = -0.4 + 0.8 * x[:, 0] + 0.5 * x[:, 1]
        eta = common + rng.normal(0, 1.3, 50)[cluster]
        reports = reported(rng, FORCED, rng.random(PEOPLE) < expit(eta))
        alike = reported(rng, FORCED, rng.random(PEOPLE) < expit(common))
        truth = np.array([-0.4, 0.8, 0.5])
        plain.append(inside(regress(FORCED, reports, x).interval(), truth)[2])
        fit = regress(FORCED, reports, x, random_intercept=cluster)
        test = regress(FORCED, alike, x, random_intercept=cluster).likelihood_ratio("sigma")
        return [*inside(fit.interval(), truth), test.p_value >= 0.05]

    np.testing.assert_allclose(coverage(survey, 200), 0.95, atol=0.054)
    assert np.mean(plain) < 0.86


def test_a_likelihood_ratio_rejects_a_true_null_one_time_in_twenty() -> None:
    def survey(rng: np.random.Generator) -> Any:
        x = covariates(rng)
        fit = regress(
            Warner(0.85),
            reported(rng, Warner(0.85), rng.random(PEOPLE) < expit(-0.4 + 0.8 * x[:, 0])),
            x,
        )
        return [fit.likelihood_ratio("x2").p_value >= 0.05, fit.wald("x2").p_value >= 0.05]

    np.testing.assert_allclose(coverage(survey, 500), 0.95, atol=0.033)


def test_weighted_clustered_samples_cover_where_errors_without_clusters_do_not() -> None:
    ignoring = []

    def survey(rng: np.random.Generator) -> Any:
        cluster = np.arange(PEOPLE) // 10
        second = cluster >= 25
        weights = np.where(second, 3.0, 1.0) * rng.uniform(0.5, 1.5, PEOPLE)
        sample = Sample(weights=weights, strata=second.astype(int), clusters=cluster)
        chance = 0.3 + 0.2 * second + rng.choice([-0.25, 0.25], 50)[cluster]
        reports = reported(rng, FORCED, rng.random(PEOPLE) < chance)
        plain = weighted_estimate(FORCED, reports, Sample(weights=weights))
        ignoring.append(inside(plain.interval()[1], 0.45)[0])
        found = [
            weighted_estimate(FORCED, reports, sample, errors=errors)
            for errors in ("linearised", "jackknife")
        ]
        return np.concatenate([inside(e.interval()[1], 0.45) for e in found])

    np.testing.assert_allclose(coverage(survey), 0.95, atol=0.023)
    assert np.mean(ignoring) < 0.9


def test_linear_regressions_and_correlations_cover() -> None:
    def survey(rng: np.random.Generator) -> Any:
        w = rng.uniform(-1, 1, PEOPLE)
        used = rng.random(PEOPLE) < 0.4 + 0.2 * w
        hours = 1 + 0.5 * w - used + rng.normal(size=PEOPLE) * (1 + 0.3 * used)
        hidden = (FORCED, reported(rng, FORCED, used))
        spread = np.sqrt(1 / 3 * 0.24)  # the variance of w is 1/3, that of used 0.24
        return np.concatenate([
            inside(regress_linear(hours, w, randomized={"used": hidden}).interval(), [1, 0.5, -1]),
            inside(regress_linear(hidden, w).interval(), [0.4, 0.2]),
            inside(correlate(hidden, w).interval(), 0.2 / 3 / spread),
        ])  # fmt: skip

    np.testing.assert_allclose(coverage(survey), 0.95, atol=0.023)


def test_a_list_experiment_is_explained_with_intervals_that_cover_at_least_so_often() -> None:
    """2,000 people, for a list tells little: 80 surveys."""

    def survey(rng: np.random.Generator) -> Any:
        age, treated = rng.normal(size=2_000), np.arange(2_000) % 2
        counts = rng.binomial(3, 0.5, 2_000) + treated * (
            rng.random(2_000) < expit(-0.5 + 0.8 * age)
        )
        fit = regress_list(ItemCount(3), counts, treated, age)
        assert isinstance(fit, Regression)
        return inside(fit.interval(), [-0.5, 0.8])

    np.testing.assert_allclose(coverage(survey, 80), 0.95, atol=0.08)
