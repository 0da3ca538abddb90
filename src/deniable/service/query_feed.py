"""The public feed: every query version ever published, and every stop, in a hash-chained log that
anyone may read.

An aggregator and each of its proxies keep their own, so that none has to be trusted alone: what a
device was asked must be in every feed, byte for byte (`deniable client verify`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from deniable.errors import ResponseError
from deniable.queries.times import iso_time
from deniable.service.files.chained_lines import ChainedLines, Head
from deniable.service.http.reading import ask

if TYPE_CHECKING:
    from deniable.queries.header import QueryHeader
    from deniable.queries.signed.signing import SignedQuery

__all__ = ["FEED_ADDRESS", "LARGEST_FEED_PAGE", "FeedPage", "QueryFeed", "read_feed"]

FEED_ADDRESS = "/v1/public/feed"
PUBLISHED, ADAPTED, STOPPED, WITHDRAWN, REVOKED = (
    "query.published",
    "query.adapted",
    "query.stopped",
    "query.withdrawn",
    "key.revoked",
)
LARGEST_FEED_PAGE = 4 << 20
"""Bytes of lines after which a page ends."""
_MOST_LINES = 1000
_MOST_READ = 1 << 28
"""Bytes of a feed that a reader accepts, over all pages."""


class QueryFeed:
    """The feed of one service, its only writer."""

    def __init__(
        self, path: str | os.PathLike[str], clock: Callable[[], int] | None = None
    ) -> None:
        self._lines = ChainedLines(path, clock)
        self._offsets: list[int] = []
        self._size = 0
        self._announced: set[str] = set()
        self._over: set[str] = set()
        self._index()

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    @property
    def head(self) -> Head:
        """The number and hash of its last line."""
        return self._lines.head

    def problem(self) -> str:
        """What is wrong with it; empty while its chain verifies."""
        faults = self._lines.verify().faults
        return f"{self._lines.path.name} does not verify: {faults[0]}" if faults else ""

    def published(
        self,
        header: QueryHeader,
        signed: SignedQuery,
        when: int,
        epsilon: Mapping[str, float] | None = None,
    ) -> None:
        """Announce a version, unless it has already been announced."""
        if header.digest.hex() in self._announced:
            return
        self._append(
            {
                "event": PUBLISHED if signed.version is None else ADAPTED,
                **_named(header),
                "when": iso_time(when),
                **({"epsilon": dict(epsilon)} if epsilon else {}),
                "signed": json.loads(signed.to_bytes()),
            }
        )

    def stopped(self, header: QueryHeader, when: int, why: str = "") -> None:
        """Announce that a version was stopped or, if a reason is given, withdrawn."""
        if header.digest.hex() in self._over:
            return
        reason = {"why": why} if why else {}
        self._append(
            {
                "event": WITHDRAWN if why else STOPPED,
                **_named(header),
                "when": iso_time(when),
                **reason,
            }
        )

    def revoked(self, key_id: str) -> None:
        """Announce that a key was revoked."""
        if key_id not in self._over:
            self._append({"event": REVOKED, "key": key_id})

    def _append(self, fields: Mapping[str, Any]) -> None:
        self._lines.append(fields)
        self._index()

    def _index(self) -> None:
        """Index the new lines of the file."""
        with self._lines.path.open("rb") as file:
            file.seek(self._size)
            for line in file:
                self._offsets.append(self._size)
                self._size += len(line)
                try:
                    fields = json.loads(line)
                except ValueError:
                    continue
                if "signed" in fields:
                    self._announced.add(fields["digest"])
                elif fields.get("event") in (STOPPED, WITHDRAWN, REVOKED):
                    self._over.add(fields.get("key") or fields.get("digest", ""))

    def page(self, after: int, limit: int) -> dict[str, Any]:
        """The lines after line `after`, as in the file; `next` is the `after` of the next page,
        None at the end."""
        lines: list[str] = []
        n_bytes = 0
        last = min(len(self._offsets), after + min(max(1, limit), _MOST_LINES))
        if after < last:
            with self._lines.path.open("rb") as file:
                file.seek(self._offsets[after])
                while after + len(lines) < last and n_bytes < LARGEST_FEED_PAGE:
                    line = file.readline()
                    n_bytes += len(line)
                    lines.append(line.decode(errors="replace").rstrip("\n"))
        following = after + len(lines)
        return {
            "head": str(self.head),
            "lines": lines,
            "next": following if following < len(self._offsets) else None,
        }


def _named(header: QueryHeader) -> dict[str, Any]:
    return {
        "query": header.id,
        "serial": header.serial,
        "analyst": header.analyst,
        "digest": header.digest.hex(),
    }


class FeedPage(NamedTuple):
    """Lines of another service's feed, and the head that it claims."""

    lines: list[bytes]
    head: str


def read_feed(client: Any, address: str, after: int = 0) -> Iterator[FeedPage]:
    """The pages of a service's feed after line `after`; nothing in them is trusted. `client` is an
    `httpx.Client`."""
    n_bytes = 0
    position: int | None = after
    while position is not None:
        url = f"{address.rstrip('/')}{FEED_ADDRESS}?after={position}"
        answer = ask(client, "GET", url, 3 * LARGEST_FEED_PAGE)
        if answer.status != 200:
            raise ResponseError(
                answer.status, "refused", f"GET {FEED_ADDRESS} was answered with {answer.status}"
            )
        try:
            fields = json.loads(answer.content)
            lines = [str(line).encode() for line in fields["lines"]]
            following, head = fields["next"], str(fields["head"])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ResponseError(answer.status, "unusable", "its feed is malformed") from None
        n_bytes += len(answer.content)
        if n_bytes > _MOST_READ or (
            following is not None and (not isinstance(following, int) or following <= position)
        ):
            raise ResponseError(answer.status, "unusable", "its feed does not end")
        yield FeedPage(lines, head)
        position = following
