"""Passing queries on to the proxies, which show them to devices. Whatever fails is retried until it
succeeds."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence, Set
from typing import Any

from deniable.aggregator.settings import ProxySource
from deniable.errors import ResponseError, SettingsError
from deniable.service.fair_parts import interleaved
from deniable.service.http.reading import ask, bearer

__all__ = ["order_relay", "relay", "relay_problem", "relay_status"]

PUBLISH, STOP, REVOKE = "publish", "stop", "revoke"
_LARGEST_ANSWER = 1 << 16


def order_relay(
    connection: sqlite3.Connection, query: str, serial: int, what: str, n_proxies: int
) -> None:
    """Record, inside the caller's transaction, that every proxy is to be sent this, in place of any
    earlier order."""
    connection.executemany(
        "INSERT OR REPLACE INTO relays (id, serial, proxy, what, done, problem) VALUES (?, ?, ?, ?,"
        " 0, NULL)",
        [(query, serial, proxy, what) for proxy in range(n_proxies)],
    )


def relay(
    connection: sqlite3.Connection,
    proxies: Sequence[ProxySource],
    client: Any,
    counted: Set[tuple[str, int]] | None = None,
) -> int:
    """Send the proxies all outstanding orders; returns how many are still outstanding. `client` is
    an `httpx.Client`.

    If `counted` is given, queries are held back until an external engine counts them: devices must
    not answer earlier.
    """
    n_left = 0
    away: dict[int, str] = {}
    for query, serial, proxy, what in _orders(connection):
        if what == PUBLISH and counted is not None and (query, serial) not in counted:
            n_left += 1
            continue
        target = proxies[proxy]
        problem = away.get(proxy)  # a proxy that has just failed to respond is not waited for again
        try:
            if problem is not None:
                raise ResponseError(0, "unreachable", problem)
            headers = bearer(target.token())
            address = f"{target.url.rstrip('/')}/v1/queries/{query}"
            if what == PUBLISH:
                (content,) = connection.execute(
                    "SELECT signed FROM queries WHERE id = ? AND serial = ?", (query, serial)
                ).fetchone()
                headers["Content-Type"] = "application/json"
                answer = ask(
                    client, "PUT", address, _LARGEST_ANSWER, content=content, headers=headers
                )
            elif what == REVOKE:
                address = f"{target.url.rstrip('/')}/v1/revoked/{query.removeprefix('key ')}"
                answer = ask(client, "PUT", address, _LARGEST_ANSWER, headers=headers)
            else:
                answer = ask(client, "DELETE", address, _LARGEST_ANSWER, headers=headers)
            # sent before, but the response was lost; or an older proxy
            gone = what != PUBLISH and answer.status in (404, 405)
            if not answer.is_success and not gone:
                problem = f"{answer.status}: {answer.text[:300]}"
        # the proxy, or its token file, is unavailable for now
        except (ResponseError, SettingsError) as error:
            problem = problem or str(error)
            if isinstance(error, ResponseError):
                away[proxy] = problem
        n_left += problem is not None
        connection.execute(
            "UPDATE relays SET done = ?, problem = ? WHERE id = ? AND serial = ? AND proxy = ? AND"
            " what = ?",
            (problem is None, problem, query, serial, proxy, what),
        )
    return n_left


def _orders(connection: sqlite3.Connection) -> list[tuple[str, int, int, str]]:
    """What is outstanding: revoked keys first, then one order of each analyst in turn, so that
    nobody's are behind another's."""
    owner = "coalesce((SELECT analyst FROM queries WHERE queries.id = relays.id LIMIT 1), '')"
    rows = connection.execute(
        f"SELECT {owner}, id, serial, proxy, what FROM relays WHERE NOT done ORDER BY what <> ?,"  # noqa: S608 - no input
        " id, serial, proxy",
        (REVOKE,),
    )
    by_owner: dict[str, list[tuple[str, int, int, str]]] = {}
    for analyst, *order in rows:
        by_owner.setdefault(analyst, []).append((order[0], order[1], order[2], order[3]))
    return interleaved(by_owner)


def relay_problem(connection: sqlite3.Connection, names: Sequence[str]) -> str:
    """Why the last attempt to send an order to a proxy failed; empty if none did."""
    row = connection.execute(
        "SELECT proxy, problem FROM relays WHERE NOT done AND problem IS NOT NULL LIMIT 1"
    ).fetchone()
    return "" if row is None else f"{names[row[0]]}: {row[1]}"


def relay_status(
    connection: sqlite3.Connection, query: str, names: Sequence[str]
) -> dict[str, str]:
    """For each proxy, "done" or why it has not received the query yet."""
    rows = connection.execute(
        "SELECT proxy, done, problem FROM relays WHERE id = ? ORDER BY proxy", (query,)
    )
    return {
        names[proxy]: "done" if done else problem or "not told yet" for proxy, done, problem in rows
    }
