"""The responses of the console's part of the aggregator's interface, as types that describe them in
`/openapi.json`."""

from __future__ import annotations

from typing import TypedDict

from deniable.console.drafts import DraftChecks
from deniable.console.plan_documents import PLAN, SimulationDocument
from deniable.console.public_queries import PublicDocument
from deniable.service.http.openapi import BEARER, COOKIE, Operation

__all__ = ["CONSOLE_OPERATIONS", "SessionDocument"]


class SessionDocument(TypedDict):
    """Who is signed in."""

    name: str
    role: str
    csrf: str
    """What changes must carry in X-Deniable-CSRF."""
    proxies: list[str]


_AUTH = (BEARER, COOKIE)
CONSOLE_OPERATIONS: dict[str, Operation] = {
    "PUT /v1/session": Operation({200: SessionDocument}, (401, 403, 422)),
    "GET /v1/session": Operation({200: SessionDocument}, (401, 403), (COOKIE,)),
    "DELETE /v1/session": Operation({204: None}),
    "POST /v1/plan": Operation({200: PLAN}, (401, 403, 422), _AUTH),
    "POST /v1/simulate": Operation({200: SimulationDocument}, (401, 403, 422), _AUTH),
    "POST /v1/queries/check": Operation({200: DraftChecks}, (401, 403, 422), _AUTH),
    "GET /v1/public/queries": Operation({200: PublicDocument}),
}
