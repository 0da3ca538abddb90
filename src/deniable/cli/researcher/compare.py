"""`deniable compare`: every protocol on the same question, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from deniable.cli.helping import command
from deniable.cli.output import (
    Part,
    emit,
    output_options,
    progress_bar,
    save_figure,
    show_display,
    shown_warnings,
)
from deniable.cli.tables import TextTable
from deniable.display import Bar, Display
from deniable.errors import ParameterError, ReleaseError
from deniable.mechanisms.registry import PluginWarning
from deniable.release import CodedTable
from deniable.reproduce.protocols import (
    METRICS,
    ProtocolErrors,
    compare_protocols,
    typical_proportions,
)
from deniable.survey.reading import read_chunks

_FILE = click.Path(path_type=Path)
_POINTS = 8


@command()
@click.option(
    "--values", type=int, default=64, show_default=True, help="How many values an answer may have."
)
@click.option(
    "--population",
    "population",
    type=int,
    default=50_000,
    show_default=True,
    help="How many people report.",
)
@click.option(
    "--epsilon",
    default="0.5:4",
    show_default=True,
    metavar="A:B|A,B,…",
    help=f"One epsilon, several, or a range, which becomes {_POINTS} points.",
)
@click.option(
    "--data",
    type=_FILE,
    metavar="FILE",
    help="Take the proportions from a CSV or Parquet file; needs --column.",
)
@click.option("--column", metavar="NAME", help="The file's column.")
@click.option(
    "--metric",
    type=click.Choice(list(METRICS)),
    default="mse",
    show_default=True,
    help="How the error is measured.",
)
@click.option(
    "--protocol", "protocols", multiple=True, metavar="NAME", help="Only this one. Repeatable."
)
@click.option(
    "--trials",
    "trials",
    type=int,
    default=10,
    show_default=True,
    help="Simulated collections per protocol.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Seed of the values and of all coins."
)
@click.option(
    "--processes",
    type=int,
    default=1,
    show_default=True,
    help="Simulate this many protocols at the same time.",
)
@click.option(
    "--plot",
    type=_FILE,
    metavar="OUT.png",
    help="Plot the errors against epsilon, with theory dashed.",
)
@output_options
def compare(
    values: int,
    population: int,
    epsilon: str,
    data: Path | None,
    column: str | None,
    metric: str,
    protocols: tuple[str, ...],
    trials: int,
    seed: int,
    processes: int,
    plot: Path | None,
) -> None:
    """Compare protocols: error by theory and by simulation, bytes, time, and the chance of guessing
    one person right.

    Without --data, proportions decrease with the rank of a value. With it, they come from the file,
    and the output is not private.
    """
    epsilons = _epsilons(epsilon)
    if (data is None) != (column is None):
        raise click.UsageError("--data and --column must be given together")
    proportions = (
        typical_proportions(values)
        if data is None or column is None
        else _proportions(data, column)
    )
    with shown_warnings(PluginWarning), progress_bar("comparing protocols") as progress:
        found = compare_protocols(
            proportions,
            population,
            epsilons,
            metric=metric,
            trials=trials,
            protocols=protocols or None,
            seed=seed,
            processes=processes,
            progress=progress,
        )
    content = {
        "values": len(proportions),
        "population": population,
        "metric": metric,
        "trials": trials,
    }
    header = [field.name for field in fields(ProtocolErrors)]
    emit(
        content | {"protocols": [each.to_dict() for each in found]},
        lambda: _parts(found, metric, population, len(proportions), trials),
        (header, [[getattr(each, name) for name in header] for each in found]),
    )
    if plot is not None:  # after the table, which must not be lost if the picture cannot be drawn
        save_figure(draw(found, metric, population, len(proportions)), plot)


def _epsilons(text: str) -> list[float]:
    try:
        if ":" in text:
            low, high = (float(part) for part in text.split(":"))
            if not 0 < low < high:
                raise ValueError
            return [float(f"{point:.3g}") for point in np.linspace(low, high, _POINTS)]
        return sorted({float(part) for part in text.split(",")})
    except ValueError:
        raise ParameterError(
            "epsilon",
            text,
            "must be a number above 0, numbers with commas, or a range A:B with A < B",
        ) from None


def _proportions(path: Path, column: str) -> np.ndarray[Any, Any]:
    with progress_bar(f"reading {path.name}") as progress:
        table = CodedTable.of(
            (chunk.columns for chunk in read_chunks(path, [column], progress)), [column]
        )
    counts = np.bincount(table.codes[column], weights=table.counts)
    if counts.size < 2:
        raise ReleaseError(
            f"{path}: column {column!r} has {counts.size} value; a comparison needs at least 2"
        )
    return np.asarray(counts / counts.sum())


def _parts(
    found: Sequence[ProtocolErrors], metric: str, population: int, values: int, trials: int
) -> list[Part]:
    """The errors at every epsilon; at the largest one with whiskers, beside bytes, time and the
    chance of a right guess."""
    epsilons = sorted({each.requested_epsilon for each in found})
    by = {(each.protocol, each.requested_epsilon): each for each in found}
    names = sorted(
        {each.protocol for each in found}, key=lambda name: by[name, epsilons[-1]].simulated
    )
    what = {"mse": "Mean squared error of a proportion"}.get(
        metric, f"{metric.capitalize()} distance between proportions"
    )
    parts = show_display(
        _at_largest([by[name, epsilons[-1]] for name in names]), f"At epsilon {epsilons[-1]:g}:"
    )
    if len(epsilons) > 1:
        parts = ["At every epsilon, simulated:", _errors(names, epsilons, by), "", *parts]
    return [
        *parts,
        (
            f"{what}, mean of {trials} simulations, drawn with two standard errors to each side;"
            f" {population:,} people, {values}"
            " values. Theory is for the unbiased estimate; DistanceSensitive fits by maximum"
            f" likelihood. A blind guess is right {100 / values:.1f} % of the time."
        ),
    ]


def _errors(
    names: list[str], epsilons: list[float], by: dict[tuple[str, float], ProtocolErrors]
) -> TextTable:
    rows = [
        [
            name,
            *(
                "-" if (name, epsilon) not in by else f"{by[name, epsilon].simulated:.2e}"
                for epsilon in epsilons
            ),
        ]
        for name in names
    ]
    return TextTable(["protocol", *(f"{epsilon:g}" for epsilon in epsilons)], rows, indent=2)


def _at_largest(found: Sequence[ProtocolErrors]) -> Display:
    texts: list[tuple[str, ...]] = [
        ("protocol", "error", "theory", "bytes", "s/million", "guessed")
    ]
    bars = []
    for each in found:
        theory = "-" if each.theory is None else f"{each.theory:.2e}"
        size = "-" if each.report_bytes is None else str(each.report_bytes)
        guessed = "-" if each.guessed is None else f"{100 * each.guessed:.1f} %"
        texts.append(
            (each.protocol, f"{each.simulated:.2e}", theory, size, f"{each.seconds:.2f}", guessed)
        )
        reach = 2 * each.simulated_stderr
        bars.append(
            Bar(each.protocol, each.simulated, each.simulated - reach, each.simulated + reach)
        )
    return Display(("protocol",), [(each.protocol,) for each in found], (), bars, texts=texts)


def draw(found: Sequence[ProtocolErrors], metric: str, population: int, values: int) -> Any:
    """Errors against epsilon, one line per protocol, theory dashed."""
    from deniable.display import pyplot  # noqa: PLC0415 - matplotlib is slow to import

    figure = pyplot().figure(figsize=(9, 5), layout="constrained")
    ax = figure.subplots()
    colours = pyplot().get_cmap("tab20").colors
    for number, name in enumerate(dict.fromkeys(each.protocol for each in found)):
        own = [each for each in found if each.protocol == name]
        x, colour = [each.requested_epsilon for each in own], colours[number % 20]
        ax.plot(x, [each.simulated for each in own], "o", color=colour, markersize=4, label=name)
        known = [each for each in own if each.theory is not None]
        ax.plot(
            [each.requested_epsilon for each in known],
            [each.theory for each in known],
            "--",
            color=colour,
            linewidth=1,
        )
    ax.set_yscale("log")
    ax.set_xlabel("epsilon")
    ax.set_ylabel(f"{metric} (dashed: theory of the unbiased estimate)")
    ax.set_title(f"{population:,} people, {values} values", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure
