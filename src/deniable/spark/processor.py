"""A bucket as Spark runs it: records in, rows of figures out, its memory in Spark's state.

`transformWithStateInPandas` gives a bucket state in parts, so that a batch reads and writes what it needs. What a batch
changes takes effect with its commit, or not at all.
"""

from __future__ import annotations

import binascii
import functools
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from deniable.aggregator.catalogue import Catalogue, Published
from deniable.aggregator.state import signed
from deniable.queries.signing import SignedQuery
from deniable.spark.batch import Record, Rules, work
from deniable.spark.memory import Memory, Mind, Place
from deniable.spark.pipeline import Task
from deniable.spark.rows import to_rows

__all__ = ["BucketProcessor"]

# A process has this much of open epochs in mind: 16 bytes an answer. What is more is read from Spark's state with every batch.
_mind = Mind(256 << 20)


class _Log:
    """Segments in Spark's state, as base64. Spark hands binary state to Python through a text, byte by byte, and spends more time
    on it than on everything else; a text in ASCII goes through as it is.
    """

    def __init__(self, state: Any) -> None:
        self._state = state

    def read(self, place: Place, number: int) -> bytes:
        return binascii.a2b_base64(self._state.getValue(_key(place, number))[0])

    def write(self, place: Place, number: int, content: bytes) -> None:
        self._state.updateValue(_key(place, number), (binascii.b2a_base64(content, newline=False).decode("ascii"),))

    def remove(self, place: Place, number: int) -> None:
        self._state.removeKey(_key(place, number))


def _key(place: Place, number: int) -> tuple[int, int, int]:
    return (signed(place[0]), place[1], number)


class BucketProcessor(StatefulProcessor):
    """Counts the records of buckets, one after the other."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Name the parts of the state: once for every partition and batch."""
        self._head = handle.getValueState("head", "content string")
        self._log = _Log(handle.getMapState("log", "channel long, epoch long, number int", "content string"))

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802 - Spark's
        """Count what a batch has for one bucket."""
        task = self._task
        records: list[Record] = []
        partition = 0
        for frame in rows:
            partition = int(frame["partition"].iloc[0])
            columns = (frame["proxy"].tolist(), frame["offset"].tolist(), frame["value"].tolist())
            records += [Record(proxy, offset, bytes(value or b"")) for proxy, offset, value in zip(*columns, strict=True)]
        head = self._head.get()
        memory = Memory(task.n_proxies, partition, head[0] if head else "", self._log, _mind)
        # The time of the batch is in Spark's offset log: a batch that is run again is counted at the same time.
        now = timerValues.getCurrentProcessingTimeInMs() // 1000 if task.now is None else task.now
        outcome = work(_rules(task), memory, partition, records, now)
        self._head.update((memory.save(),))
        told = to_rows(partition, outcome)
        if told["kind"]:
            yield pd.DataFrame(told)

    def close(self) -> None:
        """Nothing is held between batches but what is in mind."""


@functools.lru_cache(maxsize=4)
def _rules(task: Task) -> Rules:
    """Read once in every process that counts."""
    entries = []
    for content, when, stopped in task.entries:
        signed_query = SignedQuery.from_bytes(content)
        entries.append(Published(signed_query.unverified(), signed_query, when, stopped))
    channels = Catalogue(entries).channels
    return Rules(channels, dict(task.firsts), task.n_proxies, task.partition_bits, task.limits, task.keep_reports)
