"""What a person risks by answering a query: per answer, per month and over the query's life,
against all parties together."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal, TypedDict

from deniable.queries.query import Query

__all__ = ["MONTH", "RiskDocument", "life_risk", "query_risk"]

MONTH = 30 * 86_400
_PRIOR = 0.10


class RiskDocument(TypedDict):
    """What a person risks over some answers."""

    over: Literal["answer", "month", "life"]
    answers: int
    epsilon: float
    factor: float
    """By how much the odds of any guess about the person can change."""
    prior: float
    belief: float
    """What a guess of probability `prior` can become."""
    note: Literal["", "replayed", "silent"]


def query_risk(query: Query) -> list[RiskDocument]:
    """The risk of answering a query as it is signed."""
    return life_risk(
        query.epsilon_local,
        query.schedule.every,
        1 if query.once else query.schedule.n_epochs,
        query.budget.epsilon,
        query.memoize,
    )


def life_risk(
    epsilon: float, every: int, epochs: int, budget: float | None, memoize: bool
) -> list[RiskDocument]:
    """The risk of answers with this local loss, one per epoch, until the budget is used up."""
    affordable = epochs if budget is None else int(Fraction(budget) / Fraction(epsilon))
    life = max(1, min(epochs, affordable))
    month = max(1, min(math.ceil(MONTH / every), life))
    if memoize:
        return [
            _over("answer", 1, epsilon),
            _over("month", month, epsilon, "replayed"),
            _over("life", life, epsilon, "replayed"),
        ]
    ended: Literal["", "silent"] = "silent" if life < epochs else ""
    return [
        _over("answer", 1, epsilon),
        _over("month", month, month * epsilon),
        _over("life", life, life * epsilon, ended),
    ]


def _over(
    what: Literal["answer", "month", "life"],
    answers: int,
    epsilon: float,
    note: Literal["", "replayed", "silent"] = "",
) -> RiskDocument:
    factor = math.exp(min(epsilon, 700.0))
    return {
        "over": what,
        "answers": answers,
        "epsilon": epsilon,
        "factor": factor,
        "prior": _PRIOR,
        "belief": _PRIOR * factor / (_PRIOR * factor + 1 - _PRIOR),
        "note": note,
    }
