"""`deniable regress` and `deniable correlate`: the same figures as from Python, and refusals in one
line."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray
from scipy.special import expit

from deniable import (
    Crosswise,
    DirectEncoding,
    Regression,
    Sample,
    StochasticLieDetector,
    correlate,
    regress,
    regress_linear,
    seeded_source,
)
from deniable.cli import cli
from deniable.errors import SurveyError
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.survey import randomize_file
from deniable.survey.formula import code_terms, parse_formula
from deniable.survey.regression_file import SampleColumns, regress_file

N = 900
USED, MOOD = Crosswise(1 / 6), DirectEncoding(["bad", "fair", "good"], 3.0)
Columns = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def survey(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Columns]:
    """A randomized file, and its columns as they stand there."""
    rng, folder = np.random.default_rng(1), tmp_path_factory.mktemp("survey")
    age, region = (
        rng.integers(18, 80, N),
        np.array(["north", "south", "west"])[rng.integers(0, 3, N)],
    )
    used = rng.random(N) < expit(-2 + 0.04 * age + (region == "south"))
    columns: Columns = {
        "used": np.where(used, "yes", "no"),
        "mood": np.array(MOOD.labels)[rng.integers(0, 3, N)],
        "age": age,
        "region": region,
        "weekly hours": (40 - 3 * used + rng.normal(size=N)).round(3),
        "weight": rng.uniform(1, 3, N).round(3),
        "school": rng.integers(0, 40, N),
        "sample": np.arange(N) % 2 + 1,
        "said": rng.integers(0, 2, N),
    }
    with (folder / "answers.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    output = folder / "reports.csv"
    kept = [name for name in columns if name not in {"used", "mood"}]
    randomize_file(
        folder / "answers.csv",
        output,
        {"used": USED, "mood": MOOD},
        keep=kept,
        source=seeded_source(1),
    )
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return output, {name: np.array([row[name] for row in rows]) for name in columns}


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_a_formula_gives_what_python_gives_for_the_same_columns(
    survey: tuple[Path, Columns],
) -> None:
    path, columns = survey
    south, west = (columns["region"] == place for place in ("south", "west"))
    age = columns["age"].astype(float)
    fit = regress(
        USED, columns["used"], np.column_stack([age, south, west, age * south, age * west])
    )
    ran = run("regress", "used ~ age*region", path, "--json", "--test", "region")
    assert ran.exit_code == 0, ran.output
    document = json.loads(ran.output)
    names = [
        "(intercept)",
        "age",
        "region[south]",
        "region[west]",
        "age:region[south]",
        "age:region[west]",
    ]
    assert [row["name"] for row in document["coefficients"]] == names
    np.testing.assert_allclose(
        [row["estimate"] for row in document["coefficients"]], fit.coefficients[0], atol=1e-5
    )
    assert document["log_likelihood"] == pytest.approx(fit.log_likelihood)
    assert document["tests"][0]["statistic"] == pytest.approx(
        fit.likelihood_ratio("x2", "x3").statistic, abs=1e-4
    )


def test_randomized_columns_predict_and_several_answers_are_explained(
    survey: tuple[Path, Columns],
) -> None:
    path, columns = survey
    age = columns["age"].astype(float)
    fit = regress(
        MOOD, columns["mood"], age, names=["age"], randomized={"used": (USED, columns["used"])}
    )
    found = regress_file(path, "mood ~ used + age")
    assert isinstance(found, Regression)
    assert found.names == ("(intercept)", "age", "used[yes]")
    np.testing.assert_allclose(found.coefficients, fit.coefficients, atol=1e-8)
    shown = run("regress", "mood ~ used + age", path)
    assert "log-odds of good against bad" in shown.output
    assert "standard errors by the observed information" in shown.output


def test_linear_regressions_weights_and_clusters_by_column(survey: tuple[Path, Columns]) -> None:
    path, columns = survey
    sample = Sample(weights=columns["weight"].astype(float), clusters=columns["school"])
    hours = columns["weekly hours"].astype(float)
    fit = regress_linear(hours, randomized={"used": (USED, columns["used"])}, sample=sample)
    ran = run(
        "regress",
        "`weekly hours` ~ used",
        path,
        "--linear",
        "--weights",
        "weight",
        "--clusters",
        "school",
        "--csv",
    )
    assert ran.exit_code == 0, ran.output
    rows = list(csv.DictReader(ran.output.splitlines()))
    assert [row["name"] for row in rows] == ["(intercept)", "used[yes]"]
    np.testing.assert_allclose([float(row["stderr"]) for row in rows], fit.stderr)
    weighted = regress_file(
        path, "used ~ 1", sample=SampleColumns(weights="weight", clusters="school")
    )
    np.testing.assert_allclose(
        weighted.coefficients, regress(USED, columns["used"], sample=sample).coefficients, atol=1e-9
    )


@pytest.mark.slow
def test_a_design_with_two_samples_a_random_intercept_and_kinds_of_errors(
    survey: tuple[Path, Columns],
) -> None:
    path, columns = survey
    design = StochasticLieDetector("1/6", "5/6")
    fit = regress(
        design, columns["said"].astype(int), group=columns["sample"].astype(int), errors="expected"
    )
    options = (
        "--design",
        "StochasticLieDetector:p1=1/6,p2=5/6",
        "--group",
        "sample",
        "--errors",
        "expected",
        "--json",
    )
    document = json.loads(run("regress", "said ~ 1", path, *options).output)
    assert document["errors"] == "expected"
    assert document["coefficients"][-1]["name"] == "t"
    assert document["coefficients"][-1]["stderr"] == pytest.approx(fit["t"].stderr)
    mixed = run("regress", "used ~ age", path, "--random-intercept", "school", "--test", "sigma")
    assert "sigma is the standard deviation of the intercepts of 40 clusters" in mixed.output
    assert "sigma = 0: likelihood ratio" in mixed.output


def test_correlations_of_all_pairs(survey: tuple[Path, Columns]) -> None:
    path, columns = survey
    ran = run("correlate", path, "--of", "used,age,weekly hours", "--json")
    assert ran.exit_code == 0, ran.output
    found = json.loads(ran.output)
    assert [statistic["name"] for statistic in found] == [
        "correlation of used and age",
        "correlation of used and weekly hours",
        "correlation of age and weekly hours",
    ]
    expected = correlate((USED, columns["used"]), columns["age"].astype(float))
    assert found[0]["value"] == pytest.approx(expected.value)
    assert found[0]["stderr"] == pytest.approx(expected.stderr)


def test_people_who_were_not_asked_are_left_out_and_made_up_answers_refused(tmp_path: Path) -> None:
    answers = tmp_path / "answers.csv"
    rng = np.random.default_rng(2)
    rows = [
        f"{a},{b},{x:.3f}"
        for a, b, x in zip(
            rng.integers(0, 2, 400), rng.integers(0, 2, 400), rng.normal(size=400), strict=True
        )
    ]
    answers.write_text("\n".join(["a,b,x", *rows]), encoding="utf-8")
    columns = {"a": DirectEncoding([0, 1], 3.0), "b": DirectEncoding([0, 1], 3.0)}
    one, fake = tmp_path / "one.csv", tmp_path / "fake.csv"
    randomize_file(answers, one, Questionnaire(columns, ask=1), keep=["x"], source=seeded_source(1))
    with one.open(encoding="utf-8") as file:
        asked = sum(row["a"] != "" for row in csv.DictReader(file))
    assert regress_file(one, "a ~ x").n == asked < 400
    with pytest.raises(SurveyError, match="nobody was asked a and b"):
        regress_file(one, "a ~ b")
    with pytest.warns(UserWarning, match="randomized"):
        randomize_file(
            answers,
            fake,
            Questionnaire(columns, fake=True),
            keep=["x"],
            again=True,
            source=seeded_source(1),
        )
    with pytest.raises(SurveyError, match="has made-up answers"):
        regress_file(fake, "a ~ x")


def test_a_missing_covariate_drops_the_row_or_refuses_the_file(tmp_path: Path) -> None:
    path = tmp_path / "reports.csv"
    path.write_text(
        "used,age\n" + "yes,30\nno,40\nyes,50\nno,20\n" * 15 + "yes,\n", encoding="utf-8"
    )
    mechanism = "used=Warner:p=4/5"
    ran = run("regress", "used ~ age", path, "-c", mechanism)
    assert ran.exit_code == 2
    assert "row 61, column 'age': the value is missing" in ran.output
    dropped = run("regress", "used ~ age", path, "-c", mechanism, "--missing", "drop")
    assert dropped.exit_code == 0, dropped.output
    assert "1 of 61 rows" in dropped.output
    assert "60 reports; epsilon 1.386" in dropped.output


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("y ~ 1", ()),
        ("y ~ a + b:c", (("a",), ("b", "c"))),
        (
            "y ~ a*b*c",
            (("a",), ("b",), ("c",), ("a", "b"), ("a", "c"), ("b", "c"), ("a", "b", "c")),
        ),
        ("y~0+`a b`", (("a b",),)),
    ],
)
def test_formulas_are_read(text: str, terms: tuple[tuple[str, ...], ...]) -> None:
    formula = parse_formula(text)
    assert formula.terms == terms
    assert formula.intercept == ("0" not in text)


@pytest.mark.parametrize("text", ["y ~ a - 1", "y ~ a + 0", "y ~ -1", "y~a+b-1"])
def test_the_intercept_is_left_out_by_minus_1_as_in_r(text: str) -> None:
    formula = parse_formula(text)
    assert not formula.intercept
    assert all(name in {"a", "b"} for term in formula.terms for name in term)


def test_a_term_that_is_subtracted_is_refused_with_that_reason() -> None:
    with pytest.raises(
        SurveyError, match=r"subtracts a term, but only the intercept can be left out: - 1, or \+ 0"
    ):
        parse_formula("y ~ a - b")


@pytest.mark.parametrize(
    "text",
    ["", "y", "y ~", "~ a", "y ~ a +", "y ~ a b", "y ~ a ~ b", "y ~ y", "y ~ a:*b", "y ~ `a"],
)
def test_what_is_no_formula_is_refused(text: str) -> None:
    with pytest.raises(SurveyError, match="formula"):
        parse_formula(text)


def test_texts_become_indicators_of_all_but_the_first_and_numbers_stay() -> None:
    cells = {"place": ["b", "a", "c"], "year": ["1", "2", "1"]}
    names, matrix = code_terms([("place",), ("year",)], cells)
    assert names == ["place[b]", "place[c]", "year"]
    assert matrix.tolist() == [[1, 0, 1], [0, 0, 2], [0, 1, 1]]
    assert code_terms([("year",)], cells, ["year"])[0] == ["year[2]"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["used ~ income"], "has no column 'income'"),
        (["used ~ age:mood"], "term 'age:mood' multiplies a randomized column"),
        (
            ["`weekly hours` ~ age"],
            "has more than 20 different answers: use a linear regression (--linear)",
        ),
        (["region ~ age", "--linear"], "column 'region' must hold numbers"),
        (
            ["used ~ age", "--weights", "mood"],
            "column 'mood' is randomized, so it cannot say how people were sampled",
        ),
        (["used ~ age", "--test", "income"], "names = ['income'] must be among (intercept), age"),
        (["used ~ age", "--design", "CheaterDetection:p1=1/4,p2=3/4"], "already has a mechanism"),
        (
            ["region ~ age", "--design", "CheaterDetection:p1=1/4,p2=3/4", "--group", "sample"],
            "must hold yes and no, or 1 and 0",
        ),
        (["used ~ age", "--weights", "region"], "column 'region' must hold numbers"),
        (
            ["`weekly hours` ~ age", "--linear", "--random-intercept", "school"],
            "has no group, no random intercept",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_one_line_and_exit_code_2(
    survey: tuple[Path, Columns], arguments: list[str], message: str
) -> None:
    ran = run("regress", arguments[0], survey[0], *arguments[1:])
    assert ran.exit_code == 2
    assert message in ran.output
    assert len(ran.output.strip().splitlines()) == 1
