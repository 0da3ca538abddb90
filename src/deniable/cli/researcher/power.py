"""`deniable power`: how many people a survey design needs, or its power with a given number."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from deniable.cli.helping import command
from deniable.cli.output import emit, output_options
from deniable.errors import MissingExtraError, ParameterError
from deniable.mechanisms.designs.design import SurveyDesign
from deniable.mechanisms.designs.text import design_from_text, in_words
from deniable.planning.design_power import DesignPower, design_power, design_sample_size
from deniable.planning.study import people_to_invite

__all__ = ["power"]


def numbers(name: str, text: str, kind: type) -> Any:
    """One number, or several separated by commas."""
    try:
        values = tuple(kind(part) for part in text.split(","))
    except ValueError:
        raise ParameterError(
            name, text, "must be a number, or several separated by commas"
        ) from None
    return values if len(values) > 1 else values[0]


@command()
@click.argument("design", metavar="NAME:PARAMETER=VALUE,…")
@click.option(
    "--value",
    help="The prevalence to detect; for a design with two parameters, both: 0.2,0.6.",
)
@click.option(
    "--pilot",
    metavar="REPORT=COUNT,…",
    help="Instead of --value, the counts of a pilot with this design: same=441,n=600.",
)
@click.option(
    "--null", type=float, default=0.0, show_default=True, help="The value it is tested against."
)
@click.option(
    "--n-reports",
    "people",
    help="People asked, or people per sample: 250,250. Without it, the number needed is found.",
)
@click.option(
    "--power",
    "wanted",
    type=float,
    default=0.8,
    show_default=True,
    help="Target power, without --n-reports.",
)
@click.option(
    "--parameter",
    help="Which parameter: pi, u, beta, gamma, t or mean [default: the design's first].",
)
@click.option(
    "--significance", type=float, default=0.05, show_default=True, help="Level of the test."
)
@click.option(
    "--alternative", default="two-sided", show_default=True, help="two-sided, greater or less."
)
@click.option(
    "--response",
    type=float,
    help="The proportion of people invited who will answer: also print how many to invite.",
)
@click.option(
    "--attrition",
    type=float,
    default=0.0,
    show_default=True,
    help="The proportion who drop out after answering.",
)
@click.option(
    "--preregistration", is_flag=True, help="Print a paragraph for a preregistration instead."
)
@output_options
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plot the power against the number of people.",
)
def power(
    design: str,
    value: str | None,
    pilot: str | None,
    people: str | None,
    wanted: float,
    response: float | None,
    attrition: float,
    preregistration: bool,
    plot_file: Path | None,
    **options: Any,
) -> None:
    """Find how many people a survey design needs, or its power with a given number.

    The designs are listed in docs/designs.md, such as Crosswise:p=1/4 or
    CheaterDetection:p1=1/4,p2=3/4.
    """
    if (value is None) == (pilot is None):
        raise ParameterError("value", value, "or a pilot must be given, and not both")
    made = design_from_text(design)
    ends: list[float] = []
    if pilot is None:
        truth = numbers("value", value or "", float)
    else:
        truth, *ends = _piloted(made, pilot)

    def plan(true: Any) -> DesignPower:
        if people is None:
            return design_sample_size(made, true, power=wanted, **options)
        return design_power(made, true, numbers("n", people, int), **options)

    found = plan(truth)
    if plot_file is not None:
        _draw(made, truth, found, options, plot_file)
    invited = None if response is None else people_to_invite(sum(found.n), response, attrition)
    document, lines = found.to_dict(), [str(found)]
    if ends:
        document["pilot"] = [_at_end(end, found, plan) for end in ends]
        lines += [
            f"At {end['value']:.4g}, an end of the pilot's 95 % interval: {_end_text(end)}."
            for end in document["pilot"]
        ]
    if invited is not None:
        document["invited"] = invited
        lines.append(f"Invite {invited:,} people.")
    emit(document, found.preregistration(invited) if preregistration else "\n".join(lines))


def _piloted(design: Any, text: str) -> tuple[float, float, float]:
    """What a pilot's counts say of the prevalence, and the ends of its interval."""
    if not isinstance(design, SurveyDesign):
        raise ParameterError("pilot", text, "needs a design with one sample and one prevalence")
    counts: dict[str, int] = {}
    for part in text.split(","):
        name, _, number = part.partition("=")
        try:
            counts[name.strip()] = int(number)
        except ValueError:
            raise ParameterError("pilot", text, "must have the form REPORT=COUNT,…") from None
    estimate = design.estimate_counts(design.counted(None, n=counts.pop("n", None), **counts))
    low, high = estimate.interval()[0].tolist()
    return float(estimate.values[0]), low, high


def _at_end(end: float, found: DesignPower, plan: Callable[[float], DesignPower]) -> dict[str, Any]:
    """The plan if an end of the pilot's interval is true; without people if that is the null, or
    beyond it."""
    if (end - found.null) * (found.value - found.null) <= 0 or not 0 < end < 1:
        return {"value": end, "n": None, "power": None}
    other = plan(end)
    return {"value": end, "n": list(other.n), "power": other.power}


def _end_text(end: dict[str, Any]) -> str:
    if end["n"] is None:
        return "no number of people distinguishes it"
    return f"{sum(end['n']):,} people, power {100 * end['power']:.1f} %"


def _draw(made: Any, truth: Any, found: DesignPower, options: dict[str, Any], path: Path) -> None:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - an extra, and slow to import
        from matplotlib.figure import Figure  # noqa: PLC0415
        from matplotlib.ticker import LogLocator  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("matplotlib", "plot", "--plot") from None
    factors = np.geomspace(0.1, 4, 60)
    sizes = [tuple(max(2, round(n * factor)) for n in found.n) for factor in factors.tolist()]
    powers = [
        design_power(made, truth, size if len(size) > 1 else size[0], **options).power
        for size in sizes
    ]
    figure = Figure(figsize=(6.4, 4), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot([sum(size) for size in sizes], [100 * power for power in powers], color="#1f5a8a")
    axes.plot(
        [sum(found.n)],
        [100 * found.power],
        "o",
        color="#c2410c",
        label=f"{sum(found.n):,} people: {100 * found.power:.1f} %",
    )
    axes.set_xscale("log")
    # on an axis shorter than a decade, a single label says little
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(lambda people, _: f"{people:,.0f}")
    axes.xaxis.set_minor_formatter(lambda *_: "")
    axes.set_xlabel("people asked, all samples together")
    axes.set_ylabel("power (%)")
    axes.set_ylim(0, 102)
    axes.grid(visible=True, alpha=0.3)
    figure.legend(loc="outside lower center", frameon=False)
    axes.set_title(
        f"{in_words(found.design)}\n{found.parameter} = {found.value:g} against {found.null:g}",
        fontsize=9,
    )
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise ParameterError("plot", str(path), f"cannot be written: {error.strerror}") from None
    except ValueError as error:
        raise ParameterError("plot", str(path), f"cannot be drawn: {error}") from None
