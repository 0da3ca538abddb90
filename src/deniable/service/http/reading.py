"""Reading another service's responses with limits on size and time, and without decompression.

A size limit means little once data are decompressed: a megabyte of gzip can hold a gigabyte of
zeros. So no compression is requested, a response that is compressed anyway is refused, and the
bytes are counted as they arrive.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from deniable.errors import ResponseError

__all__ = ["Answer", "ask", "bearer", "lines", "read"]

_LARGEST_PROBLEM = 1 << 16
"""Bytes read of a response that is not a success: a problem document."""
_SECONDS = 120.0
"""How long to wait for a complete response, however slowly it arrives."""


class Answer(NamedTuple):
    """A service's response."""

    status: int
    headers: Mapping[str, str]
    """Names are case-insensitive."""
    content: bytes

    @property
    def is_success(self) -> bool:
        """Whether the status is a success."""
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """The content as text, for a person to read."""
        return self.content.decode(errors="replace")


def ask(
    client: Any,
    method: str,
    address: str,
    most_bytes: int,
    seconds: float = _SECONDS,
    look: Callable[[Any], None] = lambda _: None,
    **what: Any,
) -> Answer:
    """The response to a request, of limited size; `what` is passed to `httpx.Client.stream`, and
    the response to `look`.

    Raises `ResponseError` if there is no response (with status 0), or if it is too long, too slow
    or compressed.
    """
    import httpx  # noqa: PLC0415 - slow to import

    what["headers"] = {**(what.get("headers") or {}), "Accept-Encoding": "identity"}
    try:
        with client.stream(method, address, **what) as response:
            look(response)
            return read(response, most_bytes, seconds)
    except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
        # a request is written once its connection, TLS included, has been made
        unsent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        raise ResponseError(0, *_why(error), unsent=unsent) from None
    except UnicodeError:
        detail = "cannot be reached: its address or the token holds a character it must not"
        raise ResponseError(0, "unreachable", detail) from None


def _why(error: BaseException) -> tuple[str, str]:
    """Why there was no response: a reason ("certificate", "silent", "unreachable"), and words that
    a person can act on."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            hint = "is the authority that signed it installed here?"
            return "certificate", f"its certificate is not trusted: {cause.verify_message} ({hint})"
        if isinstance(cause, ssl.SSLError):
            return (
                "certificate",
                f"TLS failed: {(cause.reason or 'no reason given').replace('_', ' ').lower()}",
            )
        if isinstance(cause, ConnectionRefusedError):
            return "unreachable", "cannot be reached: nobody listens there"
        if isinstance(cause, socket.gaierror):
            return "unreachable", "cannot be reached: its name is not known"
        if isinstance(cause, TimeoutError):
            return "silent", "did not answer in time"
        cause = cause.__cause__ or cause.__context__
    return "unreachable", f"cannot be reached ({type(error).__name__})"


def bearer(token: str) -> dict[str, str]:
    """The authorization header for a token, if there is one."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def read(response: Any, most_bytes: int, seconds: float = _SECONDS) -> Answer:
    """The rest of a streamed response, of at most `most_bytes`; of a problem document, only as much
    as a person would read."""
    _refuse_compressed(response)
    deadline = time.monotonic() + seconds
    content = bytearray()
    for chunk in response.iter_raw():
        content += chunk
        if response.is_success and len(content) > most_bytes:
            raise ResponseError(
                response.status_code, "too_large", f"the answer has more than {most_bytes} bytes"
            )
        if not response.is_success and len(content) > _LARGEST_PROBLEM:
            break
        if time.monotonic() > deadline:
            raise ResponseError(
                response.status_code,
                "slow",
                f"the answer was not complete after {seconds:g} seconds",
            )
    return Answer(response.status_code, response.headers, bytes(content))


def lines(response: Any, longest: int) -> Iterator[str]:
    """The lines of a streamed response, each of at most `longest` bytes."""
    _refuse_compressed(response)
    line = bytearray()
    for chunk in response.iter_raw():
        for i, part in enumerate(chunk.split(b"\n")):
            if i:
                yield line.decode(errors="replace").removesuffix("\r")
                line = bytearray()
            line += part
            if len(line) > longest:
                raise ResponseError(
                    response.status_code,
                    "too_large",
                    f"a line of the answer has more than {longest} bytes",
                )


def _refuse_compressed(response: Any) -> None:
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding.strip().lower() not in ("", "identity"):
        detail = f"the answer is compressed ({encoding[:40]!r}), which was not asked for"
        raise ResponseError(response.status_code, "encoding", detail)
