"""Multiple choice in regressions: every option is a yes/no answer of its own."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from click.testing import CliRunner, Result
from numpy.typing import NDArray
from scipy.special import expit

from deniable import (
    DirectEncoding,
    MultipleChoice,
    correlate,
    regress,
    regress_linear,
    seeded_source,
)
from deniable.cli import cli
from deniable.errors import ParameterError
from deniable.estimation.maximum_likelihood import maximum_likelihood
from deniable.estimation.surveys.one_person import posterior
from deniable.survey import estimate_file, randomize_file

OPTIONS = ["paper", "radio", "web"]
# coins that practically never flip: regressions of the truth itself
EXACT = MultipleChoice(OPTIONS, 40.0)
NOISY = MultipleChoice(OPTIONS, 6.0)
N = 4_000


def crowd(n: int = N, seed: int = 1) -> tuple[NDArray[np.bool_], NDArray[Any], NDArray[np.bool_]]:
    """What people chose, their age, and an outcome that depends on both."""
    rng = np.random.default_rng(seed)
    age = rng.normal(size=n)
    web = rng.random(n) < expit(0.5 - 0.8 * age)
    paper = rng.random(n) < np.where(web, 0.2, 0.6)  # options that are related to each other
    radio = rng.random(n) < 0.4
    outcome = rng.random(n) < expit(-0.5 + 0.44 * web - 0.6 * paper + 0.3 * age)
    return np.column_stack([paper, radio, web]), age, outcome


def answers(chosen: NDArray[np.bool_]) -> list[list[str]]:
    return [
        [option for option, picked in zip(OPTIONS, row, strict=False) if picked] for row in chosen
    ]


@pytest.mark.slow
def test_every_option_predicts_as_in_a_regression_of_the_true_answers() -> None:
    chosen, age, outcome = crowd()
    reports = EXACT.privatize(answers(chosen), seeded_source(1))
    truth = sm.Logit(outcome.astype(float), sm.add_constant(np.column_stack([age, chosen]))).fit(
        disp=0
    )
    found = regress(None, outcome, age, names=["age"], randomized={"news": (EXACT, reports)})
    assert found.names == ("(intercept)", "age", "news[paper]", "news[radio]", "news[web]")
    np.testing.assert_allclose(found.coefficients[0], truth.params, atol=2e-3)
    np.testing.assert_allclose(found.stderr[0], truth.bse, rtol=0.01)

    straight = sm.OLS(outcome.astype(float), sm.add_constant(np.column_stack([age, chosen]))).fit(
        cov_type="HC3"
    )
    linear = regress_linear(
        outcome.astype(float), age, names=["age"], randomized={"news": (EXACT, reports)}
    )
    np.testing.assert_allclose(linear.coefficients, straight.params, atol=2e-3)
    np.testing.assert_allclose(linear.stderr, straight.bse, rtol=0.01)


def test_a_limit_on_the_choices_leaves_only_the_sets_that_are_allowed() -> None:
    chosen, _, outcome = crowd()
    first = chosen & (np.cumsum(chosen, axis=1) == 1)  # at most one option each
    one = MultipleChoice(OPTIONS, 40.0, most=1)
    assert sorted(one.answer_sets().sum(axis=1)) == [0, 1, 1, 1]
    truth = sm.Logit(outcome.astype(float), sm.add_constant(first.astype(float))).fit(disp=0)
    found = regress(
        None, outcome, randomized={"news": (one, one.privatize(answers(first), seeded_source(2)))}
    )
    np.testing.assert_allclose(found.coefficients[0], truth.params, atol=2e-3)


@pytest.mark.slow
def test_coefficients_of_options_are_unbiased_and_their_intervals_cover() -> None:
    inside, off, trials = np.zeros(5), np.zeros(5), 400
    for trial in range(trials):
        chosen, age, _ = crowd(600, 100 + trial)
        rng = np.random.default_rng(trial)
        outcome = 1 + 0.3 * age + chosen @ [-0.6, 0.0, 0.44] + rng.normal(size=600)
        reports = NOISY.privatize(answers(chosen), seeded_source(trial))
        found = regress_linear(outcome, age, names=["age"], randomized={"news": (NOISY, reports)})
        truth = np.array([1, 0.3, -0.6, 0, 0.44])
        low, high = found.interval().T
        inside += (low <= truth) & (truth <= high)
        off += (found.coefficients - truth) / found.stderr
    # 3.5 standard errors of 400 trials: 95 % give 91.2 to 98.8 %.
    assert (np.abs(inside / trials - 0.95) < 0.038).all()
    assert (np.abs(off / trials) < 3.5 / np.sqrt(trials)).all()


@pytest.mark.slow
def test_logistic_coefficients_of_options_are_unbiased() -> None:
    two, off, trials = MultipleChoice(OPTIONS[:2], 4.0), np.zeros(3), 60
    for trial in range(trials):
        chosen = crowd(500, 600 + trial)[0][:, :2]
        outcome = np.random.default_rng(trial).random(500) < expit(-0.3 + chosen @ [-0.6, 0.5])
        reports = two.privatize(answers(chosen), seeded_source(trial))
        found = regress(None, outcome, randomized={"news": (two, reports)})
        off += (found.coefficients[0] - [-0.3, -0.6, 0.5]) / found.stderr[0]
    assert (np.abs(off / trials) < 3.5 / np.sqrt(trials)).all()


def test_one_option_is_a_yes_no_question_for_every_analysis() -> None:
    chosen, age, _ = crowd()
    reports = NOISY.privatize(answers(chosen), seeded_source(3))
    web = NOISY.option("web", reports)
    assert web.mechanism == DirectEncoding(["no", "yes"], 2.0)
    whole, alone = NOISY.estimate(reports), web.mechanism.estimate(web)
    assert alone.proportions[1] == pytest.approx(whole.proportions[2], abs=1e-12)
    assert alone.stderr[1] == pytest.approx(whole.stderr[2], rel=1e-9)
    slope = regress(web.mechanism, web, age, names=["age"])
    assert abs(slope.coefficients[0, 1] + 0.8) < 4 * slope.stderr[0, 1]
    found = correlate(age, (web.mechanism, web), names=("age", "web"))
    assert abs(found.value - np.corrcoef(age, chosen[:, 2])[0, 1]) < 4 * found.stderr
    with pytest.raises(ParameterError, match="label = 'tv' must be one of paper, radio, web"):
        NOISY.option("tv", reports)


def test_where_people_have_one_answer_multiple_choice_is_refused() -> None:
    chosen, age, outcome = crowd(60)
    reports = NOISY.privatize(answers(chosen), seeded_source(4))
    for analysis in (
        lambda: regress(NOISY, reports, age),
        lambda: regress_linear((NOISY, reports), age),
        lambda: correlate(age, (NOISY, reports), scores={"second": [1, 2, 3]}),
        lambda: posterior(NOISY, reports),
        lambda: maximum_likelihood(NOISY, reports),
    ):
        with pytest.raises(ParameterError, match="several labels: take one of them"):
            analysis()
    many = MultipleChoice(9, 6.0)
    with pytest.raises(
        ParameterError,
        match=r"len\(news.labels\) = 9 must be at most 6: take single options, such as news\[0\]",
    ):
        regress(None, outcome, randomized={"news": (many, many.privatize([[1, 2]] * 60))})


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("choices")
    chosen, age, outcome = crowd(2_000)
    with (folder / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["news", "age", "outcome"])
        rows = zip(answers(chosen), age.round(4), outcome.astype(int), strict=True)
        writer.writerows([";".join(picked), years, said] for picked, years, said in rows)
    randomize_file(
        folder / "answers.csv",
        folder / "reports.csv",
        {"news": EXACT},
        keep=["age", "outcome"],
        source=seeded_source(5),
    )
    return folder / "reports.csv"


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_formula_names_all_options_or_one_of_them(survey: Path) -> None:
    for formula, names in (
        ("outcome ~ age + news", ["(intercept)", "age", "news[paper]", "news[radio]", "news[web]"]),
        ("outcome ~ news[web] + age", ["(intercept)", "age", "news[web][yes]"]),
        ("news[web] ~ age", ["(intercept)", "age"]),
    ):
        for options in ([], ["--linear"]):
            ran = run("regress", formula, survey, "--csv", *options)
            assert ran.exit_code == 0, ran.output
            rows = list(csv.DictReader(ran.output.splitlines()))
            assert [row["name"] for row in rows] == names, formula
            slopes = {row["name"]: float(row["estimate"]) for row in rows}
            if "news[paper]" in names:
                assert slopes["news[paper]"] < 0 < slopes["news[web]"]
            if formula == "news[web] ~ age":
                assert slopes["age"] < 0
    assert (
        "correlation of news[web] and age: -0."
        in run("correlate", survey, "--of", "news[web],age").output
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["regress", "news ~ age"],
            "column 'news' is multiple choice, so people have no single answer: name one option",
        ),
        (["regress", "news ~ age", "--linear"], "such as 'news[paper]'"),
        (["correlate", "--of", "news,age"], "such as 'news[paper]'"),
        (["regress", "news[tv] ~ age"], "the options of column 'news' are paper, radio, web"),
        (["regress", "outcome ~ age:news[web]"], "multiplies a randomized column"),
    ],
)
def test_what_has_no_single_answer_is_refused_with_an_option_that_would_do(
    survey: Path, arguments: list[str], message: str
) -> None:
    ran = run(arguments[0], *arguments[1:], survey)
    assert ran.exit_code == 2
    assert message in ran.output
    assert len(ran.output.strip().splitlines()) == 1


def test_options_are_crossed_with_each_other_and_with_other_answers(
    survey: Path, tmp_path: Path
) -> None:
    chosen, _, outcome = crowd(2_000)
    said = np.where(outcome, "yes", "no")
    with (tmp_path / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(
            [["news", "used"], *zip(map(";".join, answers(chosen)), said, strict=True)]
        )
    used = DirectEncoding(["no", "yes"], 20.0)
    randomize_file(
        tmp_path / "answers.csv",
        tmp_path / "reports.csv",
        {"news": EXACT, "used": used},
        source=seeded_source(6),
    )
    found = estimate_file(
        tmp_path / "reports.csv", tables=[("news[web]", "news[paper]"), ("used", "news[web]")]
    )
    paper, _, web = chosen.T
    np.testing.assert_allclose(
        found.tables[0].proportions[1], [(web & ~paper).mean(), (web & paper).mean()], atol=2e-3
    )
    np.testing.assert_allclose(
        found.tables[1].proportions[1], [(outcome & ~web).mean(), (outcome & web).mean()], atol=2e-3
    )
    ran = run("estimate", tmp_path / "reports.csv", "--conditional", "used|news[web]", "--json")
    given = json.loads(ran.output)["tables"][0]
    assert given["axes"] == ["news[web]", "used"]
    assert (
        "such as 'news[paper]'"
        in run("estimate", tmp_path / "reports.csv", "--table", "used,news").output
    )
