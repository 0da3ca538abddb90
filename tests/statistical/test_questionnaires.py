"""Sampled questions, fake data and multiple choice, 5,000 crowds of 500 people each: unbiased, and
95 % covers 94 to 96 %.

Crowds are drawn all at once and counted crowd by crowd. Seeds are fixed; a z-test of a mean has a
false-alarm rate of 1e-9. How many reports support a label has a binomial law, so how often its
interval covers is computed exactly, and must be 94 to 96 %. The 5,000 simulated ones must agree
with that within five standard deviations of 0.3 %: the channel and the coins behind the law are
then what they are said to be.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import (
    DirectEncoding,
    Mechanism,
    MultipleChoice,
    OptimizedUnary,
    SquareWave,
    Tally,
    seeded_source,
    statistics,
)
from deniable.mechanisms.questionnaire import Questionnaire

CROWDS, PEOPLE = 5_000, 500
SHARES = {
    2: np.array([0.7, 0.3]),
    3: np.array([0.5, 0.35, 0.15]),
    5: np.array([0.4, 0.25, 0.15, 0.12, 0.08]),
}

SURVEYS: dict[str, Questionnaire] = {
    "one of three": Questionnaire(
        {str(k): DirectEncoding(k, 3.0) for k in (2, 3, 5)},
        ask=1,
        weights={"2": 1, "3": 1.5, "5": 2},
    ),
    "two of three": Questionnaire(
        {"2": DirectEncoding(2, 1.5), "3": DirectEncoding(3, 1.5), "5": OptimizedUnary(5, 1.5)},
        ask=2,
    ),
    "fakes": Questionnaire({str(k): DirectEncoding(k, 4.0) for k in (2, 3, 5)}, fake=True),
    "unary fakes": Questionnaire(
        {"2": DirectEncoding(2, 4.0), "5": OptimizedUnary(5, 4.0)}, fake=True
    ),
}


def tallies(mechanism: Mechanism, data: Any, crowd: Any) -> list[Tally]:
    """One a crowd."""
    order = np.argsort(crowd, kind="stable")
    edges = np.searchsorted(crowd[order], np.arange(CROWDS + 1))
    rows = data[order]
    return [
        Tally(mechanism, mechanism.count(rows[low:high]), high - low)
        for low, high in pairwise(edges)
    ]


def intervals(estimates: list[Any]) -> Any:
    """The intervals of all crowds: those of as many reports in one go, for an interval looks at one
    label at a time."""
    out = np.empty((len(estimates), len(estimates[0].labels), 2))
    sizes = np.array([estimate.n for estimate in estimates])
    for n in np.unique(sizes):
        alike = [estimates[place] for place in np.flatnonzero(sizes == n)]
        proportions = np.concatenate([estimate.proportions for estimate in alike])
        whole = dataclasses.replace(
            alike[0],
            labels=tuple(range(proportions.size)),
            proportions=proportions,
            variance=np.concatenate([estimate.variance for estimate in alike]),
            covariance=None,
            support=tuple(np.tile(part, len(alike)) for part in alike[0].support),
        )
        out[sizes == n] = whole.interval().reshape(len(alike), -1, 2)
    np.testing.assert_array_equal(out[7], estimates[7].interval())
    return out


def exact_coverage(estimate: Any, n: int, truth: Any) -> Any:
    """How often the interval of each label covers it, with `n` reports: the sum over all numbers of
    reports that support it."""
    counts = np.arange(n + 1)
    out = []
    for share, a, b in zip(truth, *estimate.support, strict=True):
        every = dataclasses.replace(
            estimate,
            labels=tuple(counts),
            proportions=(counts / n - b) / (a - b),
            # of which a score interval makes no use, but for those at the edge of [0, 1]
            variance=np.full(n + 1, 1e-9),
            covariance=None,
            n=n,
            support=(np.full(n + 1, a), np.full(n + 1, b)),
        )
        low, high = every.interval().T
        out.append(
            stats.binom.pmf(counts, n, b + (a - b) * share)[(low <= share) & (share <= high)].sum()
        )
    return np.array(out)


def assert_unbiased_and_covering(estimates: list[Any], truth: Any, sizes: Any) -> None:
    """`sizes` is the law of the number of reports: each number that may be, and its probability."""
    exact = sum(chance * exact_coverage(estimates[0], n, truth) for n, chance in sizes)
    found = np.array([estimate.proportions for estimate in estimates])
    error = found.std(axis=0, ddof=1) / np.sqrt(CROWDS)
    assert np.all(np.abs(found.mean(axis=0) - truth) < stats.norm.isf(1e-9 / 2) * error)
    limits = intervals(estimates)
    covered = ((limits[:, :, 0] <= truth) & (truth <= limits[:, :, 1])).mean(axis=0)
    # some numbers of reports say so
    at_least = np.any([estimate.covers_more() for estimate in estimates], axis=0)
    # Exact limits miss with 2.5 % each at most, and one of them cannot miss near an end of the
    # scale.
    assert np.all((exact >= 0.94) & (exact <= np.where(at_least, 0.98, 0.96))), exact
    assert np.all(np.abs(covered - exact) < 5 * np.sqrt(exact * (1 - exact) / CROWDS)), (
        covered,
        exact,
    )
    stated = np.array([estimate.variance for estimate in estimates]).mean(axis=0)
    np.testing.assert_allclose(stated, found.var(axis=0, ddof=1), rtol=6 * np.sqrt(2 / CROWDS))


@pytest.mark.parametrize("case", SURVEYS)
def test_every_question_is_estimated_without_bias_and_with_intervals_that_cover(case: str) -> None:
    survey = SURVEYS[case]
    rng = np.random.default_rng(24)
    crowd = np.repeat(np.arange(CROWDS), PEOPLE)
    answers = {
        name: rng.choice(int(name), size=crowd.size, p=SHARES[int(name)]) for name in survey.names
    }
    for name, (asked, reports) in survey.privatize(answers, seeded_source(24)).items():
        parts = tallies(
            survey.mechanisms[name], reports.data, crowd if asked is None else crowd[asked]
        )
        sizes = [(PEOPLE, 1.0)]
        if asked is not None:
            numbers = np.arange(PEOPLE + 1)
            chances = stats.binom.pmf(numbers, PEOPLE, survey.inclusion(name))
            sizes = [
                (int(n), chance)
                for n, chance in zip(numbers, chances, strict=True)
                if chance > 1e-6
            ]
        channel = survey.estimator(name)
        # As `estimate` does, but for its look at how many ones there are, which takes most of the
        # time.
        estimates = [
            channel.describe(channel.solve(part.counts, part.n), part.n, None) for part in parts
        ]
        np.testing.assert_array_equal(
            survey.estimate(name, parts[3]).interval(), estimates[3].interval()
        )
        assert_unbiased_and_covering(estimates, SHARES[int(name)], sizes)


@pytest.mark.parametrize(("epsilon", "most"), [(3.0, 2), (6.0, 4)])
def test_multiple_choice_is_estimated_without_bias_and_with_intervals_that_cover(
    epsilon: float, most: int
) -> None:
    mechanism = MultipleChoice(4, epsilon, most=most)
    rng = np.random.default_rng(24)
    crowds = 4 * CROWDS
    # Kinds of people: who has the first label tends to have the second.
    kinds = np.array(
        [[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=np.bool_
    )
    weights = np.array([0.3, 0.2, 0.3, 0.1, 0.1])
    truth = weights @ kinds
    people = kinds[rng.choice(5, size=crowds * PEOPLE, p=weights)]
    bits = mechanism.supports(mechanism.draw_chosen(people, seeded_source(24))).reshape(
        crowds, PEOPLE, 4
    )
    counts = bits.sum(axis=1, dtype=np.int64)
    # The estimate of a label is made from how often it was reported: what each such number gives is
    # looked up.
    alone = [
        mechanism.estimate(Tally(mechanism, np.full(mechanism.cells, count), PEOPLE))
        for count in range(PEOPLE + 1)
    ]
    found = np.array([estimate.proportions[0] for estimate in alone])[counts]
    stated = np.array([estimate.variance[0] for estimate in alone])[counts]
    limits = np.array([estimate.interval()[0] for estimate in alone])[counts]
    z = stats.norm.isf(1e-9 / 2)
    assert np.all(np.abs(found.mean(axis=0) - truth) < z * found.std(axis=0) / np.sqrt(crowds))
    np.testing.assert_allclose(
        stated.mean(axis=0), found.var(axis=0, ddof=1), rtol=6 * np.sqrt(2 / crowds)
    )
    covered = ((limits[..., 0] <= truth) & (truth <= limits[..., 1])).mean(axis=0)
    assert np.all((covered >= 0.94) & (covered <= 0.96)), covered
    # The covariance of two labels that go together is as stated, too.
    pairs = np.einsum("cpi,cpj->cij", bits[:500].astype(np.float32), bits[:500].astype(np.float32))
    both = np.concatenate([counts[:500], pairs[:, *np.triu_indices(4, 1)].astype(np.int64)], axis=1)
    stated_ones: list[Any] = [
        mechanism.estimate(Tally(mechanism, each, PEOPLE)).covariance for each in both
    ]
    covariances = np.mean(stated_ones, axis=0)
    true = np.cov(found.T)
    noise = np.sqrt((true[0, 0] * true[1, 1] + true[0, 1] ** 2) / 500)
    assert abs(covariances[0, 1] - true[0, 1]) < z * noise / np.sqrt(PEOPLE / 10)


def test_the_mean_of_a_column_of_numbers_is_covered_and_its_quantiles_at_least_as_often() -> None:
    ages = SquareWave(2.0, 39, 18, 95, integers=True)
    rng = np.random.default_rng(24)
    people = np.clip(np.round(rng.normal(45, 15, size=(CROWDS, PEOPLE))), 18, 95)
    reports = ages.privatize(people.reshape(-1), seeded_source(24)).data.reshape(CROWDS, PEOPLE)
    # The truth is the law that people are drawn from; a bin holds two ages, and stands for their
    # mean.
    edges = np.concatenate([[-np.inf], np.arange(18.5, 95), [np.inf]])
    law = np.diff(stats.norm.cdf(edges, 45, 15)).reshape(39, 2).sum(axis=1)
    places = np.array(ages.labels)
    quartiles = np.interp([0.5, 0.25, 0.75], np.concatenate([[0.0], np.cumsum(law)]), ages.edges)
    covered = np.zeros((CROWDS, 2), dtype=np.bool_)
    for crowd in range(CROWDS):
        estimate = ages.estimate(Tally(ages, ages.count(reports[crowd]), PEOPLE))
        mean, *others = estimate.summary() if crowd % 10 == 0 else [statistics.mean(estimate)]
        low, high = mean.interval()
        covered[crowd, 0] = low <= law @ places <= high
        limits = [other.interval() for other in others]
        covered[crowd, 1] = all(
            low <= true <= high for true, (low, high) in zip(quartiles, limits, strict=False)
        )
    # A standard deviation of 0.3 %: three of them and more to either side of what 95 % is allowed
    # to be.
    assert 0.94 <= covered[:, 0].mean() <= 0.96
    # Of the three quantiles together, of 500 crowds: each of them is at least 95 %, by Bonferroni
    # 85 % together.
    assert covered[::10, 1].mean() >= 0.85
