"""How long a schedule lasts within a person's limits: when devices fall silent, for the analyst and the owner."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from deniable.queries.query import Query
from deniable.queries.schedule import spoken_duration
from deniable.queries.times import iso_time

__all__ = ["Silence", "lifetime_epsilon", "most_sampling", "own_limits", "silence", "silence_words", "spending_words"]

_DAY = 86_400


@dataclass(frozen=True)
class Silence:
    """When a device that answers as often as expected will have used up a limit."""

    answers: int
    """How many answers the limit pays for."""
    epochs: int
    """The expected number of epochs until then."""
    at: int
    """The time, in seconds of UTC."""
    why: str
    """The limit, in words."""
    period: int | None = None
    """For a limit over a period: after this many seconds, answers are possible again."""

    def __str__(self) -> str:
        many = f"{self.answers:,} answer{'' if self.answers == 1 else 's'}"
        again = "" if self.period is None else f", until earlier answers are {spoken_duration(self.period)} old"
        return f"{self.why} pays for {many}: at this schedule a device falls silent about {iso_time(self.at)}{again}"


def silence(query: Query, limits: Iterable[tuple[float, int | None, str]], start: int | None = None) -> Silence | None:
    """The first limit to be used up, from `start` on, before the query ends; None if all last.

    A limit is an epsilon, its period in seconds or None for life, and a name for it. A memoized query is paid for once.
    """
    first = query.schedule.origin if start is None else max(start, query.schedule.origin)
    if query.memoize:
        return None
    found: list[Silence] = []
    for epsilon, period, why in limits:
        answers = math.floor(epsilon / query.epsilon_local * (1 + 1e-12))
        epochs = math.ceil(answers / most_sampling(query)) if answers else 0
        at = first + epochs * query.schedule.every
        lasts = math.inf if period is None else first + period
        if at < min(query.schedule.expires, lasts):
            found.append(Silence(answers, epochs, at, why, period))
    return min(found, key=lambda each: each.at, default=None)


def lifetime_epsilon(query: Query) -> float:
    """The most that all answers of one person to a query, and to all versions its envelope allows, can cost together.

    Every epoch answered, at the highest epsilon an answer may have; less where the query's own budget ends it earlier, or where
    permanent answers are paid for once.
    """
    answer = query.epsilon_local if query.envelope is None else max(query.epsilon_local, query.envelope.epsilon_per_answer)
    most = query.epsilon_charged * query.most_rows * query.distinct if query.memoize else answer * query.schedule.n_epochs
    return float(most if query.budget.epsilon is None else min(most, query.budget.epsilon))


def most_sampling(query: Query) -> float:
    """The largest sampling probability of any stratum."""
    return max([query.sampling if s.sampling is None else s.sampling for s in query.strata], default=query.sampling)


def own_limits(query: Query) -> list[tuple[float, int | None, str]]:
    """The query's own limits."""
    return (
        [] if query.budget.epsilon is None else [(query.budget.epsilon, None, f"the query's budget of {query.budget.epsilon:g}")]
    )


def spending_words(query: Query) -> list[str]:
    """The expected cost to a person per answer, per day and over the query's life, in words."""
    sampling, each, schedule = most_sampling(query), query.epsilon_local, query.schedule
    if query.memoize:
        whole = query.epsilon_charged * query.most_rows * query.distinct
        return [f"One answer costs {each:.4g}; all answers together cost {whole:.4g}, paid with the first."]
    a_day = sampling * _DAY / schedule.every
    life = sampling * schedule.n_epochs
    day = f"{a_day:,.1f} answers per day" if a_day >= 1 else f"one answer in {1 / a_day:,.1f} days"
    cost = f"{life * each:,.0f}" if life * each >= 100 else f"{life * each:.4g}"
    return [
        f"One answer costs {each:.4g}. A device gives about {day}, which is {a_day * each:.4g} per day.",
        f"Until the end of the query it would give about {life:,.0f} answers, which would cost {cost}.",
    ]


def silence_words(query: Query, limits: Any = ()) -> list[str]:
    """When devices fall silent under the query's own budget and a person's limits, in words."""
    found = silence(query, [*own_limits(query), *limits])
    if found is None:
        return []
    share = (found.at - query.schedule.origin) / (query.schedule.expires - query.schedule.origin)
    return [
        f"At this schedule a device falls silent about {iso_time(found.at)}, after {100 * share:.1f} % of the query's life.",
        "To last longer, ask less often or sample less.",
    ]
