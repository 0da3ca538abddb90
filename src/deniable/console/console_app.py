"""The console's part of the aggregator's interface: its files, signing in, planning, and the public list of queries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from deniable.aggregator.catalogue import Published, published
from deniable.aggregator.service import Service
from deniable.aggregator.sessions import COOKIE, authorize, csrf_word, forget_cookie, from_own_page, set_cookie
from deniable.console.console_documents import CONSOLE_OPERATIONS
from deniable.console.design_plans import DesignRequest, design_answer, simulate_design
from deniable.console.drafts import Draft, check_draft
from deniable.console.static_files import add_static_files
from deniable.errors import RefusedError
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.summary import summary
from deniable.queries.times import with_times
from deniable.service.openapi import describe

__all__ = ["add_console"]


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
        role = holder.role if holder.role == "operator" or holder.may_somewhere("publish") else "reader"
        return {"name": holder.name, "role": role, "csrf": csrf_word(token), "proxies": list(service.names)}

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
    @app.post("/v1/plan")
    def plan_a_design(given: DesignRequest, request: Request) -> dict[str, Any]:
        """Plan epsilon, people or ± from the other two, with the risk and the resources; or why not, and what comes closest."""
        authorize(service, request)
        return design_answer(given)

    @app.post("/v1/simulate")
    def simulate_a_design(given: DesignRequest, request: Request) -> dict[str, Any]:
        """Try the design on simulated people with the guessed proportions. Nobody is asked."""
        authorize(service, request)
        return simulate_design(given)

    @app.post("/v1/queries/check")
    def check_a_query(given: Draft, request: Request) -> dict[str, Any]:
        """Check a draft query; one without errors is returned as the bytes to sign."""
        authorize(service, request)
        return check_draft(given, list(service.names), service.clock())


def _add_public(app: FastAPI, service: Service) -> None:
    @app.get("/v1/public/queries")
    def public_queries() -> dict[str, Any]:
        """Every query as signed, with its versions, and the keys to check them with. No token is needed.

        `feed` and `audit` are the heads of the public feed and of the audit log: note them down to detect a log that is rewritten
        later.
        """
        with service.reading() as connection:
            entries = published(connection)
        newest = {entry.query.id: entry for entry in entries}
        return {
            "queries": [_public(entry, [each for each in entries if each.query.id == name]) for name, entry in newest.items()],
            "feed": str(service.feed.head),
            "audit": str(service.audit.head),
            "keys": [
                {"id": trusted.key.id, "owner": trusted.key.owner, "public": trusted.key.raw.hex(), "revoked": trusted.revoked}
                for trusted in service.ring
            ],
        }


def _public(entry: Published, versions: Sequence[Published]) -> dict[str, Any]:
    query = entry.query
    envelope = query.envelope
    document = {
        "id": query.id,
        "serial": query.serial,
        "published": entry.published,
        "stopped": entry.stopped,
        "signed": json.loads(entry.signed.to_bytes()),
        "labels": list(query.labels),
        "epsilon_local": query.epsilon_local,
        **query.sampled_loss.sampled_fields(),
        "epsilon_life": lifetime_epsilon(query),
        "envelope": None if envelope is None else {"epsilon": [0.0, envelope.epsilon_per_answer]},
        "versions": [
            with_times(
                {"serial": each.query.serial, "published": each.published, "epsilon_local": each.query.epsilon_local}, "published"
            )
            for each in versions
        ],
        "summary": summary(query),
    }
    return with_times(document, "published", "stopped")
