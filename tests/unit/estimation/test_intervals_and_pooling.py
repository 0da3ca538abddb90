"""Intervals, consistency, strata, batches, groups and distances: limits, identities and refusals,
all exact."""

from __future__ import annotations

import dataclasses
import math
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

from deniable import (
    BinaryResponse,
    DesignMatrix,
    DirectEncoding,
    Estimate,
    Mechanism,
    OptimizedUnary,
    Tally,
    UnaryEncoding,
    combine,
    compare,
    euclidean,
    kantorovich,
    manhattan,
    seeded_source,
    stratified,
)
from deniable.errors import ParameterError
from deniable.estimation.consistency import METHODS, best_passes, smooth
from deniable.estimation.exact_intervals import count_laws
from deniable.estimation.intervals import critical_values

THREE = [[0.7, 0.2, 0.25], [0.2, 0.6, 0.25], [0.1, 0.2, 0.5]]
minimize: Any = optimize.minimize  # its stubs do not know every way to call it
SURVEY = BinaryResponse(0.5, 0.5)


def estimate_of(
    ones: int, n: int, mechanism: Mechanism = SURVEY, population: int | None = None
) -> Estimate:
    return mechanism.estimate([1] * ones + [0] * (n - ones), population)


def five() -> Estimate:
    """Five labels, one estimated negative, not summing to 1."""
    survey = OptimizedUnary(5, 1.0)
    return survey.estimate(survey.privatize([0] * 300 + [1] * 150 + [2] * 50, seeded_source(3)))


# --- intervals


@pytest.mark.parametrize("population", [None, 201, 500])
@pytest.mark.parametrize("ones", [12, 20, 33, 40])
def test_score_limits_are_the_shares_whose_own_error_just_reaches_the_estimate(
    ones: int, population: int | None
) -> None:
    estimate = estimate_of(ones, 50, population=population)
    z = stats.norm.ppf(0.95)

    def beyond(share: float) -> float:
        rate = 0.25 + 0.5 * share
        variance = rate * (1 - rate) / (0.25 * 50) - (
            0 if population is None else share * (1 - share) / population
        )
        return float(abs(estimate.proportions[1] - share) - z * math.sqrt(variance))

    for limit, outer in zip(estimate.interval(0.9, "score")[1], (0.0, 1.0), strict=True):
        if limit in {0.0, 1.0}:
            assert beyond(limit) <= 1e-12, "cut although a share beyond would not fit"
        else:
            assert abs(beyond(limit)) < 1e-12
            assert beyond(limit + 1e-6 * np.sign(outer - limit)) > 0


def test_the_interval_of_a_small_population_holds_the_truths_that_explain_the_count() -> None:
    """Six people, all asked, coins that lie once in a hundred: the count is nearly always the
    truth."""
    truthful = BinaryResponse(0.98, 0.5)
    for ones in range(7):
        estimate = estimate_of(ones, 6, truthful, population=6)
        # Nobody and everybody are never certain while the coins are random: one person is left.
        low, high = min(ones, 5) / 6, max(ones, 1) / 6
        assert estimate.interval(0.9, "score")[1].tolist() == [low, high]
        np.testing.assert_allclose(
            estimate.interval(0.9, "score")[0], [1 - high, 1 - low], rtol=1e-12
        )
        low, high = estimate.interval(0.999)[1]
        assert low <= ones / 6 <= high
        assert round(6 * (high - low)) >= 1


def test_the_law_of_a_small_count_is_what_every_outcome_adds_up_to() -> None:
    """Three of four people are asked: every draw of people and every toss of coins, one by one."""
    a, b = 0.75, 0.25
    for having in range(5):
        law = np.zeros(4)
        for asked in combinations(range(4), 3):
            chances = [a if person < having else b for person in asked]
            for reports in product((0, 1), repeat=3):
                chance = math.prod(
                    c if report else 1 - c for c, report in zip(chances, reports, strict=True)
                )
                law[sum(reports)] += chance / 4
        np.testing.assert_allclose(count_laws(3, 4, a, b)[having], law, atol=1e-14)


def test_simultaneous_intervals_of_a_small_population_are_wider() -> None:
    survey = OptimizedUnary(5, 3.0)
    estimate = survey.estimate(
        survey.privatize([0, 1, 2, 3, 4] * 20, seeded_source(3)), population=110
    )
    alone, together = estimate.interval(), estimate.interval(simultaneous=True)
    assert (together[:, 0] <= alone[:, 0]).all()
    assert (together[:, 1] >= alone[:, 1]).all()
    assert ((together[:, 1] - together[:, 0]) > (alone[:, 1] - alone[:, 0])).all()


def test_score_limits_are_wilsons_where_nobody_lies() -> None:
    nobody_lies = UnaryEncoding(2, 1 - 1e-15, 1e-15)
    estimate = nobody_lies.estimate(nobody_lies.privatize([1] * 7 + [0] * 23, seeded_source(1)))
    wilson = stats.binomtest(7, 30).proportion_ci(0.95, "wilson")
    np.testing.assert_allclose(
        estimate.interval(method="score")[1], [wilson.low, wilson.high], atol=1e-9
    )
    exact = stats.binomtest(7, 30).proportion_ci(0.95, "exact")
    np.testing.assert_allclose(
        estimate.interval(method="exact")[1], [exact.low, exact.high], atol=1e-9
    )


def test_score_intervals_lie_within_0_and_1_even_where_no_share_fits() -> None:
    never = estimate_of(0, 200)  # a quarter of them would say yes if nobody meant it
    assert never.proportions[1] < -0.4
    # At the edge, and not a point: that would claim to be certain.
    (low, one), (zero, high) = never.interval(method="score")
    assert (one, zero) == (1, 0)
    assert low == pytest.approx(1 - 0.02 * never.stderr[0])
    assert high == pytest.approx(0.02 * never.stderr[1])
    np.testing.assert_array_equal(never.interval(), never.interval(method="score"))


def test_normal_intervals_use_students_quantile() -> None:
    estimate = estimate_of(12, 20)
    expected = stats.t.ppf(0.975, 19) * estimate.stderr
    np.testing.assert_allclose(estimate.plus_minus(), expected)
    np.testing.assert_allclose(
        estimate.interval(method="normal"),
        np.column_stack([estimate.proportions - expected, estimate.proportions + expected]),
    )


def test_a_single_report_has_an_unlimited_normal_interval() -> None:
    low, high = estimate_of(1, 1).interval(method="normal").T
    assert np.all(np.isneginf(low))
    assert np.all(np.isposinf(high))


def test_what_has_no_score_interval_falls_back_to_the_normal_one() -> None:
    survey = DesignMatrix(THREE)
    estimate = dataclasses.replace(survey.estimate([0, 1, 2, 2, 0, 1, 1]), score_law=None)
    with pytest.raises(ParameterError, match="'normal'"):
        estimate.interval(method="score")
    np.testing.assert_array_equal(estimate.interval(), estimate.interval(method="normal"))


def test_simultaneous_intervals_of_independent_labels_are_those_of_sidak_and_never_wider() -> None:
    free = np.full(5, math.inf)
    sidak = stats.norm.ppf((1 + 0.95**0.2) / 2)
    alone = critical_values(0.95, free, None, True)
    np.testing.assert_allclose(alone, sidak)
    independent = critical_values(0.95, free, np.eye(5), True)
    np.testing.assert_allclose(independent, sidak, rtol=0.01)
    assert np.all(independent <= alone)  # whatever is drawn, no more than without a covariance
    same = critical_values(0.95, free, np.ones((5, 5)), True)
    # five times the same question is one
    np.testing.assert_allclose(same, stats.norm.ppf(0.975), rtol=0.02)
    assert np.all(same >= stats.norm.ppf(0.975))
    np.testing.assert_array_equal(critical_values(0.95, free, np.ones((5, 5)), True), same)


def test_simultaneous_intervals_contain_the_single_ones() -> None:
    for method in ("normal", "score"):
        alone, together = (five().interval(method=method, simultaneous=s) for s in (False, True))
        assert np.all(together[:, 0] <= alone[:, 0])
        assert np.all(together[:, 1] >= alone[:, 1])
        assert np.any(together[:, 1] > alone[:, 1])


@pytest.mark.parametrize("confidence", [0, 1, -0.5, 95, True, "0.95", math.nan])
def test_an_impossible_confidence_is_refused(confidence: Any) -> None:
    with pytest.raises(ParameterError, match=r"confidence = .* must lie strictly between 0 and 1"):
        five().interval(confidence)


def test_an_unknown_method_is_refused() -> None:
    with pytest.raises(
        ParameterError, match="method = 'wald' must be 'normal', 'score' or 'exact'"
    ):
        five().interval(method="wald")


# --- consistency


def test_norm_sub_is_the_projection_under_another_name() -> None:
    by_name, projected = five().consistent("norm-sub"), five().projected()
    np.testing.assert_array_equal(by_name.proportions, projected.proportions)
    solved = minimize(
        lambda x: ((x - five().proportions) ** 2).sum(),
        np.full(5, 0.2),
        bounds=[(0, 1)] * 5,
        constraints={"type": "eq", "fun": lambda x: x.sum() - 1},
        options={"ftol": 1e-15},
    )
    np.testing.assert_allclose(projected.proportions, solved.x, atol=1e-6)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_says_what_it_did_and_keeps_the_unbiased_proportions(method: str) -> None:
    before = five()
    after = before.consistent(method)
    assert len(after.notes) == len(before.notes) + 1
    assert after.notes[-1] in str(after)
    if method == "norm":
        assert after.unbiased is None
        assert "unbiased" in after.notes[-1]
    else:
        assert after.unbiased is not None
        np.testing.assert_array_equal(after.unbiased, before.proportions)
        np.testing.assert_array_equal(after.variance, before.variance)
        assert "biased" in after.notes[-1]
        chained = after.projected()
        assert chained.unbiased is not None
        np.testing.assert_array_equal(chained.unbiased, before.proportions)


def test_norm_carries_the_covariance_along() -> None:
    before, after = five(), five().consistent("norm")
    centring = np.eye(5) - 1 / 5
    assert before.covariance is not None
    assert after.covariance is not None
    np.testing.assert_allclose(
        after.covariance, centring @ before.covariance @ centring, atol=1e-15
    )
    np.testing.assert_allclose(after.variance, np.diagonal(centring @ before.covariance @ centring))
    np.testing.assert_allclose(
        after.proportions, before.proportions - (before.proportions.sum() - 1) / 5
    )


def test_the_cut_stands_at_the_noise_of_an_absent_label() -> None:
    survey = OptimizedUnary(5, 1.0)
    spread = math.sqrt(survey.channel().b * (1 - survey.channel().b) / 500) / (
        survey.channel().a - survey.channel().b
    )
    cut = stats.norm.isf(0.05 / 5) * spread
    kept = five().consistent("base-cut").proportions
    np.testing.assert_array_equal(kept, np.where(five().proportions > cut, five().proportions, 0))
    assert 0 < np.count_nonzero(kept) < 5


def test_smoothing_keeps_the_sum_and_flattens_in_the_end() -> None:
    rough = np.array([0.9, -0.2, 0.1, 0.4, 0.0])
    assert abs(smooth(rough, 7).sum() - rough.sum()) < 1e-14
    np.testing.assert_allclose(smooth(rough, 500), rough.mean())
    np.testing.assert_array_equal(smooth(rough, 0), rough)


def test_the_best_number_of_passes_is_the_one_mallows_figure_names() -> None:
    rng = np.random.default_rng(1)
    k, noise = 24, 0.01
    x = np.sin(np.arange(k) / 4) / 20 + noise * rng.standard_normal(k)
    covariance = noise**2 * np.eye(k)

    def judged(passes: int) -> float:
        matrix = np.array([smooth(row, passes) for row in np.eye(k)])
        return float(((smooth(x, passes) - x) ** 2).sum() + 2 * np.trace(matrix @ covariance))

    best = best_passes(x, covariance)
    assert 0 < best < 30
    assert judged(best) <= min(judged(m) for m in range(8))  # every number up to 7 is tried
    assert best_passes(x, 1e-12 * covariance) == 0


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("clip", {}, "method = 'clip' must be one of base-cut, norm, norm-sub, smooth"),
        ("norm-sub", {"passes": 2}, "passes = 2 is not an option of 'norm-sub', which has none"),
        ("smooth", {"passes": -1}, "passes = -1 must be a whole number of at least 0"),
        ("smooth", {"passes": 1.5}, "passes = 1.5 must be a whole number"),
        ("base-cut", {"false_alarm": 0}, "false_alarm = 0 must lie strictly between 0 and 1"),
    ],
)
def test_methods_and_options_that_do_not_exist_are_refused(
    method: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        five().consistent(method, **options)


def test_smoothing_without_a_covariance_needs_to_be_told_how_often() -> None:
    alone = dataclasses.replace(five(), covariance=None)
    with pytest.raises(ParameterError, match="passes = None must be given"):
        alone.consistent("smooth")
    np.testing.assert_array_equal(
        alone.consistent("smooth", passes=2).proportions, smooth(five().proportions, 2)
    )


# --- strata, batches, groups


def test_strata_weigh_by_their_size_and_their_degrees_are_welchs() -> None:
    one, two = estimate_of(30, 60, population=900), estimate_of(10, 40, population=100)
    whole = stratified([one, two], [900, 100])
    np.testing.assert_allclose(whole.proportions, 0.9 * one.proportions + 0.1 * two.proportions)
    terms = [0.81 * one.variance, 0.01 * two.variance]
    np.testing.assert_allclose(whole.variance, terms[0] + terms[1])
    assert whole.degrees is not None
    np.testing.assert_allclose(
        whole.degrees, (terms[0] + terms[1]) ** 2 / (terms[0] ** 2 / 59 + terms[1] ** 2 / 39)
    )
    assert (whole.n, whole.population) == (100, 1_000)


def test_strata_of_equal_variance_have_the_papers_degrees_of_freedom() -> None:
    same = [estimate_of(25, 50)] * 3
    degrees = stratified(same, [10, 10, 10]).degrees
    assert degrees is not None
    np.testing.assert_allclose(degrees, 150 - 3)


def test_one_stratum_is_itself() -> None:
    alone = estimate_of(30, 60, population=300)
    whole = stratified({"all": alone}, {"all": 300})
    for method in ("normal", "score"):
        np.testing.assert_allclose(whole.interval(method=method), alone.interval(method=method))


def test_strata_of_strata_are_the_strata_of_the_whole() -> None:
    parts = [estimate_of(1, 2), estimate_of(0, 2), estimate_of(30, 60, population=300)]
    flat = stratified(parts, [100, 100, 300])
    nested = stratified([stratified(parts[:2], [100, 100]), parts[2]], [200, 300])
    np.testing.assert_allclose(nested.interval(), flat.interval())
    limits = flat.interval()
    assert ((limits[:, 0] < flat.proportions) & (flat.proportions < limits[:, 1])).all()
    # one report has no variance of its own
    single = stratified([estimate_of(1, 1), parts[2]], [100, 300]).interval()
    assert np.isfinite(single).all()
    assert (single[:, 1] - single[:, 0] > flat.interval(0.5)[:, 1] - flat.interval(0.5)[:, 0]).all()


def test_combining_the_same_mechanism_is_counting_its_reports_together() -> None:
    one, two = estimate_of(30, 60), estimate_of(40, 140)
    np.testing.assert_allclose(combine([one, two]).proportions, estimate_of(70, 200).proportions)


def test_what_is_pooled_keeps_reports_notes_and_the_largest_epsilon() -> None:
    weak = dataclasses.replace(estimate_of(30, 60), sampled_epsilon=0.5, notes=("spring",))
    strong = dataclasses.replace(
        estimate_of(30, 60, BinaryResponse.from_epsilon(3.0)),
        sampled_epsilon=1.5,
        notes=("autumn",),
    )
    for pooled in (combine([weak, strong]), stratified([weak, strong], [5, 7])):
        assert (pooled.n, pooled.epsilon, pooled.sampled_epsilon) == (120, strong.epsilon, 1.5)
        assert pooled.notes[:2] == ("spring", "autumn")
        assert len(pooled.notes) == 3
    assert (
        combine([weak, dataclasses.replace(strong, sampled_epsilon=None)]).sampled_epsilon is None
    )


def test_pooling_refuses_what_does_not_belong_together() -> None:
    one = estimate_of(30, 60)
    other = DirectEncoding(["a", "b"], 1.0).estimate(["a", "b"])
    with pytest.raises(ParameterError, match="labels"):
        combine([one, other])
    with pytest.raises(ParameterError, match="labels"):
        compare(one, other)
    with pytest.raises(ParameterError, match="not an unbiased estimate"):
        combine([one, one.projected()])
    with pytest.raises(ParameterError, match="at least one"):
        combine([])
    with pytest.raises(ParameterError, match=r"stratified\(\)"):
        combine([one, estimate_of(30, 60, population=100)])
    with pytest.raises(
        ParameterError, match="population = 100 must be at least the number of reports, 120"
    ):
        combine([estimate_of(30, 60, population=100)] * 2)
    with pytest.raises(ParameterError, match="is not an Estimate"):
        combine([0.5])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([10], "one entry per stratum, 2"),
        ([90, 0], "sizes.1. = 0 must be a number of people above 0"),
        ([90, math.nan], "must be a number of people"),
        ([80, 100], "sizes.0. = 80 must be the population its estimate was given, 90"),
        ({"a": 90, "b": 2}, "must be a mapping if"),
    ],
)
def test_sizes_that_do_not_fit_the_strata_are_refused(sizes: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        stratified([estimate_of(30, 60, population=90), estimate_of(30, 60)], sizes)


def test_strata_are_matched_by_name() -> None:
    one, two = estimate_of(30, 60), estimate_of(10, 40)
    by_name = stratified({"x": one, "y": two}, {"y": 1, "x": 3})
    np.testing.assert_allclose(by_name.proportions, 0.75 * one.proportions + 0.25 * two.proportions)
    with pytest.raises(ParameterError, match="must name the strata"):
        stratified({"x": one, "y": two}, {"y": 1, "z": 3})


def test_a_comparison_adds_the_variances_and_of_two_labels_tests_one_thing() -> None:
    one, two = estimate_of(50, 100), estimate_of(30, 80)
    compared = compare(one, two)
    np.testing.assert_allclose(compared.difference, one.proportions - two.proportions)
    np.testing.assert_allclose(compared.variance, one.variance + two.variance)
    statistic, degrees, p = compared.overall()
    assert degrees == 1
    alike = (100**2 * one.variance[1] + 80**2 * two.variance[1]) / 180 * (1 / 100 + 1 / 80)
    assert math.isclose(statistic, compared.difference[1] ** 2 / alike)
    assert math.isclose(p, 2 * stats.t.sf(math.sqrt(statistic), 178))
    np.testing.assert_allclose(
        compared.p_value, 2 * stats.t.sf(np.abs(compared.z), compared.degrees)
    )


def test_a_group_does_not_differ_from_itself() -> None:
    compared = compare(estimate_of(50, 100), estimate_of(50, 100))
    np.testing.assert_array_equal(compared.p_value, 1)
    assert compared.overall()[2] == 1


# --- distances


def test_distances_agree_with_scipy() -> None:
    rng = np.random.default_rng(1)
    p, q = rng.dirichlet(np.ones(9), 2)
    where = np.cumsum(rng.random(9))
    assert math.isclose(manhattan(p, q), np.linalg.norm(p - q, 1))
    assert math.isclose(euclidean(p, q), np.linalg.norm(p - q))
    assert math.isclose(
        kantorovich(p, q), stats.wasserstein_distance(np.arange(9), np.arange(9), p, q)
    )
    assert math.isclose(
        kantorovich(p, q, positions=where), stats.wasserstein_distance(where, where, p, q)
    )
    assert math.isclose(
        kantorovich(p, q, positions=3 * where), 3 * kantorovich(p, q, positions=where)
    )


def test_distances_take_estimates_of_the_same_labels() -> None:
    assert manhattan(five(), five()) == 0
    assert euclidean(five(), five().proportions) == 0
    assert kantorovich(five().projected(), five().consistent("norm")) > 0
    with pytest.raises(ParameterError, match="labels"):
        euclidean(five(), DirectEncoding(["a", "b"], 1.0).estimate(["a", "b"]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: manhattan([1, 2], [1, 2, 3]), r"len\(second\) = 3 must be that of the first"),
        (lambda: manhattan([[1, 2]], [1, 2]), r"first.shape = \(1, 2\) must be one row"),
        (lambda: euclidean([1, math.nan], [1, 2]), "first.1. = nan must be finite"),
        (
            lambda: euclidean("ab", [1, 2]),
            "first = 'str' must be an Estimate or a sequence of numbers",
        ),
        (
            lambda: kantorovich([0.5, 0.5], [0.5, 0.4]),
            r"sum\(second\) = 0.9 must equal sum\(first\) = 1.0",
        ),
        (lambda: kantorovich([0.5, 0.5], [0.4, 0.6], positions=[1, 1]), "must increase"),
        (
            lambda: kantorovich([0.5, 0.5], [0.4, 0.6], positions=[1, 2, 3]),
            r"len\(positions\) = 3 must be",
        ),
    ],
)
def test_histograms_that_cannot_be_compared_are_refused(call: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()


# --- two groups


@pytest.mark.parametrize("sizes", [(100, 100), (50, 300)], ids=str)
@pytest.mark.parametrize(
    "mechanism",
    [OptimizedUnary(16, 1.0), OptimizedUnary(16, 3.0), DirectEncoding(16, 3.0)],
    ids=repr,
)
def test_small_groups_that_are_alike_are_rejected_no_more_often_than_stated(
    mechanism: Any, sizes: tuple[int, int]
) -> None:
    """By chi-square, up to 11 % of 100 + 100 and 17 to 33 % of 50 + 300. 500 pairs: four standard
    errors are 3.9 points."""
    rng, true = np.random.default_rng(4), np.arange(1, 17.0) ** -1.2
    true /= true.sum()
    a, b = mechanism.support()
    rejected = 0
    for _ in range(500):
        parts = []
        for n in sizes:
            having = rng.multinomial(n, true)
            if isinstance(mechanism, DirectEncoding):
                counts = rng.multinomial(n, mechanism.channel() @ true)
            else:
                counts = rng.binomial(having, a) + rng.binomial(n - having, b)
            parts.append(Tally(mechanism, counts, n).estimate())
        rejected += compare(*parts).overall()[2] < 0.05
    assert 0.005 <= rejected / 500 <= 0.089
