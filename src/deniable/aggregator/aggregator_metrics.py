"""What the aggregator counts, as Prometheus reads it. Nothing here is of one person or one message."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deniable.service.metrics import counter, exposition, gauge

if TYPE_CHECKING:
    from deniable.aggregator.service import Service

__all__ = ["aggregator_metrics"]


def aggregator_metrics(service: Service) -> bytes:
    """The text that Prometheus scrapes."""
    names, health = service.names, service.health
    with service.reading() as connection:
        totals = connection.execute("SELECT proxy, outcome, n FROM totals ORDER BY proxy, outcome").fetchall()
        malformed = connection.execute("SELECT proxy, reason, n FROM refusals ORDER BY proxy, reason").fetchall()
        windows = connection.execute(
            "SELECT query, condition, count(*) FROM results WHERE final GROUP BY query, condition"
        ).fetchall()
    received = [({"proxy": names[proxy]}, n) for proxy, outcome, n in totals if outcome == "received"]
    outcomes = [({"proxy": names[proxy], "outcome": outcome}, n) for proxy, outcome, n in totals if outcome != "received"]
    reasons = [({"proxy": names[proxy], "reason": reason}, n) for proxy, reason, n in malformed]
    offsets = [({"proxy": h.name, "partition": str(i)}, offset) for h in health for i, offset in enumerate(h.position)]
    kept = [({"query": query, "condition": condition}, n) for query, condition, n in windows]
    refused = [({"reason": reason}, n) for reason, n in sorted(service.refusals.items())]
    families = [
        counter("shares_received_total", "Shares read from a proxy's log.", received),
        counter("shares_total", "Shares by what became of them.", outcomes),
        counter("shares_malformed_total", "Malformed shares by reason.", reasons),
        gauge("shares_waiting", "Shares that wait for those of other proxies.", [({"proxy": h.name}, h.waiting) for h in health]),
        gauge("proxy_up", "1 for a proxy that keeps up.", [({"proxy": h.name}, int(h.condition == "up")) for h in health]),
        gauge("proxy_lag_seconds", "Time since the first epoch it has not marked.", [({"proxy": h.name}, h.lag) for h in health]),
        gauge("log_offset", "How far a partition of a proxy's log is counted.", offsets),
        gauge("windows", "Results that are kept, by condition.", kept),
        gauge("engine_running", "1 while the engine counts.", int(service.running)),
        counter("requests_refused_total", "Requests that were refused, by reason.", refused),
    ]
    return exposition("deniable_aggregator", families)
