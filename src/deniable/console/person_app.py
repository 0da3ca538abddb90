"""The owner's page: what their device was asked, what it cost, what is left, and who may ask. On
this machine only.

The page is served on the loopback address. Its URL has a random token after `#`, which browsers do
not send; the page exchanges it for a cookie. A page of another site, under whatever name it reaches
this port, has neither.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypedDict

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from deniable.client.policy import Policy, read_policy, refuse_analyst
from deniable.client.receipts import ReceiptDocument
from deniable.client.storage.store import Store, StoreTransaction
from deniable.client.vaults.vault import Vault
from deniable.console.static_files import add_static_files
from deniable.documents import WrittenAs
from deniable.errors import DeniableError, RefusedError
from deniable.privacy.ledger import Limit
from deniable.queries.schedule import spoken_duration
from deniable.service.http.server import problem

__all__ = ["PersonDocument", "PersonSession", "create_person_app"]

COOKIE = "deniable_person"
_MOST_RECEIPTS = 500
_HOSTS = ("127.0.0.1", "localhost", "[::1]")


class PersonSession:
    """The secret of one run of the page."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(32)

    def check(self, request: Request) -> None:
        """Refuse requests that do not come from the page itself."""
        host = request.headers.get("host", "").rsplit(":", 1)[0]
        if host not in _HOSTS:
            raise RefusedError("host", 403, "This page is only for this machine.")
        if not hmac.compare_digest(request.cookies.get(COOKIE, "").encode(), self.token.encode()):
            raise RefusedError("token", 401, "Open the address that `deniable client ui` printed.")
        if request.method != "GET" and request.headers.get("x-deniable-csrf") != "1":
            raise RefusedError("csrf", 403, "Changes must come from the page itself.")


class _Token(BaseModel):
    token: str = Field(max_length=200)


class _Choice(BaseModel):
    analyst: str = Field(max_length=200)
    refused: bool


class BalanceDocument(TypedDict):
    """What an analyst, or all together, may still learn."""

    limit: float | None
    spent: float
    left: float | None
    period: str | None


class _AnalystBalance(BalanceDocument):
    name: str
    refused: bool


class PersonDocument(TypedDict):
    """What the owner of a vault sees."""

    now: int
    vault: str
    granted: dict[str, list[str]]
    """The columns of each table that may be asked about."""
    proxies: list[str]
    epsilon_per_answer: float
    total: BalanceDocument | None
    analysts: list[_AnalystBalance]
    receipts: list[Annotated[dict[str, Any], WrittenAs(ReceiptDocument)]]


def create_person_app(
    vault: Path, policy_file: Path, session: PersonSession, clock: Callable[[], float] = time.time
) -> FastAPI:
    """The page of one vault's owner."""
    app = FastAPI(title="deniable, on this device", docs_url=None, redoc_url=None, openapi_url=None)

    async def refused(_: Request, error: Exception) -> Response:
        reason, status = (
            (error.reason, error.status) if isinstance(error, RefusedError) else ("settings", 409)
        )
        detail = error.detail if isinstance(error, RefusedError) else str(error)
        return Response(
            problem(reason, status, detail), status, media_type="application/problem+json"
        )

    app.add_exception_handler(RefusedError, refused)
    app.add_exception_handler(DeniableError, refused)

    @app.put("/v1/session")
    def sign_in(given: _Token, request: Request) -> Response:
        host = request.headers.get("host", "").rsplit(":", 1)[0]
        if host not in _HOSTS or not hmac.compare_digest(
            given.token.encode(), session.token.encode()
        ):
            raise RefusedError(
                "token", 401, "This is not the address that `deniable client ui` printed."
            )
        response = Response(status_code=204)
        response.set_cookie(COOKIE, session.token, path="/", httponly=True, samesite="strict")
        return response

    @app.get("/v1/person")
    def person(request: Request) -> dict[str, Any]:
        session.check(request)
        return dict(_told(vault, read_policy(policy_file), int(clock())))

    @app.put("/v1/person/refusals")
    def refuse(given: _Choice, request: Request) -> dict[str, Any]:
        session.check(request)
        policy = refuse_analyst(policy_file, given.analyst, given.refused)
        return dict(_told(vault, policy, int(clock())))

    add_static_files(app, "person.html")
    return app


def _told(path: Path, policy: Policy, now: int) -> PersonDocument:
    vault = Vault.open(path)
    store = Store.beside(vault.path)
    with store.transaction() as transaction:
        receipts = transaction.journal.receipts(_MOST_RECEIPTS)
        names = sorted(
            {analyst for analyst, _ in transaction.versions.seen()}
            | {each.analyst for each in receipts if each.verified and each.analyst}
        )
        own = next((limit for limit in policy.limits if limit.each_analyst), None)
        whole = next(
            (limit for limit in policy.limits if not limit.each_analyst and limit.analyst is None),
            None,
        )
        analysts: list[_AnalystBalance] = [
            {
                "name": name,
                "refused": name in policy.refused,
                **_balance(transaction, limit, name, now),
            }
            for name in names
            for limit in [
                next((each for each in policy.limits if each.analyst == name), own or whole)
            ]
        ]
        total = None if whole is None else _balance(transaction, whole, "", now)
    return {
        "now": now,
        "vault": path.name,
        "granted": {table: list(columns) for table, columns in vault.grants().items()},
        "proxies": sorted(policy.proxies),
        "epsilon_per_answer": float(Limit(policy.epsilon_per_answer).epsilon),
        "total": total,
        "analysts": analysts,
        "receipts": [receipt.to_dict() for receipt in reversed(receipts)],
    }


def _balance(
    transaction: StoreTransaction, limit: Limit | None, analyst: str, now: int
) -> BalanceDocument:
    accountant = transaction.charges.accountant(() if limit is None else (limit,), now)
    if limit is None:
        return {
            "limit": None,
            "spent": float(accountant.spent(analyst)),
            "left": None,
            "period": None,
        }
    left: Fraction = accountant.left(analyst, now) or Fraction(0)
    period = None if limit.period is None else spoken_duration(limit.period)
    return {
        "limit": float(limit.epsilon),
        "spent": float(limit.epsilon - left),
        "left": float(left),
        "period": period,
    }
