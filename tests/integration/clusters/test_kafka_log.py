"""A proxy's log in Kafka: exactly once, in its partition, remembered after a restart; and what a
reader must be told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from deniable.aggregator.engines.embedded import Engine
from deniable.cli import cli
from deniable.devtools.broker import Broker
from deniable.errors import LogAwayError, LogError
from deniable.logs.kafka_log import KafkaLog
from deniable.logs.kafka_reader import KafkaLogReader
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import KafkaShareLog, Reading
from deniable.wire.blocks import Block, cut
from deniable.wire.sizes import row_words
from toolkit.crowds import ORIGIN, Crowd
from toolkit.servers.brokers import secured
from toolkit.servers.certificates import self_signed
from toolkit.servers.engines import RETENTION, wait_until_visible

CHANNEL = 0xFEDC_BA98_7654_3210
Words = np.ndarray[Any, np.dtype[np.uint64]]


def some_rows(n: int, size_class: int = 0, seed: int = 1) -> Words:
    return np.random.default_rng(seed).integers(
        0, 1 << 64, (row_words(size_class), n), dtype=np.uint64
    )


def some_blocks(
    n: int, epoch: int = 3, channel: int = CHANNEL, bits: int = 3, seed: int = 1
) -> list[Block]:
    return cut(channel, epoch, 0, some_rows(n, seed=seed), bits)[0]


@pytest.fixture
def settings(broker: Broker, fresh_topic: Callable[[str], str]) -> KafkaSettings:
    return KafkaSettings(broker.bootstrap, fresh_topic("log"), partitions=4)


@pytest.fixture
def log(settings: KafkaSettings) -> Iterator[KafkaLog]:
    made = KafkaLog(settings, RETENTION)
    yield made
    made.close()


def read(settings: KafkaSettings, after: tuple[int, ...] = ()) -> Reading:
    """All that is committed."""
    wait_until_visible(settings)
    share_log = KafkaShareLog(settings)
    reading = share_log.read(after, 1 << 30)
    share_log.close()
    return reading


def n_rows(reading: Reading) -> int:
    assert reading.problem == ""
    return sum(len(Block.from_bytes(content)) for content in reading.blocks)


def test_a_block_stands_in_the_partition_of_its_prefix_and_marks_stand_behind_it_in_all(
    log: KafkaLog,
) -> None:
    blocks = some_blocks(100)
    log.append(blocks, now=1, marks={CHANNEL: 4})
    reading = read(log.settings)
    assert sorted(reading.blocks) == sorted(block.to_bytes() for block in blocks)
    reader = KafkaLogReader(log.settings)
    placed = {
        (record.partition, record.value)
        for record in reader.read_all()
        if record.value in reading.blocks
    }
    reader.close()
    assert placed == {(block.prefix >> 1, block.to_bytes()) for block in blocks}
    n_before = [sum(block.prefix >> 1 == partition for block in blocks) for partition in range(4)]
    assert sorted(reading.marks) == [
        (partition, CHANNEL, 4, n_before[partition] + 1) for partition in range(4)
    ]
    log.append([], now=2, marks={CHANNEL: 3})  # a mark never goes back
    log.append([], now=2, marks={CHANNEL: 4})
    assert read(log.settings, reading.position) == Reading(
        [], reading.position, [], reading.identity
    )


def test_a_span_holds_the_committed_records_between_two_offsets(log: KafkaLog) -> None:
    for i in range(3):
        log.append([some_blocks(1, bits=2, seed=7)[0]] * 3, now=i)
    aborted = Producer(
        {"bootstrap.servers": log.settings.bootstrap, "transactional.id": log.settings.topic}
    )
    aborted.init_transactions(10)
    aborted.begin_transaction()
    (partition,) = {record.partition for record in KafkaLogReader(log.settings).read_all()}
    aborted.produce(log.settings.topic, b"nobody is to see this", partition=partition)
    aborted.flush(10)
    aborted.abort_transaction(10)
    log.append([some_blocks(1, bits=2, seed=7)[0]] * 2, now=9)
    wait_until_visible(log.settings)
    reader = KafkaLogReader(log.settings, wait_ms=1)
    everything = [record for record in reader.read_all() if record.partition == partition]
    offsets = [record.offset for record in everything]
    assert len(offsets) == 11
    end = offsets[-1] + 2  # behind the record that ends the transaction
    for first, last in (
        (0, end),
        (0, 1),
        (offsets[4], offsets[7]),
        (offsets[8] + 1, offsets[9]),
        (offsets[10], end),
    ):
        for _ in range(2):  # an attempt that is repeated gets the same
            found = reader.read_span(partition, first, last)
            assert found == [record for record in everything if first <= record.offset < last]
    reader.close()


def test_what_must_be_remembered_is_known_after_a_restart(log: KafkaLog) -> None:
    log.append(some_blocks(50, epoch=1, seed=1), now=1, segment=1)
    log.append(some_blocks(60, epoch=2, seed=2), now=1, segment=1 << 40, forget=[1])
    log.append(some_blocks(70, epoch=1, seed=3), now=1, segment=7)
    log.append(some_blocks(80, epoch=9, channel=5, seed=4), now=1, segment=8, forget=[7])
    log.append([], now=1, marks={CHANNEL: 2})
    again = KafkaLog(log.settings, RETENTION)
    assert again.identity == log.identity
    assert again.moved() == {1 << 40, 8}
    assert again.closed() == {CHANNEL: 2}
    found = {(block.channel, block.epoch) for block in again.open_blocks()}
    assert found == {(CHANNEL, 2), (5, 9)}
    assert sum(len(block) for block in again.open_blocks()) == 140
    again.append([], now=1, marks={CHANNEL: 10, 5: 10})
    assert list(again.open_blocks()) == []
    again.close()


def test_whoever_opens_the_log_shuts_out_the_one_before(log: KafkaLog) -> None:
    log.append(some_blocks(10), now=1, segment=1)
    again = KafkaLog(log.settings, RETENTION)
    with pytest.raises(LogError, match="this one was shut out and must stop") as refused:
        log.append(some_blocks(20), now=1, segment=2)
    assert not isinstance(refused.value, LogAwayError)
    again.append(some_blocks(30), now=1, segment=2)
    assert n_rows(read(log.settings)) == 40
    again.close()


def test_a_proxy_that_lost_its_connection_does_not_take_the_log_back(log: KafkaLog) -> None:
    log._give_up()
    again = KafkaLog(log.settings, RETENTION)
    with pytest.raises(LogError, match="this one was shut out and must stop"):
        log.append(some_blocks(20), now=1, segment=1)
    again.append(some_blocks(30), now=1, segment=1)
    assert n_rows(read(log.settings)) == 30
    again.close()


def test_segments_of_another_spool_are_not_taken_for_one_s_own(log: KafkaLog) -> None:
    log.append(some_blocks(10, seed=1), now=1, segment=1)
    other = KafkaLog(log.settings, RETENTION, owner="another folder")
    assert other.moved() == set()
    other.append(some_blocks(20, seed=2), now=1, segment=1)
    assert other.moved() == {1}
    assert sum(len(block) for block in other.open_blocks()) == 30
    assert n_rows(read(log.settings)) == 30
    other.close()


def test_an_interrupted_transaction_leaves_nothing(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any) -> None:
        log._producer.flush(30)  # all of it is with the broker, and then the process is gone
        raise KeyboardInterrupt

    monkeypatch.setattr(log, "_meaning", crash)
    fail_at(log, monkeypatch, before=True)
    with pytest.raises(KeyboardInterrupt):
        log.append(some_blocks(100), now=1, segment=1, marks={CHANNEL: 4})
    again = KafkaLog(log.settings, RETENTION)
    assert (again.moved(), again.closed(), list(again.open_blocks())) == (set(), {}, [])
    again.append(some_blocks(100), now=1, segment=1)
    reading = read(log.settings)
    assert (n_rows(reading), reading.marks) == (100, [])
    assert read(log.settings, reading.position).position == reading.position
    again.close()


class FailingProducer:
    """A producer whose commit's answer does not come, once: it was done (or not), and nobody
    knows."""

    def __init__(self, producer: Any, before: bool) -> None:
        self._producer, self._before = producer, before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, seconds: float) -> None:
        if not self._before:
            self._producer.commit_transaction(seconds)
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))


def fail_at(log: KafkaLog, monkeypatch: pytest.MonkeyPatch, before: bool) -> None:
    monkeypatch.setattr(log, "_producer", FailingProducer(log._producer, before))
    monkeypatch.setattr(log, "_give_up", lambda: None)


@pytest.mark.parametrize("before", [True, False])
def test_a_commit_without_an_answer_is_done_once_when_it_is_asked_for_again(
    log: KafkaLog, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    log._producer = FailingProducer(log._producer, before)
    blocks = some_blocks(100)
    with pytest.raises(LogAwayError, match="no answer"):
        log.append(blocks, now=1, segment=1)
    log.append(blocks, now=1, segment=1)
    log.append(some_blocks(10, seed=2), now=1, segment=2, forget=[1])
    assert n_rows(read(log.settings)) == 110
    assert log.moved() == {2}


def test_topics_that_do_not_fit_are_refused(log: KafkaLog) -> None:
    settings = log.settings
    with pytest.raises(LogError, match="has 4 partitions, and 8 are expected"):
        KafkaLog(KafkaSettings(settings.bootstrap, settings.topic, partitions=8), RETENTION)
    with pytest.raises(LogError, match="takes blocks whose prefix has 2 bits, and this one has 1"):
        log.append(some_blocks(10, bits=1), now=1)
    log.append(some_blocks(10), now=1)
    reading = KafkaShareLog(settings)
    assert "has 4 partitions, and had 2 when it was read" in reading.read((1, 1), 1).problem
    reading.close()


def test_a_topic_of_others_is_not_taken_over(settings: KafkaSettings, broker: Broker) -> None:
    delete(broker, make_strange(settings))
    with pytest.raises(LogError, match="does not know of them: one of the two is not this proxy's"):
        KafkaLog(settings, RETENTION)


def make_strange(settings: KafkaSettings) -> str:
    """A topic with something in it, of which the memory beside it says nothing."""
    KafkaLog(settings, RETENTION).close()
    producer = Producer(settings.client())
    producer.produce(settings.topic, b"something", partition=1)
    assert producer.flush(30) == 0
    return settings.memory_topic


def delete(broker: Broker, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result(30)


def test_a_topic_that_was_deleted_and_made_again_is_noticed_by_proxy_and_reader(
    log: KafkaLog, broker: Broker
) -> None:
    log.append(some_blocks(100), now=1, segment=1)
    first = read(log.settings)
    delete(broker, log.settings.topic)
    with pytest.raises(LogError, match="it was deleted and made again"):
        KafkaLog(log.settings, RETENTION)
    assert "it is not the log that was read before" in read(log.settings, first.position).problem
    producer = Producer(log.settings.client())
    for partition in range(4):
        for _ in range(100):
            producer.produce(log.settings.topic, b"longer than before", partition=partition)
    assert producer.flush(30) == 0
    # by which the engine knows
    assert read(log.settings, first.position).identity != first.identity


def test_a_reader_is_told_what_retention_took_before_it_was_read(
    log: KafkaLog, broker: Broker
) -> None:
    log.append(some_blocks(100, seed=1), now=1)
    first = read(log.settings)
    log.append(some_blocks(100, seed=2), now=1)
    wait_until_visible(log.settings)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    beyond = TopicPartition(log.settings.topic, 2, first.position[2] + 1)
    for future in admin.delete_records([beyond]).values():
        future.result(30)
    assert "partition 2 of the topic" in read(log.settings, first.position).problem
    assert "were deleted by retention" in read(log.settings, first.position).problem
    reader = KafkaLogReader(log.settings, wait_ms=1)
    with pytest.raises(
        LogError, match=f"records after offset {first.position[2]} were deleted by retention"
    ):
        reader.read_span(2, first.position[2], first.position[2] + 3)
    reader.close()
    assert n_rows(read(log.settings)) > 100  # whoever has read nothing yet begins with what is left


def test_a_topic_that_is_not_there_is_a_problem(settings: KafkaSettings) -> None:
    share_log = KafkaShareLog(settings)
    assert f"there is no topic {settings.topic}" in share_log.read((), 1).problem
    share_log.close()


def test_large_rows_are_cut_to_what_a_record_holds(log: KafkaLog) -> None:
    columns = some_rows(3000, size_class=4)
    most = log.most_rows(4)
    blocks, _ = cut(CHANNEL, 1, 4, columns, 2, most)
    assert max(len(block) for block in blocks) * 1024 < 1_000_000
    assert most * 1024 > 900_000
    log.append(blocks, now=1)
    assert n_rows(read(log.settings)) == 3000


def test_a_reader_that_takes_little_at_a_time_gets_all_of_it_in_order(log: KafkaLog) -> None:
    for epoch in range(6):
        log.append(some_blocks(200, epoch=epoch, seed=epoch), now=1)
    wait_until_visible(log.settings)
    share_log, seen = KafkaShareLog(log.settings), []
    position: tuple[int, ...] = ()
    for _ in range(200):
        reading = share_log.read(position, 1)
        assert reading.problem == ""
        if reading.position == position:
            break
        position = reading.position
        seen += [Block.from_bytes(content) for content in reading.blocks]
    share_log.close()
    assert sum(len(block) for block in seen) == 1200
    for partition in range(4):
        epochs = [block.epoch for block in seen if block.prefix >> 1 == partition]
        assert epochs == sorted(epochs)


def crowd_beside(log: KafkaLog, folder: Path) -> tuple[Crowd, Engine]:
    """A crowd, and an engine to which the log is that of the second proxy."""
    crowd = Crowd(folder)
    engine = crowd.engine()
    engine.logs[1].close()
    engine.logs[1] = KafkaShareLog(log.settings)
    return crowd, engine


def test_a_block_that_stands_in_another_partition_is_not_counted(
    tmp_path: Path, log: KafkaLog, broker: Broker
) -> None:
    crowd, engine = crowd_beside(log, tmp_path)
    shares = crowd.answer([3] * 200, proxies=[0])
    *blocks, last = cut(crowd.query.channel_tag, 0, 0, shares[1], 2)[0]
    log.append(blocks, now=ORIGIN)
    stranger = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    stranger.produce(log.settings.topic, last.to_bytes(), partition=(last.prefix + 1) % 4)
    assert stranger.flush(30) == 0
    wait_until_visible(log.settings)
    engine.drain()
    assert crowd.counts()[3] == 200 - len(last)
    assert crowd.accounts(-1)[1] == {"received": len(last), "malformed": len(last)}
    crowd.close_all()


def test_the_engine_reports_another_topic_and_counts_none_of_it(
    tmp_path: Path, log: KafkaLog, broker: Broker
) -> None:
    crowd, engine = crowd_beside(log, tmp_path)
    shares = crowd.answer([3] * 20, proxies=[0])
    blocks, _ = cut(crowd.query.channel_tag, 0, 0, shares[1], 2)
    log.append(blocks, now=ORIGIN)
    wait_until_visible(log.settings)
    engine.drain()
    assert (crowd.counts()[3], engine.health[1].problem) == (20, "")
    for topic in (log.settings.topic, log.settings.memory_topic):
        delete(broker, topic)
    engine.drain()
    assert "there is no topic" in engine.health[1].problem
    again = KafkaLog(log.settings, RETENTION)
    shares = crowd.answer([4] * 500, proxies=[0])
    for block in cut(crowd.query.channel_tag, 0, 0, shares[1], 6)[0]:
        again.append([block], now=ORIGIN)
    wait_until_visible(log.settings)
    engine.drain()
    assert "identity differs" in engine.health[1].problem
    assert crowd.counts()[4] == 0
    again.close()
    crowd.close_all()


# --- TLS and passwords


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_log_is_written_and_read_over_tls_with_a_password(
    mechanism: str, broker: Broker, fresh_topic: Callable[[str], str], password: Path
) -> None:
    settings = secured(broker, fresh_topic("secure"), mechanism, password)
    log = KafkaLog(settings, RETENTION)
    log.append(some_blocks(50), now=1, segment=1)
    log.close()
    assert n_rows(read(settings)) == 50


@pytest.mark.parametrize("wrong", ["password", "certificate"])
def test_a_wrong_password_or_certificate_is_named_as_the_reason(
    wrong: str, broker: Broker, password: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deniable.logs.kafka_reader._SECONDS", 2.0)
    settings = secured(broker, "any", "PLAIN", password)
    if wrong == "password":
        password.write_text("open sesame")
    else:
        options = {**settings.options, "ssl.ca.location": str(self_signed(tmp_path, "stranger"))}
        settings = replace(settings, options=options)
    share_log = KafkaShareLog(settings)
    problem = share_log.read((), 1).problem
    share_log.close()
    assert (
        "Authentication failed" if wrong == "password" else "certificate verify failed"
    ) in problem
    assert "sesame" not in problem


def test_the_command_shows_how_far_the_log_goes(log: KafkaLog, tmp_path: Path) -> None:
    log.append(some_blocks(100), now=1, marks={CHANNEL: 4})
    wait_until_visible(log.settings)
    kafka = (
        f'[kafka]\nbootstrap = "{log.settings.bootstrap}"\ntopic ='
        f' "{log.settings.topic}"\npartitions = 4\n'
    )
    (tmp_path / "proxy.toml").write_text(f'folder = "data"\n{kafka}')
    shown = json.loads(
        CliRunner().invoke(cli, ["proxy", "log", str(tmp_path / "proxy.toml"), "--json"]).output
    )
    assert shown["identity"] == log.identity
    assert shown["channels"] == {f"{CHANNEL:016x}": {"closed_before": 4}}
    assert shown["first_offset"] == [0] * 4
    assert all(last >= 3 for last in shown["last_offset"])
