"""Galanis 2021, chapter 3: a curator's answers and an anonymised dataset.

The thesis uses diffprivlib and ARX on public tables; ours are drawn from distributions with the
printed means. There, a mean's sensitivity is (upper - lower)/n, so the number of rows is public:
"replace-one" neighbours.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.curator import Curator
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
    plot_lines,
)

__all__ = ["EXPERIMENTS"]

PAPER = "Galanis 2021"
Floats = NDArray[np.float64]


def _surgeries(context: Context, n: int) -> Floats:
    """Log-normal charges with the printed mean and the square root of the printed variance."""
    spread = math.log1p(262_754_253.1 / 13_168.5**2)
    return np.minimum(
        context.random(7).lognormal(math.log(13_168.5) - spread / 2, math.sqrt(spread), n), 1e6
    )


def _mean_errors(values: Floats, epsilon: float, runs: int) -> float:
    curator = Curator({"charge": values}, budget=runs * epsilon * 1.01, neighbours="replace-one")
    answers = [
        curator.mean("charge", epsilon=epsilon, bounds=(0, 1_000_000)).value for _ in range(runs)
    ]
    return float(np.abs(np.array(answers) - values.mean()).mean())


def _table_3_2(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    values = _surgeries(context, settings.rows)
    curator = Curator({"charge": values}, budget=4 * settings.epsilon, neighbours="replace-one")
    truth = {
        "mean": values.mean(),
        "sum": values.sum(),
        "variance": values.var(),
        "std": values.std(),
    }
    rows = []
    for name, exact in truth.items():
        found = getattr(curator, name)("charge", epsilon=settings.epsilon, bounds=(0, 1_000_000))
        rows.append((name, float(exact), float(found.value), float(found.stderr)))
    mean, total, variance, deviation = settings.printed
    findings = (
        Claim(
            "The printed sum is the printed mean times 200,000 entries",
            abs(mean * settings.rows / total - 1) < 0.01,
            f"{mean * settings.rows:,.0f} beside {total:,.1f}",
            "the sum's row repeats the variance's number",
        ),
        Claim(
            "The printed standard deviation is the root of the printed variance",
            abs(math.sqrt(variance) / deviation - 1) < 0.01,
            f"{math.sqrt(variance):,.1f} beside {deviation:,.1f}",
            "the two rows cannot both be right",
        ),
        Claim(
            "A mean of 200,000 charges is off by a few dollars: by (upper - lower)/(n epsilon) on"
            " average",
            abs(rows[0][2] - rows[0][1]) < 12 * 1e6 / settings.rows / settings.epsilon,
            f"off by {abs(rows[0][2] - rows[0][1]):.2f}; expected"
            f" {1e6 / settings.rows / settings.epsilon:.1f}, printed 1.2",
        ),
        Claim(
            "Each answer lies within 6 of its standard errors of the truth",
            all(abs(row[2] - row[1]) < 6 * row[3] for row in rows if math.isfinite(row[3])),
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.bar([row[0] for row in rows], [100 * row[3] / row[1] for row in rows])
        ax.set_ylabel("standard error (% of the true answer)")
        ax.spines[["top", "right"]].set_visible(False)

    return ExperimentOutcome(
        findings, ("query", "true answer", "private answer", "standard error"), tuple(rows), draw
    )


def _figure_3_1(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    values = _surgeries(context, max(settings.sizes))
    rows = []
    for place, n in enumerate(settings.sizes):
        for epsilon in settings.epsilons:
            rows.append(
                (epsilon, n, _mean_errors(values[:n], epsilon, settings.runs), 1e6 / n / epsilon)
            )
        context.done((place + 1) / len(settings.sizes))
    reach = 4 / math.sqrt(settings.runs)
    at = next(row for row in rows if row[:2] == (1.0, 1000))
    findings = (
        Claim(
            "The error is (upper - lower)/(n epsilon): larger for small epsilon and small tables",
            all(abs(row[2] / row[3] - 1) < reach for row in rows),
            f"{len(rows)} points within four standard errors of {settings.runs} runs",
        ),
        Claim(
            "It is near 0 from 1,000 entries on, at epsilon 1",
            at[3] < 0.1 * float(values.mean()),
            f"expected {at[3]:,.0f} of {values.mean():,.0f} dollars",
        ),
    )
    lines = [
        Series(f"epsilon {e}", settings.sizes, [row[2] for row in rows if row[0] == e])
        for e in settings.epsilons
    ]
    lines += [
        Series(
            "theory" if i == 0 else "", settings.sizes, [1e6 / n / e for n in settings.sizes], "--"
        )
        for i, e in enumerate(settings.epsilons)
    ]

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        plot_lines(
            ax, lines, "entries", "mean absolute error of the mean ($)", log="xy", legend=False
        )
        handles, names = ax.get_legend_handles_labels()
        shown = [(handle, name) for handle, name in zip(handles, names, strict=True) if name]
        ax.legend(*zip(*shown, strict=True), fontsize=8, frameon=False)

    return ExperimentOutcome(findings, ("epsilon", "entries", "error", "theory"), tuple(rows), draw)


def _figure_3_2(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    values = _surgeries(context, settings.rows)
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        rows.append(
            (epsilon, _mean_errors(values, epsilon, settings.runs), 1e6 / settings.rows / epsilon)
        )
        context.done((place + 1) / len(settings.epsilons))
    reach = 4 / math.sqrt(settings.runs)
    findings = (
        Claim(
            "The error follows the Laplace mechanism's, sensitivity/epsilon, at every epsilon",
            all(abs(row[1] / row[2] - 1) < reach for row in rows),
            ", ".join(f"{row[0]:g}: {row[1]:.1f} ({row[2]:.1f})" for row in rows),
        ),
    )
    x = [row[0] for row in rows]
    lines = [
        Series("ours", x, [row[1] for row in rows]),
        Series("sensitivity/epsilon", x, [row[2] for row in rows], "--"),
    ]

    def draw(figure: Any) -> None:
        plot_lines(
            figure.subplots(), lines, "epsilon", "mean absolute error of the mean ($)", log="xy"
        )

    return ExperimentOutcome(findings, ("epsilon", "error", "theory"), tuple(rows), draw)


EXPERIMENTS = (
    Experiment(
        "galanis-table-3.2",
        PAPER,
        "Table 3.2: queries to a curator",
        _table_3_2,
        {
            "rows": 200_000,
            "epsilon": 1.0,
            "printed": (13_168.5, 262_754_253.1, 262_754_253.1, 18_855.1),
        },
    ),
    Experiment(
        "galanis-figure-3.1",
        PAPER,
        "Figure 3.1: error by size of the table",
        _figure_3_1,
        {
            "sizes": (10, 20, 50, 100, 200, 500, 1000, 2000),
            "epsilons": (0.1, 0.3, 0.5, 1.0),
            "runs": 100,
        },
        {"sizes": (10, 100, 1000), "epsilons": (0.1, 1.0), "runs": 25},
    ),
    Experiment(
        "galanis-figure-3.2",
        PAPER,
        "Figure 3.2: error by epsilon",
        _figure_3_2,
        {"rows": 200_000, "epsilons": (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0), "runs": 100},
        {"rows": 20_000, "epsilons": (0.1, 1.0), "runs": 25},
    ),
)
