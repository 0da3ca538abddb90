"""The aggregator's HTTP interface: publish and stop queries, read and follow results
(docs/aggregator.md)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from deniable.aggregator.operations.capacity import CapacityDocument
from deniable.aggregator.operations.metrics import aggregator_metrics
from deniable.aggregator.operations.version_history import VersionsDocument
from deniable.aggregator.service import Service
from deniable.aggregator.web.app_errors import add_errors
from deniable.aggregator.web.documents import OPERATIONS, query_document
from deniable.aggregator.web.history_api import add_history
from deniable.aggregator.web.public_results import add_public_results
from deniable.aggregator.web.results_api import add_results
from deniable.aggregator.web.sessions import authorize, authorize_query
from deniable.aggregator.web.streams_api import add_streams
from deniable.aggregator.web.tokens import TokenHolder
from deniable.errors import RefusedError
from deniable.service.http.feed_api import add_feed
from deniable.service.http.openapi import describe
from deniable.service.http.server import read_body
from deniable.service.metrics import CONTENT_TYPE

__all__ = ["create_app"]

_LARGEST_QUERY = 1 << 21
_SECONDS_FOR_A_BODY = 30


def create_app(service: Service, ending: Callable[[], bool] = lambda: False) -> FastAPI:
    """The interface of a service, which is started and stopped with the application's lifespan.

    `ending` says whether the server is about to stop: followers of results are then released, and
    reconnect to the next one.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await run_in_threadpool(service.stop)

    app = FastAPI(
        title="deniable aggregator",
        version="1",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    add_errors(app, service)
    _add_queries(app, service)
    add_results(app, service)
    add_streams(app, service, ending)
    add_history(app, service)
    _add_watching(app, service)
    add_feed(app, service.feed, service.audit)
    add_public_results(app, service)
    describe(app, OPERATIONS)
    return app


def _listed(
    service: Service, holder: TokenHolder, query_id: str | None = None
) -> list[dict[str, Any]]:
    """The queries that a token's holder may know (or one), each with the rights on it and the
    window that is overdue, if one is."""
    overdue = service.overdue.find(query_id)
    return [
        query_document(query, overdue.get(query["id"]), holder.rights(query["analyst"]))
        for query in service.queries.listed(query_id)
        if query_id is not None or query["analyst"] in holder.readable
    ]


def _add_queries(app: FastAPI, service: Service) -> None:
    @app.put("/v1/queries/{query_id}", status_code=201)
    async def publish_query(query_id: str, request: Request, response: Response) -> dict[str, Any]:
        """Publish a signed query, or its next version: it is counted from now on, and passed on to
        the proxies."""
        holder = (await run_in_threadpool(authorize, service, request)).holder
        if not holder.may_somewhere("publish"):
            raise RefusedError("right", 403, "this token may not publish queries")
        content = await read_body(request, _LARGEST_QUERY, _SECONDS_FOR_A_BODY)
        entry, fresh = await run_in_threadpool(service.queries.publish, query_id, content, holder)
        response.status_code = 201 if fresh else 200
        return (await run_in_threadpool(_listed, service, holder, entry.query.id))[0]

    @app.get("/v1/queries")
    def list_queries(request: Request) -> list[dict[str, Any]]:
        """The newest version of every query that the token may read; `may` lists its other rights
        on it, `overdue` the window that should have been released by now."""
        return _listed(service, authorize(service, request).holder)

    @app.get("/v1/queries/{query_id}")
    def show_query(query_id: str, request: Request) -> dict[str, Any]:
        """A query, and which proxies have it."""
        holder = authorize_query(service, request, query_id, "read").holder
        return _listed(service, holder, query_id)[0]

    @app.get("/v1/queries/{query_id}/versions")
    def list_versions(query_id: str, request: Request) -> dict[str, Any]:
        """All versions of a query, oldest first: when, with which parameters, and why."""
        authorize_query(service, request, query_id, "read")
        return dict(VersionsDocument(versions=service.queries.versions(query_id)))

    @app.delete("/v1/queries/{query_id}", status_code=204)
    def stop_query(query_id: str, request: Request) -> Response:
        """Stop a query. Answers to the current epoch are still counted."""
        holder = authorize_query(service, request, query_id, "stop").holder
        service.queries.stop(query_id, holder.actor)
        return Response(status_code=204)


def _add_watching(app: FastAPI, service: Service) -> None:
    @app.get("/v1/capacity")
    def measured_capacity(request: Request) -> dict[str, Any]:
        """Answers per second that this aggregator recently sustained, by size class of shares."""
        authorize(service, request)
        return dict(CapacityDocument(capacity=service.capacity()))

    @app.get("/healthz")
    def liveness() -> Response:
        """200 while all parts of the service run, whether or not they can do their work. The body
        lists all problems."""
        return Response(
            json.dumps(service.health_report()),
            200 if service.parts.alive else 503,
            media_type="application/json",
        )

    @app.get("/readyz")
    def readiness() -> Response:
        """200 while answers are counted, 503 otherwise; "degraded" if a proxy is behind, down,
        unreadable or unreachable."""
        report = service.health_report()
        return Response(
            json.dumps(report),
            503 if report["status"] == "failed" else 200,
            media_type="application/json",
        )

    @app.get("/metrics")
    def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        return Response(aggregator_metrics(service), media_type=CONTENT_TYPE)
