"""The stream itself: references to what the proxies have logged (`spark.log_stream`), grouped by
bucket and counted in NumPy.

Spark's watermarks are not used: they drop late rows silently, and after a union they follow the
fastest source. The logs provide what replaces them: every partition carries its proxy's marks
(`spark.batch`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deniable.aggregator.counting.catalogue import Published
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.spark.rows import SCHEMA
from deniable.aggregator.engines.spark.sources import LogSource
from deniable.errors import ParameterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["BucketTask", "bucket_keys", "figures_of", "own_session"]

_WORD = 0xFFFFFFFF
_STORE = "spark.sql.streaming.stateStore.providerClass"
_CONF = {
    # By default Spark keeps enough to go back a hundred batches: with the ids of open epochs as
    # state, that fills a disk.
    "spark.sql.streaming.minBatchesToRetain": "10",
    # The store that has state in parts; and the ids of open epochs may not fit into a heap.
    _STORE: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    # Changes are written at the end of a batch, with a full copy from time to time, instead of a
    # copy with every batch.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # A batch without records has nothing to do.
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.adaptive.enabled": "false",
}


def own_session(spark: SparkSession, partitions: int, options: dict[str, str]) -> SparkSession:
    """A session with its own settings in the same Spark application: the caller's settings stay as
    they are."""
    if options.get(_STORE, _CONF[_STORE]) != _CONF[_STORE]:
        raise ParameterError(
            _STORE,
            options[_STORE],
            f"must be RocksDB's, {_CONF[_STORE]}: no other has state in parts",
        )
    session = spark.newSession()
    for name, value in {
        **_CONF,
        "spark.sql.shuffle.partitions": str(partitions),
        **options,
    }.items():
        session.conf.set(name, value)
    return session


@dataclass(frozen=True)
class BucketTask:
    """What executors receive; small, and the same for all."""

    entries: tuple[tuple[bytes, int, int | None], ...]
    """Signed queries, when they were published, and when stopped."""
    firsts: tuple[tuple[int, int], ...]
    n_proxies: int
    partition_bits: int
    limits: EngineLimits
    keep_reports: bool
    now: int | None = None
    """The time, if it is not that of the batch."""

    @classmethod
    def of(
        cls,
        entries: Sequence[Published],
        firsts: dict[int, int],
        n_proxies: int,
        partitions: int,
        limits: EngineLimits,
        **how: Any,
    ) -> BucketTask:
        """The task with these queries."""
        published = tuple(
            (entry.signed.to_bytes(), entry.published, entry.stopped) for entry in entries
        )
        return cls(
            published,
            tuple(sorted(firsts.items())),
            n_proxies,
            partitions.bit_length() - 1,
            limits,
            **how,
        )


def bucket_keys(n_buckets: int, n_partitions: int) -> list[int]:
    """For each bucket, a number that Spark's hash puts into the shuffle partition `bucket %
    n_partitions`.

    The hash of the bucket's own number spreads few buckets badly: of 64 on 16 partitions, one
    partition gets 8, another 1.
    """
    wanted = -(-n_buckets // n_partitions)
    found: list[list[int]] = [[] for _ in range(n_partitions)]
    number = 0
    while min(map(len, found)) < wanted:
        found[_hash(number) % n_partitions].append(number)
        number += 1
    return [found[bucket % n_partitions][bucket // n_partitions] for bucket in range(n_buckets)]


def _hash(number: int) -> int:
    """Spark's hash of a 32-bit number: MurmurHash3 (x86, 32 bits) with the seed 42, as a signed
    number."""
    mixed = _turned(number * 0xCC9E2D51, 15) * 0x1B873593
    state = _turned(42 ^ mixed & _WORD, 13) * 5 + 0xE6546B64 & _WORD
    state ^= 4  # the length in bytes
    state = (state ^ state >> 16) * 0x85EBCA6B & _WORD
    state = (state ^ state >> 13) * 0xC2B2AE35 & _WORD
    state ^= state >> 16
    return state - (state >> 31 << 32)


def _turned(word: int, bits: int) -> int:
    word &= _WORD
    return (word << bits | word >> 32 - bits) & _WORD


def figures_of(spark: SparkSession, sources: Sequence[LogSource], task: BucketTask) -> DataFrame:
    """The stream of what buckets make of the registered logs, as rows of :data:`rows.SCHEMA`."""
    from deniable.aggregator.engines.spark.log_stream import FORMAT  # noqa: PLC0415 - an extra
    from deniable.aggregator.engines.spark.processor import BucketProcessor  # noqa: PLC0415

    references = spark.readStream.format(FORMAT).load()
    processor = BucketProcessor(task, sources)
    counted: DataFrame = references.groupBy("key").transformWithStateInPandas(
        processor, SCHEMA, "append", "processingTime"
    )
    return counted
