"""A proxy's settings, written as TOML. Errors name the file, the line, the key, the value and what would be accepted."""

from __future__ import annotations

import dataclasses
import re
import secrets
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError, SettingsError
from deniable.proxy.intake import Rules
from deniable.proxy.kafka_settings import KafkaSettings, require_client
from deniable.proxy.log import BlockLog, ProxyLog
from deniable.queries.files import line_of
from deniable.queries.schedule import duration

__all__ = ["Limits", "Settings", "read_settings"]

_DURATIONS = {"deadline", "grace", "skew", "retention", "body_deadline", "header_deadline"}
_PATHS = {"folder", "ring", "certificate", "key"}


@dataclass(frozen=True)
class Limits:
    """What one connection, and all of them together, may take of the machine."""

    largest_body: int = 4 << 20
    """Bytes of one upload."""
    most_waiting: int = 256 << 20
    """Bytes of all uploads that are being received or examined; above it, uploads are put off."""
    most_connections: int = 1000
    body_deadline: int = 30
    """Seconds in which a body must have come."""
    header_deadline: int = 10
    """Seconds in which the head of a request must have come; an idle connection is closed after as many."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ParameterError(each.name, value, "must be a whole number of at least 1")
        if self.most_waiting < self.largest_body:
            raise ParameterError("most_waiting", self.most_waiting, f"must hold one body, of up to {self.largest_body} bytes")


@dataclass(frozen=True)
class Tls:
    """The certificate chain and the key, as PEM files."""

    certificate: Path
    key: Path


@dataclass(frozen=True)
class Settings:
    """All that a proxy is told."""

    folder: Path
    """Where the log, the spool, the tokens and the queries are kept; nobody else may read it."""
    host: str = "127.0.0.1"
    port: int = 8600
    """0 lets the operating system choose."""
    ring: Path | None = None
    """A key ring: queries that are not signed by one of its keys are not relayed."""
    intake: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)
    tls: Tls | None = None
    kafka: KafkaSettings | None = None
    """The log is a topic of Kafka, instead of a file in the folder."""

    def __post_init__(self) -> None:
        if self.kafka is not None and self.intake.prefix_bits < self.kafka.partition_bits:
            rule = f"must be at least {self.kafka.partition_bits}, for {self.kafka.partitions} partitions"
            raise ParameterError("intake.prefix_bits", self.intake.prefix_bits, rule)
        if isinstance(self.port, bool) or not isinstance(self.port, int) or not 0 <= self.port < 65536:
            raise ParameterError("port", self.port, "must be a whole number from 0 to 65535")
        if not isinstance(self.host, str) or not self.host:
            raise ParameterError("host", self.host, "must be a host's name or address")

    def open_log(self) -> ProxyLog:
        """The proxy's log, made if it is not there."""
        if self.kafka is None:
            return BlockLog(self.folder / "log.db")
        require_client()
        from deniable.proxy.kafka import KafkaLog  # noqa: PLC0415 - an extra

        return KafkaLog(self.kafka, self.intake.retention, _name_of(self.folder))


def _name_of(folder: Path) -> str:
    """A name that no other proxy's folder has, drawn when it is first asked for."""
    path = folder / "name"
    if not path.exists():
        half = folder / "name.new"
        half.write_text(secrets.token_hex(8))
        half.rename(path)
    return path.read_text()


_TABLES: dict[str, type] = {"intake": Rules, "limits": Limits, "tls": Tls, "kafka": KafkaSettings}


def read_settings(path: str | Path) -> Settings:
    """The settings in a TOML file. Paths in it are relative to where the file stands."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError("file", str(path), f"cannot be read as UTF-8 text: {error}", path.name) from None
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"line (\d+)", str(error))
        raise SettingsError("file", path.name, f"is not TOML: {error}", path.name, int(found[1]) if found else None) from None
    try:
        settings: Settings = _built("", Settings, tree, path.parent)
    except ParameterError as error:
        raise SettingsError(error.name, error.value, error.rule, path.name, line_of(text, error.name)) from None
    return settings


def _built(place: str, kind: type, given: dict[str, Any], base: Path) -> Any:
    fields = {each.name: each for each in dataclasses.fields(kind)}
    values = {}
    for name, value in given.items():
        full = f"{place}{name}"
        if name not in fields:
            raise ParameterError(full, value, f"is not a setting; there are {', '.join(fields)}")
        if name in _TABLES:
            if not isinstance(value, dict):
                raise ParameterError(full, value, "must be a table")
            built = _built(f"{full}.", _TABLES[name], value, base)
            values[name] = built.within(base) if name == "kafka" else built
        elif name in _PATHS:
            if not isinstance(value, str) or not value:
                raise ParameterError(full, value, "must be a path")
            values[name] = base / value
        else:
            values[name] = duration(full, value) if name in _DURATIONS else value
    for name, each in fields.items():
        if name not in values and each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING:
            raise ParameterError(f"{place}{name}", None, "is missing")
    try:
        return kind(**values)
    except ParameterError as error:
        if error.name.startswith(place) and place:
            raise
        raise ParameterError(f"{place}{error.name}", error.value, error.rule) from None
