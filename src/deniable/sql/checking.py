"""What a device would say about an analyst's SQL, before any receives it: the same rules, on empty
tables with the names it uses.

SQLite's compiler can be made to double its work with every few characters, so it never runs in a
process that has something else to do. Each text is compiled in a process of its own, which can open
nothing (:mod:`deniable.sql.confinement`) and has a limit of memory and of processor time. The clock
on the wall decides nothing: a busy machine changes no verdict.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from deniable.errors import SandboxError

__all__ = ["SqlVerdict", "check_sql"]

_MEMORY = 32 << 20
_SECONDS = 1.0
"""Memory and processor time, as a device allows by default."""
_PATIENCE = 60.0
"""Seconds by the clock after which a process that never got its processor time is ended, without a
verdict."""
_LARGEST_VERDICT = 1 << 20
# what an interpreter may need in order to start
_KEPT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT")
# The package's own __init__ would load everything: empty packages stand in, so only the named
# modules are loaded.
_BOOT = """
import sys, types
for name, path in zip(("deniable", "deniable.sql"), sys.argv[1:]):
    package = types.ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package
from deniable.sql import compile_main
compile_main.main()
"""
_HERE = Path(__file__).parent
_LATE = [-getattr(signal, name) for name in ("SIGPROF", "SIGXCPU") if hasattr(signal, name)]
_TOO_LONG = "the query takes too long to compile: its parts refer to each other too often"


class SqlVerdict(NamedTuple):
    """Why devices refuse the SQL (empty if they do not), how many columns it returns, and which
    names it needs to be granted."""

    problem: str
    n_columns: int | None
    names: dict[str, tuple[str, ...]]
    """The columns of each table."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables."""
        return tuple(self.names)


def check_sql(sql: str) -> SqlVerdict:
    """The verdict of devices that grant everything the SQL names. It is compiled in a confined
    process, and never run.

    Raises :class:`~deniable.errors.SandboxError` if that process gave no verdict.

    >>> check_sql("SELECT distance FROM trips")
    SqlVerdict(problem='', n_columns=1, names={'trips': ('distance',)})
    >>> check_sql("SELECT random() FROM trips").problem
    'the function random is not on the list of allowed functions'
    """
    code, said = _compiled(
        json.dumps({"sql": sql, "memory": _MEMORY, "seconds": _SECONDS}).encode()
    )
    if code in _LATE:
        return SqlVerdict(_TOO_LONG, None, {})
    try:
        found: Any = json.loads(said)
        problem, n_columns = str(found["problem"]), found["n_columns"]
        names = {str(table): tuple(map(str, columns)) for table, columns in found["tables"]}
    except (ValueError, KeyError, TypeError, RecursionError):
        raise SandboxError(
            f"the process that compiles the SQL gave no verdict (code {code})"
        ) from None
    return SqlVerdict(problem, n_columns if isinstance(n_columns, int) else None, names)


def _compiled(request: bytes) -> tuple[int, bytes]:
    """The exit code of the process, and what it said: never more than a verdict can have."""
    command = [sys.executable, "-I", "-S", "-c", _BOOT, str(_HERE.parent), str(_HERE)]
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter; the SQL goes in through a pipe
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, env=environment, cwd=os.sep
        )
    except OSError as error:
        raise SandboxError(
            f"the process that compiles the SQL cannot be started: {error.strerror}"
        ) from None
    assert process.stdin is not None  # noqa: S101 - both are pipes
    assert process.stdout is not None  # noqa: S101 - both are pipes
    impatience = threading.Timer(_PATIENCE, process.kill)
    impatience.start()
    try:
        with process.stdout:
            try:
                with process.stdin:
                    process.stdin.write(request)
            except OSError:  # it ended before it read everything: its code says why
                pass
            said = process.stdout.read(_LARGEST_VERDICT)
            if len(said) == _LARGEST_VERDICT:
                process.kill()
    finally:
        code = process.wait()
        impatience.cancel()
    return code, said
