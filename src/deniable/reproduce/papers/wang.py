"""Wang, Wu and Hu 2016: randomized response compared with Laplace noise, on proportions, derived
statistics and a graph.

The YesiWell data are not public: 248 people with six levels of LDL and three of total cholesterol,
and a network of 185 people and 684 interactions, are drawn from simple distributions of that size.
The paper prints curves; what it says about them is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.laplace_comparison import proportion_errors
from deniable.estimation.tables import statistics
from deniable.estimation.tables.joint import joint
from deniable.graphs import Graph
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.laplace import LaplaceEncoding
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.plotting import Series, bare, plot_lines

__all__ = ["EXPERIMENTS", "patients", "social_network"]

PAPER = "Wang, Wu and Hu 2016"
_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]
_KINDS: dict[str, type[DirectEncoding] | type[LaplaceEncoding]] = {
    "randomized response": DirectEncoding,
    "Laplace": LaplaceEncoding,
}


def patients(context: Context, n: int) -> tuple[_Ints, _Ints]:
    """Levels of LDL (six) and of total cholesterol (three), correlated."""
    random = context.random()
    ldl = random.normal(size=n)
    total = 0.8 * ldl + 0.6 * random.normal(size=n)
    return np.searchsorted((-1.2, -0.5, 0.1, 0.8, 1.5), ldl), np.searchsorted((0.0, 0.9), total)


def social_network(context: Context, nodes: int, edges: int) -> Graph:
    """A graph of that size with hubs and triangles: preferential attachment with closed triads,
    trimmed to the number of edges."""
    import networkx as nx  # noqa: PLC0415 - an extra, and slow to import

    made = nx.powerlaw_cluster_graph(nodes, 4, 0.4, seed=context.seed)
    surplus = made.number_of_edges() - edges
    chosen = context.random(1).permutation(made.number_of_edges())[:surplus]
    listed = list(made.edges)
    made.remove_edges_from([listed[place] for place in chosen])
    return Graph.of(made)


def _counts(
    mechanism: Mechanism, values: _Ints, trials: int, context: Context, salt: int
) -> list[Any]:
    source = context.source(salt)
    return [mechanism.privatize(values, source) for _ in range(trials)]


def _figure_1(settings: SimpleNamespace, context: Context) -> Measured:
    ldl, _ = patients(context, settings.people)
    truth = np.bincount(ldl, minlength=6) / ldl.size
    parts: list[Any] = []
    for salt, kind in enumerate(_KINDS.values()):
        mechanism = kind(6, settings.epsilon)
        estimates = [
            mechanism.estimate(r).proportions
            for r in _counts(mechanism, ldl, settings.trials, context, salt)
        ]
        parts += [np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1), estimates[0]]
    rows = tuple(
        (level + 1, float(truth[level]), *(float(part[level]) for part in parts))
        for level in range(6)
    )
    names = (f"{who} {what}" for who in ("response", "laplace") for what in ("mean", "sd", "once"))
    return Measured(("level", "truth", *names), rows)


def _judge_1(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    means = [100 * float(np.mean([row[place] for row in rows])) for place in (3, 6)]
    deviations = [
        abs(row[place] - row[1]) / row[place + 1] * np.sqrt(settings.trials)
        for row in rows
        for place in (2, 5)
    ]
    return (
        Claim(
            "Randomized response has the smaller standard deviation at each level",
            all(row[3] < row[6] for row in rows),
            f"{means[0]:.1f} beside {means[1]:.1f} points on average",
        ),
        Claim(
            "Both are unbiased: means over all trials lie within 4 standard errors of the truth",
            max(deviations) < 4,
            f"largest deviation {max(deviations):.1f} standard errors",
        ),
    )


def _draw_1(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    ax = figure.subplots()
    places, rows = np.arange(6), measured.rows
    ax.bar(places - 0.27, [100 * row[1] for row in rows], 0.25, color="0.8", label="truth")
    for shift, (name, place) in zip((0, 0.27), zip(_KINDS, (3, 6), strict=True), strict=True):
        ax.bar(
            places + shift,
            [100 * row[place + 1] for row in rows],
            0.25,
            yerr=[100 * row[place] for row in rows],
            label=name,
            error_kw={"linewidth": 1},
        )
    ax.set_xticks(places, [f"level {i}" for i in range(1, 7)])
    ax.set_ylabel("people (%); one trial ± standard deviation")
    ax.legend(fontsize=8, frameon=False)
    bare(ax)


def _figure_2(settings: SimpleNamespace, context: Context) -> Measured:
    ldl, _ = patients(context, settings.people)
    truth = np.bincount(ldl, minlength=6) / ldl.size
    rows = [
        (epsilon, *proportion_errors(6, epsilon, settings.people, truth).means)
        for epsilon in settings.epsilons
    ]
    return Measured(("epsilon", "response", "laplace"), tuple(rows))


def _judge_2(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    ratios = [row[2] / row[1] for row in measured.rows]
    low, high = min(ratios), max(ratios)
    return (
        Claim(
            "Randomized response has the smaller mean squared error at every epsilon",
            low > 1,
            f"{low:.1f} to {high:.0f} times",
        ),
        Claim(
            "It is two to three orders of magnitude lower",
            low >= 100 and high <= 1000,
            f"{low:.1f} to {high:.0f} times over epsilon {settings.epsilons[0]} to"
            f" {settings.epsilons[-1]}",
            "exact variances; two orders are reached only where epsilon is small",
        ),
        Claim(
            "Its advantage is larger where epsilon is small",
            ratios[0] > ratios[-1],
            f"{ratios[0]:.0f} beside {ratios[-1]:.1f} times",
        ),
    )


def _draw_2(figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed) -> None:
    lines = [
        Series(name, settings.epsilons, [row[1 + i] for row in measured.rows])
        for i, name in enumerate(_KINDS)
    ]
    plot_lines(figure.subplots(), lines, "epsilon", "mean squared error of a proportion", log="y")


def _entropy(table: _Floats) -> float:
    """Equation 25 at the paper's estimate, equation 17: a level whose estimate is not positive has
    no logarithm and adds nothing."""
    kept = table[table > 0]
    return -float((kept * np.log2(kept)).sum())


def _chi_square(table: _Floats, n: int) -> float:
    """Equation 26 at the paper's estimate, equation 23, whatever its signs."""
    expected = np.outer(table.sum(axis=1), table.sum(axis=0))
    return n * float(((table - expected) ** 2 / expected).sum())


def _inverted(mechanisms: Sequence[Any], reports: Sequence[Any]) -> _Floats:
    """P^-1 lambda, without projection: lambda are the proportions of the reports."""
    sizes = tuple(len(mechanism.channel()) for mechanism in mechanisms)
    table = np.zeros(sizes)
    np.add.at(
        table, tuple(np.asarray(each.data).reshape(-1).astype(np.int64) for each in reports), 1
    )
    table /= table.sum()
    for axis, mechanism in enumerate(mechanisms):
        inverse = np.linalg.inv(mechanism.channel())
        table = np.moveaxis(np.tensordot(inverse, table, axes=(1, axis)), 0, axis)
    return table


def _derived(settings: SimpleNamespace, context: Context, chi: bool) -> Measured:
    ldl, total = patients(context, settings.people)
    columns = (ldl, total) if chi else (ldl,)
    table = np.zeros((6, 3) if chi else 6)
    np.add.at(table, columns, 1 / ldl.size)
    truth = _chi_square(table, ldl.size) if chi else _entropy(table)
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        row: list[float] = [epsilon]
        projected: list[float] = []
        for salt, kind in enumerate(_KINDS.values()):
            mechanisms = [kind(size, epsilon) for size in ((6, 3) if chi else (6,))]
            reports = [
                _counts(mechanism, column, settings.trials, context, 1000 * i + 10 * place + salt)
                for i, (mechanism, column) in enumerate(zip(mechanisms, columns, strict=True))
            ]
            trials = list(zip(*reports, strict=True))
            plain = [_inverted(mechanisms, trial) for trial in trials]
            row += _centre([_chi_square(t, ldl.size) if chi else _entropy(t) for t in plain], truth)
            projected += _centre([_projected(mechanisms, trial, chi) for trial in trials], truth)
        rows.append((*row, *projected))
        context.done((place + 1) / len(settings.epsilons))
    names = (
        f"{who} {what}{how}"
        for how in ("", " projected")
        for who in ("response", "laplace")
        for what in ("median", "spread", "distance")
    )
    return Measured(("epsilon", *names), tuple(rows), {"truth": truth})


def _projected(mechanisms: Sequence[Any], reports: Sequence[Any], chi: bool) -> float:
    """This library's estimate, which projects onto the simplex."""
    if chi:
        named = dict(zip(("ldl", "tc"), mechanisms, strict=True))
        return statistics.chi_square(joint(named, dict(zip(named, reports, strict=True)))).value
    return statistics.entropy(mechanisms[0].estimate(reports[0])).value


def _judge_derived(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    closer = sum(row[3] < row[6] for row in rows)
    steadier = sum(row[2] < row[5] for row in rows)
    ours = sum(row[9] < row[12] for row in rows), sum(row[8] < row[11] for row in rows)
    name, count = settings.statistic, len(rows)
    return (
        Claim(
            f"The {name} by randomized response is generally closer to the true one than by Laplace"
            " noise (median distance, as the paper estimates)",
            closer >= 0.75 * count,
            f"at {closer} of {count} values of epsilon; projected onto the simplex, as this library"
            f" does, at {ours[0]}",
            "where epsilon is small, both are far off",
        ),
        Claim(
            "It has the smaller spread (half of the middle 68 %)",
            steadier == count,
            f"at {steadier} of {count} values of epsilon; projected, at {ours[1]}",
            "where epsilon is small, levels without a positive estimate drop out, and both vary"
            " little",
        ),
    )


def _draw_derived(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    truth = measured.figures["truth"]
    axes = figure.subplots(1, 2)
    for ax, first, title in zip(
        axes, (1, 7), ("P^-1 lambda, as the paper", "projected"), strict=True
    ):
        ax.axhline(truth, color="0.5", linewidth=1, label="truth")
        for shift, (label, place) in zip(
            (-0.04, 0.04), zip(_KINDS, (first, first + 3), strict=True), strict=True
        ):
            ax.errorbar(
                [row[0] + shift for row in measured.rows],
                [row[place] for row in measured.rows],
                [row[place + 1] for row in measured.rows],
                fmt="o-",
                markersize=3.5,
                linewidth=1,
                label=label,
            )
        ax.set_title(title, fontsize=9)
        ax.set_xlabel("epsilon of each attribute")
        ax.legend(fontsize=8, frameon=False)
        bare(ax)
    if settings.statistic == "chi-square":
        axes[0].set_yscale("symlog", linthresh=100)
    axes[0].set_ylabel(f"{settings.statistic}: median ± half of the middle 68 %")


def _centre(values: list[float], truth: float) -> list[float]:
    """Median, half the middle 68 %, median distance from the truth: the tails under noise are
    heavy, without a mean where a margin's estimate may be 0."""
    low, middle, high = np.quantile(values, [0.16, 0.5, 0.84])
    distance = float(np.median(np.abs(np.array(values) - truth)))
    return [float(middle), float(high - low) / 2, distance]


def _figure_3(settings: SimpleNamespace, context: Context) -> Measured:
    return _derived(settings, context, chi=False)


def _figure_4(settings: SimpleNamespace, context: Context) -> Measured:
    return _derived(settings, context, chi=True)


_EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)

EXPERIMENTS = (
    Experiment(
        "wang-figure-1",
        PAPER,
        "Figure 1: LDL levels",
        _figure_1,
        _judge_1,
        _draw_1,
        {"people": 248, "epsilon": 5.0, "trials": 1000},
        {"trials": 100},
    ),
    Experiment(
        "wang-figure-2",
        PAPER,
        "Figure 2: mean squared error",
        _figure_2,
        _judge_2,
        _draw_2,
        {"people": 248, "epsilons": _EPSILONS},
    ),
    Experiment(
        "wang-figure-3",
        PAPER,
        "Figure 3: entropy",
        _figure_3,
        _judge_derived,
        _draw_derived,
        {"people": 248, "epsilons": _EPSILONS, "trials": 400, "statistic": "entropy"},
        {"trials": 50},
    ),
    Experiment(
        "wang-figure-4",
        PAPER,
        "Figure 4: chi-square",
        _figure_4,
        _judge_derived,
        _draw_derived,
        {"people": 248, "epsilons": _EPSILONS, "trials": 400, "statistic": "chi-square"},
        {"trials": 40},
    ),
)
