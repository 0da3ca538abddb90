"""SQL: what devices would run is, in SQLite's own eyes, one SELECT that reads, with listed
functions, and changes nothing."""

from __future__ import annotations

import sqlite3

from deniable.errors import ForbiddenSqlError
from deniable.sql import compile_main, guard
from toolkit.attacks.sql_mutations import LISTED

WEIGHT, LONGEST = 1, 300
DICTIONARY = [
    b"SELECT ",
    b"WITH x AS (",
    b" FROM people",
    b"--",
    b"/*",
    b"*/",
    b";",
    b"'",
    b'"',
    b"`",
    b"[",
    b"]",
    b"\xef\xbb\xbf",
    b"EXPLAIN ",
]
DICTIONARY += [
    b"INSERT INTO ",
    b"DELETE FROM ",
    b"RETURNING ",
    b"PRAGMA ",
    b"ATTACH ",
    b"VALUES (1)",
    b"random()",
    b"x'00'",
    b"OVER ()",
    b"UNION ",
]
_READING = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}
_MEMORY = 32 << 20


def seeds() -> list[bytes]:
    extra = [
        b"\xef\xbb\xbf/* c */ -- d\nSELECT 1",
        b"WITH a AS (SELECT 1) DELETE FROM a",
        b"SELECT 1;",
        b"SELECT 1; SELECT 2",
        b"selecta",
    ]
    return [sql.encode() for sql in LISTED[:80] if len(sql) <= LONGEST] + extra


def check(data: bytes) -> None:
    sql = data.decode("utf-8", "surrogateescape")
    # what the confined process says, without its walls
    verdict = compile_main.verdict(sql, _MEMORY)
    if verdict["problem"]:
        raise ForbiddenSqlError(verdict["problem"])
    actions, columns, changes = _as_sqlite_sees_it(sql, dict(verdict["tables"]))
    assert sqlite3.SQLITE_SELECT in {action for action, _ in actions}
    for action, name in actions:
        assert action in _READING, f"accepted, and SQLite asks to allow action {action}"
        assert action != sqlite3.SQLITE_FUNCTION or name.lower() in {
            *guard.FUNCTIONS,
            *guard.CALENDAR,
        }, name
    assert changes == 0
    assert columns is None or verdict["n_columns"] in (
        None,
        columns,
    ), "another number of columns than the rules told"


def _as_sqlite_sees_it(
    sql: str, shape: dict[str, list[str]]
) -> tuple[list[tuple[int, str]], int | None, int]:
    """What a bare connection is asked to allow for the text, how many columns it gives, and how
    many rows it changed."""
    actions: list[tuple[int, str]] = []
    database = sqlite3.connect(":memory:", isolation_level=None)
    try:
        for table, names in shape.items():
            fields = ", ".join('"' + name.replace('"', '""') + '"' for name in names or ("x",))
            database.execute(f'CREATE TABLE "{table.replace(chr(34), chr(34) * 2)}" ({fields})')
        before = (
            database.total_changes,
            database.execute("SELECT count(*) FROM sqlite_master").fetchone(),
        )

        def note(action: int, first: str | None, second: str | None, *_: str | None) -> int:
            actions.append((action, (second if action == sqlite3.SQLITE_FUNCTION else first) or ""))
            return sqlite3.SQLITE_OK

        database.set_authorizer(note)
        steps = iter(range(200))
        database.set_progress_handler(lambda: next(steps, None) is None, 1000)
        try:
            cursor = database.execute(sql)
            columns = len(cursor.description)
            cursor.fetchmany(100)
            cursor.close()
        except (sqlite3.OperationalError, sqlite3.DataError):  # while it runs: it was compiled
            columns = None
        database.set_authorizer(None)
        database.set_progress_handler(None, 0)
        assert not database.in_transaction
        after = (
            database.total_changes,
            database.execute("SELECT count(*) FROM sqlite_master").fetchone(),
        )
        assert after[1] == before[1], "the text made or dropped a table"
        return actions, columns, after[0] - before[0]
    finally:
        database.close()
