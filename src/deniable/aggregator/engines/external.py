"""An engine that runs in another process on the same state: what it reports there, and how the
service reads it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from deniable.aggregator.counting.catalogue import Published
from deniable.aggregator.operations.health import ProxyHealth
from deniable.aggregator.state import Clock

__all__ = ["ExternalEngineStatus", "counted_versions", "note_counted", "note_health"]

_HEALTH, _COUNTED = "engine_health", "engine_counts"
_SECONDS_WITHOUT_A_SIGN = 60


def _write(connection: sqlite3.Connection, name: str, content: object) -> None:
    connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, json.dumps(content)))


def note_health(
    connection: sqlite3.Connection, health: Sequence[ProxyHealth], problem: str, now: int
) -> None:
    """Leave a sign of life, and how each proxy is doing; inside the caller's transaction."""
    _write(
        connection,
        _HEALTH,
        {"at": now, "problem": problem, "proxies": [asdict(each) for each in health]},
    )


def note_counted(connection: sqlite3.Connection, entries: Iterable[Published]) -> None:
    """Record which versions the engine counts; inside the caller's transaction. Only these are
    passed on to the proxies."""
    _write(connection, _COUNTED, [[entry.query.id, entry.query.serial] for entry in entries])


def counted_versions(connection: sqlite3.Connection) -> set[tuple[str, int]]:
    """The versions that the engine counts."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (_COUNTED,)).fetchone()
    return set() if row is None else {(query, serial) for query, serial in json.loads(row[0])}


class ExternalEngineStatus:
    """The engine as the service sees it: through what it leaves in the state."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.health: list[ProxyHealth] = []
        self.problem = "no engine has counted into this state yet"

    def look(self, connection: sqlite3.Connection) -> None:
        """Read what it last left."""
        row = connection.execute("SELECT value FROM meta WHERE name = ?", (_HEALTH,)).fetchone()
        if row is None:
            return
        document = json.loads(row[0])
        self.health = [
            ProxyHealth(**{**each, "position": tuple(each["position"])})
            for each in document["proxies"]
        ]
        silence = self._clock() - document["at"]
        gone = (
            f"the engine has given no sign of life for {silence} seconds"
            if silence > _SECONDS_WITHOUT_A_SIGN
            else ""
        )
        self.problem = document["problem"] or gone
