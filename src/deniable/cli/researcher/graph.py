"""`deniable graph`: collect a graph with edge privacy, estimate from the reports, and compare
methods."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deniable.checks import check_confidence
from deniable.cli.helping import group
from deniable.cli.output import (
    Rows,
    confidence_option,
    emit,
    output_options,
    progress_bar,
    save_figure,
)
from deniable.cli.tables import TextTable
from deniable.errors import GraphError
from deniable.graphs import (
    EdgeResponse,
    Graph,
    MethodError,
    TwoRoundReports,
    TwoRounds,
    compare_graph,
    plan_graph,
    read_graph,
    read_reports,
    write_edges,
    write_reports,
)
from deniable.graphs.comparison import METHODS
from deniable.graphs.estimate import GraphEstimate
from deniable.graphs.files import read_column
from deniable.graphs.statistic import GraphStatistic

__all__ = ["graph"]

_FILE = click.Path(path_type=Path)
_nodes = click.option(
    "--nodes",
    metavar="FILE|N",
    help=(
        "The roster of nodes: a file whose first column lists them, or their number if they are"
        " named 0 to N - 1."
    ),
)


@group()
def graph() -> None:
    """Learn about a graph without learning who is connected to whom."""


def _load(edges: Path, nodes: str | None) -> Graph:
    return read_graph(edges, int(nodes) if nodes is not None and nodes.isdecimal() else nodes)


@graph.command()
@click.argument("edges", type=_FILE)
@click.option("--output", "-o", type=_FILE, required=True, help="The file of reports to write.")
@click.option("--epsilon", type=float, required=True, help="The loss per edge, over all rounds.")
@_nodes
@click.option(
    "--rounds",
    type=click.Choice(["1", "2", "auto"]),
    default="1",
    show_default=True,
    help=(
        "Rounds of reports; 'auto' chooses what the planner expects to be better, given"
        " --mean-degree."
    ),
)
@click.option(
    "--mean-degree", type=float, help="A public guess at the mean degree, for --rounds auto."
)
@click.option(
    "--reporting",
    type=click.Choice(["once", "both"]),
    default="once",
    show_default=True,
    help=(
        "Who reports a pair in one round: the end with the larger number, or both ends at half of"
        " epsilon each."
    ),
)
@click.option("--force", is_flag=True, help="Replace the output if it exists.")
@output_options
def randomize(
    edges: Path,
    output: Path,
    epsilon: float,
    nodes: str | None,
    rounds: str,
    mean_degree: float | None,
    reporting: str,
    force: bool,
) -> None:
    """Randomize an edge list EDGES (CSV or Parquet, two columns), as the people in it would.

    Without --nodes, the nodes are those with at least one edge, which is then public.
    """
    if output.exists() and not force:
        raise GraphError(f"{output} exists already")
    loaded = _load(edges, nodes)
    protocol: EdgeResponse | TwoRounds = EdgeResponse(epsilon, reporting)
    if rounds == "2":
        protocol = TwoRounds(epsilon)
    elif rounds == "auto":
        if mean_degree is None:
            raise click.UsageError(
                "--rounds auto needs --mean-degree, because the true one is not public"
            )
        protocol = plan_graph(loaded.nodes, epsilon, mean_degree=mean_degree).protocol
    with progress_bar(f"randomizing {edges.name}") as progress:
        reports = protocol.privatize(loaded, progress=progress)
    write_reports(reports, output, overwrite=force)
    kind = (
        "two rounds"
        if isinstance(protocol, TwoRounds)
        else f"each pair reported {'once' if protocol.copies == 1 else 'twice'}"
    )
    said = (
        f"Wrote the reports of {loaded.nodes:,} nodes to {output}: epsilon {protocol.epsilon:.4g}"
        f" per edge, {kind}."
    )
    emit(
        {
            "output": str(output),
            "nodes": loaded.nodes,
            "epsilon": protocol.epsilon,
            "protocol": kind,
        },
        said,
    )


@graph.command()
@click.argument("reports", type=_FILE)
@click.option(
    "--triangles/--no-triangles",
    default=True,
    show_default=True,
    help="Count triangles, wedges and clustering.",
)
@click.option("--distribution", is_flag=True, help="Estimate the degree distribution.")
@click.option(
    "--group",
    metavar="FILE:COLUMN",
    help="Estimate assortativity by a public attribute of the nodes.",
)
@click.option(
    "--synthetic", type=_FILE, metavar="OUT.csv", help="Write the edge list of a synthetic graph."
)
@click.option("--force", is_flag=True, help="Replace the synthetic graph if it exists.")
@click.option(
    "--plot", type=_FILE, metavar="OUT.png", help="Plot the degrees with their intervals."
)
@confidence_option
@output_options
def estimate(
    reports: Path,
    triangles: bool,
    distribution: bool,
    group: str | None,
    synthetic: Path | None,
    force: bool,
    plot: Path | None,
    confidence: float,
) -> None:
    """Estimate edges, degrees, triangles, wedges and clustering from a file of REPORTS."""
    check_confidence(confidence)
    if synthetic is not None and synthetic.exists() and not force:
        raise GraphError(f"{synthetic} exists already")
    loaded = read_reports(reports)
    pairs = loaded.first.reports if isinstance(loaded, TwoRoundReports) else loaded
    groups = None if group is None else _groups(group, pairs.labels or range(pairs.nodes))
    with progress_bar(f"counting {reports.name}") as progress:
        if isinstance(loaded, TwoRoundReports):
            found = loaded.estimate(progress=progress)
        else:
            found = loaded.estimate(triangles=triangles, progress=progress)
    mixing = None if groups is None else pairs.assortativity(groups)
    degrees = loaded.degree_distribution() if distribution else None
    if synthetic is not None:
        write_edges(pairs.synthetic(), synthetic, overwrite=force)
    if plot is not None:
        save_figure(found.plot().figure, plot)
    document = found.to_dict(confidence) | {
        "rounds": 2 if isinstance(loaded, TwoRoundReports) else 1,
        "assortativity": None if mixing is None else mixing.to_dict(confidence),
        "degree_distribution": None if degrees is None else degrees.to_dict(),
    }
    shown = "\n\n".join(str(each) for each in (found, mixing, degrees) if each is not None)
    emit(document, shown, lambda: _estimate_rows(found, mixing, confidence))


def _estimate_rows(found: GraphEstimate, mixing: GraphStatistic | None, confidence: float) -> Rows:
    """The figures of the graph, then those of each node."""
    statistics = [*found.statistics(), *([] if mixing is None else [mixing])]
    rows: list[list[Any]] = [
        [s.name, "", s.value, s.stderr, *s.interval(confidence), s.coverage] for s in statistics
    ]
    names = found.labels or range(found.nodes)
    nodes = zip(
        names, found.degrees, found.degrees_stderr, found.degree_interval(confidence), strict=True
    )
    rows += [
        ["degree", name, value, stderr, *limits, found.degree_coverage]
        for name, value, stderr, limits in nodes
    ]
    if found.node_triangles is not None and found.node_triangles_stderr is not None:
        limits_of = found.node_triangle_interval(confidence)
        at_nodes = zip(
            names, found.node_triangles, found.node_triangles_stderr, limits_of, strict=True
        )
        claim = found.node_triangle_coverage
        rows += [
            ["triangles at node", name, value, stderr, *limits, claim]
            for name, value, stderr, limits in at_nodes
        ]
    return ["figure", "node", "estimate", "stderr", "low", "high", "coverage"], rows


def _groups(text: str, labels: Any) -> list[str]:
    file, colon, column = text.rpartition(":")
    if not (file and colon and column):
        raise GraphError(f"--group {text!r} must have the form FILE:COLUMN")
    return read_column(file, column, list(labels))


@graph.command()
@click.argument("edges", type=_FILE)
@_nodes
@click.option(
    "--epsilon",
    "epsilons",
    type=float,
    multiple=True,
    default=(1.0,),
    show_default=True,
    help="Repeatable.",
)
@click.option(
    "--trials",
    type=int,
    default=20,
    show_default=True,
    help="Simulated collections and releases per method.",
)
@click.option(
    "--delta",
    type=float,
    default=1e-6,
    show_default=True,
    help="Delta of smooth sensitivity, which is (epsilon, delta)-private.",
)
@click.option("--plot", type=_FILE, metavar="OUT.png", help="Plot the errors against epsilon.")
@output_options
def compare(
    edges: Path,
    nodes: str | None,
    epsilons: tuple[float, ...],
    trials: int,
    delta: float,
    plot: Path | None,
) -> None:
    """Compare methods on a graph that you hold: randomized response, two rounds, and a trusted
    curator's Laplace noise.

    Each is simulated on the true graph, so the output is not private.
    """
    loaded = _load(edges, nodes)
    with progress_bar(f"comparing on {edges.name}") as progress:
        errors = compare_graph(
            loaded, sorted(epsilons), trials=trials, delta=delta, progress=progress
        )
    if plot is not None:
        from deniable.graphs.plots import draw_comparison  # noqa: PLC0415 - an extra

        save_figure(draw_comparison(errors), plot)
    header = ["method", "epsilon", "trusted", "degrees", "node_triangles", "triangles"]
    emit(
        {
            "nodes": loaded.nodes,
            "trials": trials,
            "delta": delta,
            "errors": [e.to_dict() for e in errors],
        },
        lambda: [_table(errors), _MEANING, *(f"{name}: {text}" for name, text in METHODS.items())],
        (header, [[getattr(e, name) for name in header] for e in errors]),
    )


_MEANING = (
    "Mean absolute error per node; for triangles, root mean squared error. Not private: the true"
    " graph was used."
)


def _table(errors: list[MethodError]) -> TextTable:
    rows = [
        (
            f"{error.epsilon:g}",
            error.method,
            *(
                "-" if value is None else f"{value:,.1f}"
                for value in (error.degrees, error.node_triangles, error.triangles)
            ),
        )
        for error in errors
    ]
    return TextTable(("epsilon", "method", "degree", "triangles at node", "triangles"), rows)
