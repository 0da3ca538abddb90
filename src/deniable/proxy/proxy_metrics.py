"""What a proxy counts, as Prometheus reads it. Nothing here is of one client or one message."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deniable.proxy.api import Proxy

__all__ = ["exposition"]

_COUNTERS = {
    "accepted": ("shares_accepted_total", "Shares that were taken and are durable."),
    "already": ("shares_already_total", "Shares that came again, byte for byte, and were not counted again."),
    "appended": ("shares_appended_total", "Shares passed on to the log."),
    "blocks": ("blocks_appended_total", "Blocks passed on to the log."),
    "flushes_full": ("flushes_full_total", "Flushes because the threshold was reached."),
    "flushes_due": ("flushes_due_total", "Flushes of fewer shares, because a deadline had come."),
    "closed": ("epochs_closed_total", "Epochs that were closed after shares had come in them."),
    "dropped": ("blocks_dropped_total", "Blocks that were dropped from the log as too old."),
}


def exposition(proxy: Proxy) -> str:
    """The text that Prometheus scrapes."""
    lines: list[str] = []

    def add(name: str, kind: str, text: str, values: dict[str, int]) -> None:
        lines.extend([f"# HELP deniable_proxy_{name} {text}", f"# TYPE deniable_proxy_{name} {kind}"])
        lines.extend(f"deniable_proxy_{name}{label} {value}" for label, value in values.items())

    for key, (name, text) in _COUNTERS.items():
        add(name, "counter", text, {"": proxy.intake.counters[key]})
    refusals: Counter[str] = proxy.refusals
    by_reason = {f'{{reason="{reason}"}}': count for reason, count in sorted(refusals.items())}
    add("refused_total", "counter", "Requests that were refused, by reason.", by_reason)
    add("shares_waiting", "gauge", "Shares that wait for a flush.", {"": proxy.intake.n_waiting})
    add(
        "log_away",
        "gauge",
        "1 while the log cannot be reached, and shares wait in the spool.",
        {"": int(proxy.intake.log_problem != "")},
    )
    add("ids_held", "gauge", "Message ids of open epochs, held against replays.", {"": proxy.intake.n_ids})
    add("bytes_receiving", "gauge", "Bytes of uploads that are being received or examined.", {"": proxy.n_receiving})
    add("queries", "gauge", "Queries on the board.", {"": len(proxy.board)})
    return "\n".join(lines) + "\n"
