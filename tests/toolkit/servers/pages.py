"""Files of the repository served to a browser, as an app's own server would: from another origin
than the proxies."""

from __future__ import annotations

import json
import os
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

__all__ = ["PageServer", "sqlite_package"]

_ROOT = Path(__file__).parents[3]
_FOLDERS = ("/clients/", "/examples/", "/tests/vectors/")
_SQLITE = "/sqlite/"


def sqlite_package() -> Path:
    """Where `.ci/node` put SQLite for JavaScript."""
    folder = Path(os.environ.get("DENIABLE_NODE", ""))
    return folder / "node_modules" / "@sqlite.org" / "sqlite-wasm"


class PageServer:
    """Serves the client, the example app and the vectors; `settings` is what the example reads as
    settings.json. SQLite's package is at /sqlite/, if DENIABLE_NODE has it."""

    def __init__(self) -> None:
        server = self
        self.settings: dict[str, Any] = {}

        class Handler(SimpleHTTPRequestHandler):
            def __init__(self, *given: Any) -> None:
                super().__init__(*given, directory=str(_ROOT))

            def translate_path(self, path: str) -> str:
                if path.startswith(_SQLITE) and ".." not in path:
                    return str(sqlite_package() / path.removeprefix(_SQLITE))
                return super().translate_path(path)

            def do_GET(self) -> None:
                if self.path.startswith("/examples/web/settings.json"):
                    content = json.dumps(server.settings).encode()
                    self.send_response(200)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)
                elif self.path == "/blank.html" or self.path.startswith((*_FOLDERS, _SQLITE)):
                    super().do_GET() if self.path != "/blank.html" else self._blank()
                else:
                    self.send_error(404)

            def _blank(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        Handler.extensions_map = {
            **SimpleHTTPRequestHandler.extensions_map,
            ".js": "text/javascript",
            ".mjs": "text/javascript",
            ".wasm": "application/wasm",
            ".json": "application/json",
        }
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
