"""What a planned questionnaire states: each question's mechanism and the errors to expect."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from deniable.display import Bar, Display, pad, text_width
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.planning.precision import deviations
from deniable.planning.questions import Question
from deniable.renames import reads_old_names
from deniable.results import Result, fields_of

__all__ = [
    "PlannedQuestion",
    "QuestionnairePlan",
    "Split",
    "Way",
    "WayOfAsking",
    "margin_text",
    "question_variance",
]


Way = Literal["split", "sampled", "fake"]
Split = Literal["importance", "even"]


@reads_old_names
@dataclass(frozen=True)
class PlannedQuestion:
    """What to expect for one question."""

    question: Question
    mechanism: Mechanism
    reports: float
    """How many people answer it, on average; with fake data, everybody."""
    stderr: float
    """Of the planned proportion, or of the mean."""
    margin: float
    """The ± at the plan's confidence."""
    proportion: float | None
    """The proportion for which that is computed; None for a mean."""
    answer_epsilon: float
    """The loss of a row about this answer."""


@dataclass(frozen=True)
class WayOfAsking:
    """One way to ask, at its best."""

    way: str
    questionnaire: Questionnaire
    error: float
    """Root mean squared error, weighted by importance; for numbers, relative to their range."""


@dataclass(frozen=True, eq=False)
class QuestionnairePlan(Result):
    """The questionnaire to randomize with, what to expect for each question, and the other ways to
    ask."""

    questions: tuple[Question, ...]
    population: int
    budget: float
    answer_budget: float | None
    confidence: float
    alternatives: tuple[WayOfAsking, ...]
    """The ways that were compared, the best one first."""

    @property
    def questionnaire(self) -> Questionnaire:
        """The mechanisms, and which questions each person answers."""
        return self.alternatives[0].questionnaire

    @property
    def way(self) -> str:
        """The best way to ask."""
        return self.alternatives[0].way

    @property
    def expected(self) -> tuple[PlannedQuestion, ...]:
        """What to expect for each question."""
        z = deviations(self.confidence)
        found = []
        for question in self.questions:
            asked = self.questionnaire
            mechanism, stderr = (
                asked.mechanisms[question.name],
                math.sqrt(question_variance(asked, question, self.population)),
            )
            span = (question.high or 0) - (question.low or 0) if question.numeric else 1.0
            proportion = (
                None
                if question.numeric
                else question.planned_proportion(asked.estimator(question.name))
            )
            reports = self.population * (1.0 if asked.fake else asked.inclusion(question.name))
            loss = asked.answer_epsilon(question.name)
            found.append(
                PlannedQuestion(
                    question, mechanism, reports, span * stderr, z * span * stderr, proportion, loss
                )
            )
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan costs, and its assumptions."""
        asked = self.questionnaire
        lines = [
            f"{asked.kind[0].upper()}{asked.kind[1:]}: epsilon {asked.epsilon:.4g} for a person's"
            " whole row."
        ]
        if asked.fake:
            lines.append(
                "Fake data hide which answer is true. The smaller epsilon is that of one answer,"
                " against anyone who knows all the others; the whole row loses what one answer"
                " without fakes would."
            )
        if asked.ask == 1 and len(self.questions) > 1:
            lines.append(
                "Each person gives one true answer, so no table of two questions can be made; the"
                ' way "split" allows tables.'
            )
        if any(question.numeric for question in self.questions):
            lines.append(
                "The ± of a number is that of its mean, assuming all numbers of the range are"
                " equally frequent."
            )
        return tuple(lines)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what follows from it."""
        asked = self.questionnaire
        expected = [
            {
                "name": planned.question.name,
                "mechanism": planned.mechanism.to_dict(),
                "inclusion": asked.inclusion(planned.question.name),
                "reports": planned.reports,
                "proportion": planned.proportion,
                "stderr": planned.stderr,
                "margin": planned.margin,
                "epsilon": planned.mechanism.epsilon,
                "answer_epsilon": planned.answer_epsilon,
            }
            for planned in self.expected
        ]
        derived = {
            "way": self.way,
            "epsilon": asked.epsilon,
            "questionnaire": asked.rule(),
            "notes": list(self.notes),
        }
        return {**fields_of(self), **derived, "expected": expected}

    def _display(self, confidence: float = 0.95) -> Display:
        found = self.expected
        columns = (
            "question",
            "margin",
            "stderr",
            "reports",
            "mechanism",
            "epsilon",
            "answer_epsilon",
        )
        rows = [
            (
                p.question.name,
                p.margin,
                p.stderr,
                p.reports,
                type(p.mechanism).__name__,
                p.mechanism.epsilon,
                p.answer_epsilon,
            )
            for p in found
        ]
        header = ("", f"± at {100 * self.confidence:g} %", "answers", "mechanism", "epsilon")
        texts = [header]
        for planned, row in zip(found, rows, strict=True):
            texts.append(
                (row[0], margin_text(planned), f"{planned.reports:,.0f}", row[4], f"{row[5]:.4g}")
            )
        spans = [
            100.0
            if p.proportion is not None
            else 100 / ((p.question.high or 1) - (p.question.low or 0))
            for p in found
        ]
        bars = [Bar(p.question.name, span * p.margin) for p, span in zip(found, spans, strict=True)]
        return Display(
            columns, rows, self.notes, bars, "± (percentage points, or % of the range)", texts=texts
        )

    def __str__(self) -> str:
        width = max(text_width(question.name) for question in self.questions)
        lines = []
        for planned in self.expected:
            shown = margin_text(planned)
            kind = type(planned.mechanism).__name__
            lines.append(
                f"{pad(planned.question.name, width)}  ± {shown}  {planned.reports:,.0f} answers,"
                f" {kind}, epsilon {planned.mechanism.epsilon:.4g}"
            )
        return "\n".join([*lines, *self.notes])


def margin_text(planned: PlannedQuestion) -> str:
    """The ± of a planned question, and what it is about."""
    if planned.proportion is None:
        return f"{planned.margin:.3g} on the mean"
    at = (
        "at most"
        if planned.question.proportion is None
        else f"at a proportion of {100 * planned.proportion:.3g} %"
    )
    return f"{100 * planned.margin:.3g} % {at}"


def question_variance(survey: Questionnaire, question: Question, population: int) -> float:
    """The variance of the planned proportion, or of the mean relative to its range."""
    reached = 1.0 if survey.fake else survey.inclusion(question.name)
    return question.variance(survey.estimator(question.name)) / (population * reached)
