"""The exports of survey software: the column that a snippet wrote is found, wherever each format
puts it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from deniable.errors import SurveyError
from deniable.poll.poll import Poll
from deniable.poll.questions import PollQuestion

__all__ = ["ExportedReports", "read_export"]

_IMPORT_ID = '{"ImportId"'


class ExportedReports(NamedTuple):
    """What the coins said, of one question, and how many rows had nothing."""

    reports: list[str]
    empty: int


def read_export(path: Path, poll: Poll, question: PollQuestion) -> ExportedReports:
    """The reports of one question in an export: CSV of any of the supported programs, or JSON.

    Rows without a value (people who stopped before, trials that asked something else) are skipped.
    Anything that the coins cannot have said is refused, by row.
    """
    allowed = set(question.options[poll.languages[0]])
    reports: list[str] = []
    empty = 0
    for number, value in _values(path, question.id):
        if value == "":
            empty += 1
        elif value not in allowed:
            raise SurveyError(
                f"{path.name}: row {number} of {question.id!r} is not one of the poll's answers;"
                " was it exported with other labels, or stored without the snippet?"
            )
        else:
            reports.append(value)
    if not reports:
        raise SurveyError(f"{path.name}: {question.id!r} has no answer")
    return ExportedReports(reports, empty)


def _values(path: Path, field: str) -> Iterable[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise SurveyError(f"{path} cannot be read: {why}") from None
    if path.suffix.lower() == ".json":
        return _of_json(path, text, field)
    return _of_table(path, text, field)


def _of_json(path: Path, text: str, field: str) -> list[tuple[int, str]]:
    try:
        found = json.loads(text)
    except ValueError:
        raise SurveyError(f"{path.name} is not JSON") from None
    if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
        raise SurveyError(f"{path.name} must be a list of objects, one per person")
    if not any(field in row for row in found):
        raise SurveyError(f"{path.name} has no key {field!r}")
    values = (row.get(field) for row in found)
    return [(i, "" if v is None else str(v)) for i, v in enumerate(values, 1)]


def _of_table(path: Path, text: str, field: str) -> list[tuple[int, str]]:
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    rows = list(csv.reader(text.splitlines(keepends=True), delimiter=delimiter))
    header: list[str] = rows[0] if rows else []
    columns = [i for i, name in enumerate(header) if _is_named(name.strip(), field)]
    if not columns:
        raise SurveyError(f"{path.name} has no column {field!r}")
    # Qualtrics repeats its heading as the question's text and as an id
    start = 3 if any(cell.startswith(_IMPORT_ID) for row in rows[2:3] for cell in row) else 1
    out: list[tuple[int, str]] = []
    for number, row in enumerate(rows[start:], start + 1):
        if row:
            given = {row[i].strip() for i in columns if i < len(row)} - {""}
            if len(given) > 1:
                raise SurveyError(f"{path.name}: row {number} has two values of {field!r}")
            out.append((number, next(iter(given), "")))
    return out


def _is_named(name: str, field: str) -> bool:
    """The field itself, as Qualtrics's new survey-taking experience names it, or with oTree's app,
    round and model before it."""
    return (
        name in (field, f"__js_{field}")
        or name.endswith(f".player.{field}")
        or name == f"player.{field}"
    )
