"""The stream itself: sources, one a proxy, with the driver's orders; put together by bucket; counted in NumPy.

The number of a proxy is set on its own source, before the union. No watermark of Spark's is used: it drops late rows without a
word. What takes its place stands in the logs: every partition carries its proxy's marks (`spark.batch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deniable.aggregator.catalogue import Published
from deniable.aggregator.engine import Limits
from deniable.errors import ParameterError
from deniable.spark.batch import ORDERS
from deniable.spark.rows import SCHEMA
from deniable.spark.sources import RECORDS, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Task", "bucket_keys", "figures_of", "own_session"]

_STORE = "spark.sql.streaming.stateStore.providerClass"
_CONF = {
    # A checksum of every row, against maps that differ when they are run again. Here a map reads a log and nothing else.
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "false",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "false",
    # Rows are blocks of up to some MiB: as many at once as fit in memory, not the 10,000 that suit small rows.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    # Spark keeps what it takes to go back a hundred batches by default: of state that is ids of open epochs, that fills a disk.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # The store that has state in parts; and ids of open epochs may be more than a heap holds.
    _STORE: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
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
    if options.get(_STORE, _CONF[_STORE]) != _CONF[_STORE]:
        raise ParameterError(_STORE, options[_STORE], f"must be RocksDB's, {_CONF[_STORE]}: no other has state in parts")
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

    from deniable.spark.processor import BucketProcessor  # noqa: PLC0415 - needs the extra `spark`

    records = spark.readStream.schema(RECORDS).parquet(orders).withColumn("proxy", F.lit(ORDERS))
    for proxy, source in enumerate(sources):
        records = records.unionByName(source.read(spark).withColumn("proxy", F.lit(proxy)))
    places = F.array(*(F.lit(key) for key in keys))
    keyed = records.withColumn("key", F.element_at(places, F.col("partition") + 1))
    counted: DataFrame = keyed.groupBy("key").transformWithStateInPandas(
        BucketProcessor(task), SCHEMA, "append", "processingTime"
    )
    return counted
