"""A Kafka broker for tests: one a test process, started when the first test asks for it. Loaded as
a plugin by conftest.py."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deniable.devtools.broker import Broker, SecureListener, kafka_jars
from deniable.devtools.maven import java
from deniable.errors import ServiceError
from deniable.logs.kafka_settings import KafkaSettings
from toolkit.servers.certificates import self_signed

REQUIRED = os.environ.get("DENIABLE_REQUIRE_KAFKA") == "1"
USER, PASSWORD = "proxy-one", "not a secret: a word for tests"


def require_kafka() -> None:
    """Skip with the reason where there is no Java, or no Kafka to be had; where
    DENIABLE_REQUIRE_KAFKA=1 is set, fail."""
    try:
        java()
        kafka_jars()
    except ServiceError as error:
        if REQUIRED:
            pytest.fail(f"DENIABLE_REQUIRE_KAFKA=1, and {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def the_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The one broker of this test process, with a listener for TLS and passwords beside the plain
    one."""
    require_kafka()
    folder = tmp_path_factory.mktemp("kafka")
    certificate = self_signed(folder, "broker")
    secure = SecureListener(certificate, certificate.with_suffix(".key"), {USER: PASSWORD})
    with Broker(folder / "data", secure=secure) as broker:
        yield broker


@pytest.fixture
def broker(the_broker: Broker) -> Iterator[Broker]:
    """The broker, up; a test that has killed it leaves it up for the next."""
    if not the_broker.running:
        the_broker.start()
    yield the_broker
    if not the_broker.running:
        the_broker.start()


@pytest.fixture
def fresh_topic() -> Callable[[str], str]:
    """Names of topics that nobody has had."""
    return lambda name: f"{name}-{secrets.token_hex(4)}"


@pytest.fixture
def password(tmp_path: Path) -> Path:
    """A file with the password of the one user of the TLS listener."""
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    return tmp_path / "password"


def secured(broker: Broker, topic: str, mechanism: str, password: Path) -> KafkaSettings:
    """A topic over TLS, as the one user, whom the broker knows by this mechanism."""
    if mechanism != "PLAIN":
        _make_scram_user(broker)
    options = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "ssl.ca.location": str(broker.data.parent / "broker.pem"),
    }
    secrets = {"sasl.password": f"file:{password}"}
    return KafkaSettings(
        broker.secure_bootstrap, topic, partitions=2, options=options, secrets=secrets
    )


def _make_scram_user(broker: Broker) -> None:
    from confluent_kafka.admin import (  # type: ignore[attr-defined]  # noqa: PLC0415 - an extra
        AdminClient,
        ScramCredentialInfo,
        ScramMechanism,
        UserScramCredentialUpsertion,
    )

    wanted = UserScramCredentialUpsertion(
        USER, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), PASSWORD.encode()
    )
    client = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for future in client.alter_user_scram_credentials([wanted]).values():
        future.result(30)
