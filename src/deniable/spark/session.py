"""A Spark session for `deniable spark submit`: its master, the Kafka connector, and settings that suit blocks of noise."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from deniable.aggregator.settings import Settings
from deniable.errors import MissingExtraError, ParameterError, ServiceError
from deniable.proxy.maven import cache_folder, jars
from deniable.spark.driver import Job
from deniable.spark.sources import KafkaSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["connector", "is_alive", "job_of", "open_session"]

_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:{}"
_TRIED = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
"""What this library is tested with on Spark 4.3, for where Maven has no connector of Spark's own version."""
_OPTIONS = {
    # Shares are uniform noise: what is spent on compressing them is lost.
    "spark.shuffle.compress": "false",
    "spark.shuffle.spill.compress": "false",
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
        chosen.history or None,
        chosen.shuffle_partitions or None,
        {name: value for name, value in chosen.options.items() if name.startswith("spark.sql.")},
    )


def connector(version: str, artifacts: Sequence[str] = ()) -> list[Path]:
    """The jars of Spark's Kafka connector that Spark does not have itself, from the cache or from Maven.

    The connector is of Spark's own version. Where Maven has none, it is the one that this library is tested with.
    """
    import pyspark  # noqa: PLC0415 - an extra

    if artifacts:
        folder = jars("spark-kafka-" + "-".join(artifact.rpartition(":")[2] for artifact in artifacts), artifacts)
    else:
        own, tried = f"spark-kafka-{version}", "spark-kafka-tried-" + _TRIED[0].rpartition(":")[2]
        known = [cache_folder() / name for name in (own, tried) if (cache_folder() / name).is_dir()]
        if known:
            folder = known[0]
        else:
            try:
                folder = jars(own, [_CONNECTOR.format(version)])
            except ServiceError:
                folder = jars(tried, _TRIED, alone=True)
    there = {_artifact(path) for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    return sorted(path for path in folder.glob("*.jar") if _artifact(path) not in there)


def _artifact(path: Path) -> str:
    """The name of a jar without its version."""
    parts = path.stem.split("-")
    return "-".join(part for i, part in enumerate(parts) if i == 0 or not part[:1].isdigit() or "_" in part or len(part) < 3)


def open_session(
    master: str | None, options: Mapping[str, str], artifacts: Sequence[str] = (), needs_kafka: bool = True
) -> SparkSession:
    """A session on a master (`local[2]`, `spark://…`, `yarn`, `k8s://…`); by default what Spark is set up for, or `local[*]`."""
    try:
        import pyspark  # noqa: PLC0415 - an extra
        from pyspark.sql import SparkSession  # noqa: PLC0415
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
    if needs_kafka and not {"spark.jars", "spark.jars.packages"} & set(chosen):
        chosen["spark.jars"] = ",".join(map(str, connector(pyspark.__version__, artifacts)))
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
