"""What an aggregator notices and handles by itself: keys that are no longer trusted, and epochs
closed without a proxy.

A step reads the ring file and the state, so it makes no difference which process changed them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from deniable.aggregator.counting.catalogue import Published, published, stop
from deniable.aggregator.operations.announcing import announce
from deniable.aggregator.operations.relay import REVOKE, STOP, order_relay
from deniable.aggregator.state import Clock, unsigned
from deniable.aggregator.web.tokens import note_use
from deniable.errors import QueryError, RevokedKeyError, UnknownKeyError
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import authenticate
from deniable.service.audit_log import AuditLog, read_events
from deniable.service.files.schemas import transaction
from deniable.service.query_feed import QueryFeed

__all__ = ["Housekeeping"]


class Housekeeping:
    """Watches the ring and the state of one aggregator."""

    def __init__(
        self, audit: AuditLog, feed: QueryFeed, names: Sequence[str], clock: Clock
    ) -> None:
        self._audit, self._feed, self._names, self._clock = audit, feed, tuple(names), clock
        self._checked: KeyRing | None = None
        self._revoked = {
            event.get("subject")
            for event in read_events(audit.path)
            if event.get("event") == "key.revoked"
        }
        self._used: set[str] = set()
        self._noted: set[tuple[str, int]] = set()

    def saw(self, token_id: str) -> None:
        """Note that a token was used: the day will be recorded."""
        if (token_id, self._clock() // 86_400) not in self._noted:
            self._used.add(token_id)

    def step(self, connection: sqlite3.Connection, ring: KeyRing) -> bool:
        """Look once; returns whether there is something to relay to the proxies."""
        self._note_incomplete(connection)
        self._note_use(connection)
        if ring is self._checked:
            return False
        withdrawn = self._follow_ring(connection, ring)
        self._checked = ring
        return withdrawn

    def _follow_ring(self, connection: sqlite3.Connection, ring: KeyRing) -> bool:
        """Withdraw queries that no key of the ring vouches for any more, and have proxies tell
        devices about revoked keys."""
        told = False
        with transaction(connection):
            for trusted in ring:
                if trusted.revoked and f"key:{trusted.key.id}" not in self._revoked:
                    self._audit.record(
                        "key.revoked", subject=f"key:{trusted.key.id}", owner=trusted.key.owner
                    )
                    self._revoked.add(f"key:{trusted.key.id}")
                if trusted.revoked:
                    self._feed.revoked(trusted.key.id)
                    told |= self._tell_revoked(connection, trusted.key.id)
            newest = {entry.query.id: entry for entry in published(connection)}
            for entry in newest.values():
                problem = "" if entry.stopped is not None else self._problem(entry, ring)
                if problem and stop(connection, entry.query.id, self._clock()):
                    query = entry.query
                    order_relay(connection, query.id, query.serial, STOP, len(self._names))
                    self._audit.record(
                        "query.withdrawn",
                        subject=f"query:{query.id}",
                        analyst=query.analyst,
                        key=entry.signed.key_id,
                        why=problem,
                    )
                    announce(self._feed, connection, query.id, problem)
                    told = True
        return told

    def _tell_revoked(self, connection: sqlite3.Connection, key_id: str) -> bool:
        if connection.execute("SELECT 1 FROM relays WHERE id = ?", (f"key {key_id}",)).fetchone():
            return False
        order_relay(connection, f"key {key_id}", 0, REVOKE, len(self._names))
        return True

    def _problem(self, entry: Published, ring: KeyRing) -> str:
        """Why the query must no longer be asked. An expired key is not a reason: devices check that
        themselves."""
        try:
            authenticate(entry.signed, ring, entry.published)
        except (RevokedKeyError, UnknownKeyError) as error:
            return str(error)
        except QueryError:
            return ""
        return ""

    def _note_incomplete(self, connection: sqlite3.Connection) -> None:
        """Record the epochs that were closed without a proxy, whichever engine closed them."""
        rows = connection.execute(
            "SELECT channel, epoch, missing FROM closures WHERE NOT audited ORDER BY epoch"
        ).fetchall()
        for channel, epoch, missing in rows:
            ids = connection.execute(
                "SELECT DISTINCT id FROM queries WHERE channel = ? ORDER BY id", (channel,)
            )
            for proxy in missing.split():
                self._audit.record(
                    "epoch.incomplete",
                    subject=f"proxy:{self._names[int(proxy)]}",
                    epoch=epoch,
                    channel=f"{unsigned(channel):016x}",
                    queries=[query for (query,) in ids],
                )
            connection.execute(
                "UPDATE closures SET audited = 1 WHERE channel = ? AND epoch = ?", (channel, epoch)
            )

    def _note_use(self, connection: sqlite3.Connection) -> None:
        if not self._used:
            return
        used, now = set(self._used), self._clock()
        with transaction(connection):
            note_use(connection, used, now)
        self._noted = {(each, day) for each, day in self._noted if day == now // 86_400} | {
            (each, now // 86_400) for each in used
        }
        self._used -= used
