"""What a device has accepted and decided: versions of queries, revoked keys, epochs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

from deniable.client.storage.schema import LONG_TABLES, STORE
from deniable.queries.signed.signing import SeenVersion
from deniable.service.files.chained_lines import Head

__all__ = ["KnownVersions"]

MOST_DECIDED = 1_000
"""How many epochs of a query are kept individually; all earlier ones count as decided."""
LAST_EPOCH = (1 << 62) - 1
"""Later than any: what is decided up to it is decided for good."""


class KnownVersions:
    """What was accepted and decided. Neither a relay nor a clock that is set back can undo it."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._db, self._path = connection, path

    def seen(self) -> dict[tuple[str, str], SeenVersion]:
        """The newest accepted version of each query."""
        rows = self._db.execute("SELECT analyst, query, serial, digest FROM versions")
        return {
            (analyst, query): SeenVersion(serial, digest) for analyst, query, serial, digest in rows
        }

    def set_revoked(self, proxy: str, keys: Iterable[str]) -> None:
        """Record the keys a proxy reports as revoked, replacing its earlier list."""
        known = {
            key for (key,) in self._db.execute("SELECT key FROM revoked WHERE proxy = ?", (proxy,))
        }
        if known != set(keys):  # otherwise each poll would write to the disk
            self._db.execute("DELETE FROM revoked WHERE proxy = ?", (proxy,))
            self._db.executemany(
                "INSERT INTO revoked VALUES (?, ?)", [(proxy, key) for key in sorted(set(keys))]
            )

    def revoked(self) -> set[str]:
        """The keys that any proxy reports as revoked."""
        return {key for (key,) in self._db.execute("SELECT DISTINCT key FROM revoked")}

    def signed_queries(self) -> list[bytes]:
        """The signed bytes of the queries accepted so far, which a device without a network
        continues to answer."""
        return [
            row[0]
            for row in self._db.execute("SELECT signed FROM versions ORDER BY analyst, query")
        ]

    def accept(
        self, analyst: str, query: str, seen: SeenVersion, signed: bytes, proxies: Sequence[str]
    ) -> None:
        """Record a verified version, so that no older one is accepted again."""
        row = (analyst, query, seen.serial, seen.digest, signed)
        self._db.execute("INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?)", row)
        asked = (analyst, query, seen.serial, seen.digest, json.dumps(list(proxies)))
        self._db.execute("INSERT OR IGNORE INTO asked VALUES (?, ?, ?, ?, ?)", asked)

    def asked(self) -> list[tuple[str, str, int, bytes, tuple[str, ...]]]:
        """Every version ever accepted: analyst, query, serial, digest, proxies."""
        STORE.check_rows(self._db, self._path, LONG_TABLES)
        rows = self._db.execute(
            "SELECT analyst, query, serial, digest, proxies FROM asked ORDER BY analyst, query,"
            " serial"
        )
        return [(*row[:4], tuple(json.loads(row[4]))) for row in rows]

    def feed_head(self, address: str) -> Head | None:
        """How far the public feed at an address extended when it was last compared."""
        row = self._db.execute(
            "SELECT lines, hash FROM feed_heads WHERE address = ?", (address,)
        ).fetchone()
        return None if row is None else Head(*row)

    def keep_feed_head(self, address: str, head: Head) -> None:
        """Record how far a feed extends."""
        self._db.execute("INSERT OR REPLACE INTO feed_heads VALUES (?, ?, ?)", (address, *head))

    def is_decided(self, analyst: str, query: str, epoch: int) -> bool:
        """Whether this epoch was decided, for any version of the query. Setting the clock back does
        not reopen it."""
        names = (analyst, query)
        row = self._db.execute(
            "SELECT epoch FROM epochs WHERE analyst = ? AND query = ?", names
        ).fetchone()
        if row is not None and epoch <= row[0]:
            return True
        found = self._db.execute(
            "SELECT 1 FROM decided WHERE analyst = ? AND query = ? AND epoch = ?", (*names, epoch)
        )
        return found.fetchone() is not None

    def decide(self, analyst: str, query: str, epoch: int) -> None:
        """Record that this epoch is decided: answered, refused, or its coin said no."""
        names = (analyst, query)
        self._db.execute("INSERT OR IGNORE INTO decided VALUES (?, ?, ?)", (*names, epoch))
        old = self._db.execute(
            "SELECT epoch FROM decided WHERE analyst = ? AND query = ? ORDER BY epoch DESC LIMIT 1"
            " OFFSET ?",
            (*names, MOST_DECIDED),
        ).fetchone()
        if old is not None:
            self._db.execute(
                "DELETE FROM decided WHERE analyst = ? AND query = ? AND epoch <= ?",
                (*names, old[0]),
            )
            self._db.execute("INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)", (*names, old[0]))

    def decide_all(self, analyst: str, query: str) -> None:
        """Record that every epoch of the query is decided, for all its versions."""
        self._db.execute("DELETE FROM decided WHERE analyst = ? AND query = ?", (analyst, query))
        self._db.execute(
            "INSERT OR REPLACE INTO epochs VALUES (?, ?, ?)", (analyst, query, LAST_EPOCH)
        )
