"""Pictures of estimates: proportions with their error bars, tables as heat maps. Needs the extra
`plot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.display import draw_bars, limits_text, name_series, pyplot, text_width, wrapped
from deniable.errors import ParameterError
from deniable.estimation.estimate_text import label_order

if TYPE_CHECKING:
    from deniable.estimation.estimate import Estimate
    from deniable.estimation.tables.table import Table

__all__ = ["draw_survey", "name_ticks", "plot_estimate", "plot_table"]

_ESTIMATE, _TRUTH = "#2a6f97", "#c8553d"
_LONG = 14
"""From this many characters per label on, bars are horizontal."""
_MOST_UPRIGHT, _MOST_LYING = 24, 30
_FEW_NUMBERS = 12
_MOST_NAMED = 40
"""With more labels than this, the axis names only some of them."""


def plot_estimate(
    estimate: Estimate,
    ax: Any = None,
    *,
    truth: Any = None,
    confidence: float = 0.95,
    title: str | None = None,
) -> Any:
    """Draw the proportions as bars with their intervals, and the truth as marks if given; returns
    the axes.

    Long labels are drawn beside horizontal bars; of many labels, only the largest are drawn.
    """
    order = label_order(estimate)
    lying = not estimate.numeric and (
        len(order) > _MOST_UPRIGHT or max(text_width(str(x)) for x in estimate.labels) > _LONG
    )
    if lying:
        order = order[:_MOST_LYING]
    if ax is None:
        wide = max(5.4, min(12.0, 2.6 + 0.5 * len(order)))
        _, ax = pyplot().subplots(
            figsize=(6.4, max(2.4, 1.2 + 0.4 * len(order))) if lying else (wide, 3.6),
            layout="constrained",
        )
    places = np.arange(len(order))
    low, high = 100 * estimate.interval(confidence)[order].T
    proportions = 100 * estimate.proportions[order]
    # Around its own middle: an interval need not be centred on the proportion, nor contain one that
    # is below 0.
    middle, reach = (low + high) / 2, (high - low) / 2
    style = {
        "fmt": "none",
        "ecolor": _ESTIMATE,
        "capsize": 3,
        "label": f"{100 * confidence:g} % interval",
    }
    if lying:
        ax.barh(places, proportions, height=0.7, color=_ESTIMATE, alpha=0.55, label="estimate")
        ax.errorbar(middle, places, xerr=reach, **style)
    else:
        ax.bar(places, proportions, width=0.7, color=_ESTIMATE, alpha=0.55, label="estimate")
        ax.errorbar(places, middle, yerr=reach, **style)
    if truth is not None:
        true_proportions = np.asarray(truth, dtype=np.float64)
        if true_proportions.shape != estimate.proportions.shape:
            raise ParameterError(
                "truth",
                true_proportions.shape,
                f"must hold {len(estimate.labels)} proportions, one per label",
            )
        known = 100 * true_proportions[order]
        ax.plot(
            *((known, places) if lying else (places, known)),
            "D",
            color=_TRUTH,
            markersize=5,
            label="truth",
        )
    named = title or f"{estimate.n:,} reports, epsilon {estimate.epsilon:.3g}"
    if len(order) < len(estimate.labels):
        named += f"\nthe largest {len(order)} of {len(estimate.labels)} labels"
    ax.set_title(named, fontsize=10)
    if lying:
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_yticks(places, [wrapped(str(estimate.labels[at])) for at in order])
        ax.invert_yaxis()
        ax.set_xlabel("proportion of the population (%)")
    else:
        ax.axhline(0, color="0.4", linewidth=0.8)
        name_ticks(ax, [estimate.labels[at] for at in order], "x")
        ax.set_ylabel("proportion of the population (%)")
    ax.spines[["top", "right"]].set_visible(False)
    name_series(ax)
    return ax


def plot_table(
    table: Table, ax: Any = None, *, title: str | None = None, confidence: float = 0.95
) -> Any:
    """Draw a table of two axes as a heat map, each cell with its proportion and interval; returns
    the axes."""
    if len(table.axes) != 2:
        raise ParameterError(
            "table", table.axes, "must have two axes to be drawn: take a marginal() of two"
        )
    plt = pyplot()
    rows, columns = table.shape
    if ax is None:
        _, ax = plt.subplots(figsize=(1.6 + 0.95 * columns, 1.4 + 0.5 * rows), layout="constrained")
    proportions = 100 * table.proportions
    image = ax.imshow(
        proportions, cmap="Blues", aspect="auto", vmin=min(0.0, float(proportions.min()))
    )
    limits = table.interval(confidence)
    dark = (proportions.max() + min(0.0, proportions.min())) / 2
    if proportions.size <= 200:
        for row in range(rows):
            for column in range(columns):
                ends = limits_text(limits[row, column], 1, factor=100)
                text = f"{proportions[row, column]:.1f}\n{ends}"
                colour = "white" if proportions[row, column] > dark else "black"
                ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    ax.set_xlabel(table.axes[1])
    ax.set_ylabel(table.axes[0])
    name_ticks(ax, table.labels[1], "x")
    name_ticks(ax, table.labels[0], "y")
    ax.set_title(
        title
        or f"{' by '.join(table.axes)}: {table.n:,} reports, epsilon {table.epsilon:.3g} each",
        fontsize=10,
    )
    ax.figure.colorbar(image, ax=ax, label="proportion (%)")
    return ax


def draw_survey(estimates: Mapping[str, Estimate], tables: Sequence[Table] = ()) -> Any:
    """One figure with a panel per column and a panel per table of two axes."""
    drawable = [table for table in tables if len(table.axes) == 2]
    panels = len(estimates) + len(drawable)
    heights = [
        max(3.6, 1.2 + 0.3 * min(len(e.labels), _MOST_LYING)) if not e.numeric else 3.6
        for e in estimates.values()
    ]
    heights += [3.6] * len(drawable)
    size, ratios = (8, sum(heights)), {"height_ratios": heights}
    figure, axes = pyplot().subplots(
        panels, 1, figsize=size, layout="constrained", squeeze=False, gridspec_kw=ratios
    )
    for ax, (name, estimate) in zip(axes[:, 0], estimates.items(), strict=False):
        title = f"{name}: {estimate.n:,} reports, epsilon {estimate.epsilon:.3g}"
        # point by point, an unbiased estimate is mostly noise
        if estimate.numeric and estimate.unbiased is None:
            draw_bars(estimate._display(), ax).set_title(title, fontsize=10)
        else:
            plot_estimate(estimate, ax, title=title)
    for ax, table in zip(axes[len(estimates) :, 0], drawable, strict=True):
        plot_table(table, ax)
    return figure


def name_ticks(ax: Any, labels: Sequence[Any], axis: str) -> None:
    """Write the labels along an axis; only some if there are many."""
    numbers = len(labels) > _FEW_NUMBERS and all(isinstance(label, float) for label in labels)
    step = -(-len(labels) // (_FEW_NUMBERS if numbers else _MOST_NAMED))
    places = range(0, len(labels), step)
    names = [f"{labels[place]:g}" if numbers else str(labels[place]) for place in places]
    if axis == "y":
        ax.set_yticks(places, names)
        return
    slanted = sum(map(len, names)) > 60
    ax.set_xticks(places, names, rotation=40 if slanted else 0, ha="right" if slanted else "center")
