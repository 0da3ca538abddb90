"""Nothing is randomized twice by mistake: neither reports, whose estimates would be wrong, nor
answers, whose losses add up."""

from __future__ import annotations

import csv
import gzip
import shutil
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from click.testing import CliRunner, Result

from deniable import DirectEncoding, seeded_source
from deniable.cli import cli
from deniable.errors import SurveyError, SurveyWarning
from deniable.survey import estimate_file, randomize_file
from deniable.survey.record import MARK

YES_NO = DirectEncoding(["no", "yes"], 2.0)
OPTION = ["-c", "smokes=DirectEncoding:values=no|yes,epsilon=2"]


def run(*arguments: Any, given: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=given)


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    answers = tmp_path / "answers.csv"
    answers.write_text("smokes,age\n" + "no,30\n" * 400)
    randomize_file(
        answers, tmp_path / "reports.csv", {"smokes": YES_NO}, keep=["age"], source=seeded_source(1)
    )
    return tmp_path / "reports.csv"


def moved(file: Path, kind: str) -> Path:
    """The file as people pass it on: none of these brings the description along."""
    away = file.parent / "away"
    away.mkdir()
    rows = list(csv.reader(file.read_text().splitlines()))
    if kind == "copied":
        return Path(shutil.copy(file, away / "answers.csv"))
    if kind == "gzip":
        (away / "a.csv.gz").write_bytes(gzip.compress(file.read_bytes()))
        return away / "a.csv.gz"
    if kind == "excel":
        book = openpyxl.Workbook()
        for row in rows:
            assert book.active is not None
            book.active.append(row)
        book.save(away / "a.xlsx")
        return away / "a.xlsx"
    if kind == "parquet":
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        pq.write_table(
            pa.table({name: list(cells) for name, *cells in zip(*rows, strict=True)}),
            away / "a.parquet",
        )
        return away / "a.parquet"
    # a part of the rows, sorted, other columns first, and a column with another name
    header, *rest = rows
    with (away / "part.csv").open("w", newline="") as out:
        csv.writer(out).writerows(
            [[row[2], row[0], row[1]] for row in [header, *sorted(rest)[:50]]]
        )
    return away / "part.csv"


@pytest.mark.parametrize("kind", ["copied", "gzip", "excel", "parquet", "part"])
def test_a_randomized_file_is_recognized_wherever_it_went(
    reports: Path, kind: str, tmp_path: Path
) -> None:
    file = moved(reports, kind)
    ran = run("randomize", file, *OPTION, "-o", tmp_path / "twice.csv")
    assert ran.exit_code == 2
    assert f"is already randomized (it has the column {MARK!r})" in ran.stderr
    assert "--again" in ran.stderr
    assert not (tmp_path / "twice.csv").exists()
    assert run("randomize", file, *OPTION, "-o", tmp_path / "twice.csv", "--again").exit_code == 0


def test_a_randomized_file_is_recognized_in_a_pipe(reports: Path) -> None:
    ran = run("randomize", "-", *OPTION, "-o", "-", given=reports.read_bytes())
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "is already randomized" in ran.stderr
    first = run("randomize", "-", *OPTION, "-o", "-", given=b"smokes\nno\nyes\n")
    assert first.stdout.splitlines()[0] == f"smokes,{MARK}"
    assert run("randomize", "-", *OPTION, "-o", "-", given=first.stdout_bytes).exit_code == 2


def test_a_file_from_elsewhere_is_recognized_by_its_description(tmp_path: Path) -> None:
    reports = tmp_path / "paper.csv"
    reports.write_text("smokes,age\nno,30\nyes,31\n")
    (tmp_path / "paper.csv.toml").write_text('[columns.smokes]\nmechanism = "Warner"\np = 0.8\n')
    ran = run("randomize", reports, *OPTION, "-o", tmp_path / "twice.csv")
    assert ran.exit_code == 2
    assert (
        "paper.csv.toml says that smokes is already randomized, so estimates would be wrong"
        in ran.stderr
    )
    ages = ["-c", "age=SquareWave:epsilon=2,bins=4,low=18,high=97,integers=1"]
    assert run("randomize", reports, *ages, "-o", tmp_path / "ages.csv").exit_code == 0


def test_the_same_answers_are_randomized_again_only_if_asked_and_with_the_sum_of_the_losses(
    tmp_path: Path,
) -> None:
    answers = tmp_path / "a.csv"
    answers.write_text("smokes\nno\n")
    randomize_file(answers, tmp_path / "one.csv", {"smokes": YES_NO})
    with pytest.raises(
        SurveyError, match=r"was randomized before, into one\.csv\. The losses add up.*--again"
    ):
        randomize_file(answers, tmp_path / "two.csv", {"smokes": YES_NO})
    assert not (tmp_path / "two.csv").exists()
    with pytest.warns(SurveyWarning, match=r"epsilon is smokes 4 \(not 2\)"):
        randomize_file(answers, tmp_path / "two.csv", {"smokes": YES_NO}, again=True)


def test_the_mark_is_no_answer_and_estimates_do_not_see_it(reports: Path) -> None:
    rows = list(csv.DictReader(reports.read_text().splitlines()))
    assert {row[MARK] for row in rows} == {"1"}
    assert list(rows[0]) == ["smokes", "age", MARK]
    assert list(estimate_file(reports).estimates) == ["smokes"]
