"""Files of answers and of reports, through the functions and through the commands."""

from __future__ import annotations

import csv
import datetime
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import deniable
from deniable import seeded_source
from deniable.cli import cli
from deniable.errors import SurveyError
from deniable.survey import (
    estimate_file,
    parse_column,
    randomize_file,
    read_columns,
    reading,
    write_columns,
)

CITY = deniable.DirectEncoding(["Oslo", "Paris", "Rome"], 2.0)
SMOKES = deniable.BinaryResponse(0.5, 0.5)
SIZE = deniable.OptimizedUnary(11, 3.0)
MECHANISMS: dict[str, deniable.Mechanism] = {"city": CITY, "smokes": SMOKES, "size": SIZE}
OPTIONS = [
    "-c",
    "city=DirectEncoding:values=Oslo|Paris|Rome,epsilon=2",
    "-c",
    "smokes=BinaryResponse:p=0.5,q=0.5",
]


def write_answers(path: Path, n: int = 3000) -> Path:
    rng = np.random.default_rng(1)
    rows = zip(
        rng.choice(["Oslo", "Paris", "Rome"], n, p=[0.6, 0.3, 0.1]),
        rng.integers(0, 2, n),
        rng.integers(0, 11, n),
        strict=True,
    )
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "city", "smokes", "size"])
        writer.writerows(
            [f"person {i}", city, smokes, size] for i, (city, smokes, size) in enumerate(rows)
        )
    return path


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_is_randomized_here_is_estimated_there(tmp_path: Path, suffix: str) -> None:
    answers = write_answers(tmp_path / "answers.csv")
    output = tmp_path / f"reports.{suffix}"
    assert randomize_file(answers, output, MECHANISMS, source=seeded_source(3)) == 3000
    survey = estimate_file(output, tables=[("city", "smokes")])
    assert survey.n == 3000
    truth = [0.6, 0.3, 0.1]
    city = survey.estimates["city"]
    assert (np.abs(city.proportions - truth) < 5 * city.stderr).all()
    # The same chunks through the mechanism itself, drawn from the same coins, give the same counts.
    source = seeded_source(3)
    columns = list(zip(*list(csv.reader(answers.read_text().splitlines()))[1:], strict=True))
    expected = CITY.estimate(CITY.privatize(columns[1], source))
    assert city.proportions.tolist() == expected.proportions.tolist()
    (table,) = survey.tables
    np.testing.assert_allclose(table.marginal("city").proportions, city.proportions)


def test_columns_that_are_neither_randomized_nor_kept_are_left_out(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "answers.csv", 10)
    randomize_file(answers, tmp_path / "out.csv", {"city": CITY}, keep=["size"])
    assert (tmp_path / "out.csv").read_text().splitlines()[0] == "city,size,randomized_by_deniable"
    assert "person" not in (tmp_path / "out.csv").read_text()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "CHUNK_ROWS", 3000)
    peaks = []
    for n in (12_000, 60_000):
        answers = tmp_path / f"{n}.csv"
        answers.write_text("city\n" + "Oslo\nParis\nRome\n" * (n // 3))
        tracemalloc.start()
        assert randomize_file(answers, tmp_path / f"out-{n}.csv", {"city": CITY}) == n
        assert estimate_file(tmp_path / f"out-{n}.csv").n == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_mechanisms_survive_their_toml(tmp_path: Path) -> None:
    path = tmp_path / "columns.toml"
    given = MECHANISMS | {'a "quoted" name': deniable.DesignMatrix([[0.7, 0.4], [0.3, 0.6]])}
    path.write_text(write_columns(given))
    assert read_columns(path) == given


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("city", "NAME=MECHANISM"),
        ("city=", "NAME=MECHANISM"),
        ("city=Nope:values=3", "'Nope'"),
        ("city=DirectEncoding:k", "PARAMETER=VALUE"),
        ("city=DirectEncoding:values=3", "do not fit DirectEncoding"),
        ("city=DirectEncoding:values=3,epsilon=0", "epsilon = 0"),
        ("city=DirectEncoding:values=a|a,epsilon=1", "repeat a label"),
    ],
)
def test_a_column_that_cannot_be_understood_is_refused(text: str, reason: str) -> None:
    with pytest.raises(SurveyError, match=reason):
        parse_column(text)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("x", "not TOML"),
        ("a = 1", "columns.NAME"),
        ("[columns.a]\nmechanism = 'No'", "columns.a: mechanism"),
    ],
)
def test_a_columns_file_that_cannot_be_understood_is_refused(
    tmp_path: Path, content: str, reason: str
) -> None:
    (tmp_path / "m.toml").write_text(content)
    with pytest.raises(SurveyError, match=reason):
        read_columns(tmp_path / "m.toml")
    with pytest.raises(SurveyError, match="cannot be read"):
        read_columns(tmp_path / "absent.toml")


BAD_FILES: dict[str, tuple[str | bytes, str]] = {
    "an empty file": ("", "is empty"),
    "a header only": ("city,smokes\n", "has no rows"),
    "a missing column": ("city,other\nOslo,1\n", "has no column 'smokes'; it has 'city', 'other'"),
    "a column twice": ("city,city,smokes\nOslo,Oslo,1\n", "more than one column 'city'"),
    "an unknown label": ("city,smokes\nOslo,1\nParis,0\nBerlin,1\n", "row 3, column 'city'"),
    "a missing value": ("city,smokes\nOslo,1\n,0\n", "row 2, column 'city'"),
    "mixed lengths": ("city,smokes\nOslo,1\nParis\n", "row 2: 1 fields, but the header has 2"),
    "a broken quote": ('city,smokes\nOslo,1\n"Par"is,1\n', "row 2: not a CSV file"),
    "no text at all": (b"city,smokes\n\xff\xfe\xfa,1\n", "not UTF-8"),
}


@pytest.mark.parametrize("command", ["randomize", "estimate"])
@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_gets_one_clear_line_and_writes_nothing(
    tmp_path: Path, command: str, case: str
) -> None:
    content, reason = BAD_FILES[case]
    path = tmp_path / "bad.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    output = (
        ["-o", tmp_path / "out.csv"] if command == "randomize" else ["--plot", tmp_path / "out.png"]
    )
    result = run(command, path, *OPTIONS, *output)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert "Berlin" not in result.output
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("column", "cells", "reason"),
    [
        (
            "x=OptimizedUnary:values=11,epsilon=1",
            ["0700", "07"],
            "row 2, column 'x': the value is not a report of OptimizedUnary",
        ),
        ("x=OptimizedUnary:values=11,epsilon=1", ["0700", "zz00"], "row 2"),
        ("x=OptimizedUnary:values=11,epsilon=1", ["0700", "ffff"], "bits set beyond"),
        ("x=BinaryResponse:p=0.5,q=0.5", ["1", "2"], "row 2, column 'x'"),
        ("x=DirectEncoding:values=3,epsilon=1", ["1", "b"], "row 2, column 'x'"),
    ],
)
def test_a_mechanism_that_does_not_fit_the_column_is_refused(
    tmp_path: Path, column: str, cells: list[str], reason: str
) -> None:
    (tmp_path / "r.csv").write_text("\n".join(["x", *cells]) + "\n")
    result = run("estimate", tmp_path / "r.csv", "-c", column)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1


def test_parquet_with_nulls_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"city": ["Oslo", None]}), tmp_path / "n.parquet")
    result = run(
        "randomize",
        tmp_path / "n.parquet",
        "-c",
        "city=DirectEncoding:values=Oslo|Rome,epsilon=2",
        "-o",
        tmp_path / "o.csv",
    )
    assert (result.exit_code, "row 2, column 'city'" in result.stderr) == (2, True)
    (tmp_path / "x.parquet").write_text("no")
    result = run(
        "estimate", tmp_path / "x.parquet", "-c", "city=DirectEncoding:values=Oslo|Rome,epsilon=2"
    )
    assert (result.exit_code, "is not a Parquet file" in result.stderr) == (2, True)


def test_an_existing_output_is_kept_unless_forced_and_the_input_always(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "answers.csv", 5)
    output = tmp_path / "out.csv"
    output.write_text("precious")
    assert run("randomize", answers, *OPTIONS, "-o", output).exit_code == 2
    assert output.read_text() == "precious"
    assert run("randomize", answers, *OPTIONS, "-o", output, "--force").exit_code == 0
    before = answers.read_text()
    assert run("randomize", answers, *OPTIONS, "-o", answers, "--force").exit_code == 2
    assert answers.read_text() == before


def test_a_column_is_randomized_or_kept_but_not_both(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "answers.csv", 5)
    result = run("randomize", answers, *OPTIONS, "--keep", "city", "-o", tmp_path / "o.csv")
    assert (result.exit_code, "'city'" in result.stderr) == (2, True)
    assert run("randomize", answers, "-o", tmp_path / "o.csv").exit_code == 2


def test_without_mechanisms_the_command_says_where_to_put_them(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "answers.csv", 5)
    result = run("estimate", answers)
    assert (result.exit_code, "answers.csv.toml" in result.stderr) == (2, True)
    result = run("estimate", answers, *OPTIONS, "--table", "city,age")
    assert (result.exit_code, "'age'" in result.stderr) == (2, True)


def test_all_forms_of_output_tell_the_same(tmp_path: Path) -> None:
    output = tmp_path / "reports.csv"
    randomize_file(
        write_answers(tmp_path / "answers.csv"), output, MECHANISMS, source=seeded_source(3)
    )
    survey = estimate_file(output, population=5000)
    arguments = ["estimate", output, "--population", 5000, "-t", "city,smokes", "--confidence", 0.9]
    content = json.loads(run(*arguments, "--json").stdout)
    city = content["columns"]["city"]
    assert city["estimate"] == survey.estimates["city"].proportions.tolist()
    assert (
        np.transpose([city["low"], city["high"]]).tolist()
        == survey.estimates["city"].interval(0.9).tolist()
    )
    assert (content["n"], city["population"], content["tables"][0]["axes"]) == (
        3000,
        5000,
        ["city", "smokes"],
    )
    rows = list(csv.DictReader(run(*arguments, "--csv").stdout.splitlines()))
    assert [float(row["estimate"]) for row in rows[:3]] == city["estimate"]
    assert [row["label"] for row in rows[-2:]] == ["Rome × 0", "Rome × 1"]
    assert float(rows[-1]["stderr"]) == content["tables"][0]["stderr"][2][1]
    text = run(*arguments).stdout
    assert f"{100 * city['estimate'][0]:.2f} %  " in text


def test_numbers_and_open_texts_have_their_own_estimators(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    ages, apps = (
        rng.normal(40, 10, 4000).clip(0, 100),
        rng.choice(["maps", "mail"], 4000, p=[0.7, 0.3]),
    )
    answers = tmp_path / "answers.csv"
    answers.write_text(
        "age,app\n" + "".join(f"{age:.1f},{app}\n" for age, app in zip(ages, apps, strict=True))
    )
    output = tmp_path / "reports.csv"
    columns = [
        "-c",
        "age=SquareWave:epsilon=3,bins=20,low=0,high=100",
        "-c",
        "app=Rappor:bits=64,hashes=2,cohorts=8,f=0.25,p=0.35,q=0.65",
    ]
    assert run("randomize", answers, *columns, "-o", output).exit_code == 0
    arguments = [
        "estimate",
        output,
        "--estimator",
        "age=ems",
        "--candidates",
        "app=maps|mail|games",
        "--json",
    ]
    content = json.loads(run(*arguments).stdout)["columns"]
    assert content["app"]["labels"] == ["maps", "mail", "games"]
    assert abs(content["app"]["estimate"][0] - 0.7) < 5 * content["app"]["stderr"][0]
    mean = np.dot(content["age"]["labels"], content["age"]["estimate"])
    assert abs(mean - ages.mean()) < 3
    for bad, reason in [
        (["--candidates", "app=maps", "--estimator", "age=magic"], "estimator = 'magic'"),
        (["--candidates", "app=maps", "--estimator", "app=ems"], "Rappor has no option"),
        ([], "candidates"),
        (["--estimator", "ems"], "NAME=VALUE"),
        (["--estimator", "name=ems"], "'name'"),
    ]:
        result = run("estimate", output, *bad)
        assert result.exit_code == 2, reason
        assert reason in result.stderr
        assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_plot_is_a_picture_and_the_installed_command_runs(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "answers.csv", 500)
    command = [sys.executable, "-c", "from deniable.cli import main; main()"]
    output = tmp_path / "reports.csv"
    done = subprocess.run(  # noqa: S603
        [*command, "randomize", answers, *OPTIONS, "-o", output],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Wrote 500 randomized rows" in done.stdout
    assert "  city: direct encoding of 3 labels, epsilon 2\n" in done.stdout
    assert "  smokes: binary response (p = 0.5, q = 0.5), epsilon 1.099\n" in done.stdout
    plot = tmp_path / "plot.png"
    subprocess.run(  # noqa: S603
        [*command, "estimate", output, "-t", "city,smokes", "--plot", plot],
        capture_output=True,
        check=True,
    )
    assert plot.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert plot.stat().st_size > 20_000


@pytest.mark.parametrize("name", ["missing/out.png", "out.nothing"])
def test_a_plot_that_cannot_be_drawn_is_one_clear_line(tmp_path: Path, name: str) -> None:
    answers = write_answers(tmp_path / "answers.csv", 30)
    result = run("estimate", answers, *OPTIONS, "--plot", tmp_path / name)
    assert result.exit_code == 2
    assert name in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not (tmp_path / name).exists()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--confidence", "2"], "confidence = 2.0 must lie"),
        (["-t", "city,city"], "the table of city, city names a column twice"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused_in_every_form_of_output(
    tmp_path: Path, options: list[str], reason: str
) -> None:
    answers = write_answers(tmp_path / "answers.csv", 30)
    for form in ([], ["--json"], ["--csv"]):
        result = run("estimate", answers, *OPTIONS, *options, *form)
        assert result.exit_code == 2
        assert reason in result.output


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_missing_cell_is_called_missing(tmp_path: Path, suffix: str) -> None:
    answers = tmp_path / f"answers.{suffix}"
    if suffix == "csv":
        answers.write_text("city,n\nOslo,1\n,2\n")
    else:
        pq.write_table(pa.table({"city": ["Oslo", None]}), answers)
    with pytest.raises(SurveyError, match="row 2, column 'city': the value is missing"):
        estimate_file(answers, {"city": CITY})


def test_odd_but_legal_files_are_read(tmp_path: Path) -> None:
    answers = tmp_path / "answers.csv"
    answers.write_bytes('\ufeffstädt,"a,b"\r\n"Oslo, Norway",TRUE\r\nRome,0\r\n'.encode())
    place = deniable.DirectEncoding(["Oslo, Norway", "Rome"], 2.0)
    survey = estimate_file(answers, {"städt": place, "a,b": SMOKES})
    assert (
        survey.estimates["städt"].proportions.tolist()
        == place.estimate(["Oslo, Norway", "Rome"]).proportions.tolist()
    )
    assert (
        survey.estimates["a,b"].proportions.tolist() == SMOKES.estimate([1, 0]).proportions.tolist()
    )


def test_labels_that_a_file_cannot_hold_are_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    answers = tmp_path / "answers.csv"
    answers.write_text("day\n2026-01-01\n")
    day = deniable.DirectEncoding([datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)], 1.0)
    with pytest.raises(SurveyError, match="column 'day': labels must be"):
        randomize_file(answers, tmp_path / "reports.csv", {"day": day})
    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]


def test_what_is_kept_is_said_not_to_be_protected(tmp_path: Path) -> None:
    answers = write_answers(tmp_path / "answers.csv", 100)
    kept = run(
        "randomize",
        answers,
        "-o",
        tmp_path / "kept.csv",
        *OPTIONS,
        "--keep",
        "size",
        "--keep",
        "name",
    )
    assert kept.exit_code == 0
    assert "NOT PROTECTED: size, name are copied unchanged." in kept.stdout
    assert "row as a whole" not in kept.stdout
    assert "together: epsilon 3.099, about those columns only." in kept.stdout
    left_out = run("randomize", answers, "-o", tmp_path / "left.csv", *OPTIONS, "--again")
    assert "NOT PROTECTED" not in left_out.stdout
    assert "A person's row as a whole: epsilon 3.099." in left_out.stdout


def test_whole_numbers_in_a_wave_of_an_interval_are_warned_of_in_one_line(tmp_path: Path) -> None:
    ages = tmp_path / "ages.csv"
    ages.write_text("age\n" + "20\n34\n51\n" * 40)
    column = "age=SquareWave:epsilon=2,bins=78,low=18,high=96"
    warned = run("randomize", ages, "-o", tmp_path / "one.csv", "-c", column)
    assert warned.exit_code == 0
    assert warned.stderr.startswith("deniable: warning: all values are whole numbers")
    assert warned.stderr.count("\n") == 1
    (tmp_path / "ages.csv.randomized.toml").unlink()  # which would refuse a second randomization
    quiet = run(
        "randomize",
        ages,
        "-o",
        tmp_path / "two.csv",
        "-c",
        "age=SquareWave:epsilon=2,bins=78,low=18,high=95,integers=true",
    )
    assert quiet.stderr == ""
    assert estimate_file(tmp_path / "two.csv").estimates["age"].labels[0] == 18.0


def test_a_file_that_was_never_randomized_is_said_not_to_fit(tmp_path: Path) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_text("smokes\n" + "0\n" * 95 * 5 + "1\n" * 5 * 5)
    found = run("estimate", plain, "-c", "smokes=BinaryResponse:p=0.5,q=0.5")
    assert "THESE REPORTS DO NOT FIT THE MECHANISM" in found.stdout
    assert (
        "Were they randomized"
        in json.loads(
            run("estimate", plain, "-c", "smokes=BinaryResponse:p=0.5,q=0.5", "--json").stdout
        )["columns"]["smokes"]["notes"][0]
    )


def test_designs_stand_in_files_with_their_own_report_labels(tmp_path: Path) -> None:
    answers = tmp_path / "answers.csv"
    answers.write_text("used\n" + "yes\n" * 300 + "no\n" * 700)
    done = run("randomize", answers, "-o", tmp_path / "reports.csv", "-c", "used=Crosswise:p=1/6")
    assert done.exit_code == 0, done.output
    assert set((tmp_path / "reports.csv").read_text().split()[1:]) == {"same,1", "different,1"}
    found = estimate_file(tmp_path / "reports.csv").estimates["used"]
    assert found.labels == ("no", "yes")
    assert abs(found.proportions[1] - 0.3) < 5 * found.stderr[1]
