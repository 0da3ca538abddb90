"""The responses of the aggregator's interface, by the types of what it writes, for
`/openapi.json`. Readers ignore unknown keys.

A time is in whole seconds since 1970 UTC, for programs; beside it, under its name plus `_time`, in
ISO 8601, for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, TypedDict

from deniable.aggregator.history.answer_documents import HISTORY_ANSWER
from deniable.aggregator.history.file_catalogue import DeletionReceipt
from deniable.aggregator.history.request import HISTORY_PARAMETERS
from deniable.aggregator.history.service import ExtentDocument, PanesDocument
from deniable.aggregator.operations.capacity import CapacityDocument
from deniable.aggregator.operations.health import AggregatorHealth
from deniable.aggregator.operations.overdue import OverdueWindow
from deniable.aggregator.operations.query_registry import QueryBrief
from deniable.aggregator.operations.version_history import VersionsDocument
from deniable.aggregator.web.public_results import PublicResults
from deniable.aggregator.windows.series import SeriesDocument
from deniable.aggregator.windows.stored import SERVED_WINDOW, ResultsPage
from deniable.documents import DocumentType, WrittenAs, document_type
from deniable.estimation.tables.table import Table
from deniable.service.http.event_stream import EVENT_STREAM
from deniable.service.http.openapi import BEARER, COOKIE, Operation
from deniable.service.metrics import CONTENT_TYPE

__all__ = ["OPERATIONS", "QUERY", "query_document"]


class _ForReader(TypedDict):
    overdue: Annotated[dict[str, Any], WrittenAs(OverdueWindow)] | None
    """The window that should have been released by now."""
    may: list[str]
    """What the token may do with the query: read, publish, stop, delete."""


QUERY: DocumentType = (
    document_type(QueryBrief)
    .joined(document_type(_ForReader))
    .named(
        "Query",
        "The newest version of a query, which proxies have it, and what this token may do with it.",
    )
)
"""The document of a query as a token's holder sees it."""


def query_document(
    brief: Mapping[str, Any], overdue: OverdueWindow | None, may: Iterable[str]
) -> dict[str, Any]:
    """A query with what depends on the reader."""
    more: _ForReader = {
        "overdue": None if overdue is None else overdue.document(),
        "may": list(may),
    }
    return {**brief, **more}


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


OPERATIONS: dict[str, Operation] = {
    "PUT /v1/queries/{query_id}": Operation(
        {200: QUERY, 201: QUERY},
        (401, 403, 404, 408, 409, 413, 422, 503),
        _AUTH,
        _SIGNED_QUERY,
    ),
    "GET /v1/queries": _reading(list[Annotated[dict[str, Any], WrittenAs(QUERY)]]),
    "GET /v1/queries/{query_id}": _reading(QUERY),
    "DELETE /v1/queries/{query_id}": Operation({204: None}, (*_READ, 409, 503), _AUTH),
    "GET /v1/queries/{query_id}/versions": _reading(VersionsDocument),
    "GET /v1/queries/{query_id}/results/latest": _reading(SERVED_WINDOW),
    "GET /v1/queries/{query_id}/results/latest/table": _reading(Table),
    "GET /v1/queries/{query_id}/results": _reading(ResultsPage),
    "GET /v1/public/queries/{query_id}/results": Operation(
        {200: PublicResults, 304: None}, (404, 422)
    ),
    "GET /v1/queries/{query_id}/series": _reading(SeriesDocument),
    "GET /v1/queries/{query_id}/results/stream": _reading(EVENT_STREAM, 429, 503),
    "GET /v1/stream": _reading(EVENT_STREAM, 429, 503),
    "GET /v1/queries/{query_id}/history": _reading(
        HISTORY_ANSWER, 503, events=True, parameters=HISTORY_PARAMETERS
    ),
    "DELETE /v1/queries/{query_id}/history": Operation(
        {200: DeletionReceipt}, (*_READ, 503), _AUTH
    ),
    "GET /v1/queries/{query_id}/history/extent": _reading(ExtentDocument),
    "GET /v1/queries/{query_id}/history/receipts": _reading(list[DeletionReceipt]),
    "GET /v1/queries/{query_id}/panes": _reading(PanesDocument, parameters=("from", "to")),
    "GET /v1/metrics": _reading(CONTENT_TYPE.partition(";")[0]),
    "GET /v1/capacity": _reading(CapacityDocument),
    "GET /healthz": Operation({200: AggregatorHealth, 503: AggregatorHealth}),
    "GET /readyz": Operation({200: AggregatorHealth, 503: AggregatorHealth}),
    "GET /metrics": Operation({200: CONTENT_TYPE.partition(";")[0]}),
}
