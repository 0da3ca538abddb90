"""Randomized numbers and scored answers in regressions and correlations."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from click.testing import CliRunner, Result
from scipy.special import expit

from deniable import DirectEncoding, SquareWave, correlate, regress, regress_linear, seeded_source
from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.estimation.regression.predictor_model import (
    PredictorModel,
    answer_predictor,
    combinations,
    joint_basis,
)
from deniable.survey import randomize_file

VISITS = SquareWave.of_integers(3.0, 0, 11)
MOOD = DirectEncoding(["bad", "fair", "good"], 3.0)


def crowd(n: int, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    visits = np.clip(np.round(rng.normal(5 + age, 2, n)), 0, 11).astype(int)
    outcome = rng.random(n) < expit(-1 + 0.25 * visits + 0.4 * age)
    return {
        "age": age,
        "visits": visits,
        "outcome": outcome.astype(float),
        "hours": 2 + 0.5 * visits - age + rng.normal(size=n),
    }


@pytest.mark.slow
def test_a_number_predicts_as_in_a_regression_of_the_true_numbers() -> None:
    exact, data = SquareWave.of_integers(30.0, 0, 11), crowd(4_000, 1)
    reports = exact.privatize(data["visits"], seeded_source(1))
    columns = sm.add_constant(np.column_stack([data["age"], data["visits"]]))
    found = regress(
        None, data["outcome"], data["age"], names=["age"], randomized={"visits": (exact, reports)}
    )
    truth = sm.Logit(data["outcome"], columns).fit(disp=0)
    assert found.names == ("(intercept)", "age", "visits")
    np.testing.assert_allclose(found.coefficients[0], truth.params, atol=1e-3)
    np.testing.assert_allclose(found.stderr[0], truth.bse, rtol=0.01)
    linear = regress_linear(
        data["hours"], data["age"], names=["age"], randomized={"visits": (exact, reports)}
    )
    np.testing.assert_allclose(
        linear.coefficients, sm.OLS(data["hours"], columns).fit().params, atol=2e-3
    )


@pytest.mark.slow
def test_the_effect_of_a_noisy_number_is_unbiased() -> None:
    """16 surveys of 1,200 people: the mean of 16 z-values has a standard error of 0.25."""
    off = np.zeros(3)
    for trial in range(16):
        data = crowd(1_200, 10 + trial)
        reports = VISITS.privatize(data["visits"], seeded_source(trial))
        found = regress(
            None,
            data["outcome"],
            data["age"],
            names=["age"],
            randomized={"visits": (VISITS, reports)},
        )
        off += (found.coefficients[0] - [-1, 0.4, 0.25]) / found.stderr[0]
    assert (np.abs(off / 16) < 3.5 / 4).all()


@pytest.mark.slow
def test_linear_effects_of_a_noisy_number_are_unbiased_and_covered() -> None:
    inside, off, truth = np.zeros(3), np.zeros(3), np.array([2, -1, 0.5])
    for trial in range(400):
        data = crowd(800, 100 + trial)
        reports = VISITS.privatize(data["visits"], seeded_source(trial))
        found = regress_linear(
            data["hours"], data["age"], names=["age"], randomized={"visits": (VISITS, reports)}
        )
        low, high = found.interval().T
        inside += (low <= truth) & (truth <= high)
        off += (found.coefficients - truth) / found.stderr
    assert (np.abs(inside / 400 - 0.95) < 0.038).all()
    assert (np.abs(off / 400) < 3.5 / 20).all()


def test_scores_and_derivatives_of_the_model_with_a_number_agree() -> None:
    data = crowd(60, 2)
    mood = MOOD.privatize(["bad", "fair", "good"] * 20, seeded_source(2))
    parts = [
        answer_predictor("visits", VISITS, VISITS.privatize(data["visits"], seeded_source(3))),
        answer_predictor("m", MOOD, mood),
    ]
    joint, columns = combinations(parts)
    basis = joint_basis(parts)
    assert basis is not None
    assert basis.shape == (36, 5 * 3 - 1)
    outcome = np.column_stack([1 - data["outcome"], data["outcome"]]) * 0.8 + 0.1
    model = PredictorModel(
        outcome, joint, np.column_stack([np.ones(60), data["age"]]), columns, basis
    )
    at = np.random.default_rng(3).normal(scale=0.3, size=model.start().size)
    _, scores = model.evaluate(at)
    steps = 1e-6 * np.eye(at.size)
    slopes = [
        (model.evaluate(at + step)[0] - model.evaluate(at - step)[0]).sum() / 2e-6 for step in steps
    ]
    np.testing.assert_allclose(scores.sum(axis=0), slopes, atol=1e-5)


def test_scores_make_a_number_of_an_answer() -> None:
    rng = np.random.default_rng(4)
    truth = rng.integers(0, 3, 5_000)
    hours = 1 + 2 * truth + rng.normal(size=5_000)
    reports = MOOD.privatize(np.array(MOOD.labels)[truth], seeded_source(4))
    found = regress_linear(hours, randomized={"mood": (MOOD, reports)}, scores={"mood": [0, 1, 2]})
    assert found.names == ("(intercept)", "mood")
    np.testing.assert_array_less(np.abs(found.coefficients - [1, 2]), 4 * found.stderr)
    value = correlate(hours, (MOOD, reports), names=("hours", "mood"), scores={"mood": [0, 1, 2]})
    assert abs(value.value - np.corrcoef(hours, truth)[0, 1]) < 4 * value.stderr
    with pytest.raises(ParameterError, match=r"scores = \['age'\] must be of outcome, mood"):
        regress_linear(hours, randomized={"mood": (MOOD, reports)}, scores={"age": [0, 1]})


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, data = tmp_path_factory.mktemp("numbers"), crowd(1_500, 5)
    mood = np.array(MOOD.labels)[np.digitize(data["hours"], [3, 6])]
    with (folder / "a.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [
                ["visits", "mood", "hours"],
                *zip(data["visits"], mood, data["hours"].round(3), strict=True),
            ]
        )
    randomize_file(
        folder / "a.csv",
        folder / "r.csv",
        {"visits": VISITS, "mood": MOOD},
        keep=["hours"],
        source=seeded_source(5),
    )
    return folder / "r.csv"


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_numbers_and_scores_at_the_command_line(survey: Path) -> None:
    ran = run(
        "regress", "hours ~ visits + mood", survey, "--linear", "--scores", "mood=1|2|3", "--csv"
    )
    assert [line.split(",")[0] for line in ran.output.splitlines()[1:]] == [
        "(intercept)",
        "visits",
        "mood",
    ]
    ran = run("regress", "mood ~ visits", survey, "--linear", "--scores", "mood=1|2|3")
    assert "mean of mood" in ran.output
    assert (
        "correlation of mood and hours: 0."
        in run("correlate", survey, "--of", "mood,hours", "--scores", "mood=1|2|3").output
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["correlate", "--of", "mood,hours"], "scores = None must be given for mood"),
        (
            ["correlate", "--of", "mood,hours", "--scores", "mood=1|2"],
            "must have one entry per label of mood, 3",
        ),
        (
            ["correlate", "--of", "mood,hours", "--scores", "visits=1|2"],
            "scores are given for visits, of which no correlation",
        ),
        (
            ["regress", "mood ~ hours", "--scores", "mood=1|2|3"],
            "scores are for a linear regression (--linear)",
        ),
        (
            ["regress", "mood ~ hours", "--linear", "--scores", "mood"],
            "--scores 'mood' must have the form NAME=1|2|…",
        ),
        (
            ["regress", "mood ~ hours", "--linear", "--scores", "mood=a|b|c"],
            "must have the form NAME=1|2|…",
        ),
    ],
)
def test_scores_that_do_not_fit_are_refused(
    survey: Path, arguments: list[str], message: str
) -> None:
    ran = run(*arguments, survey)
    assert ran.exit_code == 2
    assert message in ran.output
    assert len(ran.output.strip().splitlines()) == 1
