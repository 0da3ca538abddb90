"""Who is asking: a bearer token in a header, or in the cookie of a page that signed in with it.

The cookie holds the token itself, so the server keeps no sessions: a restart ends none, and a
revoked token ends all of its sessions at once. Scripts cannot read it (`HttpOnly`), and browsers
send it with requests from our own pages only (`SameSite=Strict`). A request that changes something
must also send a word that only our own pages can read from `GET /v1/session`, and must come from
our own origin.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import NamedTuple
from urllib.parse import urlsplit

from fastapi import Request, Response

from deniable.aggregator.service import Service
from deniable.aggregator.web.tokens import TokenHolder
from deniable.errors import RefusedError

__all__ = [
    "COOKIE",
    "CSRF_HEADER",
    "Caller",
    "authorize",
    "authorize_query",
    "csrf_word",
    "forget_cookie",
    "from_own_page",
    "set_cookie",
]

COOKIE = "deniable_session"
CSRF_HEADER = "x-deniable-csrf"
_SECONDS = 12 * 3600
_SAFE = ("GET", "HEAD")


def csrf_word(token: str) -> str:
    """What a page sends along with its cookie when it changes something."""
    return hmac.new(
        token.encode(errors="surrogateescape"), b"deniable csrf 1", hashlib.sha256
    ).hexdigest()


def from_own_page(request: Request) -> bool:
    """Whether the request can only have come from a page of this origin, according to the headers
    that browsers set."""
    origin = request.headers.get("origin")
    if origin is not None:
        return urlsplit(origin).netloc == request.headers.get("host", "")
    return request.headers.get("sec-fetch-site", "same-origin") in ("same-origin", "none")


class Caller(NamedTuple):
    """Who is asking: the token presented, and its holder."""

    token: str
    holder: TokenHolder


def authorize(service: Service, request: Request) -> Caller:
    """Who is asking, if they present a known token."""
    token = _shown(request)
    holder = service.holder_of(token) if token else None
    request.state.actor = (
        "no token" if not token else "unknown token" if holder is None else holder.actor
    )
    if holder is None:
        raise RefusedError(
            "token",
            401,
            "this needs the header 'Authorization: Bearer …' with a token of this aggregator",
        )
    return Caller(token, holder)


def authorize_query(service: Service, request: Request, query_id: str, right: str) -> Caller:
    """Who is asking, if they may do this with a query.

    Without any right on a query, they cannot find out whether it exists: the response is the same
    as if it did not.
    """
    caller = authorize(service, request)
    owner = service.queries.owner_of(query_id)
    held = () if owner is None else caller.holder.rights(owner)
    if not held:
        raise RefusedError(
            "unknown_query",
            404,
            f"there is no query {query_id[:64]!r} here that this token may see",
        )
    if right not in held:
        raise RefusedError(
            "right",
            403,
            f"this needs the right to {right}; this token's rights are: {', '.join(held)}",
        )
    return caller


def _shown(request: Request) -> str:
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind:
        return token.strip() if kind.lower() == "bearer" else ""
    token = request.cookies.get(COOKIE, "")
    if token and request.method not in _SAFE:
        word = request.headers.get(CSRF_HEADER, "")
        if not from_own_page(request) or not hmac.compare_digest(
            word.encode(), csrf_word(token).encode()
        ):
            raise RefusedError(
                "csrf",
                403,
                f"a signed-in page must send its word in the header {CSRF_HEADER}, from this"
                " origin",
            )
    return token


def set_cookie(request: Request, response: Response, token: str) -> None:
    """Sign the browser in, until it is closed or half a day has passed."""
    response.set_cookie(
        COOKIE,
        token,
        max_age=_SECONDS,
        path="/",
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )


def forget_cookie(request: Request, response: Response) -> None:
    """Sign the browser out."""
    response.delete_cookie(
        COOKIE, path="/", secure=request.url.scheme == "https", httponly=True, samesite="strict"
    )
