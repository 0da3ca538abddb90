"""History on Spark: executors write the reports of a batch as any engine does, and read any period of them in parallel.

The files are those of `aggregator.history.report_files`. A task writes files under new names and reports them to the driver,
which adds them to the catalogue in the transaction that counts the batch: files of a failed attempt are in no catalogue, and are
removed when the driver starts again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from deniable.aggregator.history.file_catalogue import Snapshot
from deniable.aggregator.history.keeper import BATCH, day_of
from deniable.aggregator.history.report_files import SLICES, FileEntry, ReportFolder, ReportRows
from deniable.aggregator.history.scan import Scan, add_panes
from deniable.aggregator.panes import Pane, PaneKey
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Written", "count_period", "write"]

_FILES = (
    "path string, query string, serial long, day long, first long, last long, n long, size long, groups string, epochs string"
)
_PANES = "serial long, epoch long, stratum int, n long, counts binary"


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
        reports += [(PaneKey(row.query, row.serial, int(epoch), 0), n) for epoch, n in json.loads(row.epochs).items()]
    return Written(files, reports)


def _writer(place: str, schedules: dict[tuple[str, int], Schedule]) -> Callable[[Iterable[Any]], Iterator[Any]]:
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
            fields = [(name, kinds[kind]) for name, kind in (part.split() for part in _FILES.split(", "))]
            yield from pa.Table.from_pylist(written, schema=pa.schema(fields)).to_batches()

    return write_files


def count_period(
    spark: SparkSession, place: str, snapshot: Snapshot, versions: Sequence[Query], epochs: range, fraction: float = 1.0
) -> dict[PaneKey, Pane]:
    """The panes of a period, from the files of a snapshot and from the staged reports, counted by Spark's executors.

    `versions` are all versions of the query. With a `fraction`, a random sample of the reports is read, as
    :class:`~deniable.aggregator.history.scan.Scan` would.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415, N812 - an extra

    by_serial = {query.serial: query for query in versions}
    staged = Scan(ReportFolder(place), Snapshot((), snapshot.staged, 0), by_serial, epochs)
    staged.read_to(fraction)
    panes = staged.panes
    if not snapshot.files:
        return panes
    paths = [f"{place.rstrip('/')}/{entry.path}" for entry in snapshot.files]
    rows = spark.read.option("recursiveFileLookup", "true").parquet(*paths)
    whole = int(fraction * SLICES + 1e-9)
    rows = rows.where(F.col("epoch").between(epochs.start, epochs.stop - 1))
    if whole < SLICES:
        rest = (F.col("slice") == whole) & (F.rand() < fraction * SLICES - whole)
        rows = rows.where((F.col("slice") < whole) | rest)
    counted = rows.select("serial", "epoch", "stratum", "report").mapInArrow(
        _counter([query.content for query in versions]), _PANES
    )
    for row in counted.collect():
        counts = np.frombuffer(row.counts, dtype="<i8").astype(np.int64)
        add_panes(panes, {PaneKey(versions[-1].id, row.serial, row.epoch, row.stratum): Pane(counts, row.n)})
    return panes


def _counter(queries: Sequence[bytes]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Counts rows into panes, one batch at a time."""

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - on executors

        versions = {query.serial: query for query in map(Query.from_content, queries)}
        panes: dict[PaneKey, Pane] = {}
        for batch in batches:
            add_panes(panes, _count_batch(batch, versions))
        if panes:
            counted = [
                {**key._asdict(), "n": pane.n, "counts": pane.counts.astype("<i8").tobytes()} for key, pane in panes.items()
            ]
            kinds = {"long": pa.int64(), "int": pa.int32(), "binary": pa.binary()}
            fields = [(name, kinds[kind]) for name, kind in (part.split() for part in _PANES.split(", "))]
            yield from pa.Table.from_pylist(counted, schema=pa.schema(fields)).to_batches()

    return count


def _count_batch(batch: Any, versions: Mapping[int, Query]) -> dict[PaneKey, Pane]:
    places = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in ("serial", "epoch", "stratum")])
    found, which = np.unique(places, axis=0, return_inverse=True)
    reports = batch.column("report")
    panes = {}
    for i, (serial, epoch, stratum) in enumerate(found.tolist()):
        mechanism = versions[serial].mechanism
        chosen = reports.take(np.flatnonzero(which.reshape(-1) == i))
        dtype, shape = mechanism.layout
        data = np.frombuffer(b"".join(chosen.to_pylist()), dtype=dtype).reshape(len(chosen), *shape)
        mechanism.check(data)
        panes[PaneKey(versions[serial].id, serial, epoch, stratum)] = Pane(mechanism.count(data), len(data))
    return panes
