"""Read the columns of a CSV, Parquet, Excel or Stata file in chunks of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from deniable.errors import SurveyError
from deniable.survey.spelling import cell_text
from deniable.table_file import (
    STANDARD_STREAM,
    TableFormat,
    kind_of,
    open_parquet,
    open_sheet,
    open_spss,
    open_stata,
    open_text,
)

__all__ = ["Chunk", "check_file", "read_chunks"]

CHUNK_ROWS = 1 << 16
_CHOSEN = frozenset({"y", "yes", "1", "true", "checked", "x"})
_NOT_CHOSEN = frozenset({"", "n", "no", "0", "false", "unchecked"})

Progress = Callable[[float], None]
CheckHeader = Callable[[Path, Sequence[str]], None]


class _Options(NamedTuple):
    """The columns of a multiple-choice question that has one per option, as LimeSurvey and REDCap
    export it."""

    places: tuple[int, ...]
    labels: tuple[str, ...]

    def chosen(self, path: Path, row: int, fields: Sequence[Any]) -> list[str]:
        """The options that a person chose."""
        found = []
        for place, label in zip(self.places, self.labels, strict=True):
            text = "" if fields[place] is None else cell_text(fields[place]).lower()
            if text in _CHOSEN or text == label.lower():
                found.append(label)
            elif text not in _NOT_CHOSEN:
                rule = (
                    f"one of {', '.join(sorted(_CHOSEN))} or"
                    f" {', '.join(sorted(_NOT_CHOSEN - {''}))}, or empty"
                )
                raise SurveyError(f"{path}, row {row}, option {label!r}: the value must be {rule}")
        return found


class _Wanted(NamedTuple):
    """Which columns are read, all of them for None, and what is checked before."""

    columns: Sequence[str] | None
    check_header: CheckHeader | None

    def places(self, path: Path, header: Sequence[str]) -> dict[str, int | _Options]:
        if self.check_header is not None:
            self.check_header(path, header)
        return {
            name: _place(path, header, name)
            for name in (header if self.columns is None else self.columns)
        }


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of some columns."""

    first_row: int
    """The number of the first one; the first row after a header is row 1."""
    columns: dict[str, list[Any]]
    numbers: tuple[int, ...] | None = None
    """The number of each row, if rows in between were dropped."""

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def row(self, position: int) -> int:
        """The number of the row at a position of the chunk."""
        return self.first_row + position if self.numbers is None else self.numbers[position]

    def without(self, positions: set[int]) -> Chunk:
        """The rows at all other positions."""
        left = [position for position in range(len(self)) if position not in positions]
        columns = {
            name: [cells[position] for position in left] for name, cells in self.columns.items()
        }
        return Chunk(self.first_row, columns, tuple(self.row(position) for position in left))


def check_file(path: Path) -> None:
    """Refuse what is neither a file nor standard input."""
    if path != STANDARD_STREAM and not path.is_file():
        raise SurveyError(f"{path} is not a file")


def read_chunks(
    path: Path,
    columns: Sequence[str] | None,
    progress: Progress | None = None,
    layout: TableFormat | None = None,
    check_header: CheckHeader | None = None,
) -> Iterator[Chunk]:
    """The named columns, or all of them for None, chunk by chunk; `progress` is called with the
    fraction of the file read so far.

    `-` is standard input, as delimited text. `check_header` is called with the file and the names
    of all its columns.
    """
    check_file(path)
    read = {
        "parquet": _parquet_chunks,
        "excel": _excel_chunks,
        "stata": _frame_chunks,
        "spss": _frame_chunks,
        "text": _text_chunks,
    }[kind_of(path)]
    rows = 0
    for chunk in read(
        path, _Wanted(columns, check_header), progress or (lambda part: None), layout
    ):
        rows += len(chunk)
        yield chunk
    if not rows:
        raise SurveyError(f"{path} has no rows")


def _without_qualtrics(rows: Iterator[list[str]]) -> Iterator[list[str]]:
    """The rows without the two that Qualtrics writes below the header: the questions' texts, and
    their import ids."""
    first = list(islice(rows, 2))
    if len(first) == 2 and any(cell.startswith('{"ImportId"') for cell in first[1]):
        first = []
    return chain(first, rows)


def _text_chunks(
    path: Path, wanted: _Wanted, progress: Progress, layout: TableFormat | None
) -> Iterator[Chunk]:
    with open_text(path, SurveyError, layout, wanted.columns) as table:
        for chunk in _chunks(path, table.header, _without_qualtrics(table.rows), wanted):
            progress(table.fraction_read())
            yield chunk
    progress(1.0)


def _excel_chunks(
    path: Path, wanted: _Wanted, progress: Progress, layout: TableFormat | None
) -> Iterator[Chunk]:
    with open_sheet(path, SurveyError, layout) as rows:
        header = ["" if name is None else str(name) for name in next(rows, ())]
        while header and not header[-1]:
            header.pop()
        if not header:
            raise SurveyError(f"{path} is empty: its first row must name the columns")
        yield from _chunks(path, header, _filled(rows, len(header)), wanted)
    progress(1.0)


def _frame_chunks(
    path: Path, wanted: _Wanted, progress: Progress, _: TableFormat | None
) -> Iterator[Chunk]:
    opened = open_spss if kind_of(path) == "spss" else open_stata
    with opened(path, SurveyError, CHUNK_ROWS) as frames:
        row = 0
        for frame in frames:
            columns = frame.astype(object).where(frame.notna(), None)
            header = [str(name) for name in columns.columns]
            for chunk in _chunks(path, header, columns.itertuples(index=False, name=None), wanted):
                yield Chunk(row + 1, chunk.columns)
            row += len(frame)
    progress(1.0)


def _filled(rows: Iterator[tuple[Any, ...]], width: int) -> Iterator[tuple[Any, ...]]:
    """Rows as wide as the header, up to the last nonempty one: sheets continue with cells that are
    only formatted."""
    empty = 0
    for row in rows:
        if all(cell is None for cell in row):
            empty += 1
            continue
        for _ in range(empty):
            yield (None,) * width
        empty = 0
        cut = len(row) - next(
            (place for place, cell in enumerate(reversed(row)) if cell is not None), 0
        )
        yield row[: max(cut, width)] + (None,) * (width - len(row))


def _chunks(
    path: Path, header: Sequence[str], rows: Iterator[Sequence[Any]], wanted: _Wanted
) -> Iterator[Chunk]:
    places = wanted.places(path, header)
    columns = list(places)
    taken: list[list[Any]] = [[] for _ in columns]
    row = 0
    for row, fields in enumerate(rows, 1):
        if len(fields) != len(header):
            raise SurveyError(
                f"{path}, row {row}: {len(fields)} fields, but the header has {len(header)}"
            )
        for values, place in zip(taken, places.values(), strict=True):
            values.append(
                fields[place] if isinstance(place, int) else place.chosen(path, row, fields)
            )
        if row % CHUNK_ROWS == 0:
            yield Chunk(row - CHUNK_ROWS + 1, dict(zip(columns, taken, strict=True)))
            taken = [[] for _ in columns]
    if columns and taken[0]:
        yield Chunk(row - len(taken[0]) + 1, dict(zip(columns, taken, strict=True)))


def _parquet_chunks(
    path: Path, wanted: _Wanted, progress: Progress, _: TableFormat | None
) -> Iterator[Chunk]:
    with open_parquet(path, SurveyError) as file:
        places = wanted.places(path, file.schema_arrow.names)
        total, row = file.metadata.num_rows, 0
        names = [
            file.schema_arrow.names[at] for place in places.values() for at in _all_places(place)
        ]
        for batch in file.iter_batches(CHUNK_ROWS, columns=names):
            yield Chunk(
                row + 1,
                {
                    name: _parquet_cells(path, file, batch, row, place)
                    for name, place in places.items()
                },
            )
            row += batch.num_rows
            progress(row / total)


def _all_places(place: int | _Options) -> tuple[int, ...]:
    return (place,) if isinstance(place, int) else place.places


def _parquet_cells(path: Path, file: Any, batch: Any, row: int, place: int | _Options) -> list[Any]:
    """The cells of a column, or the options chosen in several."""
    names = file.schema_arrow.names
    if isinstance(place, int):
        return list(batch.column(names[place]).to_pylist())
    columns = [batch.column(names[at]).to_pylist() for at in place.places]
    local = _Options(tuple(range(len(columns))), place.labels)
    return [
        local.chosen(path, row + number, fields)
        for number, fields in enumerate(zip(*columns, strict=True), 1)
    ]


def _place(path: Path, header: Sequence[str], name: str) -> int | _Options:
    if list(header).count(name) > 1:
        raise SurveyError(f"{path} has more than one column {name!r}")
    if name in header:
        return list(header).index(name)
    # LimeSurvey: news[web]; REDCap: news___web; KoboToolbox: news/web
    option = re.compile(rf"{re.escape(name)}(?: ?\[(.+)\]|___(.+)|/(.+))")
    found = [(at, match) for at, match in enumerate(map(option.fullmatch, header)) if match]
    if len(found) > 1:
        return _Options(
            tuple(at for at, _ in found),
            tuple(match[1] or match[2] or match[3] for _, match in found),
        )
    raise SurveyError(f"{path} has no column {name!r}; it has {', '.join(map(repr, header))}")
