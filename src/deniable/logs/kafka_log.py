"""A proxy's log in Kafka: blocks and marks in the partitions of a topic, moved there from the spool
exactly once.

One transaction writes blocks, marks and, to the topic `<topic>.memory`, what the proxy must know
when it restarts: which spool segments were moved, up to which epoch each channel is closed, and
where the blocks of its open epochs begin. The transactional id belongs to the proxy. Opening the
log under it fences off the previous writer and aborts any interrupted transaction, so the memory
then states exactly what was committed. The memory also records who opened the log last: a proxy
that lost its connection does not take the log back from one that was started in the meantime.

If a response does not arrive in time, it is unknown whether the transaction was committed. The
producer is then discarded, and the next one finds out from the memory.

Old blocks are dropped by Kafka's own retention, which is set when the topic is created.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer

from deniable.errors import LogAwayError, LogError, WireError
from deniable.logs.kafka_reader import KafkaLogReader, Position, TopicKeeper, about, made
from deniable.logs.kafka_settings import KafkaSettings
from deniable.wire.blocks import LARGEST_BLOCK, Block
from deniable.wire.marks import MarkRecord, is_mark
from deniable.wire.sizes import row_words

__all__ = ["KafkaLog", "Overview", "overview"]

_LOGGER = logging.getLogger("deniable.proxy")
_SECONDS = 5.0
"""How long to wait for each step of a transaction; uploads may have to wait that long too."""
_SECONDS_TO_OPEN = 30.0
"""How long to wait for a broker at startup."""
_SECONDS_TO_SEE = 1.0
"""How long to wait for it later, after it was unreachable."""
_LARGEST_MESSAGE = 1_000_000
"""Bytes of a record, framing included: the brokers' default limit."""
_FRAMING = 1024
_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.TRANSACTION_COORDINATOR_FENCED,
}
_HOPELESS = {
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.INVALID_CONFIG,
}
_SEGMENT, _CLOSED, _OPEN, _LOG, _RUN = "segment", "closed", "open", "log", "run"
_Key = tuple[str, ...]
_Memory = dict[_Key, Any]


class Overview(NamedTuple):
    """The extent of a log in Kafka."""

    identity: str
    firsts: Position
    ends: Position
    closed: dict[int, int]


def overview(settings: KafkaSettings) -> Overview:
    """What can be seen of a log from outside, without contacting its proxy."""
    keeper = TopicKeeper(settings)
    keeper.knock(_SECONDS)
    topic = keeper.look(settings.topic)
    if topic is None:
        raise LogError(f"there is no topic {settings.topic} at {settings.bootstrap}")
    firsts, ends = (
        keeper.ends(settings.topic, topic.n_partitions, first=first) for first in (True, False)
    )
    return Overview(topic.identity, firsts, ends, _closed(_remembered(settings)))


def _closed(memory: _Memory) -> dict[int, int]:
    return {int(key[1], 16): epoch for key, epoch in memory.items() if key[0] == _CLOSED}


def _remembered(settings: KafkaSettings) -> _Memory:
    memory: _Memory = {}
    reader = KafkaLogReader(settings, settings.memory_topic)
    try:
        for record in reader.read_all():
            key = tuple(json.loads(record.key or b"[]"))
            if record.value is None:
                memory.pop(key, None)
            else:
                memory[key] = json.loads(record.value)
    except ValueError:
        raise LogError(
            f"the topic {settings.memory_topic} contains records that no proxy wrote"
        ) from None
    finally:
        reader.close()
    return memory


class KafkaLog:
    """The proxy's own, writing side of its log. One process writes; missing topics are created.

    `owner` names the spool, without which segment numbers mean nothing.
    """

    def __init__(self, settings: KafkaSettings, retention: int, owner: str = "") -> None:
        self.settings, self.partition_bits = settings, settings.partition_bits
        self._retention, self._owner, self._run = retention, owner, secrets.token_hex(8)
        self._largest = int(settings.options.get("message.max.bytes", _LARGEST_MESSAGE))
        self._keeper = TopicKeeper(settings)
        self._producer: Any = None
        self._keeper.knock(_SECONDS_TO_OPEN)
        self._open()
        # before the first block is written, so that the two topics are tied together from the start
        opened: _Memory = {(_LOG,): self.identity, (_RUN,): self._run}
        self._commit([], opened)
        self._memory |= opened

    def close(self) -> None:
        """Close the connections. An open transaction is not committed."""
        if self._producer is not None:
            self._producer.purge()
            self._producer = None

    # --- opening

    def _open(self) -> None:
        """Fence off any previous writer, and learn what was committed."""
        topic, memory = self.settings.topic, self.settings.memory_topic
        room = (
            {"max.message.bytes": str(self._largest + _FRAMING)}
            if self._largest > _LARGEST_MESSAGE
            else {}
        )
        kept = {
            "cleanup.policy": "delete",
            "retention.ms": str(1000 * self._retention),
            "retention.bytes": "-1",
            **room,
        }
        compacted = {
            "cleanup.policy": "compact",
            "segment.ms": "3600000",
            "min.cleanable.dirty.ratio": "0.1",
        }
        self.identity = self._keeper.make(topic, self.settings.partitions, kept).identity
        self._keeper.make(memory, 1, compacted)
        own = {
            "transactional_id": f"deniable.{topic}",
            "enable_idempotence": True,
            "acks": "all",
            "message_max_bytes": self._largest,
            "linger_ms": 5,
        }
        producer = made(Producer, self.settings.client(**own))
        try:
            producer.init_transactions(_SECONDS_TO_OPEN)
        except KafkaException as error:
            raise self._meaning(error.args[0]) from None
        self._memory = _remembered(self.settings)
        self._ends = self._keeper.ends(topic, self.settings.partitions)
        known = self._memory.get((_LOG,))
        if known not in (None, self.identity):
            raise LogError(
                f"the topic {topic} is not the one that was written before: it was deleted and made"
                " again"
            )
        if known is None and any(self._ends):
            raise LogError(
                f"the topic {topic} holds records, and {memory} does not know of them: one of the"
                " two is not this proxy's"
            )
        self._producer = producer

    def _open_again(self) -> None:
        """Reopen after a lost connection, unless another proxy has opened the log since."""
        self._keeper.knock(_SECONDS_TO_SEE)
        run = _remembered(self.settings).get((_RUN,))
        if run != self._run:
            raise self._shut_out()
        self._open()

    # --- what the proxy starts from

    def most_rows(self, size_class: int) -> int:
        """How many rows of a block fit in a record."""
        return max(1, min(LARGEST_BLOCK, (self._largest - _FRAMING) // (8 * row_words(size_class))))

    def moved(self) -> set[int]:
        """The spool segments that were appended and whose files may still exist."""
        return {int(key[2]) for key in self._memory if key[:2] == (_SEGMENT, self._owner)}

    def closed(self) -> dict[int, int]:
        """For each channel, the epoch before which all are closed."""
        return _closed(self._memory)

    def open_blocks(self) -> Iterator[Block]:
        """The blocks of all open epochs, one at a time, starting where the first of them begins."""
        floors = [tuple(floor) for key, floor in self._memory.items() if key[0] == _OPEN]
        if not floors:
            return
        firsts = self._keeper.ends(self.settings.topic, self.settings.partitions, first=True)
        floor = tuple(min(column) for column in zip(*floors, strict=True))
        start: Position = tuple(map(max, floor, firsts))
        if start != floor:
            _LOGGER.warning(
                "retention has dropped blocks of open epochs",
                extra={"fields": {"topic": self.settings.topic}},
            )
        closed = self.closed()
        reader = KafkaLogReader(self.settings)
        try:
            for record in reader.read_all(start):
                content = record.value or b""
                if is_mark(content):
                    continue
                try:
                    block = Block.from_bytes(content)
                except WireError:  # not ours: the aggregator records it
                    continue
                if block.epoch >= closed.get(block.channel, 0):
                    yield block
        finally:
            reader.close()

    def drop_before(self, time: int) -> int:
        """Do nothing: Kafka drops what is older than the topic's retention."""
        return 0

    # --- appending

    def append(
        self,
        blocks: Iterable[Block],
        now: int,
        segment: int | None = None,
        marks: Mapping[int, int] | None = None,
        forget: Iterable[int] = (),
    ) -> None:
        """Append blocks, then marks, and record the segment; see
        :meth:`deniable.logs.sqlite_log.BlockLog.append`.

        After a `LogAwayError` it may or may not have been done; called again with the same segment,
        it is done exactly once.
        """
        if self._producer is None:
            self._open_again()
        if segment is not None and self._noted(segment) in self._memory:
            return  # it was committed; only the response was lost
        given = list(blocks)
        closed = self.closed()
        newer = {
            channel: epoch
            for channel, epoch in (marks or {}).items()
            if epoch > closed.get(channel, 0)
        }
        changes = {
            **self._segment_changes(segment, forget),
            **self._epoch_changes(given, newer, closed),
        }
        if not given and not changes:
            return
        self._commit(self._records(given, newer), changes)
        for key, value in changes.items():
            if value is None:
                self._memory.pop(key, None)
            else:
                self._memory[key] = value

    def _segment_changes(self, segment: int | None, forget: Iterable[int]) -> _Memory:
        """What the memory has to learn and forget about spool segments; None is forgotten."""
        changes: _Memory = {
            self._noted(gone): None for gone in forget if self._noted(gone) in self._memory
        }
        if segment is not None:
            changes[self._noted(segment)] = True
        return changes

    def _epoch_changes(
        self, blocks: Iterable[Block], newer: Mapping[int, int], closed: Mapping[int, int]
    ) -> _Memory:
        """What it has to learn about epochs that these blocks open, and to forget about those that
        newer marks close."""
        changes: _Memory = {}
        for block in blocks:
            place = (_OPEN, f"{block.channel:016x}", str(block.epoch))
            if place not in self._memory and block.epoch >= closed.get(block.channel, 0):
                changes[place] = self._ends
        for channel, epoch in newer.items():
            tag = f"{channel:016x}"
            changes[_CLOSED, tag] = epoch
            changes |= {
                key: None for key in self._memory if key[:2] == (_OPEN, tag) and int(key[2]) < epoch
            }
        return changes

    def _records(
        self, blocks: Iterable[Block], newer: Mapping[int, int]
    ) -> list[tuple[int, bytes]]:
        """Blocks, then marks in every partition."""
        records = [(self._partition(block), block.to_bytes()) for block in blocks]
        for channel, epoch in newer.items():
            mark = MarkRecord(channel, epoch).to_bytes()
            records += [(partition, mark) for partition in range(self.settings.partitions)]
        return records

    def _noted(self, segment: int) -> _Key:
        return (_SEGMENT, self._owner, str(segment))

    def _partition(self, block: Block) -> int:
        if block.prefix_bits < self.partition_bits:
            rule = (
                f"a topic of {self.settings.partitions} partitions takes blocks whose prefix has"
                f" {self.partition_bits} bits"
            )
            raise LogError(f"{rule}, and this one has {block.prefix_bits}")
        return block.prefix >> (block.prefix_bits - self.partition_bits)

    def _commit(self, records: Iterable[tuple[int, bytes]], changes: Mapping[_Key, Any]) -> None:
        ends, errors = list(self._ends), []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                errors.append(error)
            elif message.topic() == self.settings.topic:
                ends[message.partition()] = max(ends[message.partition()], message.offset() + 1)

        producer = self._producer
        # no finer than the second of the flush
        options = {"on_delivery": delivered, "timestamp": 1000 * int(time.time())}
        try:
            producer.begin_transaction()
            for partition, value in records:
                self._produce(self.settings.topic, value, partition=partition, **options)
            for key, value in changes.items():
                content = None if value is None else json.dumps(value).encode()
                self._produce(
                    self.settings.memory_topic, content, key=json.dumps(key), partition=0, **options
                )
            left = producer.flush(_SECONDS)
            if left or errors:
                self._give_up()
                raise self._meaning(
                    errors[0]
                    if errors
                    else KafkaError(KafkaError._TIMED_OUT, f"{left} records were not taken")
                )
            producer.commit_transaction(_SECONDS)
        except KafkaException as error:
            self._give_up()
            raise self._meaning(error.args[0]) from None
        except BufferError:
            self._give_up()
            raise LogAwayError(
                f"Kafka at {self.settings.bootstrap} accepts records too slowly"
            ) from None
        self._ends = tuple(ends)

    def _produce(self, topic: str, value: bytes | None, **how: Any) -> None:
        try:
            self._producer.produce(topic, value, **how)
        except BufferError:  # the producer's queue is full: drain it first
            self._producer.flush(_SECONDS)
            self._producer.produce(topic, value, **how)

    def _give_up(self) -> None:
        """Discard the producer; the next one finds out what became of its transaction."""
        producer, self._producer = self._producer, None
        producer.purge()

    def _shut_out(self) -> LogError:
        return LogError(
            f"another proxy writes to the topic {self.settings.topic}: this one was shut out and"
            " must stop"
        )

    def _meaning(self, error: KafkaError) -> LogError:
        if error.code() in _FENCED:
            return self._shut_out()
        if error.code() in _HOPELESS:
            return LogError(f"Kafka at {self.settings.bootstrap} refuses writes: {error.str()}")
        return about(error, self.settings.topic, self.settings.bootstrap)
