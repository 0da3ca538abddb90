"""From a poll to the queries that ask it, and the ± that so many answers give."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from deniable.numerics import normal_quantile
from deniable.poll.poll import Poll
from deniable.poll.questions import PollQuestion
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule

__all__ = ["MOST_LIVE", "expected_half_width", "queries_of"]

MOST_LIVE = 168
"""Into how many epochs a poll with live results is cut: hourly, over a week."""
_SHORTEST = 10
_LEAST_GRACE, _MOST_GRACE = 1800, 86_400
"""Seconds in which a phone that was offline, or a person who hesitates, may still send."""


def queries_of(poll: Poll) -> list[Query]:
    """One query per question. Each device answers each of them once, and the epsilons add up to
    the poll's."""
    return [_query(poll, question) for question in poll.questions]


def _query(poll: Poll, question: PollQuestion) -> Query:
    schedule = _schedule(poll)
    return Query(
        id=poll.query_id(question),
        analyst=poll.asker,
        question=question.text[poll.languages[0]],
        sql="",
        ask="form",
        once=True,
        public_results=poll.results != "private",
        columns=[question.column()],
        schedule=schedule,
        proxies=[operator.url for operator in poll.operators],
        mechanism=_mechanism(poll.epsilon_each, question),
        minimum_cohort=poll.minimum,
        population=poll.population,
        rows="all" if question.most > 1 else "random",
        ones=question.most,
        grace=max(_LEAST_GRACE, min(_MOST_GRACE, 24 * schedule.every)),
    )


def _mechanism(epsilon: float, question: PollQuestion) -> dict[str, Any]:
    """The most accurate mechanism whose report a person can read."""
    k = question.n_options
    if question.kind == "several":
        return {"name": "OptimizedUnary", "epsilon": epsilon / question.most}
    direct = k < 3 * math.exp(epsilon) + 2  # Wang et al. 2017
    return {"name": "DirectEncoding" if direct else "OptimizedUnary", "epsilon": epsilon}


def _schedule(poll: Poll) -> Schedule:
    """Live results are windows that all begin before the poll and end an epoch apart, so that each
    holds every answer until then. Otherwise the poll is one epoch, whose answers mix best."""
    life = poll.end - poll.start
    if poll.results != "live":
        return Schedule(poll.start, poll.end, life, life, life)
    every = max(_SHORTEST, -(-life // MOST_LIVE))
    life = -(-life // every) * every
    return Schedule(poll.end - 2 * life, poll.end, every, life, every)


def expected_half_width(queries: Sequence[Query], n_reports: int) -> float:
    """The largest half-width of a 95 % interval that so many answers give, of any question and
    proportion.

    A supported option's report rate lies between b and a, and the estimate is its deviation from b
    over a - b; the variance of a rate is largest next to one half.
    """
    z = normal_quantile(0.975)
    widest = 0.0
    for query in queries:
        for a, b in zip(*query.mechanism.support(), strict=True):
            rate = min(max(0.5, float(b)), float(a))
            deviation = math.sqrt(rate * (1 - rate) / n_reports)
            widest = max(widest, z * deviation / float(a - b))
    return widest
