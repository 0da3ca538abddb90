"""The spool: where shares wait, durably, between their acknowledgement and the flush that mixes them with others.

One file (a segment) for what waits of one channel and epoch. Shares stand in it in the order they came, without a word of who
sent them; after the flush the file is deleted. A segment starts with what its rows have in common; then, for each write, a
length, a CRC-32 and the rows. Each write is synced before the next, so a crash can only spoil the last one, of which nothing was
acknowledged: the next start cuts it off. Anything else that is wrong is damage, and stops the start.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import LogError
from deniable.queries.sizes import row_words

__all__ = ["Group", "Segment", "Spool"]

_Words = NDArray[np.uint64]
_MAGIC = b"dnspool1"
_HEADER = struct.Struct("<8sQII")
_RECORD = struct.Struct("<II")
_sync = getattr(os, "fdatasync", os.fsync)  # not every system has the cheaper one


class Group(NamedTuple):
    """What shares have in common that may be mixed with each other."""

    channel: int
    epoch: int
    size_class: int


class Segment:
    """A file of the spool that is being written."""

    def __init__(self, path: Path, number: int, group: Group) -> None:
        self.path, self.number, self.group = path, number, group
        fresh = not path.exists()
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        if fresh:
            self._write(_HEADER.pack(_MAGIC, *group))

    def _write(self, content: bytes) -> None:
        if os.write(self._file, content) != len(content):
            raise OSError(f"{self.path} took only a part of what was written: is the disk full?")

    def write(self, columns: _Words) -> None:
        """Write rows, and come back when they are on the disk."""
        rows = np.ascontiguousarray(columns, dtype="<u8").tobytes()
        self._write(_RECORD.pack(len(rows), zlib.crc32(rows)) + rows)
        _sync(self._file)

    def close(self) -> None:
        """Let go of the file, which stays."""
        os.close(self._file)


class Spool:
    """The folder of segments. One process uses it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._next = 1 + max((int(path.stem) for path in self._paths()), default=0)

    def _paths(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.spool") if path.stem.isdecimal())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:012d}.spool"

    def begin(self, group: Group) -> Segment:
        """A new segment. Its name is on the disk when this returns."""
        number, self._next = self._next, self._next + 1
        segment = Segment(self._path(number), number, group)
        self._sync_folder()
        return segment

    def remove(self, numbers: Iterable[int]) -> None:
        """Delete segments, for good: when this returns, a crash does not bring them back."""
        for number in numbers:
            self._path(number).unlink(missing_ok=True)
            self._next = max(self._next, number + 1)
        self._sync_folder()

    def recover(self) -> list[tuple[Segment, list[_Words]]]:
        """The segments that are there, ready to be written on, each with its rows."""
        found = []
        for path in self._paths():
            content = path.read_bytes()
            if len(content) < _HEADER.size:  # the crash came before its first line was written
                path.unlink()
                continue
            magic, *key = _HEADER.unpack_from(content)
            if magic != _MAGIC:
                raise LogError(f"{path} is no segment of a spool")
            group = Group(*key)
            rows, end = _read(path, content, group)
            with path.open("r+b") as file:
                file.truncate(end)
                os.fsync(file.fileno())
            found.append((Segment(path, int(path.stem), group), rows))
        return found

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read(path: Path, content: bytes, group: Group) -> tuple[list[_Words], int]:
    """The rows of a segment, and where the last whole record ends."""
    n_words = row_words(group.size_class)
    at, rows = _HEADER.size, []
    while at + _RECORD.size <= len(content):
        length, check = _RECORD.unpack_from(content, at)
        end = at + _RECORD.size + length
        part = content[at + _RECORD.size : end]
        if end > len(content) or zlib.crc32(part) != check:
            if end < len(content):
                raise LogError(
                    f"{path} is damaged at byte {at}: what follows was acknowledged, and cannot be told from the damage"
                )
            break
        rows.append(np.frombuffer(part, dtype="<u8").reshape(n_words, -1))
        at = end
    return rows, at
