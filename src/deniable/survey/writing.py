"""Write a table of reports: CSV, TSV or either with gzip, Parquet or Stata by its name, or CSV to
standard output."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from deniable.errors import MissingExtraError, SurveyError
from deniable.survey.spelling import cell_text
from deniable.table_file import STANDARD_STREAM, kind_of

__all__ = ["table_writer"]

_IN_MEMORY = 1 << 20

Write = Callable[[dict[str, list[Any]]], None]


@contextmanager
def table_writer(output: Path, columns: Sequence[str]) -> Iterator[Write]:
    """A function that appends rows; what it wrote takes the output's place, or goes to standard
    output, only if all went well."""
    if kind_of(output) == "excel":
        raise SurveyError(
            f"{output}: Excel files are only read; name the output .csv, .tsv, .parquet or .dta"
        )
    try:
        if output == STANDARD_STREAM:
            # holds what is about to be published, and nothing else
            with tempfile.SpooledTemporaryFile(_IN_MEMORY) as spool:
                with _text_writer(cast("BinaryIO", spool), output, columns) as write:
                    yield write
                spool.seek(0)
                shutil.copyfileobj(spool, sys.stdout.buffer)
                sys.stdout.buffer.flush()
            return
        partial = output.with_name(output.name + ".partial")
        try:
            if kind_of(output) == "parquet":
                with _parquet_writer(partial, columns) as write:
                    yield write
            elif kind_of(output) == "stata":
                with _stata_writer(partial, output, columns) as write:
                    yield write
            else:
                with partial.open("wb") as file, _text_writer(file, output, columns) as write:
                    yield write
            partial.replace(output)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise SurveyError(f"{output} cannot be written: {error.strerror}") from None


@contextmanager
def _text_writer(file: BinaryIO, output: Path, columns: Sequence[str]) -> Iterator[Write]:
    name = output.name.lower()
    packed = gzip.GzipFile(filename="", fileobj=file, mode="wb") if name.endswith(".gz") else None
    text = io.TextIOWrapper(
        cast("BinaryIO", packed or file), encoding="utf-8", newline="", write_through=True
    )
    delimiter = "\t" if Path(name.removesuffix(".gz")).suffix in {".tsv", ".tab"} else ","
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    yield lambda rows: writer.writerows(zip(*(_texts(rows[name]) for name in columns), strict=True))
    text.flush()
    text.detach()
    if packed:
        packed.close()


def _texts(cells: list[Any]) -> list[Any]:
    """The cells, with dates in the form in which labels have them."""
    return [cell_text(cell) if isinstance(cell, datetime.date) else cell for cell in cells]


@contextmanager
def _parquet_writer(path: Path, columns: Sequence[str]) -> Iterator[Write]:
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("pyarrow", "frames", "writing Parquet") from None
    writer: Any = None

    def write(rows: dict[str, list[Any]]) -> None:
        nonlocal writer
        try:
            table = pa.table(
                {name: rows[name] for name in columns}, schema=writer.schema if writer else None
            )
        except (pa.ArrowException, TypeError, ValueError):
            raise SurveyError(
                "a column has cells of several types, which Parquet cannot store: write CSV"
            ) from None
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)

    try:
        yield write
    finally:
        if writer:
            writer.close()


@contextmanager
def _stata_writer(partial: Path, output: Path, columns: Sequence[str]) -> Iterator[Write]:
    """Stata files are written at once, from memory; texts are stored with value labels."""
    try:
        import pandas as pd  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("pandas", "frames", "writing Stata files") from None
    cells: dict[str, list[Any]] = {name: [] for name in columns}

    def write(rows: dict[str, list[Any]]) -> None:
        for name in columns:
            cells[name] += rows[name]

    yield write
    frame = pd.DataFrame(cells)
    for name in columns:
        if frame[name].dtype == object:
            frame[name] = pd.Categorical(frame[name])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a name that Stata cannot have would be changed
            frame.to_stata(partial, write_index=False)
    except (ValueError, Warning):
        rule = "names must be valid in Stata (letters, digits and underscores, at most 32)"
        raise SurveyError(f"{output}: {rule}, or write CSV") from None
