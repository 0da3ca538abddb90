"""Orders: up to which epoch each channel is to be closed, whether or not every proxy has marked it.
Kept in the aggregator's state; the driver writes them, and the log reader, a separate process
beside the driver, puts them into the stream.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

__all__ = ["add", "pending"]

_SECONDS = 30.0


def add(connection: sqlite3.Connection, due: Mapping[int, int]) -> bool:
    """Order these channels to be closed up to these epochs; returns whether any of it is new."""
    before = connection.total_changes
    connection.executemany(
        "INSERT INTO spark_orders VALUES (?, ?) ON CONFLICT DO UPDATE SET epoch = excluded.epoch"
        " WHERE epoch < excluded.epoch",
        [(str(channel), epoch) for channel, epoch in due.items()],
    )
    return connection.total_changes > before


def pending(state: Path) -> dict[str, int]:
    """All orders so far, by channel."""
    with closing(
        sqlite3.connect(f"{state.as_uri()}?mode=ro", uri=True, timeout=_SECONDS)
    ) as connection:
        return dict(
            connection.execute(
                "SELECT channel, epoch FROM spark_orders ORDER BY channel"
            ).fetchall()
        )
