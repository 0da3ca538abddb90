"""What an app records in its owner's vault as things happen, and how long that is kept.

A recorded row has a time, in the column `recorded_at` (whole seconds since 1970 UTC), which decides
when it is deleted. How long and how many rows a table keeps is stored in the vault itself, so that
it applies to every program that records there.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deniable.checks import whole
from deniable.client.vaults.schema import columns_of, table_names
from deniable.errors import VaultError
from deniable.sql.guard import fold, quoted

__all__ = ["RECORDED_AT", "Keeping", "forget", "is_over", "keeping", "record", "set_keeping"]

RECORDED_AT = "recorded_at"
MOST_ROWS = 10_000
"""How many recorded rows a table keeps by default: as many as a query may read."""
_LONGEST_TEXT = 10_000
_TABLE = "deniable_keeping"
_KINDS = {bool: "INTEGER", int: "INTEGER", float: "REAL", str: "TEXT"}


@dataclass(frozen=True)
class Keeping:
    """How long and how many of a table's recorded rows are kept; the oldest go first."""

    age: int | None = None
    """Seconds; None means forever."""
    rows: int = MOST_ROWS


def keeping(connection: sqlite3.Connection, table: str) -> Keeping:
    """The retention of a table."""
    row = connection.execute(
        f"SELECT age, rows FROM {_TABLE} WHERE table_name = ?",  # noqa: S608
        (fold(table),),
    ).fetchone()
    return Keeping(*row) if row else Keeping()


def set_keeping(connection: sqlite3.Connection, table: str, given: Keeping) -> None:
    """Set the retention of a table."""
    if given.age is not None:
        whole("age", given.age, 1, 1 << 40)
    whole("rows", given.rows, 1, 1 << 24)
    connection.execute(
        f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?)",  # noqa: S608
        (fold(table), given.age, given.rows),
    )


def record(connection: sqlite3.Connection, table: str, values: Mapping[str, Any], now: int) -> None:
    """Add one row. Missing tables and columns are created; a value that is left out is NULL."""
    kinds = {column: _kind(column, value) for column, value in values.items()}
    name = next((each for each in table_names(connection) if fold(each) == fold(table)), None)
    if name is None:
        fields = ", ".join(f"{quoted(column)} {kind or 'TEXT'}" for column, kind in kinds.items())
        connection.execute(
            f"CREATE TABLE {quoted(table)} ({RECORDED_AT} INTEGER NOT NULL, {fields})"
        )
        connection.execute(
            f"CREATE INDEX {quoted(f'{table}_{RECORDED_AT}')} ON {quoted(table)} ({RECORDED_AT})"
        )
        name = table
    present = {fold(column): kind for column, kind in columns_of(connection, name).items()}
    if RECORDED_AT not in present:
        raise VaultError(f"table {name} was imported, not recorded: it has no column {RECORDED_AT}")
    for column, kind in kinds.items():
        known = present.get(fold(column))
        if known is None:
            connection.execute(
                f"ALTER TABLE {quoted(name)} ADD COLUMN {quoted(column)} {kind or 'TEXT'}"
            )
        elif kind is not None and kind != known and (kind, known) != ("INTEGER", "REAL"):
            raise VaultError(f"column {column!r} of {name} is {known}, and this value is {kind}")
    columns = ", ".join([RECORDED_AT, *map(quoted, values)])
    marks = ", ".join("?" * (len(values) + 1))
    connection.execute(
        f"INSERT INTO {quoted(name)} ({columns}) VALUES ({marks})",  # noqa: S608
        (now, *values.values()),
    )


def is_over(connection: sqlite3.Connection, table: str, now: int) -> bool:
    """Whether :func:`forget` would delete anything. Usually it would not, and nothing has to be
    written."""
    kept = keeping(connection, table)
    sql = f"SELECT count(*) > ?, min({RECORDED_AT}) FROM {quoted(table)}"  # noqa: S608 - quoted
    [(too_many, oldest)] = connection.execute(sql, (kept.rows,))
    return bool(too_many) or (
        kept.age is not None and oldest is not None and oldest <= now - kept.age
    )


def forget(connection: sqlite3.Connection, table: str, now: int) -> int:
    """Delete the recorded rows of a table that are too old or too many; returns how many."""
    kept = keeping(connection, table)
    n = 0
    if kept.age is not None:
        sql = f"DELETE FROM {quoted(table)} WHERE {RECORDED_AT} <= ?"  # noqa: S608 - quoted
        n += connection.execute(sql, (now - kept.age,)).rowcount
    oldest = (
        f"SELECT rowid FROM {quoted(table)} ORDER BY {RECORDED_AT} DESC, rowid DESC LIMIT -1"  # noqa: S608
        " OFFSET ?"
    )
    return (
        n
        + connection.execute(
            f"DELETE FROM {quoted(table)} WHERE rowid IN ({oldest})",  # noqa: S608
            (kept.rows,),
        ).rowcount
    )


def _kind(column: str, value: Any) -> str | None:
    """The kind of a value that a vault can store; None for no value. Errors never contain the
    value."""
    if value is None:
        return None
    kind = _KINDS.get(type(value))
    if kind is None:
        raise VaultError(
            f"column {column!r} is given a {type(value).__name__}: it must be a number, a text,"
            " true, false or None"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise VaultError(f"column {column!r} is given a number that is not finite")
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise VaultError(f"column {column!r} is given an integer of more than 64 bits")
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        raise VaultError(
            f"column {column!r} is given a text of {len(value):,} characters: at most"
            f" {_LONGEST_TEXT:,} are kept"
        )
    return kind
