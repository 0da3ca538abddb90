"""Services as processes, and a proxy's operator side that only remembers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class Relays:
    """What operators' requests a proxy had. Answers 503 for as long as `down` is set."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, str, bytes]] = []
        self.down = False
        relays = self

        class Handler(BaseHTTPRequestHandler):
            def _take(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if not relays.down:
                    relays.requests.append(
                        (self.command, self.path, self.headers["authorization"], body)
                    )
                self.send_response(503 if relays.down else 201 if self.command == "PUT" else 204)
                self.send_header("content-length", "0")
                self.end_headers()

            do_PUT = do_DELETE = _take  # noqa: N815 - names of http.server

            def log_message(self, *_: Any) -> None:
                """Tests say enough."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def wait(self, n: int, seconds: float = 30) -> list[tuple[str, str, str, bytes]]:
        """The requests, once there are so many."""
        deadline = time.monotonic() + seconds
        while len(self.requests) < n and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(self.requests) == n
        return self.requests

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


@contextmanager
def running(arguments: list[str], cwd: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A `deniable` command that serves, and the address it says; it is ended, by its id, when the
    test leaves."""
    source = Path(__file__).parents[3] / "src"
    environment = {**os.environ, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", "from deniable.cli import main; main()", *arguments]
    process = subprocess.Popen(command, cwd=cwd, env=environment, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own code
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert " at http" in line, line
        yield process, line.split()[-1]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if process.stdout is not None:
            process.stdout.close()
