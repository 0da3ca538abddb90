"""A proxy's settings, written as TOML. Errors name the file, the line, the key, the value and what
is accepted."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.logs.kafka_settings import KafkaSettings, require_client
from deniable.logs.sqlite_log import BlockLog, ProxyLog
from deniable.proxy.enrolment import EnrolmentRules
from deniable.proxy.intake.uploads import IntakeRules
from deniable.service.files.settings import WITHIN, FilePath, read_settings_file
from deniable.service.http.cross_origin import BrowserRules
from deniable.service.http.limits import ConnectionLimits, Tls

__all__ = ["ProxySettings", "read_settings"]


@dataclass(frozen=True)
class ProxySettings:
    """A proxy's settings."""

    folder: FilePath
    """Where the log, the spool, the tokens and the queries are kept; readable only by the proxy."""
    host: str = "127.0.0.1"
    port: int = 8600
    """0 lets the operating system choose."""
    workers: int = 0
    """Processes that terminate connections in front of the intake; 0 for a single-process proxy."""
    ring: FilePath | None = None
    """A key ring: only queries signed by one of its keys are relayed."""
    intake: IntakeRules = field(default_factory=IntakeRules)
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    enrolment: EnrolmentRules = field(default_factory=EnrolmentRules)
    browser: BrowserRules = field(default_factory=BrowserRules)
    tls: Tls | None = None
    kafka: Annotated[KafkaSettings | None, WITHIN] = None
    """If set, the log is a Kafka topic instead of a file in the folder."""

    def __post_init__(self) -> None:
        if self.kafka is not None and self.intake.prefix_bits < self.kafka.partition_bits:
            rule = (
                f"must be at least {self.kafka.partition_bits}, for {self.kafka.partitions}"
                " partitions"
            )
            raise ParameterError("intake.prefix_bits", self.intake.prefix_bits, rule)
        whole("port", self.port, 0, 65535)
        whole("workers", self.workers, 0, 256)
        if not isinstance(self.host, str) or not self.host:
            raise ParameterError("host", self.host, "must be a host's name or address")

    @property
    def feed_path(self) -> Path:
        """The path of its public feed."""
        return self.folder / "public.jsonl"

    @property
    def audit_path(self) -> Path:
        """The path of its audit log."""
        return self.folder / "audit.jsonl"

    def open_log(self) -> ProxyLog:
        """The proxy's log, created if it does not exist."""
        if self.kafka is None:
            return BlockLog(self.folder / "log.db")
        require_client()
        from deniable.logs.kafka_log import KafkaLog  # noqa: PLC0415 - an extra

        return KafkaLog(self.kafka, self.intake.retention, _name_of(self.folder))


def _name_of(folder: Path) -> str:
    """A name unique to this proxy's folder, drawn on first use."""
    path = folder / "name"
    if not path.exists():
        half = folder / "name.new"
        half.write_text(secrets.token_hex(8))
        half.rename(path)
    return path.read_text()


def read_settings(path: str | Path) -> ProxySettings:
    """The settings in a TOML file. Paths in it are relative to the file's folder."""
    return read_settings_file(path, ProxySettings)
