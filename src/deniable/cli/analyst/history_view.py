"""What `deniable history` shows a person: estimates with whiskers, differences, trends, and what
they rest on."""

from __future__ import annotations

import math
from typing import Any

from deniable.analyst.past_answer import PastAnswer, closing_lines
from deniable.cli.output import Part, show_display
from deniable.display import Bar, Display
from deniable.estimation.intervals import p_text
from deniable.queries.times import iso_time

__all__ = ["history_parts"]

_WHOLE = "all"
"""The part that stands for the whole period."""


def history_parts(answer: PastAnswer) -> list[Part]:
    """The tables of an answer and the lines below them."""
    confidence = f"{100 * answer.document['confidence']:g} % interval"
    parts = show_display(_estimates(answer, confidence))
    against = answer.document["against"]
    if against is not None:
        title = f"Change since {iso_time(against['start'])} to {iso_time(against['end'])}:"
        overall = against["difference"]["overall"]
        changes = [row for row in answer.difference_rows() if row[0] != _WHOLE] or list(
            answer.difference_rows()
        )
        parts += ["", *show_display(_changes(changes, "change", confidence), title)]
        parts.append(f"  All labels together: {p_text(overall['p'])}")
    if answer.trend is not None:
        columns = (answer.trend[name] for name in ("labels", "slope_per_day", "low", "high", "p"))
        trends = [
            (_WHOLE, _label(row[0]), row[1], None, *row[2:]) for row in zip(*columns, strict=True)
        ]
        parts += ["", *show_display(_changes(trends, "per day", confidence, 3), "Trend:")]
    return [*parts, "", *closing_lines(answer)]


def _label(label: Any) -> str:
    return ", ".join(map(str, label)) if isinstance(label, list) else str(label)


def _percent(limit: float | None, digits: int = 2) -> str:
    return "?" if limit is None or not math.isfinite(limit) else f"{100 * limit:.{digits}f}"


def _estimates(answer: PastAnswer, confidence: str) -> Display:
    rows = [row for row in answer.rows() if row[0] != _WHOLE] or list(answer.rows())
    parted = any(row[0] != _WHOLE for row in rows)
    texts: list[tuple[str, ...]] = [(*(["part"] if parted else []), "", "estimate", confidence)]
    bars = []
    for part, label, estimate, _, low, high, _ in rows:
        limits = f"{_percent(low)} to {_percent(high)}"
        texts.append((*([part] if parted else []), label, f"{100 * estimate:.2f} %", limits))
        bars.append(_bar(label, estimate, low, high))
    withheld = [part["name"] for part in answer.document["parts"] if "estimate" not in part]
    notes = tuple(f"{name}: withheld, because it has too few answers" for name in withheld)
    return Display(("",), rows, notes, bars, texts=texts)


def _changes(
    rows: list[tuple[Any, ...]], heading: str, confidence: str, digits: int = 2
) -> Display:
    parted = any(row[0] != _WHOLE for row in rows)
    texts: list[tuple[str, ...]] = [(*(["part"] if parted else []), "", heading, confidence, "")]
    bars = []
    for part, label, change, _, low, high, p in rows:
        limits = f"{_percent(low, digits)} to {_percent(high, digits)}"
        texts.append(
            (*([part] if parted else []), label, f"{100 * change:+.{digits}f} %", limits, p_text(p))
        )
        bars.append(_bar(label, change, low, high))
    return Display(("",), rows, (), bars, texts=texts)


def _bar(label: str, value: float, low: float | None, high: float | None) -> Bar:
    return Bar(label, 100 * value, *(None if end is None else 100 * end for end in (low, high)))
