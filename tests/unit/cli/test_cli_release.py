"""`deniable release`: files in, files out, one line where something is wrong."""

from __future__ import annotations

import csv
import json
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from deniable.cli import cli
from toolkit.adults import adults

N = 4000
ATTRIBUTES = [
    "-a",
    "age=numbers:low=15,high=95,width=5",
    "-a",
    "sex=categories:labels=f|m",
    "-a",
    "education={}",
    "-a",
    "marital=auto",
]
EDUCATION = """preschool,school
9th,school
11th,school
high school,school
college,higher
bachelor,higher
master,higher
doctorate,higher
"""
PRIVATE = ["--epsilon", "1", "--delta", "1e-4"]


@pytest.fixture
def people(tmp_path: Path) -> Path:
    (tmp_path / "education.csv").write_text(EDUCATION)
    table = {"id": list(range(N)), **adults(N, 1)}
    with (tmp_path / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))
    pq.write_table(pa.table(table), tmp_path / "people.parquet")
    return tmp_path / "people.csv"


def attributes(people: Path, marital: str = "categories") -> list[str]:
    education = people.with_name("education.csv")
    return [
        text.format(education).replace("marital=auto", f"marital={marital}") for text in ATTRIBUTES
    ]


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["release", *map(str, arguments)])


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_private_release_pays_for_its_search_and_writes_how_it_was_made(people: Path) -> None:
    output = people.with_name("out.csv")
    result = run(people, "-o", output, *attributes(people), *PRIVATE)
    assert result.exit_code == 0, result.output
    rows = rows_of(output)
    assert list(rows[0]) == ["age", "sex", "education", "marital"]
    described = tomllib.loads(output.with_name("out.csv.toml").read_text())
    assert described["rows"] == len(rows)
    assert described["epsilon"] <= 1
    assert described["epsilon_search"] == pytest.approx(0.1)
    assert described["delta"] <= 1e-4
    assert min(Counter(tuple(row.values()) for row in rows).values()) >= described["threshold"]
    assert set(described["levels"]) == {"age", "sex", "education", "marital"}
    assert f"Wrote {len(rows):,} rows to {output}" in result.output
    assert "For you alone" in result.output


def test_parquet_comes_out_as_parquet_and_json_says_all_of_it(people: Path) -> None:
    output = people.with_name("out.parquet")
    levels = ["-l", "age=2", "-l", "sex=0", "-l", "education=1", "-l", "marital=0"]
    result = run(
        people.with_suffix(".parquet"),
        "-o",
        output,
        *attributes(people),
        *PRIVATE,
        *levels,
        "--person",
        "id",
        "--json",
    )
    assert result.exit_code == 0, result.output
    said = json.loads(result.output)
    assert said["rows"] == pq.read_table(output).num_rows
    assert said["epsilon_search"] == 0
    assert said["levels"] == {"age": 2, "sex": 0, "education": 1, "marital": 0}
    assert said["holder_only"]["risk_before"]["prosecutor"] == 1
    assert said["holder_only"]["risk_after"]["prosecutor"] <= 1 / said["threshold"]


def test_combinations_are_written_once_with_their_number(people: Path) -> None:
    output = people.with_name("out.csv")
    levels = ["-l", "age=3", "-l", "sex=0", "-l", "education=2", "-l", "marital=1"]
    assert (
        run(
            people, "-o", output, *attributes(people), *PRIVATE, *levels, "--combinations"
        ).exit_code
        == 0
    )
    rows = rows_of(output)
    assert len({tuple(row.values())[:-1] for row in rows}) == len(rows)
    assert (
        sum(int(row["count"]) for row in rows)
        == tomllib.loads(output.with_name("out.csv.toml").read_text())["rows"]
    )


def test_public_data_decide_levels_and_automatic_hierarchies(people: Path) -> None:
    output = people.with_name("out.csv")
    result = run(
        people,
        "-o",
        output,
        *attributes(people, "auto"),
        *PRIVATE,
        "--public",
        people.with_suffix(".parquet"),
        "--json",
    )
    # The file's ages are texts and the public ones whole numbers, but labels are made of both
    # alike.
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["epsilon_search"] == 0


def test_k_anonymity_with_diversity_and_closeness_is_kept(people: Path) -> None:
    output = people.with_name("out.csv")
    rules = [
        "--k",
        "8",
        "--l-diversity",
        "salary=3",
        "--t-closeness",
        "hours=0.3:ordered",
        "--time-limit",
        "60",
    ]
    result = run(people, "-o", output, *attributes(people, "auto"), *rules)
    assert result.exit_code == 0, result.output
    rows = rows_of(output)
    classes: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        classes.setdefault((row["age"], row["sex"], row["education"], row["marital"]), []).append(
            row["salary"]
        )
    assert min(map(len, classes.values())) >= 8
    assert min(len(set(salaries)) for salaries in classes.values()) >= 3
    assert len(rows) >= 0.95 * N
    assert "the best of" in result.output


def test_a_local_release_is_randomized_and_anyone_can_estimate_from_it(people: Path) -> None:
    output = people.with_name("out.csv")
    options = [
        "-a",
        "age=numbers:low=15,high=95,width=20",
        "-a",
        "sex=categories:labels=f|m",
        "-l",
        "age=1",
        "--local",
    ]
    result = run(people, "-o", output, *options, "--epsilon", "4")
    assert result.exit_code == 0, result.output
    assert "epsilon 4 per row, 2 per column" in result.output
    rows = rows_of(output)
    assert list(rows[0]) == ["age", "sex", "randomized_by_deniable"]
    assert len(rows) == N
    estimated = CliRunner().invoke(
        cli, ["estimate", str(output), "--json", "--confidence", "0.9999999"]
    )
    columns = json.loads(estimated.output)["columns"]
    ages = np.array(adults(N, 1)["age"])
    truth = {
        "[15, 35)": np.mean(ages < 35),
        "[35, 55)": np.mean((ages >= 35) & (ages < 55)),
        "≥95": 0.0,
    }
    found = dict(
        zip(
            columns["age"]["labels"],
            zip(columns["age"]["low"], columns["age"]["high"], strict=True),
            strict=True,
        )
    )
    for label, share in truth.items():
        low, high = found[label]
        assert low <= share <= high
    # Rows come in random order. With 6 labels at epsilon 2 a report is true with probability 0.596,
    # and any other with 0.081.
    true, other = np.exp(2) / (np.exp(2) + 5), 1 / (np.exp(2) + 5)
    for label, share in truth.items():
        expected = other + (true - other) * share
        reported = np.mean([row["age"] == label for row in rows])
        assert abs(reported - expected) < 5 * np.sqrt(expected * (1 - expected) / N)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ([], "give --epsilon and --delta, or --k, --l-diversity or --t-closeness, or --local"),
        (["--epsilon", "1"], "--epsilon and --delta go together"),
        (["--epsilon", "-1", "--delta", "1e-5"], "epsilon = -1.0 must be finite and above 0"),
        (["--epsilon", "1", "--delta", "0"], "delta = 0.0 must lie strictly between 0 and 1"),
        ([*PRIVATE, "--sampling", "0.9"], "sampling = 0.9 must be at most 1 - exp(-epsilon)"),
        ([*PRIVATE, "--sensitive", "salary"], "--sensitive cannot be combined with --epsilon"),
        ([*PRIVATE, "--person", "salary"], "column 'salary': a second row of the same person"),
        (
            [*PRIVATE, "-a", "hours=auto"],
            "--attribute hours=auto reads the data: with --epsilon it needs --public",
        ),
        (
            [*PRIVATE, "-a", "salary=numbers:low=0,high=9,width=1"],
            "people.csv, row 1, column 'salary': the value is not a number",
        ),
        ([*PRIVATE, "-a", "height=categories"], "has no column 'height'"),
        ([*PRIVATE, "-l", "age=x"], "--level 'age=x' must have the form NAME=2 or NAME=1-3"),
        ([*PRIVATE, "-l", "age=40"], "level of age = 40 must lie between 0 and"),
        ([*PRIVATE, "-a", "sex=categories"], "a column is given twice with --attribute"),
        (["--k", "5000"], "no generalisation satisfies the constraints"),
        (["--k", "3", "--public", "people.csv"], "--public needs --epsilon"),
        (
            ["--k", "3", "--l-diversity", "salary"],
            "--l-diversity 'salary' must have the form NAME=NUMBER",
        ),
        (
            ["--k", "3", "--l-diversity", "salary=3:many"],
            "may only end in :entropy or :recursive=C",
        ),
        (["--k", "3", "--t-closeness", "salary=far"], "'far' in 'salary=far' must be a number"),
        (["--k", "3", "--t-closeness", "salary=0.2:near"], "may only end in :ordered"),
        (
            ["--local", "--epsilon", "2"],
            "--local needs a fixed --level of age with two or more labels",
        ),
        (["--local"], "--local needs --epsilon"),
    ],
)
def test_what_is_wrong_is_said_in_one_line_and_nothing_is_written(
    people: Path, options: list[str], text: str
) -> None:
    before = sorted(people.parent.iterdir())
    result = run(people, "-o", people.with_name("out.csv"), *attributes(people), *options)
    assert result.exit_code == 2
    assert text in result.output
    assert result.output.startswith("deniable: ")
    assert result.output.count("\n") == 1
    assert sorted(people.parent.iterdir()) == before


def test_a_value_that_a_hierarchy_lacks_is_named_by_file_and_row(people: Path) -> None:
    people.with_name("education.csv").write_text(EDUCATION.replace("doctorate,higher\n", ""))
    first = 1 + [row["education"] for row in rows_of(people)].index("doctorate")
    result = run(people, "-o", people.with_name("out.csv"), *attributes(people), *PRIVATE)
    assert result.exit_code == 2
    assert (
        result.output
        == f"deniable: {people}, row {first}, column 'education': the value is not in its"
        " hierarchy\n"
    )


def test_a_release_of_which_nothing_is_left_says_so(people: Path) -> None:
    output = people.with_name("out.csv")
    rules = ["--t-closeness", "marital=0.2:ordered", "--l-diversity", "marital=2:recursive=2"]
    command = [
        people,
        "-o",
        output,
        *attributes(people),
        "--epsilon",
        "0.02",
        "--delta",
        "1e-9",
        *rules,
    ]
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "Nothing was frequent enough to be released" in result.output
    assert output.read_text() == "age,sex,education,marital\n"
    again = run(*command, "--force", "--json")
    assert "NaN" not in again.output
    assert json.loads(again.output)["rows"] == 0
    parquet = run(people, "-o", people.with_name("out.parquet"), *command[3:])
    assert parquet.exit_code == 0, parquet.output
    assert pq.read_table(people.with_name("out.parquet")).num_rows == 0


def test_an_output_that_exists_is_kept_unless_forced(people: Path) -> None:
    output = people.with_name("out.csv")
    output.write_text("mine")
    command = [people, "-o", output, *attributes(people), "--k", "5"]
    result = run(*command)
    assert result.exit_code == 2
    assert "exists already" in result.output
    assert output.read_text() == "mine"
    assert run(*command, "--force").exit_code == 0
    assert output.read_text() != "mine"
    assert run(people, "-o", people, *attributes(people), "--k", "5", "--force").exit_code == 2


def test_an_output_that_cannot_be_written_leaves_nothing(people: Path) -> None:
    result = run(
        people, "-o", people.parent / "nowhere" / "out.csv", *attributes(people), "--k", "5"
    )
    assert result.exit_code == 2
    assert "cannot be written: No such file or directory" in result.output
    assert not (people.parent / "nowhere").exists()
