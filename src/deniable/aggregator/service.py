"""The aggregator as a service: the engine in one thread, the relay in another, and what the interface reads."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NamedTuple

from deniable.aggregator.aggregator_settings import Settings
from deniable.aggregator.announcing import announce
from deniable.aggregator.capacity import capacity
from deniable.aggregator.catalogue import Published, publish, published, stop
from deniable.aggregator.controller import Change, Controller, versions_of
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.external_engine import ExternalEngineStatus, counted_versions
from deniable.aggregator.health import ProxyHealth
from deniable.aggregator.history.history_answer import HistoryReader
from deniable.aggregator.history.history_service import HistoryService, history_reader
from deniable.aggregator.housekeeping import Housekeeping
from deniable.aggregator.probes import probes_of
from deniable.aggregator.relay import PUBLISH, STOP, order_relay, relay, relay_problem, relay_status
from deniable.aggregator.service_faults import aggregator_faults
from deniable.aggregator.state import NOT_REVISED, Clock, State, connect
from deniable.aggregator.tokens import TokenHolder, find_token
from deniable.errors import AuditLogError, RefusedError
from deniable.queries.keys import AnalystKey, KeyRing
from deniable.queries.lasting import lifetime_epsilon
from deniable.queries.signing import SignedQuery, authenticate
from deniable.queries.times import with_times
from deniable.service.audit_log import SERVICE, AuditLog, RefusalLog, last_event
from deniable.service.background import Background
from deniable.service.faults import FaultWatch, health_document
from deniable.service.query_feed import QueryFeed
from deniable.service.ring_file import RingFile

__all__ = ["LARGEST_PAGE", "Service"]

_log = logging.getLogger("deniable.aggregator")
_SECONDS_BETWEEN_TRIES = 2.0
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_ROUNDS = 1.0
LARGEST_PAGE = 8 << 20


class _Parts(NamedTuple):
    """The threads of a service, in the order in which they are started."""

    engine: Background | None
    relay: Background
    controller: Background | None
    history: Background | None
    housekeeping: Background


class _Embedded:
    """The engine in this process, with its state and its logs."""

    def __init__(self, settings: Settings, names: Sequence[str], clock: Clock) -> None:
        self.state = State(settings.state, names)
        self.logs = [proxy.open_log() for proxy in settings.proxies]
        self.engine = Engine(self.state, self.logs, settings.limits, clock, settings.history)

    def close(self) -> None:
        """Release everything."""
        self.engine.close()
        for log in self.logs:
            log.close()
        self.state.close()


class Service:
    """A running aggregator. The interface has its own connection to the state; the engine's is used by the engine alone."""

    def __init__(self, settings: Settings, clock: Clock | None = None) -> None:
        import httpx  # noqa: PLC0415 - slow to import

        self.settings = settings
        self.names = tuple(proxy.name for proxy in settings.proxies)
        self.clock: Clock = clock or (lambda: int(time.time()))
        self.ring_file = RingFile(settings.ring, _log)
        self.refusals: Counter[str] = Counter()
        self._connection = connect(settings.state)
        self.audit = AuditLog(settings.audit_path, self.clock, _log)
        self.refusal_log = RefusalLog(self.audit, time.monotonic, _log)
        self.feed = QueryFeed(settings.feed_path, self.clock)
        self._lock = threading.Lock()
        self._embedded: _Embedded | None = None
        self._elsewhere: ExternalEngineStatus | None = None
        if settings.engine == "embedded":
            self._embedded = _Embedded(settings, self.names, self.clock)
        else:
            self._elsewhere = ExternalEngineStatus(self._connection, self.clock)
        self.history: HistoryService | None = None
        self._keeper: Background | None = None
        if settings.history is not None:
            self.history = HistoryService(settings.history, self._own_connection, self.clock, settings.engine)
            self._keeper = Background("history", self.history.step, _log)
        self._client = httpx.Client(timeout=10)
        self._housekeeping = Housekeeping(self.audit, self.feed, self.names, self.clock)
        self._keeping: sqlite3.Connection | None = None
        self.unrelayed = ""
        """Why some proxy does not have a query yet, as of the last attempt."""
        self._relay = Background("relay", self._relay_step, _log)
        self._controller: Background | None = None
        if settings.controller is not None:
            key = AnalystKey.load(settings.controller)
            self._rule = Controller(key, self.ring_file.ring, self.names, self.clock, self._note_change)
            self._controller = Background("controller", self._controller_step, _log)
        self._engine = None if self._embedded is None else Background("engine", self._engine_step, _log)
        housekeeping = Background("housekeeping", self._housekeeping_step, _log)
        self.parts = _Parts(self._engine, self._relay, self._controller, self._keeper, housekeeping)
        self.probes = probes_of(settings.proxies, settings.limits.silent, _log)
        self.watch = FaultWatch(lambda: aggregator_faults(self), _log)

    def start(self) -> None:
        """Start counting."""
        before = last_event(self.audit.path, "service.started", "service.stopped")
        after = {"": "nothing", "service.stopped": "a stop"}.get(before, "a kill or a power cut")
        self.audit.record("service.started", after=after, engine=self.settings.engine)
        with self.reading() as connection:
            announce(self.feed, connection)  # queries published before there was a feed
        self.refusal_log.start()
        for each in (*self.parts, *self.probes, self.watch):
            if each is not None:
                each.start()

    def stop(self) -> None:
        """Finish the current step, and release everything."""
        for each in (self.watch, *self.probes, *self.parts):
            if each is not None:
                each.stop()
        self._record_stop()
        if self.history is not None:
            self.history.close()
        if self._embedded is not None:
            self._embedded.close()
        if self._keeping is not None:
            self._keeping.close()
        self._client.close()
        self._connection.close()

    def _record_stop(self) -> None:
        """Write the last lines of the audit log; a full disk does not prevent stopping."""
        try:
            self.refusal_log.stop()
            self.audit.record("service.stopped")
        except AuditLogError as error:
            _log.error("the stop could not be recorded", extra={"fields": {"problem": str(error)}})
        self.audit.close()
        self.feed.close()

    def _note_change(self, connection: sqlite3.Connection, change: Change) -> None:
        """Record and announce a version signed by the controller, before it is committed."""
        named = {"actor": f"key:{self._rule.key.public.id}", "subject": f"query:{change.query}"}
        self.audit.record("query.adapted", **named, serial=change.serial, why=change.words())
        announce(self.feed, connection, change.query)

    @property
    def ring(self) -> KeyRing:
        """The keys that are trusted now, according to the ring file."""
        return self.ring_file.ring()

    @property
    def running(self) -> bool:
        """Whether answers are counted and queries passed on: the last step of the engine and of the relay succeeded."""
        return not self.engine_problem and not self._relay.problem and not self.controller_problem

    @property
    def engine_problem(self) -> str:
        """Why nothing is counted; empty if all is well."""
        if self._engine is not None:
            return self._engine.problem
        if self._elsewhere is None:
            return ""
        with self._lock:
            self._elsewhere.look()
        return self._elsewhere.problem

    @property
    def relay_problem(self) -> str:
        """Why some proxy does not have a query yet, or why none can be reached; empty if all is well."""
        return self._relay.problem or self.unrelayed

    @property
    def history_problem(self) -> str:
        """Why the history is not in order, although none of it is lost; empty if all is well."""
        return "" if self._keeper is None else self._keeper.problem

    @property
    def controller_problem(self) -> str:
        """Why queries do not adapt; empty if all is well, or if there is no controller."""
        return "" if self._controller is None else self._controller.problem

    @property
    def health(self) -> list[ProxyHealth]:
        """How each proxy is doing."""
        if self._elsewhere is None:
            return self._embedded.engine.health if self._embedded is not None else []
        with self._lock:
            self._elsewhere.look()
        return self._elsewhere.health

    @property
    def engine(self) -> Engine | None:
        """The engine, if it is in this process."""
        return None if self._embedded is None else self._embedded.engine

    @property
    def alive(self) -> bool:
        """Whether all its threads are running: if one has ended, only a restart helps."""
        return not any(each is not None and each.ended for each in self.parts)

    def health_report(self) -> dict[str, Any]:
        """The health page: `failed` if nothing is counted, `degraded` if a proxy is behind, down, unreadable or unreachable."""
        silent = {probe.name: probe.fault for probe in self.probes if probe.fault is not None}
        proxies = [asdict(each) for each in self.health]
        for proxy in proxies:
            fault = silent.get(proxy["name"])
            if fault is not None and not proxy["problem"]:
                proxy.update(problem=fault.detail, fault=fault.name)
        parts: dict[str, Any] = {"engine": self.engine_problem or "running", "relay": self.relay_problem or "running"}
        if self.history is not None:
            parts["history"] = self.history_problem or "running"
        if self.controller_problem:
            parts["controller"] = self.controller_problem
        return health_document(aggregator_faults(self), **parts, proxies=proxies)

    def _engine_step(self) -> float:
        """A step of the engine. A step that fails is not committed, so nothing is lost by repeating it."""
        return 0.0 if self._embedded is not None and self._embedded.engine.step() else _SECONDS_BETWEEN_LOOKS

    def _relay_step(self) -> float | None:
        connection = connect(self.settings.state)
        try:
            counted = None if self._elsewhere is None else counted_versions(connection)
            left = relay(connection, self.settings.proxies, self._client, counted)
            self.unrelayed = relay_problem(connection, self.names)
        finally:
            connection.close()
        return _SECONDS_BETWEEN_TRIES if left else None

    def _housekeeping_step(self) -> float:
        if self._keeping is None:
            self._keeping = connect(self.settings.state)  # kept open: it is used every second
        if self._housekeeping.step(self._keeping, self.ring):
            self._relay.wake()
        return _SECONDS_BETWEEN_ROUNDS

    def _own_connection(self) -> sqlite3.Connection:
        """Another connection to the state, for work that must not wait for the rest."""
        return connect(self.settings.state)

    def _controller_step(self) -> float:
        connection = connect(self.settings.state)
        try:
            changes = self._rule.step(connection)
        finally:
            connection.close()
        if changes:
            self._relay.wake()
        return _SECONDS_BETWEEN_LOOKS

    # --- what the interface calls -----------------------------------------------------------------------------------

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The interface's connection, one request at a time."""
        with self._lock:
            yield self._connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """The interface's connection, inside a transaction."""
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    def holder_of(self, token: str) -> TokenHolder | None:
        """Whose token it is; None for an unknown token."""
        with self.reading() as connection:
            holder = find_token(connection, token)
        if holder is not None:
            self._housekeeping.saw(holder.id)
        return holder

    def owner_of(self, query_id: str) -> str | None:
        """The analyst who owns the query; None if there is no such query."""
        with self.reading() as connection:
            row = connection.execute("SELECT analyst FROM queries WHERE id = ? LIMIT 1", (query_id,)).fetchone()
        return None if row is None else str(row[0])

    def may(self, token: str, right: str, query_id: str) -> bool:
        """Whether a token allows this for a query, as of now."""
        holder, owner = self.holder_of(token), self.owner_of(query_id)
        return holder is not None and owner is not None and holder.may(right, owner)

    def publish(self, query_id: str, content: bytes, holder: TokenHolder | None = None) -> tuple[Published, bool]:
        """Accept a signed query with this id, count it from now on, and have it relayed; also returns whether the version is new.

        `holder` is the requester; without one, it is the service itself.
        """
        signed = SignedQuery.from_bytes(content)
        asked = authenticate(signed, self.ring, self.clock())
        if holder is not None and not holder.may("publish", asked.analyst):
            raise RefusedError("right", 403, f"this token may not publish queries of {asked.analyst!r}")
        if asked.id != query_id:
            raise RefusedError("query_id", 422, f"the query's id is {asked.id!r}, and the address says {query_id[:64]!r}")
        with self.writing() as connection:
            before = len(published(connection, query_id))
            query = publish(connection, signed, self.ring, self.names, self.clock())
            entries = published(connection, query.id)
            fresh = len(entries) > before
            if fresh:
                order_relay(connection, query.id, query.serial, PUBLISH, len(self.names))
                self.audit.record(
                    "query.published",
                    actor=SERVICE if holder is None else holder.actor,
                    subject=f"query:{query.id}",
                    analyst=query.analyst,
                    serial=query.serial,
                    digest=query.digest.hex(),
                    key=signed.key_id,
                )
                announce(self.feed, connection, query.id)
        self._relay.wake()
        return entries[-1], fresh

    def stop_query(self, query_id: str, actor: str = SERVICE) -> bool:
        """Stop asking devices; False if the query is not running."""
        with self.writing() as connection:
            running = stop(connection, query_id, self.clock())
            if running:
                serial = published(connection, query_id)[-1].query.serial
                order_relay(connection, query_id, serial, STOP, len(self.names))
                self.audit.record("query.stopped", actor=actor, subject=f"query:{query_id}", serial=serial)
                announce(self.feed, connection, query_id)
        self._relay.wake()
        return running

    def kept_history(self) -> HistoryService:
        """The stored reports, if this aggregator keeps any."""
        if self.history is None:
            raise RefusedError("no_history", 404, "this aggregator keeps no reports: its settings have no [history]")
        return self.history

    def delete_history(self, query_id: str, actor: str) -> dict[str, Any]:
        """Delete all stored reports of a query; returns the receipt. Recorded before it begins, because it cannot be undone."""
        kept = self.kept_history()
        self.audit.record(
            "history.deleted", actor=actor, subject=f"query:{query_id}", n_reports=kept.extent(query_id)["n_reports"]
        )
        return kept.delete(query_id)

    def queries(self, query_id: str | None = None) -> list[dict[str, Any]]:
        """The newest version of each query (or of one), in brief, and which proxies have it."""
        with self.reading() as connection:
            newest = {entry.query.id: entry for entry in published(connection, query_id)}
            return [
                _brief(entry, relay_status(connection, name, self.names), _latest(connection, name))
                for name, entry in newest.items()
            ]

    def queries_versions(self) -> dict[str, str]:
        """For each analyst, a text that changes whenever one of their queries is published or stopped."""
        figures = "count(*), max(published), count(stopped), max(stopped)"
        with self.reading() as connection:
            rows = connection.execute(f"SELECT analyst, {figures} FROM queries GROUP BY analyst ORDER BY analyst")  # noqa: S608
            return {analyst: " ".join(map(str, rest)) for analyst, *rest in rows}

    def newest(self) -> int:
        """The number of the newest result, over all queries."""
        with self.reading() as connection:
            return int(connection.execute("SELECT coalesce(max(seq), 0) FROM results").fetchone()[0])

    def all_results(self, after: int, up_to: int | None, limit: int) -> list[tuple[int, str, str]]:
        """Results of all queries as (number, analyst, JSON), after one number and up to another."""
        owner = "coalesce((SELECT analyst FROM queries WHERE id = query LIMIT 1), '')"
        with self.reading() as connection:
            return connection.execute(
                f"SELECT seq, {owner}, document FROM results WHERE seq > ? AND seq <= ? ORDER BY seq LIMIT ?",  # noqa: S608
                (after, 1 << 62 if up_to is None else up_to, limit),
            ).fetchall()

    def versions(self, query_id: str) -> list[dict[str, Any]]:
        """All versions of a query, oldest first: when, with which parameters, and why."""
        with self.reading() as connection:
            return versions_of(connection, query_id)

    def capacity(self) -> list[dict[str, Any]]:
        """Answers per second sustained, by size class."""
        with self.reading() as connection:
            return capacity(connection)

    def results(
        self,
        query_id: str,
        after: int = 0,
        start: int | None = None,
        end: int | None = None,
        limit: int = 100,
        last: bool = False,
    ) -> list[tuple[int, str]]:
        """Results of a query as (number, JSON), after a number, for windows that begin at or after `start` and before `end`.

        Only the newest revision of a revised window is returned. With `last`, the newest windows come first. At most `limit`
        results, and no more once they have `LARGEST_PAGE` characters together.
        """
        order = "number DESC" if last else "seq ASC"
        found: list[tuple[int, str]] = []
        n_characters = 0
        with self.reading() as connection:
            rows = connection.execute(
                "SELECT seq, document FROM results WHERE query = ? AND seq > ? AND start >= ? AND start < ? "  # noqa: S608 - no input
                f"AND {NOT_REVISED} ORDER BY {order} LIMIT ?",
                (query_id, after, 0 if start is None else start, 1 << 62 if end is None else end, limit),
            )
            for number, document in rows:
                found.append((number, document))
                n_characters += len(document)
                if n_characters >= LARGEST_PAGE:
                    break
            rows.close()
        return found

    def history_reader(self, query_id: str) -> HistoryReader:
        """A reader that answers questions about the past of a query."""
        return history_reader(self._own_connection, query_id, self.history)

    def last_number(self, query_id: str) -> int:
        """The number of the last result of a query to be released; 0 if there is none."""
        with self.reading() as connection:
            return int(connection.execute("SELECT coalesce(max(seq), 0) FROM results WHERE query = ?", (query_id,)).fetchone()[0])


def _latest(connection: sqlite3.Connection, query_id: str) -> dict[str, Any] | None:
    """The newest result in brief."""
    names = ("index", "start", "end", "condition", "n")
    fields = ", ".join(f"json_extract(document, '$.{name}')" for name in names)
    newest = "SELECT seq FROM results WHERE query = ? ORDER BY start DESC, seq DESC LIMIT 1"  # no other document is read
    row = connection.execute(f"SELECT seq, {fields} FROM results WHERE seq = ({newest})", (query_id,)).fetchone()  # noqa: S608
    return None if row is None else with_times(dict(zip(("number", *names), row, strict=True)), "start", "end")


def _brief(entry: Published, relayed: dict[str, str], latest: dict[str, Any] | None) -> dict[str, Any]:
    query = entry.query
    document = {
        "id": query.id,
        "serial": query.serial,
        "analyst": query.analyst,
        "question": query.question,
        "labels": list(query.labels),
        "schedule": with_times(query.schedule.to_dict(), "origin", "expires"),
        "columns": [{"name": column.name, "labels": list(column.labels)} for column in query.columns],
        "strata": [stratum.name for stratum in query.strata],
        "mechanism": dict(query.recipe),
        "sampling": query.sampling,
        "population": query.population,
        "budget": {**asdict(query.budget), "wish": query.budget.wish},
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
    return with_times(document, "published", "stopped")
