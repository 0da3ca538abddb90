"""Answers of a service that come as a stream, as they do from a socket."""

from __future__ import annotations

from collections.abc import Callable

import httpx

__all__ = ["streamed"]


def streamed(handler: Callable[[httpx.Request], httpx.Response]) -> httpx.MockTransport:
    """A transport of what a handler answers, whose bytes are still to be read."""

    def answer(request: httpx.Request) -> httpx.Response:
        made = handler(request)
        return httpx.Response(
            made.status_code, headers=made.headers, stream=httpx.ByteStream(made.content)
        )

    return httpx.MockTransport(answer)
