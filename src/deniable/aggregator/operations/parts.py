"""The threads of an aggregator: the engine, the relay, the controller, the history's maintenance and
housekeeping, and how they are doing."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence

from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.engines.external import ExternalEngineStatus, counted_versions
from deniable.aggregator.history.service import HistoryService
from deniable.aggregator.operations.announcing import announce
from deniable.aggregator.operations.controller import Change, Controller
from deniable.aggregator.operations.health import ProxyHealth
from deniable.aggregator.operations.housekeeping import Housekeeping
from deniable.aggregator.operations.relay import relay, relay_problem
from deniable.aggregator.operations.state_access import StateAccess
from deniable.aggregator.settings import AggregatorSettings
from deniable.aggregator.state import Clock, State
from deniable.queries.signed.key_ring import KeyRing
from deniable.queries.signed.keys import AnalystKey
from deniable.service.audit_log import AuditLog
from deniable.service.background import Background
from deniable.service.query_feed import QueryFeed

__all__ = ["ServiceParts"]

_SECONDS_BETWEEN_TRIES = 2.0
_SECONDS_BETWEEN_LOOKS = 0.1
_SECONDS_BETWEEN_ROUNDS = 1.0


class _Embedded:
    """The engine in this process, with its state and its logs."""

    def __init__(self, settings: AggregatorSettings, names: Sequence[str], clock: Clock) -> None:
        self.state = State(settings.state, names)
        self.logs = [proxy.open_log() for proxy in settings.proxies]
        self.engine = Engine(self.state, self.logs, settings.limits, clock, settings.history)

    def step(self) -> float:
        """A step of the engine. A step that fails is not committed, so nothing is lost by repeating
        it."""
        return 0.0 if self.engine.step() else _SECONDS_BETWEEN_LOOKS

    def close(self) -> None:
        """Release everything."""
        self.engine.close()
        for log in self.logs:
            log.close()
        self.state.close()


class _ControllerPart:
    """The controller, which signs new versions of queries within their envelopes."""

    def __init__(
        self,
        rule: Controller,
        access: StateAccess,
        wake_relay: Callable[[], None],
        logger: logging.Logger,
    ) -> None:
        self._rule, self._access, self._wake_relay = rule, access, wake_relay
        self.thread = Background("controller", self.step, logger)

    def step(self) -> float:
        """Judge all queries once."""
        connection = self._access.another()
        try:
            changes = self._rule.step(connection)
        finally:
            connection.close()
        if changes:
            self._wake_relay()
        return _SECONDS_BETWEEN_LOOKS


class ServiceParts:
    """All threads of a service, in the order in which they are started; those that it does not have
    are None."""

    def __init__(
        self,
        settings: AggregatorSettings,
        access: StateAccess,
        history: HistoryService | None,
        ring: Callable[[], KeyRing],
        audit: AuditLog,
        feed: QueryFeed,
        clock: Clock,
        logger: logging.Logger,
    ) -> None:
        import httpx  # noqa: PLC0415 - slow to import

        self._settings, self._access, self._ring = settings, access, ring
        self._audit, self._feed = audit, feed
        self._names = tuple(proxy.name for proxy in settings.proxies)
        self._embedded: _Embedded | None = None
        self._external: ExternalEngineStatus | None = None
        if settings.engine == "embedded":
            self._embedded = _Embedded(settings, self._names, clock)
        else:
            self._external = ExternalEngineStatus(clock)
        self._client = httpx.Client(timeout=10)
        self._housekeeping = Housekeeping(audit, feed, self._names, clock)
        self._kept: sqlite3.Connection | None = None
        self.unrelayed = ""
        """Why some proxy does not have a query yet, as of the last attempt."""
        embedded = self._embedded
        self.engine = None if embedded is None else Background("engine", embedded.step, logger)
        self.relay = Background("relay", self._relay_step, logger)
        self.controller: Background | None = None
        if settings.controller is not None:
            key = AnalystKey.load(settings.controller)
            self._controller_id = key.public.id
            rule = Controller(key, ring, self._names, clock, self._note_change)
            self.controller = _ControllerPart(rule, access, self.relay.wake, logger).thread
        self.history = None if history is None else Background("history", history.step, logger)
        self.housekeeping = Background("housekeeping", self._housekeeping_step, logger)

    def __iter__(self) -> Iterator[Background]:
        every = (self.engine, self.relay, self.controller, self.history, self.housekeeping)
        return (part for part in every if part is not None)

    def close(self) -> None:
        """Release what the threads use, once all of them have stopped."""
        if self._embedded is not None:
            self._embedded.close()
        if self._kept is not None:
            self._kept.close()
        self._client.close()

    def saw(self, token_id: str) -> None:
        """Note that a token was used: the day will be recorded."""
        self._housekeeping.saw(token_id)

    @property
    def embedded_engine(self) -> Engine | None:
        """The engine, if it is in this process."""
        return None if self._embedded is None else self._embedded.engine

    @property
    def proxies(self) -> list[ProxyHealth]:
        """How each proxy is doing."""
        if self._embedded is not None:
            return self._embedded.engine.health
        return self._look_outside().health

    @property
    def running(self) -> bool:
        """Whether answers are counted and queries passed on: the last step of the engine and of the
        relay succeeded."""
        return not self.engine_problem and not self.relay.problem and not self.controller_problem

    @property
    def alive(self) -> bool:
        """Whether all threads are running: if one has ended, only a restart helps."""
        return not any(each.ended for each in self)

    @property
    def engine_problem(self) -> str:
        """Why nothing is counted; empty if all is well."""
        return self._look_outside().problem if self.engine is None else self.engine.problem

    @property
    def relay_problem(self) -> str:
        """Why some proxy does not have a query yet, or why none can be reached; empty if all is
        well."""
        return self.relay.problem or self.unrelayed

    @property
    def history_problem(self) -> str:
        """Why the history is not in order, although none of it is lost; empty if all is well."""
        return "" if self.history is None else self.history.problem

    @property
    def controller_problem(self) -> str:
        """Why queries do not adapt; empty if all is well, or if there is no controller."""
        return "" if self.controller is None else self.controller.problem

    def _look_outside(self) -> ExternalEngineStatus:
        """The engine in another process, as it last left word in the state."""
        assert self._external is not None  # noqa: S101 - for the type checker: there is one engine
        with self._access.reading() as connection:
            self._external.look(connection)
        return self._external

    def _note_change(self, connection: sqlite3.Connection, change: Change) -> None:
        """Record and announce a version signed by the controller, before it is committed."""
        named = {"actor": f"key:{self._controller_id}", "subject": f"query:{change.query}"}
        self._audit.record("query.adapted", **named, serial=change.serial, why=change.words())
        announce(self._feed, connection, change.query)

    def _relay_step(self) -> float | None:
        connection = self._access.another()
        try:
            counted = None if self._external is None else counted_versions(connection)
            left = relay(connection, self._settings.proxies, self._client, counted)
            self.unrelayed = relay_problem(connection, self._names)
        finally:
            connection.close()
        return _SECONDS_BETWEEN_TRIES if left else None

    def _housekeeping_step(self) -> float:
        if self._kept is None:
            self._kept = self._access.another()  # kept open: it is used every second
        if self._housekeeping.step(self._kept, self._ring()):
            self.relay.wake()
        return _SECONDS_BETWEEN_ROUNDS
