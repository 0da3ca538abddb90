"""The sandbox's processes and the connections to the vaults, kept from one query to the next.

Each vault has a process that holds a copy of what is shared of it. One process for all vaults holds names and no data: it says
what compiles. The names are read over a separate connection with a separate lock: a query that does not compile must be refused
even while the copy for another query is still being made, or what the device refuses would reveal how much is shared.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from deniable.client.granted import Snapshot, VaultReader
from deniable.client.sandbox_process import LARGEST_COPY, SandboxProcess
from deniable.sql.guard import RefusedError, Shape

__all__ = ["close_all", "compiled", "declarations", "sessions"]

_MOST_SESSIONS = 8
_MOST_VERDICTS = 256
_SMALLEST_ROOM = 2 << 20  # bytes
_COPIES = 6
_T = TypeVar("_T", bound="_Turn")


def _room(size: int) -> int:
    """Bytes of memory for the copy of a vault of that size: it is there twice while it is sorted, plus what sorting needs.

    In powers of two, so that a growing vault rarely needs another process.
    """
    return 1 << max(_SMALLEST_ROOM, _COPIES * min(size, LARGEST_COPY)).bit_length()


class _Turn:
    """A connection to a vault, for one thread at a time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.retired = False
        self._reader: VaultReader | None = None

    def turn_to(self, path: Path) -> None:
        """Switch to this vault."""
        if self._reader is None or self._reader.path != path:
            if self._reader is not None:
                self._reader.close()
            self._reader = VaultReader(path)
            self._forget()

    def snapshot(self, patience: float) -> AbstractContextManager[Snapshot]:
        """The vault as it is now."""
        assert self._reader is not None  # noqa: S101 - after turn_to
        return self._reader.snapshot(patience)

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _forget(self) -> None:
        raise NotImplementedError


class Declaration(_Turn):
    """Reads what a vault's owner shares, when that may have changed."""

    _version: object = None
    _shape: Shape = ()

    def shape(self, patience: float) -> Shape:
        """What is shared now."""
        with self.snapshot(patience) as snapshot:
            if snapshot.version != self._version:
                self._shape, self._version = snapshot.shape(), snapshot.version
        return self._shape

    def _forget(self) -> None:
        self._version = None


class Session(_Turn):
    """The process that holds the copy of what is shared of a vault."""

    _process: SandboxProcess | None = None
    _loaded: object = None  # the version of the vault that the process holds

    def process(self, patience: float, max_memory: int) -> SandboxProcess:
        """A process that holds what is shared now."""
        with self.snapshot(patience) as snapshot:
            process = self._process
            if process is None or not process.fits(max_memory) or self._loaded != snapshot.version:
                self._loaded = None
                shape = snapshot.shape()
                process = self._process = _prepared(process, shape, _room(snapshot.size()), max_memory)
                with ExitStack() as stack:
                    process.load(shape, [stack.enter_context(closing(rows)) for rows in snapshot.chunks(shape)])
                self._loaded = snapshot.version
            return process

    def close(self) -> None:
        """End the process and close the file."""
        if self._process is not None:
            self._process.close()
        self._process = None
        super().close()

    def _forget(self) -> None:
        self._loaded = None


def _prepared(process: SandboxProcess | None, shape: Shape, room: int, max_memory: int) -> SandboxProcess:
    """The same process if it can be reused. Data no longer shared disappears with the process that held it."""
    if process is not None and process.fits(max_memory) and process.room >= room and process.shape == shape:
        return process
    if process is not None:
        process.close()
    return SandboxProcess(room, max_memory)


class Compiler:
    """A process that is given the names of what is shared, and never a row. Its verdicts on queries are cached."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process: SandboxProcess | None = None
        self._verdicts: OrderedDict[tuple[Shape, str, int], int | RefusedError | None] = OrderedDict()

    def verdict(self, shape: Shape, sql: str, deadline: float, max_memory: int) -> int | None:
        """How many columns the query returns, if known; RefusedError if it does not compile."""
        key = shape, sql, max_memory
        if key not in self._verdicts:
            process = self._ready(shape, max_memory)
            try:
                self._verdicts[key] = process.compile(sql, deadline)
            except RefusedError as refused:
                if refused.reason == "deadline":  # the machine may have been slow
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


class _Pool(Generic[_T]):
    """One object per vault. The least recently used is closed when there are too many."""

    def __init__(self, make: type[_T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self.kept: OrderedDict[Path | None, _T] = OrderedDict()

    @contextmanager
    def turn(self, path: Path, isolated: bool) -> Iterator[_T]:
        """The object of a vault, or the one that all vaults share in turn."""
        key = path if isolated else None
        oldest = None
        with self._lock:
            found = self.kept.setdefault(key, self._make())
            self.kept.move_to_end(key)
            if len(self.kept) > _MOST_SESSIONS:
                _, oldest = self.kept.popitem(last=False)
        if oldest is not None:
            with oldest.lock:
                oldest.retired = True
                oldest.close()
        with found.lock:
            found.turn_to(path)
            try:
                yield found
            finally:
                if found.retired:  # by another thread, between finding and locking it
                    found.close()

    def close(self) -> None:
        while self.kept:
            self.kept.popitem()[1].close()


declarations = _Pool(Declaration)
sessions = _Pool(Session)
_compiler = Compiler()


def compiled(shape: Shape, sql: str, deadline: float, max_memory: int) -> int | None:
    """How many columns the query returns on what is shared, if known; RefusedError if it does not compile."""
    compiler = _compiler
    with compiler.lock:
        return compiler.verdict(shape, sql, deadline, max_memory)


@atexit.register
def close_all() -> None:
    """End all processes and close all files; the next query starts them again."""
    for kept in (_compiler, declarations, sessions):
        kept.close()


def _forget_all() -> None:
    """A forked child leaves its parent's processes and files alone."""
    global declarations, sessions, _compiler
    _inherited.append((declarations, sessions, _compiler))  # unclosed: they are not the child's to close
    declarations, sessions, _compiler = _Pool(Declaration), _Pool(Session), Compiler()


_inherited: list[object] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
