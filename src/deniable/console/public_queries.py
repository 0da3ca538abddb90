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
from typing import Any

from deniable.aggregator.counting.catalogue import Published, published
from deniable.aggregator.service import Service
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.summary import summary
from deniable.queries.times import with_times

__all__ = ["PublicQueries"]

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
        keys = [
            {
                "id": trusted.key.id,
                "owner": trusted.key.owner,
                "public": trusted.key.raw.hex(),
                "revoked": trusted.revoked,
            }
            for trusted in service.ring
        ]
        rest = {"feed": str(service.feed.head), "audit": str(service.audit.head), "keys": keys}
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
    document = {
        "id": query.id,
        "serial": query.serial,
        "published": entry.published,
        "stopped": entry.stopped,
        "signed": json.loads(entry.signed.to_bytes()),
        "labels": list(query.labels),
        "epsilon_local": query.epsilon_local,
        **query.sampled_loss.sampled_fields(),
        "epsilon_life": lifetime_epsilon(query),
        "envelope": None if envelope is None else {"epsilon": [0.0, envelope.epsilon_per_answer]},
        "versions": [
            with_times(
                {
                    "serial": each.query.serial,
                    "published": each.published,
                    "epsilon_local": each.query.epsilon_local,
                },
                "published",
            )
            for each in versions
        ],
        "public_results": query.public_results,
        "summary": summary(query),
    }
    return with_times(document, "published", "stopped")
