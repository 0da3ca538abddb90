"""The queries that are being counted: their versions by tag, and the channels on which their shares come."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from deniable.aggregator.state import signed as signed_word
from deniable.errors import PublicationError
from deniable.queries.keys import KeyRing
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signing import Seen, SignedQuery, authenticate, check_version

__all__ = ["Catalogue", "Channel", "Published", "publish", "published", "stop"]


@dataclass(frozen=True)
class Published:
    """A version of a query as it stands in the state."""

    query: Query
    signed: SignedQuery
    published: int
    stopped: int | None

    @property
    def n_epochs(self) -> int:
        """Epochs in which devices answer: all before it expires, or up to the one in which it was stopped."""
        schedule = self.query.schedule
        return schedule.n_epochs if self.stopped is None else schedule.epochs_begun(self.stopped)


@dataclass
class Channel:
    """Versions of which a channel's shares can be. They share epochs and size class, for the channel's tag is made of them."""

    tag: int
    schedule: Schedule
    size_class: int
    versions: dict[int, Query] = field(default_factory=dict)
    n_epochs: int = 0
    """Epochs before the last version expires or is stopped."""

    def queries(self) -> dict[str, list[Query]]:
        """The versions of each query, oldest first."""
        out: dict[str, list[Query]] = {}
        for query in sorted(self.versions.values(), key=lambda query: query.serial):
            out.setdefault(query.id, []).append(query)
        return out


class Catalogue:
    """The channels of all published versions."""

    def __init__(self, entries: Iterable[Published] = ()) -> None:
        self.channels: dict[int, Channel] = {}
        for entry in entries:
            query = entry.query
            if query.size_class is None:  # a Query settles it; said for the type checker
                continue
            channel = self.channels.setdefault(query.channel_tag, Channel(query.channel_tag, query.schedule, query.size_class))
            channel.versions[query.tag] = query
            channel.n_epochs = max(channel.n_epochs, entry.n_epochs)

    @classmethod
    def load(cls, connection: sqlite3.Connection) -> Catalogue:
        """The catalogue in a state file."""
        return cls(published(connection))


def published(connection: sqlite3.Connection, query_id: str | None = None) -> list[Published]:
    """All versions of all queries (or of one), oldest first."""
    rows = connection.execute(
        "SELECT signed, published, stopped FROM queries WHERE ?1 IS NULL OR id = ?1 ORDER BY id, serial", (query_id,)
    )
    out = []
    for content, when, stopped in rows:
        signed = SignedQuery.from_bytes(content)
        out.append(Published(signed.unverified(), signed, when, stopped))
    return out


def publish(connection: sqlite3.Connection, signed: SignedQuery, ring: KeyRing, proxies: Sequence[str], now: int) -> Query:
    """Take a signed query into the catalogue, inside a transaction of the caller; the same version again changes nothing.

    Besides what a device checks (signature, expiry, serial): its proxies are those that this aggregator reads, and a new version
    keeps its schedule and channel, for its epochs are added to those before it.
    """
    query = authenticate(signed, ring, now)
    earlier = published(connection, query.id)
    seen = {(entry.query.analyst, entry.query.id): Seen(entry.query.serial, entry.query.digest) for entry in earlier}
    check_version(query, now, seen)
    if any(entry.query.digest == query.digest for entry in earlier):
        return query
    if set(query.proxies) != set(proxies):
        found = f"query {query.id!r} names the proxies {list(query.proxies)}"
        raise PublicationError(f"{found}, and this aggregator reads {list(proxies)}")
    if earlier:
        last = earlier[-1]
        if last.query.analyst != query.analyst:
            raise PublicationError(f"another analyst asks a query named {query.id!r} here")
        if last.stopped is not None:
            raise PublicationError(f"query {query.id!r} was stopped: ask it again under another name")
        _check_revision(last.query, query)
    connection.execute(
        "INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, NULL)",
        (query.id, query.serial, signed_word(query.tag), signed_word(query.channel_tag), signed.to_bytes(), now),
    )
    first = query.schedule.epochs_over(now)
    connection.execute("INSERT OR IGNORE INTO channels VALUES (?, ?, ?)", (signed_word(query.channel_tag), first, first))
    return query


def _check_revision(last: Query, query: Query) -> None:
    times = {name: value for name, value in query.schedule.to_dict().items() if name != "expires"}
    if {name: value for name, value in last.schedule.to_dict().items() if name != "expires"} != times:
        raise PublicationError(f"a new version of {query.id!r} must keep origin, every, window and slide of its schedule")
    if last.channel_tag != query.channel_tag:
        raise PublicationError(f"a new version of {query.id!r} must keep its channel and size class {last.size_class}")


def stop(connection: sqlite3.Connection, query_id: str, now: int) -> bool:
    """Stop a query: devices are asked no more; what comes of open epochs is still counted. Whether it was running."""
    cursor = connection.execute("UPDATE queries SET stopped = ? WHERE id = ? AND stopped IS NULL", (now, query_id))
    return cursor.rowcount > 0
