"""A Kafka broker for tests: one a test process, started when the first test asks for it. Loaded as a plugin by conftest.py."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from deniable.errors import ServiceError
from deniable.proxy.broker import Broker, SecureListener, kafka_jars
from deniable.proxy.maven import java
from toolkit.certificates import self_signed

REQUIRED = os.environ.get("DENIABLE_REQUIRE_KAFKA") == "1"
USER, PASSWORD = "proxy-one", "not a secret: a word for tests"


def require_kafka() -> None:
    """Skip with the reason where there is no Java, or no Kafka to be had; where DENIABLE_REQUIRE_KAFKA=1 is set, fail."""
    try:
        java()
        kafka_jars()
    except ServiceError as error:
        if REQUIRED:
            pytest.fail(f"DENIABLE_REQUIRE_KAFKA=1, and {error}")
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def the_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The one broker of this test process, with a listener for TLS and passwords beside the plain one."""
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


def certificate_of(broker: Broker) -> Path:
    """What vouches for the broker's TLS listener."""
    return broker.data.parent / "broker.pem"
