"""What a device would say about an analyst's SQL, before any receives it: the same rules, on empty tables with the names it uses.

The rules are those of :mod:`deniable.client.guard`, a file that imports nothing of this package. It is loaded by itself, so that
an aggregator's process still contains none of the client code that reads a vault.
"""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

__all__ = ["SqlVerdict", "check_sql"]

_GUARD = Path(__file__).parents[1] / "client" / "guard.py"
_MEMORY = 1 << 24
_SECONDS = 0.5
_MOST_NAMES = 64
_MISSING = re.compile(r"no such (table|column): (.+?)(?: - .*)?$", re.DOTALL)


class SqlVerdict(NamedTuple):
    """Why devices refuse the SQL (empty if they do not), how many columns it returns, and which names it needs to be shared."""

    problem: str
    n_columns: int | None
    tables: tuple[str, ...]


@cache
def _guard() -> ModuleType:
    spec = importlib.util.spec_from_file_location("deniable_sql_guard", _GUARD)
    assert spec is not None  # noqa: S101 - the file is part of this package
    assert spec.loader is not None  # noqa: S101
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_sql(sql: str) -> SqlVerdict:
    """The verdict of devices that share everything the SQL names. It is compiled, never run.

    >>> check_sql("SELECT distance FROM trips")
    SqlVerdict(problem='', n_columns=1, tables=('trips',))
    >>> check_sql("SELECT random() FROM trips").problem
    'the function random is not on the list of allowed functions'
    """
    guard = _guard()
    shape: dict[str, dict[str, None]] = {}
    try:
        guard.check_text(sql)
        shape = _names(sql)
        tables = tuple(
            (table, tuple((column, "BLOB") for column in columns) or (("x", "BLOB"),)) for table, columns in shape.items()
        )
        copy = guard.GrantedCopy(tables)
        try:
            copy.seal()
            n_columns = copy.compile(sql, _MEMORY, _SECONDS)
        finally:
            copy.close()
    except guard.RefusedError as refused:
        return SqlVerdict(str(refused.detail), None, tuple(shape))
    return SqlVerdict("", n_columns, tuple(shape))


def _names(sql: str) -> dict[str, dict[str, None]]:
    """The tables and columns a statement names, found from what SQLite reports as missing when it explains it."""
    shape: dict[str, dict[str, None]] = {}
    for _ in range(_MOST_NAMES):
        database = sqlite3.connect(":memory:")
        try:
            for table, columns in shape.items():
                fields = ", ".join('"' + name.replace('"', '""') + '"' for name in columns or ("x",))
                database.execute(f'CREATE TABLE "{table.replace(chr(34), chr(34) * 2)}" ({fields})')
            database.execute("EXPLAIN " + sql).close()
        except (sqlite3.Error, sqlite3.Warning, UnicodeError) as error:
            missing = _MISSING.match(str(error))
            if missing is None or not _add(shape, missing[1], missing[2]):
                return shape
        else:
            return shape
        finally:
            database.close()
    return shape


def _add(shape: dict[str, dict[str, None]], kind: str, name: str) -> bool:
    """Add a missing name to the shape; False if that cannot help."""
    if kind == "table":
        if name in shape or "." in name or name.lower().startswith("sqlite_"):  # no owner's table can have such a name
            return False
        shape[name] = {}
        return True
    qualifier, _, column = name.rpartition(".")
    # A name without its table is added to the first that lacks it: in all of them it would be ambiguous.
    places = [columns for columns in shape.values() if column not in columns]
    if not places:
        return False
    for columns in places if qualifier else places[:1]:
        columns[column] = None
    return True
