"""The server's protocol on httptools: uvicorn's own, plus a fast path for the hot addresses
(:mod:`deniable.service.http.hot_path`).

A hot request gets neither a scope nor a task: its parsed headers and body go to the address, and
the response goes to the transport. This applies if the request arrived in one piece and no earlier
one on the connection is still unanswered. Every other request takes uvicorn's path from its head
on, as if there were no fast path.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl

from deniable.service.http.hot_path import HotAddress, HotFront, Preflight, Reply
from deniable.service.http.request_rules import common_lines

__all__ = ["HotProtocol"]

_STATUS_LINES = {
    each.value: f"HTTP/1.1 {each.value} {each.phrase}\r\n".encode() for each in HTTPStatus
}


_default: tuple[object, bytes] = None, b""


def _default_lines(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The headers of every response, such as the date, as lines; uvicorn makes a new list of them
    every second."""
    global _default  # noqa: PLW0603 - the last ones, made once per second instead of once per request
    if _default[0] is not headers:
        _default = headers, b"".join(b"%b: %b\r\n" % each for each in headers)
    return _default[1]


class _NoEvent:
    def set(self) -> None:
        """Do nothing: a complete request has nothing to wait for."""


_NO_EVENT = _NoEvent()


class _HotCycle:
    """A hot request until it is answered; implements what the protocol needs of uvicorn's cycle."""

    __slots__ = ("_page_lines", "_protocol", "disconnected", "keep_alive", "response_complete")
    message_event = _NO_EVENT

    def __init__(self, protocol: HotProtocol, keep_alive: bool, page_lines: bytes) -> None:
        self._protocol, self.keep_alive, self._page_lines = protocol, keep_alive, page_lines
        self.response_complete = self.disconnected = False

    def send(self, reply: Reply) -> None:
        """Answer the request, unless the client has disconnected."""
        protocol = self._protocol
        if self.response_complete or self.disconnected or protocol.transport.is_closing():
            return
        self.response_complete = True
        status, headers, body = reply
        closing = b"" if self.keep_alive else b"connection: close\r\n"
        length = b"" if status in (304, 204) else b"content-length: %d\r\n" % len(body)
        lines = _default_lines(protocol.server_state.default_headers)
        common = common_lines(headers)
        parts = (
            _STATUS_LINES[status],
            lines,
            headers,
            common,
            self._page_lines,
            closing,
            length,
            b"\r\n",
            body,
        )
        protocol.transport.write(b"".join(parts))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


class HotProtocol(HttpToolsProtocol):
    """uvicorn's protocol with the fast path. `front` is set in a subclass made for one server."""

    front: HotFront | None = None
    _hot: HotAddress | None = None
    _hot_body = b""
    _n_preflights = 0
    _head: list[tuple[bytes, bytes]]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note the connection; its peer addresses are looked up for the first request that has a
        scope."""
        self.connections.add(self)
        self.transport, self.flow = transport, FlowControl(transport)

    def on_message_begin(self) -> None:
        """Begin a request; its scope is created only if it needs one."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def _cool(self) -> None:
        """Switch a request whose head has arrived to uvicorn's path."""
        if self.scheme is None:
            self.server, self.client = (
                get_local_addr(self.transport),
                get_remote_addr(self.transport),
            )
            self.scheme = "https" if is_ssl(self.transport) else "http"
        url, expected = self.url, self.expect_100_continue
        super().on_message_begin()
        self.headers += self._head  # the list that the scope refers to
        self.url, self.expect_100_continue = url, expected
        super().on_headers_complete()
        self.headers = []

    def on_headers_complete(self) -> None:
        """Take the fast path if this is a hot request and the next to be answered.

        What the parser calls headers from now on are trailers: they go into a list that nobody
        reads.
        """
        self._head, self.headers = self.headers, []
        front = self.front
        if (
            front is not None
            and (
                address := front.addresses.get((self.parser.get_method(), self.url))
                or self._rarer(front)
            )
            is not None
            and (self.cycle is None or self.cycle.response_complete)
            and not self.expect_100_continue
            and self.parser.get_http_version() == "1.1"
        ):
            self._hot, self._hot_body = address, b""
            return
        self._cool()

    def _rarer(self, front: HotFront) -> HotAddress | None:
        """A hot address that is not among the usual ones.

        Browsers wait for the reply to a preflight, and servers in front of us do not send requests
        ahead. Someone who sends many preflights ahead wants to keep the loop busy with them: at the
        second of one read, the connection is closed and the rest is not even parsed. So every
        connection gets one preflight answered per round of the loop, and uploads their turn.
        """
        found = front.rarer(self.parser.get_method(), self.url, self._head)
        if isinstance(found, Preflight):
            self._n_preflights += 1
            if self._n_preflights > 1:
                self.turn_away(
                    "preflights_ahead",
                    429,
                    "a preflight must wait for the reply to the one before it",
                )
                raise ConnectionAbortedError
        return found

    def turn_away(self, reason: str, status: int, detail: str) -> None:
        """Refuse whatever the connection sends, and close it; the server's protocol says how."""
        raise NotImplementedError

    def on_body(self, body: bytes) -> None:
        """Keep this part of the body."""
        if self._hot is None:
            super().on_body(body)
        else:
            self._hot_body += body

    def on_message_complete(self) -> None:
        """Answer a hot request that has arrived completely."""
        address = self._hot
        if address is None or self.front is None:
            super().on_message_complete()
            return
        self._hot = None
        page_lines = (
            b"" if self.front.pages is None else self.front.page_lines(address.path, self._head)
        )
        cycle: Any = _HotCycle(self, self.parser.should_keep_alive(), page_lines)
        self.cycle = cycle
        self.front.answer_now(address, self._head, self._hot_body, cycle.send)

    def data_received(self, data: bytes) -> None:
        """Parse the data; an incomplete hot request is switched to uvicorn's path."""
        self._n_preflights = 0
        super().data_received(data)
        if self._hot is not None:
            self._hot = None
            if not self.transport.is_closing():
                self._cool()
                if self._hot_body:
                    super().on_body(self._hot_body)
