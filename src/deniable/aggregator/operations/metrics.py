"""The aggregator's counters, in Prometheus format. None of them is about a single person or
message."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deniable.service.certificate_expiry import certificate_families
from deniable.service.faults import fault_families
from deniable.service.files.database import free_bytes
from deniable.service.http.cross_origin import PREFLIGHTS
from deniable.service.metrics import Family, counter, exposition, gauge

if TYPE_CHECKING:
    from deniable.aggregator.service import Service

__all__ = ["aggregator_metrics"]


def aggregator_metrics(service: Service) -> bytes:
    """The text that Prometheus scrapes."""
    names, health, now = service.names, service.parts.proxies, service.clock()
    with service.reading() as connection:
        totals = connection.execute(
            "SELECT proxy, outcome, n FROM totals ORDER BY proxy, outcome"
        ).fetchall()
        malformed = connection.execute(
            "SELECT proxy, reason, n FROM refusals ORDER BY proxy, reason"
        ).fetchall()
        windows = connection.execute(
            "SELECT query, condition, count(*) FROM results WHERE final GROUP BY query, condition"
        ).fetchall()
        untold = dict(
            connection.execute("SELECT proxy, count(*) FROM relays WHERE NOT done GROUP BY proxy")
        )
        delays = connection.execute(
            "SELECT query, made - json_extract(document, '$.end') FROM results WHERE seq IN (SELECT"
            " max(seq) FROM results WHERE revision = 0 AND made > 0 GROUP BY query)"
        ).fetchall()
    received = [
        ({"proxy": names[proxy]}, n) for proxy, outcome, n in totals if outcome == "received"
    ]
    outcomes = [
        ({"proxy": names[proxy], "outcome": outcome}, n)
        for proxy, outcome, n in totals
        if outcome != "received"
    ]
    reasons = [({"proxy": names[proxy], "reason": reason}, n) for proxy, reason, n in malformed]
    offsets = [
        ({"proxy": h.name, "partition": str(i)}, offset)
        for h in health
        for i, offset in enumerate(h.position)
    ]
    kept = [({"query": query, "condition": condition}, n) for query, condition, n in windows]
    refused = [
        ({"reason": reason}, n)
        for reason, n in sorted(service.refusals.items())
        if reason != PREFLIGHTS
    ]
    told = [({"proxy": name}, untold.get(proxy, 0)) for proxy, name in enumerate(names)]
    families = [
        counter("shares_received_total", "Shares read from a proxy's log.", received),
        counter("shares_total", "Shares by what became of them.", outcomes),
        counter("shares_malformed_total", "Malformed shares by reason.", reasons),
        gauge(
            "shares_waiting",
            "Shares waiting for those of other proxies.",
            [({"proxy": h.name}, h.waiting) for h in health],
        ),
        gauge(
            "proxy_up",
            "1 for a proxy that keeps up.",
            [({"proxy": h.name}, int(h.condition == "up")) for h in health],
        ),
        gauge(
            "proxy_lag_seconds",
            "Time since the first epoch it has not marked.",
            [({"proxy": h.name}, h.lag) for h in health],
        ),
        gauge(
            "proxy_mark_age_seconds",
            "Time since its last mark was found.",
            [({"proxy": h.name}, h.mark_age) for h in health],
        ),
        gauge(
            "log_backlog_blocks",
            "Blocks of its log not counted yet.",
            [({"proxy": h.name}, h.backlog) for h in health],
        ),
        gauge("log_offset", "How far a partition of a proxy's log is counted.", offsets),
        gauge("windows", "Results kept, by condition.", kept),
        gauge(
            "window_delay_seconds",
            "Time from the newest window's end to its result.",
            [({"query": q}, n) for q, n in delays],
        ),
        gauge(
            "relay_backlog", "Publications and stops of queries not yet delivered to a proxy.", told
        ),
        gauge("engine_running", "1 while the engine counts.", int(service.parts.running)),
        gauge("audit_lines", "Lines of the audit log.", service.audit.head.lines),
        gauge("feed_lines", "Lines of the public feed.", service.feed.head.lines),
        counter("requests_refused_total", "Refused requests by reason.", refused),
        *_engine(service),
        *_machine(service, now),
        *fault_families(service.watch),
    ]
    return exposition("deniable_aggregator", families)


def _engine(service: Service) -> list[Family]:
    engine = service.parts.embedded_engine
    if engine is None:
        return []
    return [
        gauge("step_seconds", "How long the engine's last busy step took.", engine.step_seconds),
        gauge(
            "ids_held",
            "Ids of joined messages of open epochs, held against replays.",
            engine.n_joined,
        ),
        gauge(
            "epoch_open_seconds",
            "Time since the end of the oldest epoch that is still open.",
            engine.open_for(),
        ),
    ]


def _machine(service: Service, now: float) -> list[Family]:
    settings = service.settings
    folders = {"state": settings.state.parent}
    if settings.history is not None and "://" not in settings.history.folder:
        folders["history"] = Path(settings.history.folder)
    free = [({"what": what}, free_bytes(folder)) for what, folder in folders.items()]
    return [
        gauge("disk_free_bytes", "Free space on the disks of the state and of the history.", free),
        *certificate_families(
            settings.tls, now, {probe.name: probe.certificate_ends for probe in service.probes}
        ),
    ]
