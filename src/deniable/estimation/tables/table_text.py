"""A table of proportions as text, as rows and as bars."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.display import Bar, Display, limits_text, pad, text_width
from deniable.estimation.estimate_text import sampled_text

if TYPE_CHECKING:
    from deniable.estimation.tables.table import Table

__all__ = ["closing_line", "few_answers", "table_display", "table_text"]

_Floats = NDArray[np.float64]
_COLUMNS_SHOWN, _ROWS_SHOWN = 8, 24
_FEW_PER_CELL = 50
"""Answers per cell below which conditional intervals cover less than 94 % (93.7 % at 20, 94.7 % at
100, simulated)."""
_TOO_NARROW = "intervals cover somewhat less than 95 %: a cell has"
"""How the note begins of a table whose intervals are not claimed to cover 95 %."""


def table_display(table: Table, confidence: float = 0.95) -> Display:
    """Rows, bars and notes of the table, for every form that shows one."""
    limits = table.interval(confidence).reshape(-1, 2)
    proportions, errors = table.proportions.reshape(-1), table.stderr.reshape(-1)
    rows: list[tuple[Any, ...]] = [
        (*cell, float(proportion), float(error), float(low), float(high))
        for cell, proportion, error, (low, high) in zip(
            table.cells(), proportions, errors, limits, strict=True
        )
    ]
    bars = [
        Bar(", ".join(map(str, row[:-4])), 100 * row[-4], 100 * row[-2], 100 * row[-1])
        for row in rows
    ]
    columns = (*table.axes, "estimate", "stderr", "low", "high")
    if len(table.axes) == 1 or table.shape[-1] > _COLUMNS_SHOWN:
        texts = [(*table.axes, "proportion", f"{100 * confidence:g} % interval")]
        texts += [
            (
                *map(str, r[:-4]),
                f"{100 * r[-4]:.2f} %",
                f"{100 * r[-2]:.2f} to {100 * r[-1]:.2f}",
            )
            for r in rows
        ]
    else:
        texts = [(*table.axes[:-1], *(f"{table.axes[-1]} = {label}" for label in table.labels[-1]))]
        width = table.shape[-1]
        for start in range(0, len(rows), width):
            cells = [
                f"{100 * r[-4]:.2f} % ({limits_text(r[-2:], factor=100)})"
                for r in rows[start : start + width]
            ]
            texts.append((*map(str, rows[start][: len(table.axes) - 1]), *cells))
    return Display(
        columns, rows, (closing_line(table), *table.notes), bars, "proportion (%)", texts=texts
    )


def table_text(table: Table) -> str:
    """The table as it is printed."""
    if len(table.axes) == 2 and table.shape[1] <= _COLUMNS_SHOWN and table.shape[0] <= _ROWS_SHOWN:
        rows = _grid(table.axes, table.labels, table.proportions, table.interval())
    elif (
        len(table.axes) == 3
        and table.shape[2] <= _COLUMNS_SHOWN
        and table.shape[0] * table.shape[1] <= 2 * _ROWS_SHOWN
    ):
        rows = []
        for label, proportions, limits in zip(
            table.labels[0], table.proportions, table.interval(), strict=True
        ):
            grid = _grid(table.axes[1:], table.labels[1:], proportions, limits)
            rows += [f"{table.axes[0]} = {label}", *(f"  {line}" for line in grid)]
    else:
        *rows, _ = str(replace(table, notes=()).estimate()).splitlines()
    return "\n".join([*rows, closing_line(table), *table.notes])


def closing_line(table: Table) -> str:
    """How many reported, how private that was, and what intervals cover."""
    of = "" if table.population is None else f" of {table.population:,} people"
    sampled = sampled_text(table.sampled_epsilon, table.sampled_delta, table.sampled_crowd)
    line = (
        f"{table.n:,} reports{of}; epsilon {table.epsilon:.4g}{sampled} per person, all"
        " attributes together"
    )
    narrow = any(note.startswith(_TOO_NARROW) for note in table.notes)
    return line if narrow else f"{line}; intervals cover 95 %"


def _grid(
    axes: tuple[str, ...],
    labels: tuple[tuple[Hashable, ...], ...],
    proportions: _Floats,
    limits: _Floats,
) -> list[str]:
    """A table of two axes, with an interval in every cell."""
    heads = [str(label) for label in labels[1]]
    cells = [
        [
            f"{100 * proportion:.2f} ({limits_text(ends, factor=100)})"
            for proportion, ends in zip(cells, row, strict=True)
        ]
        for cells, row in zip(proportions, limits, strict=True)
    ]
    sides = [str(label) for label in labels[0]]
    first = max(text_width(text) for text in [axes[0], *sides])
    widths = [
        max(text_width(head), *(text_width(row[j]) for row in cells))
        for j, head in enumerate(heads)
    ]
    lines = [f"{'':<{first}}  {axes[1]}, %"]
    for side, row in zip([axes[0], *sides], [heads, *cells], strict=True):
        lines.append(
            "  ".join(
                [
                    pad(side, first),
                    *(pad(text, w, right=True) for text, w in zip(row, widths, strict=True)),
                ]
            )
        )
    return lines


def few_answers(per_cell: float) -> tuple[str, ...]:
    """Notes on conditional cells with too few answers for the delta method."""
    return (
        () if per_cell >= _FEW_PER_CELL else (f"{_TOO_NARROW} only about {per_cell:.0f} answers",)
    )
