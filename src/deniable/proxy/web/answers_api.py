"""`POST /v1/answers`: enrol and upload in one request, also for a page that is about to close.

The credential is in the body: a token, an invitation or a ticket. No cookie and no header is read
for it, so anyone who makes a browser send this request can do what the bearer of that credential
may do, and nothing else. That is why `text/plain` is accepted, which a browser sends without asking
first; a page whose origin is not named is refused all the same.
"""

from __future__ import annotations

import asyncio
import binascii
import json
from base64 import b64decode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response

from deniable.errors import RefusedError
from deniable.proxy.intake.admission import ShareUploads
from deniable.service.http.cross_origin import CrossOrigin
from deniable.service.http.hot_path import Reply, header_pairs

if TYPE_CHECKING:
    from deniable.proxy.service import ProxyService

__all__ = ["ANSWER_TYPES", "add_answers"]

ANSWER_TYPES = ("application/json", "text/plain")
_KEYS = frozenset({"token", "invitation", "ticket", "signature", "shares"})
_ROOM = 1 << 13
"""Bytes of a body beside the shares."""


def add_answers(
    app: FastAPI, proxy: ProxyService, uploads: ShareUploads, pages: CrossOrigin | None
) -> None:
    """Serve the address."""

    @app.post("/v1/answers", status_code=202)
    async def take_answer(request: Request) -> Response:
        """Accept shares with the credential in the body: a token or, once, an invitation or a
        ticket.

        The body is JSON, as `application/json` or `text/plain`. Sending it again is safe: shares
        are recognised by their ids.
        """
        _check_sender(request, pages)
        largest = uploads.largest * 4 // 3 + _ROOM
        given = _parsed(await proxy.receive(request, largest))
        shares = _shares(given, uploads.largest)
        token = proxy.enrolment.known(
            {name: given[name] for name in given if name != "shares"}, proxy.address_of(request)
        )
        reply = await _taken(uploads, token, shares)
        response = Response(reply.body, reply.status)
        response.raw_headers += header_pairs(reply.headers)
        return response


def _check_sender(request: Request, pages: CrossOrigin | None) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ANSWER_TYPES:
        raise RefusedError(
            "media_type", 415, f"an answer must be sent as {' or '.join(ANSWER_TYPES)}"
        )
    origin = request.headers.get("origin")
    if origin is not None and (pages is None or not pages.allows(request.headers.raw)):
        raise RefusedError(
            "origin", 403, "pages of this origin may not use this service (browser.origins)"
        )


def _parsed(body: bytes) -> Mapping[str, Any]:
    try:
        given = json.loads(body)
    except (ValueError, RecursionError):
        given = None
    credentials = (
        {"token", "invitation", "ticket"} & set(given) if isinstance(given, dict) else set()
    )
    if not isinstance(given, dict) or set(given) - _KEYS or len(credentials) != 1:
        what = "a JSON object with shares and a token, an invitation, or a ticket and its signature"
        raise RefusedError("answer_request", 400, f"the body must be {what}")
    return given


def _shares(given: Mapping[str, Any], largest: int) -> bytes:
    try:
        content = b64decode(given["shares"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise RefusedError(
            "answer_request", 400, "shares must be share records in base64"
        ) from None
    if len(content) > largest:
        raise RefusedError("too_large", 413, f"a body has at most {largest} bytes of shares")
    return content


async def _taken(uploads: ShareUploads, token: Any, shares: bytes) -> Reply:
    future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
    upload = uploads.of(token)
    try:
        upload.received(len(shares))
        upload.finish(shares, lambda reply: None if future.done() else future.set_result(reply))
        return await future
    finally:
        upload.close()
