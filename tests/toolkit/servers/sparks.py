"""Spark on this machine for tests: one session for all, and a crowd whose logs Spark reads beside
the embedded engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.spark import FileSource, Job, KafkaSource, aggregate
from deniable.aggregator.engines.spark.session import open_session
from deniable.aggregator.state import State, connect
from deniable.devtools.maven import java
from deniable.errors import ServiceError
from deniable.queries.query import Query
from deniable.queries.signed.signing import sign
from deniable.wire.blocks import Block, cut
from deniable.wire.marks import MarkRecord
from toolkit.crowds import KEY, RING, Crowd
from toolkit.servers.brokers import REQUIRED
from toolkit.servers.engines import LIMITS, KafkaLogs, Outcome, Scenario, Stage, outcome_of

PARTITIONS = 4
LOCAL = {
    "spark.ui.port": "0",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
    # short runs are over before C2 has paid off
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.log.level": "OFF",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session on two threads."""
    reason = missing_java()
    if reason and REQUIRED:
        pytest.fail(f"DENIABLE_REQUIRE_KAFKA=1, and {reason}")
    if reason:
        pytest.skip(reason)
    session = open_session("local[2]", LOCAL)
    yield session
    session.stop()


def missing_java() -> str:
    """Why there is no Java; empty if there is."""
    try:
        java()
    except ServiceError as error:
        return str(error)
    return ""


class RecordedLog:
    """A proxy's log as Parquet files: every append is one file that holds all its records."""

    def __init__(self, folder: Path, partitions: int = PARTITIONS) -> None:
        self.folder, self.partitions = folder, partitions
        self._n = 0
        folder.mkdir(parents=True, exist_ok=True)

    def append(self, records: Iterable[tuple[int, bytes]]) -> None:
        rows = []
        for partition, content in records:
            rows.append({"partition": partition, "offset": self._n, "value": content})
            self._n += 1
        if rows:
            kinds = pa.schema(
                {"partition": pa.int32(), "offset": pa.int64(), "value": pa.binary()}.items()
            )
            hidden = self.folder / f".{self._n:09d}.parquet"
            pq.write_table(pa.Table.from_pylist(rows, schema=kinds), hidden)
            hidden.rename(self.folder / hidden.name[1:])

    def append_blocks(self, blocks: Iterable[Block], *marks: MarkRecord) -> None:
        bits = self.partitions.bit_length() - 1
        records = [
            (block.prefix >> (block.prefix_bits - bits), block.to_bytes()) for block in blocks
        ]
        self.append(
            [
                *records,
                *(
                    (partition, mark.to_bytes())
                    for mark in marks
                    for partition in range(self.partitions)
                ),
            ]
        )


class SparkCrowd(Crowd):
    """A crowd whose shares go into logs for both engines."""

    def __init__(self, folder: Path, query: Query | None = None, seed: int = 1) -> None:
        super().__init__(folder, query, seed)
        self.recorded = [RecordedLog(folder / f"records{i}") for i in range(len(self.logs))]
        self.spark_state = folder / "spark.db"
        self.checkpoint = str(folder / "checkpoint")
        self.limits: dict[str, Any] = {"bucket_bits": 2}

    def append(self, proxy: int, rows: Any, epoch: int = 0, prefix_bits: int = 2) -> None:
        prefix_bits = max(prefix_bits, 2)
        super().append(proxy, rows, epoch, prefix_bits)
        blocks, _ = cut(
            self.query.channel_tag, epoch, self.query.size_class or 0, rows, prefix_bits
        )
        self.recorded[proxy].append_blocks(blocks)

    def append_bytes(self, proxy: int, content: bytes) -> None:
        """Something that need not be a block."""
        self.logs[proxy]._connection.execute(
            "INSERT INTO blocks (channel, epoch, size_class, prefix_bits, prefix, n, appended,"
            " block) VALUES ('', 0, 0, 0, 0, 1, ?, ?)",
            (self.now, content),
        )
        self.recorded[proxy].append([(0, content)])

    def mark(self, epoch: int, proxies: Iterable[int] | None = None) -> None:
        chosen = list(range(len(self.logs)) if proxies is None else proxies)
        super().mark(epoch, chosen)
        for proxy in chosen:
            self.recorded[proxy].append_blocks([], MarkRecord(self.query.channel_tag, epoch))

    def job(self, **changes: Any) -> Job:
        given: dict[str, Any] = {
            "sources": [FileSource(str(log.folder), log.partitions) for log in self.recorded],
            "checkpoint": self.checkpoint,
            "limits": EngineLimits(**self.limits),
        }
        return Job(self.spark_state, self.query.proxies, **{**given, **changes})

    def publish_to_spark(self, query: Query | None = None) -> None:
        state = State(self.spark_state, self.query.proxies)
        try:
            with state.transaction():
                publish(
                    state.connection,
                    sign(query or self.query, KEY),
                    RING,
                    self.query.proxies,
                    self.now,
                )
        finally:
            state.close()

    def drain_spark(self, spark: Any, **how: Any) -> None:
        aggregate(spark, self.job(**how), available_now=True, now=self.now)


class SparkEngine:
    """Spark on topics of Kafka, as an adapter of the engine suite: a new stream for every drain,
    from the same checkpoint."""

    def __init__(self, scenario: Scenario, folder: Path, logs: KafkaLogs, spark: Any) -> None:
        self.logs, self._scenario, self._spark = logs, scenario, spark
        self._state, self._checkpoint = folder / "spark.db", folder / "checkpoint"
        state = State(self._state, scenario.proxies)
        with state.transaction():
            scenario.publish(state.connection)
        state.close()

    def write(self, stage: Stage) -> None:
        self.logs.write(stage)

    def drain(self, now: int) -> None:
        sources = [KafkaSource(settings) for settings in self.logs.settings]
        job = Job(
            self._state,
            self._scenario.proxies,
            sources,
            str(self._checkpoint),
            EngineLimits(**LIMITS),
        )
        aggregate(self._spark, job, available_now=True, now=now)

    def outcome(self) -> Outcome:
        state = State(self._state, self._scenario.proxies)
        try:
            return outcome_of(state, self._scenario.queries)
        finally:
            state.close()

    def close(self) -> None:
        self.logs.close()


def state_contents(path: Path) -> dict[str, list[Any]]:
    """All that a state holds of what was counted: panes, accounts, totals, refusals, closures,
    fronts and windows."""
    connection = connect(path)
    try:
        return {
            table: (
                connection.execute(f"SELECT {columns} FROM {table} ORDER BY {columns}").fetchall()  # noqa: S608 - ours
            )
            for table, columns in {
                "panes": "query, serial, epoch, stratum, n, silent, counts",
                "accounts": (
                    "channel, epoch, proxy, received, counted, orphaned, duplicate, late, malformed"
                ),
                "totals": "proxy, outcome, n",
                "refusals": "proxy, reason, n",
                "closures": "channel, epoch, missing",
                "channels": "channel, first, front",
                "results": "query, number, start, condition, document",
            }.items()
        }
    finally:
        connection.close()
