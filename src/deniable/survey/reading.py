"""Read the columns of a CSV or Parquet file, some thousand rows at a time."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deniable.errors import MissingExtraError, SurveyError

__all__ = ["Chunk", "check_file", "is_parquet", "read_chunks"]

CHUNK_ROWS = 1 << 16


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of some columns."""

    first_row: int
    """The number of the first one; the first row after a header is row 1."""
    columns: dict[str, list[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def is_parquet(path: Path) -> bool:
    """Whether the file's name says Parquet; anything else is read and written as CSV."""
    return path.suffix.lower() in {".parquet", ".pq"}


def check_file(path: Path) -> None:
    """Refuse what is not a file."""
    if not path.is_file():
        raise SurveyError(f"{path} is not a file")


def read_chunks(path: Path, columns: Sequence[str] | None, progress: Callable[[float], None] | None = None) -> Iterator[Chunk]:
    """The named columns, or all of them for None, chunk by chunk; `progress` is told the share of the file that has been read."""
    check_file(path)
    rows = 0
    for chunk in (_parquet_chunks if is_parquet(path) else _csv_chunks)(path, columns, progress or (lambda share: None)):
        rows += len(chunk)
        yield chunk
    if not rows:
        raise SurveyError(f"{path} holds no rows")


def _csv_chunks(path: Path, columns: Sequence[str] | None, progress: Callable[[float], None]) -> Iterator[Chunk]:
    size = path.stat().st_size
    with path.open("rb") as content, io.TextIOWrapper(content, encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file, strict=True)
        row = 0
        try:
            header = next(reader, None)
            if header is None:
                raise SurveyError(f"{path} is empty: its first line must name the columns")
            columns = header if columns is None else columns
            places = [_place(path, header, name) for name in columns]
            taken: list[list[str]] = [[] for _ in columns]
            for row, fields in enumerate(reader, 1):
                if len(fields) != len(header):
                    raise SurveyError(f"{path}, row {row}: {len(fields)} fields where the header has {len(header)}")
                for values, place in zip(taken, places, strict=True):
                    values.append(fields[place])
                if row % CHUNK_ROWS == 0:
                    progress(content.tell() / size)
                    yield Chunk(row - CHUNK_ROWS + 1, dict(zip(columns, taken, strict=True)))
                    taken = [[] for _ in columns]
        except csv.Error as error:
            raise SurveyError(f"{path}, row {row + 1}: not CSV: {error}") from None
        except UnicodeDecodeError:
            raise SurveyError(f"{path}, near row {row + 1}: not UTF-8 text") from None
        if columns and taken[0]:
            yield Chunk(row - len(taken[0]) + 1, dict(zip(columns, taken, strict=True)))
    progress(1.0)


def _parquet_chunks(path: Path, columns: Sequence[str] | None, progress: Callable[[float], None]) -> Iterator[Chunk]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("pyarrow", "frames", "reading Parquet") from None
    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names if columns is None else columns
            for name in columns:
                _place(path, file.schema_arrow.names, name)
            total, row = file.metadata.num_rows, 0
            for batch in file.iter_batches(CHUNK_ROWS, columns=list(columns)):
                yield Chunk(row + 1, {name: batch.column(name).to_pylist() for name in columns})
                row += batch.num_rows
                progress(row / total)
    except SurveyError:
        raise
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError) as error:
        # Whatever a damaged file makes Arrow say: it may quote what stands there.
        raise SurveyError(f"{path} is not Parquet, or is damaged: {type(error).__name__}") from None


def _place(path: Path, header: Sequence[str], name: str) -> int:
    if list(header).count(name) > 1:
        raise SurveyError(f"{path} has more than one column {name!r}")
    if name not in header:
        raise SurveyError(f"{path} has no column {name!r}; it has {', '.join(map(repr, header))}")
    return list(header).index(name)
