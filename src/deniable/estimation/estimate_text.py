"""An estimate as text, as rows and as bars."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.display import (
    Bar,
    Display,
    coverage_text,
    limits_text,
    loss_text,
    pad,
    text_width,
)
from deniable.estimation.tables.statistic import aligned_statistics, displayed_statistics

if TYPE_CHECKING:
    from deniable.estimation.estimate import Estimate

__all__ = [
    "coverage_line",
    "estimate_display",
    "estimate_rows",
    "label_order",
    "label_text",
    "privacy_line",
    "sampled_text",
]

_ROWS_SHOWN = 24


def estimate_rows(estimate: Estimate) -> list[str]:
    """The lines of the printed table."""
    if estimate.numeric:
        return aligned_statistics(estimate.summary())
    limits, order = estimate.interval(0.95), label_order(estimate)
    shown = order if len(order) <= _ROWS_SHOWN else order[: _ROWS_SHOWN - 4]
    names = [label_text(estimate.labels[at]) for at in shown]
    width = max(map(text_width, names))
    spans = [limits_text(limits[at], factor=100) for at in shown]
    wide = max(map(len, spans))
    rows = [
        f"{pad(name, width)}  {100 * estimate.proportions[at]:7.2f} %   {span:>{wide}}"
        for name, at, span in zip(names, shown, spans, strict=True)
    ]
    if len(shown) < len(order):
        rest = 100 * estimate.proportions[order[len(shown)]]
        rows.append(f"… and {len(order) - len(shown)} more, each at most {rest:.2f} %")
    return rows


def label_order(estimate: Estimate) -> list[int]:
    """The labels in their own order or, if there are many, the largest first."""
    if len(estimate.labels) <= _ROWS_SHOWN or estimate.numeric:
        return list(range(len(estimate.labels)))
    return [int(at) for at in np.argsort(-estimate.proportions, kind="stable")]


def estimate_display(estimate: Estimate, confidence: float = 0.95) -> Display:
    """Rows, bars and notes of the estimate, for every form that shows one."""
    if estimate.numeric:
        return displayed_statistics(
            estimate.summary(), (estimate.privacy_line(confidence), *estimate.notes), confidence
        )
    limits, order = estimate.interval(confidence), label_order(estimate)
    rows: list[tuple[Any, ...]] = [
        (
            estimate.labels[at],
            float(estimate.proportions[at]),
            float(estimate.stderr[at]),
            *map(float, limits[at]),
        )
        for at in order
    ]
    texts = [
        (
            label_text(estimate.labels[at]),
            f"{100 * estimate.proportions[at]:.2f} %",
            limits_text(limits[at], factor=100),
        )
        for at in order
    ]
    header = ("", "proportion", f"{coverage_text(confidence)} interval")
    bars = [Bar(label_text(row[0]), 100 * row[1], 100 * row[3], 100 * row[4]) for row in rows]
    columns = ("label", "estimate", "stderr", "low", "high")
    notes = (estimate.privacy_line(confidence), *estimate.notes)
    return Display(columns, rows, notes, bars, "proportion (%)", texts=[header, *texts])


def privacy_line(estimate: Estimate, confidence: float = 0.95) -> str:
    """How many reported, how private each report is, and what intervals cover: the last line of
    the printed table."""
    of = "" if estimate.population is None else f" of {estimate.population:,} people"
    sampled = sampled_text(estimate.sampled_epsilon, estimate.sampled_delta, estimate.sampled_crowd)
    loss = "infinite" if math.isinf(estimate.epsilon) else f"{estimate.epsilon:.4g}"
    return (
        f"{estimate.n:,} reports{of}; epsilon {loss}{sampled} per report;"
        f" {coverage_line(estimate, confidence)}"
    )


def coverage_line(estimate: Estimate, confidence: float) -> str:
    """What the intervals cover, and of which labels at least that."""
    if estimate.numeric:  # each of its statistics says for itestimate what it covers
        return f"intervals cover {coverage_text(confidence)}"
    more = estimate.covers_more(confidence)
    if more.any() and not more.all():
        named = [
            label_text(label)
            for label, at_least in zip(estimate.labels, more.tolist(), strict=True)
            if at_least
        ]
        shown = ", ".join(named[:4]) + (f" and {len(named) - 4} more" if len(named) > 4 else "")
        return f"intervals cover {coverage_text(confidence)}, of {shown} at least"
    return f"intervals cover {coverage_text(confidence, bool(more.any()))}"


def sampled_text(epsilon: float | None, delta: float | None, crowd: int | None) -> str:
    """The loss against anyone who does not know who took part, in brackets; nothing without its
    delta and its crowd."""
    if epsilon is None or delta is None or crowd is None:
        return ""
    return f" (sampled {loss_text(epsilon)} in a crowd of {crowd:,}, delta {delta:g})"


def label_text(label: Any) -> str:
    """A label for display; for a combination, its parts."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)
