"""Weighted proportions, linear regression and correlation of randomized answers: exact laws and
statsmodels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from deniable import (
    Crosswise,
    DesignMatrix,
    DirectEncoding,
    Kuk,
    Mechanism,
    OptimizedUnary,
    Reports,
    Sample,
    Scrambling,
    Warner,
    correlate,
    regress_linear,
    seeded_source,
    weighted_estimate,
)
from deniable.errors import FitError, ParameterError
from deniable.estimation.tables.guesses import answer_guesses, numeric_variable, predictor_variable

Floats = NDArray[np.float64]
MATRICES: list[Any] = [
    Warner(0.7),
    Crosswise(0.2),
    Kuk(0.8, 0.3, draws=3),
    DirectEncoding(3, 1.0),
    DesignMatrix([[0.8, 0.3], [0.2, 0.7]]),
]


# --- guesses, exactly


@pytest.mark.parametrize("mechanism", MATRICES, ids=repr)
def test_a_guess_and_its_products_are_unbiased_whatever_the_truth_is(mechanism: Any) -> None:
    channel = mechanism.channel()
    every = answer_guesses(mechanism, list(mechanism.report_domain.labels))
    np.testing.assert_allclose(every.T @ channel, np.eye(channel.shape[1]), atol=1e-12)
    labels = list(mechanism.report_domain.labels)
    variable = predictor_variable("z", (mechanism, labels))
    for truth in range(channel.shape[1]):
        indicator = np.eye(channel.shape[1])[truth][1:]
        np.testing.assert_allclose(
            np.tensordot(channel[:, truth], variable.products, 1),
            np.outer(indicator, indicator),
            atol=1e-12,
        )


def test_guesses_of_unary_reports_are_unbiased() -> None:
    survey = OptimizedUnary(["a", "b", "c"], 1.0)
    a, b = survey.channel()
    reports = survey.privatize(["b"] * 20_000, seeded_source(1))
    spread = math.sqrt(max(a * (1 - a), b * (1 - b)) / 20_000) / (a - b)
    # a false alarm in 1e9
    assert np.abs(answer_guesses(survey, reports).mean(axis=0) - [0, 1, 0]).max() < 6.1 * spread


def test_a_scrambled_number_and_its_square_are_guessed_without_bias() -> None:
    """All paths of a device: y with 1/4, S in {5, 7} with 1/4, W y + U with 1/2, W in {1, 3}, U in
    {0, 2}."""
    device = Scrambling(
        truth=0.25, substituted=0.25, multiplier=[1, 3], addend=[0, 2], substitute=[5, 7]
    )
    for y in (0.0, 2.0, 10.0):
        paths = [
            (y, 1 / 4),
            (5.0, 1 / 8),
            (7.0, 1 / 8),
            *((w * y + u, 1 / 8) for w in (1, 3) for u in (0, 2)),
        ]
        chances = np.array([p for _, p in paths])
        variable = numeric_variable("income", (device, [z for z, _ in paths]))
        assert chances @ variable.values[:, 0] == pytest.approx(y)
        assert chances @ variable.products[:, 0, 0] == pytest.approx(y**2)


# --- weighted proportions


def test_horvitz_thompson_is_unbiased_over_every_sample_and_every_coin() -> None:
    """Five people drawn or not by themselves, with chances of their own: all samples of two or
    more, and all of their reports."""
    survey, truth, drawn = (
        Warner(0.7),
        np.array([1, 0, 0, 1, 1]),
        np.array([0.9, 0.5, 0.7, 0.6, 0.8]),
    )
    channel, expected, chance = survey.channel(), 0.0, 0.0
    for kept in itertools.product([0, 1], repeat=5):
        chosen = np.flatnonzero(kept)
        likely = np.where(kept, drawn, 1 - drawn).prod()
        # too few for an error, which the function wants to give: its estimate is written out
        if chosen.size < 2:
            own = sum((((channel[1, truth[i]] - 0.3) / 0.4) / drawn[i] for i in chosen), 0.0) / 5
            expected += likely * own
            chance += likely
            continue
        for reports in itertools.product([0, 1], repeat=chosen.size):
            coins = np.prod(
                [channel[report, truth[i]] for report, i in zip(reports, chosen, strict=True)]
            )
            said = np.array(["no", "yes"])[list(reports)]
            sample = Sample(probabilities=drawn[chosen])
            found = weighted_estimate(survey, said, sample, method="horvitz-thompson", population=5)
            expected += likely * coins * found.proportions[1]
            chance += likely * coins
    assert chance == pytest.approx(1)
    assert expected == pytest.approx(0.6)


@pytest.mark.parametrize("method", ["horvitz-thompson", "hajek"])
def test_the_variance_of_a_finite_population_is_unbiased_over_every_sample_and_every_coin(
    method: str,
) -> None:
    """Three of five people drawn without replacement: the sampling part shrinks by 1 - f, that of
    the coins does not."""
    survey, truth = Warner(0.8), np.array([1, 0, 0, 1, 0])
    channel, values, variances, chances = survey.channel(), [], [], []
    for chosen in itertools.combinations(range(5), 3):
        for reports in itertools.product([0, 1], repeat=3):
            coins = np.prod(
                [channel[report, truth[i]] for report, i in zip(reports, chosen, strict=True)]
            )
            sample = Sample(weights=[5 / 3] * 3, stratum_sizes=5)
            population = {"population": 5} if method == "horvitz-thompson" else {}
            said = np.array(["no", "yes"])[list(reports)]
            found = weighted_estimate(survey, said, sample, method=method, **population)  # type: ignore[arg-type]
            values.append(found.proportions[1])
            assert found.covariance is not None
            variances.append(found.covariance[1, 1])
            chances.append(coins / 10)
    law, value = np.array(chances), np.array(values)
    assert law @ value == pytest.approx(0.4)
    assert law @ np.array(variances) == pytest.approx(law @ (value - 0.4) ** 2)


def clustered(n: int = 240) -> tuple[Warner, NDArray[Any], Sample]:
    rng = np.random.default_rng(3)
    clusters = np.arange(n) // 6
    sample = Sample(
        weights=rng.uniform(1, 4, n), strata=np.where(clusters < 15, "a", "b"), clusters=clusters
    )
    return Warner(0.8), np.where(rng.random(n) < 0.4, "yes", "no"), sample


def test_hajek_errors_are_the_spread_of_clusters_within_strata_written_out() -> None:
    survey, reports, sample = clustered()
    guess = np.where(reports == "yes", 0.8 / 0.6, -0.2 / 0.6)
    p = float(sample.weights @ guess / sample.weights.sum())
    found = weighted_estimate(survey, reports, sample)
    assert found.proportions[1] == pytest.approx(p)
    variance = 0.0
    for stratum in ("a", "b"):
        own = [c for c in range(40) if (c < 15) == (stratum == "a")]
        totals = [
            float((sample.weights * (guess - p))[np.asarray(sample.clusters) == c].sum())
            for c in own
        ]
        variance += len(own) * float(np.var(totals, ddof=1))
    assert found.variance[1] == pytest.approx(variance / sample.weights.sum() ** 2)
    assert found.degrees is not None
    assert found.degrees[1] == sample.effective_degrees < sample.degrees == 38


def test_replicates_agree_with_linearisation() -> None:
    """The jackknife of a sum is linearisation exactly; of a ratio nearly; 4,000 bootstraps have an
    error of 1.1 %."""
    survey, reports, sample = clustered()
    linear = weighted_estimate(survey, reports, sample)
    total = {"method": "horvitz-thompson", "population": float(sample.weights.sum())}
    exact = [
        weighted_estimate(survey, reports, sample, errors=kind, **total).stderr[1]  # type: ignore[arg-type]
        for kind in ("linearised", "jackknife")
    ]
    assert exact[0] == pytest.approx(exact[1], rel=1e-9)
    jackknife = weighted_estimate(survey, reports, sample, errors="jackknife")
    assert jackknife.stderr[1] == pytest.approx(linear.stderr[1], rel=0.02)
    bootstrap = weighted_estimate(
        survey, reports, sample, errors="bootstrap", replicates=4_000, seed=1
    )
    assert bootstrap.stderr[1] == pytest.approx(linear.stderr[1], rel=0.06)
    assert "errors bootstrap, 4,000 times" in str(bootstrap)


def test_equal_weights_give_the_plain_estimate() -> None:
    for survey in (
        Warner(0.8),
        Kuk(0.8, 0.3, draws=3),
        DirectEncoding(["no", "maybe", "yes"], 2.0),
        OptimizedUnary(["no", "yes"], 2.0),
    ):
        reports = survey.privatize(["yes"] * 200 + ["no"] * 300, seeded_source(2))
        plain, weighted = (
            survey.estimate(reports),
            weighted_estimate(survey, reports, Sample(weights=np.full(500, 2.5))),
        )
        np.testing.assert_allclose(weighted.proportions, plain.proportions, atol=1e-12)
        np.testing.assert_allclose(weighted.stderr, plain.stderr, rtol=2e-3)


# --- linear regression


def people(n: int = 400) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.normal(size=n), rng.integers(0, 2, n)])
    return x, 1 + x @ [0.5, -1.0] + rng.normal(size=n) * (1 + np.abs(x[:, 0]))


def test_without_coins_it_is_least_squares_with_statsmodels_hc3() -> None:
    x, y = people()
    ours, theirs = (
        regress_linear(y, x),
        sm.OLS(y, sm.add_constant(x)).fit(cov_type="HC3", use_t=True),
    )
    np.testing.assert_allclose(ours.coefficients, theirs.params, rtol=1e-9)
    np.testing.assert_allclose(ours.covariance, theirs.cov_params(), rtol=1e-8)
    np.testing.assert_allclose(ours.p_value, theirs.pvalues, rtol=1e-6)
    np.testing.assert_allclose(ours.interval(0.9), theirs.conf_int(0.1), rtol=1e-7)
    test = ours.wald("x1", "x2")
    assert test.p_value == pytest.approx(float(theirs.f_test(np.eye(3)[1:]).pvalue), rel=1e-6)


def test_weights_and_clusters_are_those_of_weighted_least_squares() -> None:
    x, y = people()
    weights, clusters = np.random.default_rng(5).uniform(1, 3, 400), np.arange(400) // 8
    ours = regress_linear(y, x, sample=Sample(weights=weights, clusters=clusters))
    theirs = sm.WLS(y, sm.add_constant(x), weights=weights).fit(
        cov_type="cluster", cov_kwds={"groups": clusters, "use_correction": False}
    )
    np.testing.assert_allclose(ours.coefficients, theirs.params, rtol=1e-9)
    np.testing.assert_allclose(ours.covariance * 49 / 50, theirs.cov_params(), rtol=1e-8)


def test_the_corrected_equations_are_unbiased_over_every_coin() -> None:
    """Four people, all 16 combinations of reports of a randomized predictor, and of the outcome
    besides: 256 in all."""
    survey, w = Warner(0.7), np.array([0.3, -1.0, 2.0, 0.5])
    z, y = np.array([1, 0, 1, 0]), np.array([0, 1, 1, 0])
    channel = survey.channel()
    words = np.array(["no", "yes"])
    left, right = np.zeros((3, 3)), np.zeros(3)
    from deniable.estimation.regression.linear import _design  # noqa: PLC0415 - both sides of the equations are inside

    clear = np.column_stack([np.ones(4), w])
    for reports in itertools.product([0, 1], repeat=4):
        coins = np.prod([channel[r, t] for r, t in zip(reports, z, strict=True)])
        values, products = _design(clear, [predictor_variable("z", (survey, words[list(reports)]))])
        left += coins * products.sum(axis=0)
        for outcome in itertools.product([0, 1], repeat=4):
            both = coins * np.prod([channel[r, t] for r, t in zip(outcome, y, strict=True)])
            target = numeric_variable("y", (survey, words[list(outcome)]))
            right += both * values.T @ target.values[:, 0]
    true = np.column_stack([clear, z])
    np.testing.assert_allclose(left, true.T @ true, atol=1e-12)
    np.testing.assert_allclose(right, true.T @ y, atol=1e-12)


def test_leaving_out_a_person_is_what_the_jackknife_says() -> None:
    rng, survey = np.random.default_rng(6), Warner(0.85)
    w, z = rng.normal(size=60), rng.random(60) < 0.5
    y = 1 + w + z + rng.normal(size=60)
    said = np.where(np.where(rng.random(60) < 0.85, z, ~z), "yes", "no")
    fit = regress_linear(y, w, randomized={"z": (survey, said)})
    gaps = []
    for out in range(60):
        kept = np.arange(60) != out
        gaps.append(
            regress_linear(y[kept], w[kept], randomized={"z": (survey, said[kept])}).coefficients
            - fit.coefficients
        )
    np.testing.assert_allclose(np.array(gaps).T @ np.array(gaps), fit.covariance, rtol=1e-9)


def test_randomized_and_scrambled_predictors_meet_where_plain_least_squares_shrinks() -> None:
    rng, survey, n = np.random.default_rng(7), DirectEncoding(["a", "b", "c"], 2.0), 60_000
    cards = Scrambling.additive([-4.0, -2.0, 0.0, 2.0, 4.0])
    income, kind = rng.gamma(4.0, 1.0, n), rng.integers(0, 3, n)
    y = 2 + 0.5 * income + np.array([0.0, 1.0, -1.0])[kind] + rng.normal(size=n)
    scrambled = cards.privatize(income, seeded_source(1))
    reports = survey.privatize(np.array(["a", "b", "c"])[kind].tolist(), seeded_source(2))
    fit = regress_linear(
        y,
        randomized={"income": (cards, scrambled), "kind": (survey, reports)},
        outcome_name="hours",
    )
    assert fit.names == ("(intercept)", "income", "kind[b]", "kind[c]")
    assert np.all(np.abs(fit.coefficients - [2, 0.5, 1, -1]) < 4.5 * fit.stderr)
    assert abs(regress_linear(y, scrambled).coefficients[1]) < 0.3  # what ignoring the cards finds
    assert math.isinf(fit.epsilon)
    assert "epsilon infinite" in str(fit)


# --- correlation


def test_without_coins_it_is_pearsons_correlation_with_the_jackknife_written_out() -> None:
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=80) + 1e6, rng.normal(size=80)
    found = correlate(x, y)
    assert found.value == pytest.approx(float(np.corrcoef(x, y)[0, 1]), abs=1e-9)
    without = np.array([np.corrcoef(np.delete(x, i), np.delete(y, i))[0, 1] for i in range(80)])
    assert found.stderr == pytest.approx(
        math.sqrt(79 / 80 * ((without - without.mean()) ** 2).sum()), rel=1e-6
    )
    sampled = correlate(x, y, sample=Sample(weights=np.ones(80)))
    assert sampled.value == pytest.approx(found.value)
    assert sampled.stderr == pytest.approx(found.stderr, rel=0.06)


def test_the_table_of_two_randomized_answers_has_the_same_correlation() -> None:
    from deniable import joint, statistics  # noqa: PLC0415

    rng, survey = np.random.default_rng(9), Warner(0.8)
    one = rng.random(3_000) < 0.4
    two = rng.random(3_000) < np.where(one, 0.7, 0.3)
    first, second = (
        survey.privatize(np.where(v, "yes", "no").tolist(), seeded_source(i))
        for i, v in enumerate((one, two))
    )
    found = correlate((survey, first), (survey, second), names=("one", "two"))
    table = joint({"one": survey, "two": survey}, {"one": first, "two": second})
    expected = statistics.correlation(table, scores={"one": [0, 1], "two": [0, 1]})
    assert found.value == pytest.approx(expected.value, abs=1e-9)
    assert found.stderr == pytest.approx(expected.stderr, rel=0.01)


def _one(n: int) -> tuple[Mechanism, list[str]]:
    return Warner(0.8), ["yes"] * (n // 2) + ["no"] * (n - n // 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: weighted_estimate(*_one(4), Sample(weights=[1, 2])), "len(sample) = 2 must be"),
        (lambda: weighted_estimate(*_one(2), Sample(weights=[1, 2]), method="ratio"), "method = 'ratio' must be one of 'hajek'"),
        (lambda: weighted_estimate(*_one(2), Sample(weights=[1, 2]), method="horvitz-thompson"), "population = None must be"),
        (lambda: weighted_estimate(*_one(2), Sample(weights=[1, 2]), population=9), "population = 9 is for 'horvitz-thompson'"),
        (lambda: weighted_estimate(*_one(2), Sample(weights=[1, 2]), errors="brr"), "errors = 'brr' must be one of 'linearised'"),
        (lambda: correlate([1.0, 2.0, 3.0], [1.0, 2.0]), "len(second) = 2 must be"),
        (lambda: correlate((Warner(0.51), ["yes"] * 3 + ["no"]), [1.0, 2.0, 1.0, 2.0]), "must be above 0"),
        (lambda: correlate([1.0, math.nan, 3.0], [1.0, 2.0, 3.0]), "first[1] = '…' must not be missing"),
        (lambda: correlate((DirectEncoding(["a", "b", "c"], 1.0), ["a"] * 3), [1.0] * 3), "scores = None must be given"),
        (lambda: regress_linear([1.0, 2.0], [[1.0], [2.0], [3.0]]), "len(covariates) = 3 must be"),
        (lambda: regress_linear([1.0, 2.0], [[1.0], [2.0]]), "2 people are too few for 2 coefficients"),
        (lambda: regress_linear([1.0] * 6, randomized={"z": (Warner(0.51), ["yes"] * 5 + ["no"])}), "too few to distinguish"),
        (lambda: regress_linear([1.0] * 6, [1.0, 2, 3, 4, 5, 6]).wald("age"), "names = ['age'] must be among (intercept), x1"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_one_clear_line(
    call: Callable[[], Any], message: str
) -> None:
    with pytest.raises((ParameterError, FitError)) as refused:
        call()
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


# --- how often weighted intervals cover


def weighted_coverage(
    weights: Callable[[Any], Floats], share: float, trials: int, **groups: Any
) -> tuple[float, bool]:
    """How often intervals from Warner's design with these weights hold the truth, and whether they
    say "at least"."""
    design, rng, held = Warner(0.8), np.random.default_rng(11), 0
    for _ in range(trials):
        drawn = weights(rng)
        said = rng.random(drawn.size) < np.where(rng.random(drawn.size) < share, 0.8, 0.2)
        found = weighted_estimate(
            design, Reports(design, said.astype(np.uint8)), Sample(weights=drawn, **groups)
        )
        low, high = found.interval()[1]
        held += bool(low <= share <= high)
    return held / trials, bool(found.covers_more()[1])


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_log_normal_weights_leave_few_degrees_of_freedom_and_the_interval_knows(
    share: float,
) -> None:
    """91.8 % with Student's quantile of n - 1. 600 surveys of 100 people: three standard errors are
    2.7 points."""
    covered, at_least = weighted_coverage(lambda rng: rng.lognormal(size=100), share, 600)
    assert at_least
    assert covered >= 0.935


def test_few_clusters_with_unequal_weights_have_the_degrees_of_freedom_of_the_heaviest() -> None:
    """Four strata of four clusters: 12 degrees of freedom were claimed, and 91.8 % covered."""
    groups = {"strata": np.repeat(np.arange(4), 40), "clusters": np.repeat(np.arange(16), 10)}
    heavy = np.repeat([1.0, 2.0, 4.0, 8.0], 40)
    assert Sample(weights=heavy, **groups).effective_degrees == pytest.approx(
        3 * 85**2 / (1 + 16 + 256 + 4096)
    )
    covered, at_least = weighted_coverage(lambda _: heavy, 0.3, 500, **groups)
    assert at_least
    assert covered >= 0.935


@pytest.mark.slow
def test_equal_weights_leave_the_plain_claim_and_nearly_all_degrees() -> None:
    covered, at_least = weighted_coverage(lambda _: np.ones(400), 0.1, 400)
    assert not at_least
    assert 0.917 <= covered <= 0.983  # three standard errors
    assert Sample(weights=np.ones(400)).effective_degrees == pytest.approx(399)
    assert Sample(weights=np.ones(1_000)).effective_degrees == pytest.approx(1_000, rel=0.01)
