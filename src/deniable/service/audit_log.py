"""The audit log: what a service and its operator did, one event per line, append-only and
hash-chained (docs/operating.md).

It never contains a token, a share, an answer or a device's address. Tokens and keys are named by
their ids.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from deniable.errors import AuditLogError, ParameterError
from deniable.queries.times import iso_time
from deniable.service.background import Background
from deniable.service.files.chained_lines import DAMAGED, REPAIRED, ChainedLines, ChainVerdict, Head

__all__ = ["EVENTS", "OPERATOR", "SERVICE", "AuditLog", "RefusalLog", "last_event", "read_events"]

OPERATOR, SERVICE = "operator", "service"
"""The actors without a token: anyone who runs a command on the service's machine, and the service
itself."""
EVENTS = {
    "service.started": logging.INFO,
    "service.stopped": logging.INFO,
    "service.backed_up": logging.INFO,
    "service.restored": logging.WARNING,
    "query.published": logging.INFO,
    "query.adapted": logging.INFO,
    "query.stopped": logging.INFO,
    "query.withdrawn": logging.WARNING,
    "key.revoked": logging.WARNING,
    "token.made": logging.INFO,
    "token.ended": logging.INFO,
    "token.granted": logging.INFO,
    "token.revoked": logging.INFO,
    "right.refused": logging.WARNING,
    "epoch.incomplete": logging.WARNING,
    "history.deleted": logging.INFO,
    REPAIRED: logging.WARNING,
    DAMAGED: logging.ERROR,
}
"""Every event, and the level at which it is also logged to standard error."""
_SECONDS_BETWEEN_LINES = 60
_MOST_KEYS = 100


class AuditLog:
    """The audit log of one service. Commands also write to it while the service runs.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> log = AuditLog(Path(folder.name) / "audit.jsonl", lambda: 0)
    >>> head = log.record("query.stopped", actor="token:0011223344556677", subject="query:commute")
    >>> [event["subject"] for event in read_events(log.path)], log.problem()
    (['query:commute'], '')
    >>> log.close(), folder.cleanup()
    (None, None)
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Callable[[], int] | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        self._lines = ChainedLines(path, clock)
        self._logger = logger
        self.path = self._lines.path

    def close(self) -> None:
        """Close the file."""
        self._lines.close()

    @property
    def head(self) -> Head:
        """The number and hash of the last line, which a service publishes."""
        return self._lines.head

    def record(
        self, event: str, *, actor: str = SERVICE, subject: str = "", **details: Any
    ) -> Head:
        """Record an event; it is on the disk when this returns.

        `actor` is who did it (`token:ID`, `operator`, `service`), `subject` what it was done to
        (`query:ID`, `token:ID`, `key:ID`, `proxy:NAME`). Call it before the action is acknowledged:
        if it raises, the action must not happen.
        """
        if event not in EVENTS:
            raise ParameterError("event", event, f"must be one of {', '.join(EVENTS)}")
        fields = {"event": event, "actor": actor, "subject": subject, "details": details}
        head = self._lines.append({name: value for name, value in fields.items() if value})
        if self._logger is not None:
            self._logger.log(
                EVENTS[event],
                event,
                extra={"fields": {"actor": actor, "subject": subject, **details}},
            )
        return head

    def verify(self) -> ChainVerdict:
        """Verify the log, unless only this process has touched it since the last time."""
        return self._lines.verify()

    def problem(self) -> str:
        """What is wrong with the log, in one sentence; empty while it verifies. Cheap while no
        other process touches the log."""
        try:
            faults = self.verify().faults
        except AuditLogError as error:
            return str(error)
        return f"{self.path.name} does not verify: {faults[0]}" if faults else ""


def read_events(path: str | os.PathLike[str], since: int | None = None) -> Iterator[dict[str, Any]]:
    """The events of an audit log, oldest first, optionally from a time on (seconds since 1970).
    Malformed lines are skipped."""
    first = "" if since is None else iso_time(since)
    try:
        with Path(path).open("rb") as file:
            for line in file:
                try:
                    event = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if isinstance(event, dict) and str(event.get("time", "")) >= first:
                    yield event
    except FileNotFoundError:
        return
    except OSError as error:
        raise AuditLogError(f"{path} cannot be read: {error.strerror}") from None


def last_event(path: str | os.PathLike[str], *events: str) -> str:
    """Which of these events came last; empty if none ever occurred."""
    found = ""
    for event in read_events(path):
        if event.get("event") in events:
            found = str(event["event"])
    return found


class RefusalLog:
    """Refused authorizations on their way to the audit log: at most one line per minute for each
    actor and address, with a count.

    A flood of requests must neither fill the disk nor wait for it. So refusals are counted in
    memory and written by a separate thread, the first one at once. Beyond a hundred actors and
    addresses per minute, the rest are counted together.
    """

    def __init__(self, log: AuditLog, clock: Callable[[], float], logger: logging.Logger) -> None:
        self._log, self._clock = log, clock
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._counts: dict[tuple[str, str, int], int] = {}
        self._written: dict[tuple[str, str, int], float] = {}
        self._writer = Background("refusals", self.step, logger)

    def start(self) -> None:
        """Start writing."""
        self._writer.start()

    def stop(self) -> None:
        """Write everything that is left."""
        self._writer.stop()
        self.step(everything=True)

    def note(self, actor: str, address: str, status: int) -> None:
        """Count a refusal. `address` is the method and route, without the request's own
        parameters."""
        key = (actor, address, status)
        with self._lock:
            known = self._counts.keys() | self._written.keys()
            if key not in known and len(known) >= _MOST_KEYS:
                key = ("", "", 0)
            first = key not in self._counts
            self._counts[key] = self._counts.get(key, 0) + 1
        if first:
            self._writer.wake()

    def step(self, everything: bool = False) -> float | None:
        """Write the counts that are due; returns the seconds until the next ones are."""
        with self._writing:
            return self._write_due(everything)

    def _write_due(self, everything: bool) -> float | None:
        now = self._clock()
        with self._lock:
            self._written = {
                key: at for key, at in self._written.items() if now - at < _SECONDS_BETWEEN_LINES
            }
            due = {
                key: count
                for key, count in self._counts.items()
                if everything or key not in self._written
            }
        for key, count in due.items():
            actor, address, status = key
            details = {"status": status, "count": count} if actor else {"count": count}
            self._log.record(
                "right.refused",
                actor=actor or "others",
                subject=address or "any address",
                **details,
            )
            with self._lock:
                self._written[key] = now
                self._counts[key] -= count
                if not self._counts[key]:
                    del self._counts[key]
        return 1.0 if self._counts else None
