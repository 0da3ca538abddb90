"""A Spark session for `deniable spark submit`: its master, and settings that suit it."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from deniable.aggregator.engines.spark.driver import Job
from deniable.aggregator.engines.spark.sources import KafkaSource
from deniable.aggregator.settings import AggregatorSettings
from deniable.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["is_alive", "job_of", "open_session", "session_settings"]

_OPTIONS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_LOOPBACK = "127.0.0.1"
_SET_UP = ("MASTER", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME")
"""Environment variables that show that Spark was set up, so that it may already know its master."""


def job_of(settings: AggregatorSettings) -> Job:
    """The job that an aggregator's settings describe. Asks Kafka how many partitions the topics
    have."""
    chosen = settings.spark
    if chosen is None:
        raise ParameterError("spark", None, "must be given: a table with at least a checkpoint")
    sources = []
    for i, proxy in enumerate(settings.proxies):
        if proxy.kafka is None:
            raise ParameterError(
                f"proxies[{i}].kafka",
                None,
                "must be given: Spark reads the proxies' logs from Kafka",
            )
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


def session_settings(
    master: str | None, options: Mapping[str, str], environment: Mapping[str, str]
) -> tuple[str | None, dict[str, str], dict[str, str]]:
    """The master, Spark's settings, and the additional environment variables.

    Spark's web page shows queries and settings to anyone who can reach it, and Spark binds it to
    every address of the machine. Only `SPARK_LOCAL_IP` changes that, and it moves the driver too:
    so the driver's address is set explicitly. If Spark's own set-up names the master, it may name
    the driver's address as well, and the page is disabled. All of this can be overridden.
    """
    if master is None:
        master = options.get("spark.master") or (
            None if any(name in environment for name in _SET_UP) else "local[*]"
        )
    if "SPARK_LOCAL_IP" in environment:
        return master, {**_OPTIONS, **options}, {}
    if master is None:
        return master, {**_OPTIONS, "spark.ui.enabled": "false", **options}, {}
    here = _LOOPBACK if master.startswith("local") else own_address()
    driver = {"spark.driver.bindAddress": here, "spark.driver.host": here}
    return master, {**_OPTIONS, **driver, **options}, {"SPARK_LOCAL_IP": _LOOPBACK}


def own_address() -> str:
    """The address at which other machines reach this one. Nothing is sent to find it out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address reserved for documentation
        except OSError:
            return _LOOPBACK
        return str(probe.getsockname()[0])


def open_session(master: str | None, options: Mapping[str, str]) -> SparkSession:
    """A session on a master (`local[2]`, `spark://…`, `yarn`, `k8s://…`); by default what Spark is
    set up for, or `local[*]`."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise MissingExtraError(str(error.name), "spark", "aggregation on Spark") from None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen_master, chosen, environment = session_settings(master, options, os.environ)
    os.environ.update(environment)
    builder = SparkSession.builder.appName("deniable")
    if chosen_master is not None:
        builder = builder.master(chosen_master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def is_alive(spark: SparkSession) -> bool:
    """Whether Spark still responds."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # noqa: PLC0415 - comes with pyspark

    try:
        return not spark.sparkContext._jsc.sc().isStopped()
    except (Py4JError, OSError, AttributeError):
        return False
