"""The aggregator as a service: its threads, its queries, and what the interface reads."""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import asdict
from typing import Any

from deniable.aggregator.history.answer import HistoryReader
from deniable.aggregator.history.file_catalogue import DeletionReceipt
from deniable.aggregator.history.service import HistoryService, history_reader
from deniable.aggregator.operations.announcing import announce
from deniable.aggregator.operations.capacity import capacity
from deniable.aggregator.operations.faults import aggregator_faults
from deniable.aggregator.operations.health import AggregatorHealth
from deniable.aggregator.operations.overdue import OverdueWindows
from deniable.aggregator.operations.parts import ServiceParts
from deniable.aggregator.operations.probes import probes_of
from deniable.aggregator.operations.query_registry import QueryRegistry
from deniable.aggregator.operations.state_access import StateAccess
from deniable.aggregator.settings import AggregatorSettings
from deniable.aggregator.state import Clock
from deniable.aggregator.web.tokens import TokenHolder, find_token
from deniable.aggregator.windows.released import ReleasedWindows
from deniable.errors import AuditLogError, RefusedError
from deniable.queries.signed.key_ring import KeyRing
from deniable.service.audit_log import AuditLog, RefusalLog, last_event
from deniable.service.faults import FaultWatch, health_document
from deniable.service.files.ring import RingFile
from deniable.service.query_feed import QueryFeed

__all__ = ["Service"]

_log = logging.getLogger("deniable.aggregator")


class Service:
    """A running aggregator. The interface has its own connection to the state; the engine's is used
    by the engine alone."""

    def __init__(self, settings: AggregatorSettings, clock: Clock | None = None) -> None:
        self.settings = settings
        self.names = tuple(proxy.name for proxy in settings.proxies)
        self.clock: Clock = clock or (lambda: int(time.time()))
        self.ring_file = RingFile(settings.ring, _log)
        self.refusals: Counter[str] = Counter()
        self._access = StateAccess(settings.state)
        self.reading, self.writing = self._access.reading, self._access.writing
        self.audit = AuditLog(settings.audit_path, self.clock, _log)
        self.refusal_log = RefusalLog(self.audit, time.monotonic, _log)
        self.feed = QueryFeed(settings.feed_path, self.clock)
        self.history: HistoryService | None = None
        if settings.history is not None:
            self.history = HistoryService(
                settings.history, self._access.another, self.clock, settings.engine
            )
        ring = self.ring_file.ring
        self.parts = ServiceParts(
            settings, self._access, self.history, ring, self.audit, self.feed, self.clock, _log
        )
        self.queries = QueryRegistry(
            self._access,
            self.names,
            ring,
            self.clock,
            self.audit,
            self.feed,
            self.parts.relay.wake,
        )
        self.windows = ReleasedWindows(self.reading)
        self.overdue = OverdueWindows(
            self._access, settings.limits, self.clock, lambda: self.parts.proxies
        )
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
            each.start()

    def stop(self) -> None:
        """Finish the current step, and release everything."""
        for each in (self.watch, *self.probes, *self.parts):
            each.stop()
        self._record_stop()
        if self.history is not None:
            self.history.close()
        self.parts.close()
        self._access.close()

    def _record_stop(self) -> None:
        """Write the last lines of the audit log; a full disk does not prevent stopping."""
        try:
            self.refusal_log.stop()
            self.audit.record("service.stopped")
        except AuditLogError as error:
            _log.error("the stop could not be recorded", extra={"fields": {"problem": str(error)}})
        self.audit.close()
        self.feed.close()

    @property
    def ring(self) -> KeyRing:
        """The keys that are trusted now, according to the ring file."""
        return self.ring_file.ring()

    def health_report(self) -> AggregatorHealth:
        """The health page: `failed` if nothing is counted, `degraded` if a proxy is behind, down,
        unreadable or unreachable."""
        silent = {probe.name: probe.fault for probe in self.probes if probe.fault is not None}
        proxies = [asdict(each) for each in self.parts.proxies]
        for proxy in proxies:
            fault = silent.get(proxy["name"])
            if fault is not None and not proxy["problem"]:
                proxy.update(problem=fault.detail, fault=fault.name)
        page = health_document(aggregator_faults(self))
        report: AggregatorHealth = {
            "status": page["status"],
            "faults": page["faults"],
            "engine": self.parts.engine_problem or "running",
            "relay": self.parts.relay_problem or "running",
            "proxies": proxies,
        }
        if self.history is not None:
            report["history"] = self.parts.history_problem or "running"
        if self.parts.controller_problem:
            report["controller"] = self.parts.controller_problem
        return report

    def holder_of(self, token: str) -> TokenHolder | None:
        """Whose token it is; None for an unknown token."""
        with self.reading() as connection:
            holder = find_token(connection, token)
        if holder is not None:
            self.parts.saw(holder.id)
        return holder

    def may(self, token: str, right: str, query_id: str) -> bool:
        """Whether a token allows this for a query, as of now."""
        holder, owner = self.holder_of(token), self.queries.owner_of(query_id)
        return holder is not None and owner is not None and holder.may(right, owner)

    def kept_history(self) -> HistoryService:
        """The stored reports, if this aggregator keeps any."""
        if self.history is None:
            raise RefusedError(
                "no_history",
                404,
                "this aggregator keeps no reports: its settings have no [history]",
            )
        return self.history

    def delete_history(self, query_id: str, actor: str) -> DeletionReceipt:
        """Delete all stored reports of a query; returns the receipt. Recorded before it begins,
        because it cannot be undone."""
        kept = self.kept_history()
        self.audit.record(
            "history.deleted",
            actor=actor,
            subject=f"query:{query_id}",
            n_reports=kept.extent(query_id)["n_reports"],
        )
        return kept.delete(query_id)

    def history_reader(self, query_id: str) -> HistoryReader:
        """A reader that answers questions about the past of a query."""
        return history_reader(self._access.another, query_id, self.history)

    def capacity(self) -> list[dict[str, Any]]:
        """Answers per second sustained, by size class."""
        with self.reading() as connection:
            return capacity(connection)
