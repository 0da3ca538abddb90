"""The released windows over HTTP: the newest, a range of them, one label over time."""

from __future__ import annotations

import json
from typing import Any

from fastapi import FastAPI, Request, Response

from deniable.aggregator.service import Service
from deniable.aggregator.state import connect
from deniable.aggregator.web.sessions import authorize_query
from deniable.aggregator.windows.released import LARGEST_PAGE
from deniable.aggregator.windows.series import (
    STORED_CONFIDENCE,
    check_view,
    one_label,
    viewed,
    without_matrices,
)
from deniable.aggregator.windows.stored import Detail, page, read_window
from deniable.errors import ParameterError, RefusedError
from deniable.service.http.server import Moment, Number

__all__ = ["add_results"]

_MOST_RESULTS = 1000


def add_results(app: FastAPI, service: Service) -> None:
    """Serve the addresses."""

    @app.get("/v1/queries/{query_id}/results/latest")
    def latest_result(
        query_id: str,
        request: Request,
        confidence: float = STORED_CONFIDENCE,
        form: str = "raw",
        brief: bool = False,
    ) -> Response:
        """The newest window, at another confidence or projected on request; `brief` leaves out the
        matrices."""
        authorize_query(service, request, query_id, "read")
        check_view(confidence, form)
        found = _latest(service, query_id, _detail(confidence, form, brief))
        return Response(_shown(found, confidence, form, brief), media_type="application/json")

    @app.get("/v1/queries/{query_id}/results/latest/table")
    def latest_table(
        query_id: str, request: Request, of: str | None = None, given: str | None = None
    ) -> Response:
        """The newest window as a table of its columns; with `of` and `given` (comma-separated
        names), P(of | given)."""
        authorize_query(service, request, query_id, "read")
        window = read_window(_latest(service, query_id))
        try:
            table = window.table(
                None if of is None else of.split(","), None if given is None else given.split(",")
            )
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
        """Windows that begin at or after `start` and before `end` (ISO 8601 times, or seconds), in
        order of release.

        Only the newest revision of a revised window is returned. `next` is the `after` of the next
        page; `last` is the number of the last result released, whatever was asked for. `confidence`
        and `form` (raw or projected) say how windows are shown; `brief` leaves out the matrices.
        """
        authorize_query(service, request, query_id, "read")
        check_view(confidence, form)
        limit = min(max(1, limit), _MOST_RESULTS)
        found = service.windows.of_query(
            query_id, after, start, end, limit, detail=_detail(confidence, form, brief)
        )
        following = (
            found[-1][0]
            if found
            and (len(found) == limit or sum(len(each) for _, each in found) >= LARGEST_PAGE)
            else None
        )
        windows = (_shown(document, confidence, form, brief) for _, document in found)
        document = page(windows, following, service.windows.last_number(query_id))
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
        """One label over the newest windows (of those that begin before `end`), oldest first: one
        list per column."""
        authorize_query(service, request, query_id, "read")
        check_view(confidence, "raw")
        # a separate one: a thousand windows take a while to read
        connection = connect(service.settings.state)
        try:
            return one_label(
                connection, query_id, label, confidence, min(max(1, limit), _MOST_RESULTS), end
            )
        finally:
            connection.close()


def _latest(service: Service, query_id: str, detail: Detail = Detail.WHOLE) -> str:
    found = service.windows.latest(query_id, detail)
    if found is None:
        raise RefusedError("no_result", 404, "no window of this query is over yet")
    return found


def _is_stored(confidence: float, form: str) -> bool:
    """Whether windows are asked for as they are stored, so that nothing has to be computed."""
    return confidence == STORED_CONFIDENCE and form == "raw"


def _detail(confidence: float, form: str, brief: bool) -> Detail:
    """What has to be read of a window for the form requested."""
    if not brief:
        return Detail.WHOLE
    return Detail.BRIEF if _is_stored(confidence, form) else Detail.NO_COVARIANCE


def _shown(document: str, confidence: float, form: str, brief: bool) -> str:
    """A result, read in the detail it needs, in the form requested."""
    if _is_stored(confidence, form):
        return document
    window = viewed(json.loads(document), confidence, form)
    return json.dumps(without_matrices(window) if brief else window)
