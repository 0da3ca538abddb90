"""`deniable plan --questions`: several questions under one budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from deniable.cli.output import Part, emit, loss_text, write_new
from deniable.cli.tables import TextTable
from deniable.errors import PlanError, SurveyError
from deniable.planning.questionnaire import plan_questionnaire
from deniable.planning.questionnaire_plan import QuestionnairePlan, margin_text
from deniable.survey.questions_file import read_questions, write_plan

__all__ = ["plan_questions"]

_TAKEN = ("population", "epsilon", "answer_epsilon", "way", "split", "confidence")
_WAYS = {
    "split": "everybody answers all",
    "sampled": "{ask} of {d}, at random",
    "fake": "1 of {d}, among fakes",
}


def plan_questions(path: Path, output: Path | None, request: dict[str, Any]) -> None:
    """Plan the questions of a file, write the file of mechanisms, and show the best way to ask
    them."""
    _check(request)
    made = plan_questionnaire(
        read_questions(path),
        **{name: request[name] for name in _TAKEN if request[name] is not None},
    )
    if output is not None:
        write_new(output, write_plan(made), SurveyError)
    wrote = (
        []
        if output is None
        else ["", f"Wrote {output}: give it to deniable randomize --mechanisms."]
    )
    emit(made.to_dict(), lambda: [*_parts(made), *wrote])


def _check(request: dict[str, Any]) -> None:
    context = click.get_current_context()
    for name in request:
        given = context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT
        if given and name not in _TAKEN:
            raise PlanError(
                f"--{name.replace('_', '-')} cannot be combined with --questions, which takes a"
                " population and an epsilon"
            )
    for name in ("population", "epsilon"):
        if request[name] is None:
            raise PlanError(f"--questions needs --{name}, and finds the ± of each question")


def _parts(made: QuestionnairePlan) -> list[Part]:
    parts: list[Part] = [_questions(made), *made.notes]
    if len(made.alternatives) < 2:
        return parts
    meaning = (
        "Error: root mean squared standard error, weighted by importance; for numbers, relative to"
        " their range."
    )
    return [*parts, "", "Ways to ask compared", _ways(made), meaning]


def _questions(made: QuestionnairePlan) -> TextTable:
    fake = made.questionnaire.fake
    figures = [
        f"± at {100 * made.confidence:g} %",
        "answers",
        "epsilon",
        *(["of one answer"] if fake else []),
    ]
    rows = [
        (
            planned.question.name,
            margin_text(planned),
            f"{planned.reports:,.0f}",
            loss_text(planned.mechanism.epsilon),
            *([loss_text(planned.answer_epsilon)] if fake else []),
            type(planned.mechanism).__name__,
        )
        for planned in made.expected
    ]
    return TextTable(
        ("question", *figures, "mechanism"), rows, [False, *(True for _ in figures), False]
    )


def _ways(made: QuestionnairePlan) -> TextTable:
    rows = []
    for other in made.alternatives:
        asked = other.questionnaire
        who = _WAYS[other.way].format(ask=asked.ask, d=len(asked.mechanisms))
        largest = max(asked.answer_epsilon(name) for name in asked.names)
        rows.append(
            (
                other.way,
                who,
                f"{100 * other.error:.3g} %",
                loss_text(asked.epsilon),
                loss_text(largest),
            )
        )
    headings = ("way", "who answers what", "error", "epsilon per row", "of one answer")
    return TextTable(headings, rows, [False, False, True, True, True])
