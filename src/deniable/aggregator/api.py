"""The aggregator's HTTP interface: publish and stop queries, read and follow results (docs/aggregator.md)."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from deniable.aggregator.aggregator_metrics import aggregator_metrics
from deniable.aggregator.api_documents import OPERATIONS
from deniable.aggregator.feed import Feed
from deniable.aggregator.history_api import add_history
from deniable.aggregator.series import STORED_CONFIDENCE, check_view, one_label, slim, viewed, without_covariance
from deniable.aggregator.service import LARGEST_PAGE, Service
from deniable.aggregator.sessions import authorize, authorize_query
from deniable.aggregator.state import connect
from deniable.aggregator.tokens import TokenHolder
from deniable.aggregator.windows import Window
from deniable.errors import AuditLogError, ParameterError, PublicationError, QueryError, RefusedError, SandboxError
from deniable.queries.times import iso_time, with_times
from deniable.service.fair_parts import HeldStream, StreamLimits
from deniable.service.feed_api import add_feed
from deniable.service.http_server import (
    HeldStreamResponse,
    Moment,
    Number,
    parameters_problem,
    problem,
    read_body,
)
from deniable.service.metrics import CONTENT_TYPE
from deniable.service.openapi import describe

__all__ = ["create_app"]

_LARGEST_QUERY = 1 << 21
_SECONDS_FOR_A_BODY = 30
_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 15.0
_MOST_RESULTS = 1000
_MOST_FOLLOWERS = 200
_MOST_FOLLOWERS_PER_TOKEN = 20


def create_app(service: Service, ending: Callable[[], bool] = lambda: False) -> FastAPI:
    """The interface of a service, which is started and stopped with the application's lifespan.

    `ending` says whether the server is about to stop: followers of results are then released, and reconnect to the next one.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await run_in_threadpool(service.stop)

    app = FastAPI(
        title="deniable aggregator", version="1", lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    _add_errors(app, service)
    _add_queries(app, service)
    _add_results(app, service)
    _add_streams(app, service, ending)
    add_history(app, service)
    _add_watching(app, service)
    add_feed(app, service.feed, service.audit)
    describe(app, OPERATIONS)
    return app


def _add_errors(app: FastAPI, service: Service) -> None:
    def answer(request: Request, reason: str, status: int, detail: str, retry_after: int | None = None) -> Response:
        service.refusals[reason] += 1
        if status in (401, 403) or reason == "unknown_query":
            route = getattr(request.scope.get("route"), "path", "")
            service.refusal_log.note(getattr(request.state, "actor", "no token"), f"{request.method} {route}", status)
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        return Response(problem(reason, status, detail), status, headers, media_type="application/problem+json")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)  # noqa: S101 - for the type checker: it is registered for this type only
        return answer(request, error.reason, error.status, error.detail, error.retry_after)

    async def bad_query(request: Request, error: Exception) -> Response:
        reason = error.reason.replace(" ", "_") if isinstance(error, QueryError) else "publication"
        return answer(request, reason, 409 if reason in ("rolled-back_query", "publication") else 422, str(error))

    async def bad_parameter(request: Request, error: Exception) -> Response:
        return answer(request, "parameters", 422, str(error))

    async def wrong_address(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 422
        reason = {404: "address", 405: "method"}.get(status, "parameters")
        response = answer(request, reason, status, parameters_problem(error))
        response.headers.update(getattr(error, "headers", None) or {})  # which methods are allowed
        return response

    async def gone(request: Request, _: Exception) -> Response:
        return answer(request, "disconnected", 400, "the request ended before its body")

    async def unrecorded(request: Request, error: Exception) -> Response:
        return answer(request, "audit_log", 503, f"nothing was changed, because it could not be recorded: {error}")

    async def unchecked(request: Request, error: Exception) -> Response:
        return answer(request, "unchecked", 503, f"the SQL could not be checked: {error}", retry_after=5)

    async def broken(request: Request, _: Exception) -> Response:
        return answer(request, "internal", 500, "the aggregator could not do this; nothing was changed")

    app.add_exception_handler(RefusedError, refused)
    for kind in (QueryError, PublicationError):
        app.add_exception_handler(kind, bad_query)
    app.add_exception_handler(ParameterError, bad_parameter)
    app.add_exception_handler(AuditLogError, unrecorded)
    app.add_exception_handler(SandboxError, unchecked)
    app.add_exception_handler(HTTPException, wrong_address)
    app.add_exception_handler(RequestValidationError, wrong_address)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, broken)


def _with_rights(holder: TokenHolder, queries: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The queries, each with the rights that the token's holder has on it."""
    return [{**query, "may": list(holder.rights(query["analyst"]))} for query in queries]


def _add_queries(app: FastAPI, service: Service) -> None:
    @app.put("/v1/queries/{query_id}", status_code=201)
    async def publish_query(query_id: str, request: Request, response: Response) -> dict[str, Any]:
        """Publish a signed query, or its next version: it is counted from now on, and passed on to the proxies."""
        holder = (await run_in_threadpool(authorize, service, request)).holder
        if not holder.may_somewhere("publish"):
            raise RefusedError("right", 403, "this token may not publish queries")
        content = await read_body(request, _LARGEST_QUERY, _SECONDS_FOR_A_BODY)
        entry, fresh = await run_in_threadpool(service.publish, query_id, content, holder)
        response.status_code = 201 if fresh else 200
        return _with_rights(holder, await run_in_threadpool(service.queries, entry.query.id))[0]

    @app.get("/v1/queries")
    def list_queries(request: Request) -> list[dict[str, Any]]:
        """The newest version of every query that the token may read; `may` lists its other rights on it."""
        holder = authorize(service, request).holder
        return _with_rights(holder, (query for query in service.queries() if query["analyst"] in holder.readable))

    @app.get("/v1/queries/{query_id}")
    def show_query(query_id: str, request: Request) -> dict[str, Any]:
        """A query, and which proxies have it."""
        holder = authorize_query(service, request, query_id, "read").holder
        return _with_rights(holder, service.queries(query_id))[0]

    @app.get("/v1/queries/{query_id}/versions")
    def list_versions(query_id: str, request: Request) -> dict[str, Any]:
        """All versions of a query, oldest first: when, with which parameters, and why."""
        authorize_query(service, request, query_id, "read")
        return {"versions": service.versions(query_id)}

    @app.delete("/v1/queries/{query_id}", status_code=204)
    def stop_query(query_id: str, request: Request) -> Response:
        """Stop a query. Answers to the current epoch are still counted."""
        holder = authorize_query(service, request, query_id, "stop").holder
        service.stop_query(query_id, holder.actor)
        return Response(status_code=204)


def _add_results(app: FastAPI, service: Service) -> None:
    @app.get("/v1/queries/{query_id}/results/latest")
    def latest_result(
        query_id: str, request: Request, confidence: float = STORED_CONFIDENCE, form: str = "raw", brief: bool = False
    ) -> Response:
        """The newest window, at another confidence or projected on request; `brief` leaves out the matrices."""
        authorize_query(service, request, query_id, "read")
        check_view(confidence, form)
        found = service.results(query_id, limit=1, last=True)
        if not found:
            raise RefusedError("no_result", 404, "no window of this query is over yet")
        return Response(_shown(*found[0], confidence, form, brief), media_type="application/json")

    @app.get("/v1/queries/{query_id}/results/latest/table")
    def latest_table(query_id: str, request: Request, of: str | None = None, given: str | None = None) -> Response:
        """The newest window as a table of its columns; with `of` and `given` (comma-separated names), P(of | given)."""
        authorize_query(service, request, query_id, "read")
        found = service.results(query_id, limit=1, last=True)
        if not found:
            raise RefusedError("no_result", 404, "no window of this query is over yet")
        window = Window.from_dict(json.loads(found[0][1]))
        try:
            table = window.table(None if of is None else of.split(","), None if given is None else given.split(","))
        except ParameterError as error:
            raise RefusedError("parameters", 422, str(error)) from None
        return Response(json.dumps(table.to_dict(), allow_nan=False), media_type="application/json")

    @app.get("/v1/queries/{query_id}/results")
    def range_of_results(
        query_id: str,
        request: Request,
        start: Moment | None = None,
        end: Moment | None = None,
        after: Number = 0,
        limit: Number = 100,
        confidence: float = STORED_CONFIDENCE,
        form: str = "raw",
        brief: bool = False,
    ) -> Response:
        """Windows that begin at or after `start` and before `end` (ISO 8601 times, or seconds), in order of release.

        Only the newest revision of a revised window is returned. `next` is the `after` of the next page; `last` is the number of
        the last result released, whatever was asked for. `confidence` and `form` (raw or projected) say how windows are shown;
        `brief` leaves out the matrices.
        """
        authorize_query(service, request, query_id, "read")
        check_view(confidence, form)
        limit = min(max(1, limit), _MOST_RESULTS)
        found = service.results(query_id, after, start, end, limit)
        following = (
            found[-1][0] if found and (len(found) == limit or sum(len(each) for _, each in found) >= LARGEST_PAGE) else None
        )
        windows = ",".join(_shown(*row, confidence, form, brief) for row in found)
        last = service.last_number(query_id)
        document = f'{{"windows":[{windows}],"next":{json.dumps(following)},"last":{last}}}'
        return Response(document, media_type="application/json")

    @app.get("/v1/queries/{query_id}/series")
    def series_of_a_label(
        query_id: str,
        request: Request,
        label: Number = 0,
        end: Moment | None = None,
        limit: Number = _MOST_RESULTS,
        confidence: float = STORED_CONFIDENCE,
    ) -> dict[str, list[Any]]:
        """One label over the newest windows (of those that begin before `end`), oldest first: one list per column."""
        authorize_query(service, request, query_id, "read")
        check_view(confidence, "raw")
        connection = connect(service.settings.state)  # a separate one: a thousand windows take a while to read
        try:
            return one_label(connection, query_id, label, confidence, min(max(1, limit), _MOST_RESULTS), end)
        finally:
            connection.close()


def _add_streams(app: FastAPI, service: Service, ending: Callable[[], bool]) -> None:
    feed = Feed(service, ending)

    @app.get("/v1/stream")
    async def follow_all(request: Request, after: Number | None = None) -> Response:
        """Windows of all queries that the token may read (without their matrices), health, and changes to the list of queries.

        Sent as server-sent events, starting after `Last-Event-ID` (or `after`); without either, with the next window. The stream
        ends when the token is revoked.
        """
        caller = await run_in_threadpool(authorize, service, request)
        stated = _last_event(request)
        stream = feed.admit(caller.token, caller.holder.owner)
        return HeldStreamResponse(stream, feed.follow(after if stated is None else stated, stream))

    followers = StreamLimits(_MOST_FOLLOWERS, _MOST_FOLLOWERS_PER_TOKEN, "clients")

    async def events(query_id: str, after: int, stream: HeldStream) -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        silence = 0.0
        while not ending() and not stream.gave_way and await run_in_threadpool(service.may, stream.token, "read", query_id):
            for number, document in await run_in_threadpool(service.results, query_id, after):
                after, silence = number, 0.0
                yield f"id: {number}\nevent: window\ndata: {_numbered(number, document)}\n\n"
            if silence >= _SECONDS_BETWEEN_SIGNS_OF_LIFE:
                silence = 0.0
                yield ": nothing new\n\n"
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            silence += _SECONDS_BETWEEN_LOOKS

    @app.get("/v1/queries/{query_id}/results/stream")
    async def follow_results(query_id: str, request: Request, after: Number | None = None) -> Response:
        """Windows as server-sent events, starting after `Last-Event-ID` (or `after`); without either, with the next window."""
        caller = await run_in_threadpool(authorize_query, service, request, query_id, "read")
        stated = _last_event(request)
        after = after if stated is None else stated
        if after is None:
            after = await run_in_threadpool(service.last_number, query_id)
        # Last: what is counted here, the response stops counting.
        stream = followers.admit(caller.token, caller.holder.owner)
        return HeldStreamResponse(stream, events(query_id, after, stream))


def _last_event(request: Request) -> int | None:
    stated = request.headers.get("last-event-id", "")
    return int(stated) if stated.isascii() and stated.isdecimal() and len(stated) < 19 else None


def _shown(number: int, document: str, confidence: float, form: str, brief: bool) -> str:
    """A stored result in the form requested."""
    if confidence == STORED_CONFIDENCE and form == "raw":
        return json.dumps(slim(number, document)) if brief else _numbered(number, document)
    window = viewed(json.loads(without_covariance(document) if brief else document), confidence, form)
    return json.dumps(slim(number, json.dumps(window)) if brief else {"number": number, **with_times(window, "start", "end")})


def _numbered(number: int, document: str) -> str:
    """The stored JSON object with its number, and with readable times."""
    found = _BOUNDS.search(document)
    times = f'"start_time":"{iso_time(int(found[1]))}","end_time":"{iso_time(int(found[2]))}",' if found else ""
    return f'{{"number":{number},{times}{document[1:]}'


_BOUNDS = re.compile(r'"start": (\d+), "end": (\d+)')
"""Where a stored window gives its bounds; within a string, the quotation marks would follow backslashes."""


def _add_watching(app: FastAPI, service: Service) -> None:
    @app.get("/v1/capacity")
    def measured_capacity(request: Request) -> dict[str, Any]:
        """Answers per second that this aggregator recently sustained, by size class of shares."""
        authorize(service, request)
        return {"capacity": service.capacity()}

    @app.get("/healthz")
    def liveness() -> Response:
        """200 while all parts of the service run, whether or not they can do their work. The body lists all problems."""
        return Response(json.dumps(service.health_report()), 200 if service.alive else 503, media_type="application/json")

    @app.get("/readyz")
    def readiness() -> Response:
        """200 while answers are counted, 503 otherwise; "degraded" if a proxy is behind, down, unreadable or unreachable."""
        report = service.health_report()
        return Response(json.dumps(report), 503 if report["status"] == "failed" else 200, media_type="application/json")

    @app.get("/metrics")
    def metrics() -> Response:
        """Counters and gauges for Prometheus."""
        return Response(aggregator_metrics(service), media_type=CONTENT_TYPE)
