"""Galanis (2021), chapter 3: histograms under a trusted curator."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.curator import Curator
from deniable.numerics import boundary
from deniable.release.guarantee import Guarantee
from deniable.reproduce.experiment import (
    Claim,
    Compared,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
    plot_lines,
)
from deniable.reproduce.papers.galanis import PAPER, Floats

__all__ = ["EXPERIMENTS"]


def _salaries(context: Context, n: int) -> Floats:
    return np.clip(context.random(8).normal(52_000, 22_000, n), 1_000, 299_000)


_BINS = tuple(float(edge) for edge in np.linspace(0, 300_000, 20)[1:])
"""As in the thesis: 19 edges, 18 bins."""


def _inside(values: Floats) -> Floats:
    """Salaries within the bins: a curator counts others in the first and last bin, NumPy not at
    all."""
    return values[(values >= _BINS[0]) & (values < _BINS[-1])]


def _histogram_errors(values: Floats, epsilon: float, runs: int) -> tuple[Floats, Floats]:
    """Euclidean and Kantorovich distances between noisy and true counts, one per run."""
    truth = np.histogram(values, _BINS)[0]
    curator = Curator({"salary": _inside(values)}, budget=runs * epsilon * 1.01)
    noise = np.array(
        [
            np.asarray(curator.histogram("salary", epsilon=epsilon, bins=list(_BINS)).counts())
            - truth
            for _ in range(runs)
        ]
    )
    return np.sqrt((noise**2).sum(axis=1)), np.abs(np.cumsum(noise, axis=1)[:, :-1]).sum(axis=1)


def _noise_variance(epsilon: float) -> float:
    return 1 / (2 * math.sinh(epsilon / 2) ** 2)


def _figure_3_4(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    values = _salaries(context, settings.rows)
    # the epsilon at which the printed Euclidean error is the expected one
    low = boundary(
        lambda x: math.sqrt(18 * _noise_variance(x)) > settings.euclidean,
        10.0,
        0.01,
        tolerance=1e-6,
    )
    euclidean, kantorovich = _histogram_errors(values, low, settings.runs)
    findings = (
        Compared(
            f"Euclidean error at epsilon {low:.2f}, which the thesis does not print",
            settings.euclidean,
            float(euclidean.mean()),
            4 * float(euclidean.std()) / math.sqrt(settings.runs) + 0.5,
        ),
        Compared(
            f"Kantorovich error at epsilon {low:.2f} (one run; its standard deviation is the"
            " tolerance, twice)",
            settings.kantorovich,
            float(kantorovich.mean()),
            2 * float(kantorovich.std()),
        ),
        Claim(
            "Fewer than 20 of 13,000 people end up in a wrong bin",
            float(euclidean.mean()) < 20,
            f"{euclidean.mean():.1f}",
        ),
    )
    curator = Curator({"salary": _inside(values)}, budget=10)
    noisy = np.asarray(curator.histogram("salary", epsilon=low, bins=list(_BINS)).counts())
    truth = np.histogram(values, _BINS)[0]
    rows = tuple(
        (f"{a:,.0f}-{b:,.0f}", int(t), float(x))
        for a, b, t, x in zip(_BINS[:-1], _BINS[1:], truth, noisy, strict=True)
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.bar(np.arange(18) - 0.2, truth, 0.4, color="0.8", label="true")
        ax.bar(np.arange(18) + 0.2, noisy, 0.4, label="private")
        ax.set_xticks(np.arange(18)[::3], [f"{edge / 1000:.0f}k" for edge in _BINS[:-1][::3]])
        ax.set_xlabel("salary from")
        ax.set_ylabel("people")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    return ExperimentOutcome(findings, ("bin", "true", "private"), rows, draw)


def _figures_3_5(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    values = _salaries(context, settings.rows)
    steps = sum(math.sqrt(2 / math.pi * j) for j in range(1, 18))
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        euclidean, kantorovich = _histogram_errors(values, epsilon, settings.runs)
        spread = math.sqrt(_noise_variance(epsilon))
        rows.append(
            (
                epsilon,
                float(euclidean.mean()),
                math.sqrt(18) * spread,
                float(kantorovich.mean()),
                steps * spread,
            )
        )
        context.done((place + 1) / len(settings.epsilons))
    ratio = max(max(abs(row[1] / row[2] - 1), abs(row[3] / row[4] - 1)) for row in rows)
    findings = (
        Claim(
            "Both errors fall with epsilon as the noise does: by theory, 1/epsilon",
            ratio < 0.25 + 2 / math.sqrt(settings.runs),
            f"largest deviation from the noise's law {100 * ratio:.0f} %; a histogram's sensitivity"
            " is 1, whatever its bins",
        ),
    )
    x = [row[0] for row in rows]

    def draw(figure: Any) -> None:
        left, right = figure.subplots(1, 2)
        for ax, column, name in ((left, 1, "Euclidean error"), (right, 3, "Kantorovich error")):
            lines = [
                Series("ours", x, [row[column] for row in rows]),
                Series("theory", x, [row[column + 1] for row in rows], "--"),
            ]
            plot_lines(ax, lines, "epsilon", name, log="xy")

    return ExperimentOutcome(
        findings,
        ("epsilon", "Euclidean", "theory", "Kantorovich", "theory of K."),
        tuple(rows),
        draw,
    )


def _figure_3_9(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    random = context.random()
    spread = 1.1
    pay = np.minimum(
        random.lognormal(math.log(settings.mean) - spread**2 / 2, spread, settings.rows), 30e6
    )
    # The generalisation is public: each salary becomes the midpoint of its range.
    cell = (pay // settings.width).astype(np.int64)
    middle = (np.arange(cell.max() + 1) + 0.5) * settings.width
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        guarantee = Guarantee.of(epsilon, 1 / settings.rows)
        means, lost = [], []
        for run in range(settings.runs):
            kept = guarantee.keep(settings.rows, context.source(100 * place + run))
            counts = np.bincount(cell[kept], minlength=middle.size)
            counts[counts < guarantee.k] = 0
            means.append(float((counts * middle).sum() / max(counts.sum(), 1)))
            lost.append(1 - counts.sum() / max(kept.sum(), 1))
        error = float(np.abs(np.array(means) - pay.mean()).mean())
        rows.append(
            (
                epsilon,
                guarantee.k,
                float(guarantee.sampling),
                error,
                100 * error / pay.mean(),
                100 * float(np.mean(lost)),
            )
        )
        context.done((place + 1) / len(settings.epsilons))
    first, last = rows[0], rows[-1]
    findings = (
        Claim(
            "The error falls with epsilon where epsilon is small, and then levels out",
            first[4] > last[4],
            f"{first[4]:.1f} % at epsilon {first[0]}, {last[4]:.1f} % at {last[0]}",
            "a larger epsilon needs a larger k, and so suppresses more of the high salaries",
        ),
        Claim(
            "The error is suppression: rows that are rare, here the highest salaries, are missing"
            " from the mean",
            all(row[5] > 0 for row in rows),
            f"{min(row[5] for row in rows):.1f} to {max(row[5] for row in rows):.1f} % of sampled"
            " rows; the thesis: nearly 10 %",
        ),
    )
    lines = [Series("", [row[0] for row in rows], [row[4] for row in rows])]

    def draw(figure: Any) -> None:
        plot_lines(
            figure.subplots(), lines, "epsilon", "mean absolute error of the mean salary (%)"
        )

    header = ("epsilon", "k", "sampling", "error $", "error %", "suppressed %")
    return ExperimentOutcome(findings, header, tuple(rows), draw)


EXPERIMENTS = (
    Experiment(
        "galanis-figure-3.4",
        PAPER,
        "Figure 3.4: histogram of salaries",
        _figure_3_4,
        {"rows": 13_000, "euclidean": 14.81, "kantorovich": 91.63, "runs": 100},
        {"runs": 30},
    ),
    Experiment(
        "galanis-figure-3.5",
        PAPER,
        "Figures 3.5 and 3.6: histogram errors by epsilon",
        _figures_3_5,
        {"rows": 13_000, "epsilons": (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), "runs": 100},
        {"epsilons": (0.1, 0.4, 1.0), "runs": 20},
    ),
    Experiment(
        "galanis-figure-3.9",
        PAPER,
        "Figure 3.9: mean of an anonymised dataset",
        _figure_3_9,
        {
            "rows": 12_377,
            "mean": 2_868_981.32,
            "width": 500_000.0,
            "epsilons": (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6),
            "runs": 100,
        },
        {"epsilons": (0.2, 1.0, 1.6), "runs": 10},
    ),
)
