"""How many messages were sent under each token that is good for a stated number of them.

Unlike quotas, which end with their epoch, these counts must survive a restart, so they are on disk:
a number for each such token, not when, in which epoch, or which messages. They are deleted with the
token.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from deniable.proxy.schemas.bound_uses import BOUND_USES

__all__ = ["BoundUses"]


class BoundUses:
    """The counts of one proxy. The file is created with the first of them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = BOUND_USES.connect(path) if path.exists() else None
        rows = (
            []
            if self._connection is None
            else self._connection.execute("SELECT client, used FROM uses")
        )
        self._used: dict[bytes, int] = dict(rows)
        self._changed: set[bytes] = set()

    def of(self, client: bytes) -> int:
        """How many messages of a client were accepted."""
        return self._used.get(client, 0)

    def add(self, client: bytes, n: int) -> None:
        """Count messages, from now on; :meth:`commit` makes it durable."""
        self._used[client] = self._used.get(client, 0) + n
        self._changed.add(client)

    def commit(self) -> None:
        """Write what has changed."""
        if not self._changed:
            return
        if self._connection is None:
            self._connection = BOUND_USES.connect(self._path)
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            rows = [(client, self._used[client]) for client in self._changed]
            self._connection.executemany("INSERT OR REPLACE INTO uses VALUES (?, ?)", rows)
        self._changed.clear()

    def forget(self, clients: Iterable[bytes]) -> None:
        """Delete the counts of tokens that were deleted."""
        gone = [client for client in clients if self._used.pop(client, None) is not None]
        if gone and self._connection is not None:
            self._changed.difference_update(gone)
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "DELETE FROM uses WHERE client = ?", [(client,) for client in gone]
                )

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
