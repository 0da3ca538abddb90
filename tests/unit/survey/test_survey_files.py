"""Survey files as people have them: delimiters, encodings, compression, Excel, missing values,
spellings, several at once."""

from __future__ import annotations

import datetime
import gzip
import random
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import deniable
from deniable.cli import cli
from deniable.errors import MissingExtraError, ParameterError, SurveyError, SurveyWarning
from deniable.survey import estimate_file, parse_column, randomize_file, read_columns, reading
from deniable.survey.record import MARK, record_file
from deniable.survey.spelling import spell
from deniable.survey.template import propose_columns
from deniable.table_file import TableFormat

# With epsilon 40, a report is the answer itself but for a chance below 1e-17: what was read can be
# seen in what is written.
CERTAIN = 40.0
CITY = deniable.DirectEncoding(["Malmö", "Oslo", "missing"], CERTAIN)
SMOKES = deniable.DirectEncoding(["no", "yes"], CERTAIN)
BOTH: dict[str, deniable.Mechanism] = {"city": CITY, "smokes": SMOKES}
ROWS = [("Malmö", "yes"), ("Oslo", "no"), ("Oslo", "yes")]
WRITTEN = "city,smokes\nMalmö,yes\nOslo,no\nOslo,yes\n"
OPTIONS = [
    "-c",
    "city=DirectEncoding:values=Malmö|Oslo|missing,epsilon=40",
    "-c",
    "smokes=DirectEncoding:values=no|yes,epsilon=40",
]


def text(delimiter: str) -> str:
    rows = [("id", "city", "smokes"), *((str(number), *row) for number, row in enumerate(ROWS))]
    return "".join(delimiter.join(row) + "\n" for row in rows)


def excel(path: Path, *rows: tuple[Any, ...]) -> Path:
    book = openpyxl.Workbook()
    book.active.title = "notes"
    sheet = book.create_sheet("answers")
    for row in rows:
        sheet.append(row)
    # a cell that is only there, as formatting leaves them
    sheet.cell(len(rows) + 40, 1).value = None
    book.save(path)
    return path


def run(*arguments: object, given: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], input=given)


def unmarked(written: str) -> str:
    """A randomized file without its last column, which marks it as one."""
    lines = [line.rpartition(",") for line in written.splitlines()]
    assert [mark for _, _, mark in lines] == [MARK] + ["1"] * (len(lines) - 1)
    return "".join(f"{line}\n" for line, _, _ in lines)


def randomized(
    tmp_path: Path, answers: Any, mechanisms: dict[str, deniable.Mechanism] = BOTH, **options: Any
) -> str:
    output = tmp_path / "out" / "reports.csv"
    output.parent.mkdir(exist_ok=True)
    randomize_file(answers, output, mechanisms, overwrite=True, keep_order=True, **options)
    return unmarked(output.read_text(encoding="utf-8"))


FILES: dict[str, tuple[str, bytes, TableFormat]] = {
    "commas": ("a.csv", text(",").encode(), TableFormat()),
    "semicolons, sniffed": ("a.csv", text(";").encode(), TableFormat()),
    "bars, sniffed": ("a.txt", text("|").encode(), TableFormat()),
    "tabs, sniffed": ("a.csv", text("\t").encode(), TableFormat()),
    "tabs, by name": ("a.tsv", text("\t").encode(), TableFormat()),
    "a colon, given": ("a.csv", text(":").encode(), TableFormat(delimiter=":")),
    "tabs, given": ("a.csv", text("\t").encode(), TableFormat(delimiter="tab")),
    "gzip": ("a.csv.gz", gzip.compress(text(";").encode()), TableFormat()),
    "gzip without the name": ("a.csv", gzip.compress(text(",").encode()), TableFormat()),
    "latin-1": ("a.csv", text(";").encode("latin-1"), TableFormat(encoding="latin-1")),
    "a byte order mark": ("a.csv", b"\xef\xbb\xbf" + text(",").encode(), TableFormat()),
    "a byte order mark, UTF-8 given": (
        "a.csv",
        b"\xef\xbb\xbf" + text(",").encode(),
        TableFormat(encoding="utf-8"),
    ),
    "Excel's Unicode text": (
        "a.txt",
        text("\t").replace("\n", "\r\n").encode("utf-16"),
        TableFormat(),
    ),
}


@pytest.mark.parametrize("case", FILES)
def test_a_text_file_is_read_as_it_is(tmp_path: Path, case: str) -> None:
    name, content, layout = FILES[case]
    (tmp_path / name).write_bytes(content)
    assert randomized(tmp_path, tmp_path / name, layout=layout) == WRITTEN
    # The first column is the one that a byte order mark would spoil.
    assert list(next(reading.read_chunks(tmp_path / name, None, None, layout)).columns) == [
        "id",
        "city",
        "smokes",
    ]


def test_the_delimiter_is_the_one_whose_header_names_the_columns(tmp_path: Path) -> None:
    question = "Do you smoke, if so, what?"
    answers = tmp_path / "a.csv"
    answers.write_text(f"{question};age, in years\nyes;3,5\nno;4,5\n")
    assert randomized(tmp_path, answers, {question: SMOKES}) == f'"{question}"\nyes\nno\n'


def test_text_in_another_encoding_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(text(",").encode("latin-1"))
    result = run("randomize", tmp_path / "a.csv", *OPTIONS, "-o", tmp_path / "o.csv")
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "not UTF-8 text; if it has another encoding, such as latin-1" in result.stderr
    assert "Malm" not in result.stderr
    latin = ("--encoding", "latin-1", "--keep-order")
    assert (
        run("randomize", tmp_path / "a.csv", *OPTIONS, "-o", tmp_path / "o.csv", *latin).exit_code
        == 0
    )
    assert unmarked((tmp_path / "o.csv").read_text(encoding="utf-8")) == WRITTEN


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"delimiter": ";;"}, "one character"),
        ({"encoding": "zip"}, "text encoding"),
        ({"encoding": "x"}, "text"),
    ],
)
def test_a_format_that_cannot_be_is_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        TableFormat(**options)


def test_damaged_gzip_is_one_clear_line_and_writes_nothing(tmp_path: Path) -> None:
    content = gzip.compress(text(",").encode() * 2000)
    answers = tmp_path / "a.csv.gz"
    for damaged in (
        content[:-9],
        content[:30],
        b"\x1f\x8b",
        content[:15] + b"\xff" * 20 + content[35:],
    ):
        answers.write_bytes(damaged)
        result = run("randomize", answers, *OPTIONS, "-o", tmp_path / "o.csv")
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), damaged[:10]
        assert [path.name for path in tmp_path.iterdir()] == ["a.csv.gz"]


@pytest.mark.slow
def test_gzip_is_read_in_constant_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "CHUNK_ROWS", 3000)
    peaks = []
    for n in (12_000, 60_000):
        answers = tmp_path / f"{n}.csv.gz"
        answers.write_bytes(gzip.compress(("smokes\n" + "yes\nno\n" * (n // 2)).encode()))
        tracemalloc.start()
        assert randomize_file(answers, tmp_path / f"out-{n}.tsv.gz", {"smokes": SMOKES}) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
    assert estimate_file(tmp_path / "out-60000.tsv.gz").n == 60_000


def test_an_excel_sheet_is_read_with_its_numbers_truths_and_dates(tmp_path: Path) -> None:
    days = deniable.DirectEncoding(["2026-03-01", "2026-03-02"], CERTAIN)
    grades = deniable.DirectEncoding([1, 2, 3], CERTAIN)
    path = excel(
        tmp_path / "a.xlsx",
        ("day", "grade", "smokes", None),
        (datetime.datetime(2026, 3, 1), 2.0, True),
        (datetime.datetime(2026, 3, 2), 3, False),
        ("2026-03-02", "1", "Yes"),
    )
    mechanisms: dict[str, deniable.Mechanism] = {"day": days, "grade": grades, "smokes": SMOKES}
    written = randomized(tmp_path, path, mechanisms, layout=TableFormat(sheet="answers"))
    assert written == "day,grade,smokes\n2026-03-01,2,yes\n2026-03-02,3,no\n2026-03-02,1,yes\n"
    kept = randomized(
        tmp_path,
        excel(tmp_path / "b.xlsx", ("smokes", "day"), ("no", datetime.datetime(2026, 3, 1))),
        {"smokes": SMOKES},
        keep=["day"],
        layout=TableFormat(sheet="answers"),
    )
    assert kept == "smokes,day\nno,2026-03-01\n"
    record_file(path).unlink()
    with pytest.raises(SurveyError, match="has no sheet 'x'; it has 'notes', 'answers'"):
        randomized(tmp_path, path, mechanisms, layout=TableFormat(sheet="x"))
    with pytest.raises(SurveyError, match="is empty: its first row"):
        randomized(tmp_path, path, mechanisms)


def test_a_damaged_excel_file_is_one_clear_line(tmp_path: Path) -> None:
    """Cut off, emptied, and 60 times with eight bytes changed: seed 5. A file that still reads must
    give the same cells."""
    path = excel(tmp_path / "a.xlsx", ("smokes",), *[("yes",)] * 50)
    content, draw = path.read_bytes(), random.Random(5)  # noqa: S311 - where damage is, not a secret
    damaged = [b"", b"PK", content[:-30], content[: len(content) // 2]]
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(8):
            changed[draw.randrange(len(changed))] ^= 255
        damaged.append(bytes(changed))
    refused: list[str] = []
    for part in damaged:
        path.write_bytes(part)
        try:
            for chunk in reading.read_chunks(path, ["smokes"], None, TableFormat(sheet="answers")):
                assert chunk.columns["smokes"] == ["yes"] * 50
        except SurveyError as error:
            refused.append(str(error))
    assert len(refused) > 20
    assert not any("yes" in line for line in refused)


def test_excel_without_its_extra_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = excel(tmp_path / "a.xlsx", ("smokes",), ("yes",))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtraError, match=r"deniable\[excel\]"):
        randomized(tmp_path, path, {"smokes": SMOKES})


def test_an_excel_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smokes\nyes\n")
    with pytest.raises(SurveyError, match="only read"):
        randomize_file(tmp_path / "a.csv", tmp_path / "o.xlsx", {"smokes": SMOKES})
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize(
    ("labels", "cells", "meant"),
    [
        (
            ["no", "yes"],
            ["yes", "YES", " Yes ", "y", "true", True, "1", 1, "1.0", 1.0],
            ["yes"] * 10,
        ),
        ([0, 1], ["no", "N", "false", "FALSE", "0.0", False, 0.0, "yes"], [0] * 7 + [1]),
        (["true", "false"], ["1.00", "no"], ["true", "false"]),
        (["no", "yes", "don't know"], ["1", "don't know", "FALSE"], ["yes", "don't know", "no"]),
        ([1, 2, 3], ["1.0", 2.0, "3"], [1, 2, 3]),
        (["1", "1.0", "2"], ["1", "1.0", "2.0"], ["1", "1.0", "2"]),
        ([2.5, 3.0], ["2.5", "3"], [2.5, 3.0]),
        (["007", "7"], ["007", "7.0"], ["007", "7"]),
        (["NA", "DE"], ["NA", "DE"], ["NA", "DE"]),
    ],
)
def test_spellings_of_the_same_answer_are_alike(
    labels: list[Any], cells: list[Any], meant: list[Any]
) -> None:
    assert spell(labels, cells) == meant


@pytest.mark.parametrize(
    ("labels", "cell"),
    [
        (["no", "yes"], "ja"),
        (["a", "b"], "1"),
        ([7, 8], "007"),
        (["yes", "true"], "1"),
        (["1.0", "1.00"], "1"),
    ],
)
def test_what_spells_no_label_or_two_is_refused(labels: list[Any], cell: str) -> None:
    with pytest.raises(deniable.errors.UnknownLabelError):
        spell(labels, [labels[0], cell])


MISSING = "city,smokes\nOslo,yes\n,no\nMalmö,NA\nOslo,no\n"


def test_missing_values_are_refused_dropped_or_a_label(tmp_path: Path) -> None:
    answers = tmp_path / "a.csv"
    answers.write_text(MISSING, encoding="utf-8")
    with pytest.raises(SurveyError, match="row 2, column 'city': the value is missing"):
        randomized(tmp_path, answers)
    with pytest.warns(
        SurveyWarning, match="2 of 4 rows .* were dropped: .* it is not hidden who did not answer"
    ):
        assert randomized(tmp_path, answers, missing="drop") == "city,smokes\nOslo,yes\nOslo,no\n"
    record_file(answers).unlink()
    with pytest.raises(
        SurveyError, match=r"column 'smokes': .*'missing' must be one of its labels"
    ):
        randomized(tmp_path, answers, missing="label")
    assert (
        randomized(tmp_path, answers, {"city": CITY}, missing="label")
        == "city\nOslo\nmissing\nMalmö\nOslo\n"
    )
    with pytest.raises(ParameterError, match="missing = 'keep'"):
        randomized(tmp_path, answers, missing="keep")


def test_after_dropped_rows_an_error_names_the_row_of_the_file(tmp_path: Path) -> None:
    answers = tmp_path / "a.csv"
    answers.write_text(MISSING + "Rome,no\n", encoding="utf-8")
    with pytest.raises(SurveyError, match="row 5, column 'city'"):
        randomized(tmp_path, answers, missing="drop")


def test_missing_reports_are_dropped_from_an_estimate(tmp_path: Path) -> None:
    reports = tmp_path / "r.parquet"
    pq.write_table(pa.table({"smokes": ["yes", None, "no", "no"]}), reports)
    with pytest.warns(SurveyWarning, match="1 of 4 rows"):
        survey = estimate_file(reports, {"smokes": SMOKES}, missing="drop")
    assert survey.n == 3
    assert (
        survey.estimates["smokes"].proportions.tolist()
        == SMOKES.estimate(["yes", "no", "no"]).proportions.tolist()
    )
    pq.write_table(pa.table({"smokes": pa.array([None, None], pa.string())}), reports)
    with pytest.raises(SurveyError, match="every row has a missing value"):
        estimate_file(reports, {"smokes": SMOKES}, missing="drop")


def test_several_files_are_taken_together(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id;smokes\n1;yes\n2;no\n")
    pq.write_table(pa.table({"smokes": [True, False]}), tmp_path / "b.parquet")
    files = [tmp_path / "a.csv", tmp_path / "b.parquet"]
    assert randomized(tmp_path, files, {"smokes": SMOKES}) == "smokes\nyes\nno\nyes\nno\n"
    assert all(record_file(file).exists() for file in files)
    for name in ("one.csv", "two.csv"):
        (tmp_path / name).write_text("smokes\nyes\n")
        (tmp_path / f"{name}.toml").write_text(deniable.survey.write_columns({"smokes": SMOKES}))
    assert estimate_file([tmp_path / "one.csv", tmp_path / "two.csv"]).n == 2
    with pytest.raises(SurveyError, match=r"one\.csv is given twice"):
        estimate_file([tmp_path / "one.csv", tmp_path / "." / "one.csv"])
    (tmp_path / "two.csv.toml").write_text(
        deniable.survey.write_columns({"smokes": deniable.DirectEncoding(["no", "yes"], 1.0)})
    )
    with pytest.raises(SurveyError, match=r"two\.csv was randomized differently from .*one\.csv"):
        estimate_file([tmp_path / "one.csv", tmp_path / "two.csv"])


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_standard_input_goes_to_standard_output(
    tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(
        "randomize", "-", *OPTIONS, "--keep-order", "-o", "-", given=pack(text(";").encode())
    )
    assert (done.exit_code, unmarked(done.stdout)) == (0, WRITTEN)
    assert "Wrote 3 randomized rows to standard output" in done.stderr
    estimated = run("estimate", "-", *OPTIONS, "--csv", given=done.stdout_bytes)
    assert estimated.exit_code == 0
    assert float(estimated.stdout.splitlines()[1].split(",")[2]) == pytest.approx(1 / 3)
    bad = run("randomize", "-", *OPTIONS, "-o", "-", given=text(";").encode() + b"4;Rome;no\n")
    assert (bad.exit_code, bad.stdout) == (2, "")
    assert "row 4, column 'city'" in bad.stderr
    assert "say how its columns were randomized" in run("estimate", "-", given=b"a\n1\n").stderr
    assert list(Path().iterdir()) == []


def test_a_second_randomization_warns_that_the_losses_add_up(tmp_path: Path) -> None:
    answers = tmp_path / "a.csv"
    answers.write_text("city,smokes\nOslo,yes\n")
    mild = ["-c", "smokes=DirectEncoding:values=no|yes,epsilon=1.5"]
    first = run("randomize", answers, *mild, "-o", tmp_path / "one.csv")
    assert (first.exit_code, first.stderr) == (0, "")
    other = run(
        "randomize",
        answers,
        "-c",
        "city=DirectEncoding:values=Oslo|Rome,epsilon=1",
        "-o",
        tmp_path / "city.csv",
    )
    assert (other.exit_code, other.stderr) == (0, "")
    assert run("randomize", answers, *mild, "-o", tmp_path / "two.csv").exit_code == 2
    second = run("randomize", answers, *mild, "-o", tmp_path / "two.csv", "--again")
    assert second.exit_code == 0
    assert "was randomized before, into one.csv. The losses add up" in second.stderr
    assert "epsilon is smokes 3 (not 1.5)" in second.stderr
    assert second.stderr.count("\n") == 1
    third = run("randomize", answers, *mild, "-o", tmp_path / "two.csv", "--force", "--again")
    assert "into one.csv, two.csv." in third.stderr
    assert "smokes 4.5 (not 1.5)" in third.stderr
    assert "yes" not in record_file(answers).read_text()


def test_a_randomization_that_failed_is_not_on_record_and_a_broken_record_is_refused(
    tmp_path: Path,
) -> None:
    answers = tmp_path / "a.csv"
    answers.write_text("smokes\nyes\nmaybe\n")
    assert run("randomize", answers, *OPTIONS[2:], "-o", tmp_path / "o.csv").exit_code == 2
    assert not record_file(answers).exists()
    for content, reason in (
        ("x", "line 1: the record of earlier"),
        ("[[randomized]]\n", "must hold"),
        ("randomized = 1\n", "must"),
    ):
        record_file(answers).write_text(content)
        result = run("randomize", answers, *OPTIONS[2:], "-o", tmp_path / "o.csv")
        assert (result.exit_code, result.stderr.count("\n"), reason in result.stderr) == (
            2,
            1,
            True,
        ), result.stderr


def test_a_repeated_column_and_a_comma_in_a_label_get_a_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("smokes\nyes\n")
    result = run("randomize", tmp_path / "a.csv", *OPTIONS, *OPTIONS[2:], "-o", tmp_path / "o.csv")
    assert (result.exit_code, result.stderr) == (
        2,
        "deniable: column 'smokes' is given twice: a column has one mechanism\n",
    )
    with pytest.raises(
        SurveyError,
        match=r"'Norway\|Rome' is not part of a label: put labels with commas into a TOML file",
    ):
        parse_column("city=DirectEncoding:values=Oslo, Norway|Rome,epsilon=1")


def test_dates_of_a_toml_file_are_the_texts_of_the_answers(tmp_path: Path) -> None:
    (tmp_path / "m.toml").write_text(
        "[columns.day]\nmechanism = 'DirectEncoding'\nk = [2026-01-01, 2026-01-02]\nepsilon ="
        f" {CERTAIN}\n"
    )
    mechanisms = read_columns(tmp_path / "m.toml")
    (tmp_path / "a.csv").write_text("day\n2026-01-02\n")
    assert randomized(tmp_path, tmp_path / "a.csv", mechanisms) == "day\n2026-01-02\n"
    pq.write_table(pa.table({"day": [datetime.date(2026, 1, 1)]}), tmp_path / "a.parquet")
    assert randomized(tmp_path, tmp_path / "a.parquet", mechanisms) == "day\n2026-01-01\n"


PILOT = "name,city,smokes,age,note\n" + "".join(
    "person"
    f" {i},{'Oslo' if i % 3 else 'Rome' if i else 'Ys'},{('yes', 'No', '1.0')[i % 3]},{18 + i},{'' if i % 2 else 'a'}\n"
    for i in range(60)
)


def test_a_template_proposes_what_randomize_takes(tmp_path: Path) -> None:
    (tmp_path / "pilot.csv").write_text(PILOT)
    output = tmp_path / "m.toml"
    assert (
        run("survey", "template", tmp_path / "pilot.csv", "--epsilon", 3, "-o", output).exit_code
        == 0
    )
    proposed = read_columns(output)
    assert {name: mechanism.epsilon for name, mechanism in proposed.items()} == {
        "city": 1.0,
        "smokes": 1.0,
        "age": 1.0,
    }
    assert proposed["city"].labels == ("Oslo", "Rome")
    assert proposed["smokes"].labels == ("no", "yes")
    # Whole numbers from 10 to 80, in bins of two: the last one is filled up.
    assert (proposed["age"].low, proposed["age"].high) == (10.0, 81.0)  # type: ignore[attr-defined]
    content = output.read_text()
    assert "Ys" not in content, "a label that one person gave points at that person"
    assert "person" not in content.replace("people", "")
    assert '# "name" is left out' in content
    assert (
        run("survey", "template", tmp_path / "pilot.csv", "--epsilon", 3, "-o", output).exit_code
        == 2
    )
    assert output.read_text() == content
    (tmp_path / "answers.csv").write_text(PILOT.replace("Ys", "Oslo"))
    assert (
        run("randomize", tmp_path / "answers.csv", "-m", output, "-o", tmp_path / "r.csv").exit_code
        == 0
    )


def test_a_dictionary_gives_labels_that_a_pilot_does_not_show(tmp_path: Path) -> None:
    dictionary = excel(
        tmp_path / "codes.xlsx",
        ("Variable", "Code", "Label"),
        ("q1", 1, "never"),
        ("q1", 2, "often"),
        ("q1", 9, "always"),
    )
    book = openpyxl.load_workbook(dictionary)
    del book["notes"]
    book.save(dictionary)
    (tmp_path / "pilot.csv").write_text("q1,other\n1,x\n2,x\n,y\n")
    shown = run("survey", "template", tmp_path / "pilot.csv", "-d", dictionary, "--epsilon", 2)
    assert shown.exit_code == 0
    assert "# Labels from the dictionary: 1 = never; 2 = often; 9 = always." in shown.stdout
    (tmp_path / "m.toml").write_text(shown.stdout)
    assert read_columns(tmp_path / "m.toml") == {
        "q1": deniable.DirectEncoding(["1", "2", "9", "missing"], 2.0)
    }
    alone = propose_columns(2.0, dictionary=dictionary)
    assert 'values = ["1", "2", "9"]' in alone


@pytest.mark.parametrize(
    ("pilot", "dictionary", "options", "reason"),
    [
        (None, None, [], "needs a pilot file, a dictionary or both"),
        ("a\nx\n", None, [], "no column has numbers, or labels that at least 3 people gave"),
        ("a\nx\n", "column,value\nb,1\nb,2\n", [], "has no column 'b'"),
        (
            None,
            "kolumn,value\nb,1\n",
            [],
            "names the column in one of its columns column, variable",
        ),
        (None, "column,x\nb,1\n", [], "has the label in one of its columns value, code"),
        (None, "column,value\nb,1\nb,1.0\n", [], "row 2: the label is given twice for column 'b'"),
        (None, "column,value\nb,\n", [], "row 1: the column or the label is missing"),
        ("a\nx\n", None, ["--at-least", "0"], "at_least = 0"),
        ("a\nx\n", None, ["--epsilon", "0"], "epsilon = 0.0"),
    ],
)
def test_a_template_that_cannot_be_made_gets_one_line(
    tmp_path: Path, pilot: str | None, dictionary: str | None, options: list[str], reason: str
) -> None:
    arguments: list[object] = ["survey", "template", "--epsilon", 1, *options]
    if pilot:
        (tmp_path / "pilot.csv").write_text(pilot)
        arguments.append(tmp_path / "pilot.csv")
    if dictionary:
        (tmp_path / "codes.csv").write_text(dictionary)
        arguments += ["-d", tmp_path / "codes.csv"]
    result = run(*arguments)
    assert (result.exit_code, result.stderr.count("\n"), result.stdout) == (2, 1, ""), result.output
    assert reason in result.stderr


def test_a_pilot_shows_whole_numbers_and_several_labels_in_a_cell(tmp_path: Path) -> None:
    rng = random.Random(1)  # noqa: S311 - answers, not coins
    rows = [
        f"{rng.randint(18, 95)},{';'.join(rng.sample(['web', 'radio', 'paper'], rng.randint(0, 2)))}"
        for _ in range(400)
    ]
    (tmp_path / "pilot.csv").write_text("age,news\n" + "\n".join(rows) + "\n")
    (tmp_path / "m.toml").write_text(propose_columns(2.0, pilot=tmp_path / "pilot.csv"))
    proposed = read_columns(tmp_path / "m.toml")
    assert proposed["news"] == deniable.MultipleChoice(["paper", "radio", "web"], 1.0)
    ages = proposed["age"]
    assert isinstance(ages, deniable.SquareWave)
    assert ages.integers
    # 10 to 100 as bins of two, the last one filled up
    assert (ages.low, ages.high, ages.bins) == (10, 101, 46)
    assert randomize_file(tmp_path / "pilot.csv", tmp_path / "r.csv", proposed) == 400
