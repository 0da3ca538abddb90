"""A server on this machine that answers whatever it is told to, and takes down what it was
asked."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["BOMB_BYTES", "HostileServer", "bomb"]

BOMB_BYTES = 256 << 20


@cache
def bomb() -> bytes:
    """A quarter of a megabyte of gzip that holds a quarter of a gigabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(1 << 20)
    return b"".join([*(packer.compress(zeros) for _ in range(BOMB_BYTES >> 20)), packer.flush()])


class HostileServer:
    """Answers every request with a status, headers and chunks of a body, until the client has
    enough."""

    def __init__(self) -> None:
        self.status = 200
        self.headers: dict[str, str] = {}
        self.body: Callable[[], Iterable[bytes]] = lambda: ()
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.sent = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", 0)))
                server.asked.append(
                    (f"{self.command} {self.path}", {k.lower(): v for k, v in self.headers.items()})
                )
                self.send_response(server.status)
                for name, value in server.headers.items():
                    self.send_header(name, value)
                self.send_header("connection", "close")
                self.end_headers()
                try:
                    for chunk in server.body():
                        self.wfile.write(chunk)
                        server.sent += len(chunk)
                except OSError:
                    return  # the client had enough

            do_GET = do_PUT = do_POST = do_DELETE = _answer  # noqa: N815 - names of http.server

            def log_message(self, *_: Any) -> None:
                """Tests say enough."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()
