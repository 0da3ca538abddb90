"""A little proxy on this machine: relays queries, and keeps the first share of each message id."""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from deniable.wire.shares import Share, record_bytes


class Proxy:
    """Starts when it is made; `stop` ends it. With `lose_every`, it keeps shares and says so only
    most of the times."""

    def __init__(self, lose_every: int = 0) -> None:
        self.lose_every = lose_every
        self.relayed: list[bytes] = []
        self.shares: dict[bytes, Share] = {}
        self.tokens: set[str | None] = set()
        self.counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(200, json.dumps([json.loads(each) for each in proxy.relayed]).encode())

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:
                    # the device was killed while it sent: nothing of it is taken
                    proxy.counts["cut off"] += 1
                    return
                status = proxy._take(self.headers["Authorization"], body)
                if not proxy.lose_every or proxy.counts["uploads"] % proxy.lose_every:
                    self._answer(status, b"{}")

            def _answer(self, status: int, content: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                try:
                    self.wfile.write(content)
                except OSError:
                    proxy.counts["gone"] += 1  # the device was killed while it waited

            def handle(self) -> None:
                try:
                    super().handle()
                except OSError:
                    proxy.counts["gone"] += 1

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, args=(0.02,))
        self._thread.start()

    def _take(self, token: str | None, body: bytes) -> int:
        with self._lock:
            self.counts["uploads"] += 1
            self.tokens.add(token)
            if not body or len(body) % record_bytes(body[2]):
                self.counts["malformed"] += 1
                return 400
            length = record_bytes(body[2])
            for start in range(0, len(body), length):
                share = Share.from_bytes(body[start : start + length])
                before = self.shares.setdefault(share.id, share)
                self.counts["again" if before is not share else "new"] += 1
                if before != share:
                    self.counts["changed"] += 1
                    return 409
            return 202

    def stop(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()
