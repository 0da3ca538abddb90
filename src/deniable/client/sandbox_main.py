"""What runs in the sandbox's process: it confines itself, takes a copy of what is shared, and answers queries on it.

It communicates over two pipes, in length-prefixed frames: orders come in as `marshal`, from the code that started this process;
answers go out as JSON, which is safe to read even from a compromised process. When its input ends, so does the process: it does
not outlive its parent by more than a query's deadline.
"""

from __future__ import annotations

import json
import marshal
import signal
import sqlite3
import sys
from typing import IO, Any

from deniable.sql import confinement, guard

__all__ = ["GRACE", "SECONDS", "main", "read_frame", "write_frame"]

GRACE = 0.2
"""Seconds past its deadline after which a query that cannot be interrupted is killed together with its process."""
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
    orders, answers = sys.stdin.buffer, sys.stdout.buffer

    def say(**what: Any) -> None:
        write_frame(answers, json.dumps(what, ensure_ascii=False).encode())
        answers.flush()

    heap, space = _order(orders) or sys.exit()
    with_limit = sqlite3.connect(":memory:")
    held = with_limit.execute(f"PRAGMA hard_heap_limit={heap}").fetchone() == (heap,)  # for the whole process, for good
    with_limit.close()
    say(sqlite=sqlite3.sqlite_version, walls={**confinement.confine(space, SECONDS), "heap": held})
    copy = guard.GrantedCopy(())
    while (given := _order(orders)) is not None:
        order, *arguments = given
        if order == "shape":
            copy.close()
            copy = guard.GrantedCopy(*arguments)
        elif order == "rows":
            copy.add(*arguments)
        elif order == "seal":
            copy.seal()
            say()
        else:
            say(**_answer(copy, order, arguments))


def _order(orders: IO[bytes]) -> Any:
    frame = read_frame(orders)
    return None if frame is None else marshal.loads(frame)  # noqa: S302 - from our parent process


def _answer(copy: guard.GrantedCopy, order: str, arguments: list[Any]) -> dict[str, Any]:
    """The answer to one order. The last argument of each order is the deadline."""
    _set_alarm(arguments[-1] + GRACE)
    try:
        if order == "compile":
            return {"n_columns": copy.compile(*arguments)}
        columns, rows = copy.query(*arguments)
        return {"columns": columns, "rows": rows}
    except guard.RefusedError as refused:
        return {"reason": refused.reason, "detail": refused.detail}
    finally:
        _set_alarm(0)


def _set_alarm(seconds: float) -> None:
    if sys.platform != "win32":  # on Windows only the other end of the pipe can end what cannot be interrupted
        signal.setitimer(signal.ITIMER_REAL, seconds)
