"""The public list of queries, kept ready-made: nobody's request makes the aggregator read a query
again.

A query's entry is made when one of its versions is published or stopped, and kept as bytes. A
request joins the entries and adds the heads of the logs. It looks at the state through a connection
of its own, so that it never waits for the rest of the service, nor the rest for it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Annotated, Any, NotRequired, TypedDict

from deniable.aggregator.counting.catalogue import Published, published
from deniable.aggregator.service import Service
from deniable.documents import Timestamp, WrittenAs, times_of
from deniable.privacy.release_accountant import SampledFields
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.summary import summary
from deniable.queries.times import with_times

__all__ = ["PublicDocument", "PublicKeyDocument", "PublicQueries", "PublicQuery"]


class PublicVersion(TypedDict):
    """A version of a public query."""

    serial: int
    published: Timestamp
    epsilon_local: float


class SignedDocument(TypedDict):
    """A signed query, as `SignedQuery.to_bytes` writes it; with the controller's version, if that
    is one."""

    format: str
    query: str
    key: str
    signature: str
    version: NotRequired[str]
    version_signature: NotRequired[str]


class PublicEnvelope(TypedDict):
    """What the controller may choose."""

    epsilon: tuple[float, float]


class PublicQuery(SampledFields):
    """A query as it was signed."""

    id: str
    serial: int
    published: Timestamp
    stopped: Timestamp | None
    signed: Annotated[dict[str, Any], WrittenAs(SignedDocument)]
    labels: list[str]
    epsilon_local: float
    epsilon_life: float
    envelope: PublicEnvelope | None
    versions: list[Annotated[dict[str, Any], WrittenAs(PublicVersion)]]
    public_results: bool
    summary: str


class PublicKeyDocument(TypedDict):
    """A key for checking signed queries."""

    id: str
    owner: str
    public: str
    revoked: bool


class _Rest(TypedDict):
    feed: str
    """The head of the public feed."""
    audit: str
    """The head of the audit log."""
    keys: list[PublicKeyDocument]


class PublicDocument(_Rest):
    """What anyone may see about the queries."""

    queries: list[PublicQuery]


_Versions = dict[str, tuple[int, ...]]
"""For each query, what changes whenever one of its versions is published or stopped."""


class PublicQueries:
    """What anyone may read about all queries."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._making = threading.Lock()
        self._entries: dict[str, tuple[tuple[int, ...], bytes]] = {}
        self._listed: tuple[_Versions, bytes] = {}, b"[]"

    def document(self) -> tuple[bytes, str]:
        """The JSON document, and its ETag."""
        service = self._service
        keys: list[PublicKeyDocument] = [
            {
                "id": trusted.key.id,
                "owner": trusted.key.owner,
                "public": trusted.key.raw.hex(),
                "revoked": trusted.revoked,
            }
            for trusted in service.ring
        ]
        rest: _Rest = {
            "feed": str(service.feed.head),
            "audit": str(service.audit.head),
            "keys": keys,
        }
        content = b'{"queries":%b,%b' % (self._queries(), json.dumps(rest).encode()[1:])
        return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    def _queries(self) -> bytes:
        state = self._service.settings.state.absolute().as_uri()
        with closing(sqlite3.connect(f"{state}?mode=ro", uri=True, timeout=30)) as connection:
            versions = _versions(connection)
            known, content = self._listed
            if versions == known:
                return content
            with self._making:
                for name, version in versions.items():
                    if self._entries.get(name, ((), b""))[0] != version:
                        entries = published(connection, name)
                        self._entries[name] = version, json.dumps(_public(entries)).encode()
                content = b"[%b]" % b",".join(self._entries[name][1] for name in versions)
                self._listed = versions, content
            return content


def _versions(connection: sqlite3.Connection) -> _Versions:
    # The length notices a state that was changed behind the service: the page then says which
    # signature does not hold.
    known = "count(*), max(serial), count(stopped), sum(length(signed))"
    rows = connection.execute(f"SELECT id, {known} FROM queries GROUP BY id ORDER BY id")  # noqa: S608 - no input
    return {name: tuple(rest) for name, *rest in rows}


def _public(versions: Sequence[Published]) -> dict[str, Any]:
    entry = versions[-1]
    query = entry.query
    envelope = query.envelope
    versions_of: list[PublicVersion] = [
        {
            "serial": each.query.serial,
            "published": each.published,
            "epsilon_local": each.query.epsilon_local,
        }
        for each in versions
    ]
    document: PublicQuery = {
        "id": query.id,
        "serial": query.serial,
        "published": entry.published,
        "stopped": entry.stopped,
        "signed": json.loads(entry.signed.to_bytes()),
        "labels": list(query.labels),
        "epsilon_local": query.epsilon_local,
        **query.sampled_loss.sampled_fields(),
        "epsilon_life": lifetime_epsilon(query),
        "envelope": None if envelope is None else {"epsilon": (0.0, envelope.epsilon_per_answer)},
        "versions": [with_times(each, *times_of(PublicVersion)) for each in versions_of],
        "public_results": query.public_results,
        "summary": summary(query),
    }
    return with_times(document, *times_of(PublicQuery))
