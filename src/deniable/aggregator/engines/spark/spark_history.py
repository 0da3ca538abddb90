"""History on Spark: joined reports written batch by batch, and estimates over any period of them (`aggregator.history`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.aggregator.history import add_panes, count_table, estimate_panes, to_table
from deniable.aggregator.panes import Pane, PaneKey
from deniable.estimation.estimate import Estimate
from deniable.queries.query import Query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["estimate", "write"]

_COLUMNS = "query string, serial long, epoch long, stratum int, report binary"
_PANES = "serial long, epoch long, stratum int, n long, counts binary"


def write(rows: DataFrame, folder: str, batch: int) -> None:
    """Write the reports of a batch. A batch that is written again replaces itself, for it holds the same."""
    reports = rows.select("query", "serial", "epoch", "stratum", "n", "content").mapInArrow(_sorted, _COLUMNS)
    reports.write.mode("overwrite").parquet(f"{folder.rstrip('/')}/batch={batch:012d}")


def _sorted(batches: Iterable[Any]) -> Iterator[Any]:
    reports = []
    for batch in batches:
        for row in batch.to_pylist():
            data = np.frombuffer(row["content"], dtype=np.uint8).reshape(row["n"], -1)
            reports.append((PaneKey(row["query"], row["serial"], row["epoch"], row["stratum"]), data))
    if reports:
        yield from to_table(reports).to_batches(max_chunksize=1 << 16)


def estimate(spark: SparkSession, folder: str, versions: Query | Sequence[Query], start: int, end: int) -> Estimate:
    """The estimate over a period, from the files in a folder: that of a window over the same epochs.

    `versions` are all versions of the query of which there are reports, oldest first; `start` and `end` are bounds of epochs.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415, N812 - an extra

    queries = [versions] if isinstance(versions, Query) else list(versions)
    epochs = queries[-1].schedule.epochs_between(start, end)
    rows = spark.read.schema(_COLUMNS).parquet(folder)
    rows = rows.where((F.col("query") == queries[-1].id) & F.col("epoch").between(epochs.start, epochs.stop - 1))
    counted = rows.select("serial", "epoch", "stratum", "report").mapInArrow(
        _counter([query.content for query in queries]), _PANES
    )
    parts = []
    for row in counted.collect():
        counts = np.frombuffer(row.counts, dtype="<i8").astype(np.int64)
        parts.append({PaneKey(queries[-1].id, row.serial, row.epoch, row.stratum): Pane(counts, row.n)})
    return estimate_panes(queries, add_panes(parts), start, end)


def _counter(queries: Sequence[bytes]) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Counts rows into panes, a part of them at a time."""

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415 - on executors

        versions = [Query.from_content(content) for content in queries]
        panes = add_panes(count_table(pa.Table.from_batches([batch]), versions) for batch in batches)
        if panes:
            counted = [
                {**key._asdict(), "n": pane.n, "counts": pane.counts.astype("<i8").tobytes()} for key, pane in panes.items()
            ]
            kinds = [
                ("serial", pa.int64()),
                ("epoch", pa.int64()),
                ("stratum", pa.int32()),
                ("n", pa.int64()),
                ("counts", pa.binary()),
            ]
            yield from pa.Table.from_pylist(counted, schema=pa.schema(kinds)).to_batches()

    return count
