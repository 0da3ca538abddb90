"""The queries that are being counted: their versions by tag, and the channels on which their shares
arrive."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from deniable.aggregator.state import signed as signed_word
from deniable.errors import ParameterError, PublicationError
from deniable.queries.channels import Channel, channels_of, check_joining
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import SeenVersion, SignedQuery, authenticate, check_version

__all__ = ["Catalogue", "CountedChannel", "Published", "publish", "published", "stop"]

_MOST_PARSED = 256
"""The engine holds the same queries, so they take no more memory here."""


@dataclass(frozen=True)
class Published:
    """A version of a query as stored in the state."""

    query: Query
    signed: SignedQuery
    published: int
    stopped: int | None


@dataclass(frozen=True)
class CountedChannel(Channel):
    """A channel, and the versions of queries to which its shares can belong."""

    versions: Mapping[int, Query] = field(default_factory=dict)
    """By tag. They share epochs and size class, because the channel's tag is derived from them."""

    def queries(self) -> dict[str, list[Query]]:
        """The versions of each query, oldest first."""
        out: dict[str, list[Query]] = {}
        for query in sorted(self.versions.values(), key=lambda query: query.serial):
            out.setdefault(query.id, []).append(query)
        return out


class Catalogue:
    """The channels of all published versions."""

    def __init__(self, entries: Iterable[Published] = ()) -> None:
        entries = sorted(entries, key=lambda entry: entry.published)
        versions: dict[int, dict[int, Query]] = {}
        for entry in entries:
            versions.setdefault(entry.query.channel_tag, {})[entry.query.tag] = entry.query
        channels = channels_of((entry.query.header, entry.stopped) for entry in entries)
        self.channels = {
            tag: CountedChannel(**vars(channel), versions=versions[tag])
            for tag, channel in channels.items()
        }

    @classmethod
    def load(cls, connection: sqlite3.Connection) -> Catalogue:
        """The catalogue in a state file."""
        return cls(published(connection))


def published(connection: sqlite3.Connection, query_id: str | None = None) -> list[Published]:
    """All versions of all queries (or of one), oldest first."""
    rows = connection.execute(
        "SELECT signed, published, stopped FROM queries WHERE ?1 IS NULL OR id = ?1 ORDER BY id,"
        " serial",
        (query_id,),
    )
    return [Published(*_parsed(content), when, stopped) for content, when, stopped in rows]


@lru_cache(maxsize=_MOST_PARSED)
def _parsed(content: bytes) -> tuple[Query, SignedQuery]:
    """A stored version, which never changes: read once, however often the list is asked for."""
    signed = SignedQuery.from_bytes(content)
    return signed.unverified(), signed


def publish(
    connection: sqlite3.Connection,
    signed: SignedQuery,
    ring: KeyRing,
    proxies: Sequence[str],
    now: int,
) -> Query:
    """Add a signed query to the catalogue, inside the caller's transaction; the same version again
    changes nothing.

    Beyond what a device checks (signature, expiry, serial), its proxies must be those that this
    aggregator reads, and a new version must keep schedule and channel, because its epochs are added
    to the earlier ones.
    """
    query = authenticate(signed, ring, now)
    earlier = published(connection, query.id)
    seen = {
        (entry.query.analyst, entry.query.id): SeenVersion(entry.query.serial, entry.query.digest)
        for entry in earlier
    }
    check_version(query, now, seen)
    if any(entry.query.digest == query.digest for entry in earlier):
        return query
    if set(query.proxies) != set(proxies):
        found = f"query {query.id!r} names the proxies {list(query.proxies)}"
        raise PublicationError(f"{found}; this aggregator reads {list(proxies)}")
    if earlier:
        last = earlier[-1]
        if last.query.analyst != query.analyst:
            raise PublicationError(f"another analyst already has a query named {query.id!r} here")
        if last.stopped is not None:
            raise PublicationError(
                f"query {query.id!r} was stopped: publish it again under another name"
            )
        _check_revision(last.query, query)
        if signed.version is None:
            _check_serial(last, query)
    _check_channel(connection, query, now)
    connection.execute(
        "INSERT INTO queries VALUES (?, ?, ?, ?, ?, ?, NULL, ?)",
        (
            query.id,
            query.serial,
            signed_word(query.tag),
            signed_word(query.channel_tag),
            signed.to_bytes(),
            now,
            query.analyst,
        ),
    )
    first = query.schedule.epochs_over(now)
    connection.execute(
        "INSERT OR IGNORE INTO channels VALUES (?, ?, ?)",
        (signed_word(query.channel_tag), first, first),
    )
    return query


def _check_channel(connection: sqlite3.Connection, query: Query, now: int) -> None:
    """Refuse a query that would use a channel of another analyst, or more of it than its owner
    permits."""
    sql = "SELECT signed, stopped FROM queries WHERE channel = ? ORDER BY published"
    rows = connection.execute(sql, (signed_word(query.channel_tag),)).fetchall()
    try:
        check_joining(
            query.header,
            [(SignedQuery.from_bytes(content).header(), stopped) for content, stopped in rows],
            now,
        )
    except ParameterError as error:
        raise PublicationError(f"query {query.id!r}: {error}") from None


def _check_revision(last: Query, query: Query) -> None:
    times = {name: value for name, value in query.schedule.to_dict().items() if name != "expires"}
    if {
        name: value for name, value in last.schedule.to_dict().items() if name != "expires"
    } != times:
        raise PublicationError(
            f"a new version of {query.id!r} must keep origin, every, window and slide of its"
            " schedule"
        )
    if last.channel_tag != query.channel_tag:
        if last.channel == query.channel is not None and last.channel_owner is None:
            rule = (
                f"version {last.serial} of {query.id!r} is on a channel of format 1, which belongs"
                " to no key"
            )
            raise PublicationError(f"{rule}: publish the query under another id")
        raise PublicationError(
            f"a new version of {query.id!r} must keep its channel and size class {last.size_class}"
        )


def _check_serial(last: Published, query: Query) -> None:
    """Refuse an analyst's version whose serial the previous version's controller may still
    reach."""
    base = last.signed.without_version().unverified()
    taken = 0 if base.envelope is None else base.serial + base.envelope.versions
    if query.serial <= taken:
        rule = (
            f"serials up to {taken} are the controller's by the envelope of version {base.serial}"
        )
        raise PublicationError(
            f"query {query.id!r} has serial {query.serial}, but {rule}: use {taken + 1} or higher"
        )


def stop(connection: sqlite3.Connection, query_id: str, now: int) -> bool:
    """Stop a query: devices are no longer asked; answers of open epochs are still counted. Returns
    whether it was running."""
    cursor = connection.execute(
        "UPDATE queries SET stopped = ? WHERE id = ? AND stopped IS NULL", (now, query_id)
    )
    return cursor.rowcount > 0
