"""Released windows, as the interface reads them from the state."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager

from deniable.aggregator.windows.revisions import NOT_REVISED
from deniable.aggregator.windows.stored import Detail

__all__ = ["LARGEST_PAGE", "ReleasedWindows"]

LARGEST_PAGE = 8 << 20
"""Characters after which a page of results ends."""
_BEYOND = 1 << 62
"""A number that no result has, and a second that no window begins at."""


class ReleasedWindows:
    """The windows of all queries; `reading` lends a connection to the state."""

    def __init__(self, reading: Callable[[], AbstractContextManager[sqlite3.Connection]]) -> None:
        self._reading = reading

    def newest_number(self) -> int:
        """The number of the newest result, over all queries."""
        with self._reading() as connection:
            return int(
                connection.execute("SELECT coalesce(max(seq), 0) FROM results").fetchone()[0]
            )

    def last_number(self, query_id: str) -> int:
        """The number of the last result of a query to be released; 0 if there is none."""
        with self._reading() as connection:
            return int(
                connection.execute(
                    "SELECT coalesce(max(seq), 0) FROM results WHERE query = ?", (query_id,)
                ).fetchone()[0]
            )

    def of_all(self, after: int, up_to: int | None, limit: int) -> list[tuple[int, str, str]]:
        """Results of all queries as (number, analyst, JSON in brief), after one number and up to
        another."""
        owner = "coalesce((SELECT analyst FROM queries WHERE id = query LIMIT 1), '')"
        with self._reading() as connection:
            return connection.execute(
                f"SELECT seq, {owner}, {Detail.BRIEF.value} FROM results WHERE seq > ? AND seq <= ?"  # noqa: S608
                " ORDER BY seq LIMIT ?",
                (after, _BEYOND if up_to is None else up_to, limit),
            ).fetchall()

    def latest(self, query_id: str, detail: Detail = Detail.WHOLE) -> str | None:
        """The newest window of a query as JSON; None if there is none."""
        with self._reading() as connection:
            row = connection.execute(
                f"SELECT {detail.value} FROM results WHERE query = ? AND {NOT_REVISED}"  # noqa: S608 - no input
                " ORDER BY number DESC LIMIT 1",
                (query_id,),
            ).fetchone()
        return None if row is None else str(row[0])

    def of_query(
        self,
        query_id: str,
        after: int = 0,
        start: int | None = None,
        end: int | None = None,
        limit: int = 100,
        detail: Detail = Detail.WHOLE,
    ) -> list[tuple[int, str]]:
        """Results of a query as (number, JSON as served), after a number, for windows that begin
        between `start` and `end`, in order of release.

        Only the newest revision of a revised window is returned. At most `limit` results, and no
        more once they have `LARGEST_PAGE` characters together.
        """
        found: list[tuple[int, str]] = []
        n_characters = 0
        with self._reading() as connection:
            rows = connection.execute(
                f"SELECT seq, {detail.value} FROM results WHERE query = ? AND seq > ? AND start >="  # noqa: S608 - no input
                " ? AND start < ? "
                f"AND {NOT_REVISED} ORDER BY seq ASC LIMIT ?",
                (
                    query_id,
                    after,
                    0 if start is None else start,
                    _BEYOND if end is None else end,
                    limit,
                ),
            )
            for number, document in rows:
                found.append((number, document))
                n_characters += len(document)
                if n_characters >= LARGEST_PAGE:
                    break
            rows.close()
        return found
