"""Several processes that terminate connections in front of one intake, which alone knows ids and
quotas.

A supervisor opens the sockets, forks the intake process and the workers, and restarts any of them
that is killed. A worker checks tokens, gathers uploads and sends them to the intake over loopback
(:mod:`deniable.proxy.collecting.uplink`); it relays all other requests. Workers are forked with one
TLS context, so that one worker can resume a session that began with another.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI, Request, Response

from deniable.errors import DeniableError, LogError, RefusedError
from deniable.proxy.board import Board
from deniable.proxy.collecting.uplink import Uplink, UplinkWorker
from deniable.proxy.intake.admission import (
    DEVICE_PATHS,
    Admission,
    Listed,
    OneQuery,
    QueryList,
    ShareUploads,
)
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.app_errors import add_errors
from deniable.proxy.web.peer import PEER
from deniable.service.audit_log import AuditLog, RefusalLog
from deniable.service.http.cross_origin import CrossOrigin
from deniable.service.http.hosting import Endpoint, freeze_garbage
from deniable.service.http.hot_path import HotAddress, HotFront
from deniable.service.http.server import read_body
from deniable.service.tokens import TokenStore

__all__ = ["supervise"]

_LOGGER = logging.getLogger("deniable.proxy")
_LARGEST_RELAYED = 1 << 21
_SECONDS_BETWEEN_STARTS = 0.1
_READY = b"ready"
_NOT_RELAYED = frozenset(
    {
        PEER,
        "connection",
        "keep-alive",
        "transfer-encoding",
        "content-length",
        "host",
        "upgrade",
        "expect",
        "te",
    }
)


def supervise(
    settings: ProxySettings,
    place: Endpoint,
    listener: socket.socket,
    run_intake: Callable[[socket.socket, str, Callable[[], None]], bool],
    announce: Callable[[str], None],
) -> bool:
    """Run an intake and `settings.workers` workers until stopped; False if the intake gave up
    because the disk failed.

    `run_intake` serves the intake on a socket, knows the workers' token, and calls back when it is
    ready.
    """
    inner = Endpoint("127.0.0.1", 0, None)
    inside = inner.listen()
    # TLS was set up before the first fork, so all workers have the same ticket keys.
    return _Supervisor(settings, place, listener, inside, inner.address(inside), run_intake).run(
        announce
    )


class _Supervisor:
    def __init__(
        self,
        settings: ProxySettings,
        place: Endpoint,
        listener: socket.socket,
        inside: socket.socket,
        address: str,
        run_intake: Any,
    ) -> None:
        self._settings, self._place, self._listener, self._inside = (
            settings,
            place,
            listener,
            inside,
        )
        self._address, self._run_intake = address, run_intake
        self._token = secrets.token_urlsafe(32)
        self._alive, self._held = os.pipe()  # a child reads end-of-file when the supervisor is gone
        self._intake = 0
        self._workers: set[int] = set()
        self._stopping = False

    def run(self, announce: Callable[[str], None]) -> bool:
        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, self._stop)
        self._start_intake()
        self._workers = {self._fork(self._work) for _ in range(self._settings.workers)}
        announce(self._place.address(self._listener))
        while True:
            pid, status = os.wait()
            if pid == self._intake:
                if self._stopping or os.WIFEXITED(status):
                    return self._ended(os.waitstatus_to_exitcode(status))
                _LOGGER.warning("intake killed", extra={"fields": {"signal": os.WTERMSIG(status)}})
                time.sleep(_SECONDS_BETWEEN_STARTS)
                self._start_intake()
            elif pid in self._workers:
                self._workers.remove(pid)
                if not self._stopping:
                    _LOGGER.warning(
                        "worker ended",
                        extra={"fields": {"status": os.waitstatus_to_exitcode(status)}},
                    )
                    time.sleep(_SECONDS_BETWEEN_STARTS)
                    self._workers.add(self._fork(self._work))
                # everything they had gathered is answered; now the intake may flush and exit
                elif not self._workers:
                    os.kill(self._intake, signal.SIGTERM)

    def _stop(self, *_: object) -> None:
        self._stopping = True
        for pid in self._workers:
            os.kill(pid, signal.SIGTERM)

    def _ended(self, code: int) -> bool:
        """The intake has ended: end the workers too."""
        self._stopping = True
        for pid in self._workers:
            os.kill(pid, signal.SIGTERM)
        for pid in self._workers:
            os.waitpid(pid, 0)
        return code == 0

    def _start_intake(self) -> None:
        """Fork the intake, and wait until it has read the disk."""
        heard, ready_pipe = os.pipe()
        self._intake = self._fork(lambda: self._serve_intake(ready_pipe))
        os.close(ready_pipe)
        with os.fdopen(heard, "rb") as file:
            word = file.read()
        if word != _READY:
            os.waitpid(self._intake, 0)
            self._ended(1)
            raise LogError(word.decode() or "the process of the intake ended before it was ready")

    def _serve_intake(self, ready_pipe: int) -> int:
        def ready() -> None:
            os.write(ready_pipe, _READY)
            os.close(ready_pipe)

        try:
            return 0 if self._run_intake(self._inside, self._token, ready) else 1
        except DeniableError as error:
            os.write(ready_pipe, str(error).encode())
            return 2

    def _work(self) -> int:
        app = worker_app(self._settings, self._address, self._token)
        server = self._place.server(app, self._settings.limits, app.refusals)

        def stop(*_: object) -> None:
            server.should_exit = True

        for each in (signal.SIGTERM, signal.SIGINT):
            signal.signal(each, stop)
        freeze_garbage()
        server.run(sockets=[self._listener])
        return 0

    def _fork(self, run: Callable[[], int]) -> int:
        pid = os.fork()
        if pid:
            return pid
        os.close(self._held)
        threading.Thread(target=_end_with_the_supervisor, args=(self._alive,), daemon=True).start()
        sys.exit(run())


def _end_with_the_supervisor(alive: int) -> None:
    os.read(alive, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def worker_app(settings: ProxySettings, address: str, token: str) -> HotFront:
    """A worker's application: it passes uploads to the intake at an address, answers polls, and
    relays everything else."""
    refusals: Counter[str] = Counter()
    tokens = TokenStore(settings.folder / "tokens.db")
    board = Board(settings.folder / "queries.db", lambda: int(time.time()))
    uplink = UplinkWorker(Uplink(address, token), refusals, tell_refusals=True)
    admission = Admission(settings.limits, tokens.by_hash)

    log = AuditLog(settings.audit_path)
    refusal_log = RefusalLog(log, time.monotonic, _LOGGER)
    admission.on_refused = refusal_log.note

    def listed() -> Listed:
        board.refresh()
        return board.listed()

    def one(query_id: str) -> Listed | None:
        board.refresh()
        return board.one(query_id)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        uplink.start()
        refusal_log.start()
        async with httpx.AsyncClient(base_url=address, timeout=60, trust_env=False) as client:
            app.state.client = client
            yield
        uplink.stop()
        refusal_log.stop()
        log.close()
        tokens.close()
        board.close()

    app = FastAPI(
        lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False
    )
    add_errors(app, refusals)
    _add_relay(app, settings)
    addresses: list[HotAddress] = [
        ShareUploads(admission, uplink, lambda _: None),
        QueryList(settings.limits, listed),
    ]
    pages = CrossOrigin.of(settings.browser, DEVICE_PATHS)
    return HotFront(app, addresses, refusals, [OneQuery(settings.limits, one)], pages)


def _add_relay(app: FastAPI, settings: ProxySettings) -> None:
    seconds = settings.limits.body_deadline

    @app.api_route(
        "/{path:path}", methods=["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]
    )
    async def relay(request: Request) -> Response:
        """Forward the request to the intake process, and return its response."""
        body = await read_body(request, _LARGEST_RELAYED, seconds)
        request.state.received = True
        headers = [
            (name, value)
            for name, value in request.headers.raw
            if name.decode("latin-1") not in _NOT_RELAYED
        ]
        headers.append((PEER.encode(), (request.client.host if request.client else "").encode()))
        url = httpx.URL(
            path=request.scope["raw_path"].decode("latin-1"), query=request.scope["query_string"]
        )
        try:
            answer = await request.app.state.client.request(
                request.method, url, content=body, headers=headers
            )
        except (httpx.HTTPError, httpx.InvalidURL):
            raise RefusedError(
                "storage", 503, "the proxy is starting; retry later", retry_after=1
            ) from None
        response = Response(answer.content, answer.status_code)
        response.raw_headers = [
            (name.lower(), value)
            for name, value in answer.headers.raw
            if name.decode("latin-1").lower() not in _NOT_RELAYED
        ]
        response.raw_headers.append((b"content-length", b"%d" % len(answer.content)))
        return response
