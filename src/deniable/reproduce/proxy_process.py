"""A real proxy for timings: in its own process, reached over HTTP on loopback, on chosen cores."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from deniable.errors import SurveyError
from deniable.queries.query import Query
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.service.tokens import TokenStore

__all__ = ["ProxyProcess", "available_cores"]

_SERVE = "from deniable.cli import main; main()"


def available_cores() -> list[int]:
    """The cores that this process may use."""
    return sorted(os.sched_getaffinity(0))


class ProxyProcess:
    """A proxy to which one query is published; ends with the block."""

    def __init__(self, query: Query, folder: Path, cores: Sequence[int] | None = None) -> None:
        data = folder / "data"
        data.mkdir(parents=True)
        settings = folder / "proxy.toml"
        settings.write_text('folder = "data"\nport = 0\n[intake]\nthreshold = 100000\n')
        store = TokenStore(data / "tokens.db")
        (operator,), (self._device,) = store.add("operator"), store.add("device", quota=1 << 40)
        store.close()
        command = [sys.executable, "-c", _SERVE, "proxy", "run", str(settings)]
        self._process = subprocess.Popen(  # noqa: S603 - our own command
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if cores is not None:
            os.sched_setaffinity(self._process.pid, cores)
        try:
            first = self._process.stdout.readline() if self._process.stdout else ""
            self._address = urlsplit(first.removeprefix("listening on ").strip())
            signed = sign(query, AnalystKey.generate(query.analyst)).to_bytes()
            self._request("PUT", f"/v1/queries/{query.id}", signed, operator, 201)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(timeout=60)
        if self._process.stdout:
            self._process.stdout.close()

    def seconds(self, uploads: Sequence[bytes], connections: int = 4) -> float:
        """The time by the clock until all uploads are acknowledged: they are on the disk then."""
        failures: list[Exception] = []

        def send(part: Sequence[bytes]) -> None:
            try:
                for content in part:
                    self._request("POST", "/v1/shares", content, self._device, 202)
            except (OSError, http.client.HTTPException, SurveyError) as error:
                failures.append(error)

        senders = [
            threading.Thread(target=send, args=(uploads[i::connections],))
            for i in range(min(connections, len(uploads)))
        ]
        started = time.perf_counter()
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join()
        if failures:
            raise SurveyError(f"The proxy did not take an upload: {failures[0]}")
        return time.perf_counter() - started

    def _request(self, method: str, path: str, body: bytes, token: str, status: int) -> None:
        connection = http.client.HTTPConnection(
            self._address.hostname or "", self._address.port, timeout=120
        )
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            answer.read()
            if answer.status != status:
                raise SurveyError(f"The proxy answered {answer.status} instead of {status}")
        finally:
            connection.close()
