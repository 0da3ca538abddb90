"""Requests to a proxy: uploads, batches of a collector, enrolment, publication, whatever address.
Nothing is ever answered 5xx.

An input is a method, an address and a role in the first line, headers up to an empty line, and the
body.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import cache
from typing import Any

from deniable.errors import RefusedError
from deniable.proxy.enrolment import EnrolmentRules
from deniable.proxy.intake.uploads import IntakeRules
from deniable.proxy.service import ProxyService
from deniable.proxy.settings import ProxySettings
from deniable.proxy.web.api import create_app
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import sign
from deniable.service.tokens import Role
from deniable.wire.batches import pack_batch
from deniable.wire.message import Message
from deniable.wire.shares import split
from fuzz.files import folder
from fuzz.vectors import vectors
from toolkit.queries import make_query

WEIGHT, LONGEST = 1, 1500
DICTIONARY = [
    b"POST /v1/shares device",
    b"POST /v1/batches collector",
    b"POST /v1/enrol -",
    b"PUT /v1/queries/x operator",
    b"\n\n",
    b"content-length: ",
]
DICTIONARY += [
    b"content-type: application/octet-stream\n",
    b"authorization: Bearer x\n",
    b"{}",
    b"deniable-refused: late=3,",
    b"GET /v1/log?after=",
    b"%00",
    b"\\ud800",
]
NOW = 1_750_000_000
ROLES: tuple[Role, ...] = ("device", "reader", "operator", "collector")
QUERY = make_query()
OCTETS = b"content-type: application/octet-stream\n\n"


@cache
def proxy() -> Any:
    """A real one, in this process, and a function that asks it."""
    rules = EnrolmentRules(mode="invitation", per_hour_and_address=1 << 30, per_second=1 << 20)
    settings = ProxySettings(
        folder() / "proxy", intake=IntakeRules(threshold=64, most_ids=1 << 20), enrolment=rules
    )
    loop = asyncio.new_event_loop()
    made = ProxyService(settings, clock=lambda: NOW)
    app = create_app(made)
    made.board.publish(QUERY.id, sign(QUERY, AnalystKey(QUERY.analyst, bytes(32))).to_bytes())
    made.intake.set_channels(made.board.channels())
    made.start()
    tokens = {role: made.tokens.add(role, 1 << 30)[0] for role in ROLES}
    return made, tokens, lambda request: loop.run_until_complete(_asked(app, request))


async def _asked(
    app: Callable[..., Any], request: tuple[str, str, list[tuple[bytes, bytes]], bytes]
) -> tuple[int, bytes]:
    method, target, headers, body = request
    path, _, query = target.partition("?")
    parts = [{"type": "http.request", "body": body, "more_body": False}]
    out: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return parts.pop() if parts else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        out.append(message)

    scope = {
        **{
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
        },
        **{
            "raw_path": path.encode("latin-1", "replace"),
            "query_string": query.encode("latin-1", "replace"),
            "headers": headers,
        },
        **{"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8600), "root_path": ""},
    }
    await app(scope, receive, send)
    return out[0]["status"], b"".join(part.get("body", b"") for part in out[1:])


def seeds() -> list[bytes]:
    epoch = QUERY.schedule.epochs_begun(NOW) - 1
    shares = [
        each.to_bytes()
        for each in split(Message(QUERY.tag, epoch, b"\x01\x02"), 0, 2, QUERY.channel_tag)
    ]
    record = bytes.fromhex(vectors("wire")["good_messages"][0]["shares"][0])
    signed = sign(make_query(id="x"), AnalystKey("City of Exampleton", bytes(32))).to_bytes()
    return [
        b"POST /v1/shares device\n" + OCTETS + shares[0],
        b"POST /v1/shares device\n" + OCTETS + record,
        b"POST /v1/batches collector\n" + OCTETS + pack_batch([b"a" * 32], [shares[0]]),
        b'POST /v1/enrol -\n\n{"invitation": "code"}',
        b'POST /v1/enrol -\n\n{"ticket": "{}", "signature": "00"}',
        b"POST /v1/enrol/rotate device\n\n",
        b"PUT /v1/queries/x operator\n\n" + signed,
        b"DELETE /v1/queries/nothing operator\n\n",
        *(
            b"GET /v1/log?after=0&limit=3 reader\n\n",
            b"GET /metrics -\n\n",
            b"GET /healthz -\n\n",
            b"GET /v1/tokens collector\n\n",
        ),
        b'GET /v1/queries -\nif-none-match: "x"\n\n',
    ]


def check(data: bytes) -> None:
    head, _, body = data.partition(b"\n\n")
    first, *lines = head.split(b"\n")
    method, target, role = ([*first.decode("latin-1").split(" "), "", "", ""])[:3]
    made, tokens, ask = proxy()
    headers = [
        (name.strip().lower(), value.strip())
        for name, _, value in (line.partition(b":") for line in lines)
    ]
    if role in tokens:
        headers.append((b"authorization", f"Bearer {tokens[role]}".encode()))
    before = sum(made.refusals.values()), made.refusals["internal"]
    status, answer = ask(
        (method or "GET", target if target.startswith("/") else "/" + target, headers, body)
    )
    assert made.refusals["internal"] == before[1], answer
    if status < 400:
        assert status in (200, 201, 202, 204, 304), status
        return
    assert status < 500 or status == 503, (status, answer)
    if method != "HEAD":
        problem = json.loads(answer)
        assert {"title", "status"} <= set(problem), problem
        assert problem["status"] == status
    assert sum(made.refusals.values()) > before[0], "refused, and not counted"
    raise RefusedError("refused", status, answer.decode("utf-8", "replace")[:200] or "refused")
