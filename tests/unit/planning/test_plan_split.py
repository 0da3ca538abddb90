"""How a budget is split among questions: never worse with more of it, and never worse than any
simple split."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from deniable.planning import Question, plan_questionnaire
from deniable.planning.splitting import VarianceCurve, split_budget


def scale(
    points: int, name: str = "scale", importance: float = 1.0, proportion: float | None = None
) -> Question:
    return Question(name, tuple(range(1, points + 1)), importance=importance, proportion=proportion)


def spent(questions: Sequence[Question], epsilon: float) -> list[float]:
    plan = plan_questionnaire(questions, population=1_000, epsilon=epsilon, way="split")
    return [planned.mechanism.epsilon for planned in plan.expected]


def weighted_variance(questions: Sequence[Question], parts: Sequence[float]) -> float:
    """Exactly, of the mechanisms that these epsilons buy."""
    return sum(
        q.importance * q.variance(q.mechanism(part))
        for q, part in zip(questions, parts, strict=True)
    )


@pytest.mark.parametrize("points", [5, 6])
def test_a_single_scale_gets_what_helps_it(points: int) -> None:
    plan = plan_questionnaire([scale(points)], population=1_000, epsilon=4.0)
    even = plan_questionnaire([scale(points)], population=1_000, epsilon=4.0, split="even")
    assert plan.expected[0].margin <= even.expected[0].margin
    assert plan.expected[0].margin < 0.05
    assert spent([scale(points)], 4.0) == [pytest.approx(4.0)]


@pytest.mark.parametrize(
    "question",
    [
        *(scale(points) for points in (2, 3, 4, 5, 6, 7, 8, 10, 12)),
        *(scale(5, proportion=proportion) for proportion in (0.05, 0.5)),
        Question("news", tuple("abcde"), choose=2),
        Question("age", low=18, high=95, integers=True),
    ],
    ids=lambda question: f"{question.name}-{len(question.labels)}-{question.proportion}",
)
def test_the_error_of_a_question_never_rises_with_its_budget(question: Question) -> None:
    epsilons = np.linspace(0.1, 6, 80).tolist()
    mechanisms = [question.mechanism(epsilon) for epsilon in epsilons]
    assert all(
        m.epsilon <= epsilon * (1 + 1e-9) for m, epsilon in zip(mechanisms, epsilons, strict=True)
    )
    variances = np.array([question.variance(mechanism) for mechanism in mechanisms])
    # Mechanisms within 1 % of the best count as equal, and the simpler one is taken.
    assert (variances <= 1.0101 * np.minimum.accumulate(variances)).all()


@pytest.mark.slow
def test_the_split_is_at_least_as_good_as_even_and_proportional_ones_in_500_questionnaires() -> (
    None
):
    rng = np.random.default_rng(1)
    better = 0
    for _ in range(500):
        questions = [
            scale(
                int(rng.choice([2, 3, 4, 5, 6, 7, 10])),
                f"q{number}",
                float(rng.choice([0.5, 1, 2, 4])),
                rng.choice([None, 0.1, 0.5]),  # type: ignore[arg-type]
            )
            for number in range(rng.integers(1, 7))
        ]
        budget = float(rng.uniform(0.5, 10))
        total = sum(question.importance for question in questions)
        plan = plan_questionnaire(questions, population=10_000, epsilon=budget, way="split")
        assert sum(planned.mechanism.epsilon for planned in plan.expected) <= budget * (1 + 1e-9)
        found = 10_000 * sum(p.question.importance * p.stderr**2 for p in plan.expected)
        even = weighted_variance(questions, [budget / len(questions)] * len(questions))
        proportional = weighted_variance(
            questions, [budget * q.importance / total for q in questions]
        )
        # Parts are rounded down to four digits.
        assert found <= 1.002 * min(even, proportional), [
            (len(q.labels), q.importance, q.proportion) for q in questions
        ]
        better += found < 0.99 * min(even, proportional)
    assert better > 100


@pytest.mark.parametrize(
    "questions",
    [
        [scale(5, "a"), scale(6, "b")],
        [scale(5, "a", 4), scale(2, "b"), scale(6, "c", proportion=0.1)],
        [scale(6, "a"), scale(6, "b"), scale(7, "c")],
        [scale(4, "a"), scale(5, "b", 9)],
    ],
)
@pytest.mark.parametrize("budget", [0.8, 2.0, 4.0])
def test_no_point_of_a_grid_of_splits_is_better(questions: list[Question], budget: float) -> None:
    steps = 40
    sizes = budget / steps * np.arange(1, steps)
    costs = [
        [q.importance * q.variance(q.mechanism(float(size))) for size in sizes] for q in questions
    ]
    grid = min(
        sum(
            cost[step - 1] for cost, step in zip(costs, (*chosen, steps - sum(chosen)), strict=True)
        )
        for chosen in product(range(1, steps), repeat=len(questions) - 1)
        if sum(chosen) < steps
    )
    plan = plan_questionnaire(questions, population=1_000, epsilon=budget, way="split")
    assert 1_000 * sum(p.question.importance * p.stderr**2 for p in plan.expected) <= 1.01 * grid


def test_no_question_gets_more_than_its_ceiling() -> None:
    parts = split_budget([lambda e: 9 / e**2, lambda e: 1 / e**2], 3.0, 1.0)
    assert parts == pytest.approx([1.0, 1.0], rel=1e-4)
    assert max(parts) <= 1.0


def test_a_curve_that_rises_is_cut_at_the_place_where_it_does() -> None:
    curve = VarianceCurve.of(
        lambda epsilon: (epsilon < 1.2345, (1 if epsilon < 1.2345 else 3) / epsilon)
    )
    best, variance = curve.least_up_to(2.0)
    assert 1.234 < best < 1.2345
    assert variance == pytest.approx(1 / 1.2345, rel=1e-3)
    assert curve.least_up_to(30.0)[0] > 20  # where 3 / epsilon is less again
    assert curve.least_up_to(1e-6) == (1e-6, np.inf)


@pytest.mark.parametrize(
    ("high", "bins", "end"), [(100, 51, 101), (95, 48, 95), (200, 51, 203), (10, 11, 10)]
)
def test_whole_numbers_of_any_range_have_bins_of_equal_size(high: int, bins: int, end: int) -> None:
    mechanism = Question("number", low=0, high=high, integers=True).mechanism(2.0)
    assert (mechanism.bins, mechanism.high) == (bins, end)  # type: ignore[attr-defined]
