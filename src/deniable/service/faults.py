"""Faults by name: one word for each thing an operator can act on, the same in health, in the log
and in metrics.

docs/runbook.md says for each name what it means, how soon it shows, and what to do.
"""

from __future__ import annotations

import errno
import logging
import sqlite3
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypedDict

from deniable.errors import ResponseError, SettingsError
from deniable.service.background import Background
from deniable.service.files.database import free_bytes

if TYPE_CHECKING:
    from deniable.service.metrics import Family

__all__ = [
    "FAULTS",
    "FaultDocument",
    "FaultWatch",
    "HealthDocument",
    "ServiceFault",
    "expiring",
    "fault_families",
    "health_document",
    "low_disk",
    "name_of_error",
]

FAULTS = {
    "backlog_full": (
        "The proxy has reached its limit on waiting shares or message ids, and defers uploads."
    ),
    "certificate": "A certificate is not trusted, or TLS fails.",
    "certificate_expiring": "A certificate ends within 14 days.",
    "damaged": "A file of the service's own is damaged.",
    "disk_full": "The disk is full: nothing more is taken.",
    "disk_low": "Less space is free on the disk than the settings reserve.",
    "ended": "A part of the service has ended: restart it.",
    "failing": "A part of the service fails for another reason, and tries again.",
    "log_away": "The proxy cannot reach its log; shares wait in the spool.",
    "log_damaged": "A proxy's log is damaged.",
    "log_unreadable": "A proxy's log cannot be read, for another reason.",
    "proxy_behind": "A proxy has not marked an epoch that has been over for longer than `behind`.",
    "proxy_down": "A proxy has not marked an epoch that has been over for longer than `patience`.",
    "proxy_failing": "A proxy says itself that it is not ready.",
    "proxy_silent": "A proxy accepts connections and does not answer.",
    "proxy_unreachable": "A proxy cannot be connected to.",
    "relay": "A query, or its stop, has not reached a proxy yet.",
    "token": "A token cannot be read from its file, or is refused.",
}
"""All names, and what each means."""
SECONDS_BETWEEN_LOOKS = 1.0
_EXPIRING = 14 * 86400
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_OF_REASONS = {
    "certificate": "certificate",
    "silent": "proxy_silent",
    "unreachable": "proxy_unreachable",
}
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})


class ServiceFault(NamedTuple):
    """Something that is wrong now."""

    name: str
    """One of :data:`FAULTS`."""
    subject: str
    """What it affects: a proxy, or a part of the service."""
    detail: str
    """What was found, in words that stay the same for as long as it lasts."""
    stops: bool = False
    """Whether it keeps the service from working, so that it is not ready."""


def name_of_error(error: BaseException) -> str:
    """The name of the fault that an error indicates."""
    name = "failing"
    if isinstance(error, ssl.SSLError):
        name = "certificate"
    elif isinstance(error, OSError) and error.errno in _NO_SPACE:
        name = "disk_full"
    elif isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        name = (
            "disk_full" if code == sqlite3.SQLITE_FULL else "damaged" if code in _DAMAGED else name
        )
    elif isinstance(error, ResponseError):
        name = _OF_REASONS.get(error.reason, "token" if error.status in (401, 403) else name)
    elif isinstance(error, SettingsError):
        name = "token"
    return name


def low_disk(
    path: Path, reserve: int, name: str = "disk_low", stops: bool = False
) -> list[ServiceFault]:
    """The fault of a disk with less free space than is reserved, if any."""
    if free_bytes(path) >= reserve:
        return []
    return [
        ServiceFault(
            name,
            str(path),
            f"less than {reserve >> 20:,} MiB are free on the disk of {path}",
            stops,
        )
    ]


def expiring(subject: str, ends: float | None, now: float) -> list[ServiceFault]:
    """The fault of a certificate that expires soon, if any."""
    if ends is None or ends - now > _EXPIRING:
        return []
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ends))
    return [
        ServiceFault(
            "certificate_expiring",
            subject,
            f"the certificate {'ended' if ends <= now else 'ends'} at {when}",
        )
    ]


class FaultDocument(TypedDict):
    """Something that is wrong now."""

    fault: str
    """Its name in docs/runbook.md."""
    subject: str
    """What it affects: a proxy, or a part of the service."""
    detail: str


class HealthDocument(TypedDict):
    """The health page."""

    status: Literal["ok", "degraded", "failed"]
    faults: list[FaultDocument]


def health_document(faults: Sequence[ServiceFault]) -> HealthDocument:
    """The health page: `failed` if the service cannot work, `degraded` if anything else is wrong,
    and each fault."""
    stopped = any(each.stops for each in faults)
    return {
        "status": "failed" if stopped else "degraded" if faults else "ok",
        "faults": [
            {"fault": each.name, "subject": each.subject, "detail": each.detail} for each in faults
        ],
    }


def fault_families(watch: FaultWatch) -> list[Family]:
    """Metrics about faults."""
    from deniable.service.metrics import counter, gauge  # noqa: PLC0415 - an extra

    now = Counter((each.name, each.subject) for each in watch.look())
    return [
        gauge(
            "fault",
            "1 for each thing that is wrong now, by name.",
            [({"fault": n, "subject": s}, 1) for n, s in now],
        ),
        counter(
            "faults_total",
            "How often a fault began.",
            [({"fault": n}, k) for n, k in sorted(watch.begun.items())],
        ),
    ]


class FaultWatch:
    """Checks once per second what is wrong, and logs each fault when it begins and when it is
    mended."""

    def __init__(self, look: Callable[[], Iterable[ServiceFault]], logger: logging.Logger) -> None:
        self.look, self._logger = look, logger
        self._known: dict[tuple[str, str], float] = {}
        self.begun: Counter[str] = Counter()
        self._background = Background("watch", self.step, logger)
        self.start, self.stop = self._background.start, self._background.stop

    def step(self) -> float:
        """Compare the current faults with the previous ones."""
        now, found = time.monotonic(), {(each.name, each.subject): each for each in self.look()}
        for key, fault in found.items():
            if key not in self._known:
                self._known[key] = now
                self.begun[fault.name] += 1
                fields = {"fault": fault.name, "subject": fault.subject, "detail": fault.detail}
                self._logger.error("fault", extra={"fields": fields})
        for key in set(self._known) - set(found):
            lasted = round(now - self._known.pop(key))
            self._logger.info(
                "fault mended",
                extra={"fields": {"fault": key[0], "subject": key[1], "seconds": lasted}},
            )
        return SECONDS_BETWEEN_LOOKS
