"""The released windows of queries that say `public_results = true`, for anyone: no token, any
origin, and caches may keep them.

Nothing that is withheld shows: a window without an estimate is left out, and of the others only
what is named here is given. A request looks at the state through a connection of its own, so that
it never waits for the rest of the service, nor the rest for it.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from fastapi import FastAPI, Request, Response

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.windows.assembling import tells_accounts
from deniable.aggregator.windows.revisions import NOT_REVISED
from deniable.aggregator.windows.stored import SERVED_WINDOW
from deniable.documents import WrittenAs
from deniable.errors import RefusedError
from deniable.queries.times import with_times
from deniable.service.http.cross_origin import ANY_ORIGIN, CrossOrigin, OpenPaths
from deniable.service.http.server import Moment, Number
from deniable.service.query_feed import FEED_ADDRESS

if TYPE_CHECKING:
    from deniable.aggregator.service import Service

__all__ = ["PUBLIC_PAGES", "PUBLIC_RESULTS", "PublicResults", "add_public_results"]

PUBLIC_RESULTS = "/v1/public/queries/{query_id}/results"
PUBLIC_PAGES = CrossOrigin(
    [ANY_ORIGIN],
    OpenPaths(
        {FEED_ADDRESS.encode(): b"GET", b"/v1/public/queries": b"GET"},
        [(re.compile(rb"/v1/public/queries/[^/?]+/results"), b"GET")],
    ),
)
"""What is public may be read by every page: it needs no token, and no cookie is read for it."""
_MOST_WINDOWS = 100
_SECONDS_KEPT = 30
"""For how long caches may show a page of results without asking again."""
_SHOWN = (
    *(
        "query",
        "serial",
        "index",
        "start",
        "end",
        "condition",
        "n",
        "revision",
        "final",
        "open_until",
        "columns",
        "complete",
    ),
    *(
        "labels",
        "estimate",
        "stderr",
        "low",
        "high",
        "confidence",
        "covers_more",
        "population",
        "exclusive",
        "conservative",
    ),
    *("mechanism", "epsilon_local", "epsilon_sampled", "delta_sampled", "sampled_crowd", "notes"),
)
"""The fields of a window that are public. Not among them: accounts of shares, and how many answers
are held back; nor do the notes tell of them."""
_PUBLIC_WINDOW = SERVED_WINDOW.only("start_time", "end_time", *_SHOWN).named(
    "PublicWindow", "What is public of a window."
)


class PublicResults(TypedDict):
    """Released windows of a query whose results are public, newest first."""

    query: str
    windows: list[Annotated[dict[str, Any], WrittenAs(_PUBLIC_WINDOW)]]
    next: int | None
    """The `end` of the next page."""


def add_public_results(app: FastAPI, service: Service) -> None:
    """Serve the address."""

    @app.get(PUBLIC_RESULTS)
    def public_results(
        query_id: str, request: Request, end: Moment | None = None, limit: Number = 20
    ) -> Response:
        """The released windows of a query whose results are public, newest first: those that begin
        before `end`.

        `next` is the `end` of the next page. No token is needed; `ETag` and `If-None-Match` are
        supported. A query whose results are not public is not found here.
        """
        limit = min(max(1, limit), _MOST_WINDOWS)
        before = 1 << 62 if end is None else end
        state = service.settings.state.absolute().as_uri()
        with closing(sqlite3.connect(f"{state}?mode=ro", uri=True, timeout=30)) as connection:
            serial = _public_up_to(connection, query_id)
            if serial == 0:
                raise RefusedError(
                    "unknown_query", 404, "there is no such query, or its results are not public"
                )
            last = connection.execute(
                "SELECT coalesce(max(seq), 0) FROM results WHERE query = ?", (query_id,)
            ).fetchone()[0]
            tag = f'"{hashlib.sha256(json.dumps([query_id, serial, last, before, limit]).encode()).hexdigest()[:32]}"'
            headers = {"ETag": tag, "Cache-Control": f"public, max-age={_SECONDS_KEPT}"}
            if tag in [
                each.strip().removeprefix("W/")
                for each in request.headers.get("if-none-match", "").split(",")
            ]:
                return Response(status_code=304, headers=headers)
            content = json.dumps(_page(connection, query_id, serial, before, limit))
        return Response(content, headers=headers, media_type="application/json")


def _public_up_to(connection: sqlite3.Connection, query_id: str) -> int:
    """The last serial up to which every version says that results are public; 0 if the first does
    not.

    A window of a later version may contain answers of people who were told something else.
    """
    serial = 0
    for entry in published(connection, query_id):
        if not entry.query.public_results:
            break
        serial = entry.query.serial
    return serial


def _page(
    connection: sqlite3.Connection, query_id: str, serial: int, before: int, limit: int
) -> PublicResults:
    sql = (
        "SELECT start, document FROM results WHERE query = ? AND start < ? AND condition !="  # noqa: S608 - no input
        " 'withheld' "
        f"AND json_extract(document, '$.serial') <= ? AND {NOT_REVISED} ORDER BY start DESC LIMIT ?"
    )
    rows = connection.execute(sql, (query_id, before, serial, limit)).fetchall()
    windows = [_shown(json.loads(document)) for _, document in rows]
    following = rows[-1][0] if len(rows) == limit else None
    return {
        "query": query_id,
        "windows": [each for each in windows if each is not None],
        "next": following,
    }


def _shown(document: dict[str, Any]) -> dict[str, Any] | None:
    """What is public of a window; None if it has no estimate."""
    if document.get("estimate") is None:
        return None
    found = {name: document[name] for name in _SHOWN if name in document}
    notes = [note for note in found.get("notes", []) if not tells_accounts(note)]
    if len(notes) < len(found.get("notes", [])):
        notes.append(
            "some answers are not included, and could move a proportion further than the limits say"
        )
    return with_times({**found, "notes": notes}, "start", "end")
