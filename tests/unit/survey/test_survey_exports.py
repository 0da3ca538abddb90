"""Files as survey tools export them: Qualtrics' header rows, LimeSurvey's and REDCap's column per
option; errors name labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest

from deniable import DirectEncoding, MultipleChoice
from deniable.errors import SurveyError, SurveyWarning, UnknownLabelError
from deniable.survey import estimate_file, randomize_file
from deniable.survey.reading import read_chunks
from deniable.survey.spelling import cell_text

NEWS = MultipleChoice(["paper", "radio", "web"], 40.0)
USED = DirectEncoding(["no", "yes"], 20.0)


def test_qualtrics_header_rows_are_not_answers(tmp_path: Path) -> None:
    answers = tmp_path / "q.csv"
    answers.write_text(
        'StartDate,Q1\n"Start Date","Have you used'
        ' it?\nEver?"\n"{""ImportId"":""startDate""}","{""ImportId"":""QID1""}"\n'
        + "2026-01-02,Yes\n" * 30
        + "2026-01-02,No\n" * 10
    )
    assert randomize_file(answers, tmp_path / "r.csv", {"Q1": USED}) == 40
    assert estimate_file(tmp_path / "r.csv")["Q1"].proportions[1] == pytest.approx(0.75, abs=1e-6)


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("id,news[paper],news[radio],news[web]", ["1,Y,,Y", "2,,Y,", "3,,,", "4,N,No,Yes"]),
        (
            "id,news [paper],news [radio],news [web]",
            ["1,Yes,No,Yes", "2,No,Yes,No", "3,No,No,No", "4,No,No,Yes"],
        ),
        ("id,news___paper,news___radio,news___web", ["1,1,0,1", "2,0,1,0", "3,0,0,0", "4,0,0,1"]),
        ("id,news[paper],news[radio],news[web]", ["1,paper,,web", "2,,radio,", "3,,,", "4,,,web"]),
    ],
    ids=["LimeSurvey's codes", "LimeSurvey's words", "REDCap", "the label itself"],
)
@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet"])
def test_a_column_per_option_is_one_multiple_choice_question(
    tmp_path: Path, header: str, rows: list[str], kind: str
) -> None:
    cells = [line.split(",") for line in [header, *rows]]
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("\n".join([header, *rows]) + "\n")
    elif kind == "xlsx":
        book = openpyxl.Workbook()
        for row in cells:
            book.active.append([cell or None for cell in row])
        book.save(path)
    else:
        pq.write_table(
            pa.table({name: list(column) for name, *column in zip(*cells, strict=True)}), path
        )
    (chunk,) = read_chunks(path, ["news"])
    assert chunk.columns["news"] == [["paper", "web"], ["radio"], [], ["web"]]
    randomize_file(path, tmp_path / "r.csv", {"news": NEWS})
    assert estimate_file(tmp_path / "r.csv")["news"].proportions == pytest.approx(
        [0.25, 0.25, 0.5], abs=1e-4
    )


def test_a_cell_that_is_neither_chosen_nor_not_is_refused_without_being_shown(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.csv").write_text("news[paper],news[web]\nY,\n,secret\n")
    with pytest.raises(
        SurveyError, match=r"row 2, option 'web': the value must be one of 1, checked"
    ) as caught:
        randomize_file(tmp_path / "a.csv", tmp_path / "r.csv", {"news": NEWS})
    assert "secret" not in str(caught.value)


def test_errors_about_labels_name_the_labels_and_not_the_answer(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("used,news\nyes,web\nsecret,web\n")
    with pytest.raises(
        SurveyError, match=r"is not one of the 2 labels of the domain: no, yes$"
    ) as caught:
        randomize_file(tmp_path / "a.csv", tmp_path / "r.csv", {"used": USED})
    assert "secret" not in str(caught.value)
    (tmp_path / "b.csv").write_text("used,news\nyes,secret\n")
    with pytest.raises(
        SurveyError, match=r"does not consist of the 3 labels of the domain: paper, radio, web$"
    ) as caught:
        randomize_file(tmp_path / "b.csv", tmp_path / "r.csv", {"news": NEWS})
    with pytest.raises(
        UnknownLabelError, match="is not one of the 2 labels of the domain: no, yes"
    ):
        USED.privatize(["secret"])


def test_stata_files_are_read_with_their_labels_and_written(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "used": pd.Categorical(["yes"] * 30 + ["no"] * 10),
            "age": [30.0] * 39 + [np.nan],
            "group": range(40),
        }
    )
    frame.to_stata(tmp_path / "a.dta", write_index=False)
    (chunk,) = read_chunks(tmp_path / "a.dta", ["used", "age"])
    assert chunk.columns["used"] == ["yes"] * 30 + ["no"] * 10
    assert chunk.columns["age"][-1] is None
    assert (
        randomize_file(tmp_path / "a.dta", tmp_path / "r.dta", {"used": USED}, keep=["group"]) == 40
    )
    written = pd.read_stata(tmp_path / "r.dta")
    assert list(written.columns) == ["used", "group", "randomized_by_deniable"]
    assert sorted(written["used"].unique()) == ["no", "yes"]
    assert estimate_file(tmp_path / "r.dta")["used"].proportions[1] == pytest.approx(0.75, abs=1e-6)
    with pytest.raises(SurveyError, match="is already randomized"):
        randomize_file(tmp_path / "r.dta", tmp_path / "twice.csv", {"used": USED})
    (tmp_path / "b.csv").write_text("have you?\nyes\nno\n")
    with pytest.raises(SurveyError, match="names must be valid in Stata"):
        randomize_file(tmp_path / "b.csv", tmp_path / "b.dta", {"have you?": USED})
    assert not (tmp_path / "b.dta").exists()
    (tmp_path / "broken.dta").write_bytes((tmp_path / "a.dta").read_bytes()[:200])
    with pytest.raises(SurveyError, match=r"is not a Stata file \(.dta\), or is damaged"):
        list(read_chunks(tmp_path / "broken.dta", ["used"]))


def test_spss_files_are_read_with_labels_and_missing_values_and_written_with_labels(
    tmp_path: Path,
) -> None:
    # 9 is declared as missing, as interviewers' codes are
    frame = pd.DataFrame(
        {"used": [2.0] * 30 + [1.0] * 10 + [9.0], "name": ["Zoë"] * 41, "day": ["2026-03-01"] * 41}
    )
    frame["day"] = pd.to_datetime(frame["day"])
    pyreadstat.write_sav(
        frame,
        str(tmp_path / "a.sav"),
        variable_value_labels={"used": {1: "no", 2: "yes", 9: "refused"}},
        missing_ranges={"used": [9]},
        variable_format={"day": "DATE11"},
    )
    (chunk,) = read_chunks(tmp_path / "a.sav", ["used", "name", "day"])
    assert chunk.columns["used"] == ["yes"] * 30 + ["no"] * 10 + [None]
    assert {cell_text(cell) for cell in chunk.columns["day"]} == {"2026-03-01"}
    assert chunk.columns["name"][0] == "Zoë"
    with pytest.raises(SurveyError, match="row 41, column 'used': the value is missing"):
        randomize_file(tmp_path / "a.sav", tmp_path / "r.sav", {"used": USED})
    with pytest.warns(SurveyWarning, match="1 of 41 rows"):
        randomize_file(
            tmp_path / "a.sav", tmp_path / "r.sav", {"used": USED}, keep=["name"], missing="drop"
        )
    written, labels = pyreadstat.read_sav(str(tmp_path / "r.sav"))
    assert labels.variable_value_labels == {"used": {1: "no", 2: "yes"}, "name": {1: "Zoë"}}
    assert sorted(written["used"]) == [1.0] * 10 + [2.0] * 30
    assert estimate_file(tmp_path / "r.sav")["used"].proportions[1] == pytest.approx(0.75, abs=1e-6)
    with pytest.raises(SurveyError, match="is already randomized"):
        randomize_file(tmp_path / "r.sav", tmp_path / "twice.csv", {"used": USED})


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_labels_have_the_codes_of_their_order_even_those_that_nobody_reported(
    tmp_path: Path, kind: str
) -> None:
    """By the alphabet, "daily" would come before "never", and codes would differ between files."""
    often = DirectEncoding(["never", "weekly", "daily", "always"], 30.0)
    (tmp_path / "a.csv").write_text("often\n" + "daily\nnever\nweekly\n" * 5)
    randomize_file(tmp_path / "a.csv", tmp_path / f"r.{kind}", {"often": often}, keep_order=True)
    read = pyreadstat.read_sav if kind == "sav" else pyreadstat.read_dta
    written, found = read(str(tmp_path / f"r.{kind}"))
    first = 1 if kind == "sav" else 0
    assert found.variable_value_labels["often"] == {
        first: "never", first + 1: "weekly", first + 2: "daily", first + 3: "always"
    }  # fmt: skip
    assert list(written["often"][:3]) == [first + 2, first, first + 1]
    assert estimate_file(tmp_path / f"r.{kind}")["often"].proportions[3] == pytest.approx(0)


@pytest.mark.parametrize("kind", ["sav", "dta"])
def test_texts_that_are_numbers_are_written_as_numbers_and_codes_as_texts(
    tmp_path: Path, kind: str
) -> None:
    (tmp_path / "a.csv").write_text("used,age,zip,bits\nyes,31,007,1\nno,4.5,123,\n")
    randomize_file(
        tmp_path / "a.csv",
        tmp_path / f"r.{kind}",
        {"used": USED},
        keep=["age", "zip", "bits"],
        keep_order=True,
    )
    (chunk,) = read_chunks(tmp_path / f"r.{kind}", ["used", "age", "zip", "bits"])
    assert chunk.columns == {
        "used": ["yes", "no"],
        "age": [31, 4.5],
        "zip": ["007", "123"],
        "bits": [1, None],
    }


def test_an_spss_file_is_refused_in_one_line_if_it_is_none_or_a_name_cannot_be(
    tmp_path: Path,
) -> None:
    (tmp_path / "b.csv").write_text("have you?\nyes\nno\n")
    with pytest.raises(SurveyError, match="names must be valid in SPSS"):
        randomize_file(tmp_path / "b.csv", tmp_path / "b.sav", {"have you?": USED})
    assert not (tmp_path / "b.sav").exists()
    for damaged in (b"", b"$FL2@(#) SPSS", b"secret" * 100):
        (tmp_path / "broken.sav").write_bytes(damaged)
        with pytest.raises(SurveyError, match=r"is not an SPSS file \(.sav\), or is damaged") as no:
            list(read_chunks(tmp_path / "broken.sav", ["used"]))
        assert "secret" not in str(no.value)
