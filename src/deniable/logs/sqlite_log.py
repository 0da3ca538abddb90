"""A proxy's log: blocks in the order they were flushed, each with an offset, in one SQLite file
that aggregators read.

Offsets start at 1 and have no gaps. What one call appends becomes durable and visible all at once,
or not at all. A mark states that all of a channel's blocks of epochs before `epoch` have an offset
of at most `offset`: a reader that has come that far has seen them all.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import takewhile
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from deniable.checks import LARGEST_WORD, is_whole, whole
from deniable.errors import DamagedLogError, LogAwayError, LogError, WireError
from deniable.logs.schema import LOG
from deniable.queries.schedule import MOST_EPOCHS
from deniable.service.faults import name_of_error
from deniable.service.files.database import one_line
from deniable.wire.blocks import LARGEST_BLOCK, Block
from deniable.wire.sizes import row_words

__all__ = ["BlockLog", "LogReader", "LogRecord", "Mark", "ProxyLog"]

_LARGEST_CONTENT = 4 << 20
_CHANNEL = re.compile(r"[0-9a-f]{16}", re.ASCII)


class LogRecord(NamedTuple):
    """One block, as bytes, and its offset. :meth:`deniable.wire.blocks.Block.from_bytes` parses the
    bytes."""

    offset: int
    block: bytes


class Mark(NamedTuple):
    """The promise that all of a channel's blocks of epochs before `epoch` are at or before
    `offset`."""

    channel: int
    epoch: int
    offset: int
    declared: int
    """When it was declared, in seconds since 1970 UTC."""


class ProxyLog(Protocol):
    """What a proxy needs from its log, here or in Kafka."""

    partition_bits: int
    """The minimum number of bits in a block's prefix."""

    def append(
        self,
        blocks: Iterable[Block],
        now: int,
        segment: int | None = None,
        marks: Mapping[int, int] | None = None,
        forget: Iterable[int] = (),
    ) -> object:
        """Append blocks and marks and record a spool segment, all or nothing; see
        :meth:`BlockLog.append`.

        After a `LogAwayError` it may be called again, with the same blocks for the same segment.
        """
        ...

    def most_rows(self, size_class: int) -> int:
        """The maximum number of rows in a block."""
        ...

    def moved(self) -> set[int]:
        """The spool segments that were appended and whose files may still exist."""
        ...

    def closed(self) -> dict[int, int]:
        """For each channel, the epoch before which all are closed."""
        ...

    def open_blocks(self) -> Iterable[Block]:
        """The blocks of all open epochs, one at a time."""
        ...

    def drop_before(self, time: int) -> int:
        """Drop some blocks that were appended before a time; returns how many."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class _Readable:
    """What writer and readers have in common."""

    def __init__(self, path: str | os.PathLike[str], read_only: bool) -> None:
        self.path = Path(path)
        self._connection = LOG.connect(self.path, read_only=read_only)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _fact(self, name: str) -> object:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    @property
    def identity(self) -> str:
        """A name drawn when the log was created. Offsets have meaning only together with it."""
        return str(self._fact("identity"))

    @property
    def continues(self) -> tuple[tuple[str, int], ...]:
        """The logs that this one continues because it was restored from their backups, oldest
        first: identity, and the last offset it has of each."""
        try:
            found = json.loads(str(self._fact("continues") or "[]"))
            return tuple(
                (str(identity), self._checked("continues", offset)) for identity, offset in found
            )
        except (ValueError, TypeError):
            raise DamagedLogError(
                f"{self.path} is damaged: what it continues cannot be read"
            ) from None

    @property
    def dropped(self) -> int:
        """The offset up to which old blocks were dropped; 0 for none."""
        return self._checked("dropped", self._fact("dropped") or 0)

    @property
    def end(self) -> int:
        """The last offset; 0 if nothing was ever appended."""
        row = self._connection.execute(
            "SELECT seq FROM sqlite_sequence WHERE name = 'blocks'"
        ).fetchone()
        return self._checked("end", row[0]) if row else 0

    def marks(self) -> dict[int, Mark]:
        """The newest mark of each channel."""
        rows = self._connection.execute("SELECT channel, epoch, offset, declared FROM marks")
        found = {}
        for name, epoch, offset, declared in rows:
            if not isinstance(name, str) or not _CHANNEL.fullmatch(name):
                raise DamagedLogError(f"{self.path} is damaged: a mark names an impossible channel")
            channel = int(name, 16)
            found[channel] = Mark(
                channel,
                self._checked("epoch", epoch, MOST_EPOCHS),
                self._checked("offset", offset),
                self._checked("declared", declared),
            )
        return found

    def _checked(self, name: str, value: Any, most: int = LARGEST_WORD) -> int:
        """A number read from the file, which damage may have turned into anything."""
        if not is_whole(value) or not 0 <= value <= most:
            raise DamagedLogError(
                f"{self.path} is damaged: {name} is not a whole number from 0 to {most}"
            )
        return int(value)

    def read(self, after: int, limit: int = 256) -> list[LogRecord]:
        """Up to `limit` blocks after an offset, in order; empty at the end of the log.

        Asking for dropped blocks raises an error instead of returning what is left.
        """
        whole("after", after, 0, LARGEST_WORD)
        whole("limit", limit, 1, LARGEST_WORD)
        with self._connection:  # one snapshot: what is dropped and what is left belong together
            self._connection.execute("BEGIN")
            if after < self.dropped:
                raise LogError(
                    f"the log begins after offset {self.dropped}: blocks after {after} were deleted"
                    " by retention"
                )
            if after > self.end:
                raise LogError(
                    f"the log ends at offset {self.end}, before {after}: it is not the log that was"
                    " read before"
                )
            rows = self._connection.execute(
                "SELECT offset, block FROM blocks WHERE offset > ? ORDER BY offset LIMIT ?",
                (after, limit),
            ).fetchall()
            n_expected = min(limit, self.end - after)
        # offsets have no gaps
        if [offset for offset, _ in rows] != list(range(after + 1, after + 1 + n_expected)):
            raise DamagedLogError(
                f"{self.path} is damaged: some blocks after offset {after} are missing"
            )
        if not all(isinstance(content, bytes) for _, content in rows):
            raise DamagedLogError(f"{self.path} is damaged: a block is not bytes")
        return [LogRecord(*row) for row in rows]


class LogReader(_Readable):
    """An aggregator's view of a log that a proxy, another process, is writing.

    >>> import tempfile, numpy as np
    >>> from deniable.wire.blocks import cut
    >>> folder = tempfile.TemporaryDirectory()
    >>> log = BlockLog(Path(folder.name) / "log.db")
    >>> blocks, _ = cut(7, 3, 0, np.arange(16, dtype=np.uint64).reshape(8, 2), prefix_bits=0)
    >>> log.append(blocks, now=1_700_000_000, marks={7: 4})
    1
    >>> reader = LogReader(log.path)
    >>> [(offset, Block.from_bytes(content)) for offset, content in reader.read(after=0)]
    [(1, <block of 2 shares: channel 0000000000000007, epoch 3, size class 0, prefix 0 of 0 bits>)]
    >>> reader.marks()
    {7: Mark(channel=7, epoch=4, offset=1, declared=1700000000)}
    >>> reader.close(), log.close(), folder.cleanup()
    (None, None, None)
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not Path(path).is_file():
            raise LogError(f"{path} is not there")
        super().__init__(path, read_only=True)


@contextmanager
def _room_on_disk(path: Path) -> Iterator[None]:
    """A transaction that did not fit on the disk was rolled back and may be retried once there is
    space."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if name_of_error(error) != "disk_full":
            raise
        raise LogAwayError(f"{path} cannot be written: the disk is full") from None


class BlockLog(_Readable):
    """The proxy's own, writing side of its log. One process writes; it creates the file if it does
    not exist."""

    partition_bits = 0

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path, read_only=False)
        try:
            first, last = self._connection.execute(
                "SELECT min(offset), max(offset) FROM blocks"
            ).fetchone()
            whole_log = (first, last) == (
                (self.dropped + 1, self.end) if self.end > self.dropped else (None, None)
            )
        except sqlite3.DatabaseError:
            whole_log = False
        if not whole_log:
            self.close()
            raise DamagedLogError(
                f"{self.path} is damaged: its first or last blocks are missing. Restore the file"
                " from a backup"
            )

    def append(
        self,
        blocks: Iterable[Block],
        now: int,
        segment: int | None = None,
        marks: Mapping[int, int] | None = None,
        forget: Iterable[int] = (),
    ) -> int:
        """Append blocks and return the log's last offset. Everything is durable when this returns.

        `segment` is the spool segment that these blocks come from: it is recorded in the same
        transaction, so that it is not moved again after a crash; `forget` lists recorded segments
        whose files are gone. `marks` maps a channel to the epoch before which, with these blocks,
        everything is appended; a mark never goes back.
        """
        rows = [
            (
                f"{b.channel:016x}",
                b.epoch,
                b.size_class,
                b.prefix_bits,
                b.prefix,
                len(b),
                now,
                b.to_bytes(),
            )
            for b in blocks
        ]
        with _room_on_disk(self.path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "INSERT INTO blocks (channel, epoch, size_class, prefix_bits, prefix, n, appended,"
                " block) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            if segment is not None:
                self._connection.execute("INSERT INTO moved VALUES (?)", (segment,))
            self._connection.executemany(
                "DELETE FROM moved WHERE segment = ?", [(gone,) for gone in forget]
            )
            end = self.end
            for channel, epoch in (marks or {}).items():
                self._connection.execute(
                    "INSERT INTO marks VALUES (?, ?, ?, ?) ON CONFLICT (channel) DO UPDATE SET"
                    " epoch = excluded.epoch, offset = excluded.offset, declared ="
                    " excluded.declared WHERE excluded.epoch > epoch",
                    (f"{channel:016x}", epoch, end, now),
                )
        return end

    def restored(self) -> None:
        """Take a new identity, because this log lacks what was appended after the backup it was
        restored from."""
        continues = [*self.continues, (self.identity, self.end)]
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute(
                "INSERT OR REPLACE INTO facts VALUES ('continues', ?)", (json.dumps(continues),)
            )
            self._connection.execute(
                "UPDATE facts SET value = lower(hex(randomblob(16))) WHERE name = 'identity'"
            )

    def moved(self) -> set[int]:
        """The spool segments that were appended and whose files may still exist."""
        return {segment for (segment,) in self._connection.execute("SELECT segment FROM moved")}

    def closed(self) -> dict[int, int]:
        """For each channel, the epoch before which all are closed."""
        return {channel: mark.epoch for channel, mark in self.marks().items()}

    def open_blocks(self) -> Iterator[Block]:
        """The blocks of all open epochs, one at a time."""
        sql = (
            "SELECT block FROM blocks b LEFT JOIN marks m ON m.channel = b.channel WHERE b.epoch >="
            " coalesce(m.epoch, 0)"
        )
        try:
            for (content,) in self._connection.execute(sql):
                yield Block.from_bytes(content)
        except (WireError, TypeError, sqlite3.DatabaseError, UnicodeError) as error:
            what = (
                f"{one_line(error)}. Restore the file, or move it away to go on without its blocks"
            )
            raise DamagedLogError(f"{self.path} is damaged: {what}") from None

    def most_rows(self, size_class: int) -> int:
        """The maximum number of rows in a block: 4 MiB of them, because readers over HTTP receive
        whole blocks."""
        return min(LARGEST_BLOCK, _LARGEST_CONTENT // (8 * row_words(size_class)))

    def drop_before(self, time: int, most: int = 256) -> int:
        """Drop up to `most` blocks that were appended before a time, oldest first; returns how
        many.

        Stops at the first block that is newer or whose epoch is still open: from those blocks a
        restarted proxy learns which messages it has already received.
        """
        oldest = self._connection.execute(
            "SELECT b.offset, b.appended < ? AND b.epoch < coalesce(m.epoch, 0)"
            " FROM blocks b LEFT JOIN marks m ON m.channel = b.channel ORDER BY b.offset LIMIT ?",
            (time, most),
        )
        droppable = [offset for offset, _ in takewhile(itemgetter(1), oldest)]
        oldest.close()
        if not droppable:
            return 0
        with _room_on_disk(self.path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("DELETE FROM blocks WHERE offset <= ?", (droppable[-1],))
            self._connection.execute(
                "UPDATE facts SET value = ? WHERE name = 'dropped'", (droppable[-1],)
            )
        return len(droppable)
