"""The parent's side of the sandbox's process: starts it, fills it, queries it, and ends it.

The process is a bare interpreter that loads six files of this package, with an empty environment,
no descriptors but its pipes, and nothing of the vault but what it is given.
"""

from __future__ import annotations

import json
import marshal
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.client.sandbox import answer as sandbox_answer
from deniable.client.sandbox import worker as sandbox_main
from deniable.client.sandbox.answer import SandboxAnswer
from deniable.errors import SandboxError
from deniable.queries.columns.bucket_index import NONE, PlainColumn
from deniable.sql.guard import REASONS, Cell, DisallowedSqlError, Epoch, Shape

__all__ = [
    "COPY_ROOM",
    "LARGEST_COPY",
    "TOO_LARGE",
    "Draw",
    "NoProcessError",
    "SandboxProcess",
    "SandboxTask",
    "StarvedError",
]

LARGEST_COPY = 256 << 20
"""The most bytes of granted data that are copied, as they are sent. More than that is answered for
as if the SQL had failed."""
TOO_LARGE = "what is granted is too large to be copied"
COPY_ROOM = 6 * LARGEST_COPY
"""Bytes of memory in which a copy is made: it is there twice while it is sorted, plus what sorting
needs. The same for all vaults, so that no limit tells what one holds; once the copy is made, its
process is bound to the copy and `max_memory`."""
_START_UP = sandbox_main.START_UP
_LEAST_STEP = 0.05  # seconds of sorting, so that each step gets somewhere
_LAST_BREATH = 1.0  # seconds between the end of a process's output and its own
_OUT_OF_TIME = [-getattr(signal, name) for name in ("SIGPROF", "SIGXCPU") if hasattr(signal, name)]
"""How a process ends that has used up its processor time."""
_KILLED = [-getattr(signal, name) for name in ("SIGKILL", "SIGALRM") if hasattr(signal, name)] or [
    1
]
# what an interpreter may need in order to start
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
# The packages' own __init__ would load everything: empty packages stand in, so only the named
# modules are loaded.
_BOOT = """
import sys, types
for name in ("deniable", "deniable.sql", "deniable.client", "deniable.queries"):
    package = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + name[len("deniable"):].replace(".", "/")]
    sys.modules[name] = package
from deniable.client.sandbox import worker as sandbox_main
sandbox_main.main()
"""
_PACKAGE = Path(__file__).parents[2]


class _Watchdog(threading.Thread):
    """Ends a process that is late. One thread for all its queries: starting one per query would
    cost more than most answers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        super().__init__(name="deniable sandbox watchdog", daemon=True)
        self._process = process
        self._changed = threading.Condition()
        self._ends: float | None = None
        # when the thread looks by itself; to wake it for each query would cost more than it does
        self._wakes = math.inf
        self._over = False
        self.start()

    def run(self) -> None:
        with self._changed:
            while not self._over:
                now = time.monotonic()
                if self._ends is not None and self._ends <= now:
                    self._process.kill()
                    self._ends = None
                self._wakes = math.inf if self._ends is None else self._ends
                self._changed.wait(None if self._ends is None else self._ends - now)

    def watch(self, seconds: float | None, over: bool = False) -> None:
        """Allow so many seconds from now on, or, with None, any number."""
        with self._changed:
            self._ends = None if seconds is None else time.monotonic() + seconds
            self._over = self._over or over
            if over or (self._ends is not None and self._ends < self._wakes):
                self._changed.notify()


@dataclass(frozen=True)
class SandboxTask:
    """An analyst's query, as much of it as the sandbox's process is given."""

    sql: str
    buckets: tuple[PlainColumn, ...] = field(repr=False)
    """:attr:`deniable.queries.buckets.Buckets.plain`."""
    rows: str
    most_rows: int
    ones: int
    memo: sandbox_answer.Memo | None = field(default=None, repr=False)
    """For memoized answers, where the permanent answers are, and what chooses among rows."""
    epoch: Epoch = (0, 0)
    """When the epoch begins and ends that is answered for."""

    @property
    def plan(self) -> sandbox_answer.Plan:
        """What decides how often coins are drawn, and how long the answer is."""
        return self.rows, self.most_rows, self.ones, self.memo

    def nothing(self) -> SandboxAnswer:
        """The answer of someone who has none."""
        return sandbox_answer.seated(self.plan, [])


Draw = Callable[[int, int], Sequence[int]]
"""Draws up to so many of n places, every choice equally likely: `draw(n, most)`."""


class StarvedError(DisallowedSqlError):
    """The process gave no answer in time by the wall clock, which says nothing of the query."""

    def __init__(self) -> None:
        super().__init__("deadline", "the sandbox's process gave no answer in time")


class NoProcessError(SandboxError):
    """The system did not start the process."""


class SandboxProcess:
    """One process, which ends with the first thing that breaks it.

    `alive` is then False, and the next query needs another process. `room` is the memory in which a
    copy can be made, 0 for a process that is given names only.
    """

    def __init__(self, room: int, max_memory: int) -> None:
        self.max_memory = max_memory
        self.shape: Shape | None = None
        self.fresh = True
        """Whether its limits were never lowered to those of something it held before."""
        self.small = True
        """Whether what it holds takes so little memory that its limits do not depend on it."""
        self.sent = 0
        """In how many bytes rows were sent to it."""
        self._sealed = self._sealing = False
        self.busy = 0.0
        self._buckets: tuple[PlainColumn, ...] | None = None
        command = [sys.executable, "-I", "-S", "-c", _BOOT, str(_PACKAGE)]
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        # queries go in through a pipe, so no process list shows them
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=pipe, stdout=pipe, stderr=nothing, env=environment, cwd=os.sep
            )
        except OSError as error:
            raise NoProcessError(
                f"the sandbox's process cannot be started: {error.strerror}"
            ) from None
        self._watchdog = _Watchdog(self._process)
        # SQLite's memory, then the interpreter's: the rows of a result, their JSON, and malloc's
        # fragmentation.
        space = 2 * max(room, sandbox_main.SMALL_COPY) + 4 * max_memory
        try:
            said = self._ask((room, max_memory, space), _START_UP)
        except DisallowedSqlError:
            raise NoProcessError(
                f"the sandbox's process did not start in {_START_UP:g} s"
            ) from None
        self.sqlite: str = said.get("sqlite", "")
        """The version of SQLite that runs the SQL."""
        self.walls: dict[str, bool] = said.get("walls", {})

    @property
    def alive(self) -> bool:
        """Whether it can still be queried. A process that has used most of its processor time
        counts as dead."""
        return self._process.poll() is None and self.busy < sandbox_main.SECONDS / 2

    def fits(self, max_memory: int) -> bool:
        """Whether it can be queried under this cap."""
        return self.alive and self.max_memory == max_memory

    @property
    def reusable(self) -> bool:
        """Whether it can hold something else under its limits, which are never raised."""
        return self.small and not self._sealing

    # --- the copy

    def begin(self, shape: Shape) -> None:
        """Name the tables that follow, replacing what it had before."""
        self.fresh = not self._sealed
        self.shape, self.sent = shape, 0
        with self._watched(_START_UP):
            self._tell(("shape", shape))

    def add(self, table: int, rows: list[Any]) -> int:
        """Send some rows of a table; returns in how many bytes."""
        with self._watched(_START_UP):
            size = self._tell(("rows", table, rows))
        self.sent += size
        if self.sent > LARGEST_COPY:
            self.close()
            raise DisallowedSqlError("memory", TOO_LARGE)
        return size

    def seal(self, seconds: float, most: float) -> bool:
        """Sort what was sent, or go on with it, for about so many seconds; whether it is done."""
        self._sealing = True
        said = self._ask(("seal", max(_LEAST_STEP, seconds)), most)
        self._sealing, self._sealed = said.get("sealed") is not True, True
        self.small = said.get("small") is True
        return not self._sealing

    # --- queries

    def compile(self, sql: str, deadline: float) -> int | None:
        """How many columns a query would return, if known; :class:`DisallowedSqlError` if it cannot
        be compiled."""
        said = self._query(("compile", sql, self.max_memory, deadline), deadline)
        count = said.get("n_columns")
        return count if isinstance(count, int) else None

    def query(
        self, sql: str, epoch: Epoch, deadline: float, max_rows: int
    ) -> tuple[tuple[str, ...], tuple[tuple[Cell, ...], ...]]:
        """The columns and rows of a query, or :class:`DisallowedSqlError`."""
        said = self._query(("query", sql, epoch, max_rows, self.max_memory, deadline), deadline)
        columns: Any = said.get("columns")
        rows: Any = said.get("rows")
        if not _is_table(columns, rows):
            raise self._broken()
        return tuple(columns), tuple(tuple(row) for row in rows)

    def answer(
        self, task: SandboxTask, draw: Draw, *, deadline: float, max_rows: int, seconds: float
    ) -> SandboxAnswer:
        """The answer: always as many buckets, some or all of them :data:`NONE`.

        It is over after so many seconds. `draw` draws up to so many of n places.
        """
        plan, n_buckets = task.plan, math.prod(column[1] for column in task.buckets)
        start = time.monotonic()
        with self._watched(seconds):
            if self._buckets is not task.buckets:
                self._tell(("buckets", task.buckets))
                self._buckets = task.buckets
            self._tell(("answer", plan, task.sql, task.epoch, max_rows, self.max_memory, deadline))
            for most in sandbox_answer.draws(plan):
                n = int.from_bytes(self._receive(sandbox_main.DRAW_BYTES), "little")
                if n > max(max_rows, n_buckets):
                    raise self._broken()
                self._tell(list(draw(n, most)))
            answer = sandbox_answer.unpacked(plan, self._receive(sandbox_answer.answer_size(plan)))
        self.busy += time.monotonic() - start
        seats = () if task.memo is None else task.memo[4]
        if not all(NONE <= number < n_buckets for number in answer.buckets):
            raise self._broken()
        if not all(seat < len(slot) for (seat, _), slot in zip(answer.seats, seats, strict=True)):
            raise self._broken()
        return answer

    def _query(self, order: tuple[Any, ...], deadline: float) -> dict[str, Any]:
        start = time.monotonic()
        try:
            said = self._ask(order, deadline + sandbox_main.GRACE + _START_UP)
        except DisallowedSqlError as error:
            error.detail = f"the query ran longer than its deadline of {deadline:g} s"
            raise
        finally:
            self.busy += time.monotonic() - start
        if "reason" not in said:
            return said
        if said["reason"] not in REASONS:
            raise self._broken()
        raise DisallowedSqlError(said["reason"], str(said.get("detail")))

    # --- the pipes

    def _broken(self) -> SandboxError:
        self.close()
        return SandboxError("the sandbox's process gave no answer")

    def _ask(self, order: tuple[Any, ...], seconds: float) -> dict[str, Any]:
        """Send an order and read the answer to it."""
        with self._watched(seconds):
            self._tell(order)
            said = json.loads(self._receive(None))
            if not isinstance(said, dict):
                raise ValueError("not an object")
            return said

    def _tell(self, order: Any) -> int:
        """Send an order; returns its size."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe
        body = marshal.dumps(order)
        sandbox_main.write_frame(self._process.stdin, body)
        return len(body)

    def _receive(self, size: int | None) -> bytes:
        """The next frame, of exactly this size if it is given."""
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: PT018, S101 - both are pipes
        self._process.stdin.flush()
        body = sandbox_main.read_frame(
            self._process.stdout, 8 * self.max_memory if size is None else size
        )
        if body is None or (size is not None and len(body) != size):
            raise ValueError("no frame of this size")
        return body

    @contextmanager
    def _watched(self, seconds: float) -> Iterator[None]:
        """Let the process work for so many seconds, then end it: RefusedError or StarvedError."""
        ends = time.monotonic() + seconds
        self._watchdog.watch(seconds)
        try:
            yield
            if time.monotonic() <= ends:
                return
        except (OSError, ValueError, RecursionError):  # a broken pipe, or not what was to be read
            pass
        except BaseException:  # half an order may have been sent, so the next one could be misread
            self.close()
            raise
        finally:
            self._watchdog.watch(None)
        late = time.monotonic() > ends
        code = self.close(patience=0.0 if late else _LAST_BREATH)
        if code == sandbox_main.NO_MEMORY:
            raise DisallowedSqlError("memory", TOO_LARGE)
        if code in _OUT_OF_TIME:
            raise DisallowedSqlError("deadline", "")
        if late or code in _KILLED:
            raise StarvedError
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
    """Whether this is a possible query result: the process may have been compromised by the query
    it ran."""
    if (
        not isinstance(columns, list)
        or not isinstance(rows, list)
        or not all(isinstance(name, str) for name in columns)
    ):
        return False
    return all(
        isinstance(row, list)
        and len(row) == len(columns)
        and all(cell is None or isinstance(cell, str | float) or _is_integer(cell) for cell in row)
        for row in rows
    )


def _is_integer(cell: Any) -> bool:
    return isinstance(cell, int) and not isinstance(cell, bool) and -(1 << 63) <= cell < 1 << 63
