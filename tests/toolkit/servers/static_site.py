"""A host of the poll's page that serves what a test tells it to."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from deniable.poll.page_files import PageFile

__all__ = ["StaticSite"]


class StaticSite:
    """A context manager that serves the page's files and `document`; `replies` come first."""

    def __init__(self, files: Mapping[str, PageFile], document: bytes) -> None:
        site = self
        self.replies: dict[str, bytes] = {"/poll.json": document}

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = files.get(self.path.lstrip("/") or "index.html")
                content = site.replies.get(self.path, found.content if found else b"")
                self.send_response(200 if content else 404)
                self.send_header("Content-Type", found.kind if found else "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> StaticSite:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
