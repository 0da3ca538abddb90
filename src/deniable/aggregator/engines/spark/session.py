"""A Spark session for `deniable spark submit`: its master, and settings that suit it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deniable.aggregator.aggregator_settings import Settings
from deniable.aggregator.engines.spark.driver import Job
from deniable.aggregator.engines.spark.sources import KafkaSource
from deniable.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_alive", "job_of", "open_session"]

_OPTIONS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_LOCAL = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}


def job_of(settings: Settings) -> Job:
    """The job that an aggregator's settings describe. Asks Kafka how many partitions the topics have."""
    chosen = settings.spark
    if chosen is None:
        raise ParameterError("spark", None, "must be there: a table with at least a checkpoint")
    sources = []
    for i, proxy in enumerate(settings.proxies):
        if proxy.kafka is None:
            raise ParameterError(f"proxies[{i}].kafka", None, "must be there: Spark reads the proxies' logs from Kafka")
        sources.append(KafkaSource(proxy.kafka, chosen.records_a_batch))
    return Job(
        settings.state,
        [proxy.name for proxy in settings.proxies],
        sources,
        chosen.checkpoint,
        settings.limits,
        f"{chosen.trigger} seconds",
        settings.history,
        chosen.shuffle_partitions or None,
        {name: value for name, value in chosen.options.items() if name.startswith("spark.sql.")},
    )


def open_session(master: str | None, options: Mapping[str, str]) -> SparkSession:
    """A session on a master (`local[2]`, `spark://…`, `yarn`, `k8s://…`); by default what Spark is set up for, or `local[*]`."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(str(error.name), "spark", "aggregation on Spark") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("deniable")
    chosen = dict(_OPTIONS)
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            chosen |= _LOCAL
    chosen |= options
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_alive(spark: SparkSession) -> bool:
    """Whether Spark can still be spoken to."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with pyspark

    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False
