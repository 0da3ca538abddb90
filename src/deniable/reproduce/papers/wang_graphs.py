"""Wang, Wu and Hu (2016): triangles and degrees of a social network."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from deniable.graphs import compare_graph
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    ExperimentOutcome,
    Series,
    plot_lines,
)
from deniable.reproduce.papers.wang import PAPER, social_network

__all__ = ["EXPERIMENTS"]


_METHODS = {
    "response": "RR",
    "laplace-local": "LM",
    "curator-global": "LM-global (curator)",
    "curator-smooth": "LM-smooth (curator)",
}


def _triangle_claims(rows: Sequence[tuple[float, ...]]) -> tuple[Claim, ...]:
    ahead = [row[0] for row in rows if row[1] < min(row[3], row[4])]
    return (
        Claim(
            "Randomized response is ahead of Laplace noise on pairs at every epsilon",
            all(row[1] < row[2] for row in rows),
        ),
        Claim(
            "Both are ahead of a curator's noise by global or smooth sensitivity",
            all(max(row[1], row[2]) < min(row[3], row[4]) for row in rows),
            f"randomized response at {len(ahead)} of {len(rows)} epsilons, from"
            f" {min(ahead, default=float('nan')):g}",
            "where epsilon is small, the cube of the noise of a pair exceeds the curator's noise",
        ),
        Claim(
            "Randomized response has the smallest error of all from epsilon 1 on",
            all(row[1] < min(row[2:]) for row in rows if row[0] >= 1),
            "at epsilon 1:"
            f" {', '.join(f'{value:,.0f}' for value in next(row for row in rows if row[0] == 1)[1:])}",
        ),
    )


def _degree_claims(rows: Sequence[tuple[float, ...]]) -> tuple[Claim, ...]:
    return (
        Claim(
            "Randomized response is ahead of Laplace noise on pairs at every epsilon",
            all(row[1] < row[2] for row in rows),
        ),
        Claim(
            "A curator's noise, with a sensitivity of 2, is ahead of both",
            all(row[3] < min(row[1], row[2]) for row in rows),
        ),
    )


def _graph(settings: SimpleNamespace, context: Context, triangles: bool) -> ExperimentOutcome:
    graph = social_network(context, settings.nodes, settings.edges)
    found = compare_graph(
        graph,
        list(settings.epsilons),
        trials=settings.trials,
        source=context.source(),
        progress=context.done,
    )
    by = {
        (each.method, each.epsilon): each.node_triangles if triangles else each.degrees
        for each in found
    }
    rows = tuple(
        (epsilon, *(by[method, epsilon] for method in _METHODS)) for epsilon in settings.epsilons
    )
    findings = _triangle_claims(rows) if triangles else _degree_claims(rows)
    shown = list(_METHODS.values()) if triangles else list(_METHODS.values())[:3]
    lines = [
        Series(name, settings.epsilons, [row[1 + i] for row in rows])
        for i, name in enumerate(shown)
    ]
    what = "triangles" if triangles else "degree"

    def draw(figure: Any) -> None:
        plot_lines(
            figure.subplots(), lines, "epsilon", f"mean absolute error of a node's {what}", log="y"
        )

    return ExperimentOutcome(findings, ("epsilon", *_METHODS.values()), rows, draw)


def _figure_5(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    return _graph(settings, context, triangles=False)


def _figure_6(settings: SimpleNamespace, context: Context) -> ExperimentOutcome:
    return _graph(settings, context, triangles=True)


_NETWORK = {"nodes": 185, "edges": 684, "epsilons": (0.5, 1.0, 2.0, 3.0, 4.0, 5.0), "trials": 20}

EXPERIMENTS = (
    Experiment(
        "wang-figure-5",
        PAPER,
        "Figure 5: degrees of a graph",
        _figure_5,
        _NETWORK,
        {"trials": 3, "epsilons": (0.5, 1.0, 3.0)},
    ),
    Experiment(
        "wang-figure-6",
        PAPER,
        "Figure 6: triangles of a graph",
        _figure_6,
        _NETWORK,
        {"trials": 3, "epsilons": (0.5, 1.0, 3.0)},
    ),
)
