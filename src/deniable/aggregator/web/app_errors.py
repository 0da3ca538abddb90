"""Responses of the aggregator to errors: problem documents, counted by reason, and recorded where
somebody tried what they may not."""

from __future__ import annotations

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from deniable.aggregator.service import Service
from deniable.errors import (
    AuditLogError,
    ParameterError,
    PublicationError,
    QueryError,
    RefusedError,
    SandboxError,
)
from deniable.service.http.server import parameters_problem, problem

__all__ = ["add_errors"]


def add_errors(app: FastAPI, service: Service) -> None:
    """Make an application respond to errors with problem documents."""

    def answer(
        request: Request, reason: str, status: int, detail: str, retry_after: int | None = None
    ) -> Response:
        service.refusals[reason] += 1
        if status in (401, 403) or reason == "unknown_query":
            route = getattr(request.scope.get("route"), "path", "")
            service.refusal_log.note(
                getattr(request.state, "actor", "no token"), f"{request.method} {route}", status
            )
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
        if retry_after is not None:
            headers["Retry-After"] = str(retry_after)
        return Response(
            problem(reason, status, detail), status, headers, media_type="application/problem+json"
        )

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)  # noqa: S101 - for the type checker: it is registered for this type only
        return answer(request, error.reason, error.status, error.detail, error.retry_after)

    async def bad_query(request: Request, error: Exception) -> Response:
        reason = error.reason.replace(" ", "_") if isinstance(error, QueryError) else "publication"
        return answer(
            request,
            reason,
            409 if reason in ("rolled-back_query", "publication") else 422,
            str(error),
        )

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
        return answer(
            request,
            "audit_log",
            503,
            f"nothing was changed, because it could not be recorded: {error}",
        )

    async def unchecked(request: Request, error: Exception) -> Response:
        return answer(
            request, "unchecked", 503, f"the SQL could not be checked: {error}", retry_after=5
        )

    async def broken(request: Request, _: Exception) -> Response:
        return answer(
            request, "internal", 500, "the aggregator could not do this; nothing was changed"
        )

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
