"""What runs in the sandbox's process: it confines itself, takes a copy, and answers queries.

It communicates over two pipes, in length-prefixed frames: orders come in as `marshal`, from the
code that started this process. What goes out is safe to read even from a compromised process:
answers as frames of a size that the query fixes (`answer.py`), everything else as JSON.
When its input ends, so does the process: it does not outlive its parent by more than a query's
deadline and a few seconds.
"""

from __future__ import annotations

import json
import marshal
import signal
import sqlite3
import sys
from collections.abc import Callable
from time import monotonic
from typing import IO, Any

from deniable.client.sandbox import answer as sandbox_answer
from deniable.queries.columns.bucket_index import BucketIndex
from deniable.sql import confinement, guard

__all__ = [
    "DRAW_BYTES",
    "GRACE",
    "NO_MEMORY",
    "SECONDS",
    "SMALL_COPY",
    "START_UP",
    "main",
    "read_frame",
    "write_frame",
]

GRACE = 0.2
"""Seconds of processor time past its deadline after which a query that cannot be interrupted is
killed with its process."""
START_UP = 5.0
"""Seconds a busy device may take to start the process or to wake it; not part of a query's
deadline."""
SMALL_COPY = 4 << 20
"""Bytes of memory that a copy may take before it is weighed: up to here all processes have the same
limits."""
NO_MEMORY = 12
"""The exit code of a process in which a copy finds no room."""
DRAW_BYTES = 8
"""The size of a request for a draw: the number of places to draw from."""
SECONDS = 1_800
"""Total processor time of one process. It is replaced before reaching that."""
_LENGTH = 8


def read_frame(stream: IO[bytes], largest: int | None = None) -> bytes | None:
    """The next frame; None at the end of the stream, or if the frame is truncated or too large."""
    head = stream.read(_LENGTH)
    length = int.from_bytes(head, "little")
    if len(head) < _LENGTH or (largest is not None and length > largest):
        return None
    body = stream.read(length)
    return body if len(body) == length else None


def write_frame(stream: IO[bytes], body: bytes) -> None:
    """Send a frame."""
    stream.write(len(body).to_bytes(_LENGTH, "little"))
    stream.write(body)


def main() -> None:
    """Serve orders until there are no more."""
    worker = _Worker(sys.stdin.buffer, sys.stdout.buffer)
    serve: dict[str, Callable[..., None]] = {
        **{"shape": worker.shape, "rows": worker.rows, "seal": worker.seal},
        **{
            "compile": worker.compile,
            "query": worker.query,
            "buckets": worker.buckets,
            "answer": worker.answer,
        },
    }
    while (given := worker.order()) is not None:
        name, *arguments = given
        try:
            serve[name](*arguments)
        except MemoryError:
            sys.exit(NO_MEMORY)


class _Worker:
    """What this process holds, and one method for each order."""

    def __init__(self, orders: IO[bytes], answers: IO[bytes]) -> None:
        self._orders, self._answers = orders, answers
        room, self._max_memory, space = self.order() or sys.exit()
        self._heap = sqlite3.connect(":memory:")
        held = self._limit_heap(room)
        self._say(
            sqlite=sqlite3.sqlite_version,
            walls={**confinement.confine(space, SECONDS), "heap": held},
        )
        self._copy = guard.GrantedCopy(())
        self._index = BucketIndex(())

    def order(self) -> Any:
        """The next order; None if there are no more."""
        frame = read_frame(self._orders)
        return None if frame is None else marshal.loads(frame)  # noqa: S302 - from our parent process

    def _say(self, **what: Any) -> None:
        self._send(json.dumps(what, ensure_ascii=False).encode())

    def _send(self, body: bytes) -> None:
        write_frame(self._answers, body)
        self._answers.flush()

    def _limit_heap(self, copy_bytes: int) -> bool:
        """Leave SQLite `max_memory` beside a copy of this size. The limit cannot be raised
        again."""
        limit = max(copy_bytes, SMALL_COPY) + self._max_memory
        return bool(self._heap.execute(f"PRAGMA hard_heap_limit={limit}").fetchone() == (limit,))

    # --- the copy

    def shape(self, shape: guard.Shape) -> None:
        """Forget what was copied, and expect rows of these tables."""
        self._copy.close()
        self._copy = guard.GrantedCopy(shape)

    def rows(self, table: int, rows: list[Any]) -> None:
        """Take some rows."""
        self._copy.add(table, rows)

    def seal(self, seconds: float) -> None:
        """Sort the rows. When the seconds are over, say so, and wait for another order."""
        ends = monotonic() + seconds

        def pause() -> int:
            nonlocal ends
            if monotonic() < ends:
                return 0
            self._say(sealed=False)
            more = self.order()
            ends = monotonic() + (0.0 if more is None else more[1])
            return int(more is None)

        size = self._copy.seal(pause)
        self._limit_heap(size)
        self._say(sealed=True, small=size <= SMALL_COPY)

    # --- queries: the last argument is the deadline

    def compile(self, *arguments: Any) -> None:
        """Say how many columns a query returns, or why it cannot be compiled."""
        self._in_time(lambda: {"n_columns": self._copy.compile(*arguments)}, arguments[-1])

    def query(self, *arguments: Any) -> None:
        """Say what a query returns, or why it does not: for the owner, not for an analyst."""
        self._in_time(
            lambda: dict(zip(("columns", "rows"), self._copy.query(*arguments), strict=True)),
            arguments[-1],
        )

    def _in_time(self, work: Callable[[], dict[str, Any]], deadline: float) -> None:
        _set_alarm(deadline + GRACE)
        try:
            said = work()
        except guard.DisallowedSqlError as refused:
            said = {"reason": refused.reason, "detail": refused.detail}
        _set_alarm(0)
        self._say(**said)

    def buckets(self, columns: Any) -> None:
        """Take the buckets of the queries that follow."""
        self._index = BucketIndex(columns)

    def answer(self, plan: sandbox_answer.Plan, *arguments: Any) -> None:
        """Answer a query: draws, then one answer, whose number and size follow from the query."""
        left = len(sandbox_answer.draws(plan))

        def draw(n: int) -> list[int]:
            nonlocal left
            left -= 1
            self._send(n.to_bytes(DRAW_BYTES, "little"))
            places: list[int] = self.order()
            return places

        _set_alarm(arguments[-1] + GRACE)
        try:
            columns, rows = self._copy.query(*arguments)
            fits = len(columns) == len(self._index.columns)
            found = sandbox_answer.found(self._copy, self._index, plan, rows, draw) if fits else []
        except Exception:  # whatever it was, it may be due to the data
            found = []
        while left:
            draw(0)
        answer = sandbox_answer.seated(plan, found)
        _set_alarm(0)
        self._send(sandbox_answer.packed(answer))


def _set_alarm(seconds: float) -> None:
    """End this process after so many seconds of its processor time, and some time later anyway.

    The second timer is for a process that nobody watches any more: its parent has ended, and the
    machine is busy.
    """
    # on Windows only the other end of the pipe can end what cannot be interrupted
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, seconds and seconds + START_UP)
