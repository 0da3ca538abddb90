"""The spool: where shares wait durably between their acknowledgement and the flush that mixes them
with others.

There is one file (a segment) for the waiting shares of one channel and epoch. It holds them in
order of arrival, with nothing about who sent them, and is deleted after the flush.

    header    magic, channel, epoch, size class, 16 random bytes (the segment's key), digest of all that       64 bytes
    record    position in the file, length of the rows, keyed digest of both and of the rows                   32 bytes, rows
    seal      32 bytes that follow from the key, written once the record is on the disk

Each record is synced before it is sealed and the next one is written. So a crash can only spoil the
last record, which is unsealed and was not acknowledged: the next start truncates it. Any other
digest mismatch is damage to acknowledged shares. The proxy then refuses to start, and the file is
left as it is. Only someone who can read the file knows what a seal looks like, so no share can be
made to look like one.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import LogError
from deniable.wire.sizes import SIZE_CLASSES, row_words

__all__ = ["Group", "Segment", "Spool"]

_Words = NDArray[np.uint64]
_MAGIC = b"dnspool2"
_HEADER = struct.Struct("<8sQII16s24s")
_RECORD = struct.Struct("<QQ16s")
_SEAL_BYTES = 32
_OLD_MAGIC = b"dnspool1"
_OLD_HEADER = struct.Struct("<8sQII")
_OLD_RECORD = struct.Struct("<II")
_sync = getattr(os, "fdatasync", os.fsync)  # fdatasync is cheaper, but not every system has it


class Group(NamedTuple):
    """What shares must have in common to be mixed with each other."""

    channel: int
    epoch: int
    size_class: int


class _Checks:
    """The digests and seals of one segment, derived from its key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.seal = hashlib.blake2b(b"sealed", digest_size=_SEAL_BYTES, key=key).digest()

    def record(self, position: int, rows: bytes) -> bytes:
        """The header of a record at a position."""
        digest = hashlib.blake2b(
            struct.pack("<QQ", position, len(rows)), digest_size=16, key=self._key
        )
        digest.update(rows)
        return _RECORD.pack(position, len(rows), digest.digest())

    def sealed_after(self, content: bytes, at: int) -> bool:
        """Whether there is a seal, or part of one, anywhere after a position."""
        return any(content.find(self.seal[i : i + 8], at) >= 0 for i in range(0, _SEAL_BYTES, 8))


def _header(group: Group, key: bytes) -> bytes:
    fields = struct.pack("<8sQII16s", _MAGIC, *group, key)
    return fields + hashlib.blake2b(fields, digest_size=24).digest()


class Segment:
    """A spool file that is being written."""

    def __init__(self, path: Path, number: int, group: Group, key: bytes | None = None) -> None:
        """A new file, on the disk when this returns; or, given the key from its header, an existing
        one."""
        self.path, self.number, self.group = path, number, group
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        self._checks = _Checks(key or secrets.token_bytes(16))
        if key is None:
            self._write(_header(group, self._checks._key))
            os.fsync(self._file)

    def _write(self, content: bytes) -> None:
        if os.write(self._file, content) != len(content):
            raise OSError(f"{self.path} took only a part of what was written: is the disk full?")

    def write(self, columns: _Words) -> None:
        """Write rows, and return once they are on the disk."""
        rows = np.ascontiguousarray(columns, dtype="<u8").tobytes()
        self._write(self._checks.record(os.fstat(self._file).st_size, rows) + rows)
        _sync(self._file)
        self._write(self._checks.seal)

    def close(self) -> None:
        """Close the file without deleting it."""
        os.close(self._file)


class Spool:
    """The folder of segments, used by a single process."""

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
        """Delete segments permanently: once this returns, a crash does not bring them back."""
        for number in numbers:
            self._path(number).unlink(missing_ok=True)
            self._next = max(self._next, number + 1)
        self._sync_folder()

    def recover(self) -> list[tuple[Segment, list[_Words]]]:
        """The existing segments, ready for more rows, each with the rows it has."""
        found = []
        for path in self._paths():
            content = path.read_bytes()
            if content.startswith(_OLD_MAGIC):
                content = self._renewed(path, content)
            if _only_begun(content):
                path.unlink()
                continue
            magic, *group, key, _ = _HEADER.unpack_from(content.ljust(_HEADER.size, b"\0"))
            if magic != _MAGIC:
                raise LogError(f"{path} is not a spool segment")
            if content[: _HEADER.size] != _header(Group(*group), key):
                raise _damage(path, 0)
            rows, end, sealed = _read(path, content, Group(*group), _Checks(key))
            if not rows:  # the crash came before its first record was on the disk
                path.unlink()
                continue
            with path.open("r+b") as file:
                file.truncate(end)
                if not sealed:  # the crash came between the sync and the seal
                    file.seek(end)
                    file.write(_Checks(key).seal)
                    file.flush()
                os.fsync(file.fileno())
            found.append((Segment(path, int(path.stem), Group(*group), key), rows))
        return found

    def _renewed(self, path: Path, content: bytes) -> bytes:
        """A segment of the previous format, which had no checks on its header and lengths,
        rewritten in place."""
        group, rows = _read_old(path, content)
        fresh = path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        segment = Segment(fresh, int(path.stem), group)
        for columns in rows:
            segment.write(columns)
        segment.close()
        fresh.replace(path)
        self._sync_folder()
        return path.read_bytes()

    def _sync_folder(self) -> None:
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _only_begun(content: bytes) -> bool:
    """Whether a crash came before the header was on the disk, so that nothing in the file was
    acknowledged."""
    return (
        len(content) <= _HEADER.size
        and (_MAGIC.startswith(content[:8]) or not any(content))
        and not _is_whole(content)
    )


def _is_whole(content: bytes) -> bool:
    if len(content) < _HEADER.size:
        return False
    _, *group, key, _ = _HEADER.unpack_from(content)
    return content[: _HEADER.size] == _header(Group(*group), key)


def _damage(path: Path, at: int) -> LogError:
    detail = (
        "it holds shares that were acknowledged. Restore the file, or move it away to go on without"
        " them"
    )
    return LogError(f"{path} is damaged at byte {at}: {detail}")


def _read(
    path: Path, content: bytes, group: Group, checks: _Checks
) -> tuple[list[_Words], int, bool]:
    """The rows of a segment, where its last complete record ends, and whether that record is
    sealed."""
    n_words = row_words(group.size_class)
    at, rows, sealed = _HEADER.size, [], True
    while at < len(content):
        head = content[at : at + _RECORD.size]
        position, length, digest = (
            _RECORD.unpack(head) if len(head) == _RECORD.size else (-1, 0, b"")
        )
        part = content[at + _RECORD.size : at + _RECORD.size + length]
        if head != checks.record(at, part):
            # A record is followed by its seal, written once the record is on the disk. So bytes
            # after it mean that it was complete. A crash leaves nothing there, unless it left zeros
            # for the length, and then for the digest too.
            followed = position == at and any(digest) and len(content) > at + _RECORD.size + length
            if followed or checks.sealed_after(content, at):
                raise _damage(path, at)
            break
        rows.append(np.frombuffer(part, dtype="<u8").reshape(n_words, -1))
        at += _RECORD.size + length
        following = content[at : at + _SEAL_BYTES]
        # What follows a seal was written after it, so a seal that does not look like one is
        # harmless damage.
        sealed = following == checks.seal or len(content) > at + _SEAL_BYTES
        if not sealed:
            break
        at += _SEAL_BYTES
    return rows, at, sealed


def _read_old(path: Path, content: bytes) -> tuple[Group, list[_Words]]:
    """The group and rows of a segment of the previous format, as far as damage to it can be
    detected."""
    if len(content) < _OLD_HEADER.size:
        return Group(0, 0, 0), []
    group = Group(*_OLD_HEADER.unpack_from(content)[1:])
    if group.size_class not in SIZE_CLASSES:
        raise _damage(path, 0)
    n_words = row_words(group.size_class)
    at, rows = _OLD_HEADER.size, []
    while at + _OLD_RECORD.size <= len(content):
        length, check = _OLD_RECORD.unpack_from(content, at)
        start = at + _OLD_RECORD.size
        part = content[start : start + length]
        if not length or length % (8 * n_words):
            raise _damage(path, at)
        if len(part) < length or zlib.crc32(part) != check:
            # Truncated by a crash, unless more follows, or its check fits fewer rows than it
            # declares.
            if start + length < len(content) or _fits_some(content[start:], 8 * n_words, check):
                raise _damage(path, at)
            break
        rows.append(np.frombuffer(part, dtype="<u8").reshape(n_words, -1))
        at = start + length
    return group, rows


def _fits_some(content: bytes, step: int, check: int) -> bool:
    running = 0
    for end in range(step, len(content) + 1, step):
        running = zlib.crc32(content[end - step : end], running)
        if running == check:
            return True
    return False
