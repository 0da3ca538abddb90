"""Galanis (2021), chapter 3: histograms under a trusted curator."""

from __future__ import annotations

import itertools
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
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.papers.galanis import PAPER, Floats
from deniable.reproduce.plotting import Series, bare, paper_points, plot_lines
from deniable.reproduce.verdicts import printed_number

__all__ = ["EXPERIMENTS"]


def _salaries(context: Context, n: int) -> Floats:
    return np.clip(context.random(8).normal(52_000, 22_000, n), 1_000, 299_000)


_BINS = tuple(float(edge) for edge in np.linspace(0, 300_000, 20)[1:])
"""As in the thesis: 19 edges, 18 bins."""


def _inside(values: Floats) -> Floats:
    """Salaries within the bins: a curator counts others in the first and last bin, NumPy not at
    all."""
    return values[(values >= _BINS[0]) & (values < _BINS[-1])]


def _histogram_errors(values: Floats, epsilon: float, trials: int) -> tuple[Floats, Floats]:
    """Euclidean and Kantorovich distances between noisy and true counts, one per trial."""
    truth = np.histogram(values, _BINS)[0]
    curator = Curator({"salary": _inside(values)}, budget=trials * epsilon * 1.01)
    noise = np.array(
        [
            np.asarray(curator.histogram("salary", epsilon=epsilon, bins=list(_BINS)).counts())
            - truth
            for _ in range(trials)
        ]
    )
    return np.sqrt((noise**2).sum(axis=1)), np.abs(np.cumsum(noise, axis=1)[:, :-1]).sum(axis=1)


def _noise_variance(epsilon: float) -> float:
    return 1 / (2 * math.sinh(epsilon / 2) ** 2)


def _figure_3_4(settings: SimpleNamespace, context: Context) -> Measured:
    values = _salaries(context, settings.rows)
    # the epsilon at which the printed Euclidean error is the expected one
    low = boundary(
        lambda x: math.sqrt(18 * _noise_variance(x)) > settings.euclidean_error,
        10.0,
        0.01,
        tolerance=1e-6,
    )
    euclidean, kantorovich = _histogram_errors(values, low, settings.trials)
    curator = Curator({"salary": _inside(values)}, budget=10)
    noisy = np.asarray(curator.histogram("salary", epsilon=low, bins=list(_BINS)).counts())
    truth = np.histogram(values, _BINS)[0]
    rows = tuple(
        (f"{a:,.0f}-{b:,.0f}", int(t), float(x))
        for a, b, t, x in zip(_BINS[:-1], _BINS[1:], truth, noisy, strict=True)
    )
    figures = {"epsilon": low}
    for name, errors in (("euclidean", euclidean), ("kantorovich", kantorovich)):
        figures |= {f"{name} mean": float(errors.mean()), f"{name} sd": float(errors.std(ddof=1))}
    return Measured(("bin", "true", "private"), rows, figures)


def _judge_3_4(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    figures = measured.figures
    root = math.sqrt(settings.trials)
    at = f"at epsilon {figures['epsilon']:.2f}"
    wrong = figures["euclidean mean"]
    return (
        Compared(
            f"Euclidean error {at}, which the thesis does not print and we chose for it",
            printed["euclidean"],
            figures["euclidean mean"],
            figures["euclidean sd"] / root,
            figures["euclidean sd"],
            fitted=True,
        ),
        Compared(
            f"Kantorovich error {at}",
            printed["kantorovich"],
            figures["kantorovich mean"],
            figures["kantorovich sd"] / root,
            figures["kantorovich sd"],
            note="one trial of the thesis, whose standard deviation is its standard error: it"
            " decides little",
        ),
        Claim(
            "Fewer than 20 of 13,000 people end up in a wrong bin",
            wrong + 3 * figures["euclidean sd"] / root < 20,
            f"{wrong:.1f} {at}",
        ),
    )


def _draw_3_4(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    ax = figure.subplots()
    places = np.arange(len(measured.rows))
    spread = math.sqrt(_noise_variance(measured.figures["epsilon"]))
    ax.bar(places - 0.2, measured.column("true"), 0.4, color="0.8", label="true")
    private = measured.column("private")
    ax.bar(places + 0.2, private, 0.4, yerr=spread, label="private ± standard deviation")
    ax.set_xticks(places[::3], [f"{edge / 1000:.0f}k" for edge in _BINS[:-1][::3]])
    ax.set_xlabel("salary from")
    ax.set_ylabel("people")
    ax.legend(fontsize=8, frameon=False)
    bare(ax)


def _figures_3_5(settings: SimpleNamespace, context: Context) -> Measured:
    values = _salaries(context, settings.rows)
    steps = sum(math.sqrt(2 / math.pi * j) for j in range(1, 18))
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        euclidean, kantorovich = _histogram_errors(values, epsilon, settings.trials)
        spread = math.sqrt(_noise_variance(epsilon))
        rows.append(
            (
                epsilon,
                float(euclidean.mean()),
                float(euclidean.std(ddof=1)) / math.sqrt(settings.trials),
                math.sqrt(18) * spread,
                float(kantorovich.mean()),
                float(kantorovich.std(ddof=1)) / math.sqrt(settings.trials),
                steps * spread,
            )
        )
        context.done((place + 1) / len(settings.epsilons))
    header = (
        "epsilon",
        "Euclidean",
        "stderr",
        "theory",
        "Kantorovich",
        "stderr of K.",
        "theory of K.",
    )
    return Measured(header, tuple(rows))


def _judge_3_5(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    falls = all(
        later[place] < earlier[place]
        for earlier, later in itertools.pairwise(rows)
        for place in (1, 4)
    )
    # Theory is that of normal noise: the root of a sum of squares is a little below the root of its
    # expectation, and sums of Laplace numbers are not quite normal.
    ratio = max(
        (abs(row[i] - row[i + 2]) - 4 * row[i + 1]) / row[i + 2] for row in rows for i in (1, 4)
    )
    return (
        Claim("Both errors fall as epsilon grows", falls, f"over {len(rows)} values of epsilon"),
        Claim(
            "They fall as the noise does: by theory, 1/epsilon",
            ratio < 0.1,
            f"beyond 4 standard errors at most {100 * max(ratio, 0):.0f} % from theory; a"
            " histogram's sensitivity is 1, whatever its bins",
        ),
    )


def _draw_3_5(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    left, right = figure.subplots(1, 2)
    for ax, i, name in ((left, 1, "Euclidean error"), (right, 4, "Kantorovich error")):
        lines = [
            Series("ours", x, [row[i] for row in rows], error=[row[i + 1] for row in rows]),
            Series("theory", x, [row[i + 2] for row in rows], "--"),
        ]
        plot_lines(ax, lines, "epsilon", name, log="xy")


def _figure_3_9(settings: SimpleNamespace, context: Context) -> Measured:
    random = context.random()
    spread = 1.1
    pay = np.minimum(
        random.lognormal(math.log(settings.mean) - spread**2 / 2, spread, settings.rows), 30e6
    )
    # The generalisation is public: each salary falls into a range, and stands there for the middle
    # of the range or, as in the thesis's hierarchy, for the mean of the range.
    cell = (pay // settings.width).astype(np.int64)
    counted = np.bincount(cell)
    middle = (np.arange(counted.size) + 0.5) * settings.width
    means = np.where(counted, np.bincount(cell, pay) / np.maximum(counted, 1), middle)
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        guarantee = Guarantee.of(epsilon, 1 / settings.rows)
        found: list[tuple[float, float, float]] = []
        for trial in range(settings.trials):
            kept = guarantee.keep(settings.rows, context.source(100 * place + trial))
            counts = np.bincount(cell[kept], minlength=middle.size)
            sampled = max(int(counts.sum()), 1)
            # Rows in ranges with fewer than k are not released one by one; one range above the
            # highest that is kept holds them all, with its own public representative value.
            rare = counts < guarantee.k
            released = np.where(rare, 0, counts)
            pooled = int(counts[rare].sum())
            value = float((means * counted)[rare].sum() / max(counted[rare].sum(), 1))
            usable = (released * means).sum() + (pooled * value if pooled >= guarantee.k else 0)
            total = released.sum() + (pooled if pooled >= guarantee.k else 0)
            found.append(
                (
                    float((released * means).sum() / max(released.sum(), 1)),
                    float(usable / max(total, 1)),
                    1 - float(released.sum()) / sampled,
                )
            )
        thesis, ours, lost = np.array(found).T
        truth = pay.mean()
        errors = [np.abs(each - truth) / truth for each in (thesis, ours)]
        rows.append(
            (
                epsilon,
                guarantee.k,
                float(guarantee.sampling),
                *(
                    100 * float(part)
                    for each in errors
                    for part in (each.mean(), each.std(ddof=1) / math.sqrt(settings.trials))
                ),
                100 * float(lost.mean()),
            )
        )
        context.done((place + 1) / len(settings.epsilons))
    header = (
        "epsilon",
        "k",
        "sampling",
        "error %",
        "stderr",
        "error with a pooled class %",
        "stderr with a pooled class",
        "suppressed %",
    )
    return Measured(header, tuple(rows))


def _judge_3_9(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    below = [row for row in rows if row[0] <= 0.8]
    above = [row for row in rows if row[0] >= 0.8]
    falls = below[0][3] - below[-1][3] > 3 * math.hypot(below[0][4], below[-1][4])
    levels = [row[3] for row in above]
    flat = max(levels) - min(levels) < 0.25 * abs(below[0][3] - below[-1][3])
    one = next(row for row in rows if row[0] == 1.0)
    true, private = (printed_number(printed[name])[0] for name in ("true mean", "private mean"))
    theirs = 100 * abs(private / true - 1)
    lost = [row[7] for row in rows]
    return (
        Claim(
            "The error falls with epsilon below 0.8",
            falls,
            ", ".join(f"{row[0]:g}: {row[3]:.1f} %" for row in below),
            "a larger epsilon needs a larger k, and so suppresses more of the high salaries",
        ),
        Claim(
            "It levels out above 0.8: it changes by less than a quarter of what it fell by",
            flat,
            ", ".join(f"{row[0]:g}: {row[3]:.1f} %" for row in above),
            "it goes on changing with k, which grows with epsilon",
        ),
        Claim(
            "Table 3.6: at epsilon 1 the released mean is off by as little as the thesis's"
            f" ({theirs:.2f} %), up to 3 standard deviations",
            one[3] - 3 * one[4] * math.sqrt(settings.trials) < theirs,
            f"{one[3]:.1f} ± {one[4]:.1f} %; {one[5]:.2f} ± {one[6]:.2f} % if rare ranges are"
            " released as one class with its mean",
            "suppressed rows are the highest salaries",
        ),
        Claim(
            "Table 3.6: with rare ranges in one class, and the mean of each class published as its"
            " representative value, the mean is usable: off by less than 5 %",
            one[5] < 5,
            f"{one[5]:.2f} ± {one[6]:.2f} %; the values come from the table, as in the thesis's"
            " hierarchy, so this is private only if they are public anyway",
        ),
        Claim(
            "The thesis suppresses nearly 10 % of the rows each time; ours, between 5 and 15 %",
            min(lost) > 5 and max(lost) < 15,
            f"{min(lost):.1f} to {max(lost):.1f} % of sampled rows",
            "ours are drawn from a distribution, with a public grid of ranges",
        ),
    )


def _draw_3_9(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    lines = [
        Series("rare ranges suppressed", x, [r[3] for r in rows], error=[r[4] for r in rows]),
        Series("rare ranges pooled", x, [r[5] for r in rows], error=[r[6] for r in rows]),
    ]
    ax = figure.subplots()
    plot_lines(ax, lines, "epsilon", "mean absolute error of the mean salary (%)")
    true, private = (printed_number(printed[name])[0] for name in ("true mean", "private mean"))
    paper_points(ax, [1.0], [100 * abs(private / true - 1)], "Table 3.6")


EXPERIMENTS = (
    Experiment(
        "galanis-figure-3.4",
        PAPER,
        "Figure 3.4: histogram of salaries",
        _figure_3_4,
        _judge_3_4,
        _draw_3_4,
        {"rows": 13_000, "euclidean_error": 14.81, "trials": 100},
        {"trials": 30},
        {"euclidean": "14.81", "kantorovich": "91.63"},
        seeded=False,
    ),
    Experiment(
        "galanis-figure-3.5",
        PAPER,
        "Figures 3.5 and 3.6: histogram errors by epsilon",
        _figures_3_5,
        _judge_3_5,
        _draw_3_5,
        {"rows": 13_000, "epsilons": (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), "trials": 100},
        {"epsilons": (0.1, 0.4, 1.0), "trials": 20},
        seeded=False,
    ),
    Experiment(
        "galanis-figure-3.9",
        PAPER,
        "Figure 3.9 and Table 3.6: mean of an anonymised dataset",
        _figure_3_9,
        _judge_3_9,
        _draw_3_9,
        {
            "rows": 12_377,
            "mean": 2_868_981.32,
            "width": 500_000.0,
            "epsilons": (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6),
            "trials": 100,
        },
        {"epsilons": (0.2, 0.8, 1.0, 1.6), "trials": 10},
        {"true mean": "2868981.32", "private mean": "2860215.6"},
    ),
)
