"""The public feed over HTTP, at the same path on an aggregator and a proxy. No token is needed."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from deniable.service.audit_log import AuditLog
from deniable.service.http_server import Number
from deniable.service.openapi import Operation, describe
from deniable.service.query_feed import FEED_ADDRESS, QueryFeed

__all__ = ["FEED_OPERATIONS", "add_feed"]

FEED_OPERATIONS = {f"GET {FEED_ADDRESS}": Operation({200: dict[str, Any]}, (422, 503))}


def add_feed(app: FastAPI, feed: QueryFeed, audit: AuditLog) -> None:
    """Serve a feed, with the head of the audit log: recorded elsewhere, the head reveals a rewritten log."""

    @app.get(FEED_ADDRESS)
    async def public_feed(after: Number = 0, limit: Number = 1000) -> dict[str, Any]:
        """Every query and version that was ever published here, and every stop: the lines after so many, as they were written.

        Each line carries the SHA-256 of the one before it, so a line that is left out or changed is noticed. `audit` is how far
        the service's audit log goes. No token is needed.
        """
        page = await run_in_threadpool(feed.page, after, limit)
        return {**page, "audit": str(audit.head)}

    describe(app, FEED_OPERATIONS)
