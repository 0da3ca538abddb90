"""What runs in the process that compiles one text of SQL: it confines itself, compiles, and says
what it found.

The request comes in as JSON, the verdict goes out as JSON, and the process ends. It is loaded in a
bare interpreter, and imports nothing from this package but the rules and the walls.
"""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import sys
from typing import Any

from deniable.sql import confinement, guard

__all__ = ["main", "verdict"]

_MOST_NAMES = 64
_NO_DEADLINE = 3_600.0
"""Seconds by the clock, which must decide nothing here: the timer counts the process's own
processor time."""
_MISSING = re.compile(r"no such (table|column): (.+?)(?: - .*)?$", re.DOTALL)


def main() -> None:
    """Compile the SQL of one request."""
    request = json.loads(sys.stdin.buffer.read())
    memory, seconds = request["memory"], request["seconds"]
    with_limit = sqlite3.connect(":memory:")
    # for the whole process, for good
    with_limit.execute(f"PRAGMA hard_heap_limit={memory}").close()
    with_limit.close()
    confinement.confine(2 * memory, int(seconds) + 2)
    if sys.platform != "win32":
        signal.setitimer(signal.ITIMER_PROF, seconds)  # whatever takes longer ends with its process
    sys.stdout.buffer.write(json.dumps(verdict(request["sql"], memory)).encode())
    sys.stdout.buffer.flush()


def verdict(sql: str, memory: int) -> dict[str, Any]:
    """Why devices that grant everything the SQL names refuse it; its number of columns, and the
    names."""
    shape: dict[str, dict[str, None]] = {}
    problem, n_columns = "", None
    try:
        guard.check_text(sql)
        _find_names(sql, shape, memory)
        copy = guard.GrantedCopy(
            tuple(
                (table, tuple((column, "BLOB") for column in columns or ("x",)))
                for table, columns in shape.items()
            )
        )
        copy.seal()
        n_columns = copy.compile(sql, memory, _NO_DEADLINE)
    except guard.DisallowedSqlError as refused:
        problem = refused.detail
    tables = [(table, list(columns)) for table, columns in shape.items()]
    return {"problem": problem, "n_columns": n_columns, "tables": tables}


def _find_names(sql: str, shape: dict[str, dict[str, None]], memory: int) -> None:
    """Add the tables and columns that the SQL names, from what SQLite reports as missing when it
    explains it."""
    for _ in range(_MOST_NAMES):
        database = sqlite3.connect(":memory:")
        try:
            for table, columns in shape.items():
                fields = ", ".join(guard.quoted(name) for name in columns or ("x",))
                database.execute(f"CREATE TABLE {guard.quoted(table)} ({fields})")
            database.execute("EXPLAIN " + sql).close()
            return
        except MemoryError:
            raise guard.DisallowedSqlError("memory", guard.too_much(memory)) from None
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            missing = _MISSING.match(str(error))
            if missing is None or not _add(shape, missing[1], missing[2]):
                return  # what is wrong with it, the rules say
        finally:
            database.close()


def _add(shape: dict[str, dict[str, None]], kind: str, name: str) -> bool:
    """Add a missing name to the shape; False if that cannot help."""
    if kind == "table":
        # no owner's table can have such a name
        if name in shape or "." in name or name.lower().startswith("sqlite_"):
            return False
        shape[name] = {}
        return True
    qualifier, _, column = name.rpartition(".")
    # A name without its table is added to the first that lacks it: in all of them it would be
    # ambiguous.
    places = [columns for columns in shape.values() if column not in columns]
    if not places:
        return False
    for columns in places if qualifier else places[:1]:
        columns[column] = None
    return True
