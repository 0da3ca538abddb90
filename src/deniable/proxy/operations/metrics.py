"""A proxy's metrics for Prometheus. None is about a single client or message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deniable.service.certificate_expiry import certificate_families
from deniable.service.faults import fault_families
from deniable.service.files.database import free_bytes
from deniable.service.http.cross_origin import PREFLIGHTS
from deniable.service.metrics import counter, exposition, gauge

if TYPE_CHECKING:
    from deniable.proxy.service import ProxyService

__all__ = ["proxy_metrics"]

_COUNTERS = {
    "accepted": ("shares_accepted_total", "Shares that were taken and are durable."),
    "already": (
        "shares_already_total",
        "Shares that came again, byte for byte, and were not counted again.",
    ),
    "appended": ("shares_appended_total", "Shares passed on to the log."),
    "blocks": ("blocks_appended_total", "Blocks passed on to the log."),
    "flushes_full": ("flushes_full_total", "Flushes because the threshold was reached."),
    "flushes_due": ("flushes_due_total", "Flushes of fewer shares, because a deadline had come."),
    "closed": ("epochs_closed_total", "Epochs that were closed after shares had come in them."),
    "dropped": ("blocks_dropped_total", "Blocks that were dropped from the log as too old."),
}


def proxy_metrics(proxy: ProxyService) -> bytes:
    """The text that Prometheus scrapes."""
    intake = proxy.intake
    counters = [
        counter(name, text, intake.counters[key]) for key, (name, text) in _COUNTERS.items()
    ]
    refusals = [
        ({"reason": reason}, count)
        for reason, count in sorted(proxy.refusals.items())
        if reason != PREFLIGHTS
    ]
    others = [
        counter("refused_total", "Requests that were refused, by reason.", refusals),
        counter(
            "enrolment_total",
            "Devices that asked for a token: enrolled, rotated, or refused by reason.",
            [({"outcome": name}, n) for name, n in sorted(proxy.enrolment.counters.items())],
        ),
        counter(
            "preflights_total",
            "Browsers that asked what a page may send.",
            proxy.refusals[PREFLIGHTS],
        ),
        gauge("shares_waiting", "Shares that wait for a flush.", intake.n_waiting),
        gauge(
            "log_away",
            "1 while the log cannot be reached, and shares wait in the spool.",
            int(intake.log_problem != ""),
        ),
        gauge("ids_held", "Message ids of open epochs, held against replays.", intake.n_ids),
        gauge(
            "bytes_receiving",
            "Bytes of uploads that are being received or examined.",
            proxy.admission.n_receiving,
        ),
        gauge("queries", "Queries on the board.", len(proxy.board)),
        gauge(
            "queries_hidden",
            "Queries not shown, because they are beyond their analyst's part.",
            len(proxy.board.hidden),
        ),
        gauge("audit_lines", "Lines of the audit log.", proxy.audit.head.lines),
        gauge("feed_lines", "Lines of the public feed.", proxy.feed.head.lines),
        gauge(
            "uploads_waiting",
            "Requests whose shares wait to be made durable.",
            proxy.worker.n_uploads_waiting,
        ),
        gauge(
            "take_seconds",
            "How long the last uploads took to be made durable.",
            proxy.worker.take_seconds,
        ),
        gauge(
            "disk_free_bytes",
            "Free bytes on the disk of the proxy's folder.",
            free_bytes(proxy.settings.folder),
        ),
        *certificate_families(proxy.settings.tls, proxy.clock()),
        *fault_families(proxy.watch),
    ]
    return exposition("deniable_proxy", counters + others)
