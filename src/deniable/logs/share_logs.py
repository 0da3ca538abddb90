"""What the aggregator needs from a proxy's log, and three readers: a local file, HTTP, and a Kafka
topic.

A log has one or more partitions. A position has one offset per partition: how many of its places
have been read. The empty position means that nothing was ever read from the log.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from deniable.checks import decimal
from deniable.errors import DamagedLogError, LogError, ResponseError, SettingsError, WireError
from deniable.logs.kafka_settings import KafkaSettings, require_client
from deniable.logs.sqlite_log import LogReader
from deniable.queries.schedule import MOST_EPOCHS
from deniable.service.faults import name_of_error
from deniable.service.http.reading import ask, bearer
from deniable.wire.marks import MarkRecord, is_mark
from deniable.wire.pages import unpack_page

if TYPE_CHECKING:
    from deniable.logs.kafka_reader import KafkaLogReader

__all__ = [
    "EmbeddedLog",
    "HttpLog",
    "KafkaShareLog",
    "PartitionMark",
    "Position",
    "Reading",
    "ShareLog",
    "unread",
]

Position = tuple[int, ...]

_AT_ONCE = 32
"""Blocks requested at once; the largest have 4 MiB in the smallest size class."""
_SECONDS_TO_ANSWER = 15.0
"""How long a proxy may send nothing at all."""
LARGEST_PAGE = 64 << 20
"""Bytes of one response from a proxy: more than a page of its log plus one block."""
_CHANNEL = re.compile(r"[0-9a-f]{16}", re.ASCII)
_IDENTITY = re.compile(r"[0-9A-Za-z_.-]{1,64}", re.ASCII)


class PartitionMark(NamedTuple):
    """The promise that a partition has no blocks of a channel's epochs before `epoch` beyond its
    first `offset` places."""

    partition: int
    channel: int
    epoch: int
    offset: int


class Reading(NamedTuple):
    """What was found in a log after a position."""

    blocks: list[bytes]
    """In partition order."""
    position: Position
    """Where the next reading continues."""
    marks: Sequence[PartitionMark]
    """A channel's epochs are complete once the marks of all partitions are reached."""
    identity: str | None = None
    """A name that no other log has; None if the log cannot be read."""
    problem: str = ""
    """Why nothing could be read, if nothing could."""
    more: bool = False
    """Whether the log holds more than was requested: what is missing here may then come further
    on."""
    partitions: Sequence[int] = ()
    """Each block's partition, in a log where the share's id determines it."""
    fault: str = ""
    """The name of the fault behind the problem (:mod:`deniable.service.faults`)."""
    backlog: int = 0
    """Blocks that the log holds after the position, if it says."""
    continues: tuple[tuple[str, int], ...] = ()
    """The logs that this one continues because it was restored from their backups, with the last
    offset it has of each."""


def unread(after: Position, problem: str, fault: str = "log_unreadable") -> Reading:
    """The reading of a log that cannot be read."""
    return Reading([], after, (), problem=problem, fault=fault)


class ShareLog(Protocol):
    """A proxy's log, read from a position onwards."""

    def read(self, after: Position, most_bytes: int) -> Reading:
        """The next blocks (about `most_bytes` of them) and marks; `problem` says why the log cannot
        be read."""
        ...

    def close(self) -> None:
        """Close it; a later read reopens it."""
        ...


class EmbeddedLog:
    """The SQLite log of a proxy on this machine. It need not exist yet, and may disappear and come
    back."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._reader: LogReader | None = None
        self._file: tuple[int, int] | None = None
        """Which file is open: a file that replaces it under the same name is a different one."""

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def read(self, after: Position, most_bytes: int) -> Reading:
        """Read marks first, so that what they promise is already there to be read."""
        blocks: list[bytes] = []
        at = _single(after)
        try:
            self._open()
            assert self._reader is not None  # noqa: S101 - for the type checker
            identity = self._reader.identity
            marks = [
                PartitionMark(0, mark.channel, mark.epoch, mark.offset)
                for mark in self._reader.marks().values()
            ]
            end, continues = self._reader.end, self._reader.continues
            if continues and at > end:  # it was restored and has not caught up yet
                return Reading([], after, marks, identity, continues=continues)
            n_bytes, more = 0, most_bytes > 0
            while n_bytes < most_bytes:
                found = self._reader.read(at, _AT_ONCE)
                blocks += [record.block for record in found]
                n_bytes += sum(len(record.block) for record in found)
                at = found[-1].offset if found else at
                if len(found) < _AT_ONCE:
                    more = False
                    break
        except (
            LogError,
            sqlite3.Error,
            OSError,
            UnicodeError,
        ) as error:  # UnicodeError: SQLite's own message about a damaged file
            self.close()
            problem = (
                f"{self.path} cannot be read: {error}"
                if isinstance(error, UnicodeError)
                else str(error)
            )
            return unread(after, problem, _fault(error))
        return Reading(
            blocks, (at,), marks, identity, more=more, backlog=max(0, end - at), continues=continues
        )

    def _open(self) -> None:
        found = self.path.stat() if self.path.is_file() else None
        place = None if found is None else (found.st_dev, found.st_ino)
        if self._reader is None or place != self._file:
            self.close()
            self._reader, self._file = LogReader(self.path), place


def _stated_reason(content: bytes) -> str:
    """The reason in a problem document; empty if it is none."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("reason", "")) if isinstance(found, dict) else ""


def _fault(error: Exception) -> str:
    damaged = isinstance(error, UnicodeError | DamagedLogError)
    return "log_damaged" if damaged or name_of_error(error) == "damaged" else "log_unreadable"


def _single(after: Position) -> int:
    """The offset in a log of one partition."""
    return after[0] if after else 0


class HttpLog:
    """The log of a proxy on another machine, read through its `GET /v1/log` with a reader's or
    operator's token."""

    def __init__(self, url: str, token: str | Callable[[], str], client: Any = None) -> None:
        """`token` may be a function that returns it, so that a replaced token is picked up at the
        next reading."""
        import httpx  # noqa: PLC0415 - needed only for a remote proxy

        self.url = url.rstrip("/")
        self._token = token if callable(token) else lambda: token
        self._client = client or httpx.Client(timeout=_SECONDS_TO_ANSWER)

    def close(self) -> None:
        """Close the connections; the client opens new ones when it is used again."""
        self._client.close()

    def read(self, after: Position, most_bytes: int) -> Reading:
        """One request, which also returns the marks as they were before the blocks were read."""
        at = _single(after)
        limit = max(1, min(1024, most_bytes >> 16))
        query = {"after": at, "limit": limit}
        try:
            what: dict[str, Any] = {"params": query, "headers": bearer(self._token())}
            answer = ask(self._client, "GET", f"{self.url}/v1/log", LARGEST_PAGE, **what)
            if answer.status != 200:
                fault = "token" if answer.status in (401, 403) else "log_unreadable"
                if _stated_reason(answer.content) == "log_damaged":
                    fault = "log_damaged"
                return unread(
                    after, f"{self.url} answered {answer.status}: {answer.text[:200]}", fault
                )
            found = unpack_page(answer.content, at) if most_bytes else []
            marks = _marks(answer.headers.get("Log-Marks", ""))
            end = decimal("Log-End", answer.headers.get("Log-End", "0"))
            identity = _identity(answer.headers.get("Log-Identity"))
            continues = _continues(answer.headers.get("Log-Continues", ""))
        except ResponseError as error:
            return unread(after, f"{self.url}: {error.detail}", name_of_error(error))
        except SettingsError as error:
            return unread(after, str(error), "token")
        except ValueError as error:
            return unread(after, f"{self.url} sent a malformed log: {error}")
        at = found[-1][0] if found else at
        blocks = [block for _, block in found]
        return Reading(
            blocks,
            (at,),
            marks,
            identity,
            more=at < end,
            backlog=max(0, end - at),
            continues=continues,
        )


class KafkaShareLog:
    """The log of a proxy that appends to a Kafka topic."""

    def __init__(self, settings: KafkaSettings) -> None:
        require_client()
        settings.client()  # so that a missing secret is reported at startup
        self._settings = settings
        self._reader: KafkaLogReader | None = None

    def close(self) -> None:
        """Close the connections."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def read(self, after: Position, most_bytes: int) -> Reading:
        """The next blocks and marks, from all partitions."""
        from deniable.logs.kafka_reader import KafkaLogReader  # noqa: PLC0415 - an extra

        try:
            self._reader = self._reader or KafkaLogReader(self._settings)
            records, position, identity = self._reader.read(after, most_bytes)
        except LogError as error:
            self.close()
            return unread(after, str(error))
        blocks: list[bytes] = []
        partitions: list[int] = []
        marks: list[PartitionMark] = []
        for record in records:
            content = record.value or b""
            try:
                mark = MarkRecord.from_bytes(content) if is_mark(content) else None
            except WireError:  # recorded as a malformed block
                mark = None
            if mark is None:
                blocks.append(content)
                partitions.append(record.partition)
            else:
                marks.append(
                    PartitionMark(record.partition, mark.channel, mark.epoch, record.offset + 1)
                )
        more = 0 < most_bytes <= sum(len(record.value or b"") for record in records)
        return Reading(blocks, position, marks, identity, more=more, partitions=tuple(partitions))


def _marks(text: str) -> list[PartitionMark]:
    """The marks in a header: `channel:epoch:offset`, separated by commas, with the channel in 16
    hexadecimal digits."""
    out = []
    for mark in text.split(",") if text else ():
        channel, epoch, offset = mark.split(":")
        if not _CHANNEL.fullmatch(channel):
            raise ValueError("a channel has 16 hexadecimal digits")
        out.append(
            PartitionMark(
                0,
                int(channel, 16),
                decimal("epoch", epoch, most=MOST_EPOCHS),
                decimal("offset", offset),
            )
        )
    return out


def _continues(text: str) -> tuple[tuple[str, int], ...]:
    """The logs that a log continues: `identity:offset`, separated by commas."""
    parts = [each.split(":") for each in text.split(",")] if text else []
    return tuple((_identity(identity), decimal("offset", offset)) for identity, offset in parts)


def _identity(text: str | None) -> str:
    """The identity of a log, checked for its form."""
    if text is None or not _IDENTITY.fullmatch(text):
        raise ValueError("a log has an identity of up to 64 letters and digits")
    return text
