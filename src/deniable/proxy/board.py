"""The board: the signed queries that a proxy relays, so that devices never contact the aggregator.

Devices accept a list of limited length. When there is more than fits, each analyst has a fair part
of it (max-min): the newest queries of the analyst who takes most are not shown until there is
room. They stay published: answers to them are still accepted. Devices verify every query themselves. A
proxy with a key ring does too, so that it does not relay what no device would accept.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from deniable.errors import ParameterError, QueryError, RefusedError, RevokedKeyError
from deniable.proxy.schemas.board import BOARD
from deniable.queries.channels import Channel, channels_of, check_joining
from deniable.queries.header import QueryHeader
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import (
    LARGEST_LIST,
    MOST_LISTED,
    SignedQuery,
    authenticate_header,
    check_version,
    signing_keys,
)
from deniable.service.fair_parts import fair_selection

__all__ = ["Board"]

BeforeCommit = Callable[[QueryHeader, SignedQuery], object]

_MOST_TOLD = 256
"""How many revoked keys devices are told about, newest first: as many as fit into a header."""


class Board:
    """The queries of one proxy, in their own file. Stopped ones are kept while shares for their
    epochs may still arrive."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Callable[[], int],
        ring: Callable[[], KeyRing] | None = None,
    ) -> None:
        """`ring` returns the currently trusted keys; without it, relayed queries are not
        verified."""
        self._connection = BOARD.connect(Path(path))
        self._clock, self._ring = clock, ring
        self._written = -1
        self.refresh()

    def refresh(self) -> None:
        """Read the file again if another process has written to it."""
        (written,) = self._connection.execute("PRAGMA data_version").fetchone()
        if written != self._written:
            self._load()
            self._written = written

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _load(self) -> None:
        rows = self._connection.execute(
            "SELECT id, rowid, signed, stopped FROM versions ORDER BY id, serial"
        ).fetchall()
        self._versions: list[tuple[QueryHeader, int | None]] = []
        self._signed: dict[str, SignedQuery] = {}
        running: dict[str, bytes] = {}
        places = []
        for name, place, content, stopped in rows:
            signed = SignedQuery.from_bytes(content)
            places.append(place)
            self._versions.append((signed.header(), stopped))
            if stopped is None:
                running[name] = _compact(content)
                self._signed[name] = signed
        self._by_age = [
            self._versions[i] for i in sorted(range(len(places)), key=places.__getitem__)
        ]
        """The same in order of publication: the first analyst on a channel of format 1 holds it."""
        since = self._connection.execute(
            "SELECT id FROM versions GROUP BY id ORDER BY min(rowid)"
        ).fetchall()
        self._running = {name: running[name] for (name,) in since if name in running}
        """The active queries as they are listed, in the order in which they were first
        published."""
        shown = self._shown(self._running)
        self.hidden = tuple(sorted(set(running) - shown))
        """The ids of active queries that are beyond their analyst's part of the list."""
        revoked = self._connection.execute(
            "SELECT key FROM revoked ORDER BY since DESC, key LIMIT ?", (_MOST_TOLD,)
        )
        self.revoked = tuple(key for (key,) in revoked)
        """The ids of revoked keys, newest first."""
        self.content = b"[%b]" % b",".join(running[name] for name in running if name in shown)
        """A JSON list of the active queries, each as `SignedQuery.to_bytes` writes it."""
        self.etag = _tag(self.content, ",".join(self.revoked))
        self._tags: dict[str, str] = {}

    def listed(self) -> tuple[bytes, str, str]:
        """What devices receive: the list, its ETag, and the revoked keys."""
        return self.content, self.etag, ",".join(self.revoked)

    def one(self, query_id: str) -> tuple[bytes, str, str] | None:
        """The same for one active query, even if the list has no room for it; None if there is no
        such query."""
        content = self._running.get(query_id)
        if content is None:
            return None
        revoked = ",".join(self.revoked)
        if query_id not in self._tags:
            self._tags[query_id] = _tag(content, revoked)
        return content, self._tags[query_id], revoked

    def all(self) -> list[tuple[QueryHeader, SignedQuery, int | None]]:
        """Every stored version, and when it was stopped, if it was."""
        rows = self._connection.execute(
            "SELECT signed, stopped FROM versions ORDER BY id, serial"
        ).fetchall()
        found = [(SignedQuery.from_bytes(content), stopped) for content, stopped in rows]
        return [(signed.header(), signed, stopped) for signed, stopped in found]

    def channels(self) -> dict[int, Channel]:
        """The channels of all queries, including stopped ones."""
        return channels_of(self._by_age)

    def tags(self) -> dict[str, int]:
        """The channel of each query, including stopped ones."""
        return {header.id: header.channel_tag for header, _ in self._versions}

    def over(self, before: int) -> set[str]:
        """The ids of stored queries whose last version was stopped or expired, grace included,
        before a time."""
        ends: dict[str, int] = {}
        for header, stopped in self._versions:
            end = (header.schedule.expires if stopped is None else stopped) + (header.grace or 0)
            ends[header.id] = max(ends.get(header.id, 0), end)
        return {name for name, end in ends.items() if end < before}

    def __len__(self) -> int:
        return sum(stopped is None for _, stopped in self._versions)

    def publish(
        self, query_id: str, content: bytes, before_commit: BeforeCommit = lambda *_: None
    ) -> bool:
        """Put a signed query on the board, replacing its older version; False if this exact version
        is already there.

        `before_commit` is called with it first: if that fails, nothing is changed.
        """
        now = self._clock()
        try:
            signed = SignedQuery.from_bytes(content)
            for key in signing_keys(signed) & set(self.revoked):
                raise RevokedKeyError(f"key {key} was revoked")
            query = (
                authenticate_header(signed, self._ring(), now)
                if self._ring is not None
                else signed.header()
            )
            check_version(query, now)
        except QueryError as error:
            raise RefusedError(error.reason.replace(" ", "_"), 422, str(error)) from None
        if query.id != query_id:
            raise RefusedError(
                "query_id",
                422,
                f"the query's id is {query.id!r}, and the address says {query_id!r}",
            )
        for known, stopped in self._versions:
            if known.id != query.id:
                continue
            if known.analyst != query.analyst:
                raise RefusedError(
                    "query_id", 409, f"the id {query.id!r} is taken by a query of another analyst"
                )
            if known.serial == query.serial and known.digest == query.digest and stopped is None:
                return False
            if known.serial >= query.serial:
                raise RefusedError(
                    "rolled-back_query",
                    409,
                    f"version {known.serial} of query {query.id!r} was published before",
                )
        self._check_room(query, signed)
        try:
            check_joining(query, self._by_age, now)
            channels_of([*self._by_age, (query, None)])
        except ParameterError as error:
            raise RefusedError("channel", 409, str(error)) from None
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._stop(query.id, now)
            row = (query.id, query.serial, signed.to_bytes())
            self._connection.execute(
                "INSERT INTO versions (id, serial, signed) VALUES (?, ?, ?)", row
            )
            before_commit(query, signed)
        self._load()
        return True

    def _check_room(self, query: QueryHeader, signed: SignedQuery) -> None:
        """Refuse what is beyond the analyst's part of the longest list that devices accept."""
        wanted = {**self._running, query.id: _compact(signed.to_bytes())}
        if query.id not in self._shown(wanted, query):
            rule = (
                f"a board lists up to {MOST_LISTED} queries of {LARGEST_LIST} bytes together, a"
                " fair part for each analyst"
            )
            raise RefusedError(
                "board_full",
                409,
                f"{rule}, and that of {query.analyst!r} is taken: stop a query that is over",
            )

    def _shown(self, running: Mapping[str, bytes], added: QueryHeader | None = None) -> set[str]:
        """The ids of the queries that fit into the list, in fair parts; each analyst's oldest come
        first."""
        analysts = {header.id: header.analyst for header, _ in self._versions}
        if added is not None:
            analysts[added.id] = added.analyst
        names: dict[str, list[str]] = {}
        for name in running:
            names.setdefault(analysts[name], []).append(name)
        # with its comma
        sizes = {analyst: [len(running[name]) + 1 for name in of] for analyst, of in names.items()}
        fitting = fair_selection(sizes, LARGEST_LIST - 1, MOST_LISTED)
        return {name for analyst, of in names.items() for name in of[: fitting[analyst]]}

    def stop(self, query_id: str, before_commit: BeforeCommit = lambda *_: None) -> None:
        """Take a query off the board. Answers for the current epoch are still accepted."""
        running = [
            query for query, stopped in self._versions if query.id == query_id and stopped is None
        ]
        if not running:
            raise RefusedError("unknown_query", 404, "there is no such query on the board")
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._stop(query_id, self._clock())
            before_commit(running[-1], self._signed[query_id])
        self._load()

    def revoke(
        self, keys: Iterable[str], before_commit: BeforeCommit = lambda *_: None
    ) -> list[str]:
        """Permanently stop relaying anything these keys signed, and notify devices; returns the
        newly revoked keys."""
        fresh = sorted(
            set(keys) - {key for (key,) in self._connection.execute("SELECT key FROM revoked")}
        )
        if fresh:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                now = self._clock()
                self._connection.executemany(
                    "INSERT INTO revoked VALUES (?, ?)", [(key, now) for key in fresh]
                )
                self._withdraw(
                    lambda signed: bool(signing_keys(signed) & set(fresh)), before_commit
                )
            self._load()
        return fresh

    def withdraw_unknown(self, before_commit: BeforeCommit = lambda *_: None) -> bool:
        """Remove the queries whose key is no longer on the ring; returns whether there were any."""
        if self._ring is None:
            return False
        known = {trusted.key.id for trusted in self._ring()}
        if all(signed.key_id in known for signed in self._signed.values()):
            return False
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._withdraw(lambda signed: signed.key_id not in known, before_commit)
        self._load()
        return True

    def _withdraw(self, is_bad: Callable[[SignedQuery], bool], before_commit: BeforeCommit) -> None:
        """Must run inside the caller's transaction."""
        headers = {query.id: query for query, stopped in self._versions if stopped is None}
        for query_id, signed in self._signed.items():
            if is_bad(signed):
                self._stop(query_id, self._clock())
                before_commit(headers[query_id], signed)

    def _stop(self, query_id: str, now: int) -> None:
        self._connection.execute(
            "UPDATE versions SET stopped = ? WHERE id = ? AND stopped IS NULL", (now, query_id)
        )

    def forget(self, before: int) -> int:
        """Delete versions that were stopped or expired more than their grace period before a time;
        returns how many.

        The newest version of a stopped query is deleted too: it is devices, not proxies, that
        refuse older versions.
        """
        old = [
            (query.id, query.serial)
            for query, stopped in self._versions
            if (query.schedule.expires if stopped is None else stopped) + (query.grace or 0)
            < before
        ]
        if old:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "DELETE FROM versions WHERE id = ? AND serial = ?", old
                )
            self._load()
        return len(old)


def _tag(content: bytes, revoked: str) -> str:
    return f'"{hashlib.sha256(content + revoked.encode()).hexdigest()[:32]}"'


def _compact(signed: bytes) -> bytes:
    """A signed query as it stands in the list."""
    return json.dumps(json.loads(signed), ensure_ascii=False, separators=(",", ":")).encode()
