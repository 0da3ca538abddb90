"""The parent's side of the sandbox's process: starts it, sends it what is shared, queries it, and ends it when it is late.

The process is a bare interpreter that loads four files of this package, with an empty environment, no descriptors but its pipes,
and nothing of the vault but what it is given.
"""

from __future__ import annotations

import json
import marshal
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from deniable.client import sandbox_main
from deniable.errors import SandboxError
from deniable.sql.guard import REASONS, Cell, RefusedError, Shape

__all__ = ["LARGEST_COPY", "SandboxProcess"]

LARGEST_COPY = 256 << 20
"""The most bytes of shared data that are copied."""
_COPY_TIME = 60.0  # seconds
_START_UP = 5.0  # seconds a busy device may take to start the process or to wake it; not part of a query's deadline
_LAST_BREATH = 1.0  # seconds between the end of a process's output and its own
_ENDED_LATE = [-getattr(signal, name) for name in ("SIGALRM", "SIGXCPU", "SIGKILL") if hasattr(signal, name)] or [1]
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")  # what an interpreter may need in order to start
# The package's own __init__ would load everything: empty packages stand in, so only the named modules are loaded.
_BOOT = """
import sys, types
for name, path in zip(("deniable", "deniable.sql", "deniable.client"), sys.argv[1:]):
    package = types.ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package
from deniable.client import sandbox_main
sandbox_main.main()
"""
_HERE = Path(__file__).parent


class _Watchdog(threading.Thread):
    """Ends a process that is late. One thread for all its queries: starting one per query would cost more than most answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(name="deniable sandbox watchdog", daemon=True)
        self._process = process
        self._changed = threading.Condition()
        self._ends: float | None = None
        self._over = False
        self.start()

    def run(self) -> None:
        with self._changed:
            while not self._over:
                left = None if self._ends is None else self._ends - time.monotonic()
                if left is not None and left <= 0:
                    self._process.kill()
                    left = self._ends = None
                self._changed.wait(left)

    def watch(self, seconds: float | None, over: bool = False) -> None:
        """Allow so many seconds from now on, or, with None, any number."""
        with self._changed:
            self._ends = None if seconds is None else time.monotonic() + seconds
            self._over = self._over or over
            if over or seconds is not None:
                self._changed.notify()


class SandboxProcess:
    """One process. Anything that breaks it ends it: `alive` is then False, and the next query needs another process."""

    def __init__(self, room: int, max_memory: int) -> None:
        self.room, self.max_memory = room, max_memory
        self.shape: Shape | None = None
        self.busy = 0.0
        command = [sys.executable, "-I", "-S", "-c", _BOOT, str(_HERE.parent), str(_HERE.parent / "sql"), str(_HERE)]
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL  # queries go in through a pipe, so no process list shows them
        try:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nothing, env=environment, cwd=os.sep)  # noqa: S603
        except OSError as error:
            raise SandboxError(f"the sandbox's process cannot be started: {error.strerror}") from None
        self._watchdog = _Watchdog(self._process)
        # SQLite's memory, then the interpreter's: the rows of a result, their JSON, and malloc's fragmentation.
        try:
            said = self._ask([marshal.dumps((room + max_memory, 2 * room + 4 * max_memory))], _START_UP)
        except RefusedError:
            raise SandboxError(f"the sandbox's process did not start in {_START_UP:g} s") from None
        self.sqlite: str = said.get("sqlite", "")
        """The version of SQLite that runs the SQL."""
        self.walls: dict[str, bool] = said.get("walls", {})

    @property
    def alive(self) -> bool:
        """Whether it can still be queried. A process that has used most of its processor time counts as dead."""
        return self._process.poll() is None and self.busy < sandbox_main.SECONDS / 2

    def fits(self, max_memory: int) -> bool:
        """Whether it can be queried under this cap."""
        return self.alive and self.max_memory == max_memory

    def load(self, shape: Shape, tables: Sequence[Iterable[list[Any]]]) -> None:
        """Send it what is shared, the rows of each table in chunks, replacing what it had before."""

        too_large = RefusedError("memory", "what is shared is too large to be copied in the time and memory there are")

        def orders() -> Iterator[bytes]:
            left = LARGEST_COPY
            yield marshal.dumps(("shape", shape))
            for number, chunks in enumerate(tables):
                for rows in chunks:
                    order = marshal.dumps(("rows", number, rows))
                    left -= len(order)
                    if left < 0:
                        raise too_large
                    yield order
            yield marshal.dumps(("seal",))

        self.shape = shape
        try:
            self._ask(orders(), _COPY_TIME)
        except (RefusedError, SandboxError):
            raise too_large from None

    def compile(self, sql: str, deadline: float) -> int | None:
        """How many columns a query would return, if known; :class:`RefusedError` if it cannot be compiled."""
        said = self._query(("compile", sql, self.max_memory, deadline), deadline)
        count = said.get("n_columns")
        return count if isinstance(count, int) else None

    def query(self, sql: str, deadline: float, max_rows: int) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
        """The columns and rows of a query, or :class:`RefusedError`."""
        said = self._query(("query", sql, max_rows, self.max_memory, deadline), deadline)
        columns: Any = said.get("columns")
        rows: Any = said.get("rows")
        if not _is_table(columns, rows):
            raise self._broken()
        return tuple(columns), tuple(tuple(row) for row in rows)

    def _query(self, order: tuple[str | int | float, ...], deadline: float) -> dict[str, Any]:
        start = time.monotonic()
        try:
            said = self._ask([marshal.dumps(order)], deadline + sandbox_main.GRACE + _START_UP)
        except RefusedError:
            raise RefusedError("deadline", f"the query ran longer than its deadline of {deadline:g} s") from None
        finally:
            self.busy += time.monotonic() - start
        if "reason" not in said:
            return said
        if said["reason"] not in REASONS:
            raise self._broken()
        raise RefusedError(said["reason"], str(said.get("detail")))

    def _broken(self) -> SandboxError:
        self.close()
        return SandboxError("the sandbox's process gave no answer")

    def _ask(self, orders: Iterable[bytes], seconds: float) -> dict[str, Any]:
        """Send orders and read the single answer to them. RefusedError if it took too long, with or without the watchdog."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None  # noqa: PT018, S101 - both are pipes
        ends = time.monotonic() + seconds
        self._watchdog.watch(seconds)
        try:
            for order in orders:
                sandbox_main.write_frame(stdin, order)
            stdin.flush()
            body = sandbox_main.read_frame(stdout, 8 * self.max_memory)
            said = None if body is None else json.loads(body)
        except (OSError, ValueError, RecursionError):  # a broken pipe, or not JSON
            said = None
        except BaseException:  # half an order may have been sent, so the next one could be misread
            self.close()
            raise
        finally:
            self._watchdog.watch(None)
        late = time.monotonic() > ends
        if isinstance(said, dict) and not late:
            return said
        code = self.close(patience=0.0 if late else _LAST_BREATH)
        if late or code in _ENDED_LATE:
            raise RefusedError("deadline", "")
        raise SandboxError(f"the sandbox's process ended with code {code} and no answer")

    def close(self, patience: float = 0.0) -> int:
        """Kill it if it does not end by itself within so many seconds; returns its exit code."""
        self._watchdog.watch(None, over=True)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self._process.kill()  # no effect on one that has ended
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what could not be sent stays unsent
                if stream is not None:
                    stream.close()
        return self._process.wait()


def _is_table(columns: Any, rows: Any) -> bool:
    """Whether this is a possible query result: the process may have been compromised by the query it ran."""
    if not isinstance(columns, list) or not isinstance(rows, list) or not all(isinstance(name, str) for name in columns):
        return False
    return all(
        isinstance(row, list)
        and len(row) == len(columns)
        and all(cell is None or isinstance(cell, str | float) or _is_integer(cell) for cell in row)
        for row in rows
    )


def _is_integer(cell: Any) -> bool:
    return isinstance(cell, int) and not isinstance(cell, bool) and -(1 << 63) <= cell < 1 << 63
