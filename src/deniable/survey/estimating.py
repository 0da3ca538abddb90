"""Estimate from files of reports: column by column, in tables, and group by group."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from deniable.errors import NoReportsError, ParameterError, SurveyError, SurveyWarning
from deniable.estimation.estimate import Estimate
from deniable.estimation.surveys.group_tests import GroupTest
from deniable.estimation.tables.independence import IndependenceTest, independence_test
from deniable.estimation.tables.joint import joint
from deniable.estimation.tables.table import Table
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.mechanisms.reports import Reports, Tally
from deniable.survey.columns import read_questionnaire
from deniable.survey.estimates import Survey, group_tests
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
from deniable.survey.options import named_options, refuse_whole, table_columns
from deniable.survey.reading import Chunk
from deniable.survey.spelling import cell_text, is_blank
from deniable.survey.texts import cells_to_reports
from deniable.table_file import STANDARD_STREAM, TableFormat

__all__ = ["estimate_file", "recorded_questionnaire"]

_MOST_GROUPS = 200


@dataclass
class _Counts:
    """What has been read from the files so far."""

    questionnaire: Questionnaire
    tallies: dict[str, Tally]
    groups: dict[str, dict[str, Tally]]
    kept: dict[str, list[tuple[np.ndarray[Any, Any], Reports]]]
    """For the columns of tables: the rows that have a report, and the reports."""
    rows: int = 0

    def add_all(self, chunks: Iterable[tuple[Path, Chunk, int]], by: str | None) -> tuple[int, int]:
        """Count all chunks; returns how many rows were counted, and how many were left out."""
        dropped = 0
        for file, chunk, left_out in chunks:
            dropped += left_out
            if len(chunk):
                self.add(file, chunk, by)
        return self.rows, dropped

    def add(self, file: Path, chunk: Chunk, by: str | None) -> None:
        asked = _asked(file, self.questionnaire, chunk)
        groups = None if by is None else self._group_places(file, chunk, by)
        for name, mechanism in self.questionnaire.mechanisms.items():
            rows = asked.get(name)
            cells = (
                chunk.columns[name] if rows is None else [chunk.columns[name][row] for row in rows]
            )
            part = (
                chunk
                if rows is None
                else Chunk(chunk.first_row, {name: cells}, tuple(chunk.row(row) for row in rows))
            )
            with row_named(file, part, name):
                reports = cells_to_reports(mechanism, cells)
            self.tallies[name].update(reports)
            places = np.arange(len(chunk)) if rows is None else np.array(rows, dtype=np.intp)
            if name in self.kept:
                self.kept[name].append((self.rows + places, reports))
            for group, members in (groups or {}).items():
                self.groups[group][name].update(reports[np.isin(places, members)])
        self.rows += len(chunk)

    def _group_places(self, file: Path, chunk: Chunk, by: str) -> dict[str, Any]:
        places: dict[str, list[int]] = {}
        for place, cell in enumerate(chunk.columns[by]):
            places.setdefault("(missing)" if is_blank(cell) else cell_text(cell), []).append(place)
        for group in places:
            if group not in self.groups:
                self.groups[group] = {
                    name: mechanism.tally()
                    for name, mechanism in self.questionnaire.mechanisms.items()
                }
        if len(self.groups) > _MOST_GROUPS:
            raise SurveyError(
                f"{file}: column {by!r} has more than {_MOST_GROUPS} values, too many groups to"
                " estimate"
            )
        return places

    def joint_table(self, axes: Sequence[str], population: int | None) -> Table:
        options = named_options(axes, self.questionnaire.mechanisms)
        columns = [options[name][0] if name in options else name for name in axes]
        whole: dict[str, Reports] = {}
        rows = [np.concatenate([places for places, _ in self.kept[column]]) for column in columns]
        both = rows[0]
        for other in rows[1:]:
            both = np.intersect1d(both, other, assume_unique=True)
        if not both.size:
            raise SurveyError(
                f"nobody was asked {', '.join(axes)} together, so there is no table of them"
            )
        for name, column, places in zip(axes, columns, rows, strict=True):
            mechanism = self.questionnaire.mechanisms[column]
            data = np.concatenate([reports.data for _, reports in self.kept[column]])
            reports = Reports(mechanism, data[np.isin(places, both)])
            if name in options:
                reports = cast(MultipleChoice, mechanism).option(options[name][1], reports)
            whole[name] = reports
        return joint(
            {name: reports.mechanism for name, reports in whole.items()}, whole, population
        )


def _stated(mechanisms: Mapping[str, Mechanism] | Questionnaire | None) -> Questionnaire | None:
    if isinstance(mechanisms, Questionnaire):
        return mechanisms
    return Questionnaire(mechanisms) if mechanisms else None


def estimate_file(
    path: Paths,
    mechanisms: Mapping[str, Mechanism] | Questionnaire | None = None,
    *,
    population: int | None = None,
    tables: Sequence[Sequence[str]] = (),
    conditional: Sequence[tuple[Sequence[str], Sequence[str]]] = (),
    by: str | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Estimate each column of one or several files of reports combined, and the named tables.

    `tables` are joint ones, by their columns (of a multiple-choice column, by an option, as in
    ``news[web]``); `conditional` are pairs (of, given) of columns: P(of | given). With `by`, a
    column that was not randomized, each of its values is a group with its own estimates; a
    randomized column is a condition instead, because nobody knows which group a person is in.
    `options` are a column's arguments for its mechanism's `estimate`, such as the estimator, or
    RAPPOR's candidates. Without `mechanisms` they are read from the file that `randomize_file`
    leaves beside its output.
    """
    paths = check_paths(path)
    questionnaire = _stated(mechanisms) or recorded_questionnaire(paths)
    known = questionnaire.mechanisms
    asked_for = len(conditional)
    if by in known:
        others = _conditioned(known, str(by))
        conditional = [*conditional, *(((name,), (str(by),)) for name in others)]
        by = None
    _check_wishes(
        questionnaire,
        [*tables, *((*given, *of) for of, given in conditional)],
        options or {},
        missing,
    )
    kept = table_columns(tables, conditional, known)
    counts = _Counts(
        questionnaire,
        {name: m.tally() for name, m in known.items()},
        {},
        {name: [] for name in kept},
    )
    chunks = complete_chunks(paths, known, () if by is None else (by,), missing, layout, progress)
    tell_dropped(paths, *counts.add_all(chunks, by))
    own = options or {}

    def estimates(tallies: Mapping[str, Tally], size: int | None) -> dict[str, Estimate]:
        return {
            name: _estimate(paths[0], questionnaire, name, tally, size, own.get(name, {}))
            for name, tally in tallies.items()
        }

    crossed = [counts.joint_table((*given, *of), population) for of, given in conditional]
    groups = {group: estimates(found, None) for group, found in sorted(counts.groups.items())}
    tests: dict[str, GroupTest | IndependenceTest] = {**group_tests(by, groups, without=own)}
    for (of, _), table in zip(conditional[asked_for:], crossed[asked_for:], strict=True):
        tests[of[0]] = independence_test(table)
    return Survey(
        counts.rows,
        estimates(counts.tallies, population),
        (
            *(counts.joint_table(table, population) for table in tables),
            *_conditionals(conditional, crossed),
        ),
        by,
        groups,
        tests,
    )


def _conditionals(
    conditional: Sequence[tuple[Sequence[str], Sequence[str]]], crossed: Sequence[Table]
) -> list[Table]:
    return [
        table.conditional(tuple(of), tuple(given))
        for table, (of, given) in zip(crossed, conditional, strict=True)
    ]


def _conditioned(mechanisms: Mapping[str, Mechanism], by: str) -> list[str]:
    """The columns whose proportions can be conditioned on a randomized column; warns about the
    others."""
    can = {
        name: mechanism.exclusive and not mechanism.numeric
        for name, mechanism in mechanisms.items()
        if name != by
    }
    if others := [name for name, able in can.items() if not able]:
        warnings.warn(
            f"{by} was randomized, so it has no groups: {', '.join(others)}, with numbers or"
            " several labels, cannot be estimated by it",
            SurveyWarning,
            stacklevel=3,
        )
    return [name for name, able in can.items() if able]


def _check_wishes(
    questionnaire: Questionnaire,
    tables: Sequence[Sequence[str]],
    options: Mapping[str, Any],
    missing: Missing,
) -> None:
    if questionnaire.sampled and missing != "refuse":
        raise SurveyError(
            "people answered only some of the questions: an empty cell was not asked, so it is not"
            " missing"
        )
    check_missing(missing, questionnaire.mechanisms)
    known = questionnaire.mechanisms
    for table in tables:
        options_named = named_options(table, known)
        for name in table:
            if name not in known and name not in options_named:
                raise SurveyError(f"the table needs column {name!r}, whose mechanism is not given")
        if len(set(table)) < len(table):
            raise SurveyError(f"the table of {', '.join(table)} names a column twice")
        for name in table:
            refuse_whole(name, known.get(name))
        if (
            len(table) > 1
            and questionnaire.ask == 1
            and (questionnaire.fake or questionnaire.sampled)
        ):
            raise SurveyError(
                f"each person gave one true answer, so nothing is known about {', '.join(table)}"
                " together"
            )
        if (
            questionnaire.sampled
            and questionnaire.ask is not None
            and len(table) > questionnaire.ask
        ):
            raise SurveyError(
                f"each person answered {questionnaire.ask} questions, so there is no table of"
                f" {len(table)}"
            )
    for name in set(options) - set(questionnaire.mechanisms):
        raise SurveyError(f"an option is given for column {name!r}, whose mechanism is not")


def _asked(file: Path, questionnaire: Questionnaire, chunk: Chunk) -> dict[str, list[int]]:
    """The rows of each column that have a report, if people answered only some of the questions;
    nothing if all."""
    if not questionnaire.sampled:
        return {}
    places = {
        name: [row for row, cell in enumerate(chunk.columns[name]) if not is_blank(cell)]
        for name in questionnaire.mechanisms
    }
    answered = np.zeros(len(chunk), dtype=np.int64)
    for rows in places.values():
        answered[rows] += 1
    wrong = np.flatnonzero(answered != questionnaire.ask)
    if wrong.size:
        row = int(wrong[0])
        raise SurveyError(
            f"{file}, row {chunk.row(row)}: {answered[row]} questions are answered, but each person"
            f" is asked {questionnaire.ask}"
        )
    return places


def recorded_questionnaire(paths: Sequence[Path]) -> Questionnaire:
    """How the columns of these files were randomized, by the files beside them, which must
    agree."""
    found: Questionnaire | None = None
    for path in paths:
        if not columns_file(path).is_file():
            beside = (
                ""
                if path == STANDARD_STREAM
                else f", or put that into {columns_file(path).name} beside it"
            )
            raise SurveyError(f"{path}: say how its columns were randomized{beside}")
        questionnaire = read_questionnaire(columns_file(path))
        if found is not None and questionnaire != found:
            raise SurveyError(
                f"{path} was randomized differently from {paths[0]}: estimate them separately"
            )
        found = questionnaire
    assert found is not None  # noqa: S101 - there is at least one file
    return found


def _estimate(
    path: Path,
    questionnaire: Questionnaire,
    name: str,
    tally: Tally,
    population: int | None,
    options: Mapping[str, Any],
) -> Estimate:
    try:
        return questionnaire.estimate(name, tally, population, **options)
    except TypeError:
        taken = ", ".join(map(repr, options))
        raise SurveyError(
            f"{path}, column {name!r}: {type(tally.mechanism).__name__} has no option {taken}"
        ) from None
    except NoReportsError:
        raise SurveyError(f"{path}, column {name!r}: nobody was asked this question") from None
    except ParameterError as error:
        raise SurveyError(f"{path}, column {name!r}: {error}") from None
