"""What the aggregator counts, as Prometheus reads it. Nothing here is of one person or one message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.aggregator.service import Service

__all__ = ["exposition"]


def exposition(service: Service) -> str:
    """The text that Prometheus scrapes."""
    names = service.names
    with service.reading() as connection:
        totals = connection.execute("SELECT proxy, outcome, n FROM totals ORDER BY proxy, outcome").fetchall()
        refusals = connection.execute("SELECT proxy, reason, n FROM refusals ORDER BY proxy, reason").fetchall()
        windows = connection.execute("SELECT query, condition, count(*) FROM results GROUP BY query, condition").fetchall()
    health = service.health
    lines: list[str] = []

    def add(name: str, kind: str, text: str, rows: Iterable[tuple[dict[str, str], int]]) -> None:
        lines.extend([f"# HELP deniable_aggregator_{name} {text}", f"# TYPE deniable_aggregator_{name} {kind}"])
        for labels, value in rows:
            inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
            lines.append(f"deniable_aggregator_{name}{{{inside}}} {value}" if inside else f"deniable_aggregator_{name} {value}")

    shares = [({"proxy": names[proxy], "outcome": outcome}, n) for proxy, outcome, n in totals if outcome != "received"]
    received = [({"proxy": names[proxy]}, n) for proxy, outcome, n in totals if outcome == "received"]
    add("shares_received_total", "counter", "Shares read from a proxy's log.", received)
    add("shares_total", "counter", "Shares by what became of them.", shares)
    refused = [({"proxy": names[proxy], "reason": reason}, n) for proxy, reason, n in refusals]
    add("shares_malformed_total", "counter", "Malformed shares by reason.", refused)
    add(
        "shares_waiting",
        "gauge",
        "Shares that wait for those of other proxies.",
        [({"proxy": h.name}, h.waiting) for h in health],
    )
    add("proxy_up", "gauge", "1 for a proxy that keeps up.", [({"proxy": h.name}, int(h.condition == "up")) for h in health])
    add(
        "proxy_lag_seconds",
        "gauge",
        "Time since the first epoch it has not marked.",
        [({"proxy": h.name}, h.lag) for h in health],
    )
    offsets = [({"proxy": h.name, "partition": str(i)}, offset) for h in health for i, offset in enumerate(h.position)]
    add("log_offset", "gauge", "How far a partition of a proxy's log is counted.", offsets)
    kept = [({"query": query, "condition": condition}, n) for query, condition, n in windows]
    add("windows", "gauge", "Results that are kept, by condition.", kept)
    add("engine_running", "gauge", "1 while the engine counts.", [({}, int(service.running))])
    requests = [({"reason": reason}, n) for reason, n in sorted(service.refusals.items())]
    add("requests_refused_total", "counter", "Requests that were refused, by reason.", requests)
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
