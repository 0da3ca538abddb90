"""Reading a Kafka topic as a log: partitions from given offsets, committed records only, nothing
skipped silently.

A position has one offset per partition: how many of its places have been read. No consumer group is
joined and no offset is stored in Kafka: a reader keeps the position next to what it made of the
records.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from confluent_kafka.cimpl import NewTopic

from deniable.errors import LogAwayError, LogError, ParameterError
from deniable.logs.kafka_settings import KafkaSettings

__all__ = ["KafkaLogReader", "KafkaRecord", "Position", "TopicKeeper", "about", "check_reaches"]

Position = tuple[int, ...]
_SECONDS = 10.0
_AT_ONCE = 32
_POLL = 0.2
_GONE = {
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
}
_OUT_OF_RANGE = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET}
_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
_TELLING = {*_REFUSED, KafkaError._SSL, KafkaError._RESOLVE}
"""Errors that explain why a broker cannot be used while the client keeps retrying."""


class KafkaRecord(NamedTuple):
    """A record and its position."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Topic(NamedTuple):
    """What a cluster reports about a topic."""

    identity: str
    """Drawn at creation: a topic that was deleted and recreated has a different one."""
    n_partitions: int


class NoTopicError(LogError):
    """There is no such topic."""


def about(error: KafkaError, topic: str, bootstrap: str) -> LogError:
    """What a librdkafka error means for a log: temporarily unreachable, or not usable at all."""
    if error.code() in _GONE:
        return NoTopicError(f"there is no topic {topic} at {bootstrap}")
    if error.code() in _REFUSED:
        return LogError(f"Kafka at {bootstrap} refuses: {error.str()}")
    return LogAwayError(
        f"Kafka at {bootstrap} cannot be reached or did not answer in time: {error.str()}"
    )


class TopicKeeper:
    """Looks up and creates a cluster's topics."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._trouble: KafkaError | None = None
        self._admin = made(AdminClient, {**settings.client(), "error_cb": self._note})

    def _note(self, error: KafkaError) -> None:
        if error.code() in _TELLING:
            self._trouble = error

    def _meaning(self, error: KafkaError, topic: str) -> LogError:
        """What an error means; for a broker that does not respond, also why, if known."""
        found = about(error, topic, self._settings.bootstrap)
        self._admin.poll(0)
        if isinstance(found, LogAwayError) and self._trouble is not None:
            found = LogAwayError(
                f"Kafka at {self._settings.bootstrap} cannot be used: {self._trouble.str()}"
            )
        return found

    def _waited(self, future: Any, topic: str) -> Any:
        try:
            return future.result(_SECONDS + 1)
        except KafkaException as error:
            raise self._meaning(error.args[0], topic) from None
        except TimeoutError:
            raise self._meaning(KafkaError(KafkaError._TIMED_OUT), topic) from None

    def knock(self, seconds: float) -> None:
        """Check that a broker responds within this many seconds."""
        try:
            self._admin.list_topics(timeout=seconds)
        except KafkaException as error:
            raise self._meaning(error.args[0], "") from None

    def look(self, topic: str) -> Topic | None:
        """The topic, or None if there is none."""
        answers = self._admin.describe_topics(TopicCollection([topic]), request_timeout=_SECONDS)
        try:
            found = self._waited(answers[topic], topic)
        except NoTopicError:
            return None
        return Topic(str(found.topic_id), len(found.partitions))

    def find(self, topic: str) -> Topic:
        """The topic, which must exist."""
        found = self.look(topic)
        if found is None:
            raise NoTopicError(f"there is no topic {topic} at {self._settings.bootstrap}")
        return found

    def make(self, topic: str, n_partitions: int, config: dict[str, str]) -> Topic:
        """The topic, created if it does not exist."""
        found = self.look(topic)
        if found is None:
            wanted = NewTopic(topic, n_partitions, self._settings.replication, config=config)
            future = self._admin.create_topics([wanted], request_timeout=_SECONDS)[topic]
            try:
                future.result(_SECONDS + 1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise self._meaning(error.args[0], topic) from None
            deadline = time.monotonic() + _SECONDS
            while (found := self.look(topic)) is None and time.monotonic() < deadline:
                time.sleep(0.05)
        if found is None:
            raise LogAwayError(
                f"the topic {topic} was made, and Kafka at {self._settings.bootstrap} does not"
                " show it"
            )
        if found.n_partitions != n_partitions:
            raise LogError(
                f"the topic {topic} has {found.n_partitions} partitions, and {n_partitions} are"
                " expected"
            )
        return found

    def ends(self, topic: str, n_partitions: int, first: bool = False) -> Position:
        """For each partition, the offset after the last committed record or, with `first`, that of
        the oldest record left."""
        spec = OffsetSpec.earliest() if first else OffsetSpec.latest()  # type: ignore[no-untyped-call]
        requests = {TopicPartition(topic, partition): spec for partition in range(n_partitions)}
        level = IsolationLevel.READ_COMMITTED
        answers = self._admin.list_offsets(
            requests, isolation_level=level, request_timeout=_SECONDS
        )
        found = {
            each.partition: self._waited(future, topic).offset for each, future in answers.items()
        }
        return tuple(found[partition] for partition in range(n_partitions))


def check_reaches(topic: str, at: Position, ends: Position) -> None:
    """Check that a log extends at least as far as it was read."""
    for partition, (place, end) in enumerate(zip(at, ends, strict=True)):
        if place > end:
            where = f"partition {partition} of the topic {topic}"
            raise LogError(
                f"{where} ends at offset {end}, before {place}: it is not the log that was read"
                " before"
            )


class KafkaLogReader:
    """A topic, read from a position onwards. Used by one thread at a time."""

    def __init__(
        self, settings: KafkaSettings, topic: str | None = None, wait_ms: int = 50
    ) -> None:
        """`wait_ms` is how long to wait for more at the end of a partition: the end of a
        transaction does not wake a fetch."""
        self.topic = topic or settings.topic
        self._settings = settings
        own = {
            # librdkafka requires one; no group is joined and nothing is committed
            "group_id": "deniable",
            "enable_auto_commit": False,
            "enable_auto_offset_store": False,
            "enable_partition_eof": True,
            "isolation_level": "read_committed",
            "auto_offset_reset": "error",
            "queued_max_messages_kbytes": 16384,
            "fetch_wait_max_ms": wait_ms,
        }
        self._consumer: Any = made(Consumer, settings.client(**own))
        self._at: dict[int, int] | None = None
        """Where the consumer continues in each partition."""

    @functools.cached_property
    def _keeper(self) -> TopicKeeper:
        return TopicKeeper(self._settings)

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def read(self, after: Position, most_bytes: int) -> tuple[list[KafkaRecord], Position, str]:
        """The next records after a position (about `most_bytes` of them), the position after them,
        and the topic's identity.

        The empty position is followed by the oldest record left. The position also moves past
        records of aborted transactions. Asking for records that were dropped or no longer exist
        raises an error.
        """
        topic = self._look()
        if after and len(after) != topic.n_partitions:
            raise LogError(
                f"the topic {self.topic} has {topic.n_partitions} partitions, and had {len(after)}"
                " when it was read"
            )
        ends = self._keeper.ends(self.topic, topic.n_partitions)
        at = after or self._keeper.ends(self.topic, topic.n_partitions, first=True)
        check_reaches(self.topic, at, ends)
        if not most_bytes or at == ends:
            return [], at, topic.identity
        records, places = self._consume(dict(enumerate(at)), dict(enumerate(ends)), most_bytes)
        at = tuple(places.values())
        # topic ids are never reused, so what was read belongs to this topic
        if self._look().identity != topic.identity:
            raise LogError(f"the topic {self.topic} was deleted and made again while it was read")
        return records, at, topic.identity

    def read_all(self, after: Position = ()) -> Iterable[KafkaRecord]:
        """All committed records after a position, up to the current end."""
        topic = self._look()
        ends = self._keeper.ends(self.topic, topic.n_partitions)
        at = after
        while not at or any(place < end for place, end in zip(at, ends, strict=True)):
            records, at, _ = self.read(at, 64 << 20)
            yield from records

    def read_span(self, partition: int, start: int, end: int) -> list[KafkaRecord]:
        """The records of a partition from `start` up to `end`, which the log is known to have
        reached."""
        records, place = self._consume({partition: start}, {partition: end}, 1 << 62)
        self._consumer.unassign()  # nothing after it is wanted
        self._at = None
        if place[partition] < end:
            raise LogAwayError(
                f"Kafka at {self._settings.bootstrap} sent nothing within {_SECONDS:.0f} seconds"
            )
        return [record for record in records if record.offset < end]

    def _look(self) -> Topic:
        return self._keeper.find(self.topic)

    def _consume(
        self, at: Mapping[int, int], ends: Mapping[int, int], most_bytes: int
    ) -> tuple[list[KafkaRecord], dict[int, int]]:
        if at != self._at:
            self._consumer.assign(
                [TopicPartition(self.topic, partition, offset) for partition, offset in at.items()]
            )
        self._at = None  # if this fails, the consumer's position is unknown
        place, n_bytes = dict(at), 0
        records: list[KafkaRecord] = []
        deadline = time.monotonic() + _SECONDS
        while n_bytes < most_bytes and any(place[i] < end for i, end in ends.items()):
            first = self._consumer.poll(_POLL)
            found = [] if first is None else [first, *self._consumer.consume(_AT_ONCE, 0)]
            for message in found:
                error = message.error()
                if error is None:
                    record = KafkaRecord(
                        message.partition(), message.offset(), message.key(), message.value()
                    )
                    records.append(record)
                    n_bytes += len(record.value or b"")
                    place[record.partition] = record.offset + 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    place[message.partition()] = max(place[message.partition()], message.offset())
                elif error.code() in _OUT_OF_RANGE:
                    where = f"partition {message.partition()} of the topic {self.topic}"
                    raise LogError(
                        f"{where}: records after offset {place[message.partition()]} were deleted"
                        " by retention"
                    )
                elif error.code() in _GONE | _REFUSED:
                    raise about(error, self.topic, self._settings.bootstrap)
            if found:
                deadline = time.monotonic() + _SECONDS
            elif time.monotonic() > deadline:
                if not records:
                    raise LogAwayError(
                        f"Kafka at {self._settings.bootstrap} sent nothing within {_SECONDS:.0f}"
                        " seconds"
                    )
                break
        self._at = place
        return records, dict(place)


def made(kind: Any, configuration: dict[str, Any]) -> Any:
    """A librdkafka client; errors in its options are reported without their values."""
    try:
        return kind(configuration)
    except KafkaException as error:
        raise ParameterError(
            "kafka.options", "…", f"are refused by librdkafka: {error.args[0].str()}"
        ) from None
