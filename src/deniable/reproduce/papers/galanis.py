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
    Compared,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.plotting import Series, bare, plot_lines
from deniable.reproduce.verdicts import printed_number

__all__ = ["EXPERIMENTS"]

PAPER = "Galanis 2021"
Floats = NDArray[np.float64]


def _surgeries(context: Context, n: int) -> Floats:
    """Log-normal charges with the printed mean and the square root of the printed variance."""
    spread = math.log1p(262_754_253.1 / 13_168.5**2)
    return np.minimum(
        context.random(7).lognormal(math.log(13_168.5) - spread / 2, math.sqrt(spread), n), 1e6
    )


def _mean_errors(values: Floats, epsilon: float, trials: int) -> float:
    curator = Curator({"charge": values}, budget=trials * epsilon * 1.01, neighbours="replace-one")
    answers = [
        curator.mean("charge", epsilon=epsilon, bounds=(0, 1_000_000)).value for _ in range(trials)
    ]
    return float(np.abs(np.array(answers) - values.mean()).mean())


def _table_3_2(settings: SimpleNamespace, context: Context) -> Measured:
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
    header = ("query", "true answer", "private answer", "standard error")
    return Measured(header, tuple(rows))


def _judge_3_2_table(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    theirs = {name: printed_number(text)[0] for name, text in printed.items()}
    by = {row[0]: row for row in measured.rows}
    findings: list[Finding] = []
    for name, _, _, stderr in measured.rows:
        true, private = theirs[f"{name} true"], theirs[f"{name} private"]
        findings.append(
            Claim(
                f"The printed private {name} lies within 4 of our standard errors of the printed"
                " true one",
                abs(private - true) < 4 * stderr if math.isfinite(stderr) else None,
                f"off by {abs(private - true):,.1f}; standard error {stderr:,.1f}",
                "with the same bounds and epsilon, noise alone does not explain it",
            )
        )
    mean, total = theirs["mean true"], theirs["sum true"]
    variance, deviation = theirs["variance true"], theirs["std true"]
    off = max(abs(row[2] - row[1]) / row[3] for row in measured.rows if math.isfinite(row[3]))
    return (
        *findings,
        Compared("mean of the synthetic charges", printed["mean true"], by["mean"][1], fitted=True),
        Claim(
            f"The printed sum is the printed mean times {settings.rows:,} entries",
            abs(mean * settings.rows / total - 1) < 0.01,
            f"{mean * settings.rows:,.0f} beside {total:,.1f}",
            "the sum's row repeats the variance's number",
        ),
        Claim(
            "The printed standard deviation is the root of the printed variance",
            abs(math.sqrt(abs(variance)) / deviation - 1) < 0.01,
            f"{math.sqrt(abs(variance)):,.1f} beside {deviation:,.1f}",
            "the two rows cannot both be right",
        ),
        Claim(
            "Each of our private answers lies within 6 of its standard errors of the truth",
            off < 6,
            f"largest deviation {off:.1f} standard errors",
        ),
    )


def _draw_3_2_table(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    ax = figure.subplots()
    ax.bar(measured.column("query"), [100 * row[3] / row[1] for row in measured.rows])
    ax.set_ylabel("standard error (% of the true answer)")
    bare(ax)


def _figure_3_1(settings: SimpleNamespace, context: Context) -> Measured:
    values = _surgeries(context, max(settings.sizes))
    rows = []
    for place, n in enumerate(settings.sizes):
        for epsilon in settings.epsilons:
            rows.append(
                (epsilon, n, _mean_errors(values[:n], epsilon, settings.trials), 1e6 / n / epsilon)
            )
        context.done((place + 1) / len(settings.sizes))
    figures = {"mean": float(values.mean())}
    return Measured(("epsilon", "entries", "error", "theory"), tuple(rows), figures)


def _judge_3_1(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    # the mean of |x| has a relative standard error of 1/sqrt(trials) for Laplace noise
    reach = 4 / math.sqrt(settings.trials)
    mean = measured.figures["mean"]
    small = next(row for row in rows if row[:2] == (1.0, 1000))
    return (
        Claim(
            "The error is (upper - lower)/(n epsilon): larger for small epsilon and small tables",
            all(abs(row[2] / row[3] - 1) < reach for row in rows),
            f"{len(rows)} points within four standard errors of {settings.trials} trials",
        ),
        Claim(
            "It is near 0 from 1,000 entries on, at epsilon 1: below a tenth of the mean",
            small[2] < 0.1 * mean,
            f"{small[2]:,.0f} of {mean:,.0f} dollars",
        ),
    )


def _draw_3_1(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    lines = [
        Series(
            f"epsilon {epsilon}",
            settings.sizes,
            [row[2] for row in rows if row[0] == epsilon],
            error=[row[2] / math.sqrt(settings.trials) for row in rows if row[0] == epsilon],
        )
        for epsilon in settings.epsilons
    ]
    lines += [
        Series(
            "theory" if i == 0 else "",
            settings.sizes,
            [row[3] for row in rows if row[0] == epsilon],
            "--",
        )
        for i, epsilon in enumerate(settings.epsilons)
    ]
    plot_lines(figure.subplots(), lines, "entries", "mean absolute error of the mean ($)", log="xy")


def _figure_3_2(settings: SimpleNamespace, context: Context) -> Measured:
    values = _surgeries(context, settings.rows)
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        rows.append(
            (epsilon, _mean_errors(values, epsilon, settings.trials), 1e6 / settings.rows / epsilon)
        )
        context.done((place + 1) / len(settings.epsilons))
    return Measured(("epsilon", "error", "theory"), tuple(rows))


def _judge_3_2(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    reach = 4 / math.sqrt(settings.trials)
    return (
        Claim(
            "The error follows the Laplace mechanism's, sensitivity/epsilon, at every epsilon",
            all(abs(row[1] / row[2] - 1) < reach for row in rows),
            ", ".join(f"{row[0]:g}: {row[1]:.1f} ({row[2]:.1f})" for row in rows),
        ),
    )


def _draw_3_2(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    errors = [row[1] / math.sqrt(settings.trials) for row in rows]
    lines = [
        Series("ours", x, [row[1] for row in rows], error=errors),
        Series("sensitivity/epsilon", x, [row[2] for row in rows], "--"),
    ]
    ax = figure.subplots()
    plot_lines(ax, lines, "epsilon", "mean absolute error of the mean ($)", log="xy")


EXPERIMENTS = (
    Experiment(
        "galanis-table-3.2",
        PAPER,
        "Table 3.2: queries to a curator",
        _table_3_2,
        _judge_3_2_table,
        _draw_3_2_table,
        {"rows": 200_000, "epsilon": 1.0},
        printed={
            "mean true": "13168.5",
            "mean private": "13167.3",
            "sum true": "262754253.1",
            "sum private": "262935459.3",
            "variance true": "262754253.1",
            "variance private": "261940796.5",
            "std true": "18855.1",
            "std private": "25825.0",
        },
        seeded=False,
    ),
    Experiment(
        "galanis-figure-3.1",
        PAPER,
        "Figure 3.1: error by size of the table",
        _figure_3_1,
        _judge_3_1,
        _draw_3_1,
        {
            "sizes": (10, 20, 50, 100, 200, 500, 1000, 2000),
            "epsilons": (0.1, 0.3, 0.5, 1.0),
            "trials": 100,
        },
        {"sizes": (10, 100, 1000), "epsilons": (0.1, 1.0), "trials": 25},
        seeded=False,
    ),
    Experiment(
        "galanis-figure-3.2",
        PAPER,
        "Figure 3.2: error by epsilon",
        _figure_3_2,
        _judge_3_2,
        _draw_3_2,
        {"rows": 200_000, "epsilons": (0.05, 0.1, 0.2, 0.5, 1.0, 1.5, 2.0), "trials": 100},
        {"rows": 20_000, "epsilons": (0.1, 1.0), "trials": 25},
        seeded=False,
    ),
)
