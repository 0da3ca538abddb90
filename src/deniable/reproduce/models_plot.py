"""The plot of a comparison of models. Needs the extra `plot`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.display import pyplot
from deniable.estimation.plots import name_ticks

if TYPE_CHECKING:
    from deniable.reproduce.model_comparison import ModelComparison

__all__ = ["draw_models"]

_COLOURS = {"local": "#c8553d", "curator": "#2a6f97", "release": "#5b8e55"}


def draw_models(comparison: ModelComparison) -> Any:
    """One figure: an estimate of each model with its intervals and the truth, and the error of each
    label on a log scale."""
    k = len(comparison.labels)
    figure, (shares, errors) = pyplot().subplots(
        1, 2, figsize=(max(8.0, min(16.0, 4.5 + 0.9 * k)), 4.2), layout="constrained"
    )  # fmt: skip
    places = np.arange(k)
    shares.bar(places, 100 * comparison.truth, width=0.85, color="0.88", label="truth")
    for shift, model in zip((-0.25, 0.0, 0.25), comparison.models, strict=True):
        colour = _COLOURS[model.model]
        low, high = 100 * model.estimate.interval(0.95).T
        shares.vlines(places + shift, low, high, color=colour, linewidth=2, alpha=0.6)
        shares.plot(
            places + shift,
            100 * model.estimate.proportions,
            "o",
            color=colour,
            markersize=4,
            label=model.model,
        )
        errors.plot(
            places + shift, 100 * model.measured, "o", color=colour, markersize=5, label=model.model
        )
        errors.plot(
            places + shift,
            100 * model.theory,
            "_",
            color=colour,
            markersize=13,
            markeredgewidth=1.6,
        )
    errors.plot([], [], "_", color="0.3", markersize=13, markeredgewidth=1.6, label="theory")
    shares.axhline(0, color="0.4", linewidth=0.8)
    shares.set_ylabel("share of the people (%)")
    shares.set_title("one estimate of each model, 95 % intervals", fontsize=10)
    errors.set_yscale("log")
    errors.yaxis.set_major_formatter("{x:g}")
    errors.set_ylabel("error (percentage points)")
    errors.set_title(f"root mean squared error over {comparison.trials} trials", fontsize=10)
    for ax in (shares, errors):
        name_ticks(ax, comparison.labels, "x")
        ax.set_xlabel(comparison.column)
        ax.spines[["top", "right"]].set_visible(False)
    figure.suptitle(
        f"{comparison.n:,} people, epsilon {comparison.epsilon:.3g}, {comparison.neighbours}"
        " neighbours",
        fontsize=11,
    )
    # Both legends are below, where there are no points.
    handles, names = shares.get_legend_handles_labels()
    mark, name = errors.get_legend_handles_labels()
    figure.legend(
        [*handles, mark[-1]],
        [*names, name[-1]],
        loc="outside lower center",
        ncols=5,
        frameon=False,
        fontsize=9,
    )
    return figure
