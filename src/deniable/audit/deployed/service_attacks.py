"""Attacks on a deployed service, over the network, with what an outsider or the holder of a token
has.

They are those that once succeeded (docs/threat-model.md). Each is as small as it can be and still
tells a service that holds from one that does not, which it keeps busy for a second or so and not
for good.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from deniable.audit.deployed.attempts import (
    Attempt,
    RawAnswer,
    ServiceAudit,
    ServiceTarget,
    read_head,
)
from deniable.audit.deployed.channel_attacks import (
    ForeignChannel,
    attack_foreign_channel,
    attack_rotated_quota,
)
from deniable.audit.deployed.requests import LARGEST_ANSWER, document, not_allowed, post
from deniable.errors import DeniableError
from deniable.service.http.reading import ask, bearer

__all__ = ["audit_service"]

_BOMB_LEVELS = 18
_LONGEST = 20.0
"""Seconds after which the check of a few hundred bytes counts as too long, on a machine however
busy."""
_BUCKETS, _PEOPLE, _MOST_CELLS = 1024, 3_000_000, 1 << 31
_AT_ONCE = 12
_STREAMS, _MOST_STREAMS = 60, 20


def audit_service(
    aggregator: ServiceTarget,
    proxy: ServiceTarget | None = None,
    channel: ForeignChannel | None = None,
) -> ServiceAudit:
    """Run all attacks, and say for each what was tried, what was seen and whether the service
    holds.

    The aggregator's token must be an analyst's, with the right to publish; the proxy's must be a
    device's, to throw away. `proxy` and `channel` may be left out: what needs them is not tried.
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
            (
                "another analyst's channel",
                lambda: attack_foreign_channel(client, aggregator, channel),
            ),
            ("quota after a rotation", lambda: attack_rotated_quota(client, proxy)),
        ]
        return ServiceAudit(
            aggregator.url, tuple(_attempted(name, attack) for name, attack in attacks)
        )


def _attempted(name: str, attack: Callable[[], Attempt]) -> Attempt:
    try:
        return attack()
    except DeniableError as error:
        return Attempt(name, "nothing: the service could not be asked", str(error), "not tried")


# --- the aggregator


def compile_bomb(levels: int = _BOMB_LEVELS) -> str:
    """SQL that SQLite's compiler expands to twice the size at each level."""
    parts = ["a0 AS (SELECT 1 AS x)"]
    parts += [
        f"a{i} AS (SELECT x FROM a{i - 1} UNION ALL SELECT x FROM a{i - 1})"  # noqa: S608
        for i in range(1, levels)
    ]
    return f"WITH {', '.join(parts)} SELECT x FROM a{levels - 1}"  # noqa: S608


def _compile_bomb(client: Any, target: ServiceTarget) -> Attempt:
    name, sql = "compile bomb", compile_bomb()
    tried = (
        f"POST /v1/queries/check with {len(sql)} bytes of SQL that the compiler doubles"
        f" {_BOMB_LEVELS} times"
    )
    columns = [{"name": "x", "buckets": ["[0,1)", "[1,2)"]}]
    start = time.monotonic()
    answer = post(
        client, target, "/v1/queries/check", {"sql": sql, "columns": columns, "end": "2099-01-01"}
    )
    took = time.monotonic() - start
    if (refused := not_allowed(name, tried, answer)) is not None:
        return refused
    if answer.status == 429:
        return Attempt(name, tried, "429: too many other checks at the moment", "not tried")
    checks = document(answer).get("checks", []) if answer.is_success else []
    accepted = (
        not any(each.get("field") == "sql" and each.get("level") == "bad" for each in checks)
        and answer.is_success
    )
    seen = (
        f"{answer.status} after {took:.1f} s; the SQL was {'compiled' if accepted else 'refused'}"
    )
    return Attempt(
        name,
        tried,
        seen,
        "broken" if accepted or took > _LONGEST or answer.status >= 500 else "holds",
    )


def _oversized_simulation(client: Any, target: ServiceTarget) -> Attempt:
    name = "oversized simulation"
    tried = f"POST /v1/simulate, {_AT_ONCE} at once, for {_PEOPLE:,} people and {_BUCKETS} buckets"
    design = {
        "proportion": 0.02,
        "buckets": _BUCKETS,
        "guesses": [1 / _BUCKETS] * _BUCKETS,
        "population": _PEOPLE,
        "epsilon": 2.0,
    }
    first = post(client, target, "/v1/simulate", design)
    if (refused := not_allowed(name, tried, first)) is not None:
        return refused
    if first.is_success:
        told = document(first)
        cells = int(told["n_reports"]) * int(told["trials"]) * _BUCKETS
        if cells > _MOST_CELLS:  # the others would be as large: no need to ask for them
            return Attempt(
                name,
                tried,
                f"one simulation drew {cells:,} cells; it is not bounded by its cost",
                "broken",
            )
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(
            pool.map(lambda _: post(client, target, "/v1/simulate", design), range(_AT_ONCE))
        )
    statuses = sorted(each.status for each in answers)
    deferred = [each for each in answers if each.status == 429 and each.headers.get("Retry-After")]
    bounded = all(status in (200, 413, 422, 429) for status in statuses)
    holds = bounded and (bool(deferred) or not any(each.is_success for each in answers))
    return Attempt(
        name,
        tried,
        f"statuses {statuses}, {len(deferred)} with Retry-After",
        "holds" if holds else "broken",
    )


def _streams_at_once(client: Any, target: ServiceTarget) -> Attempt:
    name, tried = (
        "streams at once",
        (
            f"{_STREAMS} event streams of one query under one token, all requested before any is"
            " answered"
        ),
    )
    address = f"{target.url.rstrip('/')}/v1/queries"
    answer = ask(client, "GET", address, LARGEST_ANSWER, headers=bearer(target.token))
    found = document(answer) if answer.is_success else []
    if not found:
        return Attempt(name, tried, f"{answer.status}: the token may read no query", "not tried")
    head = target.head(f"GET /v1/queries/{found[0]['id']}/results/stream")
    with ExitStack() as held:
        connections = [held.enter_context(target.connect()) for _ in range(_STREAMS)]
        for connection in connections:
            connection.sendall(head)
        n_open = sum(read_head(connection).status == 200 for connection in connections)
    return Attempt(
        name, tried, f"{n_open} were opened", "holds" if n_open <= _MOST_STREAMS else "broken"
    )


def _two_tokens(target: ServiceTarget) -> Attempt:
    name = "two tokens in one request"
    tried = (
        "GET /v1/queries with a second Authorization header, before and after the first, and with"
        " one in a trailer"
    )
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
    seen = (
        "accepted: " + ", ".join(taken)
        if taken
        else "all refused: " + ", ".join(map(str, statuses.values()))
    )
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
        requests |= {
            f"{path}, no token": service.head(f"GET {path}", ["Accept: */*"]) for path in paths
        }
        requests["no HTTP"] = b"GARBAGE\r\n\r\n"
        missing += [
            request
            for request, content in requests.items()
            if not _is_guarded(service.raw(content))
        ]
    seen = (
        f"no-store or nosniff is missing: {'; '.join(missing)}"
        if missing
        else "all say nosniff, and no-store or an ETag"
    )
    return Attempt(name, tried, seen, "broken" if missing else "holds")


def _is_guarded(answer: RawAnswer) -> bool:
    kept = ["no-cache"] if answer.values("etag") else ["no-store"]
    return (
        answer.status > 0
        and answer.values("x-content-type-options") == ["nosniff"]
        and answer.values("cache-control") == kept
    )


def _public_cost(client: Any, target: ServiceTarget) -> Attempt:
    name, tried = (
        "cost of what anyone may read",
        "GET /v1/public/queries without a token, and again with its ETag",
    )
    address = f"{target.url.rstrip('/')}/v1/public/queries"
    start = time.monotonic()
    first = ask(client, "GET", address, LARGEST_ANSWER)
    took = time.monotonic() - start
    if first.status == 404:
        return Attempt(name, tried, "404: there is no such endpoint", "not tried")
    tag = first.headers.get("ETag", "")
    again = (
        ask(client, "GET", address, LARGEST_ANSWER, headers={"If-None-Match": tag})
        if tag
        else first
    )
    seen = (
        f"{first.status} after {took:.2f} s, {'with' if tag else 'without'} an ETag; asked again:"
        f" {again.status}"
    )
    # Another line of the audit log between the two changes the list.
    return Attempt(
        name,
        tried,
        seen,
        "holds" if tag and again.status in (200, 304) and first.is_success else "broken",
    )
