"""Several questions under one budget: what is planned holds in simulation, and goes through files
to estimates."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from scipy import stats

import deniable
from deniable import DirectEncoding, Mechanism, MultipleChoice, seeded_source
from deniable.cli import cli
from deniable.errors import ParameterError, SurveyError
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.planning import Question, plan_questionnaire
from deniable.survey import estimate_file, randomize_file, read_questionnaire, write_questionnaire
from deniable.survey.spelling import spell_choices

YES_NO = ("no", "yes")
SURVEY = """
[questions.smokes]
labels = ["no", "yes"]
importance = 4

[questions.news]
labels = ["paper", "radio", "books, magazines"]
choose = 2

[questions.age]
low = 18
high = 95
integers = true
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


# --- what is planned


@pytest.mark.slow
@pytest.mark.parametrize("way", ["split", "sampled", "fake"])
def test_the_planned_error_is_the_one_that_simulated_surveys_have(way: Any) -> None:
    questions = [
        Question("a", YES_NO, proportion=0.3),
        Question("b", tuple("uvwxyz"), importance=2, proportion=0.25),
    ]
    plan = plan_questionnaire(questions, population=2000, epsilon=3.0, way=way)
    trials, survey, rng = 400, plan.questionnaire, np.random.default_rng(1)
    proportions = {"a": [0.7, 0.3], "b": [0.25, 0.25, 0.2, 0.1, 0.1, 0.1]}
    truth = {"a": (1, 0.3), "b": (0, 0.25)}
    found: dict[str, list[float]] = {"a": [], "b": []}
    source = seeded_source(1)
    for _ in range(trials):
        answers = {
            q.name: [q.labels[i] for i in rng.choice(len(q.labels), 2000, p=proportions[q.name])]
            for q in questions
        }
        for name, (_, reports) in survey.privatize(answers, source).items():
            channel, counts = survey.estimator(name), survey.mechanisms[name].count(reports.data)
            found[name].append(float(channel.solve(counts, len(reports))[0][truth[name][0]]))
    for planned in plan.expected:
        name = planned.question.name
        ratio = float(np.var(found[name], ddof=1)) / planned.stderr**2
        # A sample variance of 400 normal errors is within five standard deviations (0.35) of the
        # planned one.
        assert abs(ratio - 1) < 5 * math.sqrt(2 / (trials - 1)), (name, ratio)
        assert abs(np.mean(found[name]) - truth[name][1]) < 6 * planned.stderr / math.sqrt(trials)


def test_no_way_spends_more_than_the_budget_and_the_best_is_first() -> None:
    questions = [Question("a", YES_NO), Question("b", tuple("uvwxyz")), Question("c", YES_NO)]
    for ceiling in (None, 1.2):
        plan = plan_questionnaire(questions, population=5000, epsilon=2.5, answer_epsilon=ceiling)
        assert {other.way for other in plan.alternatives} == {"split", "sampled", "fake"}
        errors = [other.error for other in plan.alternatives]
        assert errors == sorted(errors)
        for other in plan.alternatives:
            assert other.questionnaire.epsilon <= 2.5 * (1 + 1e-12)
            for name in "abc":
                assert other.questionnaire.answer_epsilon(name) <= (ceiling or 2.5)


def test_each_way_wins_where_it_should() -> None:
    yes_no = [Question(f"q{i}", YES_NO) for i in range(2)]
    assert plan_questionnaire(yes_no, population=5000, epsilon=0.5).way == "sampled"
    # With a low ceiling on each answer, nothing is gained by asking fewer questions.
    assert (
        plan_questionnaire(yes_no, population=5000, epsilon=2.0, answer_epsilon=1.0).way == "split"
    )
    # Two questions with rare labels, where one answer may lose ln(1 + (e^2 - 1)/2): the variances
    # are 3.68 split, 3.3 sampled and 2.9 with fakes (OptimizedUnary's b(1 - b) d^2/(a - b)^2, by
    # hand).
    rare = [Question(f"q{i}", tuple(range(64)), proportion=0.001) for i in range(2)]
    assert (
        plan_questionnaire(
            rare, population=50_000, epsilon=2.0, answer_epsilon=math.log(1 + math.expm1(2) / 2)
        ).way
        == "fake"
    )


def test_an_important_question_gets_the_larger_part_and_an_even_split_does_not_look() -> None:
    questions = [Question("a", YES_NO, importance=9), Question("b", YES_NO)]
    by_importance = plan_questionnaire(
        questions, population=5000, epsilon=1.0, way="split"
    ).questionnaire
    even = plan_questionnaire(
        questions, population=5000, epsilon=1.0, way="split", split="even"
    ).questionnaire
    assert even.mechanisms["a"].epsilon == even.mechanisms["b"].epsilon == 0.5
    one, other = (by_importance.mechanisms[name].epsilon for name in "ab")
    # At small epsilons a variance is 4/epsilon^2 (by hand), so that 9 x^-3 = (1 - x)^-3: x is
    # 9^(1/3) of the rest.
    assert one / other == pytest.approx(9 ** (1 / 3), rel=0.03)
    # Of one question drawn, the probability goes with the root of the importance.
    drawn = plan_questionnaire(questions, population=5000, epsilon=1.0, way="sampled").questionnaire
    assert drawn.inclusion("a") / drawn.inclusion("b") == pytest.approx(3, rel=1e-3)


def test_a_multiple_choice_question_is_charged_for_all_its_bits() -> None:
    plan = plan_questionnaire(
        [Question("news", tuple("abcd"), choose=2)], population=5000, epsilon=2.0
    )
    (planned,) = plan.expected
    assert planned.mechanism == MultipleChoice(list("abcd"), 2.0, 2)
    b = 1 / (math.exp(2.0 / 4) + 1)  # two answers of two labels differ in four bits
    variance = b * (1 - b) / (1 - 2 * b) ** 2 + 0.25
    assert planned.margin == pytest.approx(
        stats.norm.ppf(0.975) * math.sqrt(variance / 5000), rel=1e-9
    )


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"population": 0}, "population"),
        ({"epsilon": -1}, "epsilon"),
        ({"way": "fast"}, "split, sampled, fake"),
        ({"way": "fake", "questions": [Question("a", YES_NO)]}, "at least two questions"),
        (
            {"way": "fake", "questions": [Question("a", YES_NO), Question("b", low=0, high=1)]},
            "with a single choice",
        ),
        ({"questions": [Question("a", YES_NO)] * 2}, "without repetition"),
        ({"split": "odd"}, "importance, even"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(arguments: dict[str, Any], rule: str) -> None:
    given: dict[str, Any] = {
        "questions": [Question("a", YES_NO), Question("b", YES_NO)],
        "population": 5000,
        "epsilon": 2.0,
    } | arguments
    with pytest.raises(ParameterError, match=rule):
        plan_questionnaire(given.pop("questions"), **given)


def test_a_population_and_an_epsilon_alone_tell_what_can_be_seen() -> None:
    plan = deniable.plan(population=5000, epsilon=1.0)
    assert plan.solved_for == "proportion"
    assert plan.margin == pytest.approx(plan.smallest_proportion)
    p = math.exp(1) / (1 + math.exp(1))
    # of a yes/no answer at a proportion of one half, by hand
    variance = p * (1 - p) / (2 * p - 1) ** 2 + 0.25
    assert plan.widest_margin == pytest.approx(
        stats.norm.ppf(0.975) * math.sqrt(variance / 5000), rel=1e-9
    )
    shown = run("plan", "--population", 5000, "--epsilon", 1)
    assert shown.exit_code == 0
    assert "2.7 % can be distinguished from zero" in shown.output
    assert "is estimated to within ± 3 %" in shown.output


# --- files


def answers(path: Path, n: int) -> Path:
    rng = np.random.default_rng(3)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["region", "smokes", "news", "age"])
        for row in range(n):
            news = [
                label for label in ("paper", "radio", "books, magazines") if rng.random() < 0.4
            ][:2]
            age = int(rng.integers(18, 96))
            writer.writerow(
                [
                    "north" if row % 2 else "south",
                    "yes" if rng.random() < 0.3 else "no",
                    ";".join(news),
                    age,
                ]
            )
    return path


def test_a_plan_goes_through_files_to_estimates(tmp_path: Path) -> None:
    (tmp_path / "survey.toml").write_text(SURVEY)
    planned = tmp_path / "planned.toml"
    shown = run(
        "plan",
        "--questions",
        tmp_path / "survey.toml",
        "--population",
        6000,
        "--epsilon",
        4,
        "-o",
        planned,
        "--json",
    )
    assert shown.exit_code == 0, shown.output
    document = json.loads(shown.output)
    assert document["way"] == "sampled"
    assert document["epsilon"] <= 4
    survey = read_questionnaire(planned)
    assert {q["name"]: q["mechanism"] for q in document["expected"]} == {
        n: m.to_dict() for n, m in survey.mechanisms.items()
    }
    reports = tmp_path / "reports.csv"
    written = run("randomize", answers(tmp_path / "a.csv", 6000), "-o", reports, "-m", planned)
    assert written.exit_code == 0, written.output
    assert "1 of 3 questions answered, drawn for each person." in written.output
    with reports.open() as file:
        rows = list(csv.reader(file))[1:]
    # the last column marks the file
    assert {sum(cell != "" for cell in row[:-1]) for row in rows} == {1}
    found = estimate_file(reports)
    assert sum(estimate.n for estimate in found.estimates.values()) == found.n == 6000
    margin = next(q["margin"] for q in document["expected"] if q["name"] == "smokes")
    # The planned ± of 95 % is 1.96 standard errors; five of them are a false alarm of 6e-7.
    assert abs(found.estimates["smokes"].proportions[1] - 0.3) < 5 * margin / 1.96


def test_a_questionnaire_goes_through_toml_and_back(tmp_path: Path) -> None:
    mechanisms: dict[str, Mechanism] = {
        "a b": DirectEncoding(["x", 'y"'], 1.0),
        "c": DirectEncoding(3, 2.0),
    }
    for survey in (
        Questionnaire(mechanisms),
        Questionnaire(mechanisms, ask=1, weights={"a b": 0.25, "c": 0.75}),
        Questionnaire(mechanisms, fake=True),
        Questionnaire({**mechanisms, "d": MultipleChoice(["p", "q"], 1.0)}, ask=2),
    ):
        (tmp_path / "m.toml").write_text(write_questionnaire(survey))
        again = read_questionnaire(tmp_path / "m.toml")
        assert again.mechanisms == survey.mechanisms
        assert again.rule() == survey.rule()
        assert again.epsilon == survey.epsilon


SMOKES, CITY = DirectEncoding(["no", "yes"], 3.0), DirectEncoding(["Oslo", "Rome"], 3.0)


def table(path: Path, *rows: str) -> Path:
    path.write_text("\n".join(["smokes,city,team", *rows]) + "\n")
    return path


def test_fake_data_look_like_answers_and_are_taken_out_of_the_estimate(tmp_path: Path) -> None:
    survey = Questionnaire({"smokes": SMOKES, "city": CITY}, fake=True)
    source = table(tmp_path / "a.csv", *["yes,Rome,1"] * 4000)
    randomize_file(source, tmp_path / "r.csv", survey, source=seeded_source(1))
    found = estimate_file(tmp_path / "r.csv")
    for name in ("smokes", "city"):
        estimate = found.estimates[name]
        assert estimate.n == 4000
        low, high = estimate.interval(1 - 1e-9)[1]
        assert low <= 1 <= high
        assert estimate.epsilon == survey.answer_epsilon(name)
    with pytest.raises(SurveyError, match="one true answer"):
        estimate_file(tmp_path / "r.csv", tables=[("smokes", "city")])


def test_a_table_is_made_of_those_who_were_asked_both(tmp_path: Path) -> None:
    mechanisms: dict[str, Mechanism] = {
        "smokes": SMOKES,
        "city": CITY,
        "team": DirectEncoding(2, 3.0),
    }
    survey = Questionnaire(mechanisms, ask=2)
    source = table(tmp_path / "a.csv", *["yes,Rome,1", "no,Oslo,0"] * 3000)
    randomize_file(source, tmp_path / "r.csv", survey, source=seeded_source(1))
    (joint,) = estimate_file(tmp_path / "r.csv", tables=[("smokes", "city")]).tables
    assert abs(joint.n - 2000) < 6 * math.sqrt(6000 * 2 / 9)
    truth = np.array([[0.5, 0.0], [0.0, 0.5]])
    assert np.all(np.abs(joint.proportions - truth) < 6 * joint.stderr)
    with pytest.raises(SurveyError, match="no table of 3"):
        estimate_file(tmp_path / "r.csv", tables=[("smokes", "city", "team")])


def test_a_row_with_another_number_of_answers_is_refused(tmp_path: Path) -> None:
    survey = Questionnaire({"smokes": SMOKES, "city": CITY}, ask=1)
    reports = table(tmp_path / "r.csv", "yes,,1", "no,Rome,0")
    with pytest.raises(
        SurveyError, match="row 2: 2 questions are answered, but each person is asked 1"
    ):
        estimate_file(reports, survey)
    with pytest.raises(SurveyError, match="not asked, so it is not missing"):
        estimate_file(reports, survey, missing="drop")


def test_a_refusal_does_not_depend_on_who_is_asked(tmp_path: Path) -> None:
    survey = Questionnaire(
        {"smokes": SMOKES, "city": CITY}, ask=1, weights={"smokes": 1e6, "city": 1}
    )
    source = table(tmp_path / "a.csv", "yes,Rome,1", "no,Atlantis,0")
    with pytest.raises(SurveyError, match="row 2, column 'city'") as refused:
        randomize_file(source, tmp_path / "r.csv", survey, source=seeded_source(1))
    assert "Atlantis" not in str(refused.value)


def test_choices_are_split_by_the_separator_that_gives_labels() -> None:
    labels = ["web", "radio", "books, papers"]
    cells: list[Any] = [
        "web;radio",
        "web | radio",
        "books, papers",
        "web;books, papers",
        "",
        None,
        ["web"],
        "web,radio,web",
    ]
    assert spell_choices(labels, cells) == [
        ("web", "radio"),
        ("web", "radio"),
        ("books, papers",),
        ("web", "books, papers"),
        (),
        (),
        ("web",),
        ("web", "radio"),
    ]


@pytest.mark.parametrize(
    ("content", "rule"),
    [
        ("[questions.a]\n", "labels, or low and high"),
        ("[questions.a]\nlabels = 3\n", "labels must be a list"),
        ("[questions.a]\nlabels = ['x']\n", "at least 2 labels"),
        ("[questions.a]\nlabels = ['x', 'y']\nchoices = 2\n", "choices is not a key of a question"),
        ("[questions.a]\nlabels = ['x', 'y']\nchoose = 3\n", "choose = 3"),
        ("[questions.a]\nlow = 1\n", "high"),
        ("[questions.a]\nlow = 2\nhigh = 1\n", "must exceed low"),
        (
            "[questions.a]\nlabels = ['x', 'y']\nimportance = 0\n",
            "importance = 0 must be finite and above 0",
        ),
        ("a = 1\n", r"\[questions.NAME\]"),
        ("questions = 1\n", r"\[questions.NAME\]"),
    ],
)
def test_a_file_of_questions_that_is_wrong_gets_one_line(
    tmp_path: Path, content: str, rule: str
) -> None:
    (tmp_path / "q.toml").write_text(content)
    shown = run("plan", "--questions", tmp_path / "q.toml", "--population", 500, "--epsilon", 1)
    assert shown.exit_code == 2
    assert re.search(rule, shown.output), shown.output
    assert shown.output.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["--questions", "q.toml", "--epsilon", "1"],
        ["--questions", "q.toml", "--population", "100", "--epsilon", "1", "--cv", "0.1"],
        ["--population", "100", "--epsilon", "1", "--way", "split"],
        ["--population", "100", "--epsilon", "1", "-o", "x.toml"],
    ],
)
def test_options_of_one_kind_of_plan_are_refused_by_the_other(arguments: list[str]) -> None:
    shown = run("plan", *arguments)
    assert shown.exit_code == 2
    assert "--questions" in shown.output


# --- groups and conditions


def test_groups_of_a_column_in_clear_are_estimated_apart(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", *["yes,Rome,north"] * 600, *["no,Oslo,south"] * 400)
    randomize_file(
        source,
        tmp_path / "r.csv",
        {"smokes": SMOKES, "city": CITY},
        keep=["team"],
        source=seeded_source(1),
    )
    found = estimate_file(tmp_path / "r.csv", by="team")
    assert {group: estimates["smokes"].n for group, estimates in found.groups.items()} == {
        "north": 600,
        "south": 400,
    }
    # Each group's estimate is that of a file with its rows alone.
    lines = (tmp_path / "r.csv").read_text().splitlines()
    for group in ("north", "south"):
        (tmp_path / f"{group}.csv").write_text(
            "\n".join([lines[0], *(row for row in lines if f",{group}," in row)]) + "\n"
        )
        alone = estimate_file(tmp_path / f"{group}.csv", {"smokes": SMOKES, "city": CITY})
        np.testing.assert_array_equal(
            found.groups[group]["city"].proportions, alone["city"].proportions
        )
    shown = run("estimate", tmp_path / "r.csv", "--by", "team")
    assert shown.exit_code == 0
    assert "smokes, team = north" in shown.output
    document = json.loads(run("estimate", tmp_path / "r.csv", "--by", "team", "--json").output)
    assert document["groups"]["south"]["city"]["n"] == 400


def test_a_randomized_column_is_a_condition_and_not_a_group(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", *["yes,Rome,1", "no,Oslo,0", "no,Rome,0"] * 500)
    randomize_file(
        source, tmp_path / "r.csv", {"smokes": SMOKES, "city": CITY}, source=seeded_source(1)
    )
    by = estimate_file(tmp_path / "r.csv", by="city")
    (conditional,) = estimate_file(
        tmp_path / "r.csv", conditional=[(("smokes",), ("city",))]
    ).tables
    assert by.groups == {}
    np.testing.assert_array_equal(by.tables[0].proportions, conditional.proportions)
    np.testing.assert_allclose(conditional.proportions.sum(axis=1), 1)
    assert np.all(np.abs(conditional.proportions - [[1, 0], [0.5, 0.5]]) < 6 * conditional.stderr)
    shown = run("estimate", tmp_path / "r.csv", "--conditional", "smokes|city")
    assert shown.output.splitlines()[-4].split() == [
        "city",
        "smokes",
        "=",
        "no",
        "smokes",
        "=",
        "yes",
    ]
    for wrong in ("smokes", "|city", "smokes|"):
        refused = run("estimate", tmp_path / "r.csv", "--conditional", wrong)
        assert refused.exit_code == 2
        assert "OF|GIVEN" in refused.output


def test_numbers_of_a_file_come_as_mean_and_quantiles(tmp_path: Path) -> None:
    ages = deniable.SquareWave.of_integers(4.0, 18, 95)
    randomize_file(
        answers(tmp_path / "a.csv", 3000),
        tmp_path / "r.csv",
        {"age": ages},
        source=seeded_source(1),
    )
    shown = run("estimate", tmp_path / "r.csv")
    assert [line.split("  ")[1] for line in shown.output.splitlines()[2:6]] == [
        "mean",
        "median",
        "lower quartile",
        "upper quartile",
    ]
    summary = json.loads(run("estimate", tmp_path / "r.csv", "--json").output)["columns"]["age"][
        "summary"
    ]
    mean = summary[0]
    assert mean["low"] < 56.5 < mean["high"]
    rows = list(csv.reader(run("estimate", tmp_path / "r.csv", "--csv").output.splitlines()))
    assert rows[1][:2] == ["age", "mean"]
    assert float(rows[1][2]) == mean["value"]


def test_plans_and_surveys_go_through_json_and_back(tmp_path: Path) -> None:
    questions = [
        Question("a", YES_NO, importance=2),
        Question("age", low=18, high=95, integers=True),
        Question("c", ("x", "y", "z")),
    ]
    for way in ("split", "sampled"):
        plan = plan_questionnaire(questions, population=5000, epsilon=3.0, way=way)
        again = type(plan).from_dict(json.loads(json.dumps(plan.to_dict(), allow_nan=False)))
        assert again == plan
        assert str(again) == str(plan)
    source = table(tmp_path / "a.csv", *["yes,Rome,1", "no,Oslo,0"] * 100)
    randomize_file(
        source,
        tmp_path / "r.csv",
        {"smokes": SMOKES, "city": CITY},
        keep=["team"],
        source=seeded_source(1),
    )
    survey = estimate_file(tmp_path / "r.csv", tables=[("smokes", "city")], by="team")
    back = type(survey).from_dict(json.loads(json.dumps(survey.to_dict(), allow_nan=False)))
    assert str(back) == str(survey)
    assert back["smokes"] == survey["smokes"]
    proportion = survey["smokes"]["yes"]
    assert type(proportion).from_dict(
        json.loads(json.dumps(proportion.to_dict(), allow_nan=False))
    ).interval(0.9) == proportion.interval(0.9)
