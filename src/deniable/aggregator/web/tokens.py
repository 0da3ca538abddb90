"""Bearer tokens of the aggregator's interface, in its state: whose they are, what they allow, and
their hashes.

Queries belong to the analyst who signed them. A token belongs to an analyst and has rights on that
analyst's queries; it can be granted rights on another's. An operator's token is for running the
service: it stops any query, and reads no result.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from deniable.errors import ParameterError
from deniable.queries.texts import check_text
from deniable.queries.times import iso_time
from deniable.service.tokens import new_token, token_hash

__all__ = [
    "RIGHTS",
    "TokenHolder",
    "add_token",
    "find_token",
    "grant",
    "list_tokens",
    "note_use",
    "parse_rights",
    "revoke_tokens",
    "token_id",
]

RIGHTS = ("read", "publish", "stop", "delete")
"""Read a query and its results; publish queries that the analyst signed; stop them; delete their
stored reports."""
ANALYST, OPERATOR = "analyst", "operator"
_DAY = 86_400


class TokenHolder(NamedTuple):
    """Who a token was made for, and what it allows."""

    id: str
    label: str
    analyst: str
    """Empty for an operator's token."""
    role: str
    grants: Mapping[str, frozenset[str]]
    """By analyst, the rights on that analyst's queries."""

    @property
    def actor(self) -> str:
        """Its name in the audit log."""
        return f"token:{self.id}"

    @property
    def owner(self) -> str:
        """Whose part of the service's resources it uses: the analyst's, however many tokens they
        have."""
        return self.analyst or self.actor

    @property
    def name(self) -> str:
        """Its name for people."""
        return self.analyst or self.label

    def rights(self, analyst: str) -> tuple[str, ...]:
        """What it allows with the queries of an analyst."""
        if self.role == OPERATOR:
            return ("stop",)
        held = self.grants.get(analyst, frozenset())
        return tuple(right for right in RIGHTS if right in held)

    def may(self, right: str, analyst: str) -> bool:
        """Whether it allows this with the queries of an analyst."""
        return right in self.rights(analyst)

    def may_somewhere(self, right: str) -> bool:
        """Whether it allows this with the queries of any analyst."""
        return any(right in self.rights(analyst) for analyst in self.grants)

    @property
    def readable(self) -> frozenset[str]:
        """The analysts whose queries and results it may read."""
        return frozenset(analyst for analyst in self.grants if self.may("read", analyst))


def parse_rights(name: str, text: str) -> tuple[str, ...]:
    """Rights as people write them: comma-separated names, or `none`."""
    given = [] if text.strip() == "none" else [part.strip() for part in text.split(",")]
    for right in given:
        if right not in RIGHTS:
            raise ParameterError(
                name, right, f"must be some of {', '.join(RIGHTS)}, separated by commas, or none"
            )
    return tuple(right for right in RIGHTS if right in given)


def token_id(token: str) -> str:
    """The start of a token's hash: enough to name it, useless to impersonate its holder."""
    return token_hash(token).hex()[:16]


def add_token(
    connection: sqlite3.Connection,
    analyst: str,
    may: Collection[str],
    now: int,
    label: str = "",
    operator: bool = False,
) -> str:
    """A new token. It is never shown again in clear."""
    if operator and (analyst or may):
        raise ParameterError(
            "operator", True, "must be given alone: an operator's token belongs to no analyst"
        )
    if not operator:
        check_text("analyst", analyst, 200, "whose token it is, as in the queries they sign")
    _check_rights(may)
    if label:
        check_text("label", label, 100, "what the token is called")
    token, role = new_token(), OPERATOR if operator else ANALYST
    row = (token_hash(token), label, analyst, role, now)
    connection.execute(
        "INSERT INTO tokens (hash, label, analyst, role, made) VALUES (?, ?, ?, ?, ?)", row
    )
    if not operator:
        grant(connection, token_id(token), analyst, may)
    return token


def grant(connection: sqlite3.Connection, chosen: str, analyst: str, may: Collection[str]) -> str:
    """Give a token, named by its id or a prefix of it, exactly these rights on an analyst's
    queries; returns its full id."""
    _check_rights(may)
    digest, role = _one(connection, chosen)
    if role == OPERATOR:
        raise ParameterError(
            "token", chosen, "is an operator's, which has no rights on the queries of an analyst"
        )
    connection.execute("DELETE FROM grants WHERE hash = ? AND analyst = ?", (digest, analyst))
    if may:
        connection.execute("INSERT INTO grants VALUES (?, ?, ?)", (digest, analyst, ",".join(may)))
    return digest.hex()[:16]


def _check_rights(may: Collection[str]) -> None:
    for right in may:
        if right not in RIGHTS:
            raise ParameterError("may", right, f"must be some of {', '.join(RIGHTS)}")


def _one(connection: sqlite3.Connection, chosen: str) -> tuple[bytes, str]:
    found = _chosen(connection, chosen)
    if len(found) != 1:
        raise ParameterError(
            "token", chosen, f"must be the id of one token; {len(found) or 'no'} tokens have it"
        )
    return found[0]


def _chosen(connection: sqlite3.Connection, chosen: str) -> list[tuple[bytes, str]]:
    if not chosen or not set(chosen) <= set("0123456789abcdef"):
        raise ParameterError(
            "token", chosen, "must be a token's id, or the start of one, in hexadecimal digits"
        )
    rows = connection.execute("SELECT hash, role FROM tokens").fetchall()
    return [(digest, role) for digest, role in rows if digest.hex().startswith(chosen)]


def find_token(connection: sqlite3.Connection, token: str) -> TokenHolder | None:
    """The holder of a presented token, and what it allows; None for an unknown token."""
    digest = token_hash(token)
    row = connection.execute(
        "SELECT label, analyst, role FROM tokens WHERE hash = ?", (digest,)
    ).fetchone()
    return (
        None
        if row is None
        else TokenHolder(digest.hex()[:16], row[0], row[1], row[2], _grants(connection, digest))
    )


def note_use(connection: sqlite3.Connection, ids: Collection[str], now: int) -> None:
    """Record the day on which tokens were used. Only the day: this is not a log of who looks
    when."""
    rows = connection.execute("SELECT hash FROM tokens").fetchall()
    used = [(now // _DAY * _DAY, digest) for (digest,) in rows if digest.hex()[:16] in ids]
    connection.executemany("UPDATE tokens SET used = ? WHERE hash = ?", used)


def _grants(connection: sqlite3.Connection, digest: bytes) -> dict[str, frozenset[str]]:
    rows = connection.execute(
        "SELECT analyst, rights FROM grants WHERE hash = ? ORDER BY analyst", (digest,)
    )
    return {analyst: frozenset(rights.split(",")) for analyst, rights in rows}


def list_tokens(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """All tokens, oldest first: id, label, analyst, role, rights by analyst, when created, and the
    day of last use."""
    rows = connection.execute(
        "SELECT hash, label, analyst, role, made, used FROM tokens ORDER BY made, hash"
    ).fetchall()
    out = []
    for digest, label, analyst, role, made, used in rows:
        holder = TokenHolder(digest.hex()[:16], label, analyst, role, _grants(connection, digest))
        rights = {other: list(holder.rights(other)) for other in holder.grants}
        day = None if used is None else iso_time(used)[:10]
        head = {
            "id": holder.id,
            "label": label,
            "analyst": analyst or None,
            "role": role,
            "rights": rights,
        }
        out.append({**head, "made": iso_time(made), "last_used": day})
    return out


def revoke_tokens(connection: sqlite3.Connection, chosen: str) -> list[str]:
    """Delete the tokens whose ids have this prefix; returns their ids. A running aggregator refuses
    them at the next request."""
    found = _chosen(connection, chosen)
    for digest, _ in found:
        for table in ("tokens", "grants"):
            connection.execute(f"DELETE FROM {table} WHERE hash = ?", (digest,))  # noqa: S608 - no input
    return [digest.hex()[:16] for digest, _ in found]
