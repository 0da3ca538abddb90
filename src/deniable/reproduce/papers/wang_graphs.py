"""Wang, Wu and Hu (2016): triangles and degrees of a social network."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from deniable.graphs import EdgeResponse, Graph, compare_graph
from deniable.graphs.baselines import triangles_per_node
from deniable.graphs.synthetic import synthetic_graph
from deniable.randomness import Source
from deniable.reproduce.experiment import (
    Claim,
    Context,
    Experiment,
    Finding,
    Measured,
    Printed,
)
from deniable.reproduce.papers.wang import PAPER, social_network
from deniable.reproduce.plotting import Series, plot_lines

__all__ = ["EXPERIMENTS"]


_METHODS = {
    "response": "RR unbiased",
    "laplace-local": "LM unbiased",
    "curator-global": "LM-global (curator)",
    "curator-smooth": "LM-smooth (curator)",
}


def _errors(
    graph: Graph, response: EdgeResponse, source: Source, trials: int
) -> tuple[list[float], list[float]]:
    """Mean absolute errors of degrees and triangles per node, one per trial, in a graph
    reconstructed as the paper does: with exactly as many edges as the true one."""
    degrees, triangles = [], []
    truth = triangles_per_node(graph)
    for _ in range(trials):
        built = synthetic_graph(response.privatize(graph, source), source, edges=len(graph.edges))
        degrees.append(float(np.abs(built.degrees - graph.degrees).mean()))
        triangles.append(float(np.abs(triangles_per_node(built) - truth).mean()))
    return degrees, triangles


def _graph(settings: SimpleNamespace, context: Context, triangles: bool) -> Measured:
    graph, source = social_network(context, settings.nodes, settings.edges), context.source(7)
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
    rows = []
    for epsilon in settings.epsilons:
        row: list[float] = [epsilon]
        for response in (EdgeResponse(epsilon), EdgeResponse.laplace(epsilon)):
            errors = _errors(graph, response, source, settings.trials)[triangles]
            row += [float(np.mean(errors)), float(np.std(errors, ddof=1)) / len(errors) ** 0.5]
        row += [by[method, epsilon] or 0.0 for method in _METHODS]
        rows.append(tuple(row))
    header = ("epsilon", "RR", "RR stderr", "LM", "LM stderr", *_METHODS.values())
    return Measured(header, tuple(rows))


def _judge_degrees(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    return (
        _ahead(rows),
        Claim(
            "A curator's noise, with a sensitivity of 2, is ahead of both",
            all(row[7] < min(row[1], row[3]) for row in rows),
            _line(rows[-1], 7),
        ),
    )


def _judge_triangles(
    settings: SimpleNamespace, measured: Measured, printed: Printed
) -> tuple[Finding, ...]:
    rows = measured.rows
    both = sum(max(row[1], row[3]) < min(row[7], row[8]) for row in rows)
    best = sum(
        row[1] < min(row[7], row[8]) and row[1] < row[3] + 3 * np.hypot(row[2], row[4])
        for row in rows
    )
    return (
        _ahead(rows),
        Claim(
            "Both are ahead of a curator's noise by global or smooth sensitivity",
            both == len(rows),
            f"at {both} of {len(rows)} epsilons; {_line(rows[0], 7, 8)}",
        ),
        Claim(
            "Randomized response has the smallest error of all",
            best == len(rows),
            f"at {best} of {len(rows)} epsilons, up to 3 standard errors; {_line(rows[-1], 7, 8)}",
        ),
    )


def _ahead(rows: Sequence[tuple[float, ...]]) -> Claim:
    margin = [(row[3] - row[1]) / np.hypot(row[2], row[4]) for row in rows]
    unbiased = sum(row[5] < row[6] for row in rows)
    return Claim(
        "Randomized response is ahead of Laplace noise on pairs at every epsilon, in a graph"
        " reconstructed with 2m entries",
        min(margin) > -3 and sum(margin) > 0,
        f"smallest lead {min(margin):.1f} standard errors; {_line(rows[-1])}; unbiased as here, at"
        f" {unbiased} of {len(rows)}",
    )


def _line(row: tuple[float, ...], *curators: int) -> str:
    names = ("global", "smooth")
    more = "".join(
        f", {name} {row[place]:,.4g}" for name, place in zip(names, curators, strict=False)
    )
    return f"epsilon {row[0]:g}: RR {row[1]:,.4g}, LM {row[3]:,.4g}{more}"


def _draw(figure: Any, measured: Measured, what: str, shown: int) -> None:
    rows = measured.rows
    x = [row[0] for row in rows]
    lines = [
        Series("RR", x, [r[1] for r in rows], error=[r[2] for r in rows]),
        Series("LM", x, [r[3] for r in rows], error=[r[4] for r in rows]),
        *(
            Series(name, x, [row[5 + place] for row in rows])
            for place, name in list(enumerate(_METHODS.values()))[:shown]
        ),
    ]
    plot_lines(
        figure.subplots(), lines, "epsilon", f"mean absolute error of a node's {what}", log="y"
    )


def _draw_degrees(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    _draw(figure, measured, "degree", 3)


def _draw_triangles(
    figure: Any, settings: SimpleNamespace, measured: Measured, printed: Printed
) -> None:
    _draw(figure, measured, "triangles", 4)


def _figure_5(settings: SimpleNamespace, context: Context) -> Measured:
    return _graph(settings, context, triangles=False)


def _figure_6(settings: SimpleNamespace, context: Context) -> Measured:
    return _graph(settings, context, triangles=True)


_NETWORK = {"nodes": 185, "edges": 684, "epsilons": (0.5, 1.0, 2.0, 3.0, 4.0, 5.0), "trials": 20}

EXPERIMENTS = (
    Experiment(
        "wang-figure-5",
        PAPER,
        "Figure 5: degrees of a graph",
        _figure_5,
        _judge_degrees,
        _draw_degrees,
        _NETWORK,
        {"trials": 3, "epsilons": (0.5, 1.0, 3.0)},
    ),
    Experiment(
        "wang-figure-6",
        PAPER,
        "Figure 6: triangles of a graph",
        _figure_6,
        _judge_triangles,
        _draw_triangles,
        _NETWORK,
        {"trials": 3, "epsilons": (0.5, 1.0, 3.0)},
    ),
)
