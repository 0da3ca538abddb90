"""The broker of one's own: what it keeps when it is killed, and that `deniable kafka dev` leaves
nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from deniable.devtools.broker import Broker
from deniable.errors import ServiceError
from toolkit.servers.brokers import require_kafka

_COMMAND = [sys.executable, "-c", "from deniable.cli import main; main()", "kafka", "dev"]


def client(bootstrap: str) -> dict[str, Any]:
    return {"bootstrap.servers": bootstrap, "log_level": 0}


def make_topic(bootstrap: str, topic: str) -> None:
    admin = AdminClient(client(bootstrap))  # kept while the answer is waited for
    for future in admin.create_topics([NewTopic(topic, 1, 1)]).values():
        future.result(30)


def send(bootstrap: str, topic: str, value: bytes) -> None:
    producer = Producer(client(bootstrap))
    producer.produce(topic, value)
    assert producer.flush(30) == 0


def first_value(bootstrap: str, topic: str) -> bytes | None:
    consumer = Consumer({**client(bootstrap), "group.id": "none"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    return message.value()


def test_a_broker_that_was_killed_is_at_the_same_address_with_what_it_acknowledged(
    broker: Broker, fresh_topic: Callable[[str], str]
) -> None:
    topic, address = fresh_topic("kept"), broker.bootstrap
    make_topic(address, topic)
    send(address, topic, b"once")
    broker.kill()
    assert not broker.running
    broker.start()
    assert broker.bootstrap == address
    assert first_value(address, topic) == b"once"


def test_a_data_folder_is_taken_up_again_at_another_address(tmp_path: Path) -> None:
    require_kafka()
    with Broker(tmp_path / "data") as first:
        make_topic(first.bootstrap, "kept")
        send(first.bootstrap, "kept", b"still here")
    with Broker(tmp_path / "data") as second:
        assert second.bootstrap != first.bootstrap
        assert first_value(second.bootstrap, "kept") == b"still here"


def test_it_is_not_started_twice_and_names_a_port_that_is_taken(
    broker: Broker, tmp_path: Path
) -> None:
    with pytest.raises(ServiceError, match="is running already"):
        broker.start()
    taken = int(broker.bootstrap.rpartition(":")[2])
    with pytest.raises(
        ServiceError, match=f"the broker cannot start: 127.0.0.1:{taken} is already in use"
    ):
        Broker(tmp_path / "other", taken).start()


def test_the_command_says_one_line_serves_and_leaves_nothing(tmp_path: Path) -> None:
    require_kafka()
    source = Path(__file__).parents[3] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source), "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(  # noqa: S603 - ours
        [*_COMMAND, "--json"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())
        assert told["kept"] is False
        assert Path(told["data"]).parent == tmp_path
        assert AdminClient(client(told["bootstrap"])).list_topics(timeout=30).topics == {}
        process.send_signal(signal.SIGINT)
        assert process.wait(40) == 0
        assert process.stdout.read() == ""
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    assert list(tmp_path.iterdir()) == []
    host, _, port = told["bootstrap"].partition(":")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux ends a process with the one that started it"
)
def test_a_broker_ends_with_the_process_that_started_it_even_if_that_is_killed(
    tmp_path: Path,
) -> None:
    require_kafka()
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[3] / "src"),
        "TMPDIR": str(tmp_path),
    }
    process = subprocess.Popen(  # noqa: S603 - ours
        [*_COMMAND, "--json"], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert process.stdout is not None
    host, _, port = json.loads(process.stdout.readline())["bootstrap"].partition(":")
    socket.create_connection((host, int(port)), timeout=5).close()
    process.kill()
    process.wait()
    process.stdout.close()
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.1)
    pytest.fail("the broker is still there")
