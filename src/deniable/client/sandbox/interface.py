"""Runs an analyst's SQL on what a person grants, in a process that has nothing else.

What the owner grants is copied, once and again after each change, into a separate process:
`granted.py` reads it, `guard.py` keeps it and runs the SQL, `process.py` and
`worker.py` are the two ends of the pipe between them, and `pool.py` keeps the
processes. What is not granted is not there to be read, counted, compared or inferred from an error,
and the process cannot open files or connections (`confinement.py`).

:func:`compiles` says whether a query compiles, in a process that is given only the names of what is
granted: the result depends on the query and on what is granted, never on data. :func:`answer` is
all that a device calls with an analyst's query: a granted copy and a query go in, the buckets of
the answer come out, always as many, at a time that was fixed before. :func:`run` returns the rows,
for the owner and for simulations; whether it fails may depend on the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import overload

from deniable.client.sandbox import pool as sandbox_pool
from deniable.client.sandbox.answer import SandboxAnswer
from deniable.client.sandbox.process import (
    Draw,
    NoProcessError,
    SandboxProcess,
    SandboxTask,
    StarvedError,
)
from deniable.client.vaults.vault import Vault
from deniable.errors import (
    BadSqlError,
    CellError,
    DeadlineError,
    ForbiddenSqlError,
    NotGrantedError,
    ParameterError,
    SandboxBusyError,
    SandboxError,
    TooComplexError,
    TooManyRowsError,
    TooMuchMemoryError,
    VaultError,
)
from deniable.sql import guard

__all__ = [
    "BUSY",
    "FAULTS",
    "Row",
    "SandboxAnswer",
    "SandboxRows",
    "SandboxTask",
    "answer",
    "check",
    "compiles",
    "granted",
    "run",
    "walls",
]

Row = tuple[guard.Cell, ...]

_ERRORS: dict[str, type[SandboxError]] = {
    "not shared": NotGrantedError,
    "forbidden": ForbiddenSqlError,
    "bad sql": BadSqlError,
    "complex": TooComplexError,
    "deadline": DeadlineError,
    "rows": TooManyRowsError,
    "memory": TooMuchMemoryError,
    "cell": CellError,
}
BUSY = "the device was too busy to read its data in time"
FAULTS: dict[type[Exception], str] = {
    StarvedError: BUSY,
    NoProcessError: "the sandbox's process did not start",
}
"""What keeps a device from reading its data through no fault of the query or of the data, in the
owner's words. Not among them: SQL that fails, a vault that its owner is writing, and a copy that is
too large or not finished. Those depend on what is in the vault, and a receipt does not."""
SMALLEST_MEMORY = 4 << 20
LONGEST_DEADLINE = 600.0
_COPY_TIME = 60.0  # seconds in which `run` waits for the copy
_SPARE = 0.3  # seconds by which a query may take longer than its processor time


@dataclass(frozen=True, repr=False)
class SandboxRows(Sequence[Row]):
    """The result of a query: a sequence of rows, all of them true answers. Its repr shows only
    their number."""

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
    vault: Vault,
    sql: str,
    *,
    deadline: float = 1.0,
    max_rows: int = 1_000,
    max_memory: int = 32 << 20,
    isolated: bool = True,
    epoch: guard.Epoch = (0, 0),
) -> SandboxRows:
    """The rows of one SELECT on what the owner grants; raises a
    :class:`~deniable.errors.SandboxError` that says why not.

    `deadline` is in seconds, for the query and for waiting for an owner who is writing. A process
    that exceeds it is killed. The first query, and one after a change of the vault, also waits up
    to 60 s for the copy. `max_memory` is in bytes, on top of what the copy takes. More than
    `max_rows` rows are refused, not truncated: a truncated answer would be wrong.

    `epoch` is what `:epoch_start` and `:epoch_end` stand for. Each vault has its own process, kept
    for the next query. With `isolated=False` all vaults take
    turns in one, for simulations, where one person may read thousands of vaults.

    >>> import tempfile, pathlib
    >>> folder = tempfile.TemporaryDirectory()
    >>> vault = Vault.create(pathlib.Path(folder.name) / "ann.db")
    >>> vault.import_rows("rides", {"city": "TEXT", "km": "REAL"}, [("Lyon", 3.5), ("Lyon", 1.0)])
    2
    >>> vault.grant("rides", ["km"])
    >>> rows = run(vault, "SELECT sum(km) FROM rides")
    >>> rows, rows[0]
    (<1 rows of 1 columns>, (4.5,))
    >>> run(vault, "SELECT km FROM rides WHERE city = 'Lyon'")
    Traceback (most recent call last):
    deniable.errors.NotGrantedError: city is not granted
    >>> folder.cleanup()
    """
    _check_caps(deadline, max_memory)
    if isinstance(max_rows, bool) or not isinstance(max_rows, int) or max_rows < 1:
        raise ParameterError("max_rows", max_rows, "must be an integer of at least 1")
    with _refusals(), sandbox_pool.sessions.turn(vault.path, isolated) as session:
        guard.check_text(sql)
        until = monotonic() + _COPY_TIME
        return SandboxRows(
            *session.process(max_memory, deadline, until, until + deadline).query(
                sql, epoch, deadline, max_rows
            )
        )


def answer(
    vault: Vault,
    task: SandboxTask,
    draw: Draw,
    *,
    within: float,
    deadline: float = 1.0,
    max_rows: int = 10_000,
    max_memory: int = 32 << 20,
    isolated: bool = True,
) -> SandboxAnswer:
    """The buckets of a person's answer: always `most_rows` or `ones` of them.

    Everything happens in the sandbox's process, and is over `within` seconds from now, whatever
    happened: SQL, choosing rows, finding their buckets and looking up permanent answers under one
    `deadline` of processor time and one limit on memory; before that, a vault that has changed is
    copied, or some more of it. No data, SQL that fails, too little time and a vault that cannot be
    read all look the same: all numbers are :data:`NONE`, or the answer of someone who has none is
    looked up. `draw` draws up to so many of n places.

    What was the device's own fault, such as too little time by the clock on the wall, is in the
    answer's `fault`: one of :data:`FAULTS`, for the owner.
    """
    _check_caps(deadline, max_memory)
    ends = monotonic() + within
    until = ends - deadline - _SPARE
    nothing = task.nothing()  # for everybody, so that it costs everybody the same
    try:
        with sandbox_pool.sessions.turn(vault.path, isolated) as session:
            guard.check_text(task.sql)
            process = session.process(max_memory, max(0.0, until - monotonic()), until, ends)
            left = ends - monotonic()
            return process.answer(task, draw, deadline=deadline, max_rows=max_rows, seconds=left)
    except (guard.DisallowedSqlError, SandboxError, VaultError) as error:
        return nothing._replace(fault=FAULTS.get(type(error), ""))


def granted(vault: Vault, *, patience: float = 1.0, isolated: bool = True) -> guard.Shape:
    """The names of the tables and columns that the owner grants, with the columns' affinities.

    Reading them waits `patience` seconds for an owner who is writing, and for no copy of the data,
    however large.
    """
    with sandbox_pool.declarations.turn(vault.path, isolated) as declaration:
        return declaration.shape(patience)


def compiles(
    shape: guard.Shape, sql: str, *, deadline: float = 1.0, max_memory: int = 32 << 20
) -> int | None:
    """How many columns a query returns on what is granted under these names, if that is known
    before it runs.

    Raises the :class:`~deniable.errors.SandboxError` of a query that cannot be compiled. No data
    are read: the query is compiled, once for all vaults that grant the same, in a process that is
    given names of tables and columns but no rows.
    """
    _check_caps(deadline, max_memory)
    with _refusals():
        guard.check_text(sql)
        return sandbox_pool.compiled(shape, sql, deadline, max_memory)


def check(
    vault: Vault,
    sql: str,
    *,
    deadline: float = 1.0,
    max_memory: int = 32 << 20,
    isolated: bool = True,
) -> int | None:
    """:func:`compiles` on what the owner grants now."""
    _check_caps(deadline, max_memory)
    with _refusals():
        guard.check_text(sql)
    return compiles(
        granted(vault, patience=deadline, isolated=isolated),
        sql,
        deadline=deadline,
        max_memory=max_memory,
    )


def walls() -> dict[str, bool]:
    """Which protections this platform puts around the process that runs the SQL, and which it
    lacks."""
    process = SandboxProcess(0, SMALLEST_MEMORY)
    process.close()
    return process.walls


def _check_caps(deadline: float, max_memory: int) -> None:
    if (
        isinstance(deadline, bool)
        or not isinstance(deadline, int | float)
        or not 0 < deadline <= LONGEST_DEADLINE
    ):
        raise ParameterError(
            "deadline",
            deadline,
            f"must be a number of seconds above 0 and at most {LONGEST_DEADLINE:g}",
        )
    if (
        isinstance(max_memory, bool)
        or not isinstance(max_memory, int)
        or max_memory < SMALLEST_MEMORY
    ):
        raise ParameterError(
            "max_memory", max_memory, f"must be an integer of at least {SMALLEST_MEMORY} bytes"
        )


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except StarvedError as starved:
        raise SandboxBusyError(starved.detail) from None
    except guard.DisallowedSqlError as refused:
        raise _ERRORS[refused.reason](refused.detail) from None
