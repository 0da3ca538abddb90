"""All logs as one Spark stream: not of records but of references to them (`spark.sources`), and of
the driver's orders.

How far a batch goes, orders included, is in Spark's own log of offsets before the batch begins. So
a batch that is run again, by any process, has the same records and the same orders.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow

from deniable.aggregator.engines.spark import close_requests
from deniable.aggregator.engines.spark.sources import LogSource, SourcePosition

__all__ = ["FORMAT", "ORDERS", "Logs", "data_source"]

FORMAT = "deniable_logs"
SCHEMA = "key int, bucket int, proxy int, span string"
"""Which bucket, under which key; and a span of a proxy's log, or (`ORDERS` in place of a proxy)
orders as JSON."""
ORDERS = -1
Reference = tuple[int, int, int, str]


@dataclass(frozen=True)
class Logs:
    """The proxies' logs, and where the driver's orders are."""

    sources: Sequence[LogSource]
    keys: Sequence[int]
    """For each bucket, the number that assigns it to its shuffle partition."""
    state: Path

    def first(self) -> dict[str, Any]:
        """The position before all records and orders."""
        return {"logs": [source.first() for source in self.sources], "orders": {}}

    def last(self) -> dict[str, Any]:
        """The position after everything there is at this moment."""
        return {
            "logs": [source.last() for source in self.sources],
            "orders": close_requests.pending(self.state),
        }

    def step(self, start: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
        """How far a batch goes. Orders go into the one that reaches the end of all logs, so that
        nothing logged is given up."""
        places = self._stepped(start["logs"], last["logs"])
        done = self._stepped(places, last["logs"]) == places
        return {"logs": places, "orders": last["orders"] if done else start["orders"]}

    def _stepped(
        self, places: list[SourcePosition], last: list[SourcePosition]
    ) -> list[SourcePosition]:
        return [
            source.step(at, end) for source, at, end in zip(self.sources, places, last, strict=True)
        ]

    def references(self, start: dict[str, Any], end: dict[str, Any]) -> list[Reference]:
        """The contents of a batch."""
        found = []
        for proxy, source in enumerate(self.sources):
            for bucket, span in source.spans(start["logs"][proxy], end["logs"][proxy]):
                found.append((self.keys[bucket], bucket, proxy, span))
        new = {
            channel: epoch
            for channel, epoch in end["orders"].items()
            if epoch != start["orders"].get(channel)
        }
        if new:
            found += [
                (key, bucket, ORDERS, json.dumps(new)) for bucket, key in enumerate(self.keys)
            ]
        return found


class _Reader(SimpleDataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark calls in a process beside the driver; `readBetweenOffsets` also where buckets are
    counted."""

    def __init__(self, logs: Logs) -> None:
        self._logs = logs
        self._last: dict[str, Any] | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's
        return self._logs.first()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
        self._last = self._logs.last()

    def read(self, start: dict[str, Any]) -> tuple[Iterator[Reference], dict[str, Any]]:
        end = self._logs.step(start, self._last or self._logs.last())
        return iter(self._logs.references(start, end)), end

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[Reference]:  # noqa: N802 - Spark's
        return iter(self._logs.references(start, end))


def data_source(logs: Logs) -> type[DataSource]:
    """A data source for Spark to register. It carries the logs itself, because options would be
    shown in plans."""

    class LogStream(DataSource):
        @classmethod
        def name(cls) -> str:
            return FORMAT

        def schema(self) -> str:
            return SCHEMA

        def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:  # noqa: N802 - Spark's
            return _Reader(logs)

    return LogStream
