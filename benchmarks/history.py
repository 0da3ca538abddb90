"""A month of stored reports, asked again: a full scan and a tenth of it, beside DuckDB's own SQL
over the same Parquet.

    python benchmarks/history.py                    # 50 million reports of 11 buckets, hourly epochs of 30 days
    python benchmarks/history.py --reports 5000000

Every figure is the best of `--rounds`, and the contenders take turns. DuckDB computes the same
sums, the ones of each bucket and the number of reports for each epoch, in the fastest of three ways
of writing it. Memory is the peak of a process of its own that does nothing else.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.history.file_catalogue import (
    add_files,
    ensure_slice_key,
    note_reports,
    snapshot,
)
from deniable.aggregator.history.report_files import SECONDS_PER_DAY, ReportFolder, ReportRows
from deniable.aggregator.history.scan import Scan
from deniable.aggregator.state import connect
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import seeded_source

DAYS, HOURS = 30, 24
ORIGIN = 20_000 * SECONDS_PER_DAY


def make_query() -> Query:
    return Query(
        id="month",
        analyst="benchmark",
        sql="SELECT distance FROM trips",
        columns=[Column("distance", [f"[{i},{i + 1})" for i in range(11)])],
        schedule=Schedule(ORIGIN, ORIGIN + 90 * SECONDS_PER_DAY, 3600, 3600, 3600),
        proxies=["one", "two"],
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
    )


def fill(folder: Path, n: int) -> None:
    """The reports of a month, a file a day, as the aggregator leaves them."""
    query, source, rng = make_query(), seeded_source(1), np.random.default_rng(1)
    files, connection = ReportFolder(folder / "history"), connect(folder / "state.db")
    ensure_slice_key(connection)
    share = np.arange(11, 0, -1) / 66
    for day in range(DAYS):
        each = n * (day + 1) // DAYS - n * day // DAYS
        epochs = np.sort(rng.integers(day * HOURS, (day + 1) * HOURS, each))
        drawn = query.mechanism.draw(rng.choice(11, each, p=share), source)
        reports = np.ascontiguousarray(drawn).reshape(each, -1).view(np.uint8)
        rows = ReportRows(
            source.below(100, each).astype(np.uint8),
            epochs,
            np.zeros(each, dtype=np.int32),
            reports,
        )
        entry = files.write("reports", query.id, ORIGIN // SECONDS_PER_DAY + day, 1, rows)
        connection.execute("BEGIN")
        add_files(connection, [entry])
        counted = np.unique(epochs, return_counts=True)
        note_reports(
            connection,
            [
                (PaneKey(query.id, 1, e, 0), k)
                for e, k in zip(*map(np.ndarray.tolist, counted), strict=True)
            ],
        )
        connection.execute("COMMIT")
    connection.close()


def scan(folder: Path, fraction: float) -> Any:
    query, connection = make_query(), connect(folder / "state.db")
    epochs = range(DAYS * HOURS)
    found = Scan(
        ReportFolder(folder / "history"), snapshot(connection, query.id, epochs), {1: query}, epochs
    )
    found.read_to(fraction)
    connection.close()
    return {key.epoch: (pane.n, *pane.counts.tolist()) for key, pane in found.panes.items()}


def duckdb_ways(folder: Path) -> dict[str, Callable[[], Any]]:
    """DuckDB's sums, written in three ways."""
    import duckdb  # noqa: PLC0415 - an extra

    files = f"read_parquet('{folder}/history/*/*/*.parquet', hive_partitioning = false)"
    # Bucket 0 is the lowest bit of the first byte; DuckDB counts bits from the highest of the
    # first.
    bit = [f"get_bit(report::BIT, {8 * (i // 8) + 7 - i % 8})" for i in range(11)]
    queries = {
        "bit by bit": (
            f"SELECT epoch, count(*), {', '.join(f'sum({b})' for b in bit)} FROM {files} GROUP BY"  # noqa: S608
            " epoch"
        ),
        "distinct reports first": (
            f"WITH d AS (SELECT epoch, report, count(*) AS n FROM {files} GROUP BY ALL) "  # noqa: S608
            f"SELECT epoch, sum(n), {', '.join(f'sum(n * {b})' for b in bit)} FROM d GROUP BY epoch"
        ),
        "distinct reports first, bits once": (
            f"WITH d AS (SELECT epoch, report, count(*) AS n FROM {files} GROUP BY ALL), "  # noqa: S608
            f"b AS (SELECT report, {', '.join(f'{b} AS b{i}' for i, b in enumerate(bit))} FROM"
            " (SELECT DISTINCT report FROM d)) "
            f"SELECT epoch, sum(n), {', '.join(f'sum(n * b{i})' for i in range(11))} FROM d JOIN b"
            " USING (report) GROUP BY epoch"
        ),
    }

    def run(sql: str) -> Any:
        connection = duckdb.connect(config={"threads": 2})
        rows = connection.execute(sql).fetchall()
        connection.close()
        return {row[0]: tuple(map(int, row[1:])) for row in rows}

    return {name: lambda sql=sql: run(sql) for name, sql in queries.items()}  # type: ignore[misc]


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reports", type=int, default=50_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, help="where the month is kept, and read from if it is there"
    )
    parser.add_argument("--memory-of", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory_of is not None:
        scan(given.memory_of, 1.0)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "state.db").exists():
            took, _ = timed(lambda: fill(folder, given.reports))
            print(f"{given.reports:,} reports written in {took:.1f} s")
        size = sum(path.stat().st_size for path in folder.rglob("*.parquet"))
        print(f"{size / 1e6:,.1f} MB of Parquet, {size / given.reports:.2f} bytes a report")
        contenders: dict[str, Callable[[], Any]] = {
            "full scan": lambda: scan(folder, 1.0),
            "fraction 0.1": lambda: scan(folder, 0.1),
            **{f"DuckDB, {name}": work for name, work in duckdb_ways(folder).items()},
        }
        best: dict[str, float] = {}
        found: dict[str, Any] = {}
        for _ in range(given.rounds):
            for name, work in contenders.items():
                took, found[name] = timed(work)
                best[name] = min(took, best.get(name, took))
        for name, took in best.items():
            print(f"{name:<45} {took:8.3f} s")
        for name in contenders:
            if name.startswith("DuckDB"):
                assert found[name] == found["full scan"], f"{name}: other sums"
        assert sum(row[0] for row in found["full scan"].values()) == given.reports
        command = [sys.executable, __file__, "--memory-of", str(folder)]
        peak = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603 - our own code
        duck = min(took for name, took in best.items() if name.startswith("DuckDB"))
        print(f"peak memory of a process that scans: {peak / 1024:,.0f} MiB (at most 2,048)")
        print(f"full scan: {best['full scan']:.2f} s (at most 10)")
        print(
            f"a tenth is {best['full scan'] / best['fraction 0.1']:.1f} times faster (at least 5)"
        )
        print(f"full scan / DuckDB's fastest: {best['full scan'] / duck:.2f} (at most 1.5)")


if __name__ == "__main__":
    main()
