"""Pictures of estimated graphs. Needs the extra `plot`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.display import name_series, pyplot
from deniable.errors import ParameterError

if TYPE_CHECKING:
    from deniable.graphs.comparison import MethodError
    from deniable.graphs.estimate import GraphEstimate

__all__ = ["draw_comparison", "plot_degrees"]

_ESTIMATE, _TRUTH = "#2a6f97", "#c8553d"
_MOST_BARS = 400


def plot_degrees(estimate: GraphEstimate, ax: Any = None, *, truth: Any = None) -> Any:
    """Draw the degrees, largest estimate first, with 95 % intervals, the true ones where they are
    given; returns the axes."""
    if ax is None:
        _, ax = pyplot().subplots(figsize=(8, 3.6), layout="constrained")
    order = np.argsort(-estimate.degrees, kind="stable")
    # Of very many nodes, evenly chosen ones: a thousand bars are a smear.
    shown = order[
        np.unique(np.linspace(0, order.size - 1, min(order.size, _MOST_BARS)).astype(int))
    ]
    places = np.arange(shown.size)
    low, high = estimate.degree_interval()[shown].T
    ax.vlines(places, low, high, color=_ESTIMATE, alpha=0.35, linewidth=1.5, label="95 % interval")
    ax.plot(places, estimate.degrees[shown], ".", color=_ESTIMATE, markersize=4, label="estimate")
    if truth is not None:
        true = np.asarray(truth, dtype=np.float64)
        if true.shape != estimate.degrees.shape:
            raise ParameterError(
                "truth", true.shape, f"must hold {estimate.nodes} degrees, one per node"
            )
        ax.plot(places, true[shown], "D", color=_TRUTH, markersize=2.5, label="truth")
    ax.axhline(0, color="0.4", linewidth=0.8)
    of = "" if shown.size == order.size else f" ({shown.size} of {order.size:,})"
    ax.set_xlabel(f"nodes, by estimated degree{of}")
    ax.set_xticks([])
    ax.set_ylabel("degree")
    ax.set_title(
        f"{estimate.nodes:,} nodes, epsilon {estimate.epsilon:.3g} per edge, {estimate.mechanism}",
        fontsize=10,
    )
    ax.spines[["top", "right"]].set_visible(False)
    name_series(ax)
    return ax


def draw_comparison(errors: Sequence[MethodError]) -> Any:
    """One figure with a panel for degrees, one for triangles at nodes and one for their number;
    errors against epsilon."""
    panels = {
        "degrees": "degree of a node",
        "node_triangles": "triangles at a node",
        "triangles": "number of triangles",
    }
    figure, axes = pyplot().subplots(1, len(panels), figsize=(12, 3.8), layout="constrained")
    methods = list(dict.fromkeys(error.method for error in errors))
    for ax, (name, title) in zip(axes, panels.items(), strict=True):
        for place, method in enumerate(methods):
            rows = [
                (e.epsilon, getattr(e, name))
                for e in errors
                if e.method == method and getattr(e, name) is not None
            ]
            if rows:
                style = "--" if method.startswith("curator") else "-"
                ax.plot(
                    *zip(*rows, strict=True),
                    style,
                    color=f"C{place}",
                    marker="o",
                    markersize=4,
                    label=method,
                )
        ax.set_yscale("log")
        ax.set_xlabel("epsilon per edge")
        ax.set_title(title, fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("error")
    figure.legend(
        *_legend(axes), loc="outside lower center", ncols=len(methods), frameon=False, fontsize=8
    )
    return figure


def _legend(axes: Any) -> tuple[list[Any], list[str]]:
    """Every method once, though not every panel has it."""
    found = {
        name: handle
        for ax in axes
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    return list(found.values()), list(found)
