"""Multiple imputation: Rubin's rules hold in simulation, for proportions, regressions and
groups."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from deniable import DirectEncoding, Warner, seeded_source
from deniable.errors import ParameterError
from deniable.estimation.regression.imputation import impute_answers, pool_imputations

SURVEY = Warner(0.85)
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
EXPECTED = float(expit(-0.8 + 0.9 * NODES) @ WEIGHTS / WEIGHTS.sum())
"""The prevalence in the population that the crowds are drawn from."""


@pytest.mark.slow
def test_proportions_and_effects_from_imputed_answers_are_unbiased_and_covered() -> None:
    """200 surveys of 600 people: a coverage of 95 % has a standard error of 1.5 points."""
    inside, off, trials = np.zeros(3), np.zeros(3), 200
    truth = np.array([EXPECTED, 2.0, -1.5])
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        age = rng.normal(size=600)
        chance = expit(-0.8 + 0.9 * age)
        used = rng.random(600) < chance
        hours = 2 + 0.5 * age - 1.5 * used + rng.normal(size=600)
        reports = SURVEY.privatize(np.where(used, "yes", "no"), seeded_source(trial))
        columns = impute_answers(
            SURVEY, reports, np.column_stack([age, hours]), times=20, seed=trial
        )
        fits = [
            sm.OLS(hours, sm.add_constant(np.column_stack([age, column == "yes"]))).fit()
            for column in columns
        ]
        rates = [float((column == "yes").mean()) for column in columns]
        found = [
            pool_imputations(rates, [rate * (1 - rate) / 600 for rate in rates]),
            pool_imputations([fit.params[0] for fit in fits], [fit.bse[0] ** 2 for fit in fits]),
            pool_imputations([fit.params[2] for fit in fits], [fit.bse[2] ** 2 for fit in fits]),
        ]
        limits = np.array([statistic.interval() for statistic in found])
        inside += (limits[:, 0] <= truth) & (truth <= limits[:, 1])
        off += [
            (statistic.value - true) / statistic.stderr
            for statistic, true in zip(found, truth, strict=True)
        ]
    assert (np.abs(inside / trials - 0.95) < 0.055).all()
    assert (np.abs(off / trials) < 3.5 / np.sqrt(trials)).all()


def test_a_relation_left_out_of_the_model_comes_out_too_weak() -> None:
    rng = np.random.default_rng(5)
    group = rng.random(20_000) < 0.5
    used = rng.random(20_000) < np.where(group, 0.6, 0.2)
    reports = SURVEY.privatize(np.where(used, "yes", "no"), seeded_source(5))
    gaps = {}
    for name, covariates in (("with", group.astype(float)), ("without", None)):
        columns = impute_answers(SURVEY, reports, covariates, times=5, seed=1)
        gaps[name] = np.mean(
            [(c[group] == "yes").mean() - (c[~group] == "yes").mean() for c in columns]
        )
    assert gaps["with"] == pytest.approx(0.4, abs=0.04)
    assert gaps["without"] < 0.33


def test_several_labels_are_imputed_in_their_proportions_and_seeds_repeat() -> None:
    mood = DirectEncoding(["bad", "fair", "good"], 2.0)
    reports = mood.privatize(
        ["bad"] * 5_000 + ["fair"] * 3_000 + ["good"] * 2_000, seeded_source(6)
    )
    columns = impute_answers(mood, reports, times=10, seed=2)
    shares = np.mean(
        [[(column == label).mean() for label in mood.labels] for column in columns], axis=0
    )
    np.testing.assert_allclose(shares, mood.estimate(reports).proportions, atol=0.01)
    np.testing.assert_array_equal(columns[3], impute_answers(mood, reports, times=10, seed=2)[3])


def test_rubins_rules_are_those_of_the_book() -> None:
    found = pool_imputations([1.0, 2.0, 3.0], [0.5, 0.5, 0.5])
    assert found.value == 2
    assert found.stderr**2 == pytest.approx(0.5 + (1 + 1 / 3) * 1.0)
    assert found.degrees == pytest.approx(2 * (1 + 0.5 / (4 / 3)) ** 2)
    assert pool_imputations([1.0, 1.0], [0.5, 0.5]).degrees == np.inf
    assert type(found).from_dict(found.to_dict()) == found


@pytest.mark.parametrize(
    ("values", "variances", "message"),
    [
        ([1.0], [1.0], "two or more figures"),
        ([1.0, 2.0], [1.0], "as many variances"),
        ([1, 2], [-1, 1], "may be negative"),
    ],
)
def test_figures_that_cannot_be_pooled_are_refused(
    values: list[float], variances: list[float], message: str
) -> None:
    with pytest.raises(ParameterError, match=message):
        pool_imputations(values, variances)
    with pytest.raises(ParameterError, match="times = 1 must be a whole number of at least 2"):
        impute_answers(SURVEY, ["yes", "no"], times=1)
