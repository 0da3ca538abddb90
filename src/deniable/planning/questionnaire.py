"""Several questions under one budget: who is asked what, with which mechanism, and how well each question will be answered.

The squared error of a question is its variance (for a number, relative to its range) times its importance, and the sum over the
questions is minimised. Three ways are compared, each at its best:

* **split**: everybody answers everything, and the epsilons add up to the budget: in equal parts, or so that the sum of errors is
  smallest (:mod:`deniable.planning.splitting`);
* **sampled** (SMP): everybody answers `ask` of the d questions, drawn at random, each with 1/`ask` of the budget; for `ask` = 1,
  question j is drawn with probability proportional to the root of importance times variance, which is optimal (Neyman 1934);
* **fake**: one question is answered with the whole budget and the others with fake data (RS+FD). A row loses as much as in
  sampling, so the errors are larger; it wins only if single answers have their own ceiling (`answer_epsilon`), because nobody
  sees which answer is true (:mod:`deniable.mechanisms.questionnaire`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from deniable.display import Bar, Display, pad, text_width
from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.estimation.intervals import check_confidence
from deniable.mechanisms.exact import SMALLEST_EPSILON, check_epsilon
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.planning.precision import FEWEST_REPORTS, deviations
from deniable.planning.questions import Question
from deniable.planning.splitting import split_budget
from deniable.privacy.checks import check_count
from deniable.results import Result, fields_of

__all__ = ["PlannedQuestion", "QuestionnairePlan", "Split", "Way", "margin_text", "plan_questionnaire"]

Way = Literal["split", "sampled", "fake"]
Split = Literal["importance", "even"]


@dataclass(frozen=True)
class PlannedQuestion:
    """What to expect for one question."""

    question: Question
    mechanism: Mechanism
    reports: float
    """How many people answer it, on average; with fake data, everybody."""
    stderr: float
    """Of the planned share, or of the mean."""
    margin: float
    """The ± at the plan's confidence."""
    share: float | None
    """The share for which that is computed; None for a mean."""
    answer_epsilon: float
    """The loss of a row about this answer."""


@dataclass(frozen=True)
class Alternative:
    """One way to ask, at its best."""

    way: str
    questionnaire: Questionnaire
    error: float
    """Root mean squared error, weighted by importance; for numbers, relative to their range."""


@dataclass(frozen=True, eq=False)
class QuestionnairePlan(Result):
    """The questionnaire to randomize with, what to expect for each question, and the other ways to ask."""

    questions: tuple[Question, ...]
    population: int
    budget: float
    answer_budget: float | None
    confidence: float
    alternatives: tuple[Alternative, ...]
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
            mechanism, stderr = asked.mechanisms[question.name], math.sqrt(_variance(asked, question, self.population))
            span = (question.high or 0) - (question.low or 0) if question.numeric else 1.0
            share = None if question.numeric else question.planned_share(asked.estimator(question.name))
            reports = self.population * (1.0 if asked.fake else asked.inclusion(question.name))
            loss = asked.answer_epsilon(question.name)
            found.append(PlannedQuestion(question, mechanism, reports, span * stderr, z * span * stderr, share, loss))
        return tuple(found)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the plan costs, and its assumptions."""
        asked = self.questionnaire
        lines = [f"{asked.kind[0].upper()}{asked.kind[1:]}: epsilon {asked.epsilon:.4g} for a person's whole row."]
        if asked.fake:
            lines.append(
                "Fake data hide which answer is true. The smaller epsilon is that of one answer, against anyone who knows "
                "all the others; the whole row loses what one answer without fakes would."
            )
        if asked.ask == 1 and len(self.questions) > 1:
            lines.append(
                'Each person gives one true answer, so no table of two questions can be made; the way "split" allows tables.'
            )
        if any(question.numeric for question in self.questions):
            lines.append("The ± of a number is that of its mean, assuming all numbers of the range are equally frequent.")
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
                "share": planned.share,
                "stderr": planned.stderr,
                "margin": planned.margin,
                "epsilon": planned.mechanism.epsilon,
                "answer_epsilon": planned.answer_epsilon,
            }
            for planned in self.expected
        ]
        derived = {"way": self.way, "epsilon": asked.epsilon, "questionnaire": asked.rule(), "notes": list(self.notes)}
        return {**fields_of(self), **derived, "expected": expected}

    def _display(self, confidence: float = 0.95) -> Display:
        found = self.expected
        columns = ("question", "margin", "stderr", "reports", "mechanism", "epsilon", "answer_epsilon")
        rows = [
            (p.question.name, p.margin, p.stderr, p.reports, type(p.mechanism).__name__, p.mechanism.epsilon, p.answer_epsilon)
            for p in found
        ]
        header = ("", f"± at {100 * self.confidence:g} %", "answers", "mechanism", "epsilon")
        texts = [header]
        for planned, row in zip(found, rows, strict=True):
            texts.append((row[0], margin_text(planned), f"{planned.reports:,.0f}", row[4], f"{row[5]:.4g}"))
        spans = [100.0 if p.share is not None else 100 / ((p.question.high or 1) - (p.question.low or 0)) for p in found]
        bars = [Bar(p.question.name, span * p.margin) for p, span in zip(found, spans, strict=True)]
        return Display(columns, rows, self.notes, bars, "± (percentage points, or % of the range)", texts=texts)

    def __str__(self) -> str:
        width = max(text_width(question.name) for question in self.questions)
        lines = []
        for planned in self.expected:
            shown = margin_text(planned)
            kind = type(planned.mechanism).__name__
            lines.append(
                f"{pad(planned.question.name, width)}  ± {shown}  {planned.reports:,.0f} answers, {kind}, "
                f"epsilon {planned.mechanism.epsilon:.4g}"
            )
        return "\n".join([*lines, *self.notes])


def margin_text(planned: PlannedQuestion) -> str:
    """The ± of a planned question, and what it is about."""
    if planned.share is None:
        return f"{planned.margin:.3g} on the mean"
    at = "at most" if planned.question.share is None else f"at a share of {100 * planned.share:.3g} %"
    return f"{100 * planned.margin:.3g} % {at}"


def plan_questionnaire(
    questions: Sequence[Question],
    *,
    population: int,
    epsilon: float,
    answer_epsilon: float | None = None,
    way: Way | None = None,
    split: Split = "importance",
    confidence: float = 0.95,
) -> QuestionnairePlan:
    """How to ask several questions within one budget, minimising the sum of importance times squared error.

    `epsilon` bounds the loss of a person's whole row, `answer_epsilon` that of one answer. `way` is "split", "sampled"
    or "fake"; without it, all are compared. `split` says how a budget is split among the questions: by "importance", or "even".

    >>> plan = plan_questionnaire(
    ...     [Question("smokes", ("no", "yes"), importance=4), Question("city", ("Oslo", "Paris", "Rome"))],
    ...     population=5000,
    ...     epsilon=2.0,
    ... )
    >>> print(plan)
    smokes  ± 2.27 % at most  3,206 answers, DirectEncoding, epsilon 2
    city    ± 3.4 % at most  1,794 answers, DirectEncoding, epsilon 2
    1 of 2 questions answered, drawn for each person: epsilon 2 for a person's whole row.
    Each person gives one true answer, so no table of two questions can be made; the way "split" allows tables.
    """
    asked = tuple(questions)
    names = [question.name for question in asked]
    if not asked or len(set(names)) < len(names):
        raise ParameterError("questions", names, "must be at least one, without repetition")
    population = check_count("population", population, 1)
    budget = check_epsilon(epsilon)
    ceiling = None if answer_epsilon is None else check_epsilon(answer_epsilon, "answer_epsilon")
    check_confidence(confidence)
    if way is not None and way not in get_args(Way):
        raise ParameterError("way", way, f"must be one of {', '.join(get_args(Way))}")
    if split not in get_args(Split):
        raise ParameterError("split", split, f"must be one of {', '.join(get_args(Split))}")
    makers: dict[str, Callable[[], list[Questionnaire]]] = {
        "split": lambda: _splits(asked, budget, ceiling, split),
        "sampled": lambda: _sampled(asked, budget, ceiling),
        "fake": lambda: _faked(asked, budget, ceiling),
    }
    found = []
    for name, make in makers.items():
        if way in (None, name):
            made = [Alternative(name, survey, _error(survey, asked, population)) for survey in make()]
            if made:
                found.append(min(made, key=lambda other: other.error))
    if not found:
        rule = "needs at least two questions" if len(asked) < 2 else "needs questions with a single choice"
        raise ParameterError("way", way, rule)
    plan = QuestionnairePlan(asked, population, budget, ceiling, confidence, tuple(sorted(found, key=lambda other: other.error)))
    fewest = min(planned.reports for planned in plan.expected)
    if fewest < FEWEST_REPORTS:
        enough = math.ceil(population * FEWEST_REPORTS / fewest)
        raise InfeasiblePlanError(f"a question would be answered by about {fewest:.0f} people", {"population": enough})
    return plan


def _splits(questions: Sequence[Question], budget: float, ceiling: float | None, split: Split) -> list[Questionnaire]:
    """Everybody answers everything: evenly, or also in proportion to importance and by the least sum of errors."""
    total = sum(question.importance for question in questions)
    ways = [[budget / len(questions)] * len(questions)]
    if split == "importance":
        costs = [lambda epsilons, question=question: question.importance * question.variances(epsilons) for question in questions]
        ways.append([_round_down(part) for part in split_budget(costs, budget, ceiling)])
        ways.append([_round_down(budget * question.importance / total) for question in questions])
    if ceiling is not None:
        ways = [[min(part, ceiling) for part in parts] for parts in ways]
    return [Questionnaire({q.name: q.mechanism(part) for q, part in zip(questions, parts, strict=True)}) for parts in ways]


def _round_down(epsilon: float) -> float:
    digits = 3 - math.floor(math.log10(epsilon))
    return float(math.floor(epsilon * 10**digits * (1 + 1e-12)) / 10**digits)


def _sampled(questions: Sequence[Question], budget: float, ceiling: float | None) -> list[Questionnaire]:
    """One question each, drawn by weight, and every larger number, drawn uniformly."""
    found = []
    for ask in range(1, len(questions)):
        part = budget / ask if ceiling is None else min(budget / ask, ceiling)
        mechanisms = {question.name: question.mechanism(part) for question in questions}
        weights = None
        if ask == 1:
            roots = {q.name: math.sqrt(q.importance * q.variance(mechanisms[q.name])) for q in questions}
            weights = {name: round(root / sum(roots.values()), 4) for name, root in roots.items()}
            if min(weights.values()) <= 0 or max(weights.values()) - min(weights.values()) < 0.01 / len(questions):
                weights = None
        found.append(Questionnaire(mechanisms, ask, weights))
    return found


def _faked(questions: Sequence[Question], budget: float, ceiling: float | None) -> list[Questionnaire]:
    """One question each among fakes, with the largest epsilon that both ceilings allow: all direct, or each at its best."""
    if len(questions) < 2 or not all(question.fakeable for question in questions):
        return []
    kinds = range(max(len(question.candidates(1.0, fakeable=True)) for question in questions))

    def made(epsilon: float, kind: int) -> Questionnaire:
        chosen = {}
        for question in questions:
            candidates = question.candidates(epsilon, fakeable=True)
            chosen[question.name] = candidates[min(kind, len(candidates) - 1)]
        return Questionnaire(chosen, fake=True)

    return [made(_largest(lambda epsilon, kind=kind: made(epsilon, kind), budget, ceiling), kind) for kind in kinds]  # type: ignore[misc]


def _largest(make: Callable[[float], Questionnaire], budget: float, ceiling: float | None) -> float:
    """The largest epsilon, to four digits, with which no answer loses more than the ceiling."""
    if ceiling is None or _largest_answer(make(budget)) <= ceiling:
        return budget
    low, high = max(SMALLEST_EPSILON, min(ceiling, budget)), budget
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        if _largest_answer(make(middle)) <= ceiling:
            low = middle
        else:
            high = middle
    return low


def _largest_answer(survey: Questionnaire) -> float:
    return max(survey.answer_epsilon(name) for name in survey.names)


def _variance(survey: Questionnaire, question: Question, population: int) -> float:
    """Of the planned share, or of the mean relative to its range."""
    reached = 1.0 if survey.fake else survey.inclusion(question.name)
    return question.variance(survey.estimator(question.name)) / (population * reached)


def _error(survey: Questionnaire, questions: Sequence[Question], population: int) -> float:
    weights = [question.importance for question in questions]
    squares = [_variance(survey, question, population) for question in questions]
    return math.sqrt(float(np.average(squares, weights=weights)))
