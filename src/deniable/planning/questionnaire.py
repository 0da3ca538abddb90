"""Several questions under one budget: who is asked what, with which mechanism, and how well each
question will be answered.

The squared error of a question is its variance (for a number, relative to its range) times its
importance, and the sum over the questions is minimised. Three ways are compared, each at its best:

* **split**: everybody answers everything, and the epsilons add up to the budget: in equal parts, or
  so that the sum of errors is smallest (:mod:`deniable.planning.splitting`);
* **sampled** (SMP): everybody answers `ask` of the d questions, drawn at random, each with 1/`ask`
  of the budget; for `ask` = 1, question j is drawn with probability proportional to the root of
  importance times variance, which is optimal (Neyman 1934);
* **fake**: one question is answered with the whole budget and the others with fake data (RS+FD). A
  row loses as much as in sampling, so the errors are larger; it wins only if single answers have
  their own ceiling (`answer_epsilon`), because nobody sees which answer is true
  (:mod:`deniable.mechanisms.questionnaire`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import get_args

import numpy as np

from deniable.checks import SMALLEST_EPSILON, check_confidence, check_count, check_epsilon
from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.mechanisms.questionnaire import Questionnaire
from deniable.numerics import boundary
from deniable.planning.precision import FEWEST_REPORTS
from deniable.planning.questionnaire_plan import (
    QuestionnairePlan,
    Split,
    Way,
    WayOfAsking,
    question_variance,
)
from deniable.planning.questions import Question
from deniable.planning.splitting import split_budget

__all__ = ["plan_questionnaire"]


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
    """How to ask several questions within one budget, minimising the sum of importance times
    squared error.

    `epsilon` bounds the loss of a person's whole row, `answer_epsilon` that of one answer. `way` is
    "split", "sampled" or "fake"; without it, all are compared. `split` says how a budget is split
    among the questions: by "importance", or "even".

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
            made = [
                WayOfAsking(name, survey, _error(survey, asked, population)) for survey in make()
            ]
            if made:
                found.append(min(made, key=lambda other: other.error))
    if not found:
        rule = (
            "needs at least two questions"
            if len(asked) < 2
            else "needs questions with a single choice"
        )
        raise ParameterError("way", way, rule)
    plan = QuestionnairePlan(
        asked,
        population,
        budget,
        ceiling,
        confidence,
        tuple(sorted(found, key=lambda other: other.error)),
    )
    fewest = min(planned.reports for planned in plan.expected)
    if fewest < FEWEST_REPORTS:
        enough = math.ceil(population * FEWEST_REPORTS / fewest)
        raise InfeasiblePlanError(
            f"a question would be answered by about {fewest:.0f} people", {"population": enough}
        )
    return plan


def _splits(
    questions: Sequence[Question], budget: float, ceiling: float | None, split: Split
) -> list[Questionnaire]:
    """Everybody answers everything: evenly, or also in proportion to importance and by the least
    sum of errors."""
    total = sum(question.importance for question in questions)
    ways = [[budget / len(questions)] * len(questions)]
    if split == "importance":
        costs = [
            lambda epsilons, question=question: question.importance * question.variances(epsilons)
            for question in questions
        ]
        ways.append([_round_down(part) for part in split_budget(costs, budget, ceiling)])
        ways.append([_round_down(budget * question.importance / total) for question in questions])
    if ceiling is not None:
        ways = [[min(part, ceiling) for part in parts] for parts in ways]
    return [
        Questionnaire({q.name: q.mechanism(part) for q, part in zip(questions, parts, strict=True)})
        for parts in ways
    ]


def _round_down(epsilon: float) -> float:
    digits = 3 - math.floor(math.log10(epsilon))
    return float(math.floor(epsilon * 10**digits * (1 + 1e-12)) / 10**digits)


def _sampled(
    questions: Sequence[Question], budget: float, ceiling: float | None
) -> list[Questionnaire]:
    """One question each, drawn by weight, and every larger number, drawn uniformly."""
    found = []
    for ask in range(1, len(questions)):
        part = budget / ask if ceiling is None else min(budget / ask, ceiling)
        mechanisms = {question.name: question.mechanism(part) for question in questions}
        weights = None
        if ask == 1:
            roots = {
                q.name: math.sqrt(q.importance * q.variance(mechanisms[q.name])) for q in questions
            }
            weights = {name: round(root / sum(roots.values()), 4) for name, root in roots.items()}
            if min(weights.values()) <= 0 or max(weights.values()) - min(
                weights.values()
            ) < 0.01 / len(questions):
                weights = None
        found.append(Questionnaire(mechanisms, ask, weights))
    return found


def _faked(
    questions: Sequence[Question], budget: float, ceiling: float | None
) -> list[Questionnaire]:
    """One question each among fakes, with the largest epsilon that both ceilings allow: all direct,
    or each at its best."""
    if len(questions) < 2 or not all(question.fakeable for question in questions):
        return []
    kinds = range(max(len(question.candidates(1.0, fakeable=True)) for question in questions))

    def made(epsilon: float, kind: int) -> Questionnaire:
        chosen = {}
        for question in questions:
            candidates = question.candidates(epsilon, fakeable=True)
            chosen[question.name] = candidates[min(kind, len(candidates) - 1)]
        return Questionnaire(chosen, fake=True)

    return [
        made(_largest(lambda epsilon, kind=kind: made(epsilon, kind), budget, ceiling), kind)  # type: ignore[misc]
        for kind in kinds
    ]


def _largest(make: Callable[[float], Questionnaire], budget: float, ceiling: float | None) -> float:
    """The largest epsilon, to four digits, with which no answer loses more than the ceiling."""
    if ceiling is None or _largest_answer(make(budget)) <= ceiling:
        return budget
    low = max(SMALLEST_EPSILON, min(ceiling, budget))
    return boundary(
        lambda epsilon: _largest_answer(make(epsilon)) <= ceiling, budget, low, relative=1e-4
    )


def _largest_answer(survey: Questionnaire) -> float:
    return max(survey.answer_epsilon(name) for name in survey.names)


def _error(survey: Questionnaire, questions: Sequence[Question], population: int) -> float:
    weights = [question.importance for question in questions]
    squares = [question_variance(survey, question, population) for question in questions]
    return math.sqrt(float(np.average(squares, weights=weights)))
