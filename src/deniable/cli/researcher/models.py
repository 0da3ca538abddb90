"""`deniable models`: the local model, a curator and a release of the same column, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deniable.cli.helping import command
from deniable.cli.output import Rows, emit, output_options, progress_bar, save_figure
from deniable.errors import ReleaseError
from deniable.release import CodedTable
from deniable.reproduce.model_comparison import ModelComparison
from deniable.reproduce.models import compare_models
from deniable.survey.reading import read_chunks

_FILE = click.Path(path_type=Path)


@command()
@click.argument("file", type=_FILE)
@click.option(
    "--column", required=True, metavar="NAME", help="The column whose proportions are estimated."
)
@click.option(
    "--labels", metavar="A|B|…", help="The values the column may have [default: those in the file]."
)
@click.option(
    "--bins", metavar="EDGE,EDGE,…", help="For a column of numbers: the edges of its bins."
)
@click.option(
    "--epsilon",
    type=float,
    default=1.0,
    show_default=True,
    help="The largest loss of each person, in every model.",
)
@click.option(
    "--delta",
    type=float,
    default=1e-5,
    show_default=True,
    help="Delta of the release, which is (epsilon, delta)-private.",
)
@click.option(
    "--neighbours",
    type=click.Choice(["replace-one", "add-remove"]),
    default="replace-one",
    show_default=True,
    help=(
        "What the curator and the release hide: what a person says, as the local model does, or"
        " whether they are in the table."
    ),
)
@click.option(
    "--trials",
    "trials",
    type=int,
    default=50,
    show_default=True,
    help="Simulated collections and releases per model.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of all coins except the curator's, which OpenDP draws.",
)
@click.option("--plot", type=_FILE, metavar="OUT.png", help="Plot estimates and errors.")
@output_options
def models(
    file: Path,
    column: str,
    labels: str | None,
    bins: str | None,
    epsilon: float,
    delta: float,
    neighbours: Any,
    trials: int,
    seed: int,
    plot: Path | None,
) -> None:
    """Compare the local model, a trusted curator and a release on a CSV or Parquet FILE that you
    hold.

    Each is simulated on the true answers of one column, at the same epsilon, so the output is not
    private.
    """
    edges = None if bins is None else _edges(bins)
    known = None if labels is None else [label.strip() for label in labels.split("|")]
    with progress_bar(f"reading {file.name}") as progress:
        table = CodedTable.of(
            (chunk.columns for chunk in read_chunks(file, [column], progress)), [column]
        )
    with progress_bar(f"comparing models on {file.name}") as progress:
        found = compare_models(
            table,
            column,
            epsilon,
            delta,
            labels=known,
            bins=edges,
            neighbours=neighbours,
            trials=trials,
            seed=seed,
            progress=progress,
        )
    if plot is not None:
        save_figure(found.plot(), plot)
    emit(found.to_dict(), found, lambda: _rows(found))


def _edges(text: str) -> list[float]:
    try:
        return [float(edge) for edge in text.split(",")]
    except ValueError:
        raise ReleaseError(f"--bins {text!r} must be numbers separated by commas") from None


def _rows(found: ModelComparison) -> Rows:
    header = ["model", "label", "truth", "estimate", "low", "high", "measured", "theory", "stated"]
    rows = [
        [model.model, label, *figures]
        for model in found.models
        for label, *figures in zip(
            found.labels,
            found.truth.tolist(),
            model.estimate.proportions.tolist(),
            *model.estimate.interval(0.95).T.tolist(),
            model.measured.tolist(),
            model.theory.tolist(),
            model.stated.tolist(),
            strict=True,
        )
    ]
    return header, rows
