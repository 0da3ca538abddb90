"""Complete OpenAPI descriptions: who may send a request, what every response looks like, and every
status a service returns.

The services write most responses themselves (stored JSON, bytes, streams), so FastAPI cannot know
their shape. What it does know (paths and parameters) is taken from it; the rest is declared per
operation, by the types of what is written (:mod:`deniable.documents`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from deniable.documents import json_schema
from deniable.service.http.event_stream import EVENT_STREAM
from deniable.service.http.server import ProblemDocument

__all__ = ["BEARER", "COOKIE", "Operation", "describe"]

BEARER, COOKIE = "bearer", "cookie"
_SCHEMES = {
    BEARER: {
        "type": "http",
        "scheme": "bearer",
        "description": "Authorization: Bearer, with a token that the operator made.",
    },
    COOKIE: {
        "type": "apiKey",
        "in": "cookie",
        "name": "deniable_session",
        "description": (
            "Of a page that signed in (PUT /v1/session). Changes must also show its word in"
            " X-Deniable-CSRF."
        ),
    },
}
_REASONS = {
    400: "The request cannot be understood.",
    401: "No token, or none that is known here.",
    403: "The token does not allow this.",
    404: "Not found, or not visible to this token.",
    405: "Method not allowed.",
    408: "The request came too slowly.",
    409: "Conflicts with what is already here.",
    410: "Its time is over.",
    413: "The body is too large.",
    415: "The body has the wrong media type.",
    416: "There is no such offset.",
    422: (
        "A parameter or the body is not usable; the detail says which, and what would be accepted."
    ),
    429: "Too many; Retry-After, where it is given, says when to come back.",
    503: "Not now; Retry-After, where it is given, says when to come back.",
}
_PROBLEM = "application/problem+json"
JSON = "application/json"


@dataclass(frozen=True)
class Operation:
    """The description of one operation, in addition to what FastAPI knows."""

    answers: Mapping[int, Any]
    """By status: a type, for JSON; the name of a media type; or None, for a response without a
    body."""
    refusals: tuple[int, ...] = ()
    """The statuses it returns with a problem document."""
    auth: tuple[str, ...] = ()
    """The alternative ways to authenticate; none for an operation that anyone may use."""
    body: Mapping[str, Any] = field(default_factory=dict)
    """The request's body, by media type: a type, or a schema."""
    events: bool = False
    """Whether it can also respond with server-sent events."""
    parameters: tuple[str, ...] = ()
    """URL parameters that it reads itself; all are optional strings."""


def describe(app: FastAPI, operations: Mapping[str, Operation]) -> None:
    """Declare operations of an application, such as `GET /v1/queries`. May be called again for
    operations added elsewhere."""
    known: dict[str, Operation] = getattr(app.state, "operations", {})
    app.state.operations = {**known, **operations}

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _described(app, app.state.operations)
        return app.openapi_schema

    app.openapi_schema = None
    app.openapi = openapi  # type: ignore[method-assign]


def _described(app: FastAPI, operations: Mapping[str, Operation]) -> dict[str, Any]:
    found = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas: dict[str, Any] = {}
    used: set[str] = set()
    for path, methods in found["paths"].items():
        for method, about in methods.items():
            operation = operations.get(f"{method.upper()} {path}")
            if operation is None:
                continue
            used |= set(operation.auth)
            about["responses"] = _responses(operation, schemas)
            if operation.auth:
                about["security"] = [{name: []} for name in operation.auth]
            texts = [
                {"name": name, "in": "query", "schema": {"type": "string"}}
                for name in operation.parameters
            ]
            if texts:
                about["parameters"] = [*about.get("parameters", []), *texts]
            if operation.body:
                content = {
                    kind: {"schema": _schema(each, schemas)}
                    for kind, each in operation.body.items()
                }
                about["requestBody"] = {"required": True, "content": content}
    components = found.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **schemas}
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    components["securitySchemes"] = {name: _SCHEMES[name] for name in sorted(used)}
    return found


def _responses(operation: Operation, schemas: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for status, answer in operation.answers.items():
        response: dict[str, Any] = {
            "description": "Done." if status < 400 else _REASONS.get(status, "Not done.")
        }
        if isinstance(answer, str):
            response["content"] = {answer: {}}
        elif answer is not None:
            response["content"] = {JSON: {"schema": _schema(answer, schemas)}}
        if operation.events and status == 200:
            response.setdefault("content", {})[EVENT_STREAM] = {}
        out[str(status)] = response
    # 400: bytes that are not HTTP, or a request that ends before its body
    for status in (*operation.refusals, 400):
        problem = {
            "description": _REASONS[status],
            "content": {_PROBLEM: {"schema": _schema(ProblemDocument, schemas)}},
        }
        if str(status) in out:
            out[str(status)].setdefault("content", {}).update(problem["content"])
        else:
            out[str(status)] = problem
    return dict(sorted(out.items()))


def _schema(kind: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    """A type as a schema; the documents in it are added to the components."""
    return kind if isinstance(kind, dict) else json_schema(kind, schemas)
