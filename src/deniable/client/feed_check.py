"""Was what this device was asked announced to everybody? Its own log of queries, compared with the
public feeds.

Feeds of proxies are asked without a token, like the lists of queries. That of the aggregator is
asked only if the owner says so: a device does not otherwise talk to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from deniable.client.storage.store import Store
from deniable.errors import DeniableError, QueryError
from deniable.queries.signed.signing import SignedQuery
from deniable.service.files.chained_lines import Head, check_lines
from deniable.service.query_feed import read_feed

__all__ = ["Asked", "FeedFinding", "check_feed", "feed_client"]

_SECONDS = 20.0


class Asked(NamedTuple):
    """A version that the device was asked, with a signature that held."""

    analyst: str
    query: str
    serial: int
    digest: bytes
    proxies: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.query}, version {self.serial}, of {self.analyst}"


@dataclass
class FeedFinding:
    """What comparing with one service's feed came to."""

    address: str
    problem: str = ""
    """Why the feed could not be read; then nothing else is known."""
    head: Head | None = None
    faults: list[str] = field(default_factory=list)
    """Where its chain does not hold, or is not the one of the last time."""
    agreed: list[Asked] = field(default_factory=list)
    missing: list[Asked] = field(default_factory=list)
    """Asked, and no version of the query is in the feed."""
    unannounced: list[Asked] = field(default_factory=list)
    """Other versions of the query are in the feed, and this one is not."""
    different: list[Asked] = field(default_factory=list)
    """The feed has other bytes under the same name and number."""

    @property
    def holds(self) -> bool:
        """Whether all that was asked is in the feed, in the same bytes, and its chain holds."""
        return not (
            self.problem or self.faults or self.missing or self.unannounced or self.different
        )

    def to_dict(self) -> dict[str, Any]:
        """All of it, as JSON can hold it."""
        lists = {
            name: getattr(self, name) for name in ("agreed", "missing", "unannounced", "different")
        }
        named = {
            name: [{**each._asdict(), "digest": each.digest.hex()} for each in found]
            for name, found in lists.items()
        }
        head = None if self.head is None else str(self.head)
        return {
            "address": self.address,
            "holds": self.holds,
            "problem": self.problem,
            "head": head,
            "faults": self.faults,
            **named,
        }


def feed_client() -> Any:
    """What feeds are asked with: no token, no cookie, no redirects."""
    import httpx  # noqa: PLC0415 - slow to import

    return httpx.Client(timeout=_SECONDS, follow_redirects=False)


def check_feed(store: Store, client: Any, address: str, asked: Iterable[Asked]) -> FeedFinding:
    """Compare what was asked with the feed at an address. The head is remembered: a feed that is
    rewritten is found next time."""
    found = FeedFinding(address)
    with store.transaction() as transaction:
        known = transaction.versions.feed_head(address)
    announced: dict[tuple[str, int], set[bytes]] = {}
    lines: list[bytes] = []
    try:
        for page in read_feed(client, address):
            lines += page.lines
    except DeniableError as error:
        found.problem = str(error)
        return found
    verdict = check_lines(lines, known=[known] if known else [])
    found.head, found.faults = verdict.head, verdict.faults
    for line in lines:
        name, digest = _version(line)
        if name is not None:
            announced.setdefault(name, set()).add(digest)
    names = {query for query, _ in announced}
    for each in asked:
        digests = announced.get((f"{each.analyst}/{each.query}", each.serial))
        if digests is None:
            (
                found.unannounced if f"{each.analyst}/{each.query}" in names else found.missing
            ).append(each)
        else:
            (found.agreed if each.digest in digests else found.different).append(each)
    if not found.faults and found.head.lines:
        with store.transaction() as transaction:
            transaction.versions.keep_feed_head(address, found.head)
    return found


def _version(line: bytes) -> tuple[tuple[str, int] | None, bytes]:
    """The query and version that a line announces, by the signed bytes in it, not by what the line
    says of them."""
    try:
        signed = json.loads(line)["signed"]
        header = SignedQuery.from_bytes(json.dumps(signed).encode()).header()
    except (ValueError, KeyError, TypeError, RecursionError, QueryError):
        return None, b""
    return (f"{header.analyst}/{header.id}", header.serial), header.digest
