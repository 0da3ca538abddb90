"""What a state may delete: rows of closed epochs, and what its owner no longer keeps."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from deniable.aggregator.state import signed

__all__ = ["collect_garbage", "forget", "forget_panes"]


def collect_garbage(connection: sqlite3.Connection, most_rows: int) -> int:
    """Delete up to this many rows of closed epochs; returns how many were deleted. Call again
    while there are some."""
    deleted = 0
    for table in ("joined", "waiting"):
        closed = (
            f"SELECT seq FROM {table} JOIN channels USING (channel)"  # noqa: S608 - no input
            " WHERE epoch < front LIMIT ?"
        )
        cursor = connection.execute(
            f"DELETE FROM {table} WHERE seq IN ({closed})",  # noqa: S608
            (most_rows - deleted,),
        )
        deleted += cursor.rowcount
    return deleted


def forget(
    connection: sqlite3.Connection,
    channel: int,
    before_epoch: int,
    queries: Iterable[str],
    before_time: int,
) -> None:
    """Delete accounts and results whose retention has passed."""
    connection.execute(
        "DELETE FROM accounts WHERE channel = ? AND epoch < ? AND epoch >= 0",
        (signed(channel), before_epoch),
    )
    connection.execute(
        "DELETE FROM closures WHERE channel = ? AND epoch < ?", (signed(channel), before_epoch)
    )
    for query in queries:
        connection.execute(
            "DELETE FROM results WHERE query = ? AND start < ?", (query, before_time)
        )


def forget_panes(connection: sqlite3.Connection, queries: Iterable[str], before_epoch: int) -> None:
    """Delete panes whose retention has passed, and the granules that have one of them: no
    granule is ever split."""
    for query in queries:
        connection.execute("DELETE FROM panes WHERE query = ? AND epoch < ?", (query, before_epoch))
        connection.execute(
            "DELETE FROM granules WHERE query = ? AND first < ?", (query, before_epoch)
        )
