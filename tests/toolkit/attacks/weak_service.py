"""An aggregator and a proxy in one, with the weaknesses that ours once had; any of them can be
mended."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["WeakService", "weak_service"]


class WeakService:
    """What it has been told, and which of its weaknesses are mended."""

    def __init__(self, board: list[Any], mended: frozenset[str]) -> None:
        self.board, self.mended, self.url = board, mended, ""
        self.sent: Counter[str] = Counter()
        self.identity: dict[str, str] = {}
        self.streams = 0
        self.ending = threading.Event()


def _handler(service: WeakService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _body(self) -> bytes:
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            while int(self.rfile.readline(), 16):
                self.rfile.readline()
            while line := self.rfile.readline().strip():  # trailers count as headers
                name, _, value = line.decode().partition(": ")
                self.headers[name] = value
            return b""

        def _token(self) -> str:
            shown = self.headers.get_all("Authorization") or [""]
            return shown[-1].removeprefix("Bearer ")

        def _say(self, status: int, body: Any = None, **headers: str) -> None:
            content = b"" if body is None else json.dumps(body).encode()
            self.send_response(status)
            for name, value in {
                **headers,
                "Content-Length": str(len(content)),
                "Connection": "close",
            }.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(content)
            self.close_connection = True

        def do_GET(self) -> None:
            self._body()
            if self.path.endswith("/stream"):
                self.send_response(200)
                self.end_headers()
                service.ending.wait(30)
                self.close_connection = True
            elif self.path == "/v1/public/queries":
                self._say(
                    200, {"queries": []}, **({"ETag": '"a"'} if "public" in service.mended else {})
                )
            elif self.path == "/v1/queries":
                asked_by_device = self.headers.get("Authorization") is None
                good = asked_by_device or self._token() == "deniable_good"
                self._say(200 if good else 401, service.board if asked_by_device else [{"id": "a"}])
            else:
                self._say(200, {})

        def do_POST(self) -> None:
            self._body()
            if self.path == "/v1/queries/check":
                self._say(200, {"checks": [{"field": "sql", "level": "ok"}]})
            elif self.path == "/v1/simulate":
                self._say(200, {"n_reports": 3_000_000, "trials": 1})
            elif self.path == "/v1/enrol/rotate":
                fresh = f"{self._token()}-again"
                service.identity[fresh] = service.identity.get(self._token(), self._token())
                self._say(201, {"token": fresh})
            else:
                name = (
                    service.identity.get(self._token(), self._token())
                    if "quota" in service.mended
                    else self._token()
                )
                service.sent[name] += 1
                self._say(202 if service.sent[name] <= 3 else 429, {})

        def do_PUT(self) -> None:
            self._body()
            service.sent["published"] += 1
            refused = "channel" in service.mended and service.sent["published"] > 1
            self._say(409 if refused else 201, {})

        def do_DELETE(self) -> None:
            self._body()
            service.sent["stopped"] += 1
            self._say(204)

        def log_message(self, *_: Any) -> None:
            """Tests say enough."""

    return Handler


@contextmanager
def weak_service(board: list[Any], *mended: str) -> Iterator[WeakService]:
    """The service on loopback."""
    service = WeakService(board, frozenset(mended))
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(service))
    server.request_queue_size = 128
    server.socket.listen(128)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield service
    finally:
        service.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()
