"""The service's own access to the state: one connection, used by one request at a time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deniable.aggregator.state import connect

__all__ = ["StateAccess"]


class StateAccess:
    """The connection of the interface, which is not the engine's."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = connect(path)
        self._lock = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, one request at a time."""
        with self._lock:
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The connection, inside a transaction."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def another(self) -> sqlite3.Connection:
        """Another connection, for work that must not wait for the rest; the caller closes it."""
        return connect(self._path)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
