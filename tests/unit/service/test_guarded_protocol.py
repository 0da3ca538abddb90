"""What a connection is told when its request cannot be parsed."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from deniable.service.http.guarded_protocol import guarded_protocol
from deniable.service.http.limits import ConnectionLimits


async def _answer(monkeypatch: pytest.MonkeyPatch, failure: Exception | None, sent: bytes) -> bytes:
    """What a client reads after sending this to a server whose bodies meet this failure."""
    from uvicorn.config import Config  # noqa: PLC0415
    from uvicorn.server import ServerState  # noqa: PLC0415

    refusals: Counter[str] = Counter()
    protocol: Any = guarded_protocol(ConnectionLimits(), refusals)

    def on_body(self: Any, body: bytes) -> None:
        if failure is not None:
            raise failure

    monkeypatch.setattr(protocol, "on_body", on_body)

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()

    config = Config(app, log_config=None)
    config.load()
    state = ServerState()
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(config=config, server_state=state, app_state={}), "127.0.0.1", 0
    )
    async with server:
        host, port = server.sockets[0].getsockname()
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(sent)
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
    return answer


_POST = b"POST /v1/shares HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"


@pytest.mark.parametrize(
    ("failure", "status", "reason"),
    [(MemoryError(), b"503", b"memory"), (ValueError("ours"), b"500", b"internal")],
)
def test_a_failure_of_ours_while_a_body_arrives_is_not_called_bad_http(
    monkeypatch: pytest.MonkeyPatch, failure: Exception, status: bytes, reason: bytes
) -> None:
    answer = asyncio.run(_answer(monkeypatch, failure, _POST))
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert reason in answer
    assert (b"Retry-After" in answer) == (status == b"503")
    assert b"ours" not in answer


def test_bytes_that_are_not_http_are_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asyncio.run(_answer(monkeypatch, None, b"\x00\x01\x02 / nonsense\r\n\r\n"))
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"bad_http" in answer
