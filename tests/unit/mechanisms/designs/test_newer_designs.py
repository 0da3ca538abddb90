"""Extended crosswise, item sum and two lists: exact channels, published figures, coverage, and
tests that can fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import Crosswise, ExtendedCrosswise, ItemCount, ItemSum, regress, seeded_source
from deniable.errors import ParameterError
from deniable.planning import design_power, design_sample_size

TRIALS = 5_000
QUARTER = ExtendedCrosswise(1 / 4)


# --- extended crosswise


def test_the_samples_have_opposite_channels_and_the_same_loss() -> None:
    first, second = QUARTER.group(0), QUARTER.group(1)
    assert first.exact_channel() == (
        (Fraction(1, 4), Fraction(3, 4)),
        (Fraction(3, 4), Fraction(1, 4)),
    )
    assert second.exact_channel() == first.exact_channel()[::-1]
    assert QUARTER.epsilon == first.epsilon == second.epsilon == pytest.approx(math.log(3))
    np.testing.assert_allclose(QUARTER.rates(0.2), [0.65, 0.35])


def test_the_estimate_and_its_error_are_those_of_the_papers() -> None:
    """(lam_1 - lam_2 + 2p - 1)/(2 (2p - 1)) with equal samples; p = 1/4, pi = 0.2, 500 each:
    standard error .030166."""
    found = QUARTER.estimate_counts(same=(325, 175), n=(500, 500))
    assert found["pi"].value == pytest.approx(0.2)
    assert found.with_errors("n")["pi"].stderr == pytest.approx(0.030166, abs=5e-7)
    assert QUARTER.expected_stderr((500, 500), 0.2) == pytest.approx(0.030166, abs=5e-7)
    uneven = QUARTER.estimate_counts(same=(331, 190), n=(500, 500))
    assert uneven["pi"].value == pytest.approx((331 / 500 - 190 / 500 + 0.5 - 1) / (2 * (0.5 - 1)))
    assert uneven.n == (500, 500)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2_000])
@pytest.mark.parametrize("p", [1 / 4, 1 / 6])
def test_the_prevalence_is_covered_by_the_exact_law_of_the_count(n: int, p: float) -> None:
    """How many said "same" in the first sample or "different" in the second has a binomial law, and
    decides the limits."""
    design, half, pooled = ExtendedCrosswise(p), n // 2, np.arange(n + 1)
    first = np.minimum(pooled, half)
    found = [
        design.estimate_counts(same=(int(one), int(half - both + one)), n=(half, half))
        for one, both in zip(first, pooled, strict=True)
    ]
    limits = np.array([estimate.interval()[0] for estimate in found])
    assert not any(estimate.covers_more().any() for estimate in found)
    for pi in (0.01, 0.1, 0.5):
        law = stats.binom.pmf(pooled, n, design.rates(pi)[0])
        assert law @ [estimate["pi"].value for estimate in found] == pytest.approx(pi, abs=1e-9)
        covered = law @ ((limits[:, 0] <= pi) & (pi <= limits[:, 1]))
        assert 0.94 <= covered <= 0.96, (pi, covered)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "pi"), [(200, 0.01), (200, 0.5), (2_000, 0.1)])
def test_the_fit_rejects_one_survey_in_twenty(n: int, pi: float) -> None:
    """20,000 surveys: a rate of 5 % has a standard error of 0.15 points."""
    rng, half = np.random.default_rng(int(1000 * pi + n)), n // 2
    counts, times = np.unique(
        rng.binomial(half, QUARTER.rates(pi), (20_000, 2)), axis=0, return_counts=True
    )
    rejected = [QUARTER.fit(same=same, n=(half, half)).p_value < 0.05 for same in counts.tolist()]
    assert 0.043 <= np.average(rejected, weights=times) <= 0.057


def test_people_who_prefer_a_word_are_detected_and_those_who_answer_by_chance_are_not() -> None:
    rng, n = np.random.default_rng(3), (1_000, 1_000)
    prefer = [
        QUARTER.fit(same=rng.binomial(n, 0.8 * QUARTER.rates(0.2) + 0.2).tolist(), n=n).p_value
        for _ in range(200)
    ]
    by_chance = [
        QUARTER.fit(same=rng.binomial(n, 0.8 * QUARTER.rates(0.2) + 0.1).tolist(), n=n).p_value
        for _ in range(200)
    ]
    assert np.mean(np.array(prefer) < 0.05) > 0.95
    assert np.mean(np.array(by_chance) < 0.05) < 0.12
    told = QUARTER.estimate_counts(same=(800, 500), n=n)
    assert (
        told.notes[-1]
        == "the samples do not fit together: some people did not answer as told, and pi may be"
        " biased"
    )


def test_a_known_proportion_of_random_answers_is_taken_out() -> None:
    rates = 0.8 * QUARTER.rates(0.2) + 0.1
    same = [round(rate * 100_000) for rate in rates]
    naive = QUARTER.estimate_counts(same=same, n=(100_000, 100_000))
    mended = QUARTER.estimate_counts(same=same, n=(100_000, 100_000), random=0.2)
    assert naive["pi"].value == pytest.approx(0.26)
    assert mended["pi"].value == pytest.approx(0.2)
    assert mended["pi"].stderr == pytest.approx(naive["pi"].stderr / 0.8)
    anchor = [round(rate * 100_000) for rate in 0.8 * QUARTER.rates(0.0) + 0.1]
    both = [round(s * a / 100_000) for s, a in zip(same, anchor, strict=True)]
    measured = QUARTER.estimate_with_anchor(
        same=same, anchor_same=anchor, both=both, n=(100_000, 100_000)
    )
    assert measured["pi"].value == pytest.approx(0.2, abs=1e-4)
    assert measured["t"].value == pytest.approx(0.8, abs=1e-4)


def test_both_samples_are_analysed_together_as_one_crosswise_question() -> None:
    rng, source = np.random.default_rng(4), seeded_source(4)
    age, group = rng.normal(size=4_000), rng.integers(1, 3, 4_000)
    truth = np.where(rng.random(4_000) < 1 / (1 + np.exp(1 - age)), "yes", "no")
    said = np.empty(4_000, dtype="<U9")
    for index in (0, 1):
        chosen = group == index + 1
        said[chosen] = QUARTER.group(index).report_labels(
            QUARTER.privatize(truth[chosen], index, source)
        )
    pooled = QUARTER.pooled(said, group)
    fit = regress(pooled.mechanism, pooled, age, names=["age"])
    assert abs(fit.coefficients[0, 1] - 1) < 4 * fit.stderr[0, 1]
    assert pooled.mechanism == Crosswise(1 / 4)
    columns = QUARTER.estimate([said[group == 1], said[group == 2]])
    assert columns["pi"].value == pytest.approx(
        float(Crosswise(1 / 4).estimate(pooled).proportions[1])
    )
    np.testing.assert_array_equal(
        QUARTER.pooled((said == "same").astype(int), group).data, pooled.data
    )


def test_everyday_randomizers_have_their_probabilities() -> None:
    assert ExtendedCrosswise.birthday(range(1, 4)).p == Fraction(361, 1461)
    assert ExtendedCrosswise.draws(2, of=10).p == Fraction(1, 5)
    needed = design_sample_size(QUARTER, 0.1, power=0.9)
    assert sum(needed.n) == pytest.approx(
        sum(design_sample_size(Crosswise(1 / 4), 0.1, power=0.9).n), abs=2
    )
    assert design_power(QUARTER, 0.1, needed.n).power >= 0.9


# --- lists and sums


def test_intervals_of_few_people_cover_as_stated() -> None:
    """8,000 surveys of 6 + 9 people each: a true 95 % gives 93.9 to 96.1 % with probability
    0.99999."""
    source, trials = np.random.default_rng(11), 8000
    long, short = source.normal(9.0, 3.0, (trials, 6)), source.normal(4.0, 2.0, (trials, 9))
    moments = [
        (part.mean(axis=1), part.std(axis=1, ddof=1), part.shape[1]) for part in (long, short)
    ]
    covered = 0
    for i in range(trials):
        means, deviations, n = zip(
            *((mean[i], deviation[i], n) for mean, deviation, n in moments), strict=True
        )
        low, high = (
            ItemSum().estimate_moments(means=means, deviations=deviations, n=n).interval()[0]
        )
        covered += low <= 5.0 <= high
    assert 0.939 <= covered / trials <= 0.961


def laws_of_two_lists(pi: float) -> list[Any]:
    """The law of a person's two counts of 4 items in both samples, where one thing, between 0 and 1
    by Beta(4, 4), makes a person's items alike."""
    ability, weight = np.polynomial.legendre.leggauss(20)
    ability, weight = (ability + 1) / 2, weight * stats.beta.pdf((ability + 1) / 2, 4, 4)
    alone = stats.binom.pmf(np.arange(5)[:, None], 4, ability)
    both = np.einsum("aw,bw,w->ab", alone, alone, weight / weight.sum())
    with_item = np.pad(both * (1 - pi), ((0, 1), (0, 0))) + np.pad(both * pi, ((1, 0), (0, 0)))
    return [with_item, with_item.T]


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2_000])
@pytest.mark.parametrize("pi", [0.01, 0.1, 0.5])
def test_two_lists_are_unbiased_cover_and_beat_one(n: int, pi: float) -> None:
    """5,000 surveys: a coverage of 95 % has a standard error of 0.3 points."""
    rng, design = np.random.default_rng(n), ItemCount(items=4)
    samples = []
    for law in laws_of_two_lists(pi):
        places = np.argwhere(law >= 0)
        drawn = rng.multinomial(n // 2, law.ravel() / law.sum(), TRIALS)
        samples.append([np.repeat(places, counts, axis=0) for counts in drawn])
    found = [
        design.estimate_two_lists(first=one, second=other)
        for one, other in zip(*samples, strict=True)
    ]
    values = np.array([estimate["pi"].value for estimate in found])
    limits = np.array([estimate.interval() for estimate in found])
    assert abs(values.mean() - pi) < 4 * values.std() / math.sqrt(TRIALS)
    assert not any(estimate.covers_more().any() for estimate in found)
    for truth, (low, high) in zip((pi, 0.0), limits.transpose(1, 2, 0), strict=True):
        assert 0.94 <= ((low <= truth) & (truth <= high)).mean() <= 0.96
    single = [one[:, 0].mean() - other[:, 0].mean() for one, other in zip(*samples, strict=True)]
    assert values.var() < 0.5 * np.var(single)


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 2_000])
@pytest.mark.parametrize("pi", [0.01, 0.1, 0.5])
def test_the_mean_of_a_sum_is_unbiased_and_covered(n: int, pi: float) -> None:
    """5,000 surveys, of hours that few or many people have, by a skewed law."""
    rng, half, truth, parts = np.random.default_rng(n), n // 2, 9 * pi, 10
    found = []
    for _ in range(parts):
        shape = (TRIALS // parts, half)
        short = rng.gamma(4, 2, shape)
        long = rng.gamma(4, 2, shape) + np.where(rng.random(shape) < pi, rng.gamma(3, 3, shape), 0)
        moments = [(part.mean(axis=1), part.std(axis=1, ddof=1)) for part in (long, short)]
        found += [
            ItemSum().estimate_moments(means=means, deviations=deviations, n=(half, half))
            for means, deviations in zip(
                zip(*(mean for mean, _ in moments), strict=True),
                zip(*(deviation for _, deviation in moments), strict=True),
                strict=True,
            )
        ]
    values = np.array([estimate["mean"].value for estimate in found])
    limits = np.array([estimate.interval()[0] for estimate in found])
    assert abs(values.mean() - truth) < 4 * values.std() / math.sqrt(TRIALS)
    assert 0.94 <= ((limits[:, 0] <= truth) & (truth <= limits[:, 1])).mean() <= 0.96
    spread = math.sqrt(pi * (27 + 81) - truth**2)
    assert values.std() == pytest.approx(
        ItemSum().expected_stderr((half, half), truth, spread, 4.0), rel=0.05
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ExtendedCrosswise(0.5), "nothing can be learned"),
        (lambda: ExtendedCrosswise.birthday([13]), r"months = \[13\] must be months from 1 to 12"),
        (lambda: ExtendedCrosswise.draws(6), "winning = 6 must be a whole number from 1 to 6 - 1"),
        (
            lambda: QUARTER.estimate_counts(same=(3, 4), n=(2, 9)),
            r"same\[0\] = 3 must be at most 2",
        ),
        (
            lambda: QUARTER.estimate_counts(same=(3, 4), n=(9, 9), random=1),
            "random = 1 must be less than 1",
        ),
        (lambda: QUARTER.estimate([[1]]), r"len\(groups\) = 1 must be 2"),
        (lambda: QUARTER.pooled(["same", "perhaps"], [0, 1]), "must be 'same' or 'different'"),
        (lambda: QUARTER.pooled(["same", "same"], [0, 3]), "must be 0 or 1"),
        (
            lambda: ItemSum().estimate(long=[1.0], short=[1, 2]),
            r"long.shape = \(1,\) must be a column of at least 2",
        ),
        (lambda: ItemSum().estimate(long=["a", "b"], short=[1, 2]), "must hold numbers only"),
        (
            lambda: ItemCount(3).estimate_two_lists(first=[[5, 0]] * 2, second=[[0, 0]] * 2),
            "up to 4 of list A, 3 of list B",
        ),
        (
            lambda: ItemCount(3).estimate_two_lists(first=[1, 2], second=[[0, 0]] * 2),
            "must be two columns",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_the_rule(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        call()
