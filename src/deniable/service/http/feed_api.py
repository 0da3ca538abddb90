"""The public feed over HTTP, at the same path on an aggregator and a proxy. No token is needed."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from deniable.service.audit_log import AuditLog
from deniable.service.http.openapi import Operation, describe
from deniable.service.http.server import Number
from deniable.service.query_feed import FEED_ADDRESS, QueryFeed

__all__ = ["FEED_OPERATIONS", "add_feed"]

FEED_OPERATIONS = {f"GET {FEED_ADDRESS}": Operation({200: dict[str, Any]}, (422, 503))}


def add_feed(app: FastAPI, feed: QueryFeed, audit: AuditLog) -> None:
    """Serve a feed, with the head of the audit log: recorded elsewhere, the head reveals a
    rewritten log."""

    @app.get(FEED_ADDRESS)
    async def public_feed(after: Number = 0, limit: Number = 1000) -> dict[str, Any]:
        """Every query version ever published here, and every stop: the lines after line `after`, as
        they were written.

        Each line contains the SHA-256 of the previous one, so a missing or changed line is
        detected. `audit` is the head of the service's audit log. No token is needed.
        """
        page = await run_in_threadpool(feed.page, after, limit)
        return {**page, "audit": str(audit.head)}

    describe(app, FEED_OPERATIONS)
