"""What the aggregator needs of a proxy's log, and the reader of the embedded one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from deniable.errors import LogError
from deniable.proxy.log import LogReader

__all__ = ["EmbeddedLog", "Reading", "ShareLog"]

_AT_ONCE = 32
"""Blocks asked for at once; the largest have 4 MiB in the smallest size class."""


class Reading(NamedTuple):
    """What was found in a log after an offset."""

    entries: list[tuple[int, bytes]]
    """Offsets and blocks, in order."""
    marks: Mapping[int, tuple[int, int]]
    """For each channel (epoch, offset): blocks of epochs before `epoch` all stand at `offset` or before it."""
    problem: str = ""
    """Why nothing could be read, if so."""


class ShareLog(Protocol):
    """A proxy's log, read from an offset on."""

    def read(self, after: int, most_bytes: int) -> Reading:
        """The marks, and then the next blocks, about so many bytes of them; `problem` says why the log cannot be read."""
        ...

    def identity(self) -> str | None:
        """A name that no other log has; None if the log cannot be read."""
        ...


class EmbeddedLog:
    """The SQLite log of a proxy that runs on this machine. It need not be there yet; it may go and come back."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._reader: LogReader | None = None

    def _open(self) -> LogReader:
        if self._reader is None:
            self._reader = LogReader(self.path)
        return self._reader

    def close(self) -> None:
        """Let go of the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def identity(self) -> str | None:
        """The name that the log was given when it was made."""
        try:
            return self._open().identity
        except (LogError, sqlite3.Error):
            self.close()
            return None

    def read(self, after: int, most_bytes: int) -> Reading:
        """Marks first: what they promise is then there to be read."""
        entries: list[tuple[int, bytes]] = []
        try:
            reader = self._open()
            marks = {channel: (mark.epoch, mark.offset) for channel, mark in reader.marks().items()}
            n_bytes = 0
            while n_bytes < most_bytes:
                found = reader.read(entries[-1][0] if entries else after, _AT_ONCE)
                entries += [(record.offset, record.block) for record in found]
                n_bytes += sum(len(record.block) for record in found)
                if len(found) < _AT_ONCE:
                    break
        except (LogError, sqlite3.Error) as error:
            self.close()
            return Reading([], {}, str(error))
        return Reading(entries, marks)
