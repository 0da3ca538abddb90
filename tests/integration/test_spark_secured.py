"""Spark reads topics over TLS and with a password: librdkafka's words, translated for the Java client, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deniable.aggregator.engines.spark import KafkaSource
from deniable.devtools.broker import Broker
from deniable.logs.kafka_log import KafkaLog
from deniable.wire.blocks import cut
from toolkit.brokers import secured
from toolkit.crowds import ORIGIN
from toolkit.engines import RETENTION, wait_until_visible
from toolkit.sparks import SparkCrowd, state_contents

ANSWERS = [3] * 70 + [5] * 30


def logged(crowd: SparkCrowd, broker: Broker, fresh_topic: Callable[[str], str], mechanism: str, password: Path) -> list[Any]:
    """The settings of topics with the shares of a crowd, marked."""
    tag = crowd.query.channel_tag
    every = [secured(broker, fresh_topic("secure"), mechanism, password) for _ in crowd.logs]
    for settings, rows in zip(every, crowd.split(ANSWERS), strict=True):
        log = KafkaLog(settings, RETENTION)
        log.append(cut(tag, 0, 0, rows, 1)[0], now=ORIGIN, marks={tag: 1})
        log.close()
        wait_until_visible(settings)
    return every


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_spark_counts_topics_over_tls_with_a_password(
    mechanism: str, tmp_path: Path, broker: Broker, fresh_topic: Callable[[str], str], password: Path, spark: Any
) -> None:
    crowd = SparkCrowd(tmp_path)
    crowd.publish_to_spark()
    every = logged(crowd, broker, fresh_topic, mechanism, password)
    crowd.drain_spark(spark, sources=[KafkaSource(settings) for settings in every])
    assert [row[4] for row in state_contents(crowd.spark_state)["panes"]] == [len(ANSWERS)]
    crowd.close_all()
