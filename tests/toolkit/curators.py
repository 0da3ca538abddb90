"""Many releases of one statistic, for simulations: planned and computed once, drawn each time."""

from __future__ import annotations

from typing import Any

from deniable.curator import Curator, question

__all__ = ["releases"]


def releases(
    curator: Curator, times: int, epsilon: Any, statistic: str, *arguments: Any, **options: Any
) -> list[Any]:
    """What so many calls of the curator's method would give, each with noise of its own."""
    view = curator._view
    _, (plan,) = view.plan([question(statistic, *arguments, **options)], epsilon)
    (rows,) = view.rows(plan.question)
    exact = plan.question.exact(rows, plan.protection)
    return [
        plan.question.answer(exact, plan.noise, plan.protection, plan.epsilon) for _ in range(times)
    ]
