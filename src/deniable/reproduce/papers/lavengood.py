"""Lavengood 2017: parameters that detect the smallest proportions, and queries with one and two
columns through SQL."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from deniable.planning.grid import lavengood_grid
from deniable.planning.precision import ExpectedSpread
from deniable.privacy.response import (
    bit_epsilon,
    zero_knowledge_epsilon,
)
from deniable.reproduce.experiment import (
    Claim,
    Compared,
    Context,
    Experiment,
    ExperimentOutcome,
    Finding,
    Series,
    plot_lines,
)

__all__ = ["EXPERIMENTS"]

PAPER = "Lavengood 2017"
ZK_NOTE = "the thesis adds 1 within the logarithm of the zero-knowledge formula"
_BETTER_NOTE = (
    "the parameters found keep the loss and the CV and show a smaller proportion: the printed one"
    " is not the smallest"
)


def cv(share: float, n: float, s: float, p: float, q: float) -> float:
    b = (1 - p) * q
    return ExpectedSpread.of_pair(p + b, b).stderr(share, s * n) / share


def _table_6_1(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    findings: list[Finding] = []
    rows = []
    for place, (size, five, ten) in enumerate(settings.printed):
        for cv, printed in ((0.05, five), (0.1, ten)):
            found = lavengood_grid(settings.epsilon, size, cv)
            best = lavengood_grid(settings.epsilon, size, cv, step=None)
            rows.append(
                (
                    size,
                    cv,
                    printed,
                    100 * found.smallest_proportion,
                    100 * best.smallest_proportion,
                    found.sampling,
                    found.p,
                    found.q,
                )
            )
            findings.append(
                Compared(
                    f"N = {size:,}, CV {100 * cv:g} %, in %",
                    printed,
                    100 * found.smallest_proportion,
                    0.0051,
                    _BETTER_NOTE,
                )
            )
        context.done((place + 1) / len(settings.printed))
    findings.append(
        Claim(
            "Comparing proportions exactly, not in steps of 0.001, shows none that is larger",
            all(row[4] <= row[3] + 1e-12 for row in rows),
            f"largest gain {max(100 * (1 - row[4] / row[3]) for row in rows):.1f} %",
        )
    )
    sizes = [size for size, *_ in settings.printed]
    lines = [
        Series(f"CV {100 * cv:g} %", sizes, [row[3] for row in rows if row[1] == cv])
        for cv in (0.05, 0.1)
    ]

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        plot_lines(ax, lines, "sample size", "smallest proportion (%)", log="xy")
        ax.plot(
            [row[0] for row in rows], [row[2] for row in rows], "x", color="0.3", label="printed"
        )
        ax.legend(fontsize=8, frameon=False)

    header = ("N", "CV", "paper %", "ours %", "compared exactly %", "s", "p", "q")
    return ExperimentOutcome(tuple(findings), header, tuple(rows), draw)


def _figure_6_1(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        for cv in (0.05, 0.1):
            found = lavengood_grid(epsilon, settings.n, cv)
            zero = (
                zero_knowledge_epsilon(bit_epsilon(found.p, found.q), found.sampling)
                if found.sampling < 1
                else math.inf
            )
            rows.append(
                (
                    epsilon,
                    cv,
                    found.sampling,
                    found.p,
                    found.q,
                    100 * found.smallest_proportion,
                    zero,
                    math.log1p(math.exp(zero)),
                )
            )
        context.done((place + 1) / len(settings.epsilons))
    at = {(row[0], row[1]): row for row in rows}
    first, last = at[settings.epsilons[0], 0.05], at[settings.epsilons[-1], 0.05]
    findings = (
        Compared("smallest proportion at epsilon 1, CV 5 %, in %", 1.2, at[1.0, 0.05][5], 0.05),
        Compared("smallest proportion at epsilon 1, CV 10 %, in %", 0.6, at[1.0, 0.1][5], 0.05),
        Compared("zero-knowledge epsilon at epsilon 0.1", 0.8, first[6], 0.06, ZK_NOTE, first[7]),
        Compared("zero-knowledge epsilon at epsilon 2", 2.7, last[6], 0.06, ZK_NOTE, last[7]),
    )

    def draw(figure: Any) -> None:
        axes = figure.subplots(1, 3)
        for cv, style in ((0.05, "-"), (0.1, "--")):
            mine = [row for row in rows if row[1] == cv]
            x = [row[0] for row in mine]
            for column, name in ((2, "s"), (3, "p"), (4, "q")):
                axes[0].plot(
                    x,
                    [row[column] for row in mine],
                    style,
                    color=f"C{column}",
                    label=name if cv == 0.05 else None,
                )
            axes[1].plot(x, [row[5] for row in mine], style, color="C0", label=f"CV {100 * cv:g} %")
            axes[2].plot(x, [row[6] for row in mine], style, color="C0")
        for ax, label in zip(
            axes,
            ("best parameter", "smallest proportion (%)", "zero-knowledge epsilon"),
            strict=True,
        ):
            ax.set_xlabel("epsilon")
            ax.set_ylabel(label)
            ax.spines[["top", "right"]].set_visible(False)
        axes[1].set_yscale("log")
        axes[0].legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(0.0, 0.75))
        axes[1].legend(fontsize=7, frameon=False)

    header = (
        "epsilon",
        "CV",
        "s",
        "p",
        "q",
        "proportion %",
        "epsilon zk",
        "epsilon zk by the thesis",
    )
    return ExperimentOutcome(findings, header, tuple(rows), draw)


def _figure_6_2(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    rows = []
    for place, size in enumerate(settings.sizes):
        found = lavengood_grid(settings.epsilon, size, 0.05)
        naive = 100 * cv(found.smallest_proportion, size, 0.5, 0.5, 0.5)
        optimised = 100 * cv(found.smallest_proportion, size, found.sampling, found.p, found.q)
        rows.append((size, 100 * found.smallest_proportion, optimised, naive))
        context.done((place + 1) / len(settings.sizes))
    findings = (
        Compared("largest CV with s = p = q = 0.5, in %", 5.6, max(row[3] for row in rows), 0.05),
        Claim(
            "Best parameters are ahead of s = p = q = 0.5 at every size, modestly",
            all(row[2] <= row[3] for row in rows) and max(row[3] for row in rows) < 6,
            f"{min(row[3] for row in rows):.2f} to {max(row[3] for row in rows):.2f} % beside 5 %",
        ),
    )
    lines = [
        Series("s = p = q = 0.5", settings.sizes, [row[3] for row in rows]),
        Series("best", settings.sizes, [row[2] for row in rows]),
    ]

    def draw(figure: Any) -> None:
        plot_lines(figure.subplots(), lines, "sample size", "coefficient of variation (%)", log="x")

    return ExperimentOutcome(
        findings, ("N", "proportion %", "CV best %", "CV naive %"), tuple(rows), draw
    )


_PRINTED = (
    (1_000, 83.27, 44.50),
    (5_000, 39.79, 18.90),
    (10_000, 27.39, 12.86),
    (50_000, 11.37, 5.37),
    (100_000, 7.88, 3.69),
    (500_000, 3.30, 1.60),
    (1_000_000, 2.29, 1.10),
    (5_000_000, 0.99, 0.50),
    (10_000_000, 0.70, 0.39),
)
_EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)

EXPERIMENTS = (
    Experiment(
        "lavengood-table-6.1",
        PAPER,
        "Table 6.1",
        _table_6_1,
        {"epsilon": 0.7, "printed": _PRINTED},
        {"printed": _PRINTED[1:8:3]},
    ),
    Experiment(
        "lavengood-figure-6.1",
        PAPER,
        "Figure 6.1: best parameters by epsilon",
        _figure_6_1,
        {"n": 2_000_000, "epsilons": _EPSILONS},
        {"epsilons": (0.1, 1.0, 2.0)},
    ),
    Experiment(
        "lavengood-figure-6.2",
        PAPER,
        "Figure 6.2: beside naive parameters",
        _figure_6_2,
        {"epsilon": 0.7, "sizes": tuple(row[0] for row in _PRINTED)},
        {"sizes": (1_000, 10_000, 10_000_000)},
    ),
)
