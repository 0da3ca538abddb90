"""Wang, Wu and Hu 2016: randomized response compared with Laplace noise, on proportions, derived
statistics and a graph.

The YesiWell data are not public: 248 people with six levels of LDL and three of total cholesterol,
and a network of 185 people and 684 interactions, are drawn from simple distributions of that size.
The paper prints curves; what it says about them is tested.
"""

from __future__ import annotations

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
    ExperimentOutcome,
    Series,
    plot_lines,
)

__all__ = ["EXPERIMENTS", "patients", "social_network"]

PAPER = "Wang, Wu and Hu 2016"
_Ints = NDArray[np.int64]
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


def _figure_1(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    ldl, _ = patients(context, settings.people)
    truth = np.bincount(ldl, minlength=6) / ldl.size
    found = {}
    for salt, (name, kind) in enumerate(_KINDS.items()):
        mechanism = kind(6, settings.epsilon)
        estimates = [
            mechanism.estimate(r).proportions
            for r in _counts(mechanism, ldl, settings.trials, context, salt)
        ]
        found[name] = (np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1), estimates[0])
    response, laplace = found.values()
    findings = (
        Claim(
            "Randomized response has the smaller standard deviation at each level",
            bool((response[1] < laplace[1]).all()),
            f"{100 * response[1].mean():.1f} beside {100 * laplace[1].mean():.1f} points on"
            " average",
        ),
        Claim(
            "Both are unbiased: means over all trials lie within 4 standard errors of the truth",
            all(
                bool((np.abs(m - truth) < 4 * s / np.sqrt(settings.trials)).all())
                for m, s, _ in found.values()
            ),
        ),
    )
    rows = tuple(
        (level + 1, truth[level], *(float(part[level]) for each in found.values() for part in each))
        for level in range(6)
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        places = np.arange(6)
        ax.bar(places - 0.27, 100 * truth, 0.25, color="0.8", label="truth")
        for shift, (name, (_, spread, one)) in zip((0, 0.27), found.items(), strict=True):
            ax.bar(
                places + shift,
                100 * one,
                0.25,
                yerr=100 * spread,
                label=name,
                error_kw={"linewidth": 1},
            )
        ax.set_xticks(places, [f"level {i}" for i in range(1, 7)])
        ax.set_ylabel("people (%); one trial ± standard deviation")
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    header = (
        "level",
        "truth",
        "response mean",
        "response sd",
        "response once",
        "laplace mean",
        "laplace sd",
        "laplace once",
    )
    return ExperimentOutcome(findings, header, rows, draw)


def _figure_2(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    ldl, _ = patients(context, settings.people)
    truth = np.bincount(ldl, minlength=6) / ldl.size
    rows = []
    for epsilon in settings.epsilons:
        errors = proportion_errors(6, epsilon, settings.people, truth)
        rows.append((epsilon, *errors.means))
    ratios = [row[2] / row[1] for row in rows]
    low, high = min(ratios), max(ratios)
    findings = (
        Claim(
            "Randomized response has the smaller mean squared error at every epsilon",
            low > 1,
            f"{low:.1f} to {high:.0f} times",
        ),
        Claim(
            "It is two to three orders of magnitude lower",
            low >= 100,
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
    lines = [
        Series(name, settings.epsilons, [row[1 + i] for row in rows])
        for i, name in enumerate(_KINDS)
    ]

    def draw(figure: Any) -> None:
        plot_lines(
            figure.subplots(), lines, "epsilon", "mean squared error of a proportion", log="y"
        )

    return ExperimentOutcome(findings, ("epsilon", "response", "laplace"), tuple(rows), draw)


def _derived(settings: SimpleNamespace, context: Context, chi: bool) -> ExperimentOutcome:
    ldl, total = patients(context, settings.people)
    rows = []
    for place, epsilon in enumerate(settings.epsilons):
        row: list[float] = [epsilon]
        for salt, kind in enumerate(_KINDS.values()):
            first, second = kind(6, epsilon), kind(3, epsilon)
            reports = _counts(first, ldl, settings.trials, context, 10 * place + salt)
            if chi:
                others = _counts(second, total, settings.trials, context, 1000 + 10 * place + salt)
                tables = (
                    joint({"ldl": first, "tc": second}, {"ldl": a, "tc": b})
                    for a, b in zip(reports, others, strict=True)
                )
                values = [statistics.chi_square(table).value for table in tables]
            else:
                values = [statistics.entropy(first.estimate(each)).value for each in reports]
            row += _centre(values, chi)
        rows.append(tuple(row))
        context.done((place + 1) / len(settings.epsilons))
    if chi:
        table = np.zeros((6, 3))
        np.add.at(table, (ldl, total), 1)
        expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
        truth = float(((table - expected) ** 2 / np.maximum(expected, 1e-12)).sum())
    else:
        shares = np.bincount(ldl, minlength=6) / ldl.size
        truth = -float((shares[shares > 0] * np.log2(shares[shares > 0])).sum())
    name = "chi-square" if chi else "entropy"
    errors = np.array(
        [[np.hypot(row[1] - truth, row[2]), np.hypot(row[3] - truth, row[4])] for row in rows]
    )
    closer, steadier = (
        int((errors[:, 0] < errors[:, 1]).sum()),
        int(sum(row[2] < row[4] for row in rows)),
    )
    findings = (
        Claim(
            f"The {name} by randomized response is generally closer to the true one than by Laplace"
            " (root mean squared error)",
            closer >= 0.75 * len(rows),
            f"at {closer} of {len(rows)} values of epsilon",
            "both are projected onto the simplex, where heavy noise biases both towards the same"
            " value",
        ),
        Claim(
            f"Its standard deviation is the smaller one where epsilon is {settings.clear} or more",
            all(row[2] < row[4] for row in rows if row[0] >= settings.clear),
            f"at {steadier} of {len(rows)} values of epsilon in all",
        ),
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.axhline(truth, color="0.5", linewidth=1, label="truth")
        for shift, (label, column) in zip(
            (-0.04, 0.04), zip(_KINDS, (1, 3), strict=True), strict=True
        ):
            x = [row[0] + shift for row in rows]
            ax.errorbar(
                x,
                [row[column] for row in rows],
                [row[column + 1] for row in rows],
                fmt="o-",
                markersize=3.5,
                label=label,
            )
        ax.set_xlabel("epsilon of each attribute" if chi else "epsilon")
        ax.set_ylabel(
            f"{name}: {'median ± half of the middle 68 %' if chi else 'mean ± standard deviation'}"
        )
        ax.legend(fontsize=8, frameon=False)
        ax.spines[["top", "right"]].set_visible(False)

    header = ("epsilon", "response mean", "response sd", "laplace mean", "laplace sd")
    return ExperimentOutcome(findings, header, tuple(rows), draw)


def _centre(values: list[float], chi: bool) -> list[float]:
    """Mean and standard deviation or, for chi-square, whose tail under noise is heavy, median and
    half the middle 68 %."""
    if not chi:
        return [float(np.mean(values)), float(np.std(values, ddof=1))]
    low, middle, high = np.quantile(values, [0.16, 0.5, 0.84])
    return [float(middle), float(high - low) / 2]


def _figure_3(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    return _derived(settings, context, chi=False)


def _figure_4(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    return _derived(settings, context, chi=True)


_EPSILONS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0)

EXPERIMENTS = (
    Experiment(
        "wang-figure-1",
        PAPER,
        "Figure 1: LDL levels",
        _figure_1,
        {"people": 248, "epsilon": 5.0, "trials": 1000},
        {"trials": 100},
    ),
    Experiment(
        "wang-figure-2",
        PAPER,
        "Figure 2: mean squared error",
        _figure_2,
        {"people": 248, "epsilons": _EPSILONS},
    ),
    Experiment(
        "wang-figure-3",
        PAPER,
        "Figure 3: entropy",
        _figure_3,
        {"people": 248, "epsilons": _EPSILONS, "trials": 400, "clear": 4.0},
        {"trials": 50},
    ),
    Experiment(
        "wang-figure-4",
        PAPER,
        "Figure 4: chi-square",
        _figure_4,
        {"people": 248, "epsilons": _EPSILONS, "trials": 400, "clear": 4.0},
        {"trials": 40},
    ),
)
