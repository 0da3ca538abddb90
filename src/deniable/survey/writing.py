"""Write a table of reports: CSV, TSV or either with gzip, Parquet, Stata or SPSS by its name, or
CSV to standard output."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from deniable.display import NUMBER
from deniable.errors import MissingExtraError, SurveyError
from deniable.survey.spelling import cell_text
from deniable.table_file import STANDARD_STREAM, kind_of

__all__ = ["table_writer"]

_IN_MEMORY = 1 << 20
_DIGITS, _CODE = 15, re.compile(r"[+-]?0[0-9]")

Write = Callable[[dict[str, list[Any]]], None]


@contextmanager
def table_writer(
    output: Path, columns: Sequence[str], labels: Mapping[str, Sequence[Any]] | None = None
) -> Iterator[Write]:
    """A function that appends rows; what it wrote takes the output's place, or goes to standard
    output, only if all went well.

    `labels` are those that a column's cells may have, in their order: Stata and SPSS store them as
    codes, which are then the same in all files.
    """
    if kind_of(output) == "excel":
        raise SurveyError(
            f"{output}: Excel files are only read; name the output .csv, .tsv, .parquet, .dta"
            " or .sav"
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
            elif kind_of(output) in _WHOLE:
                with _whole_writer(partial, output, columns, labels or {}) as write:
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
def _whole_writer(
    partial: Path, output: Path, columns: Sequence[str], labels: Mapping[str, Sequence[Any]]
) -> Iterator[Write]:
    """Files of statistics programs are written at once, from memory; texts are stored as numbers
    with value labels."""
    try:
        import pandas as pd  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("pandas", "frames", f"writing {output.suffix} files") from None
    cells: dict[str, list[Any]] = {name: [] for name in columns}

    def write(rows: dict[str, list[Any]]) -> None:
        for name in columns:
            cells[name] += rows[name]

    yield write
    save, rule = _WHOLE[kind_of(output)]
    try:
        frame = pd.DataFrame({name: _series(pd, cells[name]) for name in columns})
        save(frame, partial, {name: _codes(frame[name], labels.get(name, ())) for name in columns})
    except MissingExtraError:
        raise
    except Exception:  # what pandas and pyreadstat raise may quote a cell
        raise SurveyError(f"{output}: {rule}, or write CSV") from None


def _series(pd: Any, cells: list[Any]) -> Any:
    """A column as numbers if all of its cells are, or spell, a number; else as texts."""
    blank = [cell is None or cell == "" for cell in cells]
    if all(none or _is_number(cell) for none, cell in zip(blank, cells, strict=True)):
        numbers = [None if none else float(cell) for none, cell in zip(blank, cells, strict=True)]
        whole = not any(blank) and all(number.is_integer() for number in numbers if number)
        return pd.Series(numbers, dtype="int64" if whole else "float64")
    texts = [None if none else cell_text(cell) for none, cell in zip(blank, cells, strict=True)]
    return pd.Series(texts, dtype=object)


def _codes(column: Any, labels: Sequence[Any]) -> list[str]:
    """The texts of a column in the order of their codes: the labels', and then the alphabet's."""
    if column.dtype != object:
        return []
    known = list(map(cell_text, labels))
    return [*known, *sorted(set(column.dropna()) - set(known))]


def _is_number(cell: Any) -> bool:
    if isinstance(cell, str):  # 007 is not 7, and a float has 15 digits
        return len(cell) <= _DIGITS and bool(re.fullmatch(NUMBER, cell)) and not _CODE.match(cell)
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _save_stata(frame: Any, path: Path, codes: Mapping[str, list[str]]) -> None:
    from pandas import CategoricalDtype  # noqa: PLC0415 - an extra

    for name in frame.columns:
        if frame[name].dtype == object:
            frame[name] = frame[name].astype(CategoricalDtype(codes[name]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a name that Stata cannot have would be changed
        frame.to_stata(path, write_index=False)


def _save_spss(frame: Any, path: Path, codes: Mapping[str, list[str]]) -> None:
    try:
        import pyreadstat  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("pyreadstat", "spss", "writing SPSS files") from None
    labels: dict[str, dict[int | float, str]] = {}
    for name in frame.columns:
        if frame[name].dtype == object:
            texts = codes[name]
            # rows of bits in hexadecimal are not labels
            if len(texts) <= _MOST_LABELS and all(
                len(text.encode()) <= _LABEL_BYTES for text in texts
            ):
                labels[name] = dict(enumerate(texts, 1))
                frame[name] = frame[name].map({text: at for at, text in labels[name].items()})
    pyreadstat.write_sav(frame, str(path), variable_value_labels=labels)


_MOST_LABELS, _LABEL_BYTES = 200, 120
"""SPSS cuts longer value labels."""
_WHOLE: dict[str, tuple[Callable[[Any, Path, Mapping[str, list[str]]], None], str]] = {
    "stata": (
        _save_stata,
        "names must be valid in Stata (letters, digits and underscores, at most 32)",
    ),
    "spss": (
        _save_spss,
        "names must be valid in SPSS (letters, digits and underscores, at most 64, a letter first)",
    ),
}
