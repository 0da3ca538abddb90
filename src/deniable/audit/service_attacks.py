"""Attacks on a deployed service, over the network, with what an outsider or the holder of a token has.

They are those that once succeeded (docs/threat-model.md). Each is as small as it can be and still tells
a service that holds from one that does not, which it keeps busy for a second or so and not for good.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from deniable.audit.attempts import Attempt, RawAnswer, ServiceAudit, ServiceTarget, read_head
from deniable.errors import DeniableError, ResponseError
from deniable.queries.keys import AnalystKey
from deniable.queries.query import Query
from deniable.queries.signing import LARGEST_LIST, SignedQuery, sign
from deniable.service.http_reading import Answer, ask, bearer
from deniable.wire.shares import Share, record_bytes

__all__ = ["ForeignChannel", "audit_service", "channel_tag_of"]

_LARGEST = 16 << 20
_BOMB_LEVELS = 18
_LONGEST = 20.0
"""Seconds after which the check of a few hundred bytes counts as too long, on a machine however busy."""
_BUCKETS, _PEOPLE, _MOST_CELLS = 1024, 3_000_000, 1 << 31
_AT_ONCE = 12
_STREAMS, _MOST_STREAMS = 60, 20
_MOST_MESSAGES = 64


@dataclass(frozen=True)
class ForeignChannel:
    """What trying to publish on another's channel takes: two analysts' keys, a token of the other, and a query to vary."""

    key: AnalystKey
    other_key: AnalystKey
    other_token: str
    query: Query


def audit_service(
    aggregator: ServiceTarget, proxy: ServiceTarget | None = None, channel: ForeignChannel | None = None
) -> ServiceAudit:
    """Run all attacks, and say for each what was tried, what was seen and whether the service holds.

    The aggregator's token must be an analyst's, with the right to publish; the proxy's must be a device's,
    to throw away. `proxy` and `channel` may be left out: what needs them is not tried.
    """
    import httpx  # noqa: PLC0415 - an extra

    with httpx.Client(timeout=60, trust_env=False) as client:
        attacks: list[tuple[str, Callable[[], Attempt]]] = [
            ("compile bomb", lambda: _compile_bomb(client, aggregator)),
            ("oversized simulation", lambda: _oversized_simulation(client, aggregator)),
            ("streams at once", lambda: _streams_at_once(client, aggregator)),
            ("two tokens in one request", lambda: _two_tokens(aggregator)),
            ("responses that may be kept or guessed", lambda: _missing_headers(aggregator, proxy)),
            ("cost of what anyone may read", lambda: _public_cost(client, aggregator)),
            ("another analyst's channel", lambda: _foreign_channel(client, aggregator, channel)),
            ("quota after a rotation", lambda: _rotated_quota(client, proxy)),
        ]
        return ServiceAudit(aggregator.url, tuple(_attempted(name, attack) for name, attack in attacks))


def _attempted(name: str, attack: Callable[[], Attempt]) -> Attempt:
    try:
        return attack()
    except DeniableError as error:
        return Attempt(name, "nothing: the service could not be asked", str(error), "not tried")


def _post(client: Any, target: ServiceTarget, path: str, body: dict[str, Any]) -> Answer:
    address = target.url.rstrip("/") + path
    return ask(client, "POST", address, _LARGEST, json=body, headers=bearer(target.token))


def _document(answer: Answer) -> Any:
    try:
        return json.loads(answer.content)
    except (ValueError, RecursionError):
        raise ResponseError(answer.status, "unusable", "the answer is not JSON") from None


def _refused(name: str, tried: str, answer: Answer) -> Attempt | None:
    """That an attack could not be tried with this token, if so."""
    if answer.status in (401, 403, 404, 405):
        seen = f"{answer.status}: the token has no right to ask this, or there is no such endpoint"
        return Attempt(name, tried, seen, "not tried")
    return None


# --- the aggregator ------------------------------------------------------------------------------------------------------


def compile_bomb(levels: int = _BOMB_LEVELS) -> str:
    """SQL that SQLite's compiler expands to twice the size at each level."""
    parts = ["a0 AS (SELECT 1 AS x)"]
    parts += [f"a{i} AS (SELECT x FROM a{i - 1} UNION ALL SELECT x FROM a{i - 1})" for i in range(1, levels)]  # noqa: S608
    return f"WITH {', '.join(parts)} SELECT x FROM a{levels - 1}"  # noqa: S608


def _compile_bomb(client: Any, target: ServiceTarget) -> Attempt:
    name, sql = "compile bomb", compile_bomb()
    tried = f"POST /v1/queries/check with {len(sql)} bytes of SQL that the compiler doubles {_BOMB_LEVELS} times"
    columns = [{"name": "x", "buckets": ["[0,1)", "[1,2)"]}]
    start = time.monotonic()
    answer = _post(client, target, "/v1/queries/check", {"sql": sql, "columns": columns, "until": "2099-01-01"})
    took = time.monotonic() - start
    if (refused := _refused(name, tried, answer)) is not None:
        return refused
    if answer.status == 429:
        return Attempt(name, tried, "429: too many other checks at the moment", "not tried")
    checks = _document(answer).get("checks", []) if answer.is_success else []
    accepted = not any(each.get("field") == "sql" and each.get("level") == "bad" for each in checks) and answer.is_success
    seen = f"{answer.status} after {took:.1f} s; the SQL was {'compiled' if accepted else 'refused'}"
    return Attempt(name, tried, seen, "broken" if accepted or took > _LONGEST or answer.status >= 500 else "holds")


def _oversized_simulation(client: Any, target: ServiceTarget) -> Attempt:
    name = "oversized simulation"
    tried = f"POST /v1/simulate, {_AT_ONCE} at once, for {_PEOPLE:,} people and {_BUCKETS} buckets"
    design = {"share": 0.02, "buckets": _BUCKETS, "guesses": [1 / _BUCKETS] * _BUCKETS, "people": _PEOPLE, "epsilon": 2.0}
    first = _post(client, target, "/v1/simulate", design)
    if (refused := _refused(name, tried, first)) is not None:
        return refused
    if first.is_success:
        told = _document(first)
        cells = int(told["people"]) * int(told["runs"]) * _BUCKETS
        if cells > _MOST_CELLS:  # the others would be as large: no need to ask for them
            return Attempt(name, tried, f"one simulation drew {cells:,} cells; it is not bounded by its cost", "broken")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(lambda _: _post(client, target, "/v1/simulate", design), range(_AT_ONCE)))
    statuses = sorted(each.status for each in answers)
    deferred = [each for each in answers if each.status == 429 and each.headers.get("Retry-After")]
    bounded = all(status in (200, 413, 422, 429) for status in statuses)
    holds = bounded and (bool(deferred) or not any(each.is_success for each in answers))
    return Attempt(name, tried, f"statuses {statuses}, {len(deferred)} with Retry-After", "holds" if holds else "broken")


def _streams_at_once(client: Any, target: ServiceTarget) -> Attempt:
    name, tried = (
        "streams at once",
        f"{_STREAMS} event streams of one query under one token, all requested before any is answered",
    )
    address = f"{target.url.rstrip('/')}/v1/queries"
    answer = ask(client, "GET", address, _LARGEST, headers=bearer(target.token))
    found = _document(answer) if answer.is_success else []
    if not found:
        return Attempt(name, tried, f"{answer.status}: the token may read no query", "not tried")
    head = target.head(f"GET /v1/queries/{found[0]['id']}/results/stream")
    with ExitStack() as held:
        connections = [held.enter_context(target.connect()) for _ in range(_STREAMS)]
        for connection in connections:
            connection.sendall(head)
        n_open = sum(read_head(connection).status == 200 for connection in connections)
    return Attempt(name, tried, f"{n_open} were opened", "holds" if n_open <= _MOST_STREAMS else "broken")


def _two_tokens(target: ServiceTarget) -> Attempt:
    name = "two tokens in one request"
    tried = "GET /v1/queries with a second Authorization header, before and after the first, and with one in a trailer"
    good, bad = f"Authorization: Bearer {target.token}", "Authorization: Bearer deniable_guessed"
    if target.raw(target.head("GET /v1/queries", [good])).status != 200:
        return Attempt(name, tried, "the token alone is refused too", "not tried")
    chunked = "Transfer-Encoding: chunked"
    cases = {
        "the good one first": target.head("GET /v1/queries", [good, bad]),
        "the good one last": target.head("GET /v1/queries", [bad, good]),
        "the same twice": target.head("GET /v1/queries", [good, good]),
        "in a trailer": target.head("GET /v1/queries", [chunked]) + f"0\r\n{good}\r\n\r\n".encode(),
    }
    statuses = {case: target.raw(request).status for case, request in cases.items()}
    taken = [case for case, status in statuses.items() if status == 200]
    seen = "accepted: " + ", ".join(taken) if taken else "all refused: " + ", ".join(map(str, statuses.values()))
    return Attempt(name, tried, seen, "broken" if taken else "holds")


def _missing_headers(target: ServiceTarget, proxy: ServiceTarget | None) -> Attempt:
    name, paths = (
        "responses that may be kept or guessed",
        ("/v1/queries", "/healthz", "/metrics", "/v1/nowhere", "/v1/public/feed"),
    )
    tried = f"GET {', '.join(paths)} with and without a token, and bytes that are not HTTP"
    missing: list[str] = []
    for service in [target, *([proxy] if proxy is not None else [])]:
        requests = {f"{path} of {service.url}": service.head(f"GET {path}") for path in paths}
        requests |= {f"{path}, no token": service.head(f"GET {path}", ["Accept: */*"]) for path in paths}
        requests["no HTTP"] = b"GARBAGE\r\n\r\n"
        missing += [request for request, content in requests.items() if not _is_guarded(service.raw(content))]
    seen = f"no-store or nosniff is missing: {'; '.join(missing)}" if missing else "all say nosniff, and no-store or an ETag"
    return Attempt(name, tried, seen, "broken" if missing else "holds")


def _is_guarded(answer: RawAnswer) -> bool:
    kept = ["no-cache"] if answer.values("etag") else ["no-store"]
    return answer.status > 0 and answer.values("x-content-type-options") == ["nosniff"] and answer.values("cache-control") == kept


def _public_cost(client: Any, target: ServiceTarget) -> Attempt:
    name, tried = "cost of what anyone may read", "GET /v1/public/queries without a token, and again with its ETag"
    address = f"{target.url.rstrip('/')}/v1/public/queries"
    start = time.monotonic()
    first = ask(client, "GET", address, _LARGEST)
    took = time.monotonic() - start
    if first.status == 404:
        return Attempt(name, tried, "404: there is no such endpoint", "not tried")
    tag = first.headers.get("ETag", "")
    again = ask(client, "GET", address, _LARGEST, headers={"If-None-Match": tag}) if tag else first
    seen = f"{first.status} after {took:.2f} s, {'with' if tag else 'without'} an ETag; asked again: {again.status}"
    # Another line of the audit log between the two changes the list.
    return Attempt(name, tried, seen, "holds" if tag and again.status in (200, 304) and first.is_success else "broken")


def channel_tag_of(signed: SignedQuery) -> int:
    """The tag of the channel on which shares of a query come."""
    return signed.header().channel_tag


def _foreign_channel(client: Any, target: ServiceTarget, given: ForeignChannel | None) -> Attempt:
    name, tried = (
        "another analyst's channel",
        "a query of each analyst, both on a channel of one name; they are stopped afterwards",
    )
    if given is None:
        return Attempt(name, "nothing", "needs two analysts' keys, a second token and a query to vary", "not tried")
    channel = f"audit-{secrets.token_hex(8)}"
    signed = [_on_channel(given.query, key, channel) for key in (given.key, given.other_key)]
    tokens, statuses = (target.token, given.other_token), []
    for each, token in zip(signed, tokens, strict=True):
        address = f"{target.url.rstrip('/')}/v1/queries/{each.unverified().id}"
        answer = ask(client, "PUT", address, _LARGEST, content=each.to_bytes(), headers=bearer(token))
        statuses.append(answer.status)
        if not statuses[0] < 300:
            return Attempt(name, tried, f"{answer.status}: the first query was refused: {answer.text[:200]}", "not tried")
    for each, token, status in zip(signed, tokens, statuses, strict=True):
        if status < 300:
            ask(client, "DELETE", f"{target.url.rstrip('/')}/v1/queries/{each.unverified().id}", _LARGEST, headers=bearer(token))
    shared = statuses[1] < 300 and len({channel_tag_of(each) for each in signed}) == 1
    seen = f"the second query got {statuses[1]}" + (", and both have one channel tag" if shared else "")
    return Attempt(name, tried, seen, "broken" if shared else "holds")


def _on_channel(query: Query, key: AnalystKey, channel: str) -> SignedQuery:
    """The query as one of this analyst on a channel, under an id of its own."""
    fields = {**query.to_dict(), "id": f"audit-{secrets.token_hex(8)}", "analyst": key.owner, "channel": channel, "serial": 1}
    return sign(Query.from_dict({name: value for name, value in fields.items() if name != "format"}), key)


# --- a proxy -------------------------------------------------------------------------------------------------------------


def _rotated_quota(client: Any, proxy: ServiceTarget | None) -> Attempt:
    name, tried = (
        "quota after a rotation",
        "messages until the device's quota is used up, then a new token, then one more message",
    )
    if proxy is None:
        return Attempt(name, "nothing", "needs a proxy's address and a device's token, which is replaced", "not tried")
    base = proxy.url.rstrip("/")
    board = ask(client, "GET", f"{base}/v1/queries", LARGEST_LIST)
    query = _current(board, time.time())
    if query is None:
        return Attempt(name, tried, "there is no query on the board whose epochs are running", "not tried")

    # One epoch for all messages: a quota is per epoch, and another may begin meanwhile.
    header, epoch = query.header, query.schedule.epoch_of(int(time.time()))

    def send(token: str) -> Answer:
        message_id, payload = secrets.token_bytes(16), secrets.token_bytes(record_bytes(header.size_class) - 32)
        record = Share(header.channel_tag, epoch, header.size_class, message_id, payload).to_bytes()  # noise, without a partner
        headers = {**bearer(token), "Content-Type": "application/octet-stream"}
        return ask(client, "POST", f"{base}/v1/shares", _LARGEST, content=record, headers=headers)

    answers = [send(proxy.token)]
    while answers[-1].status == 202 and len(answers) < _MOST_MESSAGES:
        answers.append(send(proxy.token))
    if answers[-1].status != 429:
        return Attempt(name, tried, f"{len(answers)} messages, and then {answers[-1].status}: no quota was reached", "not tried")
    rotated = ask(client, "POST", f"{base}/v1/enrol/rotate", _LARGEST, headers=bearer(proxy.token))
    if not rotated.is_success:
        return Attempt(name, tried, f"{rotated.status}: the token cannot be rotated", "holds")
    more = send(str(_document(rotated)["token"]))
    seen = f"{len(answers) - 1} messages, 429, a new token, {more.status}"
    if more.status not in (202, 429):  # the epoch is closed, say
        return Attempt(name, tried, seen, "not tried")
    return Attempt(name, tried, seen, "broken" if more.status == 202 else "holds")


def _current(board: Answer, now: float) -> Query | None:
    """A query on a board whose epochs are running."""
    for each in _document(board) if board.is_success else []:
        query = SignedQuery.from_bytes(json.dumps(each).encode()).unverified()
        if query.schedule.origin <= now < query.schedule.expires:
            return query
    return None
