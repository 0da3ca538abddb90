"""`deniable coverage`: how often intervals hold the truth, by what they say."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np

from deniable.audit.rehearsal.coverage import Coverage, coverage_table
from deniable.cli.helping import command
from deniable.cli.output import emit, output_options, say
from deniable.cli.researcher.plan import number
from deniable.cli.tables import TextTable
from deniable.errors import MissingExtraError, ParameterError
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.mechanisms.designs.text import design_from_text
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.registry import mechanism_by_name

__all__ = ["coverage"]

_ENDINGS = (".png", ".svg", ".pdf")


@command("coverage")
@click.argument("subjects", metavar="SUBJECT", nargs=-1, required=True)
@click.option(
    "--n-reports",
    "sizes",
    type=number,
    multiple=True,
    default=(200, 1000),
    show_default=True,
    help="People who answer; may be repeated.",
)
@click.option(
    "--proportion",
    "proportions",
    type=float,
    multiple=True,
    default=(0.01, 0.05, 0.2, 0.5),
    show_default=True,
    help="The true proportion; may be repeated.",
)
@click.option(
    "--epsilon",
    "epsilons",
    type=float,
    multiple=True,
    default=(1.0,),
    show_default=True,
    help="Of a mechanism; may be repeated.",
)
@click.option("--values", type=number, default=4, show_default=True, help="Labels of a mechanism.")
@click.option("--confidence", type=float, default=0.95, show_default=True, help="Of the intervals.")
@click.option(
    "--trials",
    type=number,
    default=2000,
    show_default=True,
    help="Surveys to draw, where they cannot be enumerated.",
)
@click.option("--seed", type=number, default=1, show_default=True, help="Of the surveys drawn.")
@click.option(
    "--plot",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a heat map to this file: .png, .svg or .pdf.",
)
@output_options
def coverage(
    subjects: tuple[str, ...],
    sizes: tuple[int, ...],
    proportions: tuple[float, ...],
    epsilons: tuple[float, ...],
    values: int,
    confidence: float,
    trials: int,
    seed: int,
    plot: Path | None,
) -> None:
    """Show how often intervals hold the truth, by what they say.

    A SUBJECT is a survey design, written as NAME:PARAMETER=VALUE,… (docs/designs.md), or the name
    of a mechanism. Two counts are enumerated, so that the coverage is exact; otherwise surveys are
    drawn.
    """
    made = [each for text in subjects for each in _subjects(text, epsilons, values)]
    found = list(coverage_table(made, sizes, proportions, confidence, trials, seed))
    headings = ("", "n", "proportion", f"{100 * confidence:g} %", "said by", "at least", "")
    rows = [
        (
            each.subject,
            f"{each.n_reports:,}",
            f"{100 * each.proportion:g} %",
            _percent(each.plain),
            _percent(each.plain_part),
            _percent(each.at_least),
            "exact" if each.exact else f"{each.trials:,} surveys",
        )
        for each in found
    ]
    emit({"coverage": [each.to_dict() for each in found]}, [TextTable(headings, rows)])
    if plot is not None:
        _draw(found, plot, confidence)
        say(f"Wrote {plot}.", err=True)


def _subjects(
    text: str, epsilons: tuple[float, ...], values: int
) -> Iterator[SurveyDesign | Mechanism]:
    if ":" in text:
        yield design_from_text(text)
    else:
        yield from (mechanism_by_name(text, epsilon, values) for epsilon in epsilons)


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{100 * part:.1f} %"


def _draw(found: list[Coverage], path: Path, confidence: float) -> None:
    """A heat map per thing said: settings down, proportions across."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra
        from matplotlib.figure import Figure  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "--plot") from None
    if path.suffix.lower() not in _ENDINGS:
        raise ParameterError("plot", str(path), f"must end in {', '.join(_ENDINGS)}")
    rows = list(dict.fromkeys((each.subject, each.n_reports) for each in found))
    columns = list(dict.fromkeys(each.proportion for each in found))
    figure = Figure(figsize=(4 + 1.6 * len(columns), 1.6 + 0.4 * len(rows)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    said = f"{100 * confidence:g} %"
    for axes, title, name in zip(
        panels, (said, f"at least {said}"), ("plain", "at_least"), strict=True
    ):
        cells = np.full((len(rows), len(columns)), np.nan)
        for each in found:
            covered = getattr(each, name)
            place = rows.index((each.subject, each.n_reports)), columns.index(each.proportion)
            cells[place] = np.nan if covered is None else 100 * covered
            axes.text(*place[::-1], _percent(covered), ha="center", va="center", fontsize=8)
        span = 500 * (1 - confidence)
        axes.imshow(
            cells,
            cmap="RdBu",
            vmin=100 * confidence - span,
            vmax=100 * confidence + span,
            aspect="auto",
        )
        axes.set_xticks(range(len(columns)), [f"{100 * column:g} %" for column in columns])
        axes.set_yticks(range(len(rows)), [f"{subject}, n = {n:,}" for subject, n in rows])
        axes.set_xlabel("true proportion")
        axes.set_title(f"coverage where an interval says {title}", fontsize=10)
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ParameterError("plot", str(path), f"cannot be written: {error.strerror}") from None
