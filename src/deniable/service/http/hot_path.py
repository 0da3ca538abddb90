"""The performance-critical addresses of a service, served without a framework: no dependency
injection, no task per request.

A :class:`HotAddress` begins with the headers, finishes with the body, and replies through a
callback. It is reached in two ways. :class:`HotFront` is a plain ASGI application in front of the
service's own; it reads any body, however it arrives.
:class:`~deniable.service.http.hot_protocol.HotProtocol` (if httptools is installed) answers a
request right where it is parsed, if it arrived in one piece, and leaves all others to the
application.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from deniable.errors import RefusedError
from deniable.service.http.cross_origin import PREFLIGHTS, CrossOrigin
from deniable.service.http.server import problem

__all__ = [
    "Headers",
    "HotAddress",
    "HotFolder",
    "HotFront",
    "HotRequest",
    "Preflight",
    "Reply",
    "header",
    "header_pairs",
    "refusal",
]

Headers = Sequence[tuple[bytes, bytes]]
"""Names in lower case."""
_SECONDS_TO_DRAIN = 2.0


class Reply(NamedTuple):
    """A response as it is sent: the headers are complete lines, without Content-Length."""

    status: int
    headers: bytes
    body: bytes


class HotRequest(Protocol):
    """A request in progress, and the resources it holds until it is answered."""

    def received(self, n_bytes: int) -> None:
        """Count bytes that have arrived; raises :class:`RefusedError` if there is no room for
        them."""

    def finish(self, body: bytes, send: Callable[[Reply], None]) -> None:
        """Answer it, now or later, in the event loop's thread; or raise :class:`RefusedError`."""

    def close(self) -> None:
        """Release what it held."""


class HotAddress(Protocol):
    """One method of one address."""

    method: bytes
    path: bytes
    largest: int
    """Bytes of a body."""
    deadline: float
    """Seconds within which a body must arrive."""

    def begin(self, headers: Headers) -> HotRequest:
        """A request whose head has arrived; raises :class:`RefusedError`."""


class HotFolder(Protocol):
    """One method of all addresses below a path."""

    method: bytes
    path: bytes
    """Ends with a slash."""

    def at(self, path: bytes) -> HotAddress | None:
        """The address at a path; None if it is not one of its own."""


def header(headers: Headers, name: bytes) -> bytes:
    """The value of a header; empty if it is missing."""
    for each, value in headers:
        if each == name:
            return value
    return b""


def refusal(error: RefusedError) -> Reply:
    """The response to a refused request."""
    lines = b"content-type: application/problem+json\r\n"
    if error.retry_after is not None:
        lines += b"retry-after: %d\r\n" % error.retry_after
    if error.status == 401:
        lines += b"www-authenticate: Bearer\r\n"
    if error.status == 408:
        lines += b"connection: close\r\n"
    return Reply(error.status, lines, problem(error.reason, error.status, error.detail))


class HotFront:
    """Answers the hot addresses, and passes all others to the application behind it."""

    def __init__(
        self,
        app: Any,
        addresses: Iterable[HotAddress],
        refusals: Counter[str],
        folders: Sequence[HotFolder] = (),
        pages: CrossOrigin | None = None,
    ) -> None:
        """`pages` says which web pages of other origins may use the service; None: none."""
        self.app, self.refusals, self.pages, self._folders = app, refusals, pages, folders
        self.addresses: Mapping[tuple[bytes, bytes], HotAddress] = {
            (each.method, each.path): each for each in addresses
        }

    def rarer(self, method: bytes, path: bytes, headers: Headers) -> HotAddress | None:
        """The address of a request that is not one of `addresses`, if it is hot: one in a folder,
        or a preflight."""
        for folder in self._folders:
            if method == folder.method and path.startswith(folder.path):
                return folder.at(path)
        if self.pages is not None and self.pages.is_preflight(method, path, headers):
            return Preflight(self.pages, path, self.refusals)
        return None

    def page_lines(self, path: bytes, headers: Headers) -> bytes:
        """The lines that let a page of another origin read the response, if it may."""
        pages = self.pages
        if pages is None or not (path in pages.paths.exact or pages.paths.methods(path)):
            return b""
        return pages.lines(headers)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """One request, or the lifespan of the application."""
        address = None
        if scope["type"] == "http":
            method, path = scope["method"].encode(), scope.get("raw_path") or scope["path"].encode()
            address = self.addresses.get((method, path)) or self.rarer(
                method, path, scope["headers"]
            )
        if address is None:
            await self.app(scope, receive, send)
            return
        reply = await self._reply(address, scope["headers"], receive)
        if reply is None:
            return
        headers = header_pairs(reply.headers)
        if reply.status != 204:
            headers.append((b"content-length", b"%d" % len(reply.body)))
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        await send(
            {"type": "http.response.body", "body": b"" if reply.status == 304 else reply.body}
        )

    async def _reply(self, address: HotAddress, headers: Headers, receive: Any) -> Reply | None:
        request, whole = None, False
        try:
            request = address.begin(headers)
            body = await _read(address, headers, receive, request)
            whole = True
            future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
            request.finish(body, lambda reply: None if future.done() else future.set_result(reply))
            return await future
        except RefusedError as error:
            self.refusals[error.reason] += 1
            # at once: others may use what it held while the rest of its body is drained
            if request is not None:
                request.close()
                request = None
            if not whole and error.status != 408:
                await _drain(headers, receive)
            return refusal(error)
        except ConnectionError:
            self.refusals["disconnected"] += 1
            return None
        except Exception as error:
            refused = internal_error(error)
            self.refusals[refused.reason] += 1
            return refusal(refused)
        finally:
            if request is not None:
                request.close()

    def answer_now(
        self, address: HotAddress, headers: Headers, body: bytes, send: Callable[[Reply], None]
    ) -> None:
        """Answer a request that has arrived completely."""
        request = None
        try:
            if len(body) > address.largest:
                raise too_large(address.largest)
            request = begun = address.begin(headers)
            request.received(len(body))

            def answer(reply: Reply) -> None:
                begun.close()
                send(reply)

            request.finish(body, answer)
        except Exception as error:
            if request is not None:
                request.close()
            refused = error if isinstance(error, RefusedError) else internal_error(error)
            self.refusals[refused.reason] += 1
            send(refusal(refused))


class Preflight:
    """A browser asks whether a page of another origin may send a request. The reply is ready-made,
    and no token is read."""

    __slots__ = ("_counts", "_lines", "_pages", "path")
    method, largest, deadline = b"OPTIONS", 1 << 12, 10.0

    def __init__(self, pages: CrossOrigin, path: bytes, counts: Counter[str]) -> None:
        self._pages, self.path, self._counts = pages, path, counts

    def begin(self, headers: Headers) -> Preflight:
        """Count it, and look at the origin."""
        self._counts[PREFLIGHTS] += 1
        self._lines = self._pages.preflight(self.path, headers)
        return self

    def received(self, n_bytes: int) -> None:
        """Ignore the body."""

    def finish(self, body: bytes, send: Callable[[Reply], None]) -> None:
        """Say what the page may send."""
        send(Reply(204, self._lines, b""))

    def close(self) -> None:
        """Nothing to release."""


def header_pairs(lines: bytes) -> list[tuple[bytes, bytes]]:
    """Complete header lines, as ASGI wants them."""
    return [
        (name, value)
        for name, _, value in (line.partition(b": ") for line in lines.split(b"\r\n")[:-1])
    ]


def too_large(largest: int) -> RefusedError:
    """The refusal of a body that is too long."""
    return RefusedError("too_large", 413, f"a body has at most {largest} bytes")


def internal_error(error: Exception) -> RefusedError:
    """The response to an unexpected failure, or to running out of memory."""
    if isinstance(error, MemoryError):
        return RefusedError(
            "memory", 503, "The proxy is out of memory; retry later.", retry_after=10
        )
    return RefusedError("internal", 500, "internal error; nothing was accepted")


async def _read(address: HotAddress, headers: Headers, receive: Any, request: HotRequest) -> bytes:
    """The body of a request, if it arrives in time, is not too long, and there is room for it as it
    arrives."""
    stated = header(headers, b"content-length")
    if stated.isdigit() and (len(stated) > 15 or int(stated) > address.largest):
        raise too_large(address.largest)
    content = bytearray()
    try:
        async with asyncio.timeout(address.deadline):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ConnectionResetError
                chunk = message.get("body", b"")
                if len(content) + len(chunk) > address.largest:
                    raise too_large(address.largest)
                request.received(len(chunk))
                content += chunk
                if not message.get("more_body", False):
                    return bytes(content)
    except TimeoutError:
        raise RefusedError(
            "slow_body", 408, f"the body must come within {address.deadline} seconds"
        ) from None


async def _drain(headers: Headers, receive: Any) -> None:
    """Keep reading and discarding for a moment, so that the response reaches a client that is still
    sending."""
    if not header(headers, b"transfer-encoding") and header(headers, b"content-length") in (
        b"",
        b"0",
    ):
        return
    try:
        async with asyncio.timeout(_SECONDS_TO_DRAIN):
            while (message := await receive())["type"] != "http.disconnect" and message.get(
                "more_body", False
            ):
                pass
    except TimeoutError:
        return
