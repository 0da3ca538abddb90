"""A proxy's or an aggregator's Kafka settings. Passwords are in files or in the environment, never
here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deniable.checks import is_whole
from deniable.errors import MissingExtraError, ParameterError

__all__ = ["KafkaSettings", "require_client"]

_OWN = {
    "acks",
    "auto.offset.reset",
    "bootstrap.servers",
    "enable.auto.commit",
    "enable.auto.offset.store",
    "enable.idempotence",
    "enable.partition.eof",
    "group.id",
    "isolation.level",
    "metadata.broker.list",
    "transactional.id",
}
"""librdkafka options that ensure nothing is lost or repeated: they cannot be overridden."""
_SECRET = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "ssl.key.pem",
    "sasl.oauthbearer.client.secret",
)
_MOST_PARTITIONS = 1 << 16
_MOST_REPLICAS = 1 << 15


def require_client() -> None:
    """Raise an error that names the extra to install if Kafka's client is missing."""
    try:
        import confluent_kafka  # noqa: F401, PLC0415 - an extra
    except ImportError:
        raise MissingExtraError("confluent-kafka", "kafka", "a log in Kafka") from None


@dataclass(frozen=True)
class KafkaSettings:
    """A topic, and how to reach its cluster."""

    bootstrap: str
    """`host:port`, or several, separated by commas."""
    topic: str
    """The log of one proxy. A second topic, `<topic>.memory`, holds what the proxy itself must
    remember."""
    partitions: int = 16
    """A power of two; checked against the topic if it already exists."""
    replication: int = -1
    """How many brokers keep a copy, set when the topic is created; -1 for the cluster's default."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further librdkafka options, such as those for TLS and SASL."""
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Options whose value is secret: `file:PATH` or `env:NAME` says where to find it."""

    def __post_init__(self) -> None:
        for name in ("bootstrap", "topic"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise ParameterError(name, getattr(self, name), "must be a text")
        possible = is_whole(self.partitions) and 1 <= self.partitions <= _MOST_PARTITIONS
        if not possible or self.partitions & (self.partitions - 1):
            raise ParameterError(
                "partitions",
                self.partitions,
                f"must be a power of two, from 1 to {_MOST_PARTITIONS}",
            )
        if not is_whole(self.replication) or not (
            self.replication == -1 or 1 <= self.replication <= _MOST_REPLICAS
        ):
            raise ParameterError(
                "replication", self.replication, "must be a whole number of at least 1, or -1"
            )
        self._check_tables()

    def _check_tables(self) -> None:
        for table in ("options", "secrets"):
            if not isinstance(getattr(self, table), Mapping):
                raise ParameterError(table, "…", "must be a table")
        for name, value in self.options.items():
            if name in _SECRET:
                raise ParameterError(
                    f"options.{name}",
                    "…",
                    "is a secret: put it into a file, and name that under secrets",
                )
            if not isinstance(value, str | int | float | bool):
                raise ParameterError(
                    f"options.{name}", value, "must be a text, a number, true or false"
                )
        for name, place in self.secrets.items():
            if (
                not isinstance(place, str)
                or place.partition(":")[0] not in ("file", "env")
                or not place.partition(":")[2]
            ):
                raise ParameterError(f"secrets.{name}", "…", "must be 'file:PATH' or 'env:NAME'")
        for name in (*self.options, *self.secrets):
            if name in _OWN:
                raise ParameterError(f"options.{name}", "…", "is set by deniable itself")

    @property
    def partition_bits(self) -> int:
        """How many bits of a message id choose the partition."""
        return self.partitions.bit_length() - 1

    @property
    def memory_topic(self) -> str:
        """Where the proxy keeps what it must remember."""
        return f"{self.topic}.memory"

    def within(self, folder: Path) -> KafkaSettings:
        """The same, with relative paths resolved against a folder: that of the settings file."""
        options = {
            name: str(folder / value) if name.endswith(".location") else value
            for name, value in self.options.items()
        }
        secrets = {
            name: f"file:{folder / place[5:]}" if place.startswith("file:") else place
            for name, place in self.secrets.items()
        }
        return replace(self, options=options, secrets=secrets)

    def client(self, **own: Any) -> dict[str, Any]:
        """The configuration of a librdkafka client, secrets included: never print it."""
        secrets = {name: self._secret(name, place) for name, place in self.secrets.items()}
        # librdkafka writes every failed connection attempt to standard error; what matters is
        # returned as an error
        quiet = {"log_level": 0, "log.connection.close": False, "reconnect.backoff.max.ms": 1000}
        return {
            **quiet,
            **self.options,
            **secrets,
            "bootstrap.servers": self.bootstrap,
            **_dotted(own),
        }

    def carried(self) -> KafkaSettings:
        """The same, with the contents of files and environment variables inlined, for clients on
        machines that have neither."""
        configuration = self.client()
        for kind in ("ca", "certificate", "key"):
            place = configuration.get(f"ssl.{kind}.location")
            # it may be the system's certificate folder
            if place not in (None, "probe") and not Path(place).is_dir():
                configuration[f"ssl.{kind}.pem"] = _text(
                    f"options.ssl.{kind}.location", str(configuration.pop(f"ssl.{kind}.location"))
                )
        return _Carried(
            self.bootstrap,
            self.topic,
            self.partitions,
            self.replication,
            configuration=configuration,
        )

    def _secret(self, name: str, place: str) -> str:
        kind, _, where = place.partition(":")
        if kind == "env":
            if where not in os.environ:
                raise ParameterError(f"secrets.{name}", place, "is not set in the environment")
            return os.environ[where]
        return _text(f"secrets.{name}", place).strip()


@dataclass(frozen=True)
class _Carried(KafkaSettings):
    configuration: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """A client's configuration, secrets included."""

    def client(self, **own: Any) -> dict[str, Any]:
        return {**self.configuration, **_dotted(own)}


def _dotted(own: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "."): value for name, value in own.items()}


def _text(name: str, place: str) -> str:
    try:
        return Path(place.removeprefix("file:")).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(name, place, f"cannot be read: {type(error).__name__}") from None
