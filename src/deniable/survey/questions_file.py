"""The questions of a survey as a TOML file, and the file of mechanisms that a plan makes from them.

[questions.smokes]
labels = ["no", "yes"]
importance = 2            # counts twice; 1 unless set

[questions.news]
labels = ["paper", "radio", "web"]
choose = 2                # up to this many labels; 1 unless set

[questions.age]
low = 18
high = 95
integers = true
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError, SurveyError
from deniable.planning.questionnaire_plan import QuestionnairePlan, margin_text
from deniable.planning.questions import Question
from deniable.renames import current_names
from deniable.survey.columns import write_questionnaire
from deniable.survey.refusal import survey_refusal
from deniable.toml_file import TomlFile

__all__ = ["read_questions", "write_plan"]

_KEYS = tuple(field.name for field in dataclasses.fields(Question) if field.name != "name")


def read_questions(path: Path | str) -> list[Question]:
    """The questions of a TOML file with a table [questions.NAME] for each."""
    file = TomlFile.read(path, survey_refusal)
    tables = file.tree.get("questions")
    if not isinstance(tables, dict) or not tables:
        raise SurveyError(f"{path} must have one table [questions.NAME] per question")
    return [_question(f"{path}: questions.{name}", name, table) for name, table in tables.items()]


def _question(where: str, name: str, table: Any) -> Question:
    if not isinstance(table, dict):
        raise SurveyError(f"{where} must be a table with labels, or with low and high")
    given = current_names("Question", table)
    for key in given:
        if key not in _KEYS:
            raise SurveyError(
                f"{where}: {key} is not a key of a question, which has {', '.join(_KEYS)}"
            )
    if not {"labels", "low", "high"} & set(given):
        raise SurveyError(f"{where} must have labels, or low and high")
    if "labels" in given:
        if not isinstance(given["labels"], list):
            raise SurveyError(f"{where}: labels must be a list")
        given["labels"] = tuple(given["labels"])
    try:
        return Question(name, **given)
    except ParameterError as error:
        raise SurveyError(f"{where}: {error}") from None


def write_plan(plan: QuestionnairePlan) -> str:
    """The TOML that `deniable randomize --mechanisms` takes, with what to expect as comments."""
    lines = [f"# {line}" for line in plan.notes]
    confidence = f"{100 * plan.confidence:g} %"
    for planned in plan.expected:
        expected = (
            f"± {margin_text(planned)} at {confidence}, from about {planned.reports:,.0f} answers"
        )
        lines.append(f"# {planned.question.name}: {expected}".replace("\n", " ").replace("\r", " "))
    return "\n".join([*lines, "", write_questionnaire(plan.questionnaire)])
