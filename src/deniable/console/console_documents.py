"""The responses of the console's part of the aggregator's interface, as types that describe them in
`/openapi.json`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from deniable.service.http.openapi import BEARER, COOKIE, Operation

__all__ = ["CONSOLE_OPERATIONS"]


class SessionDocument(BaseModel):
    """Who is signed in."""

    name: str
    role: str
    csrf: str
    proxies: list[str]


class PublicQueryDocument(BaseModel):
    """A query as it was signed."""

    id: str
    serial: int
    published: int
    published_time: str
    stopped: int | None
    stopped_time: str | None
    signed: dict[str, Any]
    labels: list[str]
    epsilon_local: float
    epsilon_sampled: float | None
    delta_sampled: float | None
    sampled_crowd: int | None
    public_results: bool
    summary: str


class PublicKeyDocument(BaseModel):
    """A key for checking signed queries."""

    id: str
    owner: str
    public: str
    revoked: bool


class PublicDocument(BaseModel):
    """What anyone may see about the queries."""

    queries: list[PublicQueryDocument]
    keys: list[PublicKeyDocument]


_AUTH = (BEARER, COOKIE)
CONSOLE_OPERATIONS: dict[str, Operation] = {
    "PUT /v1/session": Operation({200: SessionDocument}, (401, 403, 422)),
    "GET /v1/session": Operation({200: SessionDocument}, (401, 403), (COOKIE,)),
    "DELETE /v1/session": Operation({204: None}),
    "POST /v1/plan": Operation({200: dict[str, Any]}, (401, 403, 422), _AUTH),
    "POST /v1/simulate": Operation({200: dict[str, Any]}, (401, 403, 422), _AUTH),
    "POST /v1/queries/check": Operation({200: dict[str, Any]}, (401, 403, 422), _AUTH),
    "GET /v1/public/queries": Operation({200: PublicDocument}),
}
