"""Some columns of a file, all rows in memory, for analyses of single rows such as regression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from deniable.errors import SurveyError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.mechanisms.reports import Reports
from deniable.survey.estimating import recorded_questionnaire
from deniable.survey.files import (
    Missing,
    Paths,
    Progress,
    check_missing,
    check_paths,
    columns_file,
    complete_chunks,
    row_named,
    tell_dropped,
)
from deniable.survey.options import named_options
from deniable.survey.reading import Chunk
from deniable.survey.spelling import is_blank, is_missing
from deniable.survey.texts import cells_to_reports
from deniable.table_file import TableFormat

__all__ = ["SurveyRows", "read_rows"]


@dataclass(frozen=True)
class SurveyRows:
    """Columns that are randomized as reports, the others as they are."""

    n: int
    reports: dict[str, Reports]
    cells: dict[str, list[Any]]


def read_rows(
    path: Paths,
    mechanisms: Mapping[str, Mechanism] | Questionnaire | None,
    columns: Sequence[str],
    *,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Progress | None = None,
) -> SurveyRows:
    """The named columns of one file or several, all rows in memory.

    One option of a multiple-choice column is named as in ``news[web]``, and read as a yes/no
    question. A column that has a mechanism (without `mechanisms`, by the file beside it, if there
    is one) is read as reports. A missing value in any other column drops the row or refuses the
    file, as `missing` says; it is never a label. If each person answered only some of the
    questions, people who were not asked all of these are left out, which is fair because who is
    asked is random.
    """
    paths = check_paths(path)
    asked = _questionnaire(paths, mechanisms)
    wanted = list(dict.fromkeys(columns))
    known = {} if asked is None else asked.mechanisms
    options = named_options(wanted, known)
    read = dict.fromkeys(options[name][0] if name in options else name for name in wanted)
    hidden = {name: known[name] for name in read if name in known}
    clear = [name for name in read if name not in hidden]
    check_missing(missing, hidden)
    _refuse_made_up(asked, hidden)
    sampled = asked is not None and asked.sampled
    collected = _Collected(hidden, clear)
    dropped = 0
    for file, whole, left_out in complete_chunks(
        paths,
        {} if sampled else hidden,
        [*clear, *(hidden if sampled else [])],
        missing,
        layout,
        progress,
    ):
        part = _of_those_asked(whole, hidden) if sampled else whole
        gaps = _gaps(file, part, clear, missing)
        dropped += left_out + len(gaps)
        collected.add(file, part.without(gaps) if gaps else part)
    if not collected.rows and sampled:
        raise SurveyError(
            f"nobody was asked {' and '.join(hidden)}, so nothing is known about them together"
        )
    tell_dropped(paths, collected.rows, dropped)
    found = collected.whole_reports()
    for name, (column, label) in options.items():
        found[name] = cast(MultipleChoice, hidden[column]).option(label, found[column])
    return SurveyRows(
        collected.rows, {name: found[name] for name in wanted if name in found}, collected.cells
    )


def _refuse_made_up(asked: Questionnaire | None, hidden: Mapping[str, Mechanism]) -> None:
    if asked is not None and asked.fake and hidden:
        raise SurveyError(
            f"column {min(hidden)!r} has made-up answers among the true ones, which cannot be"
            " distinguished row by row"
        )


class _Collected:
    """The rows read so far: reports of the columns that have a mechanism, and the cells of the
    others."""

    def __init__(self, hidden: Mapping[str, Mechanism], clear: Sequence[str]) -> None:
        self.rows, self._hidden = 0, hidden
        self._reports: dict[str, list[Reports]] = {name: [] for name in hidden}
        self.cells: dict[str, list[Any]] = {name: [] for name in clear}

    def add(self, file: Any, chunk: Chunk) -> None:
        if not len(chunk):
            return
        self.rows += len(chunk)
        for name, cells in self.cells.items():
            cells.extend(chunk.columns[name])
        for name, mechanism in self._hidden.items():
            with row_named(file, chunk, name):
                self._reports[name].append(cells_to_reports(mechanism, chunk.columns[name]))

    def whole_reports(self) -> dict[str, Reports]:
        parts = self._reports.items()
        return {
            name: Reports(self._hidden[name], np.concatenate([each.data for each in part]))
            for name, part in parts
        }


def _of_those_asked(chunk: Chunk, hidden: Iterable[str]) -> Chunk:
    """Without the rows of people who were not asked all of the questions."""
    return chunk.without(
        {row for name in hidden for row, cell in enumerate(chunk.columns[name]) if is_blank(cell)}
    )


def _gaps(file: Any, chunk: Chunk, clear: Sequence[str], missing: Missing) -> set[int]:
    """The rows that lack a value; refused unless they may be dropped."""
    gaps = {
        row for name in clear for row, cell in enumerate(chunk.columns[name]) if is_missing(cell)
    }
    if gaps and missing != "drop":
        first = min(gaps)
        name = next(name for name in clear if is_missing(chunk.columns[name][first]))
        raise SurveyError(
            f"{file}, row {chunk.row(first)}, column {name!r}: the value is missing (empty or null)"
        )
    return gaps


def _questionnaire(
    paths: Sequence[Any], mechanisms: Mapping[str, Mechanism] | Questionnaire | None
) -> Questionnaire | None:
    if isinstance(mechanisms, Questionnaire):
        return mechanisms
    if mechanisms is not None:
        return Questionnaire(mechanisms) if mechanisms else None
    return (
        recorded_questionnaire(paths)
        if all(columns_file(path).is_file() for path in paths)
        else None
    )
