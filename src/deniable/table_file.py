"""Table files, opened in one way: delimited text (CSV, TSV, gzip, any encoding), Parquet, Excel,
Stata and SPSS. No message shows a cell."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from deniable.errors import DeniableError, MissingExtraError, ParameterError

__all__ = [
    "DELIMITERS",
    "STANDARD_STREAM",
    "DelimitedTable",
    "TableFormat",
    "kind_of",
    "open_parquet",
    "open_sheet",
    "open_spss",
    "open_stata",
    "open_text",
]

DELIMITERS = ",;\t|"
STANDARD_STREAM = Path("-")
"""The name of standard input and of standard output."""
_SAMPLE_BYTES = 1 << 16
_SAMPLE_ROWS = 50
_UTF_16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_GZIP_MARK = b"\x1f\x8b"

Refusal = Callable[[str], Exception]
"""Makes an error from a message."""


@dataclass(frozen=True)
class TableFormat:
    """What a file's name does not say. None: the delimiter is detected, the encoding is UTF-8, the
    sheet is the first.

    >>> TableFormat(delimiter="tab").delimiter
    '\\t'
    """

    delimiter: str | None = None
    encoding: str | None = None
    sheet: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in ("tab", "\\t"):
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ParameterError("delimiter", self.delimiter, "must be one character, or 'tab'")
        try:
            # refuses codecs that are not text encodings, such as zip
            "a".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            raise ParameterError(
                "encoding", self.encoding, "must be a text encoding, such as latin-1 or cp1252"
            ) from None


def kind_of(path: Path) -> str:
    """`"parquet"`, `"excel"`, `"stata"`, `"spss"` or `"text"`, by the file's name."""
    kinds = {
        ".parquet": "parquet",
        ".pq": "parquet",
        ".xlsx": "excel",
        ".xlsm": "excel",
        ".dta": "stata",
        ".sav": "spss",
        ".zsav": "spss",
    }
    return kinds.get(path.suffix.lower(), "text")


class _Rewound(io.RawIOBase):
    """A stream that cannot be rewound, with what was already read put back in front."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = memoryview(head), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._head[: len(buffer)] or self._rest.read(len(buffer))
        self._head = self._head[len(part) :]
        buffer[: len(part)] = part
        return len(part)


def _peeked(stream: BinaryIO) -> tuple[bytes, BinaryIO]:
    head = stream.read(_SAMPLE_BYTES)
    return head, cast("BinaryIO", io.BufferedReader(_Rewound(head, stream), _SAMPLE_BYTES))


@dataclass
class DelimitedTable:
    """Delimited text being read."""

    header: list[str]
    rows: Iterator[list[str]]
    _position: Callable[[], float] = field(repr=False)

    def fraction_read(self) -> float:
        """The fraction of the file read so far; 0 if its size is not known."""
        return self._position()


@contextmanager
def open_text(
    path: Path,
    refusal: Refusal,
    layout: TableFormat | None = None,
    wanted: Sequence[str] | None = None,
    delimiters: str = DELIMITERS,
) -> Iterator[DelimitedTable]:
    """Delimited text, compressed with gzip or not, from a file or standard input.

    Without a delimiter in the layout, it is detected among `delimiters`, the first of them in case
    of a tie; `wanted` columns help.
    """
    layout = layout or TableFormat()
    with ExitStack() as stack:
        try:
            raw = (
                sys.stdin.buffer
                if path == STANDARD_STREAM
                else stack.enter_context(path.open("rb"))
            )
            size = 0 if path == STANDARD_STREAM else path.stat().st_size
            head, content = _peeked(raw)
            if head.startswith(_GZIP_MARK):
                head, content = _peeked(cast("BinaryIO", gzip.GzipFile(fileobj=content)))
        except (OSError, EOFError, zlib.error) as error:
            raise refusal(f"{path} cannot be read: {_reason(error)}") from None
        encoding = _encoding(layout, head)
        delimiter = layout.delimiter or (
            "\t" if _is_tabbed(path) else _sniffed(head, encoding, wanted, delimiters)
        )
        text = stack.enter_context(io.TextIOWrapper(content, encoding=encoding, newline=""))
        rows = _rows(path, refusal, layout, text, delimiter)
        header = next(filter(None, rows), None)
        if header is None:
            raise refusal(f"{path} is empty")
        yield DelimitedTable(header, rows, lambda: raw.tell() / size if size else 0.0)


def _rows(
    path: Path, refusal: Refusal, layout: TableFormat, text: io.TextIOWrapper, delimiter: str
) -> Iterator[list[str]]:
    row = -1  # the header is row 0
    try:
        for row, fields in enumerate(csv.reader(text, delimiter=delimiter, strict=True)):  # noqa: B007 - used in errors
            yield fields
    except csv.Error as error:
        raise refusal(f"{path}, row {row + 1}: not a CSV file: {error}") from None
    except UnicodeError:
        hint = (
            ""
            if layout.encoding
            else "; if it has another encoding, such as latin-1 or cp1252, specify it"
        )
        raise refusal(
            f"{path}, near row {row + 1}: not {layout.encoding or 'UTF-8'} text{hint}"
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise refusal(f"{path}, near row {row + 1}: cannot be read: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or "its gzip compression is damaged"


def _is_tabbed(path: Path) -> bool:
    return Path(path.name.lower().removesuffix(".gz")).suffix in {".tsv", ".tab"}


def _encoding(layout: TableFormat, head: bytes) -> str:
    if layout.encoding is None:
        return "utf-16" if head.startswith(_UTF_16_MARKS) else "utf-8-sig"
    return "utf-8-sig" if codecs.lookup(layout.encoding).name == "utf-8" else layout.encoding


def _sniffed(head: bytes, encoding: str, wanted: Sequence[str] | None, delimiters: str) -> str:
    """The delimiter whose header names what is wanted, then whose rows are of equal length, then
    with the most columns."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(head)
    if len(head) == _SAMPLE_BYTES:  # the last line may be cut off
        text = text[: text.rfind("\n") + 1]

    def fit(delimiter: str) -> tuple[bool, bool, int]:
        rows: list[list[str]] = []
        try:
            for fields in islice(
                csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True),
                _SAMPLE_ROWS,
            ):
                rows.append(fields)
            whole = True
        except csv.Error:
            whole = False
        header = rows[0] if rows else []
        equal = (
            whole
            and len(header) > 1
            and all(len(fields) == len(header) for fields in rows if fields)
        )
        return bool(wanted) and set(wanted or ()) <= set(header), equal, len(header)

    return max(delimiters, key=fit)


@contextmanager
def open_parquet(path: Path, refusal: Refusal) -> Iterator[Any]:
    """A `pyarrow.parquet.ParquetFile`; any Arrow error about a damaged file while it is open
    becomes one line."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.parquet as pq  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("pyarrow", "frames", "reading Parquet") from None
    try:
        with pq.ParquetFile(path) as file:
            yield file
    except DeniableError:
        raise
    except FileNotFoundError as error:
        raise refusal(f"{path} cannot be read: {error.strerror or 'No such file'}") from None
    except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError) as error:
        # Arrow may quote the file's contents.
        raise refusal(
            f"{path} is not a Parquet file, or is damaged: {type(error).__name__}"
        ) from None


@contextmanager
def open_stata(path: Path, refusal: Refusal, rows: int) -> Iterator[Iterator[Any]]:
    """A Stata file as data frames of at most so many rows, values with labels as their labels."""
    try:
        import pandas as pd  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("pandas", "frames", "reading Stata files") from None
    try:
        with pd.read_stata(path, chunksize=rows) as reader:
            yield reader
    except DeniableError:
        raise
    except FileNotFoundError as error:
        raise refusal(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # a damaged file makes pandas fail in many ways
        raise refusal(
            f"{path} is not a Stata file (.dta), or is damaged: {type(error).__name__}"
        ) from None


@contextmanager
def open_spss(path: Path, refusal: Refusal, rows: int) -> Iterator[Iterator[Any]]:
    """An SPSS file as data frames of at most so many rows: values with labels as their labels, and
    the values that the file declares as missing as missing."""
    try:
        import pyreadstat  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("pyreadstat", "spss", "reading SPSS files") from None
    try:
        with path.open("rb"):  # pyreadstat does not say which file is not there
            pass
        parts = pyreadstat.read_file_in_chunks(
            pyreadstat.read_sav,
            str(path),
            chunksize=rows,
            apply_value_formats=True,
            formats_as_category=False,
        )
        yield (frame for frame, _ in parts)
    except DeniableError:
        raise
    except FileNotFoundError as error:
        raise refusal(f"{path} cannot be read: {error.strerror}") from None
    except Exception as error:  # a damaged file makes pyreadstat fail in many ways
        raise refusal(
            f"{path} is not an SPSS file (.sav), or is damaged: {type(error).__name__}"
        ) from None


@contextmanager
def open_sheet(
    path: Path, refusal: Refusal, layout: TableFormat | None = None
) -> Iterator[Iterator[tuple[Any, ...]]]:
    """The rows of a sheet of an Excel file, header first; a formula is the value that was saved
    with it."""
    try:
        import openpyxl  # noqa: PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("openpyxl", "excel", "reading Excel files") from None
    sheet = layout.sheet if layout else None
    try:
        with path.open("rb") as content:
            book = openpyxl.load_workbook(content, read_only=True, data_only=True)
            try:
                if sheet is not None and sheet not in book.sheetnames:
                    raise refusal(
                        f"{path} has no sheet {sheet!r}; it has"
                        f" {', '.join(map(repr, book.sheetnames))}"
                    )
                if not book.worksheets:
                    raise refusal(f"{path} has no sheet of cells")
                chosen = book.worksheets[0] if sheet is None else book[sheet]
                yield chosen.iter_rows(values_only=True)
            finally:
                book.close()
    except DeniableError:
        raise
    except FileNotFoundError as error:
        raise refusal(f"{path} cannot be read: {error.strerror}") from None
    # a damaged file makes zip, XML and openpyxl itself fail in many ways
    except Exception as error:
        raise refusal(
            f"{path} is not an Excel file (.xlsx), or is damaged: {type(error).__name__}"
        ) from None
