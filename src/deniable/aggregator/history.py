"""History: joined reports as Parquet, so that any period can be estimated later, as its window would have been.

A folder holds `batch=<number>/*.parquet`, each batch written once. One row is one report that was counted:

| column | type | what |
|---|---|---|
| query | string | the query's id |
| serial | int64 | its version |
| epoch | int64 | the epoch it was sent in |
| stratum | int32 | the place of its stratum in the query's list, 0 if there is none |
| report | binary | the randomized answer, as its mechanism draws it |

No message id, no time of arrival; and the rows of a file are sorted by all of their columns: their order says nothing either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.aggregator.panes import Pane, PaneKey, Reports
from deniable.aggregator.windows import estimate_period
from deniable.errors import DeniableError, NoReportsError, ParameterError, ReportFormatError
from deniable.estimation.estimate import Estimate
from deniable.queries.query import Query

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["add_panes", "count_table", "estimate", "estimate_panes", "schema", "to_table"]


def schema() -> pa.Schema:
    """The columns of the files."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    kinds = (
        ("query", pa.string()),
        ("serial", pa.int64()),
        ("epoch", pa.int64()),
        ("stratum", pa.int32()),
        ("report", pa.binary()),
    )
    return pa.schema([pa.field(name, kind, nullable=False) for name, kind in kinds])


def to_table(reports: Reports) -> pa.Table:
    """Reports as rows, in the one order that they can have."""
    import pyarrow as pa  # noqa: PLC0415 - an extra

    parts: dict[PaneKey, list[Any]] = {}
    for key, rows in reports:
        parts.setdefault(key, []).append(rows)
    tables = []
    for key in sorted(parts):
        rows = np.concatenate(parts[key])
        width = rows.shape[1]
        ordered = np.sort(np.ascontiguousarray(rows).view(f"S{width}").reshape(-1))  # as bytes, for all are equally long
        content = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(rows), [None, pa.py_buffer(ordered.tobytes())])
        fixed = {"query": key.query, "serial": key.serial, "epoch": key.epoch, "stratum": key.stratum}
        columns = [pa.repeat(pa.scalar(value, schema().field(name).type), len(rows)) for name, value in fixed.items()]
        tables.append(pa.Table.from_arrays([*columns, content.cast(pa.binary())], schema=schema()))
    return pa.concat_tables(tables) if tables else schema().empty_table()


def count_table(table: pa.Table, versions: Sequence[Query]) -> dict[PaneKey, Pane]:
    """The panes of the rows of a table. Rows of other versions are refused: without the query they mean nothing."""
    import pyarrow.compute as pc  # noqa: PLC0415 - an extra

    by_serial = {query.serial: query for query in versions}
    panes: dict[PaneKey, Pane] = {}
    for row in table.select(["serial", "epoch", "stratum"]).group_by(["serial", "epoch", "stratum"]).aggregate([]).to_pylist():
        query = by_serial.get(row["serial"])
        if query is None:
            raise ParameterError("versions", sorted(by_serial), f"must have version {row['serial']}, of which there are reports")
        chosen = pc.field("serial") == row["serial"]
        for name in ("epoch", "stratum"):
            chosen = chosen & (pc.field(name) == row[name])
        content = b"".join(table.filter(chosen)["report"].to_pylist())
        dtype, shape = query.mechanism.layout
        data = np.frombuffer(content, dtype=dtype).reshape(-1, *shape)
        query.mechanism.check(data)
        panes[PaneKey(query.id, **row)] = Pane(query.mechanism.count(data), len(data))
    return panes


def add_panes(parts: Iterable[Mapping[PaneKey, Pane]]) -> dict[PaneKey, Pane]:
    """The sums of panes, key by key."""
    total: dict[PaneKey, Pane] = {}
    for panes in parts:
        for key, pane in panes.items():
            held = total.setdefault(key, Pane(np.zeros_like(pane.counts)))
            held += pane
    return total


def estimate_panes(versions: Sequence[Query], panes: Mapping[PaneKey, Pane], start: int, end: int) -> Estimate:
    """The estimate of a period from its panes; refused where a window would have been withheld."""
    newest, n, found = estimate_period(versions, panes, (start, end))
    if found is None:
        raise NoReportsError(f"{newest.id} has {n:,} answers in this period, and tells nothing below {newest.minimum_cohort:,}")
    return found


def estimate(folder: str, versions: Query | Sequence[Query], start: int, end: int) -> Estimate:
    """The estimate over a period, from the files in a folder: that of a window over the same epochs.

    `versions` are all versions of the query of which there are reports, oldest first. On one machine; for more there is
    :func:`deniable.aggregator.engines.spark.spark_history.estimate`.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - an extra
    import pyarrow.dataset as ds  # noqa: PLC0415

    asked = [versions] if isinstance(versions, Query) else list(versions)
    epochs = asked[-1].schedule.epochs_between(start, end)
    chosen = (pc.field("query") == asked[-1].id) & (pc.field("epoch") >= epochs.start) & (pc.field("epoch") < epochs.stop)
    try:
        found = ds.dataset(folder, schema=schema(), format="parquet")
        batches = found.to_batches(columns=["serial", "epoch", "stratum", "report"], filter=chosen)
        tables = (ds.pa.Table.from_batches([batch]) for batch in batches if batch.num_rows)
        panes = add_panes(count_table(table, asked) for table in tables)
    except DeniableError:
        raise
    except (ds.pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError) as error:
        raise ReportFormatError(f"the history in {folder} cannot be read, or is damaged: {type(error).__name__}") from None
    return estimate_panes(asked, panes, start, end)
