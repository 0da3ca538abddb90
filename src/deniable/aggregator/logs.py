"""What the aggregator needs of a proxy's log, and its readers: of the file beside it, and over HTTP."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from deniable.errors import LogError
from deniable.proxy.log import LogReader

__all__ = ["EmbeddedLog", "HttpLog", "Reading", "ShareLog"]

_AT_ONCE = 32
"""Blocks asked for at once; the largest have 4 MiB in the smallest size class."""
_FRAME = struct.Struct("<QI")
"""Offset and length, before each block that is read over HTTP."""


class Reading(NamedTuple):
    """What was found in a log after an offset."""

    entries: list[tuple[int, bytes]]
    """Offsets and blocks, in order."""
    marks: Mapping[int, tuple[int, int]]
    """For each channel (epoch, offset): blocks of epochs before `epoch` all stand at `offset` or before it."""
    identity: str | None = None
    """A name that no other log has; None if the log cannot be read."""
    problem: str = ""
    """Why nothing could be read, if so."""


class ShareLog(Protocol):
    """A proxy's log, read from an offset on."""

    def read(self, after: int, most_bytes: int) -> Reading:
        """The marks, and then the next blocks, about so many bytes of them; `problem` says why the log cannot be read."""
        ...

    def close(self) -> None:
        """Let go of it; a later read opens it again."""
        ...


class EmbeddedLog:
    """The SQLite log of a proxy that runs on this machine. It need not be there yet; it may go and come back."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._reader: LogReader | None = None

    def close(self) -> None:
        """Let go of the file."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def read(self, after: int, most_bytes: int) -> Reading:
        """Marks first: what they promise is then there to be read."""
        entries: list[tuple[int, bytes]] = []
        try:
            self._reader = self._reader or LogReader(self.path)
            identity = self._reader.identity
            marks = {channel: (mark.epoch, mark.offset) for channel, mark in self._reader.marks().items()}
            n_bytes = 0
            while n_bytes < most_bytes:
                found = self._reader.read(entries[-1][0] if entries else after, _AT_ONCE)
                entries += [(record.offset, record.block) for record in found]
                n_bytes += sum(len(record.block) for record in found)
                if len(found) < _AT_ONCE:
                    break
        except (LogError, sqlite3.Error) as error:
            self.close()
            return Reading([], {}, problem=str(error))
        return Reading(entries, marks, identity)


class HttpLog:
    """The log of a proxy on another machine, read through its `GET /v1/log` with a reader's or operator's token."""

    def __init__(self, url: str, token: str, client: Any = None) -> None:
        import httpx  # noqa: PLC0415 - only where a proxy is elsewhere

        self.url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._errors = httpx.HTTPError
        self._client = client or httpx.Client(timeout=30)

    def close(self) -> None:
        """Let go of the connections; the client opens others when it is used again."""
        self._client.close()

    def read(self, after: int, most_bytes: int) -> Reading:
        """One request; it brings the marks too, as they were before the blocks were read."""
        limit = max(1, min(1024, most_bytes >> 16))
        query = {"after": after, "limit": limit}
        try:
            answer = self._client.get(f"{self.url}/v1/log", params=query, headers=self._headers)
            if answer.status_code != 200:
                return Reading([], {}, problem=f"{self.url} answered {answer.status_code}: {answer.text[:200]}")
            entries = list(_frames(answer.content)) if most_bytes else []
            return Reading(entries, _marks(answer.headers.get("Log-Marks", "")), answer.headers.get("Log-Identity"))
        except self._errors as error:
            return Reading([], {}, problem=f"{self.url} cannot be reached: {error}")
        except (ValueError, struct.error):
            return Reading([], {}, problem=f"{self.url} answered something that is no log")


def _frames(content: bytes) -> list[tuple[int, bytes]]:
    out, at = [], 0
    while at < len(content):
        offset, length = _FRAME.unpack_from(content, at)
        at += _FRAME.size + length
        if at > len(content):
            raise ValueError("a block is cut off")
        out.append((offset, content[at - length : at]))
    return out


def _marks(text: str) -> dict[int, tuple[int, int]]:
    parts = [mark.split(":") for mark in text.split(",") if mark]
    return {int(channel, 16): (int(epoch), int(offset)) for channel, epoch, offset in parts}
