"""The responses of a proxy and a collector, as types that describe them in `/openapi.json`."""

from __future__ import annotations

from typing import Any, TypedDict

from fastapi import FastAPI, Response

from deniable.proxy.intake.admission import SHARES
from deniable.proxy.intake.commits import UploadReceipt
from deniable.proxy.service import ProxyHealthPage
from deniable.service.faults import HealthDocument
from deniable.service.http.openapi import BEARER, Operation
from deniable.service.metrics import CONTENT_TYPE

__all__ = [
    "COLLECTOR_OPERATIONS",
    "PROXY_OPERATIONS",
    "CollectorHealthPage",
    "TokenDocument",
    "describe_uploads",
]


class TokenDocument(TypedDict):
    """A token, which is shown only once."""

    token: str


class CollectorHealthPage(HealthDocument):
    """The health page of a collector."""

    proxy: str
    """ "running", or why the proxy behind it cannot be reached."""


_BYTES = {"type": "string", "format": "binary"}
_TOKEN = (401, 403)
_METRICS = Operation({200: CONTENT_TYPE.partition(";")[0]})
_HEALTH = Operation({200: CollectorHealthPage, 503: CollectorHealthPage})
_PROXY_HEALTH = Operation({200: ProxyHealthPage, 503: ProxyHealthPage})
_SHARES = Operation(
    {202: UploadReceipt},
    (*_TOKEN, 404, 408, 409, 410, 413, 415, 422, 429, 503),
    (BEARER,),
    {SHARES: _BYTES},
)
_QUERIES = Operation({200: list[dict[str, Any]], 304: None}, (408, 413, 503))
_TICKET = {
    "application/json": {
        "type": "object",
        "description": "Nothing, an invitation, or a ticket and its signature.",
    }
}
_ANSWER_SCHEMA = {
    "type": "object",
    "description": "Shares in base64, and a token, an invitation, or a ticket and its signature.",
}
_ANSWER = dict.fromkeys(("application/json", "text/plain"), _ANSWER_SCHEMA)
_SIGNED_QUERY = {
    "application/json": {
        "type": "object",
        "description": "A signed query, as `SignedQuery.to_bytes` writes it.",
    }
}

COLLECTOR_OPERATIONS: dict[str, Operation] = {
    "POST /v1/shares": _SHARES,
    "GET /v1/queries": _QUERIES,
    "GET /v1/queries/{query_id}": Operation({200: dict[str, Any], 304: None}, (404, 408, 413, 503)),
    "GET /healthz": _HEALTH,
    "GET /readyz": _HEALTH,
    "GET /metrics": _METRICS,
}
PROXY_OPERATIONS: dict[str, Operation] = {
    **COLLECTOR_OPERATIONS,
    "GET /healthz": _PROXY_HEALTH,
    "GET /readyz": _PROXY_HEALTH,
    "POST /v1/batches": Operation(
        {200: SHARES}, (*_TOKEN, 408, 413, 503), (BEARER,), {SHARES: _BYTES}
    ),
    "GET /v1/tokens": Operation({200: SHARES, 304: None}, (*_TOKEN, 408, 413, 503), (BEARER,)),
    "PUT /v1/queries/{query_id}": Operation(
        {200: None, 201: None}, (*_TOKEN, 404, 408, 409, 413, 422, 503), (BEARER,), _SIGNED_QUERY
    ),
    "DELETE /v1/queries/{query_id}": Operation({204: None}, (*_TOKEN, 404, 422, 503), (BEARER,)),
    "PUT /v1/revoked/{key_id}": Operation({204: None}, (*_TOKEN, 404, 422, 503), (BEARER,)),
    "POST /v1/enrol": Operation(
        {201: TokenDocument}, (*_TOKEN, 408, 413, 415, 422, 429, 503), (), _TICKET
    ),
    "POST /v1/answers": Operation(
        {202: UploadReceipt}, (*_TOKEN, 404, 408, 409, 410, 413, 415, 422, 429, 503), (), _ANSWER
    ),
    "POST /v1/enrol/rotate": Operation({201: TokenDocument}, (*_TOKEN, 429, 503), (BEARER,)),
    "GET /v1/log": Operation({200: SHARES}, (*_TOKEN, 404, 416, 422, 503), (BEARER,)),
}


def describe_uploads(app: FastAPI) -> None:
    """Describe what :class:`HotFront` serves. Those requests never reach these handlers; other
    methods are refused here."""

    @app.post("/v1/shares", status_code=202)
    async def take_shares() -> Response:
        """Accept one or more share records, concatenated (docs/wire.md). Either all are accepted or
        none."""
        raise NotImplementedError

    @app.get("/v1/queries")
    async def list_queries() -> Response:
        """The signed queries that devices may answer, as a JSON list."""
        raise NotImplementedError

    @app.get("/v1/queries/{query_id}")
    async def one_query(query_id: str) -> Response:
        """One signed query that devices may answer. No token is needed; `ETag` and `If-None-Match`
        are supported."""
        raise NotImplementedError
