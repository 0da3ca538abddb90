"""What the aggregator's interface has for the console: its files, signing in, planning, and the public list of queries."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from deniable.aggregator.service import Service
from deniable.aggregator.sessions import COOKIE, csrf_word, forget_cookie, from_own_page, set_cookie
from deniable.console.static_files import add_static_files
from deniable.errors import RefusedError

__all__ = ["add_console"]


class _SignIn(BaseModel):
    token: str = Field(max_length=200)


def add_console(app: FastAPI, service: Service) -> None:
    """Serve the console beside the aggregator's interface."""
    _add_sessions(app, service)
    add_static_files(app, "index.html")


def _add_sessions(app: FastAPI, service: Service) -> None:
    def told(token: str) -> dict[str, Any]:
        holder = service.holder_of(token)
        if holder is None:
            raise RefusedError("token", 401, "This token is not known here.")
        return {"name": holder.name, "role": holder.role, "csrf": csrf_word(token), "proxies": list(service.names)}

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
        """Whose page this is, what they may do, and the word that changes must show."""
        if not from_own_page(request):
            raise RefusedError("csrf", 403, "Pages of other origins cannot read this.")
        return told(request.cookies.get(COOKIE, ""))

    @app.delete("/v1/session", status_code=204)
    def sign_out(request: Request) -> Response:
        """Forget the cookie."""
        response = Response(status_code=204)
        forget_cookie(request, response)
        return response
