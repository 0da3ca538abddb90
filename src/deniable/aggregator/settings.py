"""The aggregator's settings, written as TOML. Errors give the file, the line, the key, the value
and what would be accepted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.history.settings import HistorySettings
from deniable.checks import whole
from deniable.errors import ParameterError, SettingsError
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import EmbeddedLog, HttpLog, KafkaShareLog, ShareLog
from deniable.service.files.settings import WITHIN, FilePath, Seconds, read_settings_file
from deniable.service.http.limits import Tls

__all__ = ["AggregatorSettings", "ProxySource", "SparkSettings", "Tls", "read_settings"]


@dataclass(frozen=True)
class ProxySource:
    """One of the proxies whose logs the aggregator reads."""

    name: str
    """As queries name it in `proxies`."""
    url: str = ""
    """Its address; defaults to its name, if that is an address."""
    log: FilePath | None = None
    """Its log, if it runs on this machine; without this or `kafka`, the log is read over HTTP."""
    kafka: Annotated[KafkaSettings | None, WITHIN] = None
    """Its log, if that is a Kafka topic."""
    token_file: FilePath | None = None
    """A file with its operator's token, for publishing and for reading over HTTP."""

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ParameterError(
                "name", self.name, "must be the proxy's name, as it appears in queries"
            )
        if not self.url:
            object.__setattr__(self, "url", self.name)
        if self.log is not None and self.kafka is not None:
            raise ParameterError(
                "log",
                str(self.log),
                "must not be given together with kafka: a proxy's log is in one place",
            )
        if (
            self.log is None
            and self.kafka is None
            and not self.url.startswith(("http://", "https://"))
        ):
            raise ParameterError(
                "log",
                None,
                message=(
                    "a proxy needs log or kafka, because its address does not start with http:// or"
                    " https://"
                ),
            )

    def token(self) -> str:
        """The operator's token; empty if there is none."""
        if self.token_file is None:
            return ""
        try:
            return self.token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                "token_file", str(self.token_file), f"cannot be read: {error}", "settings"
            ) from None

    def open_log(self) -> ShareLog:
        """A reader of its log."""
        if self.kafka is not None:
            return KafkaShareLog(self.kafka)
        return EmbeddedLog(self.log) if self.log is not None else HttpLog(self.url, self.token)


ENGINES = ("embedded", "spark")


@dataclass(frozen=True)
class SparkSettings:
    """How the aggregator's pipeline runs on Spark (docs/spark.md)."""

    checkpoint: str
    """A folder, or its address, that driver and executors can reach."""
    trigger: Seconds = 1
    """Seconds between batches."""
    records_a_batch: int = 4096
    """The most records of each proxy's topic in one batch."""
    shuffle_partitions: int = 0
    """How many tasks count at the same time; 0 for one per core."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Any Spark settings."""

    def __post_init__(self) -> None:
        if not isinstance(self.checkpoint, str):
            raise ParameterError("checkpoint", self.checkpoint, "must be a path or an address")
        for name, least in (("records_a_batch", 1), ("shuffle_partitions", 0), ("trigger", 0)):
            whole(name, getattr(self, name), least, 1 << 31)
        if not isinstance(self.options, Mapping) or not all(
            isinstance(value, str) for value in self.options.values()
        ):
            raise ParameterError("options", self.options, "must be a table of texts")

    def within(self, folder: Path) -> SparkSettings:
        """The same settings, with a relative path resolved against the folder of the settings
        file."""
        place = self.checkpoint
        return dataclasses.replace(
            self,
            checkpoint=str((folder / place).absolute()) if place and ":/" not in place else place,
        )


@dataclass(frozen=True)
class AggregatorSettings:
    """All settings of an aggregator."""

    state: FilePath
    ring: FilePath
    """The keys of the analysts whose queries it accepts."""
    proxies: Sequence[ProxySource]
    host: str = "127.0.0.1"
    port: int = 8700
    """0 lets the operating system choose."""
    header_deadline: Seconds = 10
    """Seconds within which the head of a request must arrive; an idle connection is closed after
    the same time."""
    most_connections: int = 1000
    limits: EngineLimits = field(default_factory=EngineLimits)
    tls: Tls | None = None
    engine: str = "embedded"
    """Which engine counts: the embedded one in this process, or Spark in another."""
    spark: Annotated[SparkSettings | None, WITHIN] = None
    history: Annotated[HistorySettings | None, WITHIN] = None
    """Where counted reports are kept; without it, they are not kept."""
    controller: FilePath | None = None
    """The key of the controller, which adapts queries whose envelopes name it (docs/adaptive.md);
    without it, no query adapts."""

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise ParameterError("engine", self.engine, f"must be one of {', '.join(ENGINES)}")
        whole("port", self.port, 0, 65535)
        for name in ("header_deadline", "most_connections"):
            whole(name, getattr(self, name), 1, 1 << 31)
        names = [proxy.name for proxy in self.proxies]
        if len(names) < 2 or len(set(names)) < len(names):
            raise ParameterError("proxies", names, "must be at least 2, with different names")

    @property
    def feed_path(self) -> Path:
        """The path of the public feed: beside the state."""
        return self.state.with_name(self.state.name + ".public.jsonl")

    @property
    def audit_path(self) -> Path:
        """The path of the audit log: beside the state."""
        return self.state.with_name(self.state.name + ".audit.jsonl")


def read_settings(path: str | Path) -> AggregatorSettings:
    """The settings in a TOML file. Relative paths in it are resolved against the folder of the
    file."""
    return read_settings_file(path, AggregatorSettings)
