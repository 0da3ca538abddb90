"""Codes: one answer each, and nothing that one proxy sees of a code tells what the other will see.

A code has 100 random bits. The page derives from it, by a keyed hash that cannot be inverted, a
different invitation for each proxy and question. A proxy knows only its own invitations, so proxies
that compare what they were shown cannot match them; the person who handed them out can.
"""

from __future__ import annotations

import base64
import hashlib
import secrets

__all__ = ["CODE_LENGTH", "invitation_of", "new_code"]

CODE_LENGTH = 20
"""Characters of base32: 100 bits, too many to try out."""


def new_code() -> str:
    """A fresh code."""
    return base64.b32encode(secrets.token_bytes(13)).decode()[:CODE_LENGTH]


def invitation_of(code: str, proxy: str, query: str) -> str:
    """What the page shows to a proxy in place of the code, for its share of the answer to one
    query.

    >>> one, two = (invitation_of("A" * 20, name, "poll") for name in ("one", "two"))
    >>> one == two
    False
    """
    said = f"deniable poll code 1\0{proxy}\0{query}".encode()
    return hashlib.blake2b(said, key=code.encode(), digest_size=32).hexdigest()
