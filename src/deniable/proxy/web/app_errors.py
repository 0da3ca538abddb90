"""Responses to a framework's errors: the same problem documents as everywhere, counted by
reason."""

from __future__ import annotations

import asyncio
from collections import Counter

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from deniable.errors import AuditLogError, RefusedError
from deniable.service.http.hot_path import internal_error, refusal
from deniable.service.http.server import parameters_problem

__all__ = ["add_errors"]

_SECONDS_TO_DRAIN = 2.0


def _response(error: RefusedError) -> Response:
    status, lines, body = refusal(error)
    response = Response(body, status)
    response.raw_headers += [tuple(line.split(b": ", 1)) for line in lines.split(b"\r\n")[:-1]]  # type: ignore[misc]
    return response


async def _drain(request: Request) -> None:
    """Keep reading and discarding for a moment, so that the response reaches a client that is still
    sending."""
    announced = (
        "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
    )
    if not announced or getattr(request.state, "received", False):
        return
    try:
        async with asyncio.timeout(_SECONDS_TO_DRAIN):
            async for _ in request.stream():
                pass
    # RuntimeError: it was refused after its last bytes had arrived
    except (TimeoutError, ClientDisconnect, RuntimeError):
        return


def add_errors(app: FastAPI, refusals: Counter[str]) -> None:
    """Make an application respond to errors with problem documents."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, RefusedError)  # noqa: S101 - for the type checker: it is registered for this alone
        refusals[error.reason] += 1
        if error.status != 408:
            await _drain(request)
        return _response(error)

    async def wrong_address(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 422
        reason = {404: "address", 405: "method"}.get(status, "parameters")
        response = await refused(request, RefusedError(reason, status, parameters_problem(error)))
        response.headers.update(getattr(error, "headers", None) or {})  # which methods are allowed
        return response

    async def unrecorded(request: Request, error: Exception) -> Response:
        return await refused(
            request,
            RefusedError(
                "audit_log",
                503,
                f"nothing was changed, because it could not be recorded: {error}",
                retry_after=5,
            ),
        )

    async def gone(_: Request, __: Exception) -> Response:
        refusals["disconnected"] += 1
        return Response(status_code=400)

    async def broken(_: Request, error: Exception) -> Response:
        refused_so = internal_error(error)
        refusals[refused_so.reason] += 1
        return _response(refused_so)

    app.add_exception_handler(RefusedError, refused)
    app.add_exception_handler(HTTPException, wrong_address)
    app.add_exception_handler(RequestValidationError, wrong_address)
    app.add_exception_handler(AuditLogError, unrecorded)
    app.add_exception_handler(ClientDisconnect, gone)
    app.add_exception_handler(Exception, broken)
