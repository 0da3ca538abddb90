"""What a proxy and an aggregator are told of Kafka: what is refused, and that no password is ever
shown."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deniable.aggregator.settings import read_settings as read_aggregator
from deniable.errors import MissingExtraError, ParameterError, SettingsError
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import KafkaShareLog
from deniable.proxy.settings import ProxySettings, read_settings

SECURE = """
folder = "data"
[kafka]
bootstrap = "one.example:9093,two.example:9093"
topic = "shares"
partitions = 64
[kafka.options]
"security.protocol" = "SASL_SSL"
"sasl.mechanism" = "SCRAM-SHA-512"
"sasl.username" = "proxy-one"
"ssl.ca.location" = "ca.pem"
[kafka.secrets]
"sasl.password" = "file:password"
"ssl.key.password" = "env:KEY_PASSWORD"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "proxy.toml"
    path.write_text(text)
    return path


def kafka_of(path: Path) -> KafkaSettings:
    kafka = read_settings(path).kafka
    assert kafka is not None
    return kafka


def test_secrets_come_from_files_and_the_environment_and_are_not_in_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("sesame\n")
    monkeypatch.setenv("KEY_PASSWORD", "tahini")
    settings = read_settings(written(tmp_path, SECURE))
    assert settings.kafka is not None
    told = settings.kafka.client(isolation_level="read_committed")
    assert (told["sasl.password"], told["ssl.key.password"]) == ("sesame", "tahini")
    assert told["ssl.ca.location"] == str(tmp_path / "ca.pem")
    assert (told["bootstrap.servers"], told["isolation.level"]) == (
        "one.example:9093,two.example:9093",
        "read_committed",
    )
    assert (settings.kafka.partition_bits, settings.kafka.memory_topic) == (6, "shares.memory")
    assert "sesame" not in repr(settings)
    assert "tahini" not in repr(settings)


def test_a_secret_that_is_not_there_is_named_by_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KEY_PASSWORD", raising=False)
    kafka = kafka_of(written(tmp_path, SECURE))
    with pytest.raises(
        ParameterError, match=r"secrets\.sasl\.password = 'file:.*password' cannot be read"
    ):
        kafka.client()
    (tmp_path / "password").write_text("sesame")
    with pytest.raises(ParameterError, match=r"'env:KEY_PASSWORD' is not set in the environment"):
        KafkaShareLog(kafka)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("partitions = 64", "partitions = 48"), "kafka.partitions = 48 must be a power of two"),
        (
            ("partitions = 64", "partitions = 128"),
            "intake.prefix_bits = 6 must be at least 7, for 128 partitions",
        ),
        (
            ("partitions = 64", "replication = 0"),
            "kafka.replication = 0 must be a whole number of at least 1",
        ),
        (('topic = "shares"', ""), "kafka.topic = None is missing"),
        (('topic = "shares"', 'topic = ""'), "kafka.topic = '' must be a text"),
        (
            ('topic = "shares"', 'topic = "shares"\nretention = 4'),
            "kafka.retention = 4 is not a setting",
        ),
        (
            ('"file:password"', '"sesame"'),
            "kafka.secrets.sasl.password = '…' must be 'file:PATH' or 'env:NAME'",
        ),
        (
            ('"ssl.ca.location" = "ca.pem"', '"sasl.password" = "sesame"'),
            "kafka.options.sasl.password = '…' is a secret",
        ),
        (
            ('"ssl.ca.location" = "ca.pem"', '"isolation.level" = "x"'),
            "kafka.options.isolation.level = '…' is set by deniable",
        ),
        (
            ('"ssl.ca.location" = "ca.pem"', '"transactional.id" = "x"'),
            "kafka.options.transactional.id = '…' is set by deniable",
        ),
        (
            ('"ssl.ca.location" = "ca.pem"', '"debug" = ["all"]'),
            "kafka.options.debug = ['all'] must be a text, a number",
        ),
    ],
)
def test_what_is_not_usable_is_refused_and_no_secret_repeated(
    tmp_path: Path, change: tuple[str, str], message: str
) -> None:
    assert change[0] in SECURE
    with pytest.raises(SettingsError) as refused:
        read_settings(written(tmp_path, SECURE.replace(*change)))
    assert message in str(refused.value)
    assert "sesame" not in str(refused.value)


def test_options_that_librdkafka_refuses_are_told_at_once() -> None:
    kafka = KafkaSettings("127.0.0.1:1", "t", options={"security.protocol": "none"})
    with pytest.raises(ParameterError, match="are refused by librdkafka"):
        KafkaShareLog(kafka).read((), 1)
    kafka = KafkaSettings("127.0.0.1:1", "t", options={"no.such.option": "1"})
    with pytest.raises(ParameterError, match=r'No such configuration property: "no\.such\.option"'):
        KafkaShareLog(kafka).read((), 1)


def test_a_proxy_without_kafka_has_its_log_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    log = ProxySettings(folder=tmp_path / "data").open_log()
    log.close()
    assert (tmp_path / "data" / "log.db").is_file()


def test_the_aggregator_reads_each_proxy_from_its_own_place(tmp_path: Path) -> None:
    text = """
state = "state.db"
ring = "ring.json"
[[proxies]]
name = "https://one.example"
[proxies.kafka]
bootstrap = "one.example:9092"
topic = "shares"
options = { "ssl.ca.location" = "ca.pem" }
[[proxies]]
name = "two"
log = "two/log.db"
"""
    settings = read_aggregator(written(tmp_path, text))
    assert isinstance(settings.proxies[0].open_log(), KafkaShareLog)
    assert settings.proxies[0].kafka is not None
    assert settings.proxies[0].kafka.options == {"ssl.ca.location": str(tmp_path / "ca.pem")}
    assert settings.proxies[1].kafka is None
    both = text.replace("[proxies.kafka]", 'log = "one.db"\n[proxies.kafka]')
    with pytest.raises(SettingsError, match="must not be given together with kafka"):
        read_aggregator(written(tmp_path, both))
    with pytest.raises(SettingsError, match="needs log or kafka"):
        read_aggregator(written(tmp_path, text.replace('log = "two/log.db"', "")))


def test_a_missing_client_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    kafka = KafkaSettings("127.0.0.1:1", "t")
    with pytest.raises(MissingExtraError, match=r"pip install 'deniable\[kafka\]'"):
        ProxySettings(folder=tmp_path, kafka=kafka).open_log()
    with pytest.raises(MissingExtraError, match="a log in Kafka needs confluent-kafka"):
        KafkaShareLog(kafka)
