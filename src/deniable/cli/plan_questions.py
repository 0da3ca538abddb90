"""`deniable plan --questions`: several questions under one budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deniable.cli.output import as_json, loss_text, make_console, say, write_new
from deniable.errors import PlanError, SurveyError
from deniable.planning.questionnaire import QuestionnairePlan, margin_text, plan_questionnaire
from deniable.survey.questions_file import read_questions, write_plan

__all__ = ["plan_questions"]

_TAKEN = ("population", "epsilon", "answer_epsilon", "way", "split", "confidence")
_WAYS = {"split": "everybody answers all", "sampled": "{ask} of {d}, at random", "fake": "1 of {d}, among fakes"}


def plan_questions(path: Path, output: Path | None, wants_json: bool, request: dict[str, Any]) -> None:
    """Plan the questions of a file, write the file of mechanisms, and show the best way to ask them."""
    _check(request)
    made = plan_questionnaire(read_questions(path), **{name: request[name] for name in _TAKEN if request[name] is not None})
    if output is not None:
        write_new(output, write_plan(made), SurveyError)
    if wants_json:
        say(as_json(made.to_dict()))
        return
    _show(made)
    if output is not None:
        say(f"\nWrote {output}: give it to deniable randomize --mechanisms.")


def _check(request: dict[str, Any]) -> None:
    context = click.get_current_context()
    for name in request:
        given = context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        if given and name not in _TAKEN:
            raise PlanError(
                f"--{name.replace('_', '-')} cannot be combined with --questions, which takes a population and an epsilon"
            )
    for name in ("population", "epsilon"):
        if request[name] is None:
            raise PlanError(f"--questions needs --{name}, and finds the ± of each question")


def _show(made: QuestionnairePlan) -> None:
    from rich import box  # noqa: PLC0415 - not needed for JSON
    from rich.table import Table  # noqa: PLC0415

    console = make_console(highlight=False)
    questions = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    questions.add_column("question")
    fake = made.questionnaire.fake
    for heading in (f"± at {100 * made.confidence:g} %", "answers", "epsilon", *(["of one answer"] if fake else [])):
        questions.add_column(heading, justify="right", no_wrap=True)
    questions.add_column("mechanism", no_wrap=True)
    for planned in made.expected:
        questions.add_row(
            planned.question.name,
            margin_text(planned),
            f"{planned.reports:,.0f}",
            loss_text(planned.mechanism.epsilon),
            *([loss_text(planned.answer_epsilon)] if fake else []),
            type(planned.mechanism).__name__,
        )
    console.print(questions)
    for line in made.notes:
        console.print(line, markup=False)
    if len(made.alternatives) < 2:
        return
    ways = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    ways.add_column("way")
    ways.add_column("who answers what")
    for heading in ("error", "epsilon per row", "of one answer"):
        ways.add_column(heading, justify="right")
    for other in made.alternatives:
        asked = other.questionnaire
        who = _WAYS[other.way].format(ask=asked.ask, d=len(asked.mechanisms))
        largest = max(asked.answer_epsilon(name) for name in asked.names)
        ways.add_row(other.way, who, f"{100 * other.error:.3g} %", loss_text(asked.epsilon), loss_text(largest))
    console.print("\n[bold]Ways to ask compared[/bold]")
    console.print(ways)
    console.print("Error: root mean squared standard error, weighted by importance; for numbers, relative to their range.")
