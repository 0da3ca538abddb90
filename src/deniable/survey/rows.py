"""Some columns of a file, all rows in memory, for analyses of single rows such as regression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from deniable.errors import SurveyError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.multiple_choice import MultipleChoice
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
from deniable.survey.spelling import is_blank, is_missing
from deniable.survey.texts import cells_to_reports
from deniable.table_file import TableFormat

__all__ = ["Rows", "read_rows"]


@dataclass(frozen=True)
class Rows:
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
) -> Rows:
    """The named columns of one file or several, all rows in memory.

    One option of a multiple-choice column is named as in ``news[web]``, and read as a yes/no question. A
    column that has a mechanism (without `mechanisms`, by the file beside it, if there is one) is read as reports. A missing
    value in any other column drops the row or refuses the file, as `missing` says; it is never a label. If each person answered
    only some of the questions, people who were not asked all of these are left out, which is fair because who is asked is random.
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
    if asked is not None and asked.fake and hidden:
        raise SurveyError(
            f"column {min(hidden)!r} has made-up answers among the true ones, which cannot be distinguished row by row"
        )
    sampled = asked is not None and asked.sampled
    reports: dict[str, list[Reports]] = {name: [] for name in hidden}
    cells: dict[str, list[Any]] = {name: [] for name in clear}
    rows = dropped = 0
    for file, whole, left_out in complete_chunks(
        paths, {} if sampled else hidden, [*clear, *(hidden if sampled else [])], missing, layout, progress
    ):
        part = whole
        if sampled:
            part = whole.without({row for name in hidden for row, cell in enumerate(whole.columns[name]) if is_blank(cell)})
        gaps = {row for name in clear for row, cell in enumerate(part.columns[name]) if is_missing(cell)}
        if gaps and missing != "drop":
            first = min(gaps)
            name = next(name for name in clear if is_missing(part.columns[name][first]))
            raise SurveyError(f"{file}, row {part.row(first)}, column {name!r}: the value is missing (empty or null)")
        chunk = part.without(gaps) if gaps else part
        rows += len(chunk)
        dropped += left_out + len(gaps)
        if not len(chunk):
            continue
        for name in clear:
            cells[name] += chunk.columns[name]
        for name, mechanism in hidden.items():
            with row_named(file, chunk, name):
                reports[name].append(cells_to_reports(mechanism, chunk.columns[name]))
    if not rows and sampled:
        raise SurveyError(f"nobody was asked {' and '.join(hidden)}, so nothing is known about them together")
    tell_dropped(paths, rows, dropped)
    found = {name: Reports(hidden[name], np.concatenate([part.data for part in parts])) for name, parts in reports.items()}
    for name, (column, label) in options.items():
        found[name] = cast(MultipleChoice, hidden[column]).option(label, found[column])
    return Rows(rows, {name: found[name] for name in wanted if name in found}, cells)


def _questionnaire(paths: Sequence[Any], mechanisms: Mapping[str, Mechanism] | Questionnaire | None) -> Questionnaire | None:
    if isinstance(mechanisms, Questionnaire):
        return mechanisms
    if mechanisms is not None:
        return Questionnaire(mechanisms) if mechanisms else None
    return recorded_questionnaire(paths) if all(columns_file(path).is_file() for path in paths) else None
