"""The HTTP interface to the history: query it with progress and cancel, export counts, delete with
receipt (docs/history.md)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from deniable.aggregator.history.request import HistoryRequest
from deniable.aggregator.history.service import epoch_counts
from deniable.aggregator.operations.estimate_metrics import estimate_metrics, newest_windows
from deniable.aggregator.web.sessions import authorize, authorize_query
from deniable.errors import DeniableError, NoReportsError, ParameterError, RefusedError
from deniable.queries.times import moment
from deniable.service.fair_parts import FairTurns
from deniable.service.http.event_stream import EVENT_STREAM, StreamPace, event_text
from deniable.service.http.server import EventResponse
from deniable.service.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from deniable.aggregator.service import Service

__all__ = ["add_history"]

_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 10.0
_MOST_WAITING = 2
"""Questions of one analyst that wait for their turn."""


class _Scan:
    """A question that is being answered in a thread."""

    def __init__(
        self, pool: ThreadPoolExecutor, answer: Callable[..., dict[str, Any]], asked: HistoryRequest
    ) -> None:
        self.cancelled = threading.Event()
        self.read, self.of = 0, 0
        self.future: Future[dict[str, Any]] = pool.submit(
            answer, asked, self._tell, self.cancelled.is_set
        )

    def _tell(self, read: int, of: int) -> None:
        self.read, self.of = read, of

    def result(self) -> dict[str, Any]:
        """The answer of a finished scan, or why there is none, in the interface's format."""
        try:
            return self.future.result()
        except NoReportsError as error:
            raise RefusedError("no_reports", 404, str(error)) from None
        except ParameterError as error:
            raise RefusedError("parameters", 422, str(error)) from None
        except DeniableError as error:
            raise RefusedError("history", 500, str(error)) from None


def add_history(app: FastAPI, service: Service) -> None:
    """Add the endpoints of the history to an aggregator's interface."""
    _add_asking(app, service)
    _add_keeping(app, service)
    _add_exports(app, service)


def _add_asking(app: FastAPI, service: Service) -> None:
    most = service.settings.history.most_scans if service.settings.history is not None else 2
    pool = ThreadPoolExecutor(most, thread_name_prefix="history")
    turns = FairTurns(most, _MOST_WAITING, reason="scans")

    def begin(query_id: str, request: Request) -> tuple[str, HistoryRequest]:
        owner = authorize_query(service, request, query_id, "read").holder.owner
        given: dict[str, Any] = dict(request.query_params)
        if "merge" in given:
            given["merge"] = request.query_params.getlist("merge")
        try:
            return owner, HistoryRequest.from_parameters(given)
        except ParameterError as error:
            raise RefusedError("parameters", 422, str(error)) from None

    async def start(query_id: str, owner: str, asked: HistoryRequest) -> _Scan:
        """Begin to answer in the analyst's turn, which lasts until the answer is there."""
        loop = asyncio.get_running_loop()
        await turns.enter(owner)
        try:
            reader = await run_in_threadpool(service.history_reader, query_id)
            scan = _Scan(pool, reader.answer, asked)
        except BaseException:
            turns.leave(owner)
            raise

        def over(_: Future[dict[str, Any]]) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits for a turn any more
                loop.call_soon_threadsafe(turns.leave, owner)

        scan.future.add_done_callback(over)
        return scan

    @app.get("/v1/queries/{query_id}/history")
    async def ask_history(query_id: str, request: Request) -> Response:
        """An answer from stored reports, for any period and cut. Nobody's epsilon grows.

        With `Accept: text/event-stream`, events `progress` and then `answer` or `problem`.
        Disconnecting cancels the scan.
        """
        owner, asked = await run_in_threadpool(begin, query_id, request)
        scan = await start(query_id, owner, asked)
        if EVENT_STREAM in request.headers.get("accept", ""):
            return EventResponse(_events(scan))
        try:
            while not scan.future.done():
                if await request.is_disconnected():
                    scan.cancelled.set()
                await asyncio.sleep(_SECONDS_BETWEEN_LOOKS if scan.of else 0.01)
        finally:
            scan.cancelled.set()
        return Response(json.dumps(scan.result(), allow_nan=False), media_type="application/json")


def _add_keeping(app: FastAPI, service: Service) -> None:
    @app.delete("/v1/queries/{query_id}/history")
    def delete_history(query_id: str, request: Request) -> dict[str, Any]:
        """Delete all stored reports of a query. The answer is the receipt, which is kept."""
        holder = authorize_query(service, request, query_id, "delete").holder
        return dict(service.delete_history(query_id, holder.actor))

    @app.get("/v1/queries/{query_id}/history/extent")
    def extent_of_history(query_id: str, request: Request) -> dict[str, Any]:
        """How many reports of a query are stored, and from which period."""
        authorize_query(service, request, query_id, "read")
        return service.kept_history().extent(query_id)

    @app.get("/v1/queries/{query_id}/history/receipts")
    def receipts_of_history(query_id: str, request: Request) -> list[dict[str, Any]]:
        """The receipts for stored reports of a query that were deleted on request."""
        authorize_query(service, request, query_id, "read")
        return [dict(each) for each in service.kept_history().receipts(query_id)]


def _add_exports(app: FastAPI, service: Service) -> None:
    @app.get("/v1/queries/{query_id}/panes")
    def counts_of_epochs(query_id: str, request: Request) -> dict[str, Any]:
        """The counts of each epoch from `from` and before `to`, except epochs with fewer answers
        than the minimum cohort."""
        authorize_query(service, request, query_id, "read")
        given = request.query_params
        try:
            bounds = [
                moment(name, given[name]) if name in given else None for name in ("from", "to")
            ]
        except ParameterError as error:
            raise RefusedError("parameters", 422, str(error)) from None
        with service.reading() as connection:
            return dict(epoch_counts(connection, query_id, bounds[0], bounds[1]))

    @app.get("/v1/metrics")
    def estimates_as_metrics(request: Request) -> Response:
        """The newest estimates of the queries that the token may read, for Prometheus, each with
        its low and high."""
        readable = authorize(service, request).holder.readable
        with service.reading() as connection:
            windows = list(newest_windows(connection, readable))
        return Response(estimate_metrics(windows), media_type=CONTENT_TYPE)


async def _events(scan: _Scan) -> AsyncIterator[bytes]:
    """The progress of a scan, whenever it has changed, and then its outcome."""
    sent, pace = (-1, -1), StreamPace(_SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_SIGNS_OF_LIFE)
    try:
        while not scan.future.done():
            if (scan.read, scan.of) != sent:
                sent = scan.read, scan.of
                pace.spoke()
                yield event_text("progress", json.dumps({"read": scan.read, "of": scan.of}))
            if sign := await pace.pause():
                yield sign
        try:
            yield event_text("answer", json.dumps(scan.result(), allow_nan=False))
        except RefusedError as error:
            problem = {"status": error.status, "reason": error.reason, "detail": error.detail}
            yield event_text("problem", json.dumps(problem))
    finally:
        scan.cancelled.set()
