"""Bearer tokens of the aggregator's interface, in its state: whose they are, what they allow, and their hashes."""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from deniable.errors import ParameterError
from deniable.service.tokens import new_token, token_hash

__all__ = ["ROLES", "TokenHolder", "add_token", "find_token", "revoke_token"]

ROLES = ("analyst", "reader")
"""An analyst publishes and stops queries and reads results; a reader only reads."""


class TokenHolder(NamedTuple):
    """Who a token was made for."""

    name: str
    role: str


def add_token(connection: sqlite3.Connection, name: str, role: str, now: int) -> str:
    """A new token. This is the only time that it is seen in clear."""
    if role not in ROLES:
        raise ParameterError("role", role, f"must be one of {', '.join(ROLES)}")
    if not name or len(name) > 100:
        raise ParameterError("name", name, "must have 1 to 100 characters: whose token it is")
    token = new_token()
    connection.execute("INSERT INTO tokens VALUES (?, ?, ?, ?)", (token_hash(token), name, role, now))
    return token


def find_token(connection: sqlite3.Connection, token: str) -> TokenHolder | None:
    """Whose token it is that somebody shows, and what it is for; None for one that is not known."""
    row = connection.execute("SELECT name, role FROM tokens WHERE digest = ?", (token_hash(token),)).fetchone()
    return None if row is None else TokenHolder(*row)


def revoke_token(connection: sqlite3.Connection, name: str) -> int:
    """Forget all tokens of this name; how many there were."""
    return connection.execute("DELETE FROM tokens WHERE name = ?", (name,)).rowcount
