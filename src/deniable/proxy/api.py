"""The proxy's HTTP service: shares in, signed queries out, and endpoints for the operator. docs/proxy.md is the reference."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from deniable.errors import AuditLogError, LogError, RefusedError
from deniable.logs.sqlite_log import LogReader, Record
from deniable.proxy.admission import SHARES, Admission, QueryList, ShareUploads
from deniable.proxy.api_documents import PROXY_OPERATIONS, describe_uploads
from deniable.proxy.app_errors import add_errors
from deniable.proxy.batch_api import BatchUploads, TokenList
from deniable.proxy.board import Board
from deniable.proxy.enrolment import Enrolment
from deniable.proxy.http_peer import PEER
from deniable.proxy.intake import Intake
from deniable.proxy.intake_worker import IntakeWorker
from deniable.proxy.proxy_metrics import proxy_metrics
from deniable.proxy.proxy_settings import Settings
from deniable.queries.header import QueryHeader
from deniable.queries.keys import KeyRing
from deniable.queries.signing import SignedQuery
from deniable.service.audit_log import SERVICE, AuditLog, RefusalLog, last_event
from deniable.service.certificate_expiry import end_of_file
from deniable.service.faults import Fault, FaultWatch, expiring, health_document, low_disk
from deniable.service.feed_api import add_feed
from deniable.service.hot_path import HotAddress, HotFront
from deniable.service.http_server import Number, read_body
from deniable.service.metrics import CONTENT_TYPE
from deniable.service.openapi import describe
from deniable.service.query_feed import QueryFeed
from deniable.service.ring_file import RingFile
from deniable.service.tokens import Role, Token, TokenStore

__all__ = ["Proxy", "create_app"]

_LOGGER = logging.getLogger("deniable.proxy")
_LARGEST_QUERY = 1 << 21
_LARGEST_ENROLMENT = 1 << 12
_MOST_BLOCKS = 256
_ENOUGH = 8 << 20
"""Bytes of the log after which a response ends."""
_FRAME = struct.Struct("<QI")
_SECONDS_BETWEEN_WATCHES = 1.0


class Proxy:
    """The state of a running proxy. What was acknowledged is durable; `stop` flushes what is waiting."""

    def __init__(
        self,
        settings: Settings,
        clock: Callable[[], int] | None = None,
        on_failure: Callable[[], None] = lambda: None,
        workers_token: str | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock or (lambda: int(time.time()))
        folder = settings.folder
        self.intake = Intake(folder, settings.intake, self.clock, settings.open_log)
        self.tokens = TokenStore(folder / "tokens.db")
        self.audit = AuditLog(settings.audit_path, self.clock, _LOGGER)
        self.refusal_log = RefusalLog(self.audit, time.monotonic, _LOGGER)
        self.feed = QueryFeed(settings.feed_path, self.clock)
        self.ring_file = RingFile(settings.ring, _LOGGER) if settings.ring else None
        self._checked: KeyRing | None = None
        self.board = Board(folder / "queries.db", self.clock, self.ring_file.ring if self.ring_file else None)
        self.intake.set_channels(self.board.channels())
        self.worker = IntakeWorker(self.intake, on_failure)
        self.refusals: Counter[str] = Counter()
        """What the service itself refused, by reason, in addition to the intake's refusals."""
        inside = Token(sha256(workers_token.encode()).digest(), "collector", None) if workers_token else None
        self.admission = Admission(settings.limits, self.tokens.by_hash, inside)
        self.admission.on_refused = self.refusal_log.note
        self.enrolment = Enrolment(folder, settings.enrolment, self.tokens, self.clock)
        self._has_workers = inside is not None
        self.watch = FaultWatch(self.faults, _LOGGER)

    def start(self) -> None:
        """Start accepting uploads."""
        before = last_event(self.audit.path, "service.started", "service.stopped")
        after = {"": "nothing", "service.stopped": "a stop"}.get(before, "a kill or a power cut")
        self.audit.record("service.started", after=after)
        self.refusal_log.start()
        newest = {}
        for query, signed, stopped in self.board.all():  # queries relayed before the feed existed
            self.feed.published(query, signed, self.clock())
            newest[query.id] = (query, stopped)
        for query, stopped in newest.values():  # earlier versions ended when it was published
            if stopped is not None:
                self.feed.stopped(query, stopped)
        self.follow_ring()
        self.worker.start()
        self.watch.start()

    def stop(self) -> None:
        """Flush, and close all files."""
        self.watch.stop()
        self.worker.stop()
        try:
            self.refusal_log.stop()
            self.audit.record("service.stopped")
        except AuditLogError as error:  # a full disk must not prevent a stop
            _LOGGER.error("the stop could not be recorded", extra={"fields": {"problem": str(error)}})
        self.audit.close()
        self.feed.close()
        self.enrolment.close()
        self.tokens.close()
        self.board.close()

    def address_of(self, request: Request) -> str:
        """The network address a request came from; for a request relayed by a worker, the address the worker names."""
        if self._has_workers:
            return request.headers.get(PEER, "")
        return request.client.host if request.client else ""

    def faults(self) -> list[Fault]:
        """What is wrong now."""
        rules, intake, found = self.settings.intake, self.intake, []
        if self.worker.failed:
            detail = "the proxy's disk or log has failed; nothing that was acknowledged is lost"
            found.append(Fault(self.worker.fault or "failing", "intake", detail, stops=True))
        found += low_disk(self.settings.folder, rules.reserve, "disk_full", stops=True)
        if intake.log_problem:
            found.append(Fault("log_away", "log", intake.log_problem))
        if intake.is_full:
            found.append(Fault("backlog_full", "intake", "the limit on waiting shares or message ids is reached", stops=True))
        if problem := self.audit.problem():
            found.append(Fault("damaged", "audit log", problem))
        if self.ring_file is not None and self.ring_file.problem:
            found.append(Fault("failing", "ring", self.ring_file.problem))
        if self.settings.tls is not None:
            found += expiring("tls.certificate", end_of_file(self.settings.tls.certificate), self.clock())
        return found

    def health_report(self) -> dict[str, Any]:
        """The health page."""
        return health_document(self.faults(), waiting=self.intake.n_waiting, log=self.intake.log_problem or "running")

    def queries_changed(self) -> None:
        """Pass the board's current channels to the intake."""
        rules = self.settings.intake
        self.board.forget(self.clock() - rules.grace - rules.retention)
        channels = self.board.channels()
        self.worker.call(lambda: self.intake.set_channels(channels))

    def follow_ring(self) -> None:
        """Remove from the board all queries whose key was revoked on the ring or is no longer on it."""
        ring = self.ring_file.ring() if self.ring_file else None
        if ring is None or ring is self._checked:
            return
        changed = self.revoke([trusted.key.id for trusted in ring if trusted.revoked], SERVICE)
        if self.board.withdraw_unknown(self._recorder("query.withdrawn", SERVICE, why="its key is not on the ring")):
            changed = True
        self._checked = ring
        if changed:
            self.queries_changed()

    def revoke(self, keys: Sequence[str], actor: str) -> bool:
        """Stop relaying anything these keys signed, and notify devices; returns whether any key is newly revoked."""
        for key in keys:
            if key not in self.board.revoked:
                self.audit.record("key.revoked", actor=actor, subject=f"key:{key}")
                self.feed.revoked(key)
        return bool(self.board.revoke(keys, self._recorder("query.withdrawn", actor, why="its key was revoked")))

    def _recorder(self, event: str, actor: str, **details: Any) -> Callable[[QueryHeader, SignedQuery], None]:
        """A callback that records an event about a query before the change is committed."""

        def record(query: QueryHeader, signed: SignedQuery) -> None:
            named = {"analyst": query.analyst, "serial": query.serial, "key": signed.key_id, "digest": query.digest.hex()}
            self.audit.record(event, actor=actor, subject=f"query:{query.id}", **named, **details)
            if event == "query.published":
                self.feed.published(query, signed, self.clock())
            else:
                self.feed.stopped(query, self.clock(), details.get("why", ""))

        return record

    def publish(self, query_id: str, content: bytes, actor: str) -> bool:
        """Start relaying a signed query; returns whether this version is new here."""
        fresh = self.board.publish(query_id, content, self._recorder("query.published", actor))
        self.queries_changed()
        return fresh

    def stop_query(self, query_id: str, actor: str) -> None:
        """Stop relaying a query."""
        self.board.stop(query_id, self._recorder("query.stopped", actor))
        self.queries_changed()

    def authorize(self, request: Request, *roles: Role) -> Token:
        """The token in the request, if it has one of these roles."""
        address = f"{request.method} {getattr(request.scope.get('route'), 'path', '')}"
        token = self.admission.authorize(request.headers.get("authorization", "").encode("latin-1"), address, *roles)
        self.tokens.note_use(token, self.clock())
        return token

    async def receive(self, request: Request, largest: int) -> bytes:
        """The body of a request, if it arrives in time and is not too long."""
        content = await read_body(request, largest, self.settings.limits.body_deadline)
        request.state.received = True
        return content

    def hot_addresses(self) -> list[HotAddress]:
        """The endpoints that are served without a framework."""

        def count(reason: str, n: int = 1) -> None:
            self.refusals[reason] += n

        return [
            ShareUploads(self.admission, self.worker, count),
            QueryList(self.settings.limits, self.board.listed),
            BatchUploads(self.admission, self.worker, count),
            TokenList(self.admission),
        ]


def create_app(proxy: Proxy) -> HotFront:
    """A proxy's HTTP application. The proxy starts and stops with the application's lifespan."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        proxy.start()
        watching = asyncio.create_task(_watch(proxy))
        yield
        watching.cancel()
        await asyncio.get_running_loop().run_in_executor(None, proxy.stop)

    app = FastAPI(title="deniable proxy", version="1", lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False)
    add_errors(app, proxy.refusals)
    describe_uploads(app)
    _describe_batches(app)
    _add_queries(app, proxy)
    _add_enrolment(app, proxy)
    _add_reading(app, proxy)
    add_feed(app, proxy.feed, proxy.audit)
    describe(app, PROXY_OPERATIONS)
    return HotFront(app, proxy.hot_addresses(), proxy.refusals)


async def _watch(proxy: Proxy) -> None:
    """Follow changes to the ring file. Done here and not in another thread because the board belongs to this one."""
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_WATCHES)
        try:
            proxy.follow_ring()
        except (AuditLogError, sqlite3.Error) as error:  # retried at the next check
            _LOGGER.error("the ring could not be followed", extra={"fields": {"problem": str(error)}})


def _describe_batches(app: FastAPI) -> None:
    """Like :func:`describe_uploads`, for the endpoints that only collectors use."""

    @app.post("/v1/batches")
    async def take_batch() -> Response:
        """Accept the uploads that a collector gathered, each independently of the others (docs/collector.md)."""
        raise NotImplementedError

    @app.get("/v1/tokens")
    async def list_tokens() -> Response:
        """The SHA-256 of each device's token, 32 bytes each, for a collector."""
        raise NotImplementedError


def _add_queries(app: FastAPI, proxy: Proxy) -> None:
    @app.put("/v1/queries/{query_id}", status_code=201)
    async def publish_query(query_id: str, request: Request) -> Response:
        """Start relaying a signed query to devices, replacing its older version."""
        token = proxy.authorize(request, "operator")
        fresh = proxy.publish(query_id, await proxy.receive(request, _LARGEST_QUERY), f"token:{token.id}")
        return Response(status_code=201 if fresh else 200)

    @app.delete("/v1/queries/{query_id}", status_code=204)
    async def stop_query(query_id: str, request: Request) -> Response:
        """Stop relaying a query. Answers for the current epoch are still accepted."""
        token = proxy.authorize(request, "operator")
        proxy.stop_query(query_id, f"token:{token.id}")
        return Response(status_code=204)

    @app.put("/v1/revoked/{key_id}", status_code=204)
    async def revoke_key(key_id: str, request: Request) -> Response:
        """Revoke a key: permanently stop relaying anything it signed, and notify devices."""
        token = proxy.authorize(request, "operator")
        if not re.fullmatch("[0-9a-f]{16}", key_id):
            raise RefusedError("parameters", 422, "key_id: must be a key's id, 16 lower-case hexadecimal digits")
        if proxy.revoke([key_id], f"token:{token.id}"):
            proxy.queries_changed()
        return Response(status_code=204)


def _add_enrolment(app: FastAPI, proxy: Proxy) -> None:
    @app.post("/v1/enrol", status_code=201)
    async def enrol(request: Request) -> dict[str, str]:
        """Issue a token to a device under the operator's policy: freely, for an invitation, or for a signed ticket."""
        try:
            body = json.loads(await proxy.receive(request, _LARGEST_ENROLMENT) or b"{}")
        except (ValueError, RecursionError):
            body = None
        return {"token": proxy.enrolment.enrol(body, proxy.address_of(request))}

    @app.post("/v1/enrol/rotate", status_code=201)
    async def rotate(request: Request) -> dict[str, str]:
        """Replace the token in the request with a new one. The old one stops working at once."""
        shown = request.headers.get("authorization", "").partition(" ")[2].strip()
        return {"token": proxy.enrolment.rotate(shown, proxy.address_of(request))}


def _add_reading(app: FastAPI, proxy: Proxy) -> None:
    @app.get("/v1/log")
    async def read_log(request: Request, after: Number = 0, limit: Number = _MOST_BLOCKS) -> Response:
        """Blocks after an offset, each preceded by its offset (8 bytes) and length (4 bytes, both little-endian).

        The headers carry the log's identity, and the marks as they were before the blocks were read: `channel:epoch:offset`.
        """
        proxy.authorize(request, "reader", "operator")
        if proxy.settings.kafka:
            raise RefusedError("kafka", 404, f"this proxy's log is the Kafka topic {proxy.settings.kafka.topic}")
        path = proxy.settings.folder / "log.db"
        return await run_in_threadpool(_page, path, after, min(max(1, limit), _MOST_BLOCKS))

    @app.get("/healthz")
    async def liveness() -> Response:
        """200 while the proxy runs, whether or not it can accept shares now. The body lists everything that is wrong."""
        return Response(json.dumps(proxy.health_report()), 503 if proxy.worker.failed else 200, media_type="application/json")

    @app.get("/readyz")
    async def readiness() -> Response:
        """200 while shares can be accepted, 503 otherwise."""
        report = proxy.health_report()
        return Response(json.dumps(report), 503 if report["status"] == "failed" else 200, media_type="application/json")

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        return Response(proxy_metrics(proxy), media_type=CONTENT_TYPE)


def _page(path: Path, after: int, limit: int) -> Response:
    reader = None
    try:
        reader = LogReader(path)
        marks = ",".join(f"{mark.channel:016x}:{mark.epoch}:{mark.offset}" for mark in reader.marks().values())
        records: list[Record] = []
        n_bytes = 0
        continues = reader.continues
        if continues and after > reader.end:  # restored and not caught up yet: the reader learns this from the headers
            limit = 0
        while len(records) < limit and n_bytes < _ENOUGH and (one := reader.read(records[-1].offset if records else after, 1)):
            records += one
            n_bytes += len(one[0].block)
        headers = {"Log-Identity": reader.identity, "Log-Marks": marks, "Log-End": str(reader.end)}
        if continues:
            headers["Log-Continues"] = ",".join(f"{identity}:{offset}" for identity, offset in continues)
    except LogError as error:
        raise RefusedError("offset", 416, str(error)) from None
    except (sqlite3.Error, UnicodeError):
        raise RefusedError("log_damaged", 503, "the proxy's log cannot be read: it may be damaged", retry_after=60) from None
    finally:
        if reader is not None:
            reader.close()
    body = b"".join(_FRAME.pack(record.offset, len(record.block)) + record.block for record in records)
    return Response(body, headers=headers, media_type=SHARES)
