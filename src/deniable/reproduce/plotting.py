"""Plots of the experiments: lines with error bars, the paper's points as crosses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["Series", "bare", "one_plot", "paper_points", "plot_lines"]


@dataclass(frozen=True)
class Series:
    """A line of a plot; dashed ones are theory."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "-"
    error: Sequence[float] | None = None
    """The standard error of each point."""


def plot_lines(
    ax: Any,
    series: Sequence[Series],
    x: str,
    y: str,
    *,
    title: str = "",
    log: str = "",
    legend: bool = True,
) -> None:
    """Lines with markers and error bars, dashed ones without; `log` names the axes with a
    logarithmic scale."""
    for place, line in enumerate(series):
        theory = line.style in {"--", ":"}
        # Lines that coincide stay visible: each is thinner than the one below it, theory on top.
        ax.errorbar(
            line.x,
            line.y,
            line.error,
            fmt=line.style,
            marker="" if theory else "os^Dv<>p*h"[place % 10],
            markersize=3.5,
            markerfacecolor="none" if place % 2 else None,
            linewidth=1.1 if theory else max(2.2 - 0.2 * place, 1.0),
            elinewidth=0.8,
            capsize=2,
            label=line.name or None,
            color="0.25" if theory else None,
            zorder=4 if theory else 2,
        )
    if "x" in log:
        ax.set_xscale("log")
    if "y" in log:
        ax.set_yscale("log")
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    if title:
        ax.set_title(title, fontsize=9)
    bare(ax)
    if legend and sum(bool(line.name) for line in series) > 1:
        ax.legend(fontsize=8, frameon=False)


def paper_points(ax: Any, x: Sequence[float], y: Sequence[float], name: str = "paper") -> None:
    """What the paper prints, as crosses."""
    ax.plot(x, y, "x", color="0.1", markersize=6, zorder=5, label=name)
    ax.legend(fontsize=8, frameon=False)


def bare(*axes: Any) -> None:
    """Axes without a frame above and on the right."""
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)


def one_plot(lines: Sequence[Series], x: str, y: str, log: str = "") -> Callable[[Any], None]:
    """A picture of one plot."""

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, x, y, log=log)

    return draw
