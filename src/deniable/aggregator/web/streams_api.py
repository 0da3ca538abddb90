"""Following results over HTTP, as server-sent events: one query's, or all that a token may read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

from fastapi import FastAPI, Request, Response
from starlette.concurrency import run_in_threadpool

from deniable.aggregator.operations.overdue import OverdueWindow
from deniable.aggregator.service import Service
from deniable.aggregator.web.feed import Feed
from deniable.aggregator.web.sessions import authorize, authorize_query
from deniable.service.fair_parts import HeldStream, StreamLimits
from deniable.service.http.event_stream import (
    LAST_EVENT,
    RETRY,
    StreamPace,
    event_number,
    event_text,
)
from deniable.service.http.server import HeldStreamResponse, Number

__all__ = ["add_streams"]

_SECONDS_BETWEEN_LOOKS = 0.25
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 15.0
_MOST_FOLLOWERS = 200
_MOST_FOLLOWERS_PER_TOKEN = 20


def add_streams(app: FastAPI, service: Service, ending: Callable[[], bool]) -> None:
    """Serve the addresses; streams end when `ending` says that the server is about to stop."""
    feed = Feed(service, ending)

    @app.get("/v1/stream")
    async def follow_all(request: Request, after: Number | None = None) -> Response:
        """Windows of all queries that the token may read (without their matrices), health, and
        changes to the list of queries.

        Sent as server-sent events, starting after `Last-Event-ID` (or `after`); without either,
        with the next window. The stream ends when the token is revoked.
        """
        caller = await run_in_threadpool(authorize, service, request)
        stated = event_number(request.headers.get(LAST_EVENT, ""))
        stream = feed.admit(caller.token, caller.holder.owner)
        return HeldStreamResponse(stream, feed.follow(after if stated is None else stated, stream))

    followers = StreamLimits(_MOST_FOLLOWERS, _MOST_FOLLOWERS_PER_TOKEN, "clients")

    async def events(query_id: str, after: int, stream: HeldStream) -> AsyncIterator[bytes]:
        yield RETRY
        pace = StreamPace(_SECONDS_BETWEEN_LOOKS, _SECONDS_BETWEEN_SIGNS_OF_LIFE)
        known: OverdueWindow | None = None
        while (
            not ending()
            and not stream.gave_way
            and await run_in_threadpool(service.may, stream.token, "read", query_id)
        ):
            for number, document in await run_in_threadpool(
                service.windows.of_query, query_id, after
            ):
                after = number
                pace.spoke()
                yield event_text("window", document, number)
            overdue = (await run_in_threadpool(service.overdue.find, query_id)).get(query_id)
            if overdue != known:
                known = overdue
                pace.spoke()
                told = None if overdue is None else overdue.document()
                yield event_text("overdue", json.dumps(told))
            if sign := await pace.pause():
                yield sign

    @app.get("/v1/queries/{query_id}/results/stream")
    async def follow_results(
        query_id: str, request: Request, after: Number | None = None
    ) -> Response:
        """Windows as server-sent events, starting after `Last-Event-ID` (or `after`); without
        either, with the next window. An event `overdue` says that a window should have been
        released by now; with `null`, that none should."""
        caller = await run_in_threadpool(authorize_query, service, request, query_id, "read")
        stated = event_number(request.headers.get(LAST_EVENT, ""))
        after = after if stated is None else stated
        if after is None:
            after = await run_in_threadpool(service.windows.last_number, query_id)
        # Last: what is counted here, the response stops counting.
        stream = followers.admit(caller.token, caller.holder.owner)
        return HeldStreamResponse(stream, events(query_id, after, stream))
