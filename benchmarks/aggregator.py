"""How fast the aggregator counts, beside DuckDB on the same shares; and what memory an hour of it
takes.

    python benchmarks/aggregator.py [--answers 1000000] [--hour]

Two proxies, 11 buckets, PrivApprox's two coins. DuckDB (two threads) joins two tables in memory on
the 128-bit message id, XORs and adds up 11 bits. Beside it, of the same shares:

- join, XOR and count: blocks in memory, as proxies cut them, to 11 counts; once with all shares
  there, once with 1 % missing at each proxy, so that the ids differ and waiting shares are kept;
- the whole path: read both logs (SQLite), decode, match, check tags and formats, find duplicates,
  count, and commit durably.

Rates are millions of answers a second, the best of some runs: by the clock, which a busy machine
slows, and by processor time of all threads, which it hardly does. The claims are checked on
processor time and on the clock, each against DuckDB's of the same run.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.join import Bucket
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.state import State
from deniable.logs.share_logs import EmbeddedLog
from deniable.logs.sqlite_log import BlockLog
from deniable.mechanisms.bits import count_columns
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.randomness import system_source
from deniable.wire.blocks import cut
from deniable.wire.shares import split_columns

PREFIX_BITS = 6
BUCKETS = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]
KEY = AnalystKey.generate("City of Exampleton")


class Rate(NamedTuple):
    """Millions of answers a second."""

    wall: float
    processor: float


def best(n: int, run: Callable[[], Any], repeat: int = 5) -> tuple[Rate, Any]:
    wall, processor, result = 0.0, 0.0, None
    for _ in range(repeat):
        clock, used = time.perf_counter(), time.process_time()
        result = run()
        wall = max(wall, n / (time.perf_counter() - clock) / 1e6)
        processor = max(processor, n / (time.process_time() - used) / 1e6)
    return Rate(wall, processor), result


def make_query(every: int = 60) -> Query:
    return Query(
        id="taxi-distance",
        analyst=KEY.owner,
        sql="SELECT distance FROM trips",
        columns=[Column("distance", BUCKETS)],
        schedule=Schedule(
            origin=1_700_000_000, expires=1_800_000_000, every=every, window=10 * every, slide=every
        ),
        proxies=["one", "two"],
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
    )


def make_shares(query: Query, n: int, epoch: int) -> list[Any]:
    source = system_source()
    reports = query.mechanism.draw(source.below(11, n).astype(np.intp), source)
    return split_columns(reports, query.tag, epoch, 0, 2, source=source)


def duck(shares: list[Any], repeat: int) -> tuple[Rate, tuple[int, ...]]:
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    for i, rows in enumerate(shares):
        given = pa.table({"high": rows[0], "low": rows[1], "word": rows[4]})
        connection.register("given", given)
        connection.execute(f"CREATE TABLE share{i} AS SELECT * FROM given")  # noqa: S608 - no input
    sums = ", ".join(f"sum((word >> {bit}) & 1)" for bit in range(11))
    joined = (
        "SELECT xor(a.word, b.word) AS word FROM share0 a JOIN share1 b ON a.high = b.high AND"
        " a.low = b.low"
    )
    statement = f"SELECT count(*), {sums} FROM ({joined})"  # noqa: S608
    rate, found = best(shares[0].shape[1], lambda: connection.execute(statement).fetchone(), repeat)
    return rate, tuple(int(number) for number in found)


def join_xor_count(query: Query, shares: list[Any]) -> Callable[[], tuple[int, ...]]:
    parts: dict[int, list[list[Any]]] = {}
    for proxy, rows in enumerate(shares):
        for block in cut(query.channel_tag, 0, 0, rows, PREFIX_BITS)[0]:
            parts.setdefault(block.prefix, [[], []])[proxy].append(block.columns)

    def run() -> tuple[int, ...]:
        counts, n = np.zeros(11, dtype=np.int64), 0
        for arrivals in parts.values():
            joined = Bucket(2).add(arrivals)
            words = joined.matched[0][4] ^ joined.matched[1][4]
            counts += count_columns(words.view(np.uint8).reshape(-1, 8)[:, :2], 11)
            n += len(words)
        return (n, *counts.tolist())

    return run


def whole_path(
    query: Query, shares: list[Any], folder: Path, batches: int, repeat: int
) -> tuple[Rate, tuple[int, ...]]:
    """From two logs, to which the shares were appended in batches, to committed panes."""
    now = query.schedule.origin
    paths = []
    for proxy, rows in enumerate(shares):
        path = folder / f"log{proxy}-{batches}.db"
        log = BlockLog(path)
        for part in np.array_split(rows, batches, axis=1):
            log.append(cut(query.channel_tag, 0, 0, part, PREFIX_BITS)[0], now=now)
        log.close()
        paths.append(path)
    found: tuple[int, ...] = ()
    wall, processor = 0.0, 0.0
    for attempt in range(repeat):
        state = State(folder / f"state-{batches}-{attempt}.db", query.proxies)
        with state.transaction():
            publish(
                state.connection, sign(query, KEY), KeyRing().add(KEY.public), query.proxies, now
            )
        logs = [EmbeddedLog(path) for path in paths]
        engine = Engine(state, logs, EngineLimits(step_bytes=128 << 20), clock=lambda: now)
        rate, _ = best(shares[0].shape[1], engine.drain, 1)
        wall, processor = max(wall, rate.wall), max(processor, rate.processor)
        (pane,) = state.panes(query.id, range(1)).values()
        found = (pane.n, *pane.counts.tolist())
        engine.close()
        for log_reader in logs:
            log_reader.close()
        state.close()
    return Rate(wall, processor), found


def compare(n: int) -> bool:
    query = make_query()
    shares = make_shares(query, n, 0)
    rng = np.random.default_rng(1)
    missing = [np.ascontiguousarray(rows[:, rng.random(n) > 0.01]) for rows in shares]
    rows: list[tuple[str, Rate, Rate]] = []
    print(
        f"{n:,} answers, 2 proxies, 11 buckets, 2**{PREFIX_BITS} blocks a batch; millions of"
        " answers a second"
    )
    with tempfile.TemporaryDirectory() as name:
        for title, part in (("all there", shares), ("1 % missing", missing)):
            shuffled = [
                np.ascontiguousarray(columns[:, rng.permutation(columns.shape[1])])
                for columns in part
            ]
            beside, expected = duck(shuffled, 5)
            rate, found = best(n, join_xor_count(query, part))
            assert found == expected, (found, expected)
            print(
                f"  DuckDB join, xor, 11 sums       {title:<12} clock {beside.wall:6.2f}  "
                f" processor {beside.processor:6.2f}"
            )
            print(
                f"  our join, XOR, count            {title:<12} clock {rate.wall:6.2f}   processor"
                f" {rate.processor:6.2f}"
            )
            rows.append((f"join, XOR, count ({title})", rate, beside))
            for batches in (1, 10) if part is shares else (1,):
                folder = Path(name) / title.replace(" ", "-")
                folder.mkdir(exist_ok=True)
                rate, found = whole_path(query, part, folder, batches, 3)
                assert found == expected, (found, expected)
                what = f"{batches} batch{'es' if batches > 1 else ''}"
                print(
                    f"  whole path, {what:<19} {title:<12} clock {rate.wall:6.2f}   processor"
                    f" {rate.processor:6.2f}"
                )
                rows.append((f"whole path, {what} ({title})", rate, beside))
    holds = True
    for title, rate, beside in rows:
        needed = 1.0 if title.startswith("join") else 0.25
        ratios = (rate.wall / beside.wall, rate.processor / beside.processor)
        holds &= min(ratios) >= needed
        told = f"{ratios[0]:5.2f} by the clock, {ratios[1]:5.2f} by processor time"
        print(
            f"  {title:<40} {told} of DuckDB; at least {needed}:"
            f" {'holds' if min(ratios) >= needed else 'DOES NOT HOLD'}"
        )
    return holds


def hour(n: int, minutes: int = 60) -> bool:
    """An hour of n answers a minute, simulated as fast as it goes; proxies keep an epoch open for
    ten minutes (their default)."""
    query = make_query(every=60)
    origin = query.schedule.origin
    now = origin
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        writers = [BlockLog(folder / f"log{proxy}.db") for proxy in range(2)]
        state = State(folder / "state.db", query.proxies)
        with state.transaction():
            publish(
                state.connection, sign(query, KEY), KeyRing().add(KEY.public), query.proxies, now
            )
        engine = Engine(state, [EmbeddedLog(log.path) for log in writers], clock=lambda: now)
        started, used = time.perf_counter(), 0.0
        held: list[Any] = []
        for minute in range(minutes + 1):
            now = origin + 60 * minute + 59
            arriving = [*held]
            if minute < minutes:
                shares = make_shares(query, n, minute)
                late = n // 10  # a tenth comes in the next minute
                arriving.append((minute, [rows[:, late:] for rows in shares]))
                held = [(minute, [rows[:, :late] for rows in shares])]
            for epoch, parts in arriving:
                for log, rows in zip(writers, parts, strict=True):
                    log.append(cut(query.channel_tag, epoch, 0, rows, PREFIX_BITS)[0], now=now)
            for log in writers:
                log.append([], now=now, marks={query.channel_tag: max(0, minute - 10)})
            clock = time.process_time()
            engine.drain()
            used += time.process_time() - clock
            for log in writers:
                while log.drop_before(now, 256):
                    pass
            if minute % 10 == 0:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
                size = (folder / "state.db").stat().st_size / (1 << 20)
                print(
                    f"  minute {minute:3}: peak memory {peak:7.0f} MiB, state {size:6.0f} MiB",
                    flush=True,
                )
        for log in writers:
            log.append([], now=now, marks={query.channel_tag: minutes})
        engine.drain()
        (counted,) = state.connection.execute("SELECT sum(n) FROM panes").fetchone()
        assert counted == n * minutes, counted
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        rate = n * minutes / used / 1e6
        took = time.perf_counter() - started
        print(
            f"  {n * minutes:,} answers in {took:.0f} s to make and count; counted {rate:.2f}"
            " million a second of processor time"
        )
        print(
            f"  peak memory, of making shares too: {peak:.0f} MiB; under 2048:"
            f" {'holds' if peak < 2048 else 'DOES NOT HOLD'}"
        )
        engine.close()
        state.close()
        for log in writers:
            log.close()
    return peak < 2048


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=1_000_000)
    parser.add_argument(
        "--hour", action="store_true", help="only the hour of a million answers a minute"
    )
    parser.add_argument("--minutes", type=int, default=60)
    chosen = parser.parse_args()
    holds = hour(chosen.answers, chosen.minutes) if chosen.hour else compare(chosen.answers)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
