"""HTTP connections that cannot be held open for nothing: uvicorn's protocol with a deadline for the head of a request.

Slow bodies are the service's business; here it is connections that send no head, or send one a byte at a time, and those that do
not read what they are sent.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BeforeValidator
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol

from deniable.checks import decimal
from deniable.errors import ParameterError
from deniable.service.limits import ConnectionLimits

__all__ = ["Number", "guarded_protocol", "parameters_problem", "problem"]


def problem(reason: str, status: int, detail: str) -> bytes:
    """A problem document (RFC 9457)."""
    title = STATUS_PHRASES[status].decode()
    fields = {"type": f"urn:deniable:problem:{reason}", "title": title, "status": status, "detail": detail, "reason": reason}
    return json.dumps(fields).encode()


def _digits(value: Any) -> int:
    try:
        return decimal("number", value)
    except ParameterError as error:
        raise ValueError(error.rule) from None


Number = Annotated[int, BeforeValidator(_digits)]
"""A whole number in an address, in plain digits: one that a column of SQLite holds."""


def parameters_problem(error: Exception) -> str:
    """What is wrong with the address of a request, or with its parameters."""
    if not isinstance(error, RequestValidationError):
        return "No such endpoint, or method not allowed."
    found = error.errors()[0]
    return f"{'.'.join(map(str, found['loc'][1:]))[:64]}: {found['msg'].removeprefix('Value error, ')[:200]}"


def guarded_protocol(limits: ConnectionLimits, refusals: Counter[str]) -> type[H11Protocol]:
    """The protocol class for a server with these limits; it counts what it refuses."""

    class Guarded(H11Protocol):
        _head_timer: asyncio.TimerHandle | None = None
        _stalled: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > limits.most_connections:
                self._turn_away("connections", 503, "Too many connections.")
            else:
                self._arm()

        def pause_writing(self) -> None:
            super().pause_writing()
            self._stalled = self.loop.call_later(limits.body_deadline, self._unread)

        def resume_writing(self) -> None:
            super().resume_writing()
            if self._stalled is not None:
                self._stalled.cancel()

        def _unread(self) -> None:
            """A client that does not read what it asked for is let go, and what was to be sent is dropped."""
            refusals["unread"] += 1
            self.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            if self._stalled is not None:
                self._stalled.cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self._between_requests() and self._head_timer is None:
                self._arm()
            super().data_received(data)
            if not self._between_requests():
                self._disarm()

        def send_400_response(self, msg: str) -> None:
            self._turn_away("bad_http", 400, "this is not a request of HTTP/1.1, or its head is too long")

        def _between_requests(self) -> bool:
            return self.cycle is None or self.cycle.response_complete

        def _arm(self) -> None:
            self._head_timer = self.loop.call_later(limits.header_deadline, self._too_slow)

        def _disarm(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _too_slow(self) -> None:
            self._turn_away("slow_head", 408, f"the head of a request must come within {limits.header_deadline} seconds")

        def _turn_away(self, reason: str, status: int, detail: str) -> None:
            if self.transport.is_closing():
                return
            refusals[reason] += 1
            self._disarm()
            body = problem(reason, status, detail)
            lines: list[Any] = [
                f"HTTP/1.1 {status} {STATUS_PHRASES[status].decode()}",
                "Content-Type: application/problem+json",
                f"Content-Length: {len(body)}",
                "Connection: close",
                *(["Retry-After: 5"] if status == 503 else []),
            ]
            self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)
            self.transport.close()

    return Guarded
