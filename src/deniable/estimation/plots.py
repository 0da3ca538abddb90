"""Pictures of estimates: shares with their error bars, tables as heat maps. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.errors import MissingExtraError, ParameterError

if TYPE_CHECKING:
    from deniable.estimation.estimate import Estimate
    from deniable.estimation.tables import Table

__all__ = ["draw_survey", "name_ticks", "plot_estimate", "plot_table", "pyplot"]

_ESTIMATE, _TRUTH = "#2a6f97", "#c8553d"
_MOST_NAMED = 40
"""With more labels than this, the axis names some of them only."""


def pyplot() -> Any:
    """matplotlib.pyplot, or an error that says which extra to install."""
    try:
        import matplotlib.pyplot as plt  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "plotting") from None
    return plt


def plot_estimate(
    estimate: Estimate, ax: Any = None, *, truth: Any = None, confidence: float = 0.95, title: str | None = None
) -> Any:
    """Draw the shares as bars with their intervals, and the truth as marks where it is given; returns the axes."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=(max(4.0, min(12.0, 1.2 + 0.5 * len(estimate.labels))), 3.6), layout="constrained")
    places = np.arange(len(estimate.labels))
    low, high = 100 * estimate.interval(confidence).T
    shares = 100 * estimate.proportions
    ax.bar(places, shares, width=0.7, color=_ESTIMATE, alpha=0.55, label="estimate")
    # Around its own middle: an interval need not be centred on the share, nor hold one that lies below 0.
    middle, reach = (low + high) / 2, (high - low) / 2
    ax.errorbar(places, middle, yerr=reach, fmt="none", ecolor=_ESTIMATE, capsize=3, label=f"{100 * confidence:g} % interval")
    if truth is not None:
        true_shares = np.asarray(truth, dtype=np.float64)
        if true_shares.shape != shares.shape:
            raise ParameterError("truth", true_shares.shape, f"must hold {len(shares)} shares, one a label")
        ax.plot(places, 100 * true_shares, "D", color=_TRUTH, markersize=5, label="truth")
    ax.axhline(0, color="0.4", linewidth=0.8)
    name_ticks(ax, estimate.labels, "x")
    ax.set_ylabel("share of the population (%)")
    ax.set_title(title or f"{estimate.n:,} reports, epsilon {estimate.epsilon:.3g}", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8)
    return ax


def plot_table(table: Table, ax: Any = None, *, title: str | None = None) -> Any:
    """Draw a table of two axes as a heat map, each cell with its share and ± of 95 %; returns the axes."""
    if len(table.axes) != 2:
        raise ParameterError("table", table.axes, "must have two axes to be drawn: take a marginal() of two")
    plt = pyplot()
    rows, columns = table.shape
    if ax is None:
        _, ax = plt.subplots(figsize=(1.6 + 0.95 * columns, 1.4 + 0.5 * rows), layout="constrained")
    shares = 100 * table.proportions
    image = ax.imshow(shares, cmap="Blues", aspect="auto", vmin=min(0.0, float(shares.min())))
    reach = 100 * (table.interval(0.95)[..., 1] - table.proportions)
    dark = (shares.max() + min(0.0, shares.min())) / 2
    if shares.size <= 200:
        for row in range(rows):
            for column in range(columns):
                text = f"{shares[row, column]:.1f}\n± {reach[row, column]:.1f}"
                colour = "white" if shares[row, column] > dark else "black"
                ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    ax.set_xlabel(table.axes[1])
    ax.set_ylabel(table.axes[0])
    name_ticks(ax, table.labels[1], "x")
    name_ticks(ax, table.labels[0], "y")
    ax.set_title(title or f"{table.n:,} reports, epsilon {table.epsilon:.3g} a person", fontsize=10)
    ax.figure.colorbar(image, ax=ax, label="share (%)")
    return ax


def draw_survey(estimates: Mapping[str, Estimate], tables: Sequence[Table] = ()) -> Any:
    """One figure with a panel a column and a panel a table of two axes."""
    drawable = [table for table in tables if len(table.axes) == 2]
    panels = len(estimates) + len(drawable)
    figure, axes = pyplot().subplots(panels, 1, figsize=(8, 3.6 * panels), layout="constrained", squeeze=False)
    for ax, (name, estimate) in zip(axes[:, 0], estimates.items(), strict=False):
        plot_estimate(estimate, ax, title=f"{name}: {estimate.n:,} reports, epsilon {estimate.epsilon:.3g}")
    for ax, table in zip(axes[len(estimates) :, 0], drawable, strict=True):
        plot_table(table, ax)
    return figure


def name_ticks(ax: Any, labels: Sequence[Any], axis: str) -> None:
    """Write the labels along an axis, some of them only where there are many."""
    step = -(-len(labels) // _MOST_NAMED)
    places = range(0, len(labels), step)
    names = [str(labels[place]) for place in places]
    if axis == "y":
        ax.set_yticks(places, names)
        return
    slanted = sum(map(len, names)) > 60
    ax.set_xticks(places, names, rotation=40 if slanted else 0, ha="right" if slanted else "center")
