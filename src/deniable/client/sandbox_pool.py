"""The sandbox's processes, kept from one query to the next.

Each vault has one that holds what is shared of it. One for all vaults holds names and no data: it says what compiles.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from deniable.client.granted import VaultReader
from deniable.client.guard import RefusedError, Shape
from deniable.client.sandbox_process import LARGEST_COPY, SandboxProcess

__all__ = ["Session", "close_all", "compiled", "session"]

_MOST_SESSIONS = 8
_MOST_VERDICTS = 256
_SMALLEST_ROOM = 2 << 20  # bytes
_COPIES = 6


def _room(size: int) -> int:
    """Bytes of memory for the copy of a vault of that size: it lies there twice while it is sorted, beside what sorts it.

    In powers of two, so that a vault that grows seldom needs another process.
    """
    return 1 << max(_SMALLEST_ROOM, _COPIES * min(size, LARGEST_COPY)).bit_length()


class Session:
    """A vault's reader, and the process that holds the copy of what is shared."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.retired = False
        self._reader: VaultReader | None = None
        self._process: SandboxProcess | None = None
        self._version: object = None  # of the vault as it was when its shape was read
        self._shape: Shape = ()
        self._loaded: object = None  # the version that the process holds

    def turn_to(self, path: Path) -> None:
        """Read this vault from now on."""
        if self._reader is not None and self._reader.path == path:
            return
        if self._reader is not None:
            self._reader.close()
        self._reader = VaultReader(path)
        self._version = self._loaded = None

    def shape(self, patience: float) -> Shape:
        """What is shared now."""
        assert self._reader is not None  # noqa: S101 - after turn_to
        with self._reader.snapshot(patience) as snapshot:
            if snapshot.version != self._version:
                self._shape, self._version = snapshot.shape(), snapshot.version
        return self._shape

    def process(self, patience: float, max_memory: int) -> SandboxProcess:
        """A process that holds what is shared now."""
        assert self._reader is not None  # noqa: S101 - after turn_to
        with self._reader.snapshot(patience) as snapshot:
            process = self._process
            if process is None or not process.fits(max_memory) or self._loaded != snapshot.version:
                self._loaded = None
                self._shape, self._version = snapshot.shape(), snapshot.version
                process = self._process = _prepared(process, self._shape, _room(snapshot.size()), max_memory)
                with ExitStack() as stack:
                    process.load(self._shape, [stack.enter_context(closing(rows)) for rows in snapshot.chunks(self._shape)])
                self._loaded = snapshot.version
            return process

    def close(self) -> None:
        """End the process and let go of the file."""
        if self._process is not None:
            self._process.close()
        if self._reader is not None:
            self._reader.close()
        self._process = self._reader = None


def _prepared(process: SandboxProcess | None, shape: Shape, room: int, max_memory: int) -> SandboxProcess:
    """The same process if it can be used again. What is shared no longer leaves with the process that held it."""
    if process is not None and process.fits(max_memory) and process.room >= room and process.shape == shape:
        return process
    if process is not None:
        process.close()
    return SandboxProcess(room, max_memory)


class Compiler:
    """A process that is given the names of what is shared, and never a row. What it said of a query is kept."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process: SandboxProcess | None = None
        self._verdicts: OrderedDict[tuple[Shape, str, int], int | RefusedError | None] = OrderedDict()

    def verdict(self, shape: Shape, sql: str, deadline: float, max_memory: int) -> int | None:
        """How many columns the query gives, if that is known; RefusedError if it does not compile."""
        key = shape, sql, max_memory
        if key not in self._verdicts:
            process = self._ready(shape, max_memory)
            try:
                self._verdicts[key] = process.compile(sql, deadline)
            except RefusedError as refused:
                if refused.reason == "deadline":  # that may have been the machine
                    raise
                self._verdicts[key] = refused
            if len(self._verdicts) > _MOST_VERDICTS:
                self._verdicts.popitem(last=False)
        verdict = self._verdicts[key]
        if isinstance(verdict, RefusedError):
            raise RefusedError(*verdict.args)
        return verdict

    def _ready(self, shape: Shape, max_memory: int) -> SandboxProcess:
        process = _prepared(self._process, shape, _room(0), max_memory)
        if process is not self._process:
            self._process = process
            process.load(shape, [() for _ in shape])
        return process

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.close()
        self._process = None


_lock = threading.Lock()
_sessions: OrderedDict[Path | None, Session] = OrderedDict()
_compiler = Compiler()


@contextmanager
def session(path: Path, isolated: bool) -> Iterator[Session]:
    """The session of a vault, or the one in which all vaults take turns. The least used ends when there are too many."""
    key = path if isolated else None
    oldest = None
    with _lock:
        found = _sessions.setdefault(key, Session())
        _sessions.move_to_end(key)
        if len(_sessions) > _MOST_SESSIONS:
            _, oldest = _sessions.popitem(last=False)
    if oldest is not None:
        with oldest.lock:
            oldest.retired = True
            oldest.close()
    with found.lock:
        found.turn_to(path)
        try:
            yield found
        finally:
            if found.retired:  # by somebody else, between our finding and locking it
                found.close()


def compiled(shape: Shape, sql: str, deadline: float, max_memory: int) -> int | None:
    """How many columns the query gives on what is shared, if that is known; RefusedError if it does not compile."""
    compiler = _compiler
    with compiler.lock:
        return compiler.verdict(shape, sql, deadline, max_memory)


@atexit.register
def close_all() -> None:
    """End all processes and let go of all files; whatever is asked next starts anew."""
    _compiler.close()
    while _sessions:
        _sessions.popitem()[1].close()


def _forget_all() -> None:
    """A forked child leaves its parent's processes and files alone."""
    global _lock, _sessions, _compiler
    _inherited.append((_sessions, _compiler))  # unclosed: they are not the child's to close
    _lock, _sessions, _compiler = threading.Lock(), OrderedDict(), Compiler()


_inherited: list[object] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
