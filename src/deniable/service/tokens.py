"""Bearer tokens: who may upload shares, publish queries, or read the log. Only their hashes are
stored.

A token is 256 random bits, so its plain SHA-256 reveals nothing about it, and no slow hash is
needed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.queries.texts import check_text
from deniable.queries.times import iso_time
from deniable.service.schemas.tokens import TOKENS

__all__ = [
    "ROLES",
    "Bound",
    "Role",
    "Token",
    "TokenStore",
    "check_bound",
    "new_token",
    "token_hash",
]

Role = Literal["device", "operator", "reader", "collector"]
ROLES: tuple[Role, ...] = ("device", "operator", "reader", "collector")
"""A device uploads shares; an operator publishes and stops queries; a reader (an aggregator) reads
the log over HTTP; a collector forwards the uploads of many devices."""
_DAY = 86_400
_PREFIX = "deniable_"
BeforeCommit = Callable[[Sequence[str]], object]


class Bound(NamedTuple):
    """What a token is good for, if not for everything: one query, so many messages in all, and
    until when."""

    query: str
    """The query's id. A proxy sees channels, so a token is good for the query's channel."""
    uses: int | None = None
    """How many messages may be sent under it in all."""
    ends: int | None = None
    """When it ends, in seconds of UTC."""


class Token(NamedTuple):
    """What is known about a token."""

    hash: bytes
    role: Role
    quota: int | None
    """How many messages may be sent under it per epoch of a channel; None for what the channel's
    queries allow a device."""
    first: bytes | None = None
    """The hash of the token that its holder was first given; None if this is the one."""
    bound: Bound | None = None
    """What it is good for; None if it is bound to no query."""

    @property
    def client(self) -> bytes:
        """What quotas are counted by: random bytes that stay with a holder whose token is
        rotated."""
        return self.hash if self.first is None else self.first

    @property
    def id(self) -> str:
        """The start of the hash: enough to name the token, useless to impersonate its holder."""
        return self.hash.hex()[:16]


class TokenStore:
    """The tokens of one proxy, in a file that other processes may change at any time.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> book = TokenStore(Path(folder.name) / "tokens.db")
    >>> (token,) = book.add("device")
    >>> book.find(token).role, book.find("deniable_guessed")
    ('device', None)
    >>> book.close(), folder.cleanup()
    (None, None)
    """

    def __init__(self, path: str | os.PathLike[str], read_only: bool = False) -> None:
        self._connection = TOKENS.connect(Path(path), read_only=read_only)
        self._version = -1
        self._know({})
        self._bound: dict[bytes, Token] = {}
        self._used: dict[bytes, int] = {}

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def add(
        self,
        role: Role,
        quota: int | None = None,
        count: int = 1,
        label: str = "",
        before_commit: BeforeCommit | None = None,
        bound: Bound | None = None,
    ) -> list[str]:
        """New tokens. This is the only time they are visible in clear.

        `before_commit` is called with their ids first: if it fails, none is created. `bound` limits
        what a device's token is for.
        """
        if role not in ROLES:
            raise ParameterError("role", role, f"must be one of {', '.join(ROLES)}")
        if quota is not None:
            whole("quota", quota, 1, 1 << 40)
        whole("count", count, 1, 1 << 24)
        if label:
            check_text("label", label, 100, "what the token is called")
        check_bound(role, bound)
        tokens = [new_token() for _ in range(count)]
        now = int(time.time())
        limits = bound or (None, None, None)
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            rows = [(token_hash(token), role, quota) for token in tokens]
            self._connection.executemany(_INSERT, [(*row, label, now, *limits) for row in rows])
            if before_commit is not None:
                before_commit([Token(*row).id for row in rows])
        # What this process wrote itself need not be read again: with a million tokens that would
        # take a second each time.
        self._known.update({row[0]: Token(*row, bound=bound) for row in rows})
        self._know(self._known)
        self._note_bound(self._known[row[0]] for row in rows)
        return tokens

    def know(self, token: str, bound: Bound | None) -> Token:
        """A device's token that its holder already has, such as an invitation; the one that is
        known, if it is."""
        found = self.find(token)
        if found is not None:
            return found
        made = Token(token_hash(token), "device", None, bound=bound)
        with self._connection:
            self._connection.execute(
                _INSERT,
                (made.hash, "device", None, "", int(time.time()), *(bound or (None, None, None))),
            )
        self._known[made.hash] = made
        self._know(self._known)
        self._note_bound([made])
        return made

    def bound(self) -> list[Token]:
        """The tokens that are bound to a query."""
        self._refresh()
        return list(self._bound.values())

    def delete(self, tokens: Sequence[Token]) -> None:
        """Delete these tokens: what they were made for is over."""
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "DELETE FROM tokens WHERE hash = ?", [(token.hash,) for token in tokens]
            )
        self._version = -1

    def rotate(self, token: str) -> str | None:
        """A new token in place of one that is presented, for the same client; None if that one is
        not, or no longer, known.

        One statement does both, so that no two requests can rotate a token twice.
        """
        fresh, before = new_token(), token_hash(token)
        sql = "UPDATE tokens SET hash = ?, made = ?, first = coalesce(first, hash) WHERE hash = ?"
        with self._connection:
            if not self._connection.execute(
                sql, (token_hash(fresh), int(time.time()), before)
            ).rowcount:
                return None
        self._refresh()
        known = self._known.pop(before, None)
        if known is not None:
            self._known[token_hash(fresh)] = known._replace(
                hash=token_hash(fresh), first=known.client
            )
            self._know(self._known)
        return fresh

    def revoke(self, token_id: str, before_commit: BeforeCommit | None = None) -> list[str]:
        """Delete the tokens whose id starts with `token_id`; returns their ids. A running proxy
        refuses them at once."""
        chosen = (
            [token for token in self.tokens() if token.id.startswith(token_id)] if token_id else []
        )
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.executemany(
                "DELETE FROM tokens WHERE hash = ?", [(token.hash,) for token in chosen]
            )
            if before_commit is not None:
                before_commit([token.id for token in chosen])
        self._version = -1
        return [token.id for token in chosen]

    def listed(self) -> list[dict[str, Any]]:
        """All tokens: id, role, quota, label, creation time, and day of last use, which is not
        recorded for devices."""
        sql = (
            "SELECT hash, role, quota, label, made, used, query, uses, ends FROM tokens ORDER BY"
            " hash"
        )
        rows = self._connection.execute(sql)
        return [
            {
                "id": key.hex()[:16],
                "role": role,
                "quota": quota,
                "label": label,
                "made": None if made is None else iso_time(made),
                "last_used": None if used is None else iso_time(used)[:10],
                **(
                    {}
                    if query is None
                    else {
                        "query": query,
                        "uses": uses,
                        "ends": None if ends is None else iso_time(ends),
                    }
                ),
            }
            for key, role, quota, label, made, used, query, uses, ends in rows
        ]

    def note_use(self, token: Token, now: int) -> None:
        """Record the day a token was used; not for devices, because that would log who was active
        when."""
        day = now // _DAY * _DAY
        if token.role == "device" or self._used.get(token.hash) == day:
            return
        with self._connection:
            self._connection.execute("UPDATE tokens SET used = ? WHERE hash = ?", (day, token.hash))
        self._used[token.hash] = day

    def tokens(self) -> list[Token]:
        """All tokens."""
        self._refresh()
        return list(self._known.values())

    def by_hash(self) -> Mapping[bytes, Token]:
        """All tokens, by hash; another object after every change."""
        self._refresh()
        return self._view

    def find(self, token: str) -> Token | None:
        """What is known about a presented token; None if it is unknown."""
        self._refresh()
        return self._known.get(token_hash(token))

    def _refresh(self) -> None:
        # changes when another process writes
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        if version != self._version:
            rows = self._connection.execute(
                "SELECT hash, role, quota, first, query, uses, ends FROM tokens ORDER BY hash"
            )
            # one text for all tokens of a role, not one each
            roles = {role: role for role in ROLES}
            bounds: dict[Bound, Bound] = {}  # and one bound for all that were made together
            known = {}
            for key, role, quota, first, *limits in rows:
                bound = None if limits[0] is None else Bound(*limits)
                known[key] = Token(
                    key, roles[role], quota, first, bound and bounds.setdefault(bound, bound)
                )
            self._know(known)
            self._bound = {}
            self._note_bound(known.values())
            self._version = version

    def _know(self, tokens: dict[bytes, Token]) -> None:
        self._known = tokens
        self._view = MappingProxyType(tokens)

    def _note_bound(self, tokens: Iterable[Token]) -> None:
        self._bound |= {token.hash: token for token in tokens if token.bound is not None}


_INSERT = (
    "INSERT INTO tokens (hash, role, quota, label, made, query, uses, ends) VALUES (?, ?, ?, ?, ?,"
    " ?, ?, ?)"
)


def check_bound(role: str, bound: Bound | None) -> None:
    """Refuse a bound that makes no sense."""
    if bound is None:
        return
    if role != "device":
        raise ParameterError(
            "query",
            bound.query,
            f"must be left out for the role {role}: only devices' tokens are bound",
        )
    if not isinstance(bound.query, str) or not re.fullmatch(
        "[a-z0-9][a-z0-9._-]{0,63}", bound.query
    ):
        raise ParameterError("query", bound.query, "must be the id of a query")
    for name in ("uses", "ends"):
        if getattr(bound, name) is not None:
            whole(name, getattr(bound, name), 1, 1 << 40)


def new_token() -> str:
    """A token in clear: 256 random bits."""
    return _PREFIX + secrets.token_urlsafe(32)


def token_hash(token: str) -> bytes:
    """The hash that a service stores for a token and looks it up by, whatever the text is: a header
    may hold any bytes, and JSON any surrogate."""
    try:
        content = token.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        content = token.encode(errors="surrogatepass")
    return hashlib.sha256(content).digest()
