"""Spark's block path beside the row-wise pipeline on the same log; growth with the number of
answers; and what is kept.

    python benchmarks/spark.py [--answers 2000000] [--rounds 3] [--skip growth] [--topics]

Two proxies, 11 buckets, PrivApprox's two coins, 16 partitions, Parquet files in place of topics,
two cores (`local[2]`), one run.

- blocks: `engines.spark.aggregate`, from files to committed panes: tags checked, duplicates and
  orphans found, panes written;
- rows: the same files, blocks taken apart into a row a share, a watermark on each source, `union`,
  then `groupBy(epoch, mid).agg(bit_xor(...), bit_or(proxy))` and 11 sums. It checks no tag and
  books no account.

Both are streams with a checkpoint. Blocks keep their state in RocksDB, the only store that has what
they use; rows are run with it too, and with Spark's default, on a heap of 8 GiB, which is faster as
long as it holds their ids. A batch is two million answers, which are an epoch; it is marked at its
end, and the rows' watermark is one epoch, so both forget. What counts is the steady state: the
batches after the first, as the stream's own progress times them. They take turns, each in a JVM of
its own, so that a machine that is slow for a while is so for both, and none meets the heap that the
other has filled; the first round is not counted, for what comes first is compiled; of the others
the median counts.

The claims: blocks at least 10 times rows, with either store; from 1 to 10 million answers time
grows at most linearly, of epochs that close and of one that stays open; what is kept stays flat
while epochs close. What does not hold is printed so, and the exit code is 1. `--topics` tells
besides how fast blocks are counted from a broker of Kafka, on the same two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.spark import FileSource, Job, KafkaSource, aggregate
from deniable.aggregator.engines.spark.sources import LogSource
from deniable.aggregator.state import State
from deniable.devtools.broker import Broker
from deniable.logs.kafka_log import KafkaLog
from deniable.logs.kafka_settings import KafkaSettings
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.randomness import system_source
from deniable.wire.blocks import Block, cut
from deniable.wire.marks import MarkRecord
from deniable.wire.shares import split_columns

PARTITIONS = 16
ORIGIN = 1_700_000_000
KEY = AnalystKey.generate("City of Exampleton")
PER_FILE = 250_000
RECORDS = pa.schema({"partition": pa.int32(), "offset": pa.int64(), "value": pa.binary()}.items())
WORDS = [f"word{i}" for i in range(6)]
BLOCKS_A_ROUND = 5
"""Runs, to rows' one: so the two are about as long at it."""
STORES = {
    "rocksdb": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "heap": "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
}
KINDS = ["blocks", *(f"rows, {store}" for store in STORES)]


def make_query() -> Query:
    return Query(
        id="taxi-distance",
        analyst=KEY.owner,
        sql="SELECT distance FROM trips",
        columns=[Column("distance", [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"])],
        schedule=Schedule(origin=ORIGIN, expires=ORIGIN + 10**6, every=60, window=600, slide=60),
        proxies=["one", "two"],
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
    )


class Log:
    """What two proxies logged."""

    def __init__(self, folder: Path, query: Query) -> None:
        self.folder, self.query = folder, query
        self.truth = np.zeros(11, dtype=np.int64)
        self.n = 0
        for proxy in range(2):
            (folder / str(proxy)).mkdir(parents=True, exist_ok=True)

    @classmethod
    def of(cls, folder: Path, n: int, truth: list[int]) -> Log:
        """One that was made before."""
        log = cls(folder, make_query())
        log.n, log.truth = n, np.array(truth)
        return log

    def append(self, n: int, epoch: int, mark: int | None = None) -> None:
        source = system_source()
        reports = self.query.mechanism.draw(source.below(11, n).astype(np.intp), source)
        self.truth += self.query.mechanism.count(reports)
        shares = split_columns(reports, self.query.tag, epoch, 0, 2, source=source)
        for proxy, rows in enumerate(shares):
            blocks, _ = cut(
                self.query.channel_tag, epoch, 0, rows, PARTITIONS.bit_length() - 1, 4096
            )
            self.put(proxy, blocks, mark)
        self.n += n

    def put(self, proxy: int, blocks: list[Block], mark: int | None) -> None:
        """A file, in it a row group a partition."""
        records = [(block.prefix, block.to_bytes()) for block in blocks]
        if mark is not None:
            records += [
                (i, MarkRecord(self.query.channel_tag, mark).to_bytes()) for i in range(PARTITIONS)
            ]
        parts: list[list[dict[str, Any]]] = [[] for _ in range(PARTITIONS)]
        for i, (place, value) in enumerate(records):
            parts[place].append({"partition": place, "offset": self.n + i, "value": value})
        path = self.folder / str(proxy) / f".{self.n:012d}.parquet"
        with pq.ParquetWriter(path, RECORDS, compression="none", use_dictionary=False) as writer:
            for part in parts:
                writer.write_table(pa.Table.from_pylist(part, schema=RECORDS))
        path.rename(path.with_name(path.name[1:]))

    def sources(self, files: int) -> Sequence[LogSource]:
        """What Spark reads, so many files a batch."""
        return [FileSource(str(self.folder / str(proxy)), PARTITIONS, files) for proxy in range(2)]


class TopicLog(Log):
    """What two proxies logged in Kafka."""

    def __init__(self, bootstrap: str, folder: Path, query: Query) -> None:
        super().__init__(folder, query)
        self.settings = [
            KafkaSettings(bootstrap, f"proxy-{i}", partitions=PARTITIONS) for i in range(2)
        ]
        self.logs = [KafkaLog(settings, 10**9) for settings in self.settings]

    def put(self, proxy: int, blocks: list[Block], mark: int | None) -> None:
        self.logs[proxy].append(
            blocks, ORIGIN, marks=None if mark is None else {self.query.channel_tag: mark}
        )

    def sources(self, files: int) -> Sequence[LogSource]:
        """So many appends a batch: their blocks, the records that end transactions, and marks."""
        return [
            KafkaSource(settings, files * (self.n // 12 // 4096 + 3 * PARTITIONS))
            for settings in self.settings
        ]


def processor_seconds() -> float:
    """Processor time of this process and of all below it, Spark's and Python's workers: what a busy
    machine hardly changes."""
    parents, used = {}, {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, rest = int(stat.parent.name), stat.read_text().rpartition(")")[2].split()
            parents[pid], used[pid] = int(rest[1]), sum(map(int, rest[11:15]))
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return sum(used.get(pid, 0) for pid in below) / os.sysconf("SC_CLK_TCK")


def count_blocks(
    spark: Any, log: Log, folder: Path, files: int, watch: Any = None
) -> tuple[float, list[int]]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    query = log.query
    state = State(folder / "state.db", query.proxies)
    with state.transaction():
        publish(
            state.connection, sign(query, KEY), KeyRing().add(KEY.public), query.proxies, ORIGIN
        )
    state.close()
    job = Job(
        folder / "state.db",
        query.proxies,
        log.sources(files),
        str(folder / "checkpoint"),
        EngineLimits(),
    )
    started = time.perf_counter()
    aggregate(spark, job, available_now=True, now=ORIGIN + 3600, watch=watch)
    took = time.perf_counter() - started
    state = State(folder / "state.db", query.proxies)
    panes = state.panes(query.id, range(10**6)).values()
    found = [sum(pane.n for pane in panes), *sum(pane.counts for pane in panes).tolist()]  # type: ignore[union-attr]
    state.close()
    return took, found


def explode(batches: Iterable[Any]) -> Iterator[Any]:
    """Blocks as rows, one a share: id, the six words of its payload, and the time of its epoch."""
    for batch in batches:
        for content in batch.column(0):
            block = Block.from_bytes(content.as_py())
            ids = np.ascontiguousarray(block.columns[:2].T)
            mids = pa.FixedSizeBinaryArray.from_buffers(
                pa.binary(16), len(block), [None, pa.py_buffer(ids)]
            ).cast(pa.binary())
            words = [pa.array(column.view(np.int64)) for column in block.columns[2:]]
            at = pa.repeat(
                pa.scalar((ORIGIN + 60 * block.epoch) * 10**6, pa.timestamp("us", "UTC")),
                len(block),
            )
            yield pa.RecordBatch.from_arrays([mids, *words, at], names=["mid", *WORDS, "at"])


def count_rows(
    store: str, spark: Any, log: Log, folder: Path, files: int, watch: Any = None
) -> tuple[float, list[int]]:
    """The row-wise stream. Its state is every message id and what is XORed of it, until the
    watermark passes their epoch."""
    from pyspark.sql import functions as F  # noqa: PLC0415, N812 - slow to load

    shutil.rmtree(folder, ignore_errors=True)
    session = spark.newSession()
    for option, value in {
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": STORES[store],
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
        "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    }.items():
        session.conf.set(option, value)
    total = np.zeros(12, dtype=np.int64)

    def each(batch: Any, _: int) -> None:
        sums = [F.sum(F.shiftrightunsigned("word2", bit).bitwiseAND(1)) for bit in range(11)]
        row = batch.where("proxies = 3").agg(F.count("*"), *sums).collect()[0]
        total[:] += [int(number or 0) for number in row]

    started = time.perf_counter()
    columns = f"mid binary, {', '.join(f'{word} long' for word in WORDS)}, at timestamp"
    reader = session.readStream.schema("partition int, offset long, value binary").option(
        "maxFilesPerTrigger", files
    )
    parts = [
        reader.parquet(str(log.folder / str(proxy)))
        .where("substring(value, 2, 1) = X'42'")
        .select("value")
        .mapInArrow(explode, columns)
        .withWatermark("at", "60 seconds")
        .withColumn("proxy", F.lit(1 << proxy))
        for proxy in range(2)
    ]
    wanted = [*(F.bit_xor(word).alias(word) for word in WORDS), F.bit_or("proxy").alias("proxies")]
    joined = parts[0].union(parts[1]).groupBy("at", "mid").agg(*wanted)
    writer = (
        joined.writeStream.outputMode("update")
        .foreachBatch(each)
        .option("checkpointLocation", str(folder))
    )
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    for progress in query.recentProgress if watch else ():
        watch(progress)
    return time.perf_counter() - started, total.tolist()


def open_session() -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to load

    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "8g")
    )
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config(
        "spark.driver.host", "127.0.0.1"
    )
    return (
        builder.config("spark.log.level", "OFF")
        .config("spark.shuffle.compress", "false")
        .getOrCreate()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=int, default=2_000_000, help="of a batch")
    parser.add_argument(
        "--rounds", type=int, default=3, help="of blocks and rows; the first is not counted"
    )
    parser.add_argument("--skip", action="append", default=[], choices=["ratio", "growth", "kept"])
    parser.add_argument(
        "--topics", action="store_true", help="count blocks from a broker of Kafka as well"
    )
    parser.add_argument("--serve", choices=KINDS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(chosen.serve)
        return
    holds = []
    with tempfile.TemporaryDirectory() as name:
        if "ratio" not in chosen.skip:
            holds.append(
                ratio(
                    make_log(Path(name) / "log", chosen.answers), Path(name), max(2, chosen.rounds)
                )
            )
        parts = [part for part in (growth, kept) if part.__name__ not in chosen.skip]
        spark = open_session() if parts else None
        holds += [part(spark, Path(name) / part.__name__) for part in parts]
        if chosen.topics:
            spark = spark or open_session()
            topics(spark, Path(name) / "topics", chosen.answers)
        if spark:
            spark.stop()
    sys.exit(0 if all(holds) else 1)


def make_log(folder: Path, n: int) -> Log:
    """Three epochs of `n` answers."""
    log = Log(folder, make_query())
    fill(log, n)
    print(
        f"{log.n:,} answers, 2 proxies, 11 buckets, {PARTITIONS} partitions, local[2], batches of"
        f" {n:,}",
        flush=True,
    )
    return log


def fill(log: Log, n: int) -> None:
    for epoch in range(3):
        for part in range(4):
            log.append(n // 4, epoch, mark=epoch + 1 if part == 3 else None)


def ratio(log: Log, folder: Path, rounds: int) -> bool:
    rates: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    with contextlib.ExitStack() as stack:
        servers = {kind: stack.enter_context(Server(kind, log, folder)) for kind in KINDS}
        for turn in range(rounds):
            for kind, server in servers.items():
                found = [server.run() for _ in range(BLOCKS_A_ROUND if kind == "blocks" else 1)]
                middle = [statistics.median(column) for column in zip(*found, strict=True)]
                told = (
                    f"{middle[0]:10,.0f} answers a second in steady state, {middle[1]:10,.0f} with"
                    " its start"
                )
                print(
                    f"  round {turn}: {kind:<14}{told}, {middle[2]:8,.0f} a second of processor",
                    flush=True,
                )
                if turn:
                    rates[kind].append(middle)
    times = {}
    for kind in KINDS[1:]:
        pairs = list(zip(rates["blocks"], rates[kind], strict=True))
        times[kind] = [
            statistics.median(mine[i] / theirs[i] for mine, theirs in pairs) for i in range(3)
        ]
        steady, whole, processor = times[kind]
        told = (
            f"{steady:.1f} times {kind} ({whole:.1f} with the start, {processor:.1f} by processor"
            " time)"
        )
        print(f"  blocks {told}; at least 10: {said(steady >= 10)}", flush=True)
    return all(steady >= 10 for steady, *_ in times.values())


class Server:
    """A pipeline in a process and a JVM of its own, that runs when it is told to."""

    def __init__(self, kind: str, log: Log, folder: Path) -> None:
        command = [sys.executable, __file__, "--serve", kind]
        self._process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._order = (
            json.dumps(
                [str(log.folder), log.n, log.truth.tolist(), str(folder / kind.replace(", ", "-"))]
            )
            + "\n"
        )

    def run(self) -> list[float]:
        """Answers a second in steady state, with the start, and a second of processor time."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(self._order)
        self._process.stdin.flush()
        told: list[float] = json.loads(self._process.stdout.readline())
        return told

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(60)


def serve(kind: str) -> None:
    spark = open_session()
    run = (
        count_blocks
        if kind == "blocks"
        else functools.partial(count_rows, kind.removeprefix("rows, "))
    )
    for line in sys.stdin:
        folder, n, truth, work = json.loads(line)
        log = Log.of(Path(folder), n, truth)
        progress: list[dict[str, Any]] = []
        used = processor_seconds()
        took, found = run(spark, log, Path(work), 4, progress.append)
        used = processor_seconds() - used
        assert found == [log.n, *log.truth.tolist()], found
        steady = [batch["batchDuration"] / 1000 for batch in progress[1:3]]
        print(
            json.dumps([log.n / 3 * len(steady) / sum(steady), log.n / took, log.n / used]),
            flush=True,
        )
    spark.stop()


def growth(spark: Any, folder: Path, n: int = 1_000_000) -> bool:
    """Epochs of a quarter of a million answers that close, as in a stream; and, harder, all of one
    epoch that stays open.

    Told by the whole time; and, for that has a start in it, by the batches of the ten millions, of
    which the last may take half as long again as the first ones, on a machine whose speed changes
    by that.
    """
    holds = []
    for kind in ("of epochs that close", "of one open epoch"):
        times, batches = {}, list[float]()
        for factor in (1, 10):
            log = Log(folder / str(factor), make_query())
            for part in range(max(1, factor * n // PER_FILE)):
                epoch, mark = (part, part + 1) if kind == "of epochs that close" else (0, None)
                log.append(min(n, PER_FILE), epoch, mark)
            runs = []
            for _ in range(3 if factor == 1 else 2):
                progress: list[dict[str, Any]] = []
                took, found = count_blocks(spark, log, folder / "work", 4, progress.append)
                assert found == [log.n, *log.truth.tolist()]
                runs.append((took, [batch["batchDuration"] / 1000 for batch in progress[1:10]]))
            times[factor], batches = min(runs)
            print(
                f"  {log.n:>12,} answers {kind}, in batches of 1,000,000: {times[factor]:6.2f} s",
                flush=True,
            )
            shutil.rmtree(log.folder)
        grown, longer = (
            times[10] / times[1],
            statistics.median(batches[-4:]) / statistics.median(batches[:4]),
        )
        print(
            "    batches of the ten millions, the first left out:"
            f" {', '.join(f'{each:.1f}' for each in batches)} s"
        )
        holds.append(grown <= 10 and longer <= 1.5)
        told = (
            f"take {grown:.1f} times the time, and the last batches {longer:.2f} times that of the"
            " first"
        )
        print(
            f"  ten times the answers {kind} {told}; at most 10, and 1.5: {said(holds[-1])}",
            flush=True,
        )
    return all(holds)


def kept(spark: Any, folder: Path, n: int = 100_000) -> bool:
    """Epochs of 100,000 answers, each marked two epochs later. What the state holds after each
    batch is in the checkpoint."""
    log = Log(folder, make_query())
    for epoch in range(24):
        log.append(n, epoch, mark=max(0, epoch - 1))
    batches: list[int] = []
    count_blocks(
        spark, log, folder / "work", 2, lambda progress: batches.append(progress["batchId"])
    )
    reader = spark.read.format("statestore").option("stateVarName", "log")
    sizes = []
    for batch in batches[2:]:  # Spark keeps what it takes to go back some batches
        segments = reader.option("batchId", batch).load(
            str(folder / "work" / "checkpoint" / "stream")
        )
        sizes.append(
            segments.selectExpr("coalesce(sum(length(user_map_value.content)), 0)").collect()[0][0]
        )
    print(
        "  bytes of state, two epochs a batch:"
        f" {', '.join(f'{size / 1e6:.1f}' for size in sizes)} MB"
    )
    flat = len(sizes) > 8 and max(sizes[4:]) <= 1.2 * max(sizes[:4])
    print(f"  flat: {said(flat)}")
    return flat


def topics(spark: Any, folder: Path, n: int) -> None:
    with Broker(folder / "broker") as broker:
        log = TopicLog(broker.bootstrap, folder, make_query())
        fill(log, n)
        rates = []
        for _ in range(4):
            progress: list[dict[str, Any]] = []
            _, found = count_blocks(spark, log, folder / "work", 4, progress.append)
            assert found == [log.n, *log.truth.tolist()]
            rates.append(2 * n / sum(batch["batchDuration"] / 1000 for batch in progress[1:3]))
        for each in log.logs:
            each.close()
    print(
        f"  from topics of a broker on the same cores: {statistics.median(rates[1:]):,.0f} answers"
        " a second in steady state"
    )


def said(holds: bool) -> str:
    return "holds" if holds else "DOES NOT HOLD"


if __name__ == "__main__":
    main()
