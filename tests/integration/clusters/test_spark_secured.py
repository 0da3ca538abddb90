"""Spark reads topics over TLS and with a password: librdkafka's words, translated for the Java
client, on a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from deniable.aggregator.engines.spark import KafkaSource
from deniable.devtools.broker import Broker
from deniable.logs.kafka_log import KafkaLog
from deniable.wire.blocks import cut
from toolkit.crowds import ORIGIN
from toolkit.servers.brokers import secured
from toolkit.servers.engines import RETENTION, wait_until_visible
from toolkit.servers.sparks import SparkCrowd, state_contents

ANSWERS = [3] * 70 + [5] * 30


def test_spark_counts_topics_over_tls_with_a_password(
    tmp_path: Path, broker: Broker, fresh_topic: Callable[[str], str], password: Path, spark: Any
) -> None:
    """One proxy's topic by each mechanism: what is counted was read from both."""
    crowd = SparkCrowd(tmp_path)
    crowd.publish_to_spark()
    tag, sources = crowd.query.channel_tag, []
    for mechanism, rows in zip(["PLAIN", "SCRAM-SHA-512"], crowd.split(ANSWERS), strict=True):
        settings = secured(broker, fresh_topic("secure"), mechanism, password)
        log = KafkaLog(settings, RETENTION)
        log.append(cut(tag, 0, 0, rows, 1)[0], now=ORIGIN, marks={tag: 1})
        log.close()
        wait_until_visible(settings)
        sources.append(KafkaSource(settings))
    crowd.drain_spark(spark, sources=sources)
    assert [row[4] for row in state_contents(crowd.spark_state)["panes"]] == [len(ANSWERS)]
    crowd.close_all()
