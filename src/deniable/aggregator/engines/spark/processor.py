"""A bucket as Spark runs it: references to records in, rows of figures out, its memory in Spark's
state.

`transformWithStateInPandas` gives a bucket state in parts, so that a batch reads and writes only
what it needs. A batch's changes take effect with its commit, or not at all.
"""

from __future__ import annotations

import binascii
import functools
import json
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from deniable.aggregator.counting.catalogue import Catalogue, Published
from deniable.aggregator.engines.spark.batch import BatchRecord, BatchRules, work
from deniable.aggregator.engines.spark.bucket_state import EpochCache, Memory
from deniable.aggregator.engines.spark.log_stream import ORDERS
from deniable.aggregator.engines.spark.pipeline import BucketTask
from deniable.aggregator.engines.spark.rows import to_rows
from deniable.aggregator.engines.spark.sources import LogSource
from deniable.aggregator.state import signed
from deniable.queries.signed.signing import SignedQuery
from deniable.wire.segments import ChannelEpoch

__all__ = ["BucketProcessor"]

# A process keeps this much of open epochs in memory, at 16 bytes per answer. The rest is read from
# Spark's state in every batch.
_epochs = EpochCache(256 << 20)


class _Log:
    """Segments in Spark's state, as base64. Spark hands binary state to Python through a text, byte
    by byte, which takes longer than everything else; ASCII text is passed unchanged.
    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def read(self, place: ChannelEpoch, number: int) -> bytes:
        return binascii.a2b_base64(self._state.getValue(_key(place, number))[0])

    def write(self, place: ChannelEpoch, number: int, content: bytes) -> None:
        self._state.updateValue(
            _key(place, number), (binascii.b2a_base64(content, newline=False).decode("ascii"),)
        )

    def remove(self, place: ChannelEpoch, number: int) -> None:
        self._state.removeKey(_key(place, number))


def _key(place: ChannelEpoch, number: int) -> tuple[int, int, int]:
    return (signed(place[0]), place[1], number)


class BucketProcessor(StatefulProcessor):
    """Counts the records of buckets, one bucket after the other, and fetches the records itself."""

    def __init__(self, task: BucketTask, sources: Sequence[LogSource]) -> None:
        self._task, self._sources = task, sources

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the parts of the state: once per partition and batch."""
        self._head = handle.getValueState("head", "content string")
        self._log = _Log(
            handle.getMapState("log", "channel long, epoch long, number int", "content string")
        )

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802 - Spark's
        """Count what a batch has for one bucket."""
        task = self._task
        records: list[BatchRecord] = []
        orders: dict[int, int] = {}
        bucket = 0
        for frame in rows:
            bucket = int(frame["bucket"].iloc[0])
            for proxy, span in zip(frame["proxy"].tolist(), frame["span"].tolist(), strict=True):
                if proxy == ORDERS:
                    orders |= {int(channel): epoch for channel, epoch in json.loads(span).items()}
                else:
                    records += [
                        BatchRecord(proxy, *found)
                        for found in self._sources[proxy].fetch(bucket, span)
                    ]
        head = self._head.get()
        memory = Memory(task.n_proxies, bucket, head[0] if head else "", self._log, _epochs)
        # The time of the batch is in Spark's offset log: a batch that is run again is counted with
        # the same time.
        now = timerValues.getCurrentProcessingTimeInMs() // 1000 if task.now is None else task.now
        outcome = work(_rules(task), memory, bucket, records, now, orders)
        self._head.update((memory.save(),))
        counted = to_rows(bucket, outcome)
        if counted["kind"]:
            yield pd.DataFrame(counted)

    def close(self) -> None:
        """Nothing is kept between batches except the cache."""


@functools.lru_cache(maxsize=4)
def _rules(task: BucketTask) -> BatchRules:
    """Loaded once in every process that counts."""
    entries = []
    for content, when, stopped in task.entries:
        signed_query = SignedQuery.from_bytes(content)
        entries.append(Published(signed_query.unverified(), signed_query, when, stopped))
    channels = Catalogue(entries).channels
    return BatchRules(
        channels,
        dict(task.firsts),
        task.n_proxies,
        task.partition_bits,
        task.limits,
        task.keep_reports,
    )
