"""HTTP connections that cannot be held open idly: uvicorn's protocol with a deadline for the head
of a request.

The service itself handles slow bodies; this module handles connections that send no head, or send
it a byte at a time, and those that do not read their responses. The parser is httptools if it is
installed, and otherwise h11.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from http import HTTPStatus
from typing import Any

from deniable.errors import RefusedError
from deniable.service.http.cross_origin import CrossOrigin
from deniable.service.http.hot_path import HotFront, internal_error
from deniable.service.http.limits import ConnectionLimits
from deniable.service.http.server import problem

__all__ = ["guarded_protocol"]

_LARGEST_HEAD = 1 << 16
"""Bytes of the head of a request."""


def guarded_protocol(
    limits: ConnectionLimits,
    refusals: Counter[str],
    app: Any = None,
    pages: CrossOrigin | None = None,
) -> Any:
    """The protocol class for a server with these limits. It counts what it refuses; `pages` may
    read why.

    If the application is a :class:`~deniable.service.http.hot_path.HotFront`, its hot addresses are
    answered in the protocol.
    """
    try:
        from deniable.service.http.hot_protocol import HotProtocol  # noqa: PLC0415 - httptools may not be there
    except ImportError:
        from uvicorn.protocols.http.h11_impl import H11Protocol  # noqa: PLC0415 - only where it is needed

        return _guarded(H11Protocol, limits, refusals, pages)
    guarded = _guarded(HotProtocol, limits, refusals, pages)
    guarded.front = app if isinstance(app, HotFront) else None
    return guarded


def _failure_while_parsing(error: BaseException | None) -> RefusedError | None:
    """The refusal for a failure of ours while a request was parsed, such as having no memory for
    its body, which httptools reports as if the request were not HTTP."""
    if type(error).__name__ != "HttpParserCallbackError":  # of httptools, which may not be there
        return None
    own = None if error is None else error.__context__
    return internal_error(own) if isinstance(own, Exception) else None


class _Guarded(asyncio.Protocol):
    """What is put before uvicorn's protocol: deadlines, and refusals that are counted."""

    limits: ConnectionLimits
    refusals: Counter[str]
    pages: CrossOrigin | None
    # uvicorn's
    connections: set[Any]
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    timeout_keep_alive_task: asyncio.TimerHandle | None

    _head_timer: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _head_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if len(self.connections) > self.limits.most_connections:
            self.turn_away("connections", 503, "Too many connections.")
        else:
            self._arm()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.body_deadline, self._unread)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def _unread(self) -> None:
        """Disconnect a client that does not read its response, and drop what was to be sent."""
        self.refusals["unread"] += 1
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not self._awaits_head():
            self._disarm()
            self._head_bytes = 0
            return
        if self._head_timer is None:
            self._arm()
        self._head_bytes += len(data)
        if self._head_bytes > _LARGEST_HEAD:
            self.send_400_response("")

    def send_400_response(self, msg: str) -> None:
        refused = _failure_while_parsing(sys.exception()) or RefusedError(
            "bad_http", 400, "not an HTTP/1.1 request, or its head is too long"
        )
        self.turn_away(refused.reason, refused.status, refused.detail)

    def _awaits_head(self) -> bool:
        """Whether no request is in progress and none was just answered, so that the deadline
        for idle connections applies."""
        return (
            self.cycle is None or self.cycle.response_complete
        ) and self.timeout_keep_alive_task is None

    def _arm(self) -> None:
        self._head_timer = self.loop.call_later(self.limits.header_deadline, self._too_slow)

    def _disarm(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _too_slow(self) -> None:
        self.turn_away(
            "slow_head",
            408,
            f"the head of a request must come within {self.limits.header_deadline} seconds",
        )

    def turn_away(self, reason: str, status: int, detail: str) -> None:
        if self.transport.is_closing():
            return
        self.refusals[reason] += 1
        self._disarm()
        body = problem(reason, status, detail)
        lines: list[Any] = [
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            "Content-Type: application/problem+json",
            f"Content-Length: {len(body)}",
            "Connection: close",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            *(["Retry-After: 5"] if status == 503 else []),
        ]
        page_lines = b"" if self.pages is None else self.pages.before_the_head
        self.transport.write("\r\n".join([*lines, ""]).encode() + page_lines + b"\r\n" + body)
        self.transport.close()


def _guarded(
    base: Any, limits: ConnectionLimits, refusals: Counter[str], pages: CrossOrigin | None
) -> Any:
    own = {"limits": limits, "refusals": refusals, "pages": pages}
    return type("Guarded", (_Guarded, base), own)
