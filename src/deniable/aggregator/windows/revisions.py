"""The results of windows in a state file, each with its revisions."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

__all__ = ["NOT_REVISED", "Revision", "Revisions"]

NOT_REVISED = (
    "NOT EXISTS (SELECT 1 FROM results AS newer WHERE newer.query = results.query AND newer.number"
    " = results.number AND newer.revision > results.revision)"
)
"""The SQL condition for the newest revision of a window."""


class Revision(NamedTuple):
    """Which result of a window it is, whether it is the last, its number of answers, and when it
    was made."""

    number: int
    final: bool
    n: int
    made: int


class Revisions:
    """The results that a state holds; they are added inside a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def add(
        self, query: str, window: int, start: int, condition: str, document: str, revision: Revision
    ) -> None:
        """Store a result of a window."""
        self._connection.execute(
            "INSERT INTO results (query, number, start, condition, document, revision, final, n,"
            " made) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (query, window, start, condition, document, *revision),
        )

    def last(self, query: str, window: int) -> Revision | None:
        """The newest result of a window, if there is one."""
        row = self._connection.execute(
            "SELECT revision, final, n, made FROM results WHERE query = ? AND number = ? ORDER BY"
            " revision DESC LIMIT 1",
            (query, window),
        ).fetchone()
        return None if row is None else Revision(row[0], bool(row[1]), *row[2:])

    def document(self, query: str, window: int, revision: int) -> str:
        """A stored result of a window, as it was released."""
        (document,) = self._connection.execute(
            "SELECT document FROM results WHERE query = ? AND number = ? AND revision = ?",
            (query, window, revision),
        ).fetchone()
        return str(document)

    def before(self, query: str, window: int) -> tuple[int, list[Revision]]:
        """The last revised window before a given one that is final, and all its results, first to
        final; no results if there is no such window.
        """
        rows = self._connection.execute(
            "SELECT number, revision, final, n, made FROM results WHERE query = ?1 AND number ="
            " (SELECT max(number) FROM results WHERE query = ?1 AND number < ?2 AND final AND"
            " revision > 0) ORDER BY revision",
            (query, window),
        ).fetchall()
        return rows[0][0] if rows else 0, [Revision(row[1], bool(row[2]), *row[3:]) for row in rows]
