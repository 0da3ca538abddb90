"""`deniable compare`: every protocol on the same question, side by side."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from deniable.cli.output import as_csv, as_json, output_options, progress_bar, save_figure, say, shown_warnings
from deniable.errors import ParameterError, ReleaseError
from deniable.release import CodedTable
from deniable.reproduce.protocols import METRICS, ProtocolErrors, ProtocolWarning, compare_protocols, typical_shares
from deniable.survey.reading import read_chunks

_FILE = click.Path(path_type=Path)
_POINTS = 8


@click.command()
@click.option("--values", type=int, default=64, show_default=True, help="How many values an answer may have.")
@click.option("--users", type=int, default=50_000, show_default=True, help="How many people report.")
@click.option(
    "--epsilon",
    default="0.5:4",
    show_default=True,
    metavar="A:B|A,B,…",
    help=f"One epsilon, several, or a range, which becomes {_POINTS} points.",
)
@click.option("--data", type=_FILE, metavar="FILE", help="Take the proportions from a CSV or Parquet file; needs --column.")
@click.option("--column", metavar="NAME", help="The file's column.")
@click.option("--metric", type=click.Choice(list(METRICS)), default="mse", show_default=True, help="How the error is measured.")
@click.option("--protocol", "protocols", multiple=True, metavar="NAME", help="Only this one. Repeatable.")
@click.option("--runs", type=int, default=10, show_default=True, help="Simulated collections per protocol.")
@click.option("--seed", type=int, default=1, show_default=True, help="Seed of the values and of all coins.")
@click.option("--plot", type=_FILE, metavar="OUT.png", help="Plot the errors against epsilon, with theory dashed.")
@output_options
def compare(
    values: int,
    users: int,
    epsilon: str,
    data: Path | None,
    column: str | None,
    metric: str,
    protocols: tuple[str, ...],
    runs: int,
    seed: int,
    plot: Path | None,
    as_json_: bool,
    as_csv_: bool,
) -> None:
    """Compare protocols: error by theory and by simulation, bytes, time, and the chance of guessing one person right.

    Without --data, proportions decrease with the rank of a value. With it, they come from the file, and the output is not
    private.
    """
    epsilons = _epsilons(epsilon)
    if (data is None) != (column is None):
        raise ParameterError("column", column, "and --data must be given together")
    shares = typical_shares(values) if data is None or column is None else _shares(data, column)
    with shown_warnings(ProtocolWarning), progress_bar("comparing protocols") as progress:
        found = compare_protocols(
            shares, users, epsilons, metric=metric, runs=runs, protocols=protocols or None, seed=seed, progress=progress
        )
    if as_json_:
        content = {"values": len(shares), "users": users, "metric": metric, "runs": runs}
        say(as_json(content | {"protocols": [each.to_dict() for each in found]}))
    elif as_csv_:
        header = [field.name for field in fields(ProtocolErrors)]
        say(as_csv(header, [[getattr(each, name) for name in header] for each in found]))
    else:
        say(_table(found, metric, users, len(shares), runs))
    if plot is not None:  # after the table, which must not be lost if the picture cannot be drawn
        save_figure(draw(found, metric, users, len(shares)), plot)


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
            "epsilon", text, "must be a number above 0, numbers with commas, or a range A:B with A < B"
        ) from None


def _shares(path: Path, column: str) -> np.ndarray[Any, Any]:
    with progress_bar(f"reading {path.name}") as progress:
        table = CodedTable.of((chunk.columns for chunk in read_chunks(path, [column], progress)), [column])
    counts = np.bincount(table.codes[column], weights=table.counts)
    if counts.size < 2:
        raise ReleaseError(f"{path}: column {column!r} has {counts.size} value; a comparison needs at least 2")
    return np.asarray(counts / counts.sum())


def _table(found: list[ProtocolErrors], metric: str, users: int, values: int, runs: int) -> str:
    epsilons = sorted({each.requested_epsilon for each in found})
    by = {(each.protocol, each.requested_epsilon): each for each in found}
    names = sorted({each.protocol for each in found}, key=lambda name: by[name, epsilons[-1]].simulated)
    head = f"{'epsilon':<20}" + "".join(f"{epsilon:>10g}" for epsilon in epsilons)
    lines = [head + f"{'bytes':>8}{'s/million':>11}{'guessed':>9}"]
    for name in names:
        cells = ["-" if (name, e) not in by else f"{by[name, e].simulated:.2e}" for e in epsilons]
        last = by[name, epsilons[-1]]
        size = "-" if last.report_bytes is None else str(last.report_bytes)
        guessed = "-" if last.guessed is None else f"{100 * last.guessed:.1f} %"
        lines.append(f"{name:<20}" + "".join(f"{cell:>10}" for cell in cells) + f"{size:>8}{last.seconds:>11.2f}{guessed:>9}")
        theory = ["-" if (name, e) not in by or by[name, e].theory is None else f"{by[name, e].theory:.2e}" for e in epsilons]
        if any(cell != "-" for cell in theory):
            lines.append(f"{'  theory':<20}" + "".join(f"{cell:>10}" for cell in theory))
    what = {"mse": "Mean squared error of a proportion"}.get(metric, f"{metric.capitalize()} distance between proportions")
    lines.append(
        f"{what}, mean of {runs} simulations; {users:,} users, {values} values. Theory is for the unbiased estimate; "
        f"DistanceSensitive fits by maximum likelihood. Bytes, time and guesses at epsilon {epsilons[-1]:g}; a blind guess is "
        f"right {100 / values:.1f} % of the time."
    )
    return "\n".join(lines)


def draw(found: list[ProtocolErrors], metric: str, users: int, values: int) -> Any:
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
        ax.plot([each.requested_epsilon for each in known], [each.theory for each in known], "--", color=colour, linewidth=1)
    ax.set_yscale("log")
    ax.set_xlabel("epsilon")
    ax.set_ylabel(f"{metric} (dashed: theory of the unbiased estimate)")
    ax.set_title(f"{users:,} users, {values} values", fontsize=10)
    ax.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    return figure
