"""Regressions of every kind against independent computations: hand-written likelihoods, quadrature,
and statsmodels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import integrate, optimize, stats
from scipy.special import expit

from deniable import (
    BinaryResponse,
    CheaterDetection,
    Crosswise,
    DirectEncoding,
    ForcedResponse,
    OptimizedUnary,
    Regression,
    Sample,
    StochasticLieDetector,
    SymmetricCheaterDetection,
    UnrelatedQuestion,
    Warner,
    regress,
    seeded_source,
)
from deniable.errors import FitError, ParameterError
from deniable.estimation.regression.answer_models import AnswerModel, BinaryModel
from deniable.estimation.regression.fitting import Model, expected_information
from deniable.estimation.regression.predictor_model import PredictorModel
from deniable.estimation.regression.random_intercept import RandomInterceptModel
from deniable.mechanisms.designs.two_group import TwoGroupDesign

Floats = NDArray[np.float64]
minimize: Any = optimize.minimize  # its stubs do not know every way to call it
TWO_SAMPLES: list[tuple[TwoGroupDesign, float]] = [
    (StochasticLieDetector(2 / 12, 10 / 12), 0.65),
    (CheaterDetection(1 / 4, 3 / 4), 0.2),
    (SymmetricCheaterDetection(0.2, 0.1, 0.7, 0.1), 0.2),
    (UnrelatedQuestion.unknown(0.7, 0.3), 0.4),
]
BETA = np.array([-0.3, 0.8, 0.5])


def covariates(rng: np.random.Generator, n: int) -> Floats:
    return np.column_stack([rng.uniform(-1.5, 1.5, n), rng.integers(0, 2, n)])


def yes_chance(design: TwoGroupDesign, sample: int, pi: Any, rate: float) -> Any:
    """P(yes said), from the designs' papers and not from the code."""
    if isinstance(design, StochasticLieDetector):
        return pi * rate + (1 - pi) * (1 - float((design.p1, design.p2)[sample]))
    if isinstance(design, CheaterDetection):
        return (1 - rate) * (pi + (1 - pi) * float((design.p1, design.p2)[sample]))
    if isinstance(design, SymmetricCheaterDetection):
        yes, no = ((design.y1, design.n1), (design.y2, design.n2))[sample]
        return (1 - rate) * (pi * (1 - float(no)) + (1 - pi) * float(yes))
    p = float((design.p1, design.p2)[sample])  # type: ignore[attr-defined]
    return p * pi + (1 - p) * rate


def two_samples(
    design: TwoGroupDesign, rate: float, n: int
) -> tuple[Floats, NDArray[np.intp], NDArray[np.bool_]]:
    rng = np.random.default_rng(5)
    x, group = covariates(rng, n), np.arange(n) % 2
    pi = expit(BETA[0] + x @ BETA[1:])
    chances = np.where(group == 0, yes_chance(design, 0, pi, rate), yes_chance(design, 1, pi, rate))
    return x, group, rng.random(n) < chances


def likeliest(negative: Callable[[Floats], float], start: Floats) -> Floats:
    """By a simplex search and then BFGS: no derivative of ours."""
    rough = minimize(
        negative,
        start,
        method="Nelder-Mead",
        options={"maxiter": 20_000, "maxfev": 20_000, "fatol": 1e-10},
    )
    fine = minimize(negative, rough.x, method="BFGS", options={"gtol": 1e-9})
    return np.asarray(fine.x)


@pytest.mark.parametrize(("design", "rate"), TWO_SAMPLES, ids=lambda value: type(value).__name__)
def test_two_samples_have_the_likelihood_of_their_papers_and_its_maximum(
    design: TwoGroupDesign, rate: float
) -> None:
    """The data of the one published regression (JSS 85(2), p. 13) are not ours to copy: simulated
    ones stand in."""
    x, group, said = two_samples(design, rate, 1_256)
    fit = regress(design, said, x, group=group)

    def negative(parameters: Floats) -> float:
        pi = expit(parameters[0] + x @ parameters[1:3])
        chance = np.where(
            group == 0,
            yes_chance(design, 0, pi, parameters[3]),
            yes_chance(design, 1, pi, parameters[3]),
        )
        if chance.min() <= 0 or chance.max() >= 1:
            return math.inf
        return -float(np.log(np.where(said, chance, 1 - chance)).sum())

    best = likeliest(negative, np.append(BETA, rate))
    assert fit.log_likelihood == pytest.approx(-negative(best), abs=1e-6)
    found = np.append(fit.coefficients[0], fit.rates[design.compliance])
    assert -negative(found) == pytest.approx(fit.log_likelihood, abs=1e-9)
    np.testing.assert_allclose(found, best, atol=2e-4)


@pytest.mark.parametrize(("design", "rate"), TWO_SAMPLES, ids=lambda value: type(value).__name__)
def test_without_covariates_two_samples_give_the_moment_estimates(
    design: TwoGroupDesign, rate: float
) -> None:
    _, group, said = two_samples(design, rate, 2_000)
    fit = regress(design, said, group=group)
    counts = [int(said[group == sample].sum()) for sample in (0, 1)]
    moments = design.estimate_counts(yes=counts, n=(1_000, 1_000))
    pi = float(expit(fit.coefficients[0, 0]))
    value = fit.rates[design.compliance]
    if design.compliance == "gamma":
        # pi is the proportion of honest carriers there
        assert (1 - value) * pi == pytest.approx(moments["pi"].value, abs=1e-6)
    else:
        assert pi == pytest.approx(moments["pi"].value, abs=1e-6)
    assert value == pytest.approx(moments[design.compliance].value, abs=1e-6)
    stated = fit[design.compliance].stderr
    assert stated == pytest.approx(moments.with_errors("n")[design.compliance].stderr, rel=1e-5)


@pytest.mark.parametrize(("design", "rate"), TWO_SAMPLES, ids=lambda value: type(value).__name__)
def test_the_chances_of_a_design_agree_with_its_classes(
    design: TwoGroupDesign, rate: float
) -> None:
    for pi in (0.1, 0.5):
        for sample in (0, 1):
            (no, no_slope), (yes, yes_slope) = design.answer_chances(sample)
            chance = (1 - pi) * (float(no) + rate * float(no_slope)) + pi * (
                float(yes) + rate * float(yes_slope)
            )
            honest = 1 - rate
            values = (
                (honest * pi, honest * (1 - pi)) if design.compliance == "gamma" else (pi, rate)
            )
            assert chance == pytest.approx(float(design.rates(*values)[sample]), abs=1e-12)


# --- three kinds of standard errors


def models() -> dict[str, tuple[Model, Floats]]:
    rng, n = np.random.default_rng(6), 60
    design = np.column_stack([np.ones(n), rng.normal(size=n)])
    channel = DirectEncoding(3, 2.0).channel()
    forced = Warner(0.8).channel()
    pairs = [
        np.column_stack([rng.uniform(0.2, 0.4, n), rng.uniform(0.1, 0.3, n)]) for _ in range(2)
    ]
    flat = np.zeros(n)
    plain = BinaryModel(
        design,
        np.column_stack([rng.uniform(0.5, 0.9, n), flat]),
        np.column_stack([rng.uniform(0.1, 0.4, n), flat]),
        False,
    )
    return {
        "labels": (
            AnswerModel(channel[rng.integers(0, 3, n)], design, channel),
            np.array([0.2, -0.4, 0.5, 0.3]),
        ),
        "rate": (BinaryModel(design, pairs[0], pairs[1], True), np.array([0.3, -0.5, 0.4])),
        "intercepts": (RandomInterceptModel(plain, np.arange(n) // 6), np.array([0.3, -0.5, 0.8])),
        "predictor": (
            PredictorModel(
                np.eye(2)[rng.integers(0, 2, n)],
                forced[rng.integers(0, 2, n)],
                design,
                np.array([[0.0], [1.0]]),
            ),
            np.array([0.2, 0.4, 0.9, -0.3, 0.5]),
        ),
    }


@pytest.mark.parametrize("name", models())
def test_scores_and_information_are_the_derivatives_of_the_likelihood(name: str) -> None:
    model, at = models()[name]
    _, scores = model.evaluate(at)
    steps = 1e-5 * np.eye(at.size)
    by_difference = np.stack(
        [(model.evaluate(at + s)[0] - model.evaluate(at - s)[0]) / 2e-5 for s in steps], axis=1
    )
    np.testing.assert_allclose(scores, by_difference, atol=1e-7)
    information = model.information(at, None)
    if information is not None:
        second = -np.stack(
            [
                (model.evaluate(at + s)[1] - model.evaluate(at - s)[1]).sum(axis=0) / 2e-5
                for s in steps
            ]
        )
        np.testing.assert_allclose(information, second, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", ["observed", "expected", "scores"])
def test_the_kinds_of_standard_errors_are_those_of_their_definitions(kind: str) -> None:
    """By a numeric Hessian; by the sum over both reports of P times squared slopes; by squared
    slopes at the reports given."""
    rng, survey, n = np.random.default_rng(7), Crosswise(0.2), 900
    x = covariates(rng, n)
    truth = rng.random(n) < expit(BETA[0] + x @ BETA[1:])
    same = np.where(truth, rng.random(n) < 0.2, rng.random(n) < 0.8)
    fit = regress(survey, np.where(same, "same", "different"), x).with_errors(kind)
    design = np.column_stack([np.ones(n), x])
    beta = fit.coefficients[0]
    pi = expit(design @ beta)
    chance = 0.8 - 0.6 * pi
    slope = -0.6 * pi * (1 - pi)
    curve = slope * (1 - 2 * pi)
    given = np.where(same, chance, 1 - chance)
    sign = np.where(same, 1, -1)
    weight = {
        "observed": (slope / given) ** 2 - sign * curve / given,
        "expected": slope**2 / (chance * (1 - chance)),
        "scores": (slope / given) ** 2,
    }[kind]
    np.testing.assert_allclose(
        fit.covariance, np.linalg.inv((design * weight[:, None]).T @ design), rtol=1e-6
    )
    assert {
        "observed": "observed information",
        "expected": "expected information",
        "scores": "outer product",
    }[kind] in str(fit)


def test_the_expected_information_is_the_mean_of_the_observed_one() -> None:
    """Over 2,000 simulated surveys of a lie detector; 3 % of the largest entry allow for chance."""
    design, rate = TWO_SAMPLES[0]
    rng, n = np.random.default_rng(8), 400
    x, group = covariates(rng, n), np.arange(n) % 2
    x_design = np.column_stack([np.ones(n), x])
    pi = expit(x_design @ BETA)
    chances = np.where(group == 0, yes_chance(design, 0, pi, rate), yes_chance(design, 1, pi, rate))
    at = np.append(BETA, rate)
    total: Any = 0
    surveys = 2_000
    constants = np.array([design.answer_chances(sample) for sample in (0, 1)], dtype=float)[group]
    for _ in range(surveys):
        said = rng.random(n) < chances
        given = np.where(said[:, None, None], constants, np.array([1.0, 0.0]) - constants)
        total = total + BinaryModel(x_design, given[:, 1], given[:, 0], True).information(at, None)
    other = np.array([1.0, 0.0]) - constants
    model = BinaryModel(
        x_design, constants[:, 1], constants[:, 0], True, (other[:, 1], other[:, 0])
    )
    expected = expected_information(model, at)
    assert expected is not None
    np.testing.assert_allclose(total / surveys, expected, atol=0.03 * np.abs(expected).max())


# --- clear answers, weights, clusters: statsmodels


def test_answers_asked_directly_give_statsmodels_logit_and_multinomial_logit() -> None:
    rng, n = np.random.default_rng(9), 800
    x = covariates(rng, n)
    design = sm.add_constant(x)
    yes = (rng.random(n) < expit(BETA[0] + x @ BETA[1:])).astype(int)
    ours, theirs = regress(None, yes, x), sm.Logit(yes, design).fit(disp=0)
    np.testing.assert_allclose(ours.coefficients[0], theirs.params, atol=1e-6)
    np.testing.assert_allclose(ours.covariance, theirs.cov_params(), rtol=1e-5)
    assert ours.log_likelihood == pytest.approx(theirs.llf)
    three = np.array(["a", "b", "c"])[rng.integers(0, 3, n)]
    several, other = (
        regress(None, three, x),
        sm.MNLogit(np.unique(three, return_inverse=True)[1], design).fit(disp=0),
    )
    np.testing.assert_allclose(several.coefficients, other.params.T, atol=1e-6)
    test = several.likelihood_ratio("x1", "x2")
    assert test.statistic == pytest.approx(other.llr, abs=1e-6)
    assert test.p_value == pytest.approx(other.llr_pvalue)
    assert test.degrees == 4


def test_clustered_errors_are_those_of_generalized_estimating_equations() -> None:
    rng, n = np.random.default_rng(10), 600
    x, cluster = covariates(rng, n), np.arange(n) // 12
    yes = (
        rng.random(n) < expit(BETA[0] + x @ BETA[1:] + rng.normal(0, 0.7, n // 12)[cluster])
    ).astype(int)
    ours = regress(None, yes, x, sample=Sample(clusters=cluster))
    gee = sm.GEE(yes, sm.add_constant(x), groups=cluster, family=sm.families.Binomial()).fit(
        ctol=1e-12
    )
    np.testing.assert_allclose(ours.coefficients[0], gee.params, atol=1e-7)
    clusters = n // 12  # we take the spread around the mean with m - 1, they the squares with m
    np.testing.assert_allclose(
        ours.covariance * (clusters - 1) / clusters, gee.cov_robust, rtol=1e-4
    )
    assert ours.degrees == pytest.approx(clusters - 1)
    low, high = ours.interval()[0, 1]
    assert (high - low) / 2 == pytest.approx(stats.t.ppf(0.975, clusters - 1) * ours.stderr[0, 1])


def test_weights_solve_the_weighted_equations_and_whole_ones_repeat_people() -> None:
    rng, survey, n = np.random.default_rng(11), Warner(0.8), 400
    x, times = covariates(rng, n), rng.integers(1, 4, n)
    reports = np.where(rng.random(n) < 0.45, "yes", "no")
    weighted = regress(survey, reports, x, sample=Sample(weights=times))
    repeated = regress(survey, np.repeat(reports, times), np.repeat(x, times, axis=0))
    np.testing.assert_allclose(weighted.coefficients, repeated.coefficients, atol=1e-6)
    # A repeated person is a cluster: then the errors agree as well.
    people = regress(
        survey,
        np.repeat(reports, times),
        np.repeat(x, times, axis=0),
        sample=Sample(clusters=np.repeat(np.arange(n), times)),
    )
    np.testing.assert_allclose(weighted.covariance, people.covariance, rtol=1e-6)
    inverse = regress(survey, reports, x, sample=Sample(probabilities=1 / times))
    np.testing.assert_allclose(inverse.covariance, weighted.covariance)
    with pytest.raises(ParameterError, match="has no likelihood"):
        weighted.likelihood_ratio("x1")
    with pytest.raises(ParameterError, match="must be 'sandwich' with weights"):
        weighted.with_errors("observed")


def test_strata_take_their_means_out_of_the_errors() -> None:
    """Written out for two strata and clusters of unequal size, with a finite number of clusters in
    one of them."""
    rng, n = np.random.default_rng(12), 200
    scores, weights = rng.normal(size=(n, 2)), rng.uniform(1, 3, n)
    clusters = rng.integers(0, 10, n)
    strata = np.where(clusters < 4, "north", "south")
    sample = Sample(
        weights=weights, strata=strata, clusters=clusters, stratum_sizes={"north": 8, "south": 1e12}
    )
    expected = np.zeros((2, 2))
    for stratum, size in (("north", 8), ("south", 1e12)):
        own = [
            (weights[clusters == c, None] * scores[clusters == c]).sum(axis=0)
            for c in np.unique(clusters[strata == stratum])
        ]
        expected += (1 - len(own) / size) * len(own) * np.cov(np.array(own).T)
    np.testing.assert_allclose(sample.covariance(scores), expected, rtol=1e-9)
    assert sample.degrees == 8


# --- random intercepts


def grouped(
    n_clusters: int, size: int, sigma: float
) -> tuple[Warner, Floats, NDArray[Any], NDArray[np.intp]]:
    rng, survey = np.random.default_rng(13), Warner(0.85)
    cluster = np.repeat(np.arange(n_clusters), size)
    x = rng.normal(size=cluster.size)
    eta = -0.4 + 0.9 * x + rng.normal(0, sigma, n_clusters)[cluster]
    truth = rng.random(cluster.size) < expit(eta)
    said = np.where(rng.random(cluster.size) < 0.85, truth, ~truth)
    return survey, x, np.where(said, "yes", "no"), cluster


@pytest.mark.slow
def test_random_intercepts_have_the_integrated_likelihood_and_its_maximum() -> None:
    """Each cluster's integral by scipy's adaptive quadrature, its maximum by a search without
    derivatives."""
    survey, x, reports, cluster = grouped(12, 15, 1.0)
    fit = regress(survey, reports, x, random_intercept=cluster)
    said = reports == "yes"

    def negative(parameters: Floats) -> float:
        total = 0.0
        for c in range(12):
            own = cluster == c

            def height(u: float, own: Any = own) -> float:
                chance = 0.15 + 0.7 * expit(
                    parameters[0] + parameters[1] * x[own] + parameters[2] * u
                )
                return float(np.prod(np.where(said[own], chance, 1 - chance)) * stats.norm.pdf(u))

            total -= math.log(
                integrate.quad(height, -9, 9, epsabs=1e-30, epsrel=1e-9, limit=200)[0]
            )
        return total

    at = np.array([*fit.coefficients[0], fit.rates["sigma"]])
    assert -negative(at) == pytest.approx(fit.log_likelihood, abs=1e-6)
    for place in range(3):
        for sign in (-1, 1):
            moved = at.copy()
            moved[place] += sign * 0.01
            assert negative(moved) > negative(at)


def test_a_fit_settles_where_the_integrals_are_less_exact_than_its_steps() -> None:
    """The 192nd of the surveys with sigma = 1.5: at its maximum, sigma = 2.33, the quadrature is right
    to 1e-6, and halved steps climbed its error."""
    survey, rng, cluster = ForcedResponse(0.75, 1 / 8), np.random.default_rng(32), np.arange(500)
    cluster = cluster // 10
    for _ in range(192):
        x = rng.normal(size=500)
        eta = -0.4 + 0.8 * x + rng.normal(0, 1.5, 50)[cluster]
        truth, coins = rng.random(500) < expit(eta), rng.random(500)
    said = np.where(coins > np.where(truth, 1 / 8, 7 / 8), "yes", "no")
    fit = regress(survey, said, x, random_intercept=cluster)
    assert fit.rates["sigma"] == pytest.approx(2.332, abs=0.01)
    assert fit.log_likelihood == pytest.approx(-308.444095, abs=1e-5)


@pytest.mark.parametrize("rate", [None, 0.65])
def test_the_information_of_random_intercepts_is_the_derivative_of_their_scores(
    rate: float | None,
) -> None:
    """By central differences, whose own error is of the order of 1e-8."""
    rng = np.random.default_rng(9)
    x, cluster = covariates(rng, 60), rng.integers(0, 7, 60)
    said = rng.integers(0, 2, 60)
    channel = np.array([[0.8, 0.25], [0.2, 0.75]])[said]
    slope = np.zeros(60) if rate is None else np.where(said == 1, 0.15, -0.15)
    people = BinaryModel(
        np.column_stack([np.ones(60), x]),
        np.column_stack([channel[:, 1], slope]),
        np.column_stack([channel[:, 0], -slope / 2]),
        has_rate=rate is not None,
    )
    model = RandomInterceptModel(people, cluster)
    at = np.array([*BETA, *([] if rate is None else [rate]), 0.9])
    for weights in (None, rng.uniform(0.5, 2, 7)):
        own = np.ones(7) if weights is None else weights
        differences = [
            own @ (model.evaluate(at - step)[1] - model.evaluate(at + step)[1]) / 2e-5
            for step in 1e-5 * np.eye(at.size)
        ]
        np.testing.assert_allclose(model.information(at, weights), differences, atol=1e-5)


@pytest.mark.slow
def test_without_spread_between_clusters_a_random_intercept_changes_nothing() -> None:
    survey, x, reports, cluster = grouped(25, 8, 0.0)
    plain, mixed = (
        regress(survey, reports, x),
        regress(survey, reports, x, random_intercept=cluster),
    )
    assert mixed.log_likelihood >= plain.log_likelihood - 1e-9
    test = mixed.likelihood_ratio("sigma")
    assert test.statistic == pytest.approx(
        2 * (mixed.log_likelihood - plain.log_likelihood), abs=1e-6
    )
    assert test.p_value == pytest.approx(stats.chi2.sf(test.statistic, 1) / 2)
    assert mixed.rate_interval("sigma")[0] == 0
    assert "sigma" in str(mixed)


# --- answers that predict


def predicted(n: int) -> tuple[Warner, Floats, NDArray[np.bool_], Floats]:
    rng, survey = np.random.default_rng(14), Warner(0.8)
    w = rng.normal(size=n)
    used = rng.random(n) < expit(-0.4 + 0.6 * w)
    return survey, w, used, np.asarray(expit(-0.5 + 1.0 * used + 0.4 * w))


def test_an_answer_that_predicts_has_the_likelihood_of_both_and_its_maximum() -> None:
    survey, w, used, chance = predicted(1_500)
    rng = np.random.default_rng(15)
    outcome = rng.random(1_500) < chance
    reported = np.where(rng.random(1_500) < 0.8, used, ~used)
    fit = regress(
        None,
        outcome.astype(int),
        w,
        names=["w"],
        randomized={"used": (survey, np.where(reported, "yes", "no"))},
    )
    assert fit.names == ("(intercept)", "w", "used[yes]")

    def negative(parameters: Floats) -> float:
        a, b, c, d, e = parameters
        carrier = expit(d + e * w)
        joint = np.zeros(w.size)
        for z, share in ((0, 1 - carrier), (1, carrier)):
            yes = expit(a + b * w + c * z)
            joint += share * np.where(reported == z, 0.8, 0.2) * np.where(outcome, yes, 1 - yes)
        return -float(np.log(joint).sum())

    best = likeliest(negative, np.array([-0.5, 0.4, 1.0, -0.4, 0.6]))
    assert fit.log_likelihood == pytest.approx(-negative(best), abs=1e-6)
    np.testing.assert_allclose(fit.coefficients[0], best[:3], atol=2e-4)
    without = likeliest(
        lambda p: negative(np.array([p[0], p[1], 0.0, p[2], p[3]])),
        np.array([-0.3, 0.5, -0.4, 0.6]),
    )
    reduced = 2 * (
        fit.log_likelihood
        + negative(np.array([without[0], without[1], 0.0, without[2], without[3]]))
    )
    assert fit.likelihood_ratio("used[yes]").statistic == pytest.approx(reduced, abs=1e-5)


def test_a_predictor_asked_directly_gives_ordinary_logistic_regression() -> None:
    _, w, used, chance = predicted(900)
    outcome = (np.random.default_rng(16).random(900) < chance).astype(int)
    truthful = BinaryResponse(1 - 1e-12, 0.5)
    fit = regress(None, outcome, w, randomized={"used": (truthful, used.astype(int))})
    ordinary = sm.Logit(outcome, sm.add_constant(np.column_stack([w, used]))).fit(disp=0)
    np.testing.assert_allclose(fit.coefficients[0], ordinary.params, atol=1e-5)
    np.testing.assert_allclose(fit.stderr[0], ordinary.bse, rtol=1e-4)


def test_two_randomized_predictors_and_a_randomized_outcome_meet_in_one_model() -> None:
    rng, n = np.random.default_rng(17), 8_000
    first, second, last = (
        Warner(0.9),
        DirectEncoding(["a", "b", "c"], 4.0),
        OptimizedUnary(["low", "high"], 4.0),
    )
    one, two = rng.random(n) < 0.4, rng.integers(0, 3, n)
    chance = expit(-0.5 + 0.8 * one + np.array([0.0, 0.6, -0.7])[two])
    truth = rng.random(n) < chance
    fit = regress(
        last,
        last.privatize(np.where(truth, "high", "low").tolist(), seeded_source(3)),
        randomized={
            "one": (first, first.privatize(np.where(one, "yes", "no").tolist(), seeded_source(1))),
            "two": (
                second,
                second.privatize(np.array(["a", "b", "c"])[two].tolist(), seeded_source(2)),
            ),
        },
    )
    assert fit.names == ("(intercept)", "one[yes]", "two[b]", "two[c]")
    assert np.all(np.abs(fit.coefficients[0] - [-0.5, 0.8, 0.6, -0.7]) < 4.5 * fit.stderr[0])
    assert fit.epsilon == pytest.approx(first.epsilon + second.epsilon + last.epsilon)


# --- tests and intervals


def small_fit() -> Regression:
    rng = np.random.default_rng(18)
    x = covariates(rng, 300)
    return regress(
        Warner(0.9),
        np.where(rng.random(300) < 0.2 + 0.6 * expit(x[:, 0]), "yes", "no"),
        x,
        names=["age", "town"],
    )


def test_a_likelihood_ratio_is_twice_what_the_smaller_model_loses() -> None:
    rng = np.random.default_rng(18)
    x = covariates(rng, 300)
    reports = np.where(rng.random(300) < 0.2 + 0.6 * expit(x[:, 0]), "yes", "no")
    fit, smaller = (
        regress(Warner(0.9), reports, x, names=["age", "town"]),
        regress(Warner(0.9), reports, x[:, :1]),
    )
    test = fit.likelihood_ratio("town")
    assert test.statistic == pytest.approx(
        2 * (fit.log_likelihood - smaller.log_likelihood), abs=1e-8
    )
    assert test.p_value == pytest.approx(stats.chi2.sf(test.statistic, 1))
    assert "town = 0: likelihood ratio chi-square" in str(test)
    assert fit.wald("town").statistic == pytest.approx(float(fit.z[0, 2]) ** 2)
    assert "Wald" in str(fit.wald("age", "town"))


def test_a_profile_interval_ends_where_the_likelihood_ratio_rejects() -> None:
    fit = small_fit()
    low, high = fit.interval(0.9, method="profile")[0, 1]
    assert fit._fit is not None
    for end in (low, high):
        drop = 2 * (fit.log_likelihood - fit._fit.constrained({1: end}))
        assert drop == pytest.approx(stats.chi2.ppf(0.9, 1), abs=1e-4)
    assert low < fit.coefficients[0, 1] < high


def test_results_show_themselves_as_rows_frames_and_json() -> None:
    fit = small_fit()
    frame = fit.to_frame()
    assert list(frame.index) == [("yes", "(intercept)"), ("yes", "age"), ("yes", "town")]
    assert frame["stderr"].tolist() == fit.stderr[0].tolist()
    document = fit.to_dict(0.9)
    assert document["errors"] == "observed"
    assert document["coefficients"][1]["high"] == pytest.approx(fit.interval(0.9)[0, 1, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: regress(TWO_SAMPLES[0][0], [0, 1], None), "group = None must be given"),
        (lambda: regress(TWO_SAMPLES[0][0], [0, 1], None, group=[0, 3]), "must be 0 or 1 (or 1 or 2) for each of the 2 reports"),
        (lambda: regress(Warner(0.8), ["yes", "no"], None, group=[0, 1]), "is for designs with two samples, which Warner is not"),
        (lambda: regress(None, [1, 1, 1], None), "different answers = 1 must be"),
        (lambda: small_fit().likelihood_ratio("income"), "must be among (intercept), age, town"),
        (lambda: small_fit().with_errors("robust"), "errors = 'robust' must be one of 'observed', 'expected', 'scores'"),
        (lambda: small_fit().with_errors("sandwich"), "errors = 'sandwich' needs a sample"),
        (lambda: small_fit()["t"], "rate = 't' must be one of none"),
        (lambda: regress(Warner(0.8), ["yes", "no"], None, random_intercept=[1, 2]), "clusters in random_intercept ="),
        (lambda: regress(DirectEncoding(3, 1.0), [0, 1, 2, 1], random_intercept=[1, 1, 2, 2]), "answers = 3 must be 2"),
        (lambda: regress(Warner(0.8), ["yes", "no"], sample=Sample(weights=[1, 2, 3])), "len(sample) = 3 must be"),
        (lambda: regress(None, [0, 1, 0], None, randomized={"a": (Warner(0.8), ["yes"])}), "len(a) = 1 must be"),
        (lambda: Sample(weights=[1, -2]), "weights = -2.0 in row 1 must be"),
        (lambda: Sample(probabilities=[0.5, 1.5]), "probabilities = 1.5 in row 1 must be"),
        (lambda: Sample(weights=[1, 2], probabilities=[1, 1]), "cannot be given with weights"),
        (lambda: Sample(weights=[1, 2], strata=["a", "b"]), "persons in stratum 'a' = 1 must be at least 2"),
        (lambda: Sample(weights=[1, 2], clusters=[1]), "len(clusters) = 1 must be"),
        (lambda: Sample(weights=[1, 2, 1], stratum_sizes=2), "stratum_sizes = 2.0 must be at least what was drawn, 3"),
        (Sample, "weights = None must be given"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_clear_line(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises((ParameterError, FitError)) as refused:
        call()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_whether_a_fit_says_at_least_does_not_depend_on_the_reports() -> None:
    """Forced response: 300 people always do, 600 never; by estimated errors, 7 to 13 % of 300 did
    not and covered 86.5 %."""
    design, rng = ForcedResponse(0.75, 1 / 8), np.random.default_rng(12)
    for people, at_least in ((300, True), (600, False)):
        x = np.column_stack([rng.uniform(-1.5, 1.5, people), rng.integers(0, 2, people)])
        yes, no = (float(chance) for chance in design.channel()[1, ::-1])
        for _ in range(40):
            truth = rng.random(people) < expit(-0.4 + x @ [0.8, 0.5])
            said = rng.random(people) < np.where(truth, yes, no)
            fit = regress(design, np.where(said, "yes", "no"), x)
            assert fit.conservative == at_least
            assert ("at least 95 %" in str(fit)) == at_least
