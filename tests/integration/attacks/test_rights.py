"""Every address of the aggregator and of the proxy, asked with every kind of token: only what is
granted answers.

The addresses come from the applications themselves: a new one without a row here fails.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from fastapi import FastAPI

from deniable.aggregator.history.settings import HistorySettings
from deniable.aggregator.service import Service
from deniable.aggregator.settings import AggregatorSettings, ProxySource
from deniable.aggregator.web.api import create_app
from deniable.aggregator.web.sessions import COOKIE
from deniable.aggregator.web.tokens import RIGHTS, add_token, grant, revoke_tokens, token_id
from deniable.console.console_app import add_console
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings as ProxyServiceSettings
from deniable.proxy.web.api import create_app as create_proxy_app
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.service.audit_log import RefusalLog, read_events
from deniable.service.tokens import ROLES, Role
from toolkit.crowds import KEY, minute_query
from toolkit.servers.proxies import query_of_today
from toolkit.servers.served import addresses, served

pytestmark = pytest.mark.slow

OTHER = AnalystKey("Mallory", bytes(range(1, 33)))
MINE = minute_query(id="mine")
THEIRS = minute_query(id="theirs", analyst=OTHER.owner)
OPEN, ANY_TOKEN, SIGN_IN, PUBLISHER = "open", "any token", "sign in", "publish somebody's queries"


class Row(NamedTuple):
    """What an address needs: nothing, any token, or a right on the query; how it is asked; and what
    it then answers."""

    needs: str
    answers: int | tuple[int, ...] = 200
    body: bytes | None = None
    path: str = ""


SIGNED = sign(MINE, KEY).to_bytes()
DESIGN = json.dumps(
    {"proportion": 0.02, "buckets": 2, "guesses": [0.5, 0.5], "population": 100_000, "epsilon": 3.0}
).encode()
NO_RESULT = 404
"""Whoever may read is told that there is no result yet; the reason in the document tells it from a
query that is not theirs."""
AGGREGATOR = {
    "GET /openapi.json": Row(OPEN),
    "GET /healthz": Row(OPEN, (200, 503)),
    "GET /readyz": Row(OPEN, (200, 503)),
    "GET /metrics": Row(OPEN),
    "GET /v1/public/queries": Row(OPEN),
    "GET /v1/public/queries/{query_id}/results": Row(OPEN, 404),  # its results are not public
    "GET /v1/public/feed": Row(OPEN),
    "GET /": Row(OPEN, 307),
    "GET /console": Row(OPEN, 307),
    "GET /console/{path:path}": Row(OPEN, path="/console/index.html"),
    "DELETE /v1/session": Row(OPEN, 204),
    "PUT /v1/session": Row(SIGN_IN),
    "GET /v1/session": Row(SIGN_IN),
    "GET /v1/queries": Row(ANY_TOKEN),
    "GET /v1/stream": Row(ANY_TOKEN),
    "GET /v1/metrics": Row(ANY_TOKEN),
    "GET /v1/capacity": Row(ANY_TOKEN),
    "POST /v1/plan": Row(ANY_TOKEN, 200, DESIGN),
    "POST /v1/simulate": Row(PUBLISHER, 200, DESIGN),
    "POST /v1/queries/check": Row(PUBLISHER, 200, b'{"columns": []}'),
    "PUT /v1/queries/{query_id}": Row("publish", (200, 201), SIGNED),
    "GET /v1/queries/{query_id}": Row("read"),
    "DELETE /v1/queries/{query_id}": Row("stop", 204),
    "GET /v1/queries/{query_id}/versions": Row("read"),
    "GET /v1/queries/{query_id}/results": Row("read"),
    "GET /v1/queries/{query_id}/results/latest": Row("read", NO_RESULT),
    "GET /v1/queries/{query_id}/results/latest/table": Row("read", NO_RESULT),
    "GET /v1/queries/{query_id}/results/stream": Row("read"),
    "GET /v1/queries/{query_id}/series": Row("read"),
    "GET /v1/queries/{query_id}/panes": Row("read"),
    "GET /v1/queries/{query_id}/history": Row("read", NO_RESULT),
    "GET /v1/queries/{query_id}/history/extent": Row("read"),
    "GET /v1/queries/{query_id}/history/receipts": Row("read"),
    "DELETE /v1/queries/{query_id}/history": Row("delete"),
}
PROXY: dict[str, tuple[tuple[Role, ...] | str, int | tuple[int, ...], bytes | None]] = {
    "GET /openapi.json": (OPEN, 200, None),
    "GET /healthz": (OPEN, 200, None),
    "GET /readyz": (OPEN, (200, 503), None),
    "GET /metrics": (OPEN, 200, None),
    "GET /v1/queries": (OPEN, 200, None),
    "GET /v1/queries/{query_id}": (OPEN, (200, 404), None),
    "GET /v1/public/feed": (OPEN, 200, None),
    "POST /v1/enrol": (OPEN, 403, b"{}"),  # by its settings, this proxy enrols nobody
    "POST /v1/answers": (OPEN, 400, b"{}"),  # what it needs is in the body
    "POST /v1/enrol/rotate": (("device",), 201, b""),
    "POST /v1/shares": (("device",), 400, b"no record"),
    "POST /v1/batches": (("collector",), 400, b"no batch"),
    "GET /v1/tokens": (("collector",), 200, None),
    "GET /v1/log": (("reader", "operator"), 200, None),
    "PUT /v1/queries/{query_id}": (("operator",), (200, 201), b""),
    "DELETE /v1/queries/{query_id}": (("operator",), (204, 404), None),
    "PUT /v1/revoked/{key_id}": (("operator",), 204, b""),
}
REFUSED = frozenset({401, 403, 404})


@dataclass
class Tenants:
    """An aggregator with the queries of two analysts, and a token of each kind."""

    service: Service
    app: FastAPI
    client: httpx.Client
    tokens: dict[str, tuple[str, frozenset[str]]]
    """By kind: the token, and its rights on MINE."""

    def ask(self, kind: str, address: str, query_id: str) -> tuple[int, str]:
        row, (method, path) = AGGREGATOR[address], address.split(" ")
        token = self.tokens[kind][0]
        headers = {"Content-Type": "application/json"}
        cookies = {}
        if kind == "all, by cookie":
            cookies = {COOKIE: token}
        elif token:
            headers["Authorization"] = f"Bearer {token}"
        body = row.body
        if row.needs == SIGN_IN:
            cookies = {COOKIE: token}
            body = json.dumps({"token": token}).encode() if method == "PUT" else None
        if cookies and method not in ("GET", "PUT /v1/session") and row.needs != SIGN_IN:
            known = self.client.get("/v1/session", headers={"Cookie": f"{COOKIE}={token}"}).json()
            headers["X-Deniable-CSRF"] = known["csrf"]
        if cookies:
            headers["Cookie"] = f"{COOKIE}={token}"
        url = (row.path or path).replace("{query_id}", query_id)
        with self.client.stream(method, url, content=body, headers=headers) as answer:
            ends = not answer.headers.get("content-type", "").startswith("text/event-stream")
            return answer.status_code, answer.read().decode() if ends else ""


@pytest.fixture(scope="module")
def tenants(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tenants]:
    folder = tmp_path_factory.mktemp("tenants")
    KeyRing().add(KEY.public).add(OTHER.public).save(folder / "ring.json")
    proxies = [
        ProxySource(name, "http://127.0.0.1:9", folder / f"log{i}.db")
        for i, name in enumerate(MINE.proxies)
    ]
    history = HistorySettings(str(folder / "history"))
    settings = AggregatorSettings(
        folder / "state.db", folder / "ring.json", proxies, history=history
    )
    service = Service(settings, clock=lambda: MINE.schedule.origin)
    tokens: dict[str, tuple[str, frozenset[str]]] = {
        "none": ("", frozenset()),
        "unknown": ("deniable_guessed", frozenset()),
    }
    with service.writing() as connection:
        for may in ([], RIGHTS, *([right] for right in RIGHTS), ["read", "publish"]):
            tokens[f"mine: {', '.join(may) or 'nothing'}"] = (
                add_token(connection, KEY.owner, may, 0),
                frozenset(may),
            )
        tokens["all, by cookie"] = (add_token(connection, KEY.owner, RIGHTS, 0), frozenset(RIGHTS))
        tokens["theirs"] = (add_token(connection, OTHER.owner, RIGHTS, 0), frozenset())
        tokens["theirs, granted read"] = (
            add_token(connection, OTHER.owner, RIGHTS, 0),
            frozenset(["read"]),
        )
        grant(connection, token_id(tokens["theirs, granted read"][0]), KEY.owner, ["read"])
        tokens["operator"] = (add_token(connection, "", (), 0, operator=True), frozenset(["stop"]))
        tokens["revoked"] = (add_token(connection, KEY.owner, RIGHTS, 0), frozenset())
        revoke_tokens(connection, token_id(tokens["revoked"][0]))
    app = create_app(service, ending=lambda: True)
    add_console(app, service)
    with served(app) as client:
        service.queries.publish(MINE.id, SIGNED)
        service.queries.publish(THEIRS.id, sign(THEIRS, OTHER).to_bytes())
        yield Tenants(service, app, client, tokens)


def test_every_address_of_the_aggregator_has_a_row(tenants: Tenants) -> None:
    assert addresses(tenants.app) == set(AGGREGATOR)


KINDS = [
    "none",
    "unknown",
    "revoked",
    "mine: nothing",
    *(f"mine: {right}" for right in RIGHTS),
    "mine: read, publish",
    f"mine: {', '.join(RIGHTS)}",
    "all, by cookie",
    "theirs",
    "theirs, granted read",
    "operator",
]


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_granted_answers(tenants: Tenants, kind: str) -> None:
    assert set(KINDS) == set(tenants.tokens)
    _, rights = tenants.tokens[kind]
    for address, row in AGGREGATOR.items():
        good = (row.answers,) if isinstance(row.answers, int) else row.answers
        status, body = tenants.ask(kind, address, MINE.id)
        told = (kind, address, status, body[:200])
        if row.needs == OPEN:
            assert status in good, told
        elif kind in ("none", "unknown", "revoked"):
            assert status == 401, told
        elif row.needs == PUBLISHER and "publish" not in rights and not kind.startswith("theirs"):
            assert status == 403, told
        elif row.needs in (ANY_TOKEN, SIGN_IN, PUBLISHER) or row.needs in rights:
            assert status in good, told
            assert "unknown_query" not in body, told
        else:
            publishes = row.needs == "publish"  # needs no query yet, so nothing is told by a 403
            assert status == (403 if rights or publishes else 404), told


@pytest.mark.parametrize("kind", ["theirs", "mine: nothing", "operator"])
def test_whoever_has_no_right_on_a_query_cannot_tell_whether_it_exists(
    tenants: Tenants, kind: str
) -> None:
    for address, row in AGGREGATOR.items():
        if "{query_id}" in address and row.needs not in tenants.tokens[kind][1]:
            there, missing = (tenants.ask(kind, address, name) for name in (MINE.id, "nobody"))
            # who may stop any query may know which there are
            if kind == "operator" and row.needs not in ("publish", OPEN):
                assert (there[0], missing[0]) == (403, 404)
            else:
                assert there[0] in REFUSED
                assert there == (missing[0], missing[1].replace("nobody", MINE.id)), address


def test_lists_metrics_and_streams_hold_ones_own_queries_only(tenants: Tenants) -> None:
    def listed(kind: str) -> list[str]:
        return [query["id"] for query in json.loads(tenants.ask(kind, "GET /v1/queries", "")[1])]

    assert listed("theirs") == ["theirs"]
    assert listed("mine: read") == ["mine"]
    assert listed("mine: publish") == listed("operator") == []
    assert listed("theirs, granted read") == ["mine", "theirs"]
    found = json.loads(tenants.ask("theirs, granted read", "GET /v1/queries", "")[1])
    assert [query["may"] for query in found] == [["read"], list(RIGHTS)]


def test_an_analyst_publishes_only_what_they_signed_and_takes_no_id_of_another(
    tenants: Tenants,
) -> None:
    headers = {"Authorization": f"Bearer {tenants.tokens['theirs'][0]}"}
    stolen = tenants.client.put("/v1/queries/mine", content=SIGNED, headers=headers)
    assert (stolen.status_code, stolen.json()["reason"]) == (403, "right")
    taken = sign(minute_query(id="mine", analyst=OTHER.owner, serial=9), OTHER).to_bytes()
    refused = tenants.client.put("/v1/queries/mine", content=taken, headers=headers)
    assert (refused.status_code, refused.json()["reason"]) == (409, "publication")
    assert tenants.service.queries.owner_of("mine") == KEY.owner


def test_refusals_are_in_the_audit_log_by_token_and_address_but_no_token_is(
    tenants: Tenants,
) -> None:
    # Its own: those before have used up the lines of this minute.
    tenants.service.refusal_log = RefusalLog(
        tenants.service.audit, lambda: 0.0, logging.getLogger("test")
    )
    for _ in range(3):
        tenants.ask("theirs", "DELETE /v1/queries/{query_id}", MINE.id)
    tenants.service.refusal_log.step(everything=True)
    mallory = f"token:{token_id(tenants.tokens['theirs'][0])}"
    found = [
        event for event in read_events(tenants.service.audit.path) if event.get("actor") == mallory
    ]
    stops = [event for event in found if event["subject"] == "DELETE /v1/queries/{query_id}"]
    assert {event["details"]["status"] for event in stops} == {404}
    assert stops[-1]["details"]["count"] == 3
    content = tenants.service.audit.path.read_text()
    assert not any(
        token and token.removeprefix("deniable_") in content for token, _ in tenants.tokens.values()
    )
    assert tenants.service.audit.problem() == ""


# --- the proxy


def test_every_address_of_the_proxy_answers_the_roles_it_is_for_and_no_other(
    tmp_path: Path,
) -> None:
    query = query_of_today()
    proxy = ProxyService(ProxyServiceSettings(tmp_path / "data"))
    front = create_proxy_app(proxy)
    assert addresses(front.app) == set(PROXY)
    gone = proxy.tokens.add("operator")[0]
    assert len(proxy.tokens.revoke(proxy.tokens.tokens()[0].id)) == 1
    with served(front) as client:
        for address, (roles, answers, body) in PROXY.items():
            method, path = address.split(" ")
            url = path.replace("{query_id}", query.id).replace("{key_id}", "00" * 8)
            content = (
                sign(query, KEY).to_bytes() if address == "PUT /v1/queries/{query_id}" else body
            )
            good = (answers,) if isinstance(answers, int) else answers
            for role in (None, "unknown", "revoked", *ROLES):
                (token,) = (
                    proxy.tokens.add(role)
                    if role in ROLES
                    else [gone if role == "revoked" else "deniable_guessed"]
                )
                headers: dict[str, Any] = (
                    {} if role is None else {"Authorization": f"Bearer {token}"}
                )
                kind = "json" if path in ("/v1/enrol", "/v1/answers") else "octet-stream"
                headers["Content-Type"] = f"application/{kind}"
                status = client.request(method, url, content=content, headers=headers).status_code
                if roles == OPEN or role in roles:
                    assert status in good, (address, role, status)
                else:
                    expected = 403 if role in ROLES and address != "POST /v1/enrol/rotate" else 401
                    assert status == expected, (address, role, status)
    proxy_events = [event["event"] for event in read_events(tmp_path / "data" / "audit.jsonl")]
    assert proxy_events[0] == "service.started"
    assert proxy_events[-1] == "service.stopped"
    assert {"query.published", "key.revoked", "right.refused"} <= set(proxy_events)
