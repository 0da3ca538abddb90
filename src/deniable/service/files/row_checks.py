"""Checksums over the rows of a table, maintained by triggers, which detect corrupted bytes in an
SQLite file.

SQLite checks the structure of its pages but not their contents: a failing disk can turn one count
into another. So each guarded table has a sum, modulo 2**62, of the hashes of its rows. A change
adds the hash of the new row and subtracts that of the old one in the same transaction;
:func:`damaged` recomputes the sum. This protects against accidents only: anyone who can write to
the file can make the sums fit.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from hashlib import blake2b

__all__ = ["damaged", "guard", "has_sums", "prepare", "unguard"]

_MODULUS = 1 << 62
"""Twice the largest value below it is still an SQLite integer."""
_SHORT = 64
"""Blobs of up to this many bytes are written out like text; longer ones are hashed as they are."""
_TABLE = (
    "CREATE TABLE row_checks (name TEXT PRIMARY KEY, columns TEXT NOT NULL, total INTEGER NOT NULL)"
    " WITHOUT ROWID"
)
_ADD, _TAKE = (
    f"+ row_check({{new}})) % {_MODULUS}",
    f"+ {_MODULUS} - row_check({{old}})) % {_MODULUS}",
)
_CHANGES = {"INSERT": (_ADD,), "DELETE": (_TAKE,), "UPDATE": (_ADD, _TAKE)}


def _row_check(*cells: object) -> int:
    # For every row that is written: `is` takes half as long as isinstance, and SQLite gives no
    # subclasses.
    written, blobs = list(cells), []
    for place, cell in enumerate(cells):
        if type(cell) is bytes and len(cell) > _SHORT:
            blobs.append(cell)
            written[place] = len(cell)
    digest = blake2b(repr(written).encode(errors="surrogatepass"), digest_size=8)
    for blob in blobs:
        digest.update(blob)
    return int.from_bytes(digest.digest(), "little") % _MODULUS


class _RowTotal:
    """The sum over many rows."""

    def __init__(self) -> None:
        self._total = 0

    def step(self, *cells: object) -> None:
        """Add one row."""
        self._total += _row_check(*cells)

    def finalize(self) -> int:
        """The result for SQLite."""
        return self._total % _MODULUS


def prepare(connection: sqlite3.Connection) -> None:
    """Allow a connection to change guarded tables; without this, SQLite refuses."""
    connection.create_function("row_check", -1, _row_check, deterministic=True)
    connection.create_aggregate("row_total", -1, _RowTotal)
    # otherwise a replaced row would not be subtracted
    connection.execute("PRAGMA recursive_triggers = ON")


def has_sums(connection: sqlite3.Connection) -> bool:
    """Whether a file has sums."""
    sql = "SELECT 1 FROM sqlite_master WHERE name = 'row_checks'"
    return connection.execute(sql).fetchone() is not None


def guard(connection: sqlite3.Connection, tables: Iterable[str]) -> None:
    """Add sums for those of these tables that exist, inside the caller's transaction; existing sums
    are kept."""
    if not has_sums(connection):
        connection.execute(_TABLE)
    known = dict(connection.execute("SELECT name, columns FROM row_checks"))
    triggers = {
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    }
    present = {
        name
        for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    }
    for table in present.intersection(tables):
        names = _columns(connection, table)
        columns = _written(names)
        if known.get(table) == columns and {f"{table}_{change}" for change in _CHANGES} <= triggers:
            continue
        old, new = (", ".join(f'{row}."{name}"' for name in names) for row in ("OLD", "NEW"))
        for change, steps in _CHANGES.items():
            sums = " ".join(
                f"UPDATE row_checks SET total = (total {step.format(old=old, new=new)} WHERE name ="  # noqa: S608 - ours
                f" '{table}';"
                for step in steps
            )
            connection.execute(f"DROP TRIGGER IF EXISTS {table}_{change}")
            connection.execute(
                f"CREATE TRIGGER {table}_{change} AFTER {change} ON {table} BEGIN {sums} END"
            )
        sql = (
            f"INSERT OR REPLACE INTO row_checks SELECT '{table}', ?, coalesce(row_total({columns}),"  # noqa: S608 - our own
            f" 0) FROM {table}"
        )
        connection.execute(sql, (columns,))


def _columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


def _written(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def unguard(connection: sqlite3.Connection) -> None:
    """Remove all sums, inside the caller's transaction, before tables are recreated."""
    if has_sums(connection):
        for (table,) in connection.execute("SELECT name FROM row_checks").fetchall():
            for change in _CHANGES:
                connection.execute(f"DROP TRIGGER IF EXISTS {table}_{change}")
        connection.execute("DROP TABLE row_checks")


def damaged(connection: sqlite3.Connection, tables: Iterable[str] | None = None) -> str | None:
    """The first guarded table whose rows do not match its sum or its indexes; None if there is
    none."""
    chosen = None if tables is None else set(tables)
    alone = not connection.in_transaction
    if alone:
        connection.execute("BEGIN")  # sums and rows from one snapshot
    try:
        for table, columns, total in connection.execute(
            "SELECT name, columns, total FROM row_checks"
        ).fetchall():
            if chosen is None or table in chosen:
                if columns != _written(_columns(connection, table)):
                    return str(table)
                (found,) = connection.execute(
                    f"SELECT row_total({columns}) FROM {table}"  # noqa: S608 - our own
                ).fetchone()
                # An index may differ from its table, and a row missing from the index would not be
                # found.
                (problem,) = connection.execute(f"PRAGMA integrity_check({table})").fetchone()
                if (found or 0) != total or problem != "ok":
                    return str(table)
        return None
    finally:
        if alone:
            connection.execute("COMMIT")
