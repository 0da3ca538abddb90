"""History on Spark: executors write the reports of a batch as any engine does.

The files are those of `aggregator.history.report_files`. A task writes files under new names and
reports them to the driver, which adds them to the catalogue in the transaction that counts the
batch: files of a failed attempt are in no catalogue, and are removed when the driver starts again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.maintenance import BATCH, day_of
from deniable.aggregator.history.report_files import FileEntry, ReportFolder, ReportRows
from deniable.queries.schedule import Schedule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Written", "write"]

_FILES = (
    "path string, query string, serial long, day long, first long, last long, n long, size long,"
    " groups string, epochs string"
)


class Written(NamedTuple):
    """Files of a batch, and how many reports of each query, version and epoch are in them."""

    files: list[FileEntry]
    reports: list[tuple[PaneKey, int]]


def write(rows: DataFrame, place: str, schedules: Mapping[tuple[str, int], Schedule]) -> Written:
    """Write the reports of a batch; they count once the files are in the catalogue."""
    chosen = rows.select("query", "serial", "epoch", "stratum", "n", "content")
    files, reports = [], []
    for row in chosen.mapInArrow(_writer(place, dict(schedules)), _FILES).collect():
        files.append(FileEntry(*row[:-1]))
        reports += [
            (PaneKey(row.query, row.serial, int(epoch), 0), n)
            for epoch, n in json.loads(row.epochs).items()
        ]
    return Written(files, reports)


def _writer(
    place: str, schedules: dict[tuple[str, int], Schedule]
) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def write_files(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - on executors

        groups: dict[tuple[str, int, int], list[Any]] = {}
        for batch in batches:
            for row in batch.to_pylist():
                data = np.frombuffer(row["content"], dtype=np.uint8).reshape(row["n"], -1)
                key = PaneKey(row["query"], row["serial"], row["epoch"], row["stratum"])
                day = day_of(schedules[key.query, key.serial], key.epoch)
                groups.setdefault((key.query, key.serial, day), []).append((key, data))
        folder = ReportFolder(place)
        written = []
        for (query, serial, day), parts in groups.items():
            rows = ReportRows.drawn(parts)
            entry = folder.write(BATCH, query, day, serial, rows)
            epochs, n = np.unique(rows.epochs, return_counts=True)
            counted = json.dumps(dict(zip(epochs.tolist(), n.tolist(), strict=True)))
            written.append({**entry._asdict(), "epochs": counted})
        if written:
            kinds = {"string": pa.string(), "long": pa.int64()}
            fields = [
                (name, kinds[kind]) for name, kind in (part.split() for part in _FILES.split(", "))
            ]
            yield from pa.Table.from_pylist(written, schema=pa.schema(fields)).to_batches()

    return write_files
