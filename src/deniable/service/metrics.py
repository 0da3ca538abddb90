"""Counters and gauges for Prometheus, using `prometheus_client`. None is about a single person or
message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

__all__ = ["CONTENT_TYPE", "Family", "counter", "exposition", "gauge"]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
Rows = Iterable[tuple[Mapping[str, str], float]]
"""Values with their labels."""


class Family(NamedTuple):
    """A metric: its kind, name, description, and values by labels."""

    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    name: str
    text: str
    rows: Rows


def counter(name: str, text: str, rows: Rows | float) -> Family:
    """A number that only increases. Its name ends in `_total`."""
    return Family(CounterMetricFamily, name, text, _rows(rows))


def gauge(name: str, text: str, rows: Rows | float) -> Family:
    """A number that goes up and down."""
    return Family(GaugeMetricFamily, name, text, _rows(rows))


def _rows(rows: Rows | float) -> Rows:
    return [({}, rows)] if isinstance(rows, int | float) else rows


def exposition(prefix: str, families: Iterable[Family]) -> bytes:
    """The text that Prometheus scrapes; metric names begin with the prefix."""
    registry = CollectorRegistry()
    registry.register(_Once(prefix, families))
    return generate_latest(registry)


class _Once:
    """The current metrics, as prometheus_client collects them."""

    def __init__(self, prefix: str, families: Iterable[Family]) -> None:
        self._prefix, self._families = prefix, families

    def describe(self) -> list[Metric]:
        """Return nothing: describing the metrics would collect them all."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All of them."""
        for kind, name, text, rows in self._families:
            metric = kind(f"{self._prefix}_{name}", text)
            for labels, value in rows:
                metric.add_sample(f"{self._prefix}_{name}", dict(labels), value)
            yield metric
