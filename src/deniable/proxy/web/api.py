"""The proxy's HTTP service: shares in, signed queries out, and endpoints for the operator.
docs/proxy.md is the reference."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from deniable.errors import AuditLogError, LogError, RefusedError
from deniable.logs.sqlite_log import LogReader, LogRecord
from deniable.proxy.intake.admission import (
    DEVICE_PATHS,
    SHARES,
    OneQuery,
    QueryList,
    ShareUploads,
)
from deniable.proxy.operations.metrics import proxy_metrics
from deniable.proxy.service import ProxyService
from deniable.proxy.web.answers_api import add_answers
from deniable.proxy.web.app_errors import add_errors
from deniable.proxy.web.batch_api import BatchUploads, TokenList
from deniable.proxy.web.documents import PROXY_OPERATIONS, TokenDocument, describe_uploads
from deniable.service.http.cross_origin import CrossOrigin
from deniable.service.http.feed_api import add_feed
from deniable.service.http.hot_path import HotAddress, HotFront
from deniable.service.http.openapi import describe
from deniable.service.http.server import Number
from deniable.service.metrics import CONTENT_TYPE
from deniable.wire.pages import pack_page

__all__ = ["create_app"]

_LOGGER = logging.getLogger("deniable.proxy")
_LARGEST_QUERY = 1 << 21
_LARGEST_ENROLMENT = 1 << 12
_MOST_BLOCKS = 256
_ENOUGH = 8 << 20
"""Bytes of the log after which a response ends."""
_SECONDS_BETWEEN_WATCHES = 1.0


def create_app(proxy: ProxyService) -> HotFront:
    """A proxy's HTTP application. The proxy starts and stops with the application's lifespan."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        proxy.start()
        watching = asyncio.create_task(_watch(proxy))
        yield
        watching.cancel()
        await asyncio.get_running_loop().run_in_executor(None, proxy.stop)

    app = FastAPI(
        title="deniable proxy",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_errors(app, proxy.refusals)
    describe_uploads(app)
    _describe_batches(app)
    _add_queries(app, proxy)
    _add_enrolment(app, proxy)
    pages = CrossOrigin.of(proxy.settings.browser, DEVICE_PATHS)
    add_answers(app, proxy, ShareUploads(proxy.admission, proxy.worker, proxy.count), pages)
    _add_reading(app, proxy)
    add_feed(app, proxy.feed, proxy.audit)
    describe(app, PROXY_OPERATIONS)
    folders = [OneQuery(proxy.settings.limits, proxy.board.one)]
    return HotFront(app, _hot_addresses(proxy), proxy.refusals, folders, pages)


def _hot_addresses(proxy: ProxyService) -> list[HotAddress]:
    """The endpoints that are served without a framework."""
    return [
        ShareUploads(proxy.admission, proxy.worker, proxy.count),
        QueryList(proxy.settings.limits, proxy.board.listed),
        BatchUploads(proxy.admission, proxy.worker, proxy.count),
        TokenList(proxy.admission),
    ]


async def _watch(proxy: ProxyService) -> None:
    """Follow changes to the ring file. Done here and not in another thread because the board
    belongs to this one."""
    while True:
        await asyncio.sleep(_SECONDS_BETWEEN_WATCHES)
        try:
            proxy.follow_ring()
            proxy.end_tokens()
        except (AuditLogError, sqlite3.Error) as error:  # retried at the next check
            _LOGGER.error(
                "the ring could not be followed", extra={"fields": {"problem": str(error)}}
            )


def _describe_batches(app: FastAPI) -> None:
    """Like :func:`describe_uploads`, for the endpoints that only collectors use."""

    @app.post("/v1/batches")
    async def take_batch() -> Response:
        """Accept the uploads that a collector gathered, each independently of the others
        (docs/collector.md)."""
        raise NotImplementedError

    @app.get("/v1/tokens")
    async def list_tokens() -> Response:
        """The SHA-256 of each device's token, 32 bytes each, for a collector."""
        raise NotImplementedError


def _add_queries(app: FastAPI, proxy: ProxyService) -> None:
    @app.put("/v1/queries/{query_id}", status_code=201)
    async def publish_query(query_id: str, request: Request) -> Response:
        """Start relaying a signed query to devices, replacing its older version."""
        token = proxy.authorize(request, "operator")
        fresh = proxy.publish(
            query_id, await proxy.receive(request, _LARGEST_QUERY), f"token:{token.id}"
        )
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
            raise RefusedError(
                "parameters", 422, "key_id: must be a key's id, 16 lower-case hexadecimal digits"
            )
        if proxy.revoke([key_id], f"token:{token.id}"):
            proxy.queries_changed()
        return Response(status_code=204)


def _add_enrolment(app: FastAPI, proxy: ProxyService) -> None:
    @app.post("/v1/enrol", status_code=201)
    async def enrol(request: Request) -> dict[str, object]:
        """Issue a token to a device under the operator's policy: freely, for an invitation, or for
        a signed ticket."""
        _require_json(request)
        try:
            body = json.loads(await proxy.receive(request, _LARGEST_ENROLMENT) or b"{}")
        except (ValueError, RecursionError):
            body = None
        return dict(TokenDocument(token=proxy.enrolment.enrol(body, proxy.address_of(request))))

    @app.post("/v1/enrol/rotate", status_code=201)
    async def rotate(request: Request) -> dict[str, object]:
        """Replace the token in the request with a new one. The old one stops working at once."""
        shown = request.headers.get("authorization", "").partition(" ")[2].strip()
        return dict(TokenDocument(token=proxy.enrolment.rotate(shown, proxy.address_of(request))))


def _require_json(request: Request) -> None:
    """Refuse what a page of any origin could send without asking first: a form, or text."""
    if (
        request.headers.get("content-type", "").partition(";")[0].strip().lower()
        != "application/json"
    ):
        raise RefusedError(
            "media_type", 415, "a request for a token must be sent as application/json"
        )


def _add_reading(app: FastAPI, proxy: ProxyService) -> None:
    @app.get("/v1/log")
    async def read_log(
        request: Request, after: Number = 0, limit: Number = _MOST_BLOCKS
    ) -> Response:
        """Blocks after an offset, each preceded by its offset (8 bytes) and length (4 bytes, both
        little-endian).

        The headers carry the log's identity, and the marks as they were before the blocks were
        read: `channel:epoch:offset`.
        """
        proxy.authorize(request, "reader", "operator")
        if proxy.settings.kafka:
            raise RefusedError(
                "kafka", 404, f"this proxy's log is the Kafka topic {proxy.settings.kafka.topic}"
            )
        path = proxy.settings.folder / "log.db"
        return await run_in_threadpool(_page, path, after, min(max(1, limit), _MOST_BLOCKS))

    @app.get("/healthz")
    async def liveness() -> Response:
        """200 while the proxy runs, whether or not it can accept shares now. The body lists
        everything that is wrong."""
        return Response(
            json.dumps(proxy.health_report()),
            503 if proxy.worker.failed else 200,
            media_type="application/json",
        )

    @app.get("/readyz")
    async def readiness() -> Response:
        """200 while shares can be accepted, 503 otherwise."""
        report = proxy.health_report()
        return Response(
            json.dumps(report),
            503 if report["status"] == "failed" else 200,
            media_type="application/json",
        )

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        return Response(proxy_metrics(proxy), media_type=CONTENT_TYPE)


def _page(path: Path, after: int, limit: int) -> Response:
    reader = None
    try:
        reader = LogReader(path)
        marks = ",".join(
            f"{mark.channel:016x}:{mark.epoch}:{mark.offset}" for mark in reader.marks().values()
        )
        records: list[LogRecord] = []
        n_bytes = 0
        continues = reader.continues
        # restored and not caught up yet: the reader learns this from the headers
        if continues and after > reader.end:
            limit = 0
        while (
            len(records) < limit
            and n_bytes < _ENOUGH
            and (one := reader.read(records[-1].offset if records else after, 1))
        ):
            records += one
            n_bytes += len(one[0].block)
        headers = {"Log-Identity": reader.identity, "Log-Marks": marks, "Log-End": str(reader.end)}
        if continues:
            headers["Log-Continues"] = ",".join(
                f"{identity}:{offset}" for identity, offset in continues
            )
    except LogError as error:
        raise RefusedError("offset", 416, str(error)) from None
    except (sqlite3.Error, UnicodeError):
        raise RefusedError(
            "log_damaged", 503, "the proxy's log cannot be read: it may be damaged", retry_after=60
        ) from None
    finally:
        if reader is not None:
            reader.close()
    body = pack_page((record.offset, record.block) for record in records)
    return Response(body, headers=headers, media_type=SHARES)
