"""The newest estimates in Prometheus format, each with `_low` and `_high`, so that dashboards can
draw bands."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator

from deniable.aggregator.windows.stored import read_window
from deniable.aggregator.windows.window import Window
from deniable.service.metrics import exposition, gauge

__all__ = ["estimate_metrics", "newest_windows"]


def newest_windows(connection: sqlite3.Connection, analysts: Collection[str]) -> Iterator[Window]:
    """The newest window of each query of these analysts, in its latest revision."""
    newest = "SELECT seq FROM results WHERE query = q.id ORDER BY start DESC, seq DESC LIMIT 1"
    asked = "SELECT DISTINCT id, analyst FROM queries ORDER BY id"
    rows = connection.execute(
        f"SELECT q.analyst, document FROM ({asked}) AS q JOIN results ON seq = ({newest})"  # noqa: S608
    )
    for analyst, document in rows:
        if analyst in analysts:
            yield read_window(document)


def estimate_metrics(windows: Iterable[Window], confidence: float = 0.95) -> bytes:
    """The text that Prometheus scrapes: one series per query and label, from the newest window of
    each query."""
    families: dict[str, list[tuple[dict[str, str], float]]] = {"": [], "_low": [], "_high": []}
    reports, ends = [], []
    for window in windows:
        reports.append(({"query": window.query}, window.n))
        ends.append(({"query": window.query}, window.end))
        if window.estimate is None:
            continue
        limits = window.estimate.interval(confidence)
        for label, value, (low, high) in zip(
            window.estimate.labels, window.estimate.proportions, limits, strict=True
        ):
            labels = {"query": window.query, "label": str(label)}
            for suffix, figure in (("", value), ("_low", low), ("_high", high)):
                families[suffix].append((labels, float(figure)))
    percent = f"{100 * confidence:g} %"
    texts = {
        "": "Estimated proportion of the newest window.",
        "_low": f"Lower limit of its {percent} interval.",
        "_high": f"Upper limit of its {percent} interval.",
    }
    gauges = [
        gauge(f"estimate{suffix}", texts[suffix], values) for suffix, values in families.items()
    ]
    gauges.append(gauge("estimate_reports", "Reports in the newest window.", reports))
    gauges.append(
        gauge(
            "estimate_window_end_seconds", "When the newest window ended, in seconds of UTC.", ends
        )
    )
    return exposition("deniable", gauges)
