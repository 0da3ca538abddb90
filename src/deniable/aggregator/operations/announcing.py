"""Announcing what is asked: each version of each query in the state goes to the public feed, and so
does each stop."""

from __future__ import annotations

import sqlite3

from deniable.aggregator.counting.catalogue import published
from deniable.queries.lasting import lifetime_epsilon
from deniable.service.query_feed import QueryFeed

__all__ = ["announce"]


def announce(
    feed: QueryFeed, connection: sqlite3.Connection, query_id: str | None = None, why: str = ""
) -> None:
    """Bring the feed up to date with the state, for all queries or one; `why` says why it was
    withdrawn, if it was.

    Called before the transaction that changes a query is committed, so that nothing is asked
    without being announced; and when a service starts, for queries that an earlier version of it
    published.
    """
    newest = {}
    for entry in published(connection, query_id):
        query = entry.query
        newest[query.id] = entry
        sampled = query.sampled_loss
        epsilon = {
            "local": query.epsilon_local,
            "sampled": sampled.epsilon,
            "life": lifetime_epsilon(query),
        }
        epsilon |= {"sampled_delta": sampled.delta, "sampled_crowd": float(sampled.crowd or 0)}
        feed.published(query.header, entry.signed, entry.published, epsilon)
    for entry in newest.values():  # earlier versions ended when it was published
        if entry.stopped is not None:
            feed.stopped(entry.query.header, entry.stopped, why)
