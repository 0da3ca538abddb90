"""Predicted probabilities and average effects: statsmodels' for answers asked directly, and covered
for randomized ones."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from deniable import Warner, regress, seeded_source
from deniable.errors import ParameterError
from deniable.estimation.regression.margins import average_effects, predicted_probabilities


def test_answers_asked_directly_give_statsmodels_margins_and_predictions() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(1_500, 2))
    y = rng.random(1_500) < expit(0.3 + x @ [0.8, -0.5])
    fit = regress(None, y.astype(int), x, names=["a", "b"])
    theirs = sm.Logit(y.astype(float), sm.add_constant(x)).fit(disp=0)
    margins = theirs.get_margeff()
    found = average_effects(fit, x)
    assert [statistic.name for statistic in found] == ["effect of a on P(1)", "effect of b on P(1)"]
    np.testing.assert_allclose([s.value for s in found], margins.margeff, rtol=1e-5)
    np.testing.assert_allclose([s.stderr for s in found], margins.margeff_se, rtol=1e-3)
    at = x[:5]
    predicted = predicted_probabilities(fit, at)
    frame = theirs.get_prediction(sm.add_constant(at, has_constant="add"))
    np.testing.assert_allclose(predicted[:, 1, 0], frame.predicted, rtol=1e-5)
    linear = sm.add_constant(at, has_constant="add")
    spread = np.sqrt(np.einsum("ij,jk,ik->i", linear, np.asarray(theirs.cov_params()), linear))
    np.testing.assert_allclose(
        predicted[:, 1, 1], expit(linear @ theirs.params - 1.959964 * spread), rtol=1e-4
    )
    np.testing.assert_allclose(predicted[:, 0, 0], 1 - predicted[:, 1, 0])
    np.testing.assert_allclose(predicted[:, 0, 1], 1 - predicted[:, 1, 2], rtol=1e-6)


def test_several_answers_give_multinomial_margins() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=2_000)
    logits = np.column_stack([np.zeros(2_000), 0.5 + x, -0.2 - 0.5 * x])
    y = np.array(
        [rng.choice(3, p=row) for row in np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)]
    )
    found = average_effects(regress(None, y, x, names=["x"]), x)
    margins = sm.MNLogit(y, sm.add_constant(x)).fit(disp=0).get_margeff()
    np.testing.assert_allclose([s.value for s in found], margins.margeff[0, 1:], rtol=1e-4)
    np.testing.assert_allclose([s.stderr for s in found], margins.margeff_se[0, 1:], rtol=1e-3)


@pytest.mark.slow
def test_margins_and_predictions_of_randomized_answers_are_covered() -> None:
    """300 surveys of 800 people: a coverage of 95 % has a standard error of 1.3 points."""
    survey, inside, trials = Warner(0.85), np.zeros(2), 300
    for trial in range(trials):
        rng = np.random.default_rng(trial)
        x = rng.normal(size=800)
        chance = expit(-0.5 + 0.8 * x)
        reports = survey.privatize(
            np.where(rng.random(800) < chance, "yes", "no"), seeded_source(trial)
        )
        fit = regress(survey, reports, x, names=["x"])
        low, high = average_effects(fit, x)[0].interval()
        inside[0] += low <= 0.8 * (chance * (1 - chance)).mean() <= high
        _, low, high = predicted_probabilities(fit, np.array([[1.0]]))[0, 1]
        inside[1] += low <= expit(0.3) <= high
    assert (np.abs(inside / trials - 0.95) < 0.045).all()


def test_other_columns_than_those_of_the_fit_are_refused() -> None:
    fit = regress(None, [0, 1, 0, 1, 1, 0], [[0.0], [1], [2], [1], [0], [2]], names=["x"])
    with pytest.raises(ParameterError, match="must"):
        predicted_probabilities(fit, np.zeros((2, 3)))
