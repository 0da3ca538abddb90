"""Randomize a file of answers, or estimate from a file of reports, in constant memory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from deniable.errors import AnswerError, ParameterError, ReportFormatError, SurveyError, SurveyWarning
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables import Table, joint
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.reports import Reports, Tally
from deniable.randomness import Source
from deniable.survey.columns import read_columns, write_columns
from deniable.survey.reading import Chunk, check_file, read_chunks
from deniable.survey.record import record_randomization, warn_of_earlier
from deniable.survey.spelling import MISSING_LABEL, is_missing
from deniable.survey.texts import cells_to_reports, cells_to_values, reports_to_cells
from deniable.survey.writing import table_writer
from deniable.table_file import STANDARD_STREAM, TableFormat

__all__ = ["Missing", "Paths", "Survey", "columns_file", "estimate_file", "randomize_file", "refuse_existing"]

Progress = Callable[[float], None]
Paths = Path | str | Sequence[Path | str]
"""One file or several; `-` is standard input."""
Missing = Literal["refuse", "drop", "label"]
"""What happens to a missing value: the file is refused, the row is dropped, or the value is the label "missing"."""


@dataclass(frozen=True)
class Survey:
    """What a file of reports says."""

    n: int
    estimates: dict[str, Estimate]
    """One a column."""
    tables: tuple[Table, ...] = ()
    """The joint tables that were asked for."""


def columns_file(path: Path) -> Path:
    """Where the mechanisms of a file's columns stand, unless told otherwise: beside it, with .toml added to its name."""
    return path.with_name(path.name + ".toml")


def estimate_file(
    path: Paths,
    mechanisms: Mapping[str, Mechanism] | None = None,
    *,
    population: int | None = None,
    tables: Sequence[Sequence[str]] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Estimate each column of one file of reports or several taken together, and the joint tables named in `tables`.

    `options` are a column's own arguments for its mechanism's `estimate`, such as the estimator, or RAPPOR's candidates.
    Without `mechanisms` they are read from the file that `randomize_file` leaves beside its output.
    """
    paths = _paths(path)
    if mechanisms is None:
        mechanisms = _recorded_mechanisms(paths)
    _check_missing(missing, mechanisms)
    for name in {name for table in tables for name in table} - set(mechanisms):
        raise SurveyError(f"the table wants column {name!r}, whose mechanism is not given")
    for table in tables:
        if len(set(table)) < len(table):
            raise SurveyError(f"the table of {', '.join(table)} names a column twice")
    options = options or {}
    for name in set(options) - set(mechanisms):
        raise SurveyError(f"an option is given for column {name!r}, whose mechanism is not")
    tallies = {name: mechanism.tally() for name, mechanism in mechanisms.items()}
    kept: dict[str, list[Reports]] = {name: [] for table in tables for name in table}
    rows = dropped = 0
    for file, chunk, left_out in _complete_chunks(paths, mechanisms, (), missing, layout, progress):
        rows += len(chunk)
        dropped += left_out
        if not len(chunk):
            continue
        for name, mechanism in mechanisms.items():
            with _row_named(file, chunk, name):
                reports = cells_to_reports(mechanism, chunk.columns[name])
            tallies[name].update(reports)
            if name in kept:
                kept[name].append(reports)
    _tell_dropped(paths, rows, dropped)
    whole = {name: Reports(mechanisms[name], np.concatenate([part.data for part in parts])) for name, parts in kept.items()}
    return Survey(
        rows,
        {name: _estimate(paths[0], name, tally, population, options.get(name, {})) for name, tally in tallies.items()},
        tuple(
            joint({name: mechanisms[name] for name in table}, {name: whole[name] for name in table}, population)
            for table in tables
        ),
    )


def _recorded_mechanisms(paths: Sequence[Path]) -> dict[str, Mechanism]:
    found: dict[str, Mechanism] = {}
    for path in paths:
        if not columns_file(path).is_file():
            beside = "" if path == STANDARD_STREAM else f", or put that into {columns_file(path).name} beside it"
            raise SurveyError(f"{path}: say how its columns were randomized{beside}")
        mechanisms = read_columns(columns_file(path))
        if found and mechanisms != found:
            raise SurveyError(f"{path} was randomized in another way than {paths[0]}: estimate them one by one")
        found = mechanisms
    return found


def _paths(given: Paths) -> list[Path]:
    paths = [Path(given)] if isinstance(given, Path | str) else [Path(path) for path in given]
    if not paths:
        raise SurveyError("there is no file to read")
    for path in paths:
        check_file(path)
        if sum(_same(path, other) for other in paths) > 1:
            raise SurveyError(f"{path} is given twice: its people would be counted twice")
    return paths


def _same(one: Path, other: Path) -> bool:
    return one == other or (STANDARD_STREAM not in (one, other) and one.exists() and other.exists() and one.samefile(other))


def _check_missing(missing: Missing, mechanisms: Mapping[str, Mechanism]) -> None:
    if missing not in get_args(Missing):
        raise ParameterError("missing", missing, f"must be one of {', '.join(get_args(Missing))}")
    for name, mechanism in mechanisms.items():
        if missing == "label" and MISSING_LABEL not in mechanism.labels:
            raise SurveyError(f"column {name!r}: for missing values to be a label, {MISSING_LABEL!r} must be one of its labels")


def _complete_chunks(
    paths: Sequence[Path],
    mechanisms: Mapping[str, Mechanism],
    keep: Sequence[str],
    missing: Missing,
    layout: TableFormat | None,
    progress: Progress | None,
) -> Iterator[tuple[Path, Chunk, int]]:
    """Each chunk of each file after what `missing` does to it, with its file and how many of its rows were dropped."""
    for number, path in enumerate(paths):

        def part_read(part: float, before: int = number) -> None:
            if progress:
                progress((before + part) / len(paths))

        for chunk in read_chunks(path, [*mechanisms, *keep], part_read, layout):
            if missing == "refuse":
                yield path, chunk, 0
                continue
            gaps = {name: _gaps(mechanism, chunk.columns[name]) for name, mechanism in mechanisms.items()}
            if missing == "drop":
                left_out = set().union(*gaps.values())
                yield path, chunk.without(left_out) if left_out else chunk, len(left_out)
                continue
            for name, positions in gaps.items():
                for position in positions:
                    chunk.columns[name][position] = MISSING_LABEL
            yield path, chunk, 0


def _gaps(mechanism: Mechanism, cells: Sequence[Any]) -> set[int]:
    # Where any text is an answer, "none" is one too.
    texts = [str(label) for label in mechanism.labels] if mechanism.labels else None
    return {position for position, cell in enumerate(cells) if is_missing(cell, texts)}


def _tell_dropped(paths: Sequence[Path], rows: int, dropped: int) -> None:
    where = ", ".join(map(str, paths))
    if not rows:
        raise SurveyError(f"{where}: every row has a missing value, so that none is left")
    if dropped:
        warnings.warn(
            f"{dropped:,} of {rows + dropped:,} rows of {where} have a missing value and were dropped: "
            "the result is about those who answered, and who did not answer is not protected",
            SurveyWarning,
            stacklevel=3,
        )


def _estimate(path: Path, name: str, tally: Tally, population: int | None, options: Mapping[str, Any]) -> Estimate:
    try:
        return tally.estimate(population, **options)
    except TypeError:
        taken = ", ".join(map(repr, options))
        raise SurveyError(f"{path}, column {name!r}: {type(tally.mechanism).__name__} has no option {taken}") from None
    except ParameterError as error:
        raise SurveyError(f"{path}, column {name!r}: {error}") from None


def randomize_file(
    path: Paths,
    output: Path | str,
    mechanisms: Mapping[str, Mechanism],
    *,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    prepare: Mapping[str, Callable[[list[Any]], Sequence[Any]]] | None = None,
    source: Source | None = None,
    missing: Missing = "refuse",
    layout: TableFormat | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a file in which the named columns of one file or several are randomized, and beside it how; returns its rows.

    Other columns are left out unless `keep` names them: they would hold people's true data. Nothing is written unless all can be.
    What `prepare` does to a column's cells, such as putting them into buckets, is done before they are randomized.
    Warns (SurveyWarning) if a column was randomized before, which the record beside each file of answers tells. With `-` as the
    output, the rows go to standard output, and how they were randomized is not written.
    """
    paths, output = _paths(path), Path(output)
    if not mechanisms:
        raise SurveyError("there is no column to randomize")
    for name in set(keep) & set(mechanisms):
        raise SurveyError(f"column {name!r} is to be randomized, so it cannot be kept as it is")
    _check_missing(missing, mechanisms)
    described = write_columns(mechanisms)
    losses = {name: mechanism.epsilon for name, mechanism in mechanisms.items()}
    for file in paths:
        refuse_existing(file, output, overwrite)
        warn_of_earlier(file, losses)
    rows = dropped = 0
    with table_writer(output, [*mechanisms, *keep]) as write:
        for file, chunk, left_out in _complete_chunks(paths, mechanisms, keep, missing, layout, progress):
            rows += len(chunk)
            dropped += left_out
            if not len(chunk):
                continue
            randomized: dict[str, list[Any]] = {}
            for name, mechanism in mechanisms.items():
                with _row_named(file, chunk, name):
                    cells = chunk.columns[name]
                    if prepare and name in prepare:
                        cells = list(prepare[name](cells))
                    reports = mechanism.privatize(cells_to_values(mechanism, cells), source)
                randomized[name] = reports_to_cells(reports)
            write(randomized | {name: chunk.columns[name] for name in keep})
        _tell_dropped(paths, rows, dropped)
        for file in paths:  # before the output is there: what is published is always on record
            record_randomization(file, output, losses)
    if output != STANDARD_STREAM:
        columns_file(output).write_text(described, encoding="utf-8")
    return rows


def refuse_existing(path: Path, output: Path, overwrite: bool) -> None:
    """Refuse an output that exists, or whose description does, unless it may be overwritten; never overwrite what is read."""
    if output == STANDARD_STREAM:
        return
    for target in (output, columns_file(output)):
        if target.exists() and (not overwrite or _same(target, path)):
            raise SurveyError(f"{target} exists already")


@contextmanager
def _row_named(path: Path, chunk: Chunk, column: str) -> Iterator[None]:
    """Errors that tell a position in the chunk become errors that tell the row of the file. They hold no value."""
    try:
        yield
    except (AnswerError, ReportFormatError) as error:
        where = f"rows from {chunk.first_row}" if error.position is None else f"row {chunk.row(error.position)}"
        raise SurveyError(f"{path}, {where}, column {column!r}: the value {error.rule}") from None
