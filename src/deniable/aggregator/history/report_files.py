"""The files of the history: Parquet, in folders by query and day, with nothing in them but
randomized reports.

`query=<id>/day=<date>/<kind>-<random>.parquet` has reports of one version of a query whose epochs
begin on one day (UTC). Each row is one counted report:

| column | type | what |
|---|---|---|
| slice | uint8 | 0 to 99, drawn at random when the report was filed: reading some slices is reading a random sample |
| serial | int64 | the version of the query |
| epoch | int64 | the epoch it was sent in |
| stratum | int32 | the place of its stratum in the query's list, 0 if there is none |
| report | fixed binary | the randomized answer, as its mechanism draws it |

There is no message id and no time of arrival, and rows are sorted by all columns, so their order
says nothing. A file does not count until it is in the catalogue (`file_catalogue`).
"""

from __future__ import annotations

import datetime
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.panes import Reports
from deniable.errors import MissingExtraError, ParameterError, ReportFormatError
from deniable.randomness import Source, system_source

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "SLICES",
    "STEPS",
    "FileEntry",
    "ReportFolder",
    "ReportRows",
    "day_name",
    "schema",
    "sorted_table",
]

SLICES = 100
"""The number of random parts into which reports are divided: a fraction of the reports is a number
of slices."""
STEPS = (1, 2, 5, 10, 20, 50, 100)
"""How many slices an answer may be from. Two answers from different numbers of them differ by whole
steps, and a step is large enough to hold a minimum cohort of every epoch, or is not taken
(`period_counts`)."""
SECONDS_PER_DAY = 86400
_ROWS_PER_GROUP = 1 << 16
_PATH = re.compile(r"query=[^/]+/day=[^/]+/[^/]+\.parquet")
_GROUP_FLOOR = 1 << 15


def arrow() -> Any:
    """PyArrow, if it is installed."""
    try:
        import pyarrow as pa  # noqa: PLC0415 - an extra
        import pyarrow.fs  # noqa: PLC0415
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("pyarrow", "history", "history") from None
    return pa


def day_name(day: int) -> str:
    """The date of a day given as a number of days since 1970."""
    try:
        return (datetime.date(1970, 1, 1) + datetime.timedelta(days=day)).isoformat()
    except OverflowError:  # times may be beyond the calendar
        return f"day-{day}"


def schema(width: int) -> pa.Schema:
    """The columns of a file whose reports have this many bytes."""
    pa = arrow()
    kinds = (
        ("slice", pa.uint8()),
        ("serial", pa.int64()),
        ("epoch", pa.int64()),
        ("stratum", pa.int32()),
        ("report", pa.binary(width)),
    )
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds])


class FileEntry(NamedTuple):
    """A file as recorded in the catalogue."""

    path: str
    """Relative to the history's folder."""
    query: str
    serial: int
    day: int
    """The day on which its epochs begin, in days since 1970."""
    first: int
    last: int
    """The epochs of its first and last report."""
    n: int
    """Number of reports."""
    size: int
    """Size in bytes."""
    groups: str
    """The rows, first slice and last slice of each row group, as `1200:0-3 …`: what a sample reads
    is known without the file, and does not depend on what a damaged file says."""

    def row_groups(self) -> list[tuple[int, int, int]]:
        """The rows, first slice and last slice of each row group."""
        out = []
        for text in self.groups.split():
            rows, _, slices = text.partition(":")
            low, _, high = slices.partition("-")
            out.append((int(rows), int(low), int(high)))
        return out


@dataclass(frozen=True)
class ReportRows:
    """Reports of one version as columns, in any order."""

    slices: NDArray[np.uint8]
    epochs: NDArray[np.int64]
    strata: NDArray[np.int32]
    reports: NDArray[np.uint8]
    """One per row."""

    def __len__(self) -> int:
        return len(self.epochs)

    @classmethod
    def drawn(cls, parts: Reports, source: Source | None = None) -> ReportRows:
        """Reports of one version that were never filed: each is assigned to a random slice."""
        n = [len(rows) for _, rows in parts]
        slices = (source or system_source()).below(SLICES, sum(n)).astype(np.uint8)
        epochs = np.repeat(np.array([key.epoch for key, _ in parts], dtype=np.int64), n)
        strata = np.repeat(np.array([key.stratum for key, _ in parts], dtype=np.int32), n)
        return cls(slices, epochs, strata, np.concatenate([rows for _, rows in parts]))

    @classmethod
    def joined(cls, parts: Sequence[ReportRows]) -> ReportRows:
        """The rows of several, concatenated."""
        names = ("slices", "epochs", "strata", "reports")
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def chosen(self, which: Any) -> ReportRows:
        """Some of the rows."""
        return ReportRows(
            self.slices[which], self.epochs[which], self.strata[which], self.reports[which]
        )

    def sorted(self) -> ReportRows:
        """The rows in their only possible order: sorted by all columns."""
        return self.chosen(
            np.lexsort((_order(self.reports), self.strata, self.epochs, self.slices))
        )


def _order(reports: NDArray[np.uint8]) -> NDArray[Any]:
    """Keys that sort as the bytes of the reports do."""
    n, width = reports.shape
    if width > 8:
        return np.ascontiguousarray(reports).view(f"S{width}").reshape(-1)
    padded = np.zeros((n, 8), dtype=np.uint8)
    padded[:, :width] = reports
    return padded.view(">u8").reshape(-1).astype(np.uint64)


def sorted_table(serial: int, rows: ReportRows) -> pa.Table:
    """Rows as a file stores them."""
    pa = arrow()
    rows = rows.sorted()
    n, width = rows.reports.shape
    content = np.ascontiguousarray(rows.reports)
    columns = [
        pa.array(rows.slices),
        pa.repeat(pa.scalar(serial, pa.int64()), n),
        pa.array(rows.epochs),
        pa.array(rows.strata),
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), n, [None, pa.py_buffer(content)]),
    ]
    return pa.Table.from_arrays(columns, schema=schema(width))


def _group_bounds(slices: NDArray[np.uint8]) -> Iterator[tuple[int, int]]:
    """Row groups of whole slices, so that a sample reads few of them, and large enough to be read
    fast; one for a small file."""
    ends = np.searchsorted(slices, np.arange(1, SLICES + 1)).tolist()
    start = 0
    for end in ends:
        if end - start >= _GROUP_FLOOR or (end == len(slices) and end > start):
            for part in range(start, end, _ROWS_PER_GROUP):
                yield part, min(part + _ROWS_PER_GROUP, end)
            start = end


class ReportFolder:
    """Where the files are: a folder of this machine, or an address that Arrow can reach (`s3://…`,
    `hdfs://…`)."""

    def __init__(self, place: str | Path) -> None:
        pa = arrow()
        self.place = str(place)
        self.local = "://" not in self.place
        if self.local:
            self._files, self._base = pa.fs.LocalFileSystem(), str(Path(self.place).absolute())
        else:
            address = (
                self.place.replace("s3a://", "s3://", 1)
                if self.place.startswith("s3a://")
                else self.place
            )
            try:
                self._files, self._base = pa.fs.FileSystem.from_uri(address.rstrip("/"))
            except (pa.ArrowException, OSError, ValueError):
                raise ParameterError(
                    "history.folder", self.place, "is not an address that Arrow can reach"
                ) from None

    def __reduce__(self) -> tuple[type[ReportFolder], tuple[str]]:
        return ReportFolder, (self.place,)

    def write(self, kind: str, query: str, day: int, serial: int, rows: ReportRows) -> FileEntry:
        """Write rows to a file with a unique name, and sync it to disk; it counts once it is in the
        catalogue.

        `kind` says who wrote it, and so who removes it if it never gets there.
        """
        pa = arrow()
        path = f"query={query}/day={day_name(day)}/{kind}-{uuid.uuid4().hex}.parquet"
        table = sorted_table(serial, rows)
        if self.local:
            (Path(self._base) / path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        slices = table["slice"].to_numpy()
        bounds = list(_group_bounds(slices))
        kept = {
            "compression": "zstd",
            # Sorted random bytes are smaller, and three times faster to read, in plain encoding
            # than through a dictionary.
            "use_dictionary": ["slice", "serial", "epoch", "stratum"],
            "write_statistics": ["slice", "epoch"],
            "write_page_checksum": True,
        }
        with pa.parquet.ParquetWriter(
            f"{self._base}/{path}", table.schema, filesystem=self._files, **kept
        ) as writer:
            for start, end in bounds:
                writer.write_table(table.slice(start, end - start), row_group_size=end - start)
        if self.local:
            _sync(Path(self._base) / path)
        size = self._files.get_file_info(f"{self._base}/{path}").size
        first, last = int(rows.epochs.min()), int(rows.epochs.max())
        groups = " ".join(
            f"{end - start}:{slices[start]}-{slices[end - 1]}" for start, end in bounds
        )
        return FileEntry(path, query, serial, day, first, last, len(rows), size, groups)

    def _at(self, path: str) -> str:
        """The whole path of a file that the catalogue names: it may come from a backup, and must
        not lead out of the folder."""
        if not _PATH.fullmatch(path):
            raise ReportFormatError(f"{path[:200]!r} is no path of a file of the history")
        return f"{self._base}/{path}"

    def open(self, entry: FileEntry) -> Any:
        """A reader of a file; FileNotFoundError if it is gone."""
        pa, path = arrow(), self._at(entry.path)
        try:
            file = self._files.open_input_file(path)
            return pa.parquet.ParquetFile(file, pre_buffer=True, page_checksum_verification=True)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError, ValueError, TypeError, MemoryError) as error:
            raise damaged(entry, error) from None

    def read(self, entry: FileEntry) -> ReportRows:
        """All rows of a file."""
        pa = arrow()
        try:
            with self.open(entry) as file:
                return columns_of(file.read(["slice", "epoch", "stratum", "report"]))
        except FileNotFoundError:
            raise
        except (
            pa.ArrowException,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            MemoryError,
        ) as error:
            raise damaged(entry, error) from None

    def digest(self, path: str) -> str | None:
        """SHA-256 of a file; None if it does not exist."""
        import hashlib  # noqa: PLC0415 - only for receipts

        found = hashlib.sha256()
        try:
            with self._files.open_input_stream(self._at(path)) as stream:
                while content := stream.read(1 << 20):
                    found.update(content)
        except FileNotFoundError:
            return None
        return found.hexdigest()

    def remove(self, path: str) -> None:
        """Delete a file, if it exists, and the folders it leaves empty."""
        try:
            self._files.delete_file(self._at(path))
        except FileNotFoundError:
            return
        if self.local:
            for parent in list((Path(self._base) / path).parents)[:2]:
                try:
                    parent.rmdir()
                except OSError:  # something else is in it
                    break

    def paths(self) -> list[str]:
        """All existing files, in the catalogue or not."""
        chosen = arrow().fs.FileSelector(self._base, recursive=True, allow_not_found=True)
        found = (info.path for info in self._files.get_file_info(chosen) if info.is_file)
        return sorted(
            path.removeprefix(self._base).lstrip("/") for path in found if path.endswith(".parquet")
        )


def _sync(path: Path) -> None:
    for place, how in (
        (path, os.O_RDWR),
        (path.parent, os.O_RDONLY),
        (path.parent.parent, os.O_RDONLY),
    ):
        handle = os.open(place, how)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def columns_of(table: pa.Table) -> ReportRows:
    """A table's rows as arrays; a column that was not read is 0 everywhere."""
    kinds = {"slice": np.uint8, "epoch": np.int64, "stratum": np.int32}
    zeros = {
        name: np.broadcast_to(np.zeros((), dtype=kind), table.num_rows)
        for name, kind in kinds.items()
    }
    taken = {
        name: table[name].to_numpy() if name in table.column_names else zeros[name]
        for name in kinds
    }
    return ReportRows(
        taken["slice"], taken["epoch"], taken["stratum"], report_bytes(table["report"])
    )


def report_bytes(column: Any) -> NDArray[np.uint8]:
    """The reports of a column, one per row; not copied if they are contiguous."""
    width = column.type.byte_width
    pieces = [
        np.frombuffer(
            chunk.buffers()[1],
            dtype=np.uint8,
            count=len(chunk) * width,
            offset=chunk.offset * width,
        )
        for chunk in column.chunks
        if len(chunk)
    ]
    joined = (
        pieces[0] if len(pieces) == 1 else np.concatenate([*pieces, np.empty(0, dtype=np.uint8)])
    )
    return joined.reshape(-1, width)


def damaged(entry: FileEntry, error: object) -> ReportFormatError:
    """The error for a file whose contents differ from the catalogue."""
    reason = error if isinstance(error, str) else type(error).__name__
    return ReportFormatError(f"{entry.path} of the history cannot be read, or is damaged: {reason}")
