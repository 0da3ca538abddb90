"""Settings for Spark, what executors are told of Kafka, and the aggregator's service with its
engine elsewhere."""

from __future__ import annotations

import json
import pickle
import sqlite3
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from deniable.aggregator.engines.external import note_counted, note_health
from deniable.aggregator.engines.spark.session import job_of, session_settings
from deniable.aggregator.engines.spark.sources import KafkaSource
from deniable.aggregator.operations.health import ProxyHealth
from deniable.aggregator.operations.relay import PUBLISH, STOP, order_relay, relay
from deniable.aggregator.service import Service
from deniable.aggregator.settings import ProxySource, read_settings
from deniable.aggregator.state import State, connect
from deniable.cli import cli
from deniable.errors import ParameterError, SettingsError
from deniable.logs.kafka_settings import KafkaSettings
from toolkit.answers import streamed
from toolkit.crowds import RING, Crowd

FILE = """
state = "state.db"
ring = "ring.json"
engine = "spark"
[spark]
checkpoint = "checkpoint"
trigger = "10 s"
[history]
folder = "s3a://bucket/history"
keep_by_query = { "trips" = "7 d" }
[[proxies]]
name = "http://one"
[[proxies]]
name = "http://two"
"""


def write(folder: Path, text: str = FILE) -> Path:
    path = folder / "aggregator.toml"
    path.write_text(text)
    RING.save(folder / "ring.json")
    return path


def test_paths_are_relative_to_the_file_and_addresses_are_not(tmp_path: Path) -> None:
    settings = read_settings(write(tmp_path))
    assert settings.spark is not None
    assert settings.spark.checkpoint == str(tmp_path / "checkpoint")
    assert settings.history is not None
    assert settings.history.folder == "s3a://bucket/history"
    assert settings.history.keep_of("trips") == 7 * 86400
    assert settings.history.keep_of("others") == 400 * 86400
    assert settings.spark.trigger == 10


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ('engine = "spark"', 'engine = "flink"', "must be one of embedded, spark"),
        ('trigger = "10 s"', "options = 1", "must be a table"),
        ('trigger = "10 s"', "records_a_batch = 0", "must be a whole number from 1 to"),
        ('checkpoint = "checkpoint"', "", "is missing"),
    ],
)
def test_a_mistake_is_named(old: str, new: str, rule: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rule):
        read_settings(write(tmp_path, FILE.replace(old, new)))


def test_spark_needs_a_topic_for_every_proxy(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"proxies\[0\].kafka = None must be given"):
        job_of(read_settings(write(tmp_path)))
    without = FILE.replace("[spark]\n", "").replace(
        'checkpoint = "checkpoint"\ntrigger = "10 s"\n', ""
    )
    file = write(tmp_path, without)
    result = CliRunner().invoke(cli, ["spark", "submit", str(file)])
    assert result.exit_code == 2
    assert "a table [spark] with at least a checkpoint" in result.output


def test_what_executors_are_told_of_kafka_needs_no_file_of_the_driver(tmp_path: Path) -> None:
    for name, text in {
        "ca.pem": "CA",
        "own.pem": "OWN",
        "key.pem": "KEY",
        "password": "a word\n",
    }.items():
        (tmp_path / name).write_text(text)
    options = {
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "own.pem",
        "ssl.key.location": "key.pem",
    }
    settings = KafkaSettings(
        "host:9093",
        "shares",
        options={"security.protocol": "sasl_ssl", "sasl.username": "reader", **options},
        secrets={"sasl.password": "file:password"},
    ).within(tmp_path)
    here = settings.client(group_id="x")
    source = KafkaSource(settings).carried()
    for path in tmp_path.iterdir():
        path.unlink()
    there = pickle.loads(pickle.dumps(source)).settings.client(group_id="x")  # noqa: S301 - ours
    assert {name: value for name, value in there.items() if name not in here} == {
        "ssl.ca.pem": "CA",
        "ssl.certificate.pem": "OWN",
        "ssl.key.pem": "KEY",
    }
    assert {name: value for name, value in here.items() if name not in there} == {
        name: str(tmp_path / place) for name, place in options.items()
    }
    assert there["sasl.password"] == "a word"
    assert "a word" not in repr(source)
    with pytest.raises(
        ParameterError,
        match=r"options.ssl.ca.location = .*ca.pem' cannot be read: FileNotFoundError",
    ):
        replace(settings, secrets={}).carried()


class Proxy:
    """The other end of the relay."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(f"{request.method} {request.url.host}")
        return httpx.Response(200)


def test_a_query_is_held_back_from_proxies_until_it_is_counted(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    crowd.engine()
    assert crowd.state is not None
    connection: sqlite3.Connection = crowd.state.connection
    order_relay(connection, crowd.query.id, 1, PUBLISH, 2)
    proxies = [ProxySource("http://one"), ProxySource("http://two")]
    proxy = Proxy()
    with httpx.Client(transport=streamed(proxy)) as client:
        assert relay(connection, proxies, client, counted=set()) == 2
        assert proxy.asked == []
        assert relay(connection, proxies, client, counted={(crowd.query.id, 1)}) == 0
        assert proxy.asked == ["PUT one", "PUT two"]
        order_relay(connection, crowd.query.id, 1, STOP, 2)
        assert relay(connection, proxies, client, counted=set()) == 0
    crowd.close_all()


def test_the_service_shows_what_the_engine_elsewhere_tells(tmp_path: Path) -> None:
    State(tmp_path / "state.db", ["http://one", "http://two"]).close()
    service = Service(
        read_settings(write(tmp_path, FILE.replace("s3a://bucket/history", "history")))
    )
    try:
        assert "no engine has counted" in service.parts.engine_problem
        told: Any = [
            ProxyHealth("http://one", "up", (), 0, 3, ""),
            ProxyHealth("http://two", "down", (), 9, 0, ""),
        ]
        connection = connect(tmp_path / "state.db")
        note_health(connection, told, "", int(time.time()))
        note_counted(connection, [])
        assert (
            json.loads(
                connection.execute(
                    "SELECT value FROM meta WHERE name = 'engine_counts'"
                ).fetchone()[0]
            )
            == []
        )
        assert service.parts.running
        assert service.parts.proxies == told
        note_health(connection, told, "the broker is away", int(time.time()))
        assert (service.parts.running, service.parts.engine_problem) == (
            False,
            "the broker is away",
        )
        connection.close()
    finally:
        service.stop()


def test_sparks_web_page_is_on_loopback_unless_it_is_chosen_otherwise() -> None:
    master, options, environment = session_settings(None, {}, {})
    assert (master, environment) == ("local[*]", {"SPARK_LOCAL_IP": "127.0.0.1"})
    assert options["spark.driver.host"] == "127.0.0.1"
    # Executors elsewhere must still find the driver.
    _, options, environment = session_settings(
        "spark://host:7077", {"spark.driver.host": "driver.example"}, {}
    )
    assert environment == {"SPARK_LOCAL_IP": "127.0.0.1"}
    assert options["spark.driver.host"] == "driver.example"
    assert options["spark.driver.bindAddress"] not in ("0.0.0.0", "")  # noqa: S104 - must not be
    # What an operator has chosen holds.
    assert session_settings("yarn", {}, {"SPARK_LOCAL_IP": "10.0.0.7"})[2] == {}
    assert (
        session_settings("yarn", {"spark.ui.enabled": "false"}, {})[1]["spark.ui.enabled"]
        == "false"
    )
    # Where the master is Spark's to know, so is the driver's address: then there is no page, unless
    # it is asked for.
    master, options, environment = session_settings(None, {}, {"SPARK_CONF_DIR": "/etc/spark"})
    assert (master, options["spark.ui.enabled"], environment) == (None, "false", {})
    assert "spark.driver.host" not in options
    assert (
        session_settings(None, {"spark.ui.enabled": "true"}, {"MASTER": "yarn"})[1][
            "spark.ui.enabled"
        ]
        == "true"
    )
