"""Randomize a file of answers, or estimate from a file of reports, in constant memory."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from deniable.errors import AnswerError, MissingExtraError, ParameterError, ReportFormatError, SurveyError
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables import Table, joint
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.reports import Reports, Tally
from deniable.randomness import Source
from deniable.survey.columns import read_columns, write_columns
from deniable.survey.reading import Chunk, check_file, is_parquet, read_chunks
from deniable.survey.texts import cells_to_reports, cells_to_values, reports_to_cells

__all__ = ["Survey", "columns_file", "estimate_file", "randomize_file", "refuse_existing", "table_writer"]

Progress = Callable[[float], None]


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
    path: Path | str,
    mechanisms: Mapping[str, Mechanism] | None = None,
    *,
    population: int | None = None,
    tables: Sequence[Sequence[str]] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Progress | None = None,
) -> Survey:
    """Estimate each column of a CSV or Parquet file of reports, and the joint tables of the columns named in `tables`.

    `options` are a column's own arguments for its mechanism's `estimate`, such as the estimator, or RAPPOR's candidates.
    Without `mechanisms` they are read from the file that `randomize_file` leaves beside its output.
    """
    path = Path(path)
    check_file(path)
    if mechanisms is None:
        if not columns_file(path).is_file():
            raise SurveyError(
                f"{path}: say how its columns were randomized, or put that into {columns_file(path).name} beside it"
            )
        mechanisms = read_columns(columns_file(path))
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
    rows = 0
    for chunk in read_chunks(path, list(mechanisms), progress):
        rows += len(chunk)
        for name, mechanism in mechanisms.items():
            with _row_named(path, chunk, name):
                reports = cells_to_reports(mechanism, chunk.columns[name])
            tallies[name].update(reports)
            if name in kept:
                kept[name].append(reports)
    whole = {name: Reports(mechanisms[name], np.concatenate([part.data for part in parts])) for name, parts in kept.items()}
    return Survey(
        rows,
        {name: _estimate(path, name, tally, population, options.get(name, {})) for name, tally in tallies.items()},
        tuple(
            joint({name: mechanisms[name] for name in table}, {name: whole[name] for name in table}, population)
            for table in tables
        ),
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
    path: Path | str,
    output: Path | str,
    mechanisms: Mapping[str, Mechanism],
    *,
    keep: Sequence[str] = (),
    overwrite: bool = False,
    prepare: Mapping[str, Callable[[list[Any]], Sequence[Any]]] | None = None,
    source: Source | None = None,
    progress: Progress | None = None,
) -> int:
    """Write a file in which the named columns are randomized, and beside it how; returns the number of rows.

    Other columns are left out unless `keep` names them: they would hold people's true data. Nothing is written unless all can be.
    What `prepare` does to a column's cells, such as putting them into buckets, is done before they are randomized.
    """
    path, output = Path(path), Path(output)
    if not mechanisms:
        raise SurveyError("there is no column to randomize")
    for name in set(keep) & set(mechanisms):
        raise SurveyError(f"column {name!r} is to be randomized, so it cannot be kept as it is")
    refuse_existing(path, output, overwrite)
    described = write_columns(mechanisms)
    rows = 0
    with table_writer(output, [*mechanisms, *keep]) as write:
        for chunk in read_chunks(path, [*mechanisms, *keep], progress):
            rows += len(chunk)
            randomized: dict[str, list[Any]] = {}
            for name, mechanism in mechanisms.items():
                with _row_named(path, chunk, name):
                    cells = chunk.columns[name]
                    if prepare and name in prepare:
                        cells = list(prepare[name](cells))
                    reports = mechanism.privatize(cells_to_values(mechanism, cells), source)
                randomized[name] = reports_to_cells(reports)
            write(randomized | {name: chunk.columns[name] for name in keep})
    columns_file(output).write_text(described, encoding="utf-8")
    return rows


def refuse_existing(path: Path, output: Path, overwrite: bool) -> None:
    """Refuse an output that exists, or whose description does, unless it may be overwritten; never overwrite what is read."""
    for target in (output, columns_file(output)):
        if target.exists() and (not overwrite or target.samefile(path)):
            raise SurveyError(f"{target} exists already")


@contextmanager
def _row_named(path: Path, chunk: Chunk, column: str) -> Iterator[None]:
    """Errors that tell a position in the chunk become errors that tell the row of the file. They hold no value."""
    try:
        yield
    except (AnswerError, ReportFormatError) as error:
        where = f"rows from {chunk.first_row}" if error.position is None else f"row {chunk.first_row + error.position}"
        raise SurveyError(f"{path}, {where}, column {column!r}: the value {error.rule}") from None


@contextmanager
def table_writer(output: Path, columns: Sequence[str]) -> Iterator[Callable[[dict[str, list[Any]]], None]]:
    """A function that appends rows; what it wrote takes the output's place only if all went well."""
    partial = output.with_name(output.name + ".partial")
    try:
        with (_parquet_writer if is_parquet(output) else _csv_writer)(partial, columns) as write:
            yield write
        partial.replace(output)
    except OSError as error:
        raise SurveyError(f"{output} cannot be written: {error.strerror}") from None
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _csv_writer(path: Path, columns: Sequence[str]) -> Iterator[Callable[[dict[str, list[Any]]], None]]:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(columns)
        yield lambda rows: writer.writerows(zip(*(rows[name] for name in columns), strict=True))


@contextmanager
def _parquet_writer(path: Path, columns: Sequence[str]) -> Iterator[Callable[[dict[str, list[Any]]], None]]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("pyarrow", "frames", "writing Parquet") from None
    writer: Any = None

    def write(rows: dict[str, list[Any]]) -> None:
        nonlocal writer
        table = pa.table({name: rows[name] for name in columns}, schema=writer.schema if writer else None)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer:
            writer.close()
