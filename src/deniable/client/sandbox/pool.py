"""The sandbox's processes and the connections to the vaults, kept from one query to the next.

Each vault has a process that holds a copy of what is granted of it. One process for all vaults
holds names and no data: it says what compiles. The names are read over a separate connection with a
separate lock: a query that does not compile must be refused even while the copy for another query
is still being made, or what the device refuses would reveal how much is granted.

A copy is made for as long as the caller has time. What is unfinished then rests, and is continued
for the next query.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from time import monotonic
from typing import Generic, TypeVar

from deniable.client.sandbox.granted import (
    LONG_LOCK,
    SHORT_LOCK,
    GrantedSnapshot,
    VaultChangedError,
    VaultCopy,
    VaultReader,
    Version,
)
from deniable.client.sandbox.process import COPY_ROOM, TOO_LARGE, SandboxProcess, StarvedError
from deniable.sql.guard import DisallowedSqlError, Shape

__all__ = ["close_all", "compiled", "declarations", "sessions"]

_MOST_SESSIONS = 8
_MOST_VERDICTS = 256
_PATIENCE = 5.0  # seconds in which names are taken
_T = TypeVar("_T", bound="_Turn")


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

    @property
    def reader(self) -> VaultReader:
        """The connection to the vault."""
        assert self._reader is not None  # noqa: S101 - after turn_to
        return self._reader

    def snapshot(self, patience: float) -> AbstractContextManager[GrantedSnapshot]:
        """The vault as it is now."""
        return self.reader.snapshot(patience)

    def close(self) -> None:
        """Close the file."""
        if self._reader is not None:
            self._reader.close()
        self._reader = None

    def _forget(self) -> None:
        raise NotImplementedError


class Declaration(_Turn):
    """Reads what a vault's owner grants, when that may have changed."""

    _version: object = None
    _shape: Shape = ()

    def shape(self, patience: float) -> Shape:
        """What is granted now."""
        with self.snapshot(patience) as snapshot:
            if snapshot.version != self._version:
                self._shape, self._version = snapshot.shape(), snapshot.version
        return self._shape

    def _forget(self) -> None:
        self._version = None


class Session(_Turn):
    """The process that holds the copy of what is granted of a vault."""

    _process: SandboxProcess | None = None
    _loaded: Version | None = None  # the version of the vault that the process holds
    _too_large: Version | None = None
    _copying: VaultCopy | None = None
    _lock = SHORT_LOCK

    def process(
        self, max_memory: int, patience: float, until: float, ends: float
    ) -> SandboxProcess:
        """A process that holds what is granted now, if the copy is ready at `until`.

        Both are times of the monotonic clock. Waits `patience` seconds for an owner who is writing.
        """
        while True:
            try:
                with self.snapshot(patience) as snapshot:
                    version = snapshot.version
                    shape = None if self._is_begun(version, max_memory) else snapshot.shape()
                if shape is not None:  # outside of the snapshot, which keeps the owner from writing
                    copying = VaultCopy(self.reader, shape, version, self._lock)
                    self._begin(_prepared(self._process, shape, COPY_ROOM, max_memory), copying)
                if self._copying is not None:
                    self._copy(self._copying, patience, until, ends)
            except VaultChangedError:
                self._lock = min(2 * self._lock, LONG_LOCK)
                if monotonic() < until:
                    continue
                raise
            assert self._process is not None  # noqa: S101 - chosen above
            return self._process

    def _is_begun(self, version: Version, max_memory: int) -> bool:
        """Whether there is a process that holds this version of the vault, or is being given it."""
        if version == self._too_large:
            raise DisallowedSqlError("memory", TOO_LARGE)
        begun = self._loaded if self._copying is None else self._copying.version
        return self._process is not None and self._process.fits(max_memory) and begun == version

    def _begin(self, process: SandboxProcess, copying: VaultCopy) -> None:
        self._process, self._copying, self._loaded = process, None, None
        process.begin(copying.shape)
        self._copying = copying

    def _copy(self, copying: VaultCopy, patience: float, until: float, ends: float) -> None:
        """Copy what is left to be copied, as far as time allows."""
        process = self._process
        assert process is not None  # noqa: S101 - begun
        fresh, fits = process.fresh, True
        try:
            while not copying.advance(patience, until, process.add):
                if monotonic() > until:
                    raise _unfinished()
            if not process.seal(until - monotonic(), ends - monotonic()):
                raise _unfinished()
        except StarvedError:
            raise _unfinished() from None
        except DisallowedSqlError as refused:
            if refused.reason != "memory":
                raise
            fits = False
        if fits and (fresh or process.small):
            self._loaded, self._copying, self._lock = copying.version, None, SHORT_LOCK
            return
        process.close()
        self._copying = None
        if fresh:
            self._too_large = copying.version
            raise DisallowedSqlError("memory", TOO_LARGE)
        # Once more, in a process that has never held anything else.
        again = VaultCopy(self.reader, copying.shape, copying.version, self._lock)
        self._begin(SandboxProcess(COPY_ROOM, process.max_memory), again)
        self._copy(again, patience, until, ends)

    def close(self) -> None:
        """End the process and close the file."""
        if self._process is not None:
            self._process.close()
        self._process = None
        super().close()

    def _forget(self) -> None:
        self._loaded = self._too_large = self._copying = None


def _unfinished() -> DisallowedSqlError:
    return DisallowedSqlError(
        "deadline", "what is granted could not be copied in the time there was"
    )


def _prepared(
    process: SandboxProcess | None, shape: Shape, room: int, max_memory: int
) -> SandboxProcess:
    """The same process if it can be reused. Data no longer granted disappears with the process that
    held it."""
    if (
        process is not None
        and process.fits(max_memory)
        and process.reusable
        and process.shape == shape
    ):
        return process
    if process is not None:
        process.close()
    return SandboxProcess(room, max_memory)


class Compiler:
    """A process that is given the names of what is granted, and never a row. Its verdicts on
    queries are cached."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._process: SandboxProcess | None = None
        self._verdicts: OrderedDict[tuple[Shape, str, int], int | DisallowedSqlError | None] = (
            OrderedDict()
        )

    def verdict(self, shape: Shape, sql: str, deadline: float, max_memory: int) -> int | None:
        """How many columns the query returns, if known; RefusedError if it does not compile."""
        key = shape, sql, max_memory
        if key not in self._verdicts:
            process = self._ready(shape, max_memory)
            try:
                self._verdicts[key] = process.compile(sql, deadline)
            except DisallowedSqlError as refused:
                if refused.reason == "deadline":  # the machine may have been slow
                    raise
                self._verdicts[key] = refused
            if len(self._verdicts) > _MOST_VERDICTS:
                self._verdicts.popitem(last=False)
        verdict = self._verdicts[key]
        if isinstance(verdict, DisallowedSqlError):
            raise DisallowedSqlError(*verdict.args)
        return verdict

    def _ready(self, shape: Shape, max_memory: int) -> SandboxProcess:
        process = _prepared(self._process, shape, 0, max_memory)
        if process is not self._process:
            self._process = process
            process.begin(shape)
            process.seal(_PATIENCE, _PATIENCE)
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
        """The object of a vault, or the one that all vaults use in turn."""
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
    """How many columns the query returns on what is granted, if known; RefusedError if it does not
    compile."""
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
    # unclosed: they are not the child's to close
    _inherited.append((declarations, sessions, _compiler))
    declarations, sessions, _compiler = _Pool(Declaration), _Pool(Session), Compiler()


_inherited: list[object] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
