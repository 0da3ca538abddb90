"""How results display themselves: as a table in a notebook, a data frame, a plot, and columns in a
terminal."""

from __future__ import annotations

import dataclasses
import html
import math
import re
import textwrap
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from deniable.errors import MissingExtraError

__all__ = [
    "FORMULA",
    "NUMBER",
    "Bar",
    "Display",
    "Displayed",
    "coverage_text",
    "draw_bars",
    "factor_text",
    "limits_text",
    "loss_text",
    "name_series",
    "pad",
    "pandas",
    "pyplot",
    "spreadsheet_cell",
    "text_width",
    "wrapped",
]

_BARS_SHOWN = 24
_ROWS_SEEN, _ROWS_WRITTEN = 24, 2_000
"""On a page, more rows are scrolled, and still more are left to `to_frame`."""
_LABEL_WIDTH = 36
FORMULA, NUMBER = r"[=+\-@\t\r]", r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
"""How a text begins that a spreadsheet takes for a formula, and what a whole text is that it takes
for a number."""
_COLOUR, _REFERENCE = "#2a6f97", "0.5"


# --- text


def text_width(text: str) -> int:
    """How many columns of a terminal a text takes: two for a wide character, none for one that
    combines with another.

    >>> text_width("Oslo"), text_width("東京"), text_width("e\\u0301te\\u0301")
    (4, 4, 3)
    """
    if text.isascii():
        return len(text)
    return sum(
        (
            0
            if unicodedata.category(c) in ("Mn", "Me", "Cf")
            else 2
            if unicodedata.east_asian_width(c) in "WF"
            else 1
        )
        for c in text
    )


def pad(text: str, width: int, right: bool = False) -> str:
    """The text with spaces up to a width in columns, after it or, with `right`, before it."""
    spaces = " " * max(0, width - text_width(text))
    return spaces + text if right else text + spaces


def spreadsheet_cell(value: Any) -> Any:
    """A cell of a CSV file for people: a text that a spreadsheet would run as a formula gets an
    apostrophe in front of it.

    Numbers stay as they are, and so do texts that are numbers. The console's CSV files follow the
    same rule.

    >>> [spreadsheet_cell(cell) for cell in ("=HYPERLINK(0)", "@SUM(1)", "-5", -5, "- none", "Oslo")]
    ["'=HYPERLINK(0)", "'@SUM(1)", '-5', -5, "'- none", 'Oslo']
    """
    if isinstance(value, str) and re.match(FORMULA, value) and not re.fullmatch(NUMBER, value):
        return f"'{value}"
    return value


def wrapped(text: str, width: int = _LABEL_WIDTH) -> str:
    """A label broken into lines short enough to fit beside an axis."""
    return "\n".join(textwrap.wrap(text, width) or [text])


_FINE_FACTORS = 100
_ROUNDING_ERROR = 1e-6


def factor_text(factor: float) -> str:
    """A factor, rounded up, for it is a bound.

    >>> factor_text(2.9999999999), factor_text(2.7182818)
    ('3', '2.72')
    """
    scale = 100 if factor < _FINE_FACTORS else 1
    return f"{math.ceil(factor * scale - _ROUNDING_ERROR) / scale:,.10g}"


def loss_text(epsilon: float) -> str:
    """An epsilon with four digits, rounded up: what is printed is never below the loss.

    >>> loss_text(0.00529107), loss_text(1.0), loss_text(0.0)
    ('0.005292', '1', '0')
    """
    if epsilon == 0 or math.isinf(epsilon):
        return f"{epsilon:g}"
    digits = 3 - math.floor(math.log10(epsilon))
    return f"{math.ceil(round(epsilon * 10**digits, 6)) / 10**digits:.4g}"


def limits_text(limits: Any, digits: int = 2, factor: float = 1.0, sign: str = "") -> str:
    """The ends of an interval: the one form in which every result prints its error.

    >>> limits_text((0.784, 0.807), 1, factor=100), limits_text((-0.2, 1.1), sign="+")
    ('78.4 to 80.7', '-0.20 to +1.10')
    """
    return " to ".join(f"{factor * float(end):{sign},.{digits}f}" for end in limits)


def coverage_text(confidence: float = 0.95, at_least: bool = False) -> str:
    """How often intervals cover, such as "95 %" or "at least 95 %"."""
    return f"{'at least ' if at_least else ''}{100 * confidence:g} %"


def elided(labels: Sequence[str], most: int) -> list[str]:
    """Labels of at most so many characters, cut in their middle; more, where they would look the
    same otherwise.

    >>> elided(["under 30, in the city, by car", "under 30, in the city, by bus", "other"], 15)
    ['under 3… by car', 'under 3… by bus', 'other']
    >>> elided(["a long start, one, a long end", "a long start, two, a long end"], 9)
    ['a long start,…e, a long end', 'a long start,…o, a long end']
    """
    texts = [str(label) for label in labels]
    for width in range(most, max(map(len, texts), default=0)):
        cut = [_middle_cut(text, width) for text in texts]
        if len(set(cut)) == len(set(texts)):
            return cut
    return texts


def _middle_cut(text: str, width: int) -> str:
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[len(text) - end :]}"


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}"


# --- what is shown


class Bar(NamedTuple):
    """A value with its limits, if it has any."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Display:
    """A table of plain values, the lines below it, and the values to plot."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    notes: tuple[str, ...] = ()
    bars: Sequence[Bar] = ()
    unit: str = ""
    """Along the axis of the picture."""
    reference: float | None = None
    """Where a reference line is drawn."""
    texts: Sequence[tuple[str, ...]] | None = None
    """The rows as a person reads them, if they differ from the values, with their headings
    first."""

    def to_html(self) -> str:
        """A small table in the colours of the page around it."""
        header, *rows = self.texts or [self.columns, *(tuple(map(_cell, row)) for row in self.rows)]
        shown = rows[:_ROWS_WRITTEN]
        head = "".join(
            f"<th{_style(place)}>{_escaped(name)}</th>" for place, name in enumerate(header)
        )
        body = "".join(
            f"<tr><th{_style(0)}>{_escaped(first)}</th>"
            + "".join(f"<td{_style(1)}>{_escaped(text)}</td>" for text in rest)
            + "</tr>"
            for first, *rest in shown
        )
        left = len(rows) - len(shown)
        more = [f"… and {left:,} more, which to_frame() has"] if left else []
        notes = "".join(
            f"<div><small>{_escaped(line)}</small></div>" for line in [*more, *self.notes]
        )
        table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        if len(shown) > _ROWS_SEEN:
            scrolled = 'role="region" aria-label="all rows" tabindex="0"'
            table = f'<div {scrolled} style="max-height:36em;overflow-y:auto">{table}</div>'
        return f"<div>{table}{notes}</div>"


def _style(place: int) -> str:
    return f' style="padding:2px 8px;text-align:{"right" if place else "left"}"'


def _escaped(text: Any) -> str:
    return html.escape(str(text)).replace("\n", "<br>")


class Displayed:
    """What every result has: `_repr_html_` for notebooks, `to_frame` and `plot`.

    A class defines what is shown in :meth:`_display`; by default, its plain fields are shown as
    facts.
    """

    def _display(self, confidence: float = 0.95) -> Display:
        fields: list[str] = (
            [field.name for field in dataclasses.fields(self)]
            if dataclasses.is_dataclass(self)
            else []
        )
        facts = [
            (name, value)
            for name in fields
            if isinstance(value := getattr(self, name), str | int | float)
        ]
        p_value = getattr(self, "p_value", None)
        if p_value is not None and ("p_value", p_value) not in facts:
            facts.append(("p_value", p_value))
        bars = [Bar("p-value", float(p_value))] if p_value is not None else []
        notes = tuple(str(self).splitlines())
        return Display(("fact", "value"), facts, notes, bars, "p-value", 0.05 if bars else None)

    def _repr_html_(self) -> str:
        return self._display().to_html()

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame with the figures; limits are those of the given confidence."""
        display = self._display(confidence)
        return pandas().DataFrame(
            [dict(zip(display.columns, row, strict=True)) for row in display.rows],
            columns=display.columns,
        )

    def plot(self, ax: Any = None, *, confidence: float = 0.95) -> Any:
        """Draw the figures with their intervals; returns matplotlib's axes."""
        return draw_bars(self._display(confidence), ax)


# --- frames and pictures


def pandas() -> Any:
    """The library, if it is installed."""
    try:
        import pandas as pd  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise MissingExtraError("pandas", "frames", "to_frame()") from None
    return pd


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says which extra to install."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "plotting") from None
    return plt


def name_series(ax: Any) -> None:
    """Say which mark is what, beside the axes: on them, the list of names could hide a mark."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=8)


def draw_bars(display: Display, ax: Any = None) -> Any:
    """Points with their intervals, one below the other, so that long labels have room."""
    bars = list(display.bars)[:_BARS_SHOWN]
    if ax is None:
        _, ax = pyplot().subplots(
            figsize=(6.4, 1.3 + 0.42 * max(len(bars), 1)), layout="constrained"
        )
    for place, bar in enumerate(bars):
        if bar.low is not None and bar.high is not None:
            ax.plot(
                [bar.low, bar.high],
                [place, place],
                color=_COLOUR,
                linewidth=2,
                solid_capstyle="butt",
            )
        ax.plot([bar.value], [place], "o", color=_COLOUR)
    if display.reference is not None:
        ax.axvline(display.reference, color=_REFERENCE, linewidth=0.9, linestyle="--")
    ax.set_yticks(range(len(bars)), [wrapped(bar.label) for bar in bars])
    ax.set_ylim(len(bars) - 0.4, -0.6)
    ax.set_xlabel(display.unit)
    ax.spines[["top", "right"]].set_visible(False)
    if len(display.bars) > len(bars):
        ax.set_title(f"the first {len(bars)} of {len(display.bars)}", fontsize=9)
    return ax
