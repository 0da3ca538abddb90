"""The questions of an XLSForm, the workbook by which ODK, KoboToolbox and SurveyCTO ask: names,
labels and ranges.

Its sheet `survey` has a row per question (`type`, `name`, `constraint`), its sheet `choices` a row
per label (`list_name`, `name`, `label`). See https://xlsform.org/en/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.errors import SurveyError
from deniable.survey.spelling import cell_text
from deniable.table_file import TableFormat, kind_of, open_sheet

__all__ = ["FormQuestion", "read_form"]

_SELECT = re.compile(r"select[_ ](one|multiple)\s+(\S+)(\s+or_other)?")
_NUMBERS = {"integer": True, "decimal": False, "range": False}
_BOUND = re.compile(r"\.\s*(>=|<=)\s*(-?\d+(?:\.\d+)?)")


@dataclass(frozen=True)
class FormQuestion:
    """What a form lets people answer: one label or several, or a number of a range."""

    labels: dict[str, str] = field(default_factory=dict)
    """What each means, by its name in the answers."""
    several: bool = False
    limits: tuple[float, float] | None = None
    integers: bool = False


def read_form(path: Path) -> dict[str, FormQuestion] | None:
    """The questions that can be randomized, in their order; None if the file is no XLSForm.

    Texts, dates, places and numbers without two limits are left out.
    """
    if kind_of(path) != "excel":
        return None
    try:
        asked = _rows(path, "survey", ("type", "name"))
    except SurveyError:
        return None
    choices: dict[str, dict[str, str]] = {}
    for row in _rows(path, "choices", ("list_name", "name")):
        if row["list_name"] and row["name"]:
            choices.setdefault(row["list_name"], {})[row["name"]] = _meaning(row)
    found: dict[str, FormQuestion] = {}
    for place, row in enumerate(asked, 2):
        select = _SELECT.fullmatch(row["type"])
        if select:
            if select[2] not in choices:
                raise SurveyError(
                    f"{path}, sheet survey, row {place}: list {select[2]!r} is not in the sheet"
                    " choices"
                )
            labels = {**choices[select[2]], **({"other": "other"} if select[3] else {})}
            found[row["name"]] = FormQuestion(labels, several=select[1] == "multiple")
        elif row["type"] in _NUMBERS:
            limits = {sign: float(number) for sign, number in _BOUND.findall(row["constraint"])}
            if {">=", "<="} <= set(limits) and limits[">="] < limits["<="]:
                found[row["name"]] = FormQuestion(
                    limits=(limits[">="], limits["<="]), integers=_NUMBERS[row["type"]]
                )
    return found


def _rows(path: Path, sheet: str, needed: Sequence[str]) -> list[dict[str, str]]:
    with open_sheet(path, SurveyError, TableFormat(sheet=sheet)) as cells:
        header = [_text(name).lower() for name in next(cells, ())]
        for name in needed:
            if name not in header:
                raise SurveyError(f"{path}, sheet {sheet}: there is no column {name!r}")
        rows = [dict(zip(header, map(_text, row), strict=False)) for row in cells]
    return [{"constraint": "", **row} for row in rows]


def _text(cell: Any) -> str:
    return "" if cell is None else cell_text(cell)


def _meaning(row: Mapping[str, str]) -> str:
    """The label, in the form's first language."""
    return next((text for name, text in row.items() if name.split("::")[0] == "label"), "")
