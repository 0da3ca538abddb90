"""Requests of an attack on a deployed service, and what its answers say."""

from __future__ import annotations

import json
from typing import Any

from deniable.audit.deployed.attempts import (
    Attempt,
    ServiceTarget,
)
from deniable.errors import ResponseError
from deniable.service.http.reading import Answer, ask, bearer

__all__ = ["document", "not_allowed", "post"]


LARGEST_ANSWER = 16 << 20


def post(client: Any, target: ServiceTarget, path: str, body: dict[str, Any]) -> Answer:
    """The answer to a document that is posted with the target's token."""
    address = target.url.rstrip("/") + path
    return ask(client, "POST", address, LARGEST_ANSWER, json=body, headers=bearer(target.token))


def document(answer: Answer) -> Any:
    """The JSON of an answer."""
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError):
        raise ResponseError(answer.status, "unusable", "the answer is not JSON") from None


def not_allowed(name: str, tried: str, answer: Answer) -> Attempt | None:
    """That an attack could not be tried with this token, if so."""
    if answer.status in (401, 403, 404, 405):
        seen = f"{answer.status}: the token has no right to ask this, or there is no such endpoint"
        return Attempt(name, tried, seen, "not tried")
    return None
