"""Append-only files of JSON lines in which every line contains the hash of the previous one.

The *head* of a chain, the number and hash of its last line, is stored in a small file next to it,
so that a truncated tail is also detected. Anyone who can write to both files can rewrite both:
detecting that takes a head recorded elsewhere, which is why services publish theirs.

A line is on the disk before :meth:`ChainedLines.append` returns. After a kill at any byte, a line
is either there or not: the next writer truncates a partial one and records that in a line of its
own. Several processes may write.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from deniable.errors import AuditLogError, ParameterError
from deniable.queries.times import iso_time
from deniable.service.files.database import storage_reason
from deniable.service.files.file_lock import lock_file, unlock_file

__all__ = [
    "DAMAGED",
    "REPAIRED",
    "START",
    "ChainVerdict",
    "ChainedLines",
    "Head",
    "check_lines",
    "line_hash",
    "verify_file",
]

SEPARATOR = b"deniable chain 1\0"
DAMAGED, REPAIRED = "log.damaged", "log.repaired"


class Head(NamedTuple):
    """The extent of a chain: the number and hash of its last line."""

    lines: int
    hash: str

    def __str__(self) -> str:
        return f"{self.lines}:{self.hash}"

    @classmethod
    def parse(cls, name: str, text: str) -> Head:
        """A head as it is printed."""
        number, _, digest = text.partition(":")
        if not (
            number.isascii()
            and number.isdecimal()
            and len(digest) == 64
            and set(digest) <= set("0123456789abcdef")
        ):
            raise ParameterError(
                name,
                text,
                "must be a line's number and its hash, NUMBER:HASH, as the service publishes it",
            )
        return cls(int(number), digest)


START = Head(0, hashlib.sha256(SEPARATOR).hexdigest())
"""The head of an empty chain."""


def line_hash(line: bytes) -> str:
    """The hash of a line, without its line end."""
    return hashlib.sha256(SEPARATOR + line).hexdigest()


@dataclass
class ChainVerdict:
    """The result of verifying a chain."""

    head: Head = START
    faults: list[str] = field(default_factory=list)
    """What was changed, removed or added, in order; empty if the chain verifies."""
    unfinished: int = 0
    """Bytes of a partial last line whose writer was killed. That is not a fault."""

    @property
    def verifies(self) -> bool:
        """Whether nothing was changed, removed or added, as far as can be known."""
        return not self.faults


def check_lines(
    lines: Iterable[bytes], after: Head = START, known: Iterable[Head] = ()
) -> ChainVerdict:
    """Verify lines that follow a head. `known` are heads recorded earlier: the lines they name must
    have those hashes."""
    verdict = ChainVerdict(after)
    noted = {head.lines: head.hash for head in known}
    for line in lines:
        fields = _fields_of(line)
        number, previous = verdict.head.lines + 1, verdict.head.hash
        if fields is None:
            verdict.faults.append(f"line {number} is not a line of this log")
        else:
            if fields["seq"] > number:
                verdict.faults.append(f"{_lines(number, fields['seq'] - 1)} missing")
            elif fields["seq"] < number:
                verdict.faults.append(f"line {fields['seq']} is where line {number} should be")
            elif fields["previous"] != previous:
                verdict.faults.append(
                    f"line {number - 1} was changed, or is not the one that line {number} was"
                    " written after"
                )
            number = max(number, fields["seq"])
        verdict.head = Head(number, line_hash(line))
        if noted.pop(number, verdict.head.hash) != verdict.head.hash:
            verdict.faults.append(f"line {number} is not the one whose hash was noted")
    missing = [number for number in sorted(noted) if number > after.lines]
    verdict.faults += [f"line {number}, whose hash was noted, is missing" for number in missing]
    return verdict


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"


def _fields_of(line: bytes) -> dict[str, Any] | None:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        return None
    good = (
        isinstance(fields, dict)
        and type(fields.get("seq")) is int
        and isinstance(fields.get("previous"), str)
    )
    return fields if good else None


def verify_file(path: str | os.PathLike[str], known: Iterable[Head] = ()) -> ChainVerdict:
    """Verify a log against the head stored next to it, and against heads recorded elsewhere."""
    path = Path(path)
    # read before the log, which may grow meanwhile: a head is never ahead of its log
    stored = _read_head(path)
    unfinished = 0

    def lines() -> Iterator[bytes]:
        nonlocal unfinished
        try:
            with path.open("rb") as file:
                for line in file:
                    if line.endswith(b"\n"):
                        yield line[:-1]
                    else:
                        unfinished = len(line)
        except FileNotFoundError:
            return
        except OSError as error:
            raise AuditLogError(f"{path} cannot be read: {error.strerror}") from None

    verdict = check_lines(lines(), known=[*known, *([stored.head] if stored else [])])
    verdict.unfinished = unfinished
    if stored is None and verdict.head.lines:
        verdict.faults.append(
            f"{_head_path(path).name} is missing or unreadable: whether the last lines are there is"
            " not known"
        )
    return verdict


class _Stored(NamedTuple):
    """The contents of the head file."""

    head: Head
    size: int
    """Bytes of the log up to the end of that line."""


def _head_path(path: Path) -> Path:
    return path.with_name(path.name + ".head")


def _read_head(path: Path) -> _Stored | None:
    try:
        fields = json.loads(_head_path(path).read_bytes())
        return _Stored(Head(int(fields["lines"]), str(fields["hash"])), int(fields["size"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


class ChainedLines:
    """One log, which may be open in several processes.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> log = ChainedLines(Path(folder.name) / "audit.jsonl", lambda: 0)
    >>> log.append({"event": "query.stopped", "subject": "query:commute"}).lines
    1
    >>> log.verify().faults
    []
    >>> log.close(), folder.cleanup()
    (None, None)
    """

    def __init__(
        self, path: str | os.PathLike[str], clock: Callable[[], int] | None = None
    ) -> None:
        self.path = Path(path)
        self._clock = clock or (lambda: int(time.time()))
        self._lock = threading.Lock()
        self._fd = -1
        self._looked_at: tuple[int, ...] = ()
        self._verdict = ChainVerdict()
        with self._held() as stored:
            self._write(stored, [])

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    @property
    def head(self) -> Head:
        """The head of the log as this process last wrote or read it."""
        stored = _read_head(self.path)
        return self._verdict.head if stored is None else stored.head

    def append(self, fields: Mapping[str, Any]) -> Head:
        """Write one line, with its number, its time and the hash of the previous line; returns the
        new head.

        It is on the disk when this returns. If it cannot be written, nothing changes, and an
        :class:`AuditLogError` says why.
        """
        with self._held() as stored:
            return self._write(stored, [fields])

    def verify(self) -> ChainVerdict:
        """Verify the whole log, unless nothing has touched it since the last time."""
        with self._held() as stored:
            self._write(stored, [])
            seen = self._state()
            if seen != self._looked_at:
                self._verdict, self._looked_at = verify_file(self.path), seen
            return self._verdict

    def _state(self) -> tuple[int, ...]:
        """A state that changes with every write to the log or its head."""
        found: list[int] = []
        for each in (self.path, _head_path(self.path)):
            with suppress(OSError):
                status = each.stat()
                found += [status.st_ino, status.st_size, status.st_mtime_ns]
        return tuple(found)

    @contextmanager
    def _held(self) -> Iterator[_Stored]:
        """Hold the write lock across all threads and processes; yields where the chain
        continues."""
        with self._lock:
            try:
                self._open()
                yield self._stored()
            except OSError as error:
                raise AuditLogError(
                    f"{self.path} cannot be written: {storage_reason(self.path, error)}"
                ) from None
            finally:
                if self._fd >= 0:
                    unlock_file(self._fd)

    def _stored(self) -> _Stored:
        """The contents of the head file. A new log has one before its first line: if it is missing,
        it was removed."""
        stored = _read_head(self.path)
        if stored is None:
            stored = _Stored(START, 0)
            if not os.fstat(self._fd).st_size:
                self._write_head(stored)
        return stored

    def _open(self) -> None:
        """Open and lock the file that currently has the log's name: the previous one may have been
        moved away."""
        while True:
            if self._fd < 0:
                self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            lock_file(self._fd)
            ours = os.fstat(self._fd)
            with suppress(FileNotFoundError):
                named = self.path.stat()
                if (named.st_ino, named.st_dev) == (ours.st_ino, ours.st_dev):
                    if ours.st_mode & 0o077:
                        os.fchmod(self._fd, 0o600)
                    return
            os.close(self._fd)
            self._fd = -1

    def _write(self, stored: _Stored, entries: list[Mapping[str, Any]]) -> Head:
        """Reconcile the log with its head, then write the lines."""
        untouched = self._state() == self._looked_at
        stored, found = self._mended(stored)
        notes = [*found, *entries]
        head, content = stored.head, b""
        now = iso_time(self._clock())
        for fields in notes:
            document = {"seq": head.lines + 1, "time": now, **fields, "previous": head.hash}
            line = json.dumps(document, separators=(",", ":")).encode()
            head = Head(head.lines + 1, line_hash(line))
            content += line + b"\n"
        if not content:
            return head
        size = os.fstat(self._fd).st_size
        # truncated inside a line: keep what is left of it
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            content = b"\n" + content
        try:
            _write_all(self._fd, content)
            os.fsync(self._fd)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, size)
            raise
        self._write_head(_Stored(head, size + len(content)))
        if untouched and not found:  # what we wrote ourselves need not be verified again
            self._verdict.head, self._looked_at = head, self._state()
        return head

    def _mended(self, stored: _Stored) -> tuple[_Stored, list[dict[str, Any]]]:
        """Where the chain continues, and the events to record about what was found at the end of
        the log."""
        size = os.fstat(self._fd).st_size
        if size == stored.size:
            return stored, []
        if size < stored.size:
            details = {
                "reason": f"the log has {size} bytes, and had {stored.size}",
                "lines": stored.head.lines,
            }
            return stored, [{"event": DAMAGED, "actor": "service", "details": details}]
        # The previous writer was killed between a line and its head, or inside a line; or the head
        # is gone.
        content = os.pread(self._fd, size - stored.size, stored.size)
        whole, _, rest = content.rpartition(b"\n")
        verdict = (
            check_lines(whole.split(b"\n"), stored.head) if whole else ChainVerdict(stored.head)
        )
        notes: list[dict[str, Any]] = []
        if not verdict.verifies or (stored.head == START and whole):
            reason = verdict.faults[0] if verdict.faults else "the head of the log is missing"
            notes.append({"event": DAMAGED, "actor": "service", "details": {"reason": reason}})
        if rest:
            os.ftruncate(self._fd, size - len(rest))
            notes.append(
                {"event": REPAIRED, "actor": "service", "details": {"dropped_bytes": len(rest)}}
            )
        mended = _Stored(verdict.head, size - len(rest))
        if not notes:
            self._write_head(mended)
        return mended, notes

    def _write_head(self, stored: _Stored) -> None:
        path = _head_path(self.path)
        half = path.with_name(f"{path.name}.new")
        text = json.dumps(
            {"lines": stored.head.lines, "hash": stored.head.hash, "size": stored.size}
        )
        fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            _write_all(fd, text.encode())
            os.fsync(fd)
        finally:
            os.close(fd)
        half.replace(path)


def _write_all(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]
