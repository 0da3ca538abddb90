"""The stream itself: sources, one a proxy, with the driver's orders; put together by bucket; counted in NumPy.

The number of a proxy is set on its own source, before the union. No watermark of Spark's is used: it drops late rows without a
word. What takes its place stands in the logs: every partition carries its proxy's marks (`spark.batch`).
"""

from __future__ import annotations

import binascii
import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deniable.aggregator.catalogue import Catalogue, Published
from deniable.aggregator.engine import Limits
from deniable.queries.signing import SignedQuery
from deniable.spark.batch import ORDERS, Record, Rules, work
from deniable.spark.memory import Memory
from deniable.spark.rows import SCHEMA, to_rows
from deniable.spark.sources import RECORDS, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Task", "bucket_keys", "figures_of", "own_session"]

_STATE = "content string"
"""The memory of a bucket as base64. Spark hands binary state to Python through a text, byte by byte, and spends more time on it
than on everything else; a text in ASCII goes through as it is."""
_CONF = {
    # A checksum of every row, against maps that differ when they are run again. Here a map reads a log and nothing else.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    # Rows are blocks of up to some MiB: as many at once as fit in memory, not the 10,000 that suit small rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # A bucket's memory is written anew with every batch: a hundred of them, which Spark keeps by default, would fill the disk.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # Ids of open epochs may be more than a heap holds.
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # What changed is written at the end of a batch, and a copy of the whole now and then, instead of a copy with every batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Reading many rows at once into one growing array suits small values, not blocks.
    "spark.sql.parquet.enableVectorizedReader": "false",
    # There is nothing to do in a batch without records.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
}


def own_session(spark: SparkSession, partitions: int, options: dict[str, str]) -> SparkSession:
    """A session with settings of its own in the same Spark application: those of the caller stay as they are."""
    session = spark.newSession()
    for name, value in {**_CONF, "spark.sql.shuffle.partitions": str(partitions), **options}.items():
        session.conf.set(name, value)
    return session


@dataclass(frozen=True)
class Task:
    """What executors are told; small, and the same for all."""

    entries: tuple[tuple[bytes, int, int | None], ...]
    """Signed queries, when they were published, and when stopped."""
    firsts: tuple[tuple[int, int], ...]
    n_proxies: int
    partition_bits: int
    limits: Limits
    keep_reports: bool
    now: int | None = None
    """The time, if it is not that of the batch."""

    @classmethod
    def of(
        cls, entries: Sequence[Published], firsts: dict[int, int], n_proxies: int, partitions: int, limits: Limits, **how: Any
    ) -> Task:
        """The task with these queries."""
        told = tuple((entry.signed.to_bytes(), entry.published, entry.stopped) for entry in entries)
        return cls(told, tuple(sorted(firsts.items())), n_proxies, partitions.bit_length() - 1, limits, **how)


@functools.lru_cache(maxsize=4)
def _rules(task: Task) -> Rules:
    """Read once in every process that counts."""
    entries = []
    for content, when, stopped in task.entries:
        signed = SignedQuery.from_bytes(content)
        entries.append(Published(signed.unverified(), signed, when, stopped))
    channels = Catalogue(entries).channels
    return Rules(channels, dict(task.firsts), task.n_proxies, task.partition_bits, task.limits, task.keep_reports)


def _counter(task: Task) -> Callable[..., Iterator[Any]]:
    def count(_: tuple[int], frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import pandas as pd  # noqa: PLC0415 - on executors

        rules = _rules(task)
        records: list[Record] = []
        partition = 0
        for frame in frames:
            partition = int(frame["partition"].iloc[0])
            columns = (frame["proxy"].tolist(), frame["offset"].tolist(), frame["value"].tolist())
            records += [Record(proxy, offset, bytes(value or b"")) for proxy, offset, value in zip(*columns, strict=True)]
        memory = Memory(task.n_proxies, binascii.a2b_base64(state.get[0]) if state.exists else b"")
        # The time of the batch is in Spark's offset log: a batch that is run again is counted at the same time.
        now = state.getCurrentProcessingTimeMs() // 1000 if task.now is None else task.now
        outcome = work(rules, memory, partition, records, now)
        state.update((binascii.b2a_base64(memory.to_bytes(), newline=False).decode("ascii"),))
        rows = to_rows(partition, outcome)
        if rows["kind"]:
            yield pd.DataFrame(rows)

    return count


def bucket_keys(spark: SparkSession, n_buckets: int, n_partitions: int) -> list[int]:
    """For each bucket a number that Spark's hash puts into the shuffle partition `bucket % n_partitions`.

    The hash of the bucket's own number spreads a few buckets badly: of 64 on 16 partitions one gets 8, another 1.
    """
    from pyspark.sql import functions as F  # noqa: PLC0415, N812 - an extra

    wanted = -(-n_buckets // n_partitions)
    found: list[list[int]] = [[] for _ in range(n_partitions)]
    start, step = 0, 16 * n_buckets + 64 * n_partitions
    while min(map(len, found)) < wanted:
        numbers = spark.range(start, start + step).select(F.col("id").cast("int").alias("key"))
        for key, place in numbers.select("key", F.pmod(F.hash("key"), F.lit(n_partitions))).orderBy("key").collect():
            found[place].append(key)
        start += step
    return [found[bucket % n_partitions][bucket // n_partitions] for bucket in range(n_buckets)]


def figures_of(spark: SparkSession, sources: Sequence[Source], orders: str, keys: Sequence[int], task: Task) -> DataFrame:
    """The stream of what buckets make of the sources, as rows of :data:`deniable.spark.rows.SCHEMA`."""
    from pyspark.sql import functions as F  # noqa: PLC0415, N812 - an extra
    from pyspark.sql.streaming.state import GroupStateTimeout  # noqa: PLC0415

    records = spark.readStream.schema(RECORDS).parquet(orders).withColumn("proxy", F.lit(ORDERS))
    for proxy, source in enumerate(sources):
        records = records.unionByName(source.read(spark).withColumn("proxy", F.lit(proxy)))
    places = F.array(*(F.lit(key) for key in keys))
    keyed = records.withColumn("key", F.element_at(places, F.col("partition") + 1))
    counted: DataFrame = keyed.groupBy("key").applyInPandasWithState(
        _counter(task), SCHEMA, _STATE, "append", GroupStateTimeout.NoTimeout
    )
    return counted
