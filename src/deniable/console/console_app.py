"""The console's part of the aggregator's interface: its files, signing in, planning, and the public
list of queries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from deniable.aggregator.service import Service
from deniable.aggregator.web.sessions import (
    COOKIE,
    authorize,
    csrf_word,
    forget_cookie,
    from_own_page,
    set_cookie,
)
from deniable.console.console_documents import CONSOLE_OPERATIONS, SessionDocument
from deniable.console.design_plans import DesignRequest, design_answer, simulate_design
from deniable.console.drafts import Draft, check_draft
from deniable.console.public_queries import PublicQueries
from deniable.console.static_files import add_static_files
from deniable.errors import RefusedError
from deniable.service.fair_parts import FairTurns
from deniable.service.http.openapi import describe

__all__ = ["add_console"]

_COMPUTED_AT_ONCE = 2
_MOST_WAITING = 4
"""Plans, simulations and checks: how many are computed at a time, and how many of one analyst wait
for that."""


class _SignIn(BaseModel):
    token: str = Field(max_length=200)


def add_console(app: FastAPI, service: Service) -> None:
    """Serve the console beside the aggregator's interface."""
    _add_sessions(app, service)
    _add_planning(app, service)
    _add_public(app, service)
    describe(app, CONSOLE_OPERATIONS)
    add_static_files(app, "index.html")


def _add_sessions(app: FastAPI, service: Service) -> None:
    def told(token: str) -> dict[str, Any]:
        holder = service.holder_of(token)
        if holder is None:
            raise RefusedError("token", 401, "Unknown token.")
        role = (
            holder.role
            if holder.role == "operator" or holder.may_somewhere("publish")
            else "reader"
        )
        return dict(
            SessionDocument(
                name=holder.name, role=role, csrf=csrf_word(token), proxies=list(service.names)
            )
        )

    @app.put("/v1/session")
    def sign_in(given: _SignIn, request: Request, response: Response) -> dict[str, Any]:
        """Sign a browser in with a token: it is kept in a cookie that scripts cannot read."""
        if not from_own_page(request):
            raise RefusedError("csrf", 403, "Pages of other origins cannot sign in here.")
        found = told(given.token.strip())
        set_cookie(request, response, given.token.strip())
        return found

    @app.get("/v1/session")
    def session(request: Request) -> dict[str, Any]:
        """Who is signed in, what they may do, and the CSRF token that changes must carry."""
        if not from_own_page(request):
            raise RefusedError("csrf", 403, "Pages of other origins cannot read this.")
        return told(request.cookies.get(COOKIE, ""))

    @app.delete("/v1/session", status_code=204)
    def sign_out(request: Request) -> Response:
        """Forget the cookie."""
        response = Response(status_code=204)
        forget_cookie(request, response)
        return response


def _add_planning(app: FastAPI, service: Service) -> None:
    turns = FairTurns(_COMPUTED_AT_ONCE, _MOST_WAITING, reason="computing")

    async def computed(
        request: Request, right: str, compute: Callable[..., Mapping[str, Any]], *given: Any
    ) -> dict[str, Any]:
        """What `compute` returns, in the turn of the analyst who asks; they need the right on some
        analyst's queries, if one is named."""
        holder = (await run_in_threadpool(authorize, service, request)).holder
        if right and not holder.may_somewhere(right):
            raise RefusedError("right", 403, f"this needs the right to {right} queries")
        async with turns.turn(holder.owner):
            return dict(await run_in_threadpool(compute, *given))

    @app.post("/v1/plan")
    async def plan_a_design(given: DesignRequest, request: Request) -> dict[str, Any]:
        """Plan epsilon, population or ± from the other two, with the risk and the resources; or why
        not, and what comes closest. `end` gives the epochs that the query would have if it were
        signed now."""
        return await computed(request, "", design_answer, given.scheduled(service.clock()))

    @app.post("/v1/simulate")
    async def simulate_a_design(given: DesignRequest, request: Request) -> dict[str, Any]:
        """Try the design on simulated people with the guessed proportions. Nobody is asked. Needs
        the right to publish.

        `n_reports` says how many were simulated: fewer than planned, if there are many buckets.
        """
        return await computed(request, "publish", simulate_design, given)

    @app.post("/v1/queries/check")
    async def check_a_query(given: Draft, request: Request) -> dict[str, Any]:
        """Check a draft query; one without errors is returned as the bytes to sign. Needs the right
        to publish."""
        return await computed(
            request, "publish", check_draft, given, list(service.names), service.clock()
        )


def _add_public(app: FastAPI, service: Service) -> None:
    queries = PublicQueries(service)

    @app.get("/v1/public/queries")
    def public_queries(request: Request) -> Response:
        """Every query as signed, with its versions, and the keys to check them with. No token is
        needed.

        `feed` and `audit` are the heads of the public feed and of the audit log: note them down to
        detect a log that is rewritten later. `ETag` and `If-None-Match` are supported.
        """
        content, tag = queries.document()
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="application/json")
