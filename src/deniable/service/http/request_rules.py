"""What holds for every request and every response of every service, whichever part answers.

* A request has at most one `Authorization` header. Of two, a server in front could check one and we
  the other.
* A browser that asks what a page of another origin may send gets its reply here, and every response
  names that origin if it may.
* A response is neither stored by caches (unless it says for itself how it may be) nor read as
  another type than it states.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from deniable.errors import RefusedError
from deniable.service.http.cross_origin import PREFLIGHTS, CrossOrigin
from deniable.service.http.hot_path import Headers, Reply, header_pairs, refusal

__all__ = [
    "NO_SNIFF",
    "NO_STORE",
    "RequestRules",
    "check_authorization",
    "common_lines",
    "several_tokens",
]

NO_STORE = (b"cache-control", b"no-store")
NO_SNIFF = (b"x-content-type-options", b"nosniff")
_LINES = b"x-content-type-options: nosniff\r\n"
_STORED_LINES = _LINES + b"cache-control: no-store\r\n"


def common_lines(headers: bytes) -> bytes:
    """The lines to add to those that a response has: names in lower case."""
    return _LINES if b"cache-control:" in headers else _STORED_LINES


def check_authorization(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The value of the only `Authorization` header, empty without one; raises :class:`RefusedError`
    if there are several."""
    shown = [value for name, value in headers if name == b"authorization"]
    if len(shown) > 1:
        raise several_tokens()
    return shown[0] if shown else b""


def several_tokens() -> RefusedError:
    """The refusal of a request with more than one `Authorization` header."""
    return RefusedError(
        "authorization",
        400,
        "a request has at most one Authorization header, and this one has several",
    )


class RequestRules:
    """An ASGI application that enforces the rules around another."""

    def __init__(self, app: Any, refusals: Counter[str], pages: CrossOrigin | None = None) -> None:
        """`pages` says which web pages of other origins may use the application; None: none."""
        self._app, self._refusals, self._pages = app, refusals, pages

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or the lifespan of the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope.get("raw_path") or scope["path"].encode()
        added = [NO_SNIFF, NO_STORE]
        if self._pages is not None and self._pages.paths.methods(path):
            added += header_pairs(self._pages.lines(scope["headers"]))

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", ()))
                names = {name.lower() for name, _ in given}
                message = {
                    **message,
                    "headers": [*given, *(each for each in added if each[0] not in names)],
                }
            await send(message)

        try:
            check_authorization(scope["headers"])
            reply = self._preflight(scope["method"].encode(), path, scope["headers"])
        except RefusedError as error:
            self._refusals[error.reason] += 1
            status, lines, body = refusal(error)
            length = b"content-length: %d\r\n" % len(body)
            # the request's body is not read
            reply = Reply(status, lines + b"connection: close\r\n" + length, body)
        if reply is None:
            await self._app(scope, receive, send_with_headers)
            return
        headers = header_pairs(reply.headers)
        await send_with_headers(
            {"type": "http.response.start", "status": reply.status, "headers": headers}
        )
        await send({"type": "http.response.body", "body": reply.body})

    def _preflight(self, method: bytes, path: bytes, headers: Headers) -> Reply | None:
        """The reply to a preflight; None for any other request."""
        if self._pages is None or not self._pages.is_preflight(method, path, headers):
            return None
        self._refusals[PREFLIGHTS] += 1
        return Reply(204, self._pages.preflight(path, headers), b"")
