"""The queries of an aggregator: accept and stop them, list them and their versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Annotated, Any, TypedDict

from deniable.aggregator.counting.catalogue import Published, publish, published, stop
from deniable.aggregator.operations.announcing import announce
from deniable.aggregator.operations.relay import PUBLISH, STOP, order_relay, relay_status
from deniable.aggregator.operations.state_access import StateAccess
from deniable.aggregator.operations.version_history import VersionDocument, versions_of
from deniable.aggregator.state import Clock
from deniable.aggregator.web.tokens import TokenHolder
from deniable.aggregator.windows.window import Condition
from deniable.documents import Timestamp, WrittenAs, document_type, times_of
from deniable.errors import RefusedError
from deniable.privacy.release_accountant import SampledFields
from deniable.queries.budget import Budget
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.signing import SignedQuery, authenticate
from deniable.queries.times import with_times
from deniable.service.audit_log import SERVICE, AuditLog
from deniable.service.query_feed import QueryFeed

__all__ = ["QueryBrief", "QueryRegistry"]


class LatestWindow(TypedDict):
    """The newest window of a query, in brief."""

    number: int
    index: int
    start: Timestamp
    end: Timestamp
    condition: Condition
    n: int


class ScheduleDocument(TypedDict):
    """When a query is asked; lengths in seconds."""

    origin: Timestamp
    expires: Timestamp
    every: int
    window: int
    slide: int


class ColumnDocument(TypedDict):
    """A column of a query's answers."""

    name: str
    labels: list[str]


class _Target(TypedDict):
    error: float | None
    """`margin`, under the key of release 0.1.0."""
    wish: float | None
    """The target half-width, however it was stated."""


_BUDGET = document_type(Budget).joined(document_type(_Target))


class QueryBrief(SampledFields):
    """The newest version of a query, and which proxies have it."""

    id: str
    serial: int
    analyst: str
    question: str
    labels: list[str]
    schedule: Annotated[dict[str, Any], WrittenAs(ScheduleDocument)]
    columns: list[ColumnDocument]
    strata: list[str]
    mechanism: dict[str, Any]
    sampling: float
    population: int | None
    budget: Annotated[dict[str, Any], WrittenAs(_BUDGET)]
    epsilon_local: float
    epsilon_life: float
    minimum_cohort: int
    grace: int | None
    published: Timestamp
    stopped: Timestamp | None
    relayed: dict[str, str]
    """For each proxy, "done" or why it does not have the query yet."""
    latest: Annotated[dict[str, Any], WrittenAs(LatestWindow)] | None


class QueryRegistry:
    """The queries in the state. Every change is recorded and announced before it is committed, and
    then relayed to the proxies."""

    def __init__(
        self,
        access: StateAccess,
        names: Sequence[str],
        ring: Callable[[], KeyRing],
        clock: Clock,
        audit: AuditLog,
        feed: QueryFeed,
        wake_relay: Callable[[], None],
    ) -> None:
        self._access, self._names, self._ring, self._clock = access, tuple(names), ring, clock
        self._audit, self._feed, self._wake_relay = audit, feed, wake_relay

    def publish(
        self, query_id: str, content: bytes, holder: TokenHolder | None = None
    ) -> tuple[Published, bool]:
        """Accept a signed query with this id, count it from now on, and have it relayed; also
        returns whether the version is new.

        `holder` is the requester; without one, it is the service itself.
        """
        signed = SignedQuery.from_bytes(content)
        asked = authenticate(signed, self._ring(), self._clock())
        if holder is not None and not holder.may("publish", asked.analyst):
            raise RefusedError(
                "right", 403, f"this token may not publish queries of {asked.analyst!r}"
            )
        if asked.id != query_id:
            raise RefusedError(
                "query_id",
                422,
                f"the query's id is {asked.id!r}, and the address says {query_id[:64]!r}",
            )
        with self._access.writing() as connection:
            before = len(published(connection, query_id))
            query = publish(connection, signed, self._ring(), self._names, self._clock())
            entries = published(connection, query.id)
            fresh = len(entries) > before
            if fresh:
                order_relay(connection, query.id, query.serial, PUBLISH, len(self._names))
                self._audit.record(
                    "query.published",
                    actor=SERVICE if holder is None else holder.actor,
                    subject=f"query:{query.id}",
                    analyst=query.analyst,
                    serial=query.serial,
                    digest=query.digest.hex(),
                    key=signed.key_id,
                )
                announce(self._feed, connection, query.id)
        self._wake_relay()
        return entries[-1], fresh

    def stop(self, query_id: str, actor: str = SERVICE) -> bool:
        """Stop asking devices; False if the query is not running."""
        with self._access.writing() as connection:
            running = stop(connection, query_id, self._clock())
            if running:
                serial = published(connection, query_id)[-1].query.serial
                order_relay(connection, query_id, serial, STOP, len(self._names))
                self._audit.record(
                    "query.stopped", actor=actor, subject=f"query:{query_id}", serial=serial
                )
                announce(self._feed, connection, query_id)
        self._wake_relay()
        return running

    def owner_of(self, query_id: str) -> str | None:
        """The analyst who owns the query; None if there is no such query."""
        with self._access.reading() as connection:
            row = connection.execute(
                "SELECT analyst FROM queries WHERE id = ? LIMIT 1", (query_id,)
            ).fetchone()
        return None if row is None else str(row[0])

    def listed(self, query_id: str | None = None) -> list[dict[str, Any]]:
        """The newest version of each query (or of one), in brief, and which proxies have it."""
        with self._access.reading() as connection:
            newest = {entry.query.id: entry for entry in published(connection, query_id)}
            return [
                _brief(
                    entry, relay_status(connection, name, self._names), _latest(connection, name)
                )
                for name, entry in newest.items()
            ]

    def versions(self, query_id: str) -> list[VersionDocument]:
        """All versions of a query, oldest first: when, with which parameters, and why."""
        with self._access.reading() as connection:
            return versions_of(connection, query_id)

    def changes(self) -> dict[str, str]:
        """For each analyst, a text that changes whenever one of their queries is published or
        stopped."""
        figures = "count(*), max(published), count(stopped), max(stopped)"
        with self._access.reading() as connection:
            rows = connection.execute(
                f"SELECT analyst, {figures} FROM queries GROUP BY analyst ORDER BY analyst"  # noqa: S608
            )
            return {analyst: " ".join(map(str, rest)) for analyst, *rest in rows}


def _latest(connection: sqlite3.Connection, query_id: str) -> dict[str, Any] | None:
    """The newest result in brief."""
    names = [name for name in LatestWindow.__annotations__ if name != "number"]
    fields = ", ".join(f"json_extract(document, '$.{name}')" for name in names)
    # no other document is read
    newest = "SELECT seq FROM results WHERE query = ? ORDER BY start DESC, seq DESC LIMIT 1"
    row = connection.execute(
        f"SELECT seq, {fields} FROM results WHERE seq = ({newest})",  # noqa: S608
        (query_id,),
    ).fetchone()
    return (
        None
        if row is None
        else with_times(dict(zip(("number", *names), row, strict=True)), *times_of(LatestWindow))
    )


def _brief(
    entry: Published, relayed: dict[str, str], latest: dict[str, Any] | None
) -> dict[str, Any]:
    query = entry.query
    target: _Target = {"error": query.budget.margin, "wish": query.budget.target}
    document: QueryBrief = {
        "id": query.id,
        "serial": query.serial,
        "analyst": query.analyst,
        "question": query.question,
        "labels": list(query.labels),
        "schedule": with_times(query.schedule.to_dict(), *times_of(ScheduleDocument)),
        "columns": [
            {"name": column.name, "labels": list(column.labels)} for column in query.columns
        ],
        "strata": [stratum.name for stratum in query.strata],
        "mechanism": dict(query.recipe),
        "sampling": query.sampling,
        "population": query.population,
        "budget": {**asdict(query.budget), **target},
        "epsilon_local": query.epsilon_local,
        **query.sampled_loss.sampled_fields(),
        "epsilon_life": lifetime_epsilon(query),
        "minimum_cohort": query.minimum_cohort,
        "grace": query.grace,
        "published": entry.published,
        "stopped": entry.stopped,
        "relayed": relayed,
        "latest": latest,
    }
    return with_times(document, *times_of(QueryBrief))
