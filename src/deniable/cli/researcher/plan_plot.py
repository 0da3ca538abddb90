"""The trade-off curve of a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from deniable.errors import MissingExtraError, ParameterError
from deniable.mechanisms.designs.text import in_words
from deniable.planning import Plan, trade_off

__all__ = ["draw"]

_FACTORS = np.geomspace(1 / 6, 6, 41).tolist()
_LABELS = {
    "proportion": "smallest detectable proportion (%)",
    "population": "people needed",
    "error": "± at a proportion of {proportion:.3g} % (percentage points)",
}
_ENDINGS = (".png", ".svg", ".pdf")


def draw(made: Plan, path: Path) -> None:
    """Write two panels, for smaller and larger budgets: what can be detected, and the local
    epsilon."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "--plot") from None
    if path.suffix.lower() not in _ENDINGS:
        raise ParameterError("plot", str(path), f"must end in {', '.join(_ENDINGS)}")
    sampled_budget = made.request.spares == "sampled"
    curve = [other for _, other in trade_off(made, _FACTORS)]
    kind = made.solved_for if made.solved_for in ("proportion", "population") else "error"

    def budget(other: Plan) -> float:
        return other.epsilon_sampled if sampled_budget else other.epsilon_local

    def seen(other: Plan) -> float:
        return {
            "proportion": 100 * other.smallest_proportion,
            "population": float(other.population),
            "error": 100 * other.margin,
        }[kind]

    figure = Figure(figsize=(9, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    x = [budget(other) for other in curve]
    left.plot(x, [seen(other) for other in curve], color="#1f5a8a")
    left.plot([budget(made)], [seen(made)], "o", color="#c2410c")
    left.set_ylabel(_LABELS[kind].format(proportion=100 * made.proportion))
    right.plot(
        x,
        [other.epsilon_local for other in curve],
        color="#1f5a8a",
        label="local: anyone who sees who answers",
    )
    right.plot(
        x,
        [other.epsilon_sampled for other in curve],
        "--",
        color="#64748b",
        label="sampled: anyone who cannot",
    )
    right.plot([budget(made)], [made.epsilon_local], "o", color="#c2410c", label="this plan")
    right.set_ylabel("epsilon of one answer")
    name = "sampled" if sampled_budget else "local"
    for axes in (left, right):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(f"{name} epsilon of one answer")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.7g}"))
            axis.set_minor_formatter(NullFormatter())
        axes.grid(visible=True, alpha=0.3)
    # outside, where no curve passes; the plan is the same point in both panels
    figure.legend(
        *right.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
    )
    figure.suptitle(f"{in_words(type(made.mechanism).__name__)}, {made.population:,} people")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ParameterError("plot", str(path), f"cannot be written: {error.strerror}") from None
