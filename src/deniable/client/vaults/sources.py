"""Where a vault's rows come from: CSV and Parquet files, checked cell by cell. No message ever
shows a cell."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from deniable.errors import ImportDataError
from deniable.table_file import DelimitedTable, TableFormat, open_parquet, open_text

__all__ = ["KINDS", "checked", "read_csv", "read_parquet"]

KINDS = ("INTEGER", "REAL", "TEXT")

# No leading zeros and no plus sign: a number that would not be written the same way again stays
# text (postcodes, phones).
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_REAL = re.compile(r"-?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")
_INTEGER_DIGITS = 19
_CONVERT: dict[str, Callable[[str], object]] = {"INTEGER": int, "REAL": float, "TEXT": str}

Table = tuple[dict[str, str], Iterator[Sequence[object]]]


def _fits(kind: str, cell: object) -> bool:
    if cell is None:
        return True
    if kind == "TEXT":
        return isinstance(cell, str) and "\0" not in cell
    if isinstance(cell, bool):
        return False
    if kind == "INTEGER":
        return isinstance(cell, int) and -(1 << 63) <= cell < 1 << 63
    return isinstance(cell, int | float) and not math.isnan(cell)


def checked(
    columns: Mapping[str, str], rows: Iterable[Sequence[object]]
) -> Iterator[Sequence[object]]:
    """The same rows, each with one cell of the right kind (or None) for each column."""
    kinds = list(columns.items())
    for number, row in enumerate(rows, start=1):
        if len(row) != len(kinds):
            raise ImportDataError(
                f"row {number} has {len(row)} cells, and there are {len(kinds)} columns"
            )
        for (column, kind), cell in zip(kinds, row, strict=True):
            if not _fits(kind, cell):
                raise ImportDataError(
                    f"row {number}, column {column!r}: the cell is not {kind} and not empty"
                )
        yield row


def read_csv(path: Path, kinds: Mapping[str, str] | None) -> Table:
    """The columns and rows of a CSV file; `kinds`, if given, are those of the table the rows go
    to."""
    with _opened(path) as table:
        return _typed(path, kinds, table)


def _typed(path: Path, kinds: Mapping[str, str] | None, table: DelimitedTable) -> Table:
    header = table.header
    known = {column.lower(): kind for column, kind in (kinds or {}).items()}
    columns = {column: known.get(column.lower(), "TEXT") for column in header}
    if len(columns) < len(header):
        raise ImportDataError(f"{path} names a column twice")
    if kinds is None:
        columns = dict(zip(header, _inferred(table.rows, len(header)), strict=True))
    return columns, _csv_rows(path, list(columns.values()), list(columns))


def _opened(path: Path) -> AbstractContextManager[DelimitedTable]:
    return open_text(path, ImportDataError, TableFormat(delimiter=","))


def _inferred(lines: Iterable[list[str]], n_columns: int) -> list[str]:
    """The narrowest kind that holds all of a column's cells; a column without any is TEXT."""
    integer, real, filled = [True] * n_columns, [True] * n_columns, [False] * n_columns
    for line in lines:
        for place, cell in enumerate(line[:n_columns]):
            if cell:
                filled[place] = True
                integer[place] = integer[place] and _is_integer(cell)
                real[place] = real[place] and _is_real(cell)
    pairs = zip(integer, real, filled, strict=True)
    return [
        "TEXT" if not some else "INTEGER" if whole else "REAL" if number else "TEXT"
        for whole, number, some in pairs
    ]


def _is_integer(cell: str) -> bool:
    return (
        bool(_INTEGER.fullmatch(cell))
        and len(cell) <= _INTEGER_DIGITS + 1
        and -(1 << 63) <= int(cell) < 1 << 63
    )


def _is_real(cell: str) -> bool:
    # a whole number too large for a float to hold exactly is more likely a code
    if _INTEGER.fullmatch(cell):
        return _is_integer(cell) and abs(int(cell)) <= 1 << 53
    return _REAL.fullmatch(cell) is not None


def _csv_rows(path: Path, kinds: Sequence[str], names: Sequence[str]) -> Iterator[Sequence[object]]:
    matches: dict[str, Callable[[str], bool]] = {
        "INTEGER": _is_integer,
        "REAL": _is_real,
        "TEXT": lambda _: True,
    }
    with _opened(path) as table:
        for number, line in enumerate(filter(None, table.rows), start=1):
            row: list[object] = []
            for place, cell in enumerate(line):
                kind = kinds[place] if place < len(kinds) else "TEXT"
                if cell and not matches[kind](cell):
                    raise ImportDataError(
                        f"row {number}, column {names[place]!r}: the cell is not {kind} and not"
                        " empty"
                    )
                row.append(_CONVERT[kind](cell) if cell else None)
            yield row


def read_parquet(path: Path) -> Table:
    """The columns and rows of a Parquet file."""
    with open_parquet(path, ImportDataError) as file:
        import pyarrow  # noqa: PLC0415 - an extra

        schema = file.schema_arrow
    if len(set(schema.names)) < len(schema.names):
        raise ImportDataError(f"{path} names a column twice")
    plans = {field.name: _plan(pyarrow.types, field) for field in schema}
    return {name: kind for name, (kind, _) in plans.items()}, _parquet_rows(
        path, [convert for _, convert in plans.values()]
    )


def _plan(types: Any, field: Any) -> tuple[str, Callable[[Any], object]]:
    """The kind of a Parquet column, and how its values become cells."""
    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if types.is_boolean(kind) or types.is_integer(kind):
        return "INTEGER", int
    if types.is_floating(kind):
        return "REAL", lambda value: None if math.isnan(value) else value
    if types.is_string(kind) or types.is_large_string(kind):
        return "TEXT", str
    if types.is_date(kind) or types.is_timestamp(kind):
        return "TEXT", lambda value: value.isoformat()
    raise ImportDataError(
        f"column {field.name!r} is of type {kind}; numbers, text, dates and truth values can be"
        " imported"
    )


def _parquet_rows(
    path: Path, converts: Sequence[Callable[[Any], object]]
) -> Iterator[Sequence[object]]:
    with open_parquet(path, ImportDataError) as file:
        for batch in file.iter_batches():
            for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                yield [
                    None if cell is None else convert(cell)
                    for cell, convert in zip(row, converts, strict=True)
                ]
