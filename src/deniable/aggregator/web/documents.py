"""The responses of the aggregator's interface, as types that describe it in `/openapi.json`.
Readers ignore unknown keys.

A time is in whole seconds since 1970 UTC, for programs; beside it, under its name plus `_time`, in
ISO 8601, for people.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel

from deniable.aggregator.history.request import HISTORY_PARAMETERS
from deniable.service.http.event_stream import EVENT_STREAM
from deniable.service.http.openapi import BEARER, COOKIE, HealthDocument, Operation
from deniable.service.metrics import CONTENT_TYPE

__all__ = ["OPERATIONS"]

_Object = dict[str, Any]


class ScheduleDocument(BaseModel):
    """When a query is asked; lengths in seconds."""

    origin: int
    origin_time: str
    expires: int
    expires_time: str
    every: int
    window: int
    slide: int


class LatestWindow(BaseModel):
    """The newest window of a query, in brief."""

    number: int
    index: int
    start: int
    start_time: str
    end: int
    end_time: str
    condition: str
    n: int


class OverdueDocument(BaseModel):
    """The first window of a query that should have been released and was not; `proxies` have not
    marked its epochs."""

    index: int
    start: int
    start_time: str
    end: int
    end_time: str
    since: int
    since_time: str
    proxies: list[str]


class ColumnDocument(BaseModel):
    """A column of a query's answers."""

    name: str
    labels: list[str]


class QueryDocument(BaseModel):
    """The newest version of a query, which proxies have it, and what this token may do with it."""

    id: str
    serial: int
    analyst: str
    question: str | None
    labels: list[str]
    schedule: ScheduleDocument
    columns: list[ColumnDocument]
    strata: list[str]
    mechanism: _Object
    sampling: float
    population: int | None
    budget: _Object
    epsilon_local: float
    epsilon_sampled: float | None
    delta_sampled: float | None
    sampled_crowd: int | None
    epsilon_life: float
    minimum_cohort: int
    grace: int | None
    published: int
    published_time: str
    stopped: int | None
    stopped_time: str | None
    relayed: dict[str, str]
    latest: LatestWindow | None
    overdue: OverdueDocument | None
    may: list[str]


class VersionsDocument(BaseModel):
    """All versions of a query, oldest first."""

    versions: list[_Object]


class WindowDocument(BaseModel):
    """The result of a window (docs/aggregator.md); without `estimate` if it is withheld."""

    number: int
    query: str
    serial: int
    index: int
    start: int
    start_time: str
    end: int
    end_time: str
    condition: Literal["complete", "withheld", "proxy down", "malformed", "incomplete"]
    n: int
    nothing: int
    held_back: int = 0
    missing: list[str]
    conservation: _Object
    labels: list[str] | None = None
    estimate: list[float] | None = None
    stderr: list[float | None] | None = None
    low: list[float | None] | None = None
    high: list[float | None] | None = None


class ResultsDocument(BaseModel):
    """A page of windows."""

    windows: list[WindowDocument]
    next: int | None
    last: int


class CapacityOfAClass(BaseModel):
    """What was measured for one size class."""

    size_class: int
    answers_per_second: float
    answers: float
    updated: int
    updated_time: str


class CapacityDocument(BaseModel):
    """What the engine recently sustained."""

    capacity: list[CapacityOfAClass]


class PaneDocument(BaseModel):
    """The counts of one epoch."""

    serial: int
    epoch: int
    start: int
    start_time: str
    end: int
    end_time: str
    stratum: str | None
    n: int
    counts: list[int]


class PanesDocument(BaseModel):
    """The counts of a period."""

    query: str
    panes: list[PaneDocument]
    withheld: int


class ExtentDocument(BaseModel):
    """The stored reports of a query."""

    n_reports: int
    start: int | None
    start_time: str | None
    end: int | None
    end_time: str | None


_AUTH = (BEARER, COOKIE)
_READ = (401, 403, 404, 422)
_SIGNED_QUERY = {
    "application/json": {
        "type": "object",
        "description": "A signed query, as `SignedQuery.to_bytes` writes it.",
    }
}


def _reading(answer: Any, *more: int, **rest: Any) -> Operation:
    return Operation({200: answer}, (*_READ, *more), _AUTH, **rest)


class PublicResultsDocument(BaseModel):
    """Released windows of a query whose results are public, newest first."""

    query: str
    windows: list[_Object]
    next: int | None


OPERATIONS: dict[str, Operation] = {
    "PUT /v1/queries/{query_id}": Operation(
        {200: QueryDocument, 201: QueryDocument},
        (401, 403, 404, 408, 409, 413, 422, 503),
        _AUTH,
        _SIGNED_QUERY,
    ),
    "GET /v1/queries": _reading(list[QueryDocument]),
    "GET /v1/queries/{query_id}": _reading(QueryDocument),
    "DELETE /v1/queries/{query_id}": Operation({204: None}, (*_READ, 409, 503), _AUTH),
    "GET /v1/queries/{query_id}/versions": _reading(VersionsDocument),
    "GET /v1/queries/{query_id}/results/latest": _reading(WindowDocument),
    "GET /v1/queries/{query_id}/results/latest/table": _reading(_Object),
    "GET /v1/queries/{query_id}/results": _reading(ResultsDocument),
    "GET /v1/public/queries/{query_id}/results": Operation(
        {200: PublicResultsDocument, 304: None}, (404, 422)
    ),
    "GET /v1/queries/{query_id}/series": _reading(dict[str, list[Any]]),
    "GET /v1/queries/{query_id}/results/stream": _reading(EVENT_STREAM, 429, 503),
    "GET /v1/stream": _reading(EVENT_STREAM, 429, 503),
    "GET /v1/queries/{query_id}/history": _reading(
        _Object, 503, events=True, parameters=HISTORY_PARAMETERS
    ),
    "DELETE /v1/queries/{query_id}/history": Operation({200: _Object}, (*_READ, 503), _AUTH),
    "GET /v1/queries/{query_id}/history/extent": _reading(ExtentDocument),
    "GET /v1/queries/{query_id}/history/receipts": _reading(list[_Object]),
    "GET /v1/queries/{query_id}/panes": _reading(PanesDocument, parameters=("from", "to")),
    "GET /v1/metrics": _reading(CONTENT_TYPE.partition(";")[0]),
    "GET /v1/capacity": _reading(CapacityDocument),
    "GET /healthz": Operation({200: HealthDocument, 503: HealthDocument}),
    "GET /readyz": Operation({200: HealthDocument, 503: HealthDocument}),
    "GET /metrics": Operation({200: CONTENT_TYPE.partition(";")[0]}),
}
