"""What a vault's file looks like: marks, ordinary tables and columns, and which are granted.

No cell is read here. Both the owner's side (`vault.py`, `recording.py`) and the reader for analysts
(`granted.py`) use it.
"""

from __future__ import annotations

import sqlite3

from deniable.sql.guard import Shape, fold, quoted

__all__ = [
    "APPLICATION_ID",
    "DECLARATION",
    "TAKEN_PREFIXES",
    "columns_of",
    "grants",
    "row_number_of",
    "table_names",
]

APPLICATION_ID = 0x646E7676
"""Marks an SQLite file as a vault: `dnvv` in the file's header."""

DECLARATION = "deniable_shared"
"""The table inside the vault that records what the owner grants. It cannot itself be granted."""

TAKEN_PREFIXES = ("sqlite_", "pragma_", "deniable_")
_ROW_NUMBERS = ("rowid", "oid", "_rowid_")


def table_names(connection: sqlite3.Connection) -> list[str]:
    """The ordinary tables.

    A view or a virtual table has no root page, and would show the contents of other tables.
    """
    sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name"
    names = [row[0] for row in connection.execute(sql)]
    return [name for name in names if not fold(name).startswith(TAKEN_PREFIXES)]


def columns_of(connection: sqlite3.Connection, table: str) -> dict[str, str]:
    """The columns of a table with their affinities; not generated ones, which derive from others.

    The rules are those of https://sqlite.org/datatype3.html, section 3.1; ANY in a STRICT table
    keeps what it is given.
    """
    strict = any(
        row[5]
        for row in connection.execute(f"PRAGMA table_list({quoted(table)})")
        if row[0] == "main"
    )
    found = {}
    for _, name, declared, _, _, _, hidden in connection.execute(
        f"PRAGMA table_xinfo({quoted(table)})"
    ):
        if not hidden:
            found[name] = "BLOB" if strict and fold(declared) == "any" else _affinity(declared)
    return found


def _affinity(declared: str) -> str:
    kind = declared.upper()
    if "INT" in kind:
        return "INTEGER"
    if any(word in kind for word in ("CHAR", "CLOB", "TEXT")):
        return "TEXT"
    if "BLOB" in kind or not kind:
        return "BLOB"
    return "REAL" if any(word in kind for word in ("REAL", "FLOA", "DOUB")) else "NUMERIC"


def grants(connection: sqlite3.Connection) -> Shape:
    """What is granted, as long as it names an ordinary column of an ordinary table.

    Tables and columns are ordered by name: the order in which the owner created them is private.
    """
    declared = {
        (fold(table), fold(column))
        for table, column in connection.execute(f"SELECT * FROM {DECLARATION}")  # noqa: S608
    }
    shape = []
    for table in sorted(table_names(connection), key=fold):
        columns = sorted(columns_of(connection, table).items(), key=lambda column: fold(column[0]))
        granted = tuple(
            (name, affinity)
            for name, affinity in columns
            if name and (fold(table), fold(name)) in declared
        )
        if granted:
            shape.append((table, granted))
    return tuple(shape)


def row_number_of(connection: sqlite3.Connection, table: str) -> str | None:
    """A name for the table's row number; None if it has none, or if columns take all its names."""
    for schema, _, _, _, without_rowid, _ in connection.execute(
        f"PRAGMA table_list({quoted(table)})"
    ):
        if schema == "main" and without_rowid:
            return None
    own = {fold(row[1]) for row in connection.execute(f"PRAGMA table_xinfo({quoted(table)})")}
    return next((name for name in _ROW_NUMBERS if name not in own), None)
