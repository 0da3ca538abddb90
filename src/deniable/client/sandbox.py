"""Runs an analyst's SQL on a person's vault: only what the owner shares can be read, and nothing can be written.

Two walls. The inner one (`guard.py`, `sqltext.py`) is always there: an allow-list for tables, columns, functions and clauses,
limits on every size, a deadline, a row cap and a memory cap. The outer one is a process of its own, thrown away after one query,
which is the default: SQLite calls nobody back while it compiles a statement or sorts in memory, its hard heap limit holds
for a whole process and cannot be lifted again, and a flaw in SQLite itself stays in a process that has nothing else to lose.
It costs some tens of milliseconds, which a device that answers once per epoch does not notice and a simulated population does:
`isolated=False` keeps the inner wall alone, for SQL that you trust not to attack you.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

from deniable.client import guard, sqltext
from deniable.client.vault import Vault
from deniable.errors import (
    BadSqlError,
    CellError,
    DeadlineError,
    DeniableError,
    ForbiddenSqlError,
    NotSharedError,
    ParameterError,
    SandboxError,
    TooComplexError,
    TooManyRowsError,
    TooMuchMemoryError,
    VaultError,
)

__all__ = ["REASONS", "Row", "Rows", "run"]

Row = tuple[guard.Cell, ...]

REASONS: dict[str, type[DeniableError]] = {
    "not shared": NotSharedError,
    "forbidden": ForbiddenSqlError,
    "bad sql": BadSqlError,
    "complex": TooComplexError,
    "deadline": DeadlineError,
    "rows": TooManyRowsError,
    "memory": TooMuchMemoryError,
    "cell": CellError,
    "vault": VaultError,
}
SMALLEST_MEMORY = 4 << 20
LONGEST_DEADLINE = 600.0
_START_UP = 2.0  # seconds a busy device may take to start the process; not part of the query's own deadline


@dataclass(frozen=True, repr=False)
class Rows(Sequence[Row]):
    """What a query gave: a sequence of rows, true answers all of them. Printed, it shows their number and nothing else."""

    columns: tuple[str, ...]
    _rows: tuple[Row, ...]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        return self._rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self._rows)} rows of {len(self.columns)} columns>"


def run(
    vault: Vault, sql: str, *, deadline: float = 1.0, max_rows: int = 1_000, max_memory: int = 32 << 20, isolated: bool = True
) -> Rows:
    """The rows of one SELECT on what the owner shares; raises a :class:`~deniable.errors.SandboxError` that says why not.

    `deadline` is in seconds, `max_memory` in bytes on top of what the process holds. More than `max_rows` rows are refused,
    not cut: a cut answer would be a wrong one. Without isolation a single instruction that sorts may end late,
    by a tenth of a second for each 32 MiB of `max_memory`.

    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> vault = Vault.create(pathlib.Path(folder.name) / "ann.db")
    >>> vault.import_rows("rides", {"city": "TEXT", "km": "REAL"}, [("Lyon", 3.5), ("Lyon", 1.0)])
    2
    >>> vault.share("rides", ["km"])
    >>> rows = run(vault, "SELECT sum(km) FROM rides", isolated=False)
    >>> rows, rows[0]
    (<1 rows of 1 columns>, (4.5,))
    >>> run(vault, "SELECT km FROM rides WHERE city = 'Lyon'", isolated=False)
    Traceback (most recent call last):
    deniable.errors.NotSharedError: rides.city is not shared
    >>> folder.cleanup()
    """
    if isinstance(deadline, bool) or not isinstance(deadline, int | float) or not 0 < deadline <= LONGEST_DEADLINE:
        raise ParameterError("deadline", deadline, f"must be a number of seconds above 0 and at most {LONGEST_DEADLINE:g}")
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise ParameterError("max_rows", max_rows, "must be an integer of at least 1")
    if isinstance(max_memory, bool) or not isinstance(max_memory, int) or max_memory < SMALLEST_MEMORY:
        raise ParameterError("max_memory", max_memory, f"must be an integer of at least {SMALLEST_MEMORY} bytes")
    task: dict[str, Any] = {"uri": vault.uri, "sql": sql, "deadline": deadline, "max_rows": max_rows, "max_memory": max_memory}
    try:
        sqltext.check(sql)
        columns, rows = _in_a_process(task) if isolated else guard.query(**task)
    except guard.RefusedError as refused:
        raise REASONS[refused.reason](refused.detail) from None
    return Rows(tuple(columns), tuple(rows))


def _in_a_process(task: dict[str, Any]) -> tuple[list[str], list[Row]]:
    """The same query in an interpreter of its own, which loads `guard.py` and nothing else of this package."""
    command = [sys.executable, "-I", "-S", guard.__file__]
    try:
        done = subprocess.run(  # noqa: S603 - our own file; the SQL goes in by standard input, where no process list shows it
            command,
            input=json.dumps(task),
            capture_output=True,
            encoding="utf-8",
            timeout=task["deadline"] + _START_UP,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _late(task) from None
    if done.returncode in (-getattr(signal, "SIGXCPU", math.inf), -getattr(signal, "SIGKILL", math.inf)):
        raise _late(task)
    if done.returncode:
        raise SandboxError(f"the query's process ended with code {done.returncode} and no answer")
    answer = json.loads(done.stdout)
    if "reason" in answer:
        raise guard.RefusedError(answer["reason"], answer["detail"])
    return answer["columns"], [tuple(row) for row in answer["rows"]]


def _late(task: dict[str, Any]) -> guard.RefusedError:
    return guard.RefusedError("deadline", f"the query ran longer than its deadline of {task['deadline']:g} s")
