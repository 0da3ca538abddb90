"""A form's workbook as the dictionary of a survey, through to estimates of what ODK and Kobo export."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pytest

from deniable import DirectEncoding, Mechanism, MultipleChoice, SquareWave
from deniable.errors import SurveyError
from deniable.survey import estimate_file, randomize_file, read_columns
from deniable.survey.template import propose_columns

SURVEY: list[tuple[str | None, ...]] = [
    ("type", "name", "label::English (en)", "constraint"),
    ("start", "start", None, None),
    ("select_one yes_no", "used", "Did you?", None),
    ("select_multiple media", "news", "Where from?", None),
    ("select_one city or_other", "city", "Where?", None),
    ("integer", "age", "How old?", ". >= 18 and . <= 95"),
    ("integer", "children", "How many?", ". >= 0"),
    ("text", "why", "Why?", None),
]
CHOICES = [
    ("list_name", "name", "label::English (en)"),
    ("yes_no", "no", "No"),
    ("yes_no", "yes", "Yes"),
    ("media", "radio", "Radio"),
    ("media", "web", "The web"),
    (None, None, None),
    ("city", 1, "Oslo"),
    ("city", 2, "Rome"),
]


def form(path: Path, survey: list[tuple[str | None, ...]] = SURVEY) -> Path:
    book = openpyxl.Workbook()
    for title, rows in (("survey", survey), ("choices", CHOICES)):
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_a_form_gives_labels_several_labels_and_ranges(tmp_path: Path) -> None:
    text = propose_columns(8.0, dictionary=form(tmp_path / "form.xlsx"))
    (tmp_path / "s.toml").write_text(text)
    found = read_columns(tmp_path / "s.toml")
    assert list(found) == ["used", "news", "city", "age"]
    assert found["used"] == DirectEncoding(["no", "yes"], 2.0)
    assert found["news"] == MultipleChoice(["radio", "web"], 2.0)
    assert found["city"].labels == ("1", "2", "other")
    age = found["age"]
    assert isinstance(age, SquareWave)
    assert (age.low, age.high >= 95, age.integers) == (18, True, True)
    assert "# Labels from the dictionary: 1 = Oslo; 2 = Rome." in text


@pytest.mark.parametrize(
    "lines",
    [
        ["used,news", "yes,radio web", "no,web", "yes,"],
        ["used,news,news/radio,news/web", "yes,radio web,1,1", "no,web,0,1", "yes,,0,0"],
        ["used,news/radio,news/web", "yes,1,1", "no,0,1", "yes,0,0"],
    ],
    ids=["ODK", "KoboToolbox", "KoboToolbox without the whole"],
)
def test_answers_as_these_tools_export_them_are_read(tmp_path: Path, lines: list[str]) -> None:
    (tmp_path / "a.csv").write_text("\n".join([lines[0], *lines[1:] * 40]) + "\n")
    columns: dict[str, Mechanism] = {
        "news": MultipleChoice(["radio", "web"], 40.0),
        "used": DirectEncoding(["no", "yes"], 20.0),
    }
    randomize_file(tmp_path / "a.csv", tmp_path / "r.csv", columns)
    found = estimate_file(tmp_path / "r.csv")
    assert found["news"].proportions == pytest.approx([1 / 3, 2 / 3], abs=1e-4)
    assert found["used"].proportions == pytest.approx([1 / 3, 2 / 3], abs=1e-4)


def test_a_label_with_spaces_is_one_label(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("news\n" + "the web\nradio\n" * 20)
    columns = {"news": MultipleChoice(["the web", "radio", "the", "web"], 40.0)}
    randomize_file(tmp_path / "a.csv", tmp_path / "r.csv", columns)
    found = estimate_file(tmp_path / "r.csv")["news"].proportions
    assert found == pytest.approx([0.5, 0.5, 0, 0], abs=0.01)


def test_a_list_that_is_not_there_is_named_with_its_row(tmp_path: Path) -> None:
    path = form(tmp_path / "f.xlsx", [("type", "name"), ("select_one nothing", "used")])
    with pytest.raises(
        SurveyError, match="sheet survey, row 2: list 'nothing' is not in the sheet"
    ):
        propose_columns(2.0, dictionary=path)
