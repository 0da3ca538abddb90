"""The aggregator's pipeline on Spark Structured Streaming: the same counts, on as many machines as
it takes (docs/spark.md)."""

from __future__ import annotations

from deniable.aggregator.engines.spark.driver import Job, aggregate
from deniable.aggregator.engines.spark.sources import FileSource, KafkaSource

__all__ = ["FileSource", "Job", "KafkaSource", "aggregate"]
