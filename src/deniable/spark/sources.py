"""Where Spark reads a proxy's log: a Kafka topic, or files with the same columns. One source a proxy, never one for all."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deniable.errors import LogError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from deniable.proxy.kafka_reader import Topic
    from deniable.proxy.kafka_settings import KafkaSettings

__all__ = ["RECORDS", "FileSource", "KafkaSource", "Source"]

RECORDS = "partition int, offset long, value binary"
"""What every source gives: the bytes of blocks and marks, and where they stand. Offsets ascend in each partition."""


class Source(Protocol):
    """A proxy's log."""

    @property
    def partitions(self) -> int:
        """How many partitions it has: a power of two."""
        ...

    def identity(self) -> str | None:
        """A name that no other log has, if the log knows one."""
        ...

    def read(self, spark: SparkSession) -> DataFrame:
        """The records as a stream."""
        ...


@dataclass(frozen=True)
class KafkaSource:
    """A topic: its committed records, from the oldest on. Records that are gone before they were read stop the stream."""

    settings: KafkaSettings
    records_a_batch: int = 4096
    options: Mapping[str, str] = field(default_factory=dict)
    """Further options of Spark's Kafka source; those of the Java client begin with `kafka.`."""

    @functools.cached_property
    def partitions(self) -> int:
        """As many as the topic has: its cluster is asked, once."""
        return self._look().n_partitions

    def identity(self) -> str | None:
        """The topic's own id, which one that was deleted and made again does not have."""
        return self._look().identity

    def _look(self) -> Topic:
        from deniable.proxy.kafka_reader import TopicKeeper  # noqa: PLC0415 - needs the extra `kafka`
        from deniable.proxy.kafka_settings import require_client  # noqa: PLC0415

        require_client()
        found = TopicKeeper(self.settings).look(self.settings.topic)
        if found is None:
            raise LogError(f"there is no topic {self.settings.topic} at {self.settings.bootstrap}")
        return found

    def read(self, spark: SparkSession) -> DataFrame:
        """The topic as a stream."""
        own = {
            "subscribe": self.settings.topic,
            "startingOffsets": "earliest",
            "failOnDataLoss": "true",
            "maxOffsetsPerTrigger": str(self.records_a_batch),
            "kafka.isolation.level": "read_committed",
        }
        # A transaction ends with a record that no reader sees. At the end of a partition the client waits for more this long.
        quick = {"kafka.fetch.max.wait.ms": "20"}
        options = {**quick, **self.options, **java_options(self.settings), **own}
        return spark.readStream.format("kafka").options(**options).load().select("partition", "offset", "value")


@dataclass(frozen=True)
class FileSource:
    """Parquet files with the columns of `RECORDS` in a folder: for recorded logs, benchmarks and notebooks."""

    folder: str
    partitions: int = 16
    files_a_batch: int = 1000

    def __post_init__(self) -> None:
        if self.partitions < 1 or self.partitions & (self.partitions - 1):
            raise ParameterError("partitions", self.partitions, "must be a power of two")

    def identity(self) -> str | None:
        """Files have no name of their own."""
        return None

    def read(self, spark: SparkSession) -> DataFrame:
        """The files as a stream, the oldest first."""
        return spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", self.files_a_batch).parquet(self.folder)


def java_options(settings: KafkaSettings) -> dict[str, str]:
    """How Kafka's Java client is told what librdkafka is told by these settings. Keys and certificates are given as
    text, so that executors need no files.
    """
    given: dict[str, Any] = settings.client()
    out = {"bootstrap.servers": settings.bootstrap}
    for name in ("security.protocol", "ssl.endpoint.identification.algorithm", "client.id"):
        if name in given:
            out[name] = str(given[name])
    if "security.protocol" in out:
        out["security.protocol"] = out["security.protocol"].upper()
    mechanism = given.get("sasl.mechanism", given.get("sasl.mechanisms"))
    if mechanism:
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        user, password = (_quoted(str(given.get(f"sasl.{name}", ""))) for name in ("username", "password"))
        login = f"org.apache.kafka.common.security.{module} required username={user} password={password};"
        out |= {"sasl.mechanism": str(mechanism), "sasl.jaas.config": login}
    if "ssl.ca.location" in given:
        out |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": _text(given["ssl.ca.location"])}
    if "ssl.certificate.location" in given:
        chain, key = (_text(given[f"ssl.{name}.location"]) for name in ("certificate", "key"))
        out |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}
        if "ssl.key.password" in given:
            out["ssl.key.password"] = str(given["ssl.key.password"])
    return {f"kafka.{name}": value for name, value in out.items()}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError("kafka.options", path, f"cannot be read: {type(error).__name__}") from None
