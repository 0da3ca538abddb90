"""What the services' HTTP interfaces share: problem documents, bodies, and errors in a URL's
parameters."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import BeforeValidator, WithJsonSchema

from deniable.checks import decimal
from deniable.errors import ParameterError, RefusedError
from deniable.queries.times import moment
from deniable.service.http.event_stream import EVENT_STREAM

if TYPE_CHECKING:
    from starlette.requests import Request

    from deniable.service.fair_parts import HeldStream

__all__ = [
    "EventResponse",
    "HeldStreamResponse",
    "Moment",
    "Number",
    "ProblemDocument",
    "parameters_problem",
    "problem",
    "read_body",
]


class ProblemDocument(TypedDict):
    """A problem (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    reason: str
    """One of the words in docs/errors.md."""


def problem(reason: str, status: int, detail: str) -> bytes:
    """A problem document (RFC 9457)."""
    title = HTTPStatus(status).phrase
    fields: ProblemDocument = {
        "type": f"urn:deniable:problem:{reason}",
        "title": title,
        "status": status,
        "detail": detail,
        "reason": reason,
    }
    return json.dumps(fields).encode()


async def read_body(request: Request, largest: int, seconds: float) -> bytes:
    """The body of a request, if it arrives in time and is not too long."""
    content = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                if len(content) + len(chunk) > largest:
                    raise RefusedError("too_large", 413, f"a body has at most {largest} bytes")
                content += chunk
    except TimeoutError:
        raise RefusedError(
            "slow_body", 408, f"the body must come within {seconds} seconds"
        ) from None
    return bytes(content)


class EventResponse(StreamingResponse):
    """Server-sent events, which no proxy on the way may hold back."""

    def __init__(self, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, headers={"X-Accel-Buffering": "no"}, media_type=EVENT_STREAM)


class HeldStreamResponse(EventResponse):
    """Server-sent events on a stream that is counted until the response has ended, even if it never
    began."""

    def __init__(self, stream: HeldStream, events: AsyncIterator[bytes]) -> None:
        super().__init__(events)
        self._stream = stream

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send the events until the client leaves or they end."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._stream.close()


def _digits(value: Any) -> int:
    try:
        return decimal("number", value)
    except ParameterError as error:
        raise ValueError(error.rule) from None


Number = Annotated[int, BeforeValidator(_digits)]
"""A whole number in a URL, in plain digits, that fits an SQLite column."""


def _moment(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return _digits(value)
    try:
        return moment("time", value)
    except ParameterError as error:
        raise ValueError(error.rule) from None


Moment = Annotated[
    int,
    BeforeValidator(_moment),
    WithJsonSchema({"type": "string", "description": "ISO 8601 (UTC), or seconds since 1970."}),
]
"""A time in a URL."""


def parameters_problem(error: Exception) -> str:
    """What is wrong with a request's URL or its parameters."""
    if not isinstance(error, RequestValidationError):
        return "No such endpoint, or method not allowed."
    found = error.errors()[0]
    return (
        f"{'.'.join(map(str, found['loc'][1:]))[:64]}:"
        f" {found['msg'].removeprefix('Value error, ')[:200]}"
    )
