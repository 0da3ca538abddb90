"""What one unit of each resource can do: every measured or assumed number, with its source.

All of them were measured on two shared cores of a Xeon at 2.8 GHz by the script that `source`
names, unless it says that they are assumed. Machines differ: `deniable size --figures FILE` reads
your own, a TOML file with the same names.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.checks import check_range
from deniable.errors import ParameterError
from deniable.toml_file import TomlFile

__all__ = ["Prices", "SizingFigures", "check_positive", "read_figures"]


def check_positive(name: str, value: Any, most: float = 1e15) -> None:
    """Refuse anything but a number above 0."""
    check_range(name, value, above=0, most=most)


def _figure(value: float, unit: str, source: str) -> Any:
    return field(default=value, metadata={"unit": unit, "source": source})


@dataclass(frozen=True)
class SizingFigures:
    """Capacities of one unit each. `SizingFigures.explain()` says where each comes from."""

    uploads: float = _figure(
        1100,
        "uploads per second of one proxy process or collector, each over its own TLS connection",
        "benchmarks/uploads.py",
    )
    uploads_kept: float = _figure(
        17_000,
        "uploads per second of one proxy process behind a front that keeps connections",
        "benchmarks/uploads.py",
    )
    polls: float = _figure(
        44_000,
        "requests per second for the list of queries that one proxy process or collector answers",
        "benchmarks/uploads.py",
    )
    gathered: float = _figure(
        60_000,
        "uploads of one share per second of one proxy process, gathered by collectors",
        "benchmarks/uploads.py",
    )
    bulk: float = _figure(
        708_000,
        "shares per second of one proxy process in uploads of thousands, by processor time",
        "benchmarks/proxy.py",
    )
    request_bytes: float = _figure(
        428,
        "bytes of heads and answer around the shares of an upload, above TCP and TLS",
        "benchmarks/uploads.py",
    )
    poll_bytes: float = _figure(
        1392,
        "bytes of one request for the list of queries, with one query in it",
        "benchmarks/uploads.py",
    )
    token_bytes: float = _figure(
        244, "bytes of a proxy's memory for one token", "benchmarks/uploads.py"
    )
    id_bytes: float = _figure(
        50,
        "bytes of a proxy's memory for one message id of an open epoch, and its client's count",
        "benchmarks/open_ids.py",
    )
    embedded: float = _figure(
        1_950_000,
        "answers per second of one core of the embedded aggregator, whole path, small blocks",
        "benchmarks/aggregator.py",
    )
    spark: float = _figure(
        600_000,
        "answers per second of one core of Spark on blocks from Kafka, in steady state",
        "benchmarks/spark.py --topics",
    )
    flushes: float = _figure(
        180,
        "transactions per second of one proxy process into its SQLite file",
        "benchmarks/log.py",
    )
    flushes_kafka: float = _figure(
        45, "transactions per second of one proxy process into Kafka", "benchmarks/log.py"
    )
    broker: float = _figure(
        40e6,
        "bytes per second that one broker writes, replicas included",
        "assumed: a dedicated machine with one cloud disk; on two cores, shared with its writer,"
        " 12e6 (benchmarks/log.py)",
    )
    partition: float = _figure(
        5e6,
        "bytes per second of one partition",
        "assumed: small enough that a reader of one keeps up",
    )
    broker_partitions: float = _figure(
        4000, "partitions of one broker, replicas counted", "assumed: what is commonly advised"
    )
    processor: float = _figure(
        1, "cores that one proxy process can use: Python runs one thread of it at a time", "CPython"
    )
    broker_cores: float = _figure(4, "cores of one broker", "assumed")
    memory: float = _figure(
        8e9, "bytes of memory of a machine that runs a proxy or an aggregator", "assumed"
    )
    disk: float = _figure(
        2e12, "bytes of disk of one broker, or of the machine of an embedded log", "assumed"
    )
    headroom: float = _figure(
        0.6,
        "the fraction of each capacity used in plans: the rest is for peaks and failures",
        "assumed",
    )
    tick: float = _figure(
        0.5,
        "seconds between an epoch's time and its mark in the log, at most",
        "deniable.proxy.intake.worker looks 4 times per second",
    )
    step: float = _figure(
        0.3,
        "seconds of one step of the aggregator with little in it: pause and commit",
        "benchmarks/scale.py --real",
    )

    def __post_init__(self) -> None:
        for name in self.names():
            check_positive(name, getattr(self, name))
        if self.headroom > 1:
            raise ParameterError(
                "headroom", self.headroom, "must be at most 1: it is a fraction of a capacity"
            )

    @classmethod
    def names(cls) -> list[str]:
        """All of them."""
        return [each.name for each in dataclasses.fields(cls)]

    @classmethod
    def explain(cls) -> dict[str, tuple[str, str]]:
        """For each figure what it counts, and who measured it.

        >>> SizingFigures.explain()["polls"][1]
        'benchmarks/uploads.py'
        """
        return {
            each.name: (each.metadata["unit"], each.metadata["source"])
            for each in dataclasses.fields(cls)
        }


@dataclass(frozen=True)
class Prices:
    """Prices, in one currency. The defaults are round examples, not anyone's price list."""

    storage: float = 80.0
    """A terabyte of disk for a month, each replica counted."""
    egress: float = 0.05
    """A gigabyte that leaves a proxy: shares for the aggregator, queries for devices."""
    core: float = 0.04
    """A core, with its memory, for an hour."""

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if (
                isinstance(value, bool)
                or not isinstance(value, int | float)
                or not 0 <= value <= 1e9
            ):
                raise ParameterError(each.name, value, "must be a price of at least 0")


def read_figures(path: str | Path) -> SizingFigures:
    """The figures of a TOML file; those that it leaves out keep their defaults."""
    return TomlFile.read(path).made(_figures)


def _figures(tree: dict[str, Any]) -> SizingFigures:
    for name in sorted(set(tree) - set(SizingFigures.names())):
        raise ParameterError(
            name, tree[name], f"is not a figure; these are: {', '.join(SizingFigures.names())}"
        )
    return SizingFigures(**tree)
