"""`deniable curate`, as called from a shell."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from deniable.cli import cli
from deniable.curator.noise import LaplaceNoise, NoisyChoice

AGES = ["--mean", "age", "--bounds", "age=18,95"]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "people.csv"
    rows = [
        f"{i % 50},{18 + i % 70},{['Oslo', 'Paris', 'Rome'][i % 3]},{i % 3}" for i in range(600)
    ]
    file.write_text("\n".join(["person,age,city,visits", *rows, ""]), encoding="utf-8")
    return file


@pytest.fixture
def without_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise of 0, and the best choice: what is left is the arithmetic."""
    monkeypatch.setattr(LaplaceNoise, "add", lambda self, numbers: list(numbers))
    monkeypatch.setattr(NoisyChoice, "largest", lambda self, scores: scores.index(max(scores)))


def run(*arguments: Any) -> Result:
    return CliRunner().invoke(cli, ["curate", *map(str, arguments)], catch_exceptions=False)


def test_a_release_is_printed_with_its_error_and_paid_from_the_budget_beside_the_file(
    table: Path,
) -> None:
    result = run(table, "--epsilon", 1, *AGES)
    assert result.exit_code == 0
    first, budget = result.stdout.splitlines()
    figure = r"mean of age: \d+\.\d+, \d+\.\d+ to \d+\.\d+ \(at least 95 %\)"
    assert re.fullmatch(rf"{figure}; epsilon 1, add-remove neighbours, one row per person", first)
    assert budget == "Budget: 1 of 1 spent, 0 left"
    assert json.loads((table.parent / "people.csv.budget.json").read_text())["epsilon"] == "1"


def test_the_second_run_is_refused_with_exit_code_2_and_one_line(table: Path) -> None:
    run(table, "--epsilon", 1, *AGES)
    kept = (table.parent / "people.csv.budget.json").read_bytes()
    result = run(table, "--epsilon", "0.5", *AGES)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "deniable: epsilon 0.5 was requested, but 0 of 1 is left\n"
    assert (table.parent / "people.csv.budget.json").read_bytes() == kept


def test_a_total_lasts_for_several_runs(table: Path) -> None:
    for spent in (1, 2):
        result = run(table, "--epsilon", 1, "--total", 2, *AGES)
        assert result.stdout.endswith(f"Budget: {spent} of 2 spent, {2 - spent} left\n")
    assert run(table, "--epsilon", 1, *AGES).exit_code == 2
    assert (
        "is a budget of epsilon 2, not 5" in run(table, "--epsilon", 1, "--total", 5, *AGES).stderr
    )


def test_a_changed_file_does_not_get_the_old_budget(table: Path) -> None:
    run(table, "--epsilon", 1, "--total", 2, *AGES)
    table.write_text(table.read_text(encoding="utf-8") + "51,30,Oslo,1\n", encoding="utf-8")
    result = run(table, "--epsilon", 1, *AGES)
    assert result.exit_code == 2
    assert "is that of another table: a budget belongs to one table" in result.stderr


@pytest.mark.usefixtures("without_noise")
def test_all_statistics_at_once_from_csv_and_parquet(table: Path) -> None:
    frame = pd.read_csv(table)
    frame.to_parquet(table.with_suffix(".parquet"))
    options = [
        "--bounds",
        "age=18,95",
        "--labels",
        "city=Oslo|Paris",
        "--labels",
        "visits=0|1|2",
        "--json",
    ]
    for name in ("sum", "mean", "variance", "std", "median", "minimum", "maximum", "noisy-max"):
        options += [f"--{name}", "age"]
    options += [
        "--count",
        "--quantile",
        "age=0.25",
        "--histogram",
        "city",
        "--histogram",
        "age",
        "--bins",
        "age=18,40,95",
    ]
    options += ["--histogram", "visits", "--most-frequent", "visits", "--step", "age=1"]
    documents = []
    for file in (table, table.with_suffix(".parquet")):
        result = run(file, "--epsilon", 14, *options)
        assert result.exit_code == 0, result.stderr
        documents.append(json.loads(result.stdout))
    assert documents[0] == documents[1]
    assert documents[0]["budget"] == {"epsilon": 14.0, "spent": 14.0, "left": 0.0}
    found = {result["statistic"]: result for result in documents[0]["results"]}
    assert len(found) == 14
    assert all(result["epsilon"] == 1 for result in found.values())
    assert found["count"]["value"] == 600
    assert found["sum of age"]["value"] == frame.age.sum()
    assert found["mean of age"]["value"] == pytest.approx(frame.age.mean())
    assert found["variance of age"]["value"] == pytest.approx(frame.age.var(ddof=0))
    assert found["standard deviation of age"]["value"] == pytest.approx(frame.age.std(ddof=0))
    assert found["noisy maximum of age"]["value"] == frame.age.max()
    assert (
        found["quantile 0.25 of age"]["low"]
        < frame.age.quantile(0.25)
        < found["quantile 0.25 of age"]["high"]
    )
    assert found["median of age"]["stderr"] is None
    assert found["histogram of city"]["counts"] == [200, 200, 200]
    assert found["histogram of age"]["counts"] == [(frame.age < 40).sum(), (frame.age >= 40).sum()]
    assert found["histogram of visits"]["counts"] == [200, 200, 200, 0]
    assert found["most frequent visits"]["label"] == 0


@pytest.mark.usefixtures("without_noise")
def test_filters_groups_and_persons(table: Path) -> None:
    shared = ["--epsilon", 1, "--total", 9, "--person", "person", "--rows", 12, "--count", "--csv"]
    result = run(
        table,
        *shared,
        "--where",
        "age>=40",
        "--where",
        "city in Oslo|Rome",
        "--where",
        "visits != 2",
    )
    (row,) = csv.DictReader(io.StringIO(result.stdout))
    frame = pd.read_csv(table)
    assert (
        float(row["value"])
        == ((frame.age >= 40) & frame.city.isin(["Oslo", "Rome"]) & (frame.visits != 2)).sum()
    )
    assert float(row["high"]) - float(row["value"]) == 36  # three scales of 12 rows
    result = run(table, *shared, "--group-by", "city", "--labels", "city=Oslo|Rome|Bergen")
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert [(row["group"], float(row["value"])) for row in rows] == [
        ("Oslo", 200),
        ("Rome", 200),
        ("Bergen", 0),
    ]


def test_a_histogram_and_groups_are_readable(table: Path) -> None:
    result = run(
        table,
        "--epsilon",
        1,
        "--total",
        9,
        "--histogram",
        "city",
        "--labels",
        "city=Oslo|Paris|Rome",
    )
    lines = result.stdout.splitlines()
    assert lines[0] == "histogram of city"
    assert re.fullmatch(r"  Oslo   +\d+   +\d+ to \d+   +3\d\.\d\d %", lines[1])
    assert re.fullmatch(
        r"  about \d+ rows; epsilon 1, add-remove neighbours, one row per person; intervals cover"
        r" at least 95 %",
        lines[5],
    )
    grouped = run(
        table, "--epsilon", 1, "--group-by", "city", "--labels", "city=Oslo|Rome", *AGES
    ).stdout.splitlines()
    assert grouped[:2] == ["mean of age", "  city = Oslo"]


@pytest.mark.parametrize("shape", [[], ["--json"], ["--csv"]])
def test_a_preview_spends_nothing_and_writes_nothing(table: Path, shape: list[str]) -> None:
    result = run(table, "--epsilon", 1, *AGES, "--count", "--preview", "--size", 600, *shape)
    assert result.exit_code == 0
    assert "mean of age" in result.stdout
    assert [path.name for path in table.parent.iterdir()] == ["people.csv"]
    if shape == ["--json"]:
        count, mean = json.loads(result.stdout)["results"]
        assert count["plus_minus"] == 6  # epsilon 0.5
        assert mean["plus_minus"] == pytest.approx(77 / 0.5 * 2.9957 / 600, rel=1e-3)
        assert mean["at_most"] is True


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--mean", "age"], "bounds of age = None must be declared"),
        (
            ["--mean", "height", "--bounds", "height=1,2"],
            "has no column 'height'; it has 'person', 'age', 'city', 'visits'",
        ),
        (
            ["--mean", "city", "--bounds", "city=1,2"],
            "column 'city', row 1: the value is not a number",
        ),
        (["--mean", "age", "--bounds", "age=95,18"], "the lower first"),
        (["--mean", "age", "--bounds", "age=one,two"], "--bounds age=one,two must be numbers"),
        (
            ["--mean", "age", "--bounds", "18,95"],
            "--bounds '18,95' must have the form COLUMN=VALUE",
        ),
        ([], "Name at least one statistic"),
        (["--count", "--where", "age"], "--where 'age' must have the form COLUMN OPERATOR VALUE"),
        (["--histogram", "city"], "needs labels or bins, but not both"),
        (["--count", "--group-by", "city"], "--group-by city needs --labels city=A|B|…"),
        (
            ["--count", "--person", "person"],
            "column 'person': somebody has more than the declared one row",
        ),
        (["--count", "--rows", "2"], "rows = 2 needs `person`"),
        (["--count", "--confidence", "2"], "confidence = 2.0 must lie strictly between 0 and 1"),
        (["--quantile", "age=2", "--bounds", "age=18,95"], "level = 2.0 must lie between 0 and 1"),
        ([*AGES, "--preview"], "size = None must be given"),
        (["--count", "--epsilon", "0"], "epsilon = '0' must be above 0"),
        (["--count", "--epsilon", "some"], "epsilon = 'some' must be finite and at least 0"),
    ],
)
def test_a_slip_is_one_line_and_spends_and_writes_nothing(
    table: Path, options: list[str], message: str
) -> None:
    result = run(table, "--epsilon", 1, *options)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert [path.name for path in table.parent.iterdir()] == ["people.csv"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("age\n", "has no rows"),
        ("age\n20\n\n", "row 2: 0 fields, but the header has 1"),
        (
            "age,x\n20,1\n,2\n",
            "column 'age', row 2: the value is missing (missing='drop' leaves such rows out)",
        ),
        ("age\n20\nnan\n", "column 'age', row 2: the value is not a number"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_line(
    tmp_path: Path, content: str, message: str
) -> None:
    file = tmp_path / "people.csv"
    file.write_text(content)
    result = run(file, "--epsilon", 1, *AGES)
    assert result.exit_code == 2
    assert message in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["people.csv"]
    assert run(tmp_path / "nothing.csv", "--epsilon", 1, "--count").stderr.endswith(
        "nothing.csv is not a file\n"
    )
