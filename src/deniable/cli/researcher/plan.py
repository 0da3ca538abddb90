"""`deniable plan`: parameters for what can be afforded, and what they can show."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

import deniable
from deniable.cli.analyst.plan_utility import plan_utility
from deniable.cli.helping import command
from deniable.cli.output import Part, emit, loss_text, output_options
from deniable.cli.researcher.plan_questions import plan_questions
from deniable.cli.tables import TextTable
from deniable.errors import PlanError
from deniable.planning.questionnaire_plan import Split, Way
from deniable.planning.rendering import error, figure, figure_name, local_excess, percent
from deniable.planning.request import PlanRequest
from deniable.privacy.release_accountant import STATED_DELTA

__all__ = ["plan"]

_FILE = click.Path(dir_okay=False, path_type=Path)


def number(text: str) -> int | float:
    """A number that may be written as 1e6."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        # the words of a ValueError are lost up to click 8.3
        raise click.BadParameter(f"{text!r} is not a number.") from None


@command()
@click.option("--population", type=number, help="People who may be asked.")
@click.option("--proportion", type=float, help="The proportion to detect, such as 0.05.")
@click.option("--cv", type=float, help="Target standard error, relative to the proportion.")
@click.option("--margin", type=float, help="Target ±; without --proportion, for any proportion.")
@click.option(
    "--epsilon", type=float, help="Largest local epsilon: what anyone may learn from a report."
)
@click.option(
    "--sampled-epsilon",
    type=float,
    help="Largest sampled epsilon: what anyone who cannot tell who took part may learn.",
)
@click.option(
    "--buckets",
    type=number,
    default=1,
    show_default=True,
    help="1 for a yes/no question; otherwise, how many to choose from.",
)
@click.option(
    "--epochs",
    type=number,
    default=1,
    show_default=True,
    help="How often the same people are asked; each epsilon covers all of them.",
)
@click.option("--memoize", is_flag=True, help="Answers are drawn once and replayed.")
@click.option(
    "--distinct",
    type=number,
    default=1,
    show_default=True,
    help="Different true answers a memoizing client may have over all epochs.",
)
@click.option("--rate", type=float, help="Answers per second that the aggregator can handle.")
@click.option(
    "--every",
    type=float,
    default=1.0,
    show_default=True,
    help="Seconds over which the answers of an epoch arrive.",
)
@click.option("--bytes", "report_bytes", type=number, help="Most bytes a report may have.")
@click.option(
    "--confidence", type=float, default=0.95, show_default=True, help="What the ± covers."
)
@click.option(
    "--finite", is_flag=True, help="The population is everyone, not a sample of more people."
)
@click.option("--mechanism", help="Plan for this mechanism, by name.")
@click.option(
    "--questions",
    type=_FILE,
    metavar="FILE.toml",
    help="Plan all questions of a survey together: one table [questions.NAME] per question.",
)
@click.option(
    "--answer-epsilon",
    type=float,
    help="With --questions: largest epsilon of one answer, given the whole row.",
)
@click.option(
    "--way",
    type=click.Choice(get_args(Way)),
    help="With --questions: how to ask. [default: the way with the least error]",
)
@click.option(
    "--split",
    type=click.Choice(get_args(Split)),
    default="importance",
    show_default=True,
    help="With --questions: how the budget is split.",
)
@click.option(
    "--output",
    "-o",
    type=_FILE,
    metavar="OUT.toml",
    help="Where to write the mechanisms of --questions, or the channel of --utility.",
)
@click.option(
    "--plot",
    "plot_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Plot the trade-off to this file.",
)
@click.option(
    "--query",
    "query_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a query with this plan to a new file.",
)
@click.option(
    "--utility",
    type=click.Path(dir_okay=False, path_type=Path),
    help="What each report is worth for each value, a CSV file: find the best channel.",
)
@click.option("--prior", help="With --utility: proportions of the values, such as 0.5,0.3,0.2.")
@output_options
def plan(
    plot_file: Path | None,
    query_file: Path | None,
    questions: Path | None,
    output: Path | None,
    utility: Path | None,
    prior: str | None,
    **request: Any,
) -> None:
    """Find whichever of population, proportion, target (--cv or --margin) and epsilon is not given.

    With all four given, find the smallest epsilon that reaches the target: sampled if
    --sampled-epsilon is given, otherwise local. With only a population and an epsilon, find the
    smallest proportion that can be detected. With --questions, find how to ask several questions
    within one epsilon, and the ± to expect for each. With --utility, find the channel whose reports
    are worth most at an --epsilon.
    """
    if utility is not None:
        plan_utility(utility, prior, output, request["epsilon"])
        return
    if prior is not None:
        raise PlanError("--prior belongs to --utility")
    if questions is not None:
        if plot_file is not None:
            raise PlanError(
                "--plot draws the trade-off of one question and cannot be combined with --questions"
            )
        plan_questions(questions, output, request)
        return
    for name in ("answer_epsilon", "way", "split"):
        source = click.get_current_context().get_parameter_source(name)
        if request.pop(name) is not None and source is not click.core.ParameterSource.DEFAULT:
            raise PlanError(f"--{name.replace('_', '-')} belongs to --questions")
    if output is not None:
        raise PlanError("--output belongs to --questions or --utility")
    made = deniable.plan(**request)
    if plot_file is not None:
        from deniable.cli.researcher.plan_plot import draw  # noqa: PLC0415 - an extra

        draw(made, plot_file)
    if query_file is not None:
        from deniable.cli.analyst.query_template import write_planned  # noqa: PLC0415 - it imports this module

        write_planned(query_file, made)
    emit(made.to_dict(), lambda: _parts(made))


def _parts(made: deniable.Plan) -> list[Part]:
    parts: list[Part] = [TextTable(("", ""), _facts(made), [False, False])]
    excess = local_excess(made)
    if excess is not None:
        parts += ["", f"Warning: {excess}"]
    parts += ["", "What the person answering risks", *made.risk]
    if len(made.alternatives) > 1:
        parts += ["", "Mechanisms compared", _alternatives(made)]
    parts += [f"{name} is excluded: it {why}." for name, why in made.excluded.items()]
    return [*parts, made.reason, *(line for line in made.notes if line != excess)]


def _alternatives(made: deniable.Plan) -> TextTable:
    """The mechanisms by what was open; their local epsilon beside it, unless that is what was
    open."""
    headings = ["mechanism", figure_name(made.request), "bytes", "local epsilon", "asked"]
    rows = [
        [
            each.mechanism,
            figure(made.solved_for, each.figure),
            str(each.report_bytes),
            f"{each.epsilon_local:.3f}",
            percent(each.sampling),
        ]
        for each in made.alternatives
    ]
    if headings[1] == headings[3]:
        del headings[3]
        for row in rows:
            del row[3]
    return TextTable(headings, rows)


def _facts(made: deniable.Plan) -> list[tuple[str, str]]:
    request = made.request
    each = "" if request.epochs == 1 else " each epoch"
    facts = [
        ("Ask", f"{_asked(made)}{each}"),
        ("How", _how(made)),
        ("Error", f"{error(made)}{each}"),
        (
            "Smallest proportion",
            f"{percent(made.smallest_proportion)} {_seen(request)}",
        ),
    ]
    if request.open_ended:
        facts.append(("Any proportion", f"is estimated to within ± {percent(made.widest_margin)}"))
    if made.detectable_difference is not None:
        facts.append(
            (
                "Two groups",
                (
                    "two halves of these people can be distinguished if one has"
                    f" {percent(made.proportion)} and the other at least"
                    f" {percent(made.proportion + made.detectable_difference)}"
                    " (power 80 %, level 5 %)"
                ),
            )
        )
    facts.append(
        ("Local epsilon", f"{made.epsilon_local:.4f}  against anyone who sees who answers")
    )
    facts.append(
        ("Sampled epsilon", f"{made.sampled_loss}, against anyone who cannot tell who took part")
    )
    formula = (
        f"{made.epsilon_zero_knowledge:.4f}  up to an additive delta whose constant is not known"
    )
    zero_knowledge = "none, because everybody answers" if made.sampling == 1 else formula
    facts.append(("Zero-knowledge", zero_knowledge))
    if made.epsilon_shuffled is not None:
        whom = (
            "against anyone who sees only the shuffled reports, except with probability"
            f" {STATED_DELTA:g}"
        )
        facts.append(("Shuffled", f"{loss_text(made.epsilon_shuffled)}  {whom}"))
    if request.epochs > 1:
        life = made.releases.sampled_life(made.population)
        facts.append(("All epochs", f"{made.lifetime_local:.4f} local, sampled {life}"))
    facts.append(("Report", f"{made.report_bytes} byte{'s' if made.report_bytes > 1 else ''}"))
    return facts


def _asked(made: deniable.Plan) -> str:
    if made.sampling == 1:
        return f"all {made.population:,} people"
    return (
        f"about {made.reports:,.0f} of {made.population:,} people, each with probability"
        f" {made.sampling:.4g}"
    )


def _seen(request: PlanRequest) -> str:
    return (
        "with that cv"
        if request.margin is None and not request.open_ended
        else "can be distinguished from zero"
    )


def _how(made: deniable.Plan) -> str:
    name = type(made.mechanism).__name__
    if made.p is None or made.q is None:
        return f"{name} with epsilon {made.epsilon_local:.4f}"
    bit = "" if made.request.buckets == 1 else "for each bucket "
    return f"{name}: {bit}tell the truth with p = {made.p:.4f}, else say yes with q = {made.q:.4f}"
