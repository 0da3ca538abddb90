"""How long a schedule can go on within a person's limits: when devices will fall silent, for the analyst and for the owner."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from deniable.queries.query import Query
from deniable.queries.schedule import spoken_duration
from deniable.queries.times import iso_time

__all__ = ["Silence", "most_sampling", "own_limits", "silence", "silence_words", "spending_words"]

_DAY = 86_400


@dataclass(frozen=True)
class Silence:
    """When a device that answers as often as expected has used up a limit."""

    answers: int
    """How many answers the limit pays for."""
    epochs: int
    """After how many epochs they are given, as expected."""
    at: int
    """The time, in seconds of UTC."""
    why: str
    """The limit, in words."""
    period: int | None = None
    """Of a limit over a period: after so many seconds an answer can be given again."""

    def __str__(self) -> str:
        many = f"{self.answers:,} answer{'' if self.answers == 1 else 's'}"
        again = "" if self.period is None else f", until earlier answers are {spoken_duration(self.period)} old"
        return f"{self.why} pays for {many}: at this schedule a device falls silent about {iso_time(self.at)}{again}"


def silence(query: Query, limits: Iterable[tuple[float, int | None, str]], start: int | None = None) -> Silence | None:
    """The first of some limits to be used up before the query ends, from `start` on; None if all of them last.

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


def most_sampling(query: Query) -> float:
    """The sampling probability of the stratum that is asked most."""
    return max([query.sampling if s.sampling is None else s.sampling for s in query.strata], default=query.sampling)


def own_limits(query: Query) -> list[tuple[float, int | None, str]]:
    """The limits that the query sets itself."""
    return (
        [] if query.budget.epsilon is None else [(query.budget.epsilon, None, f"the query's budget of {query.budget.epsilon:g}")]
    )


def spending_words(query: Query) -> list[str]:
    """What a query costs a person in one answer, in a day and in its life, as it can be expected, in words."""
    sampling, each, schedule = most_sampling(query), query.epsilon_local, query.schedule
    if query.memoize:
        whole = query.epsilon_charged * query.most_rows * query.distinct
        return [f"An answer costs {each:.4g}; all answers together cost {whole:.4g}, paid with the first."]
    a_day = sampling * _DAY / schedule.every
    life = sampling * schedule.n_epochs
    day = f"{a_day:,.1f} answers a day" if a_day >= 1 else f"one answer in {1 / a_day:,.1f} days"
    cost = f"{life * each:,.0f}" if life * each >= 100 else f"{life * each:.4g}"
    return [
        f"One answer costs {each:.4g}. A device gives about {day}, which is {a_day * each:.4g} a day.",
        f"To the end of the query it would give about {life:,.0f} answers, which would cost {cost}.",
    ]


def silence_words(query: Query, limits: Any = ()) -> list[str]:
    """The same about when devices fall silent, for the query's own budget and for some limits of a person."""
    found = silence(query, [*own_limits(query), *limits])
    if found is None:
        return []
    share = (found.at - query.schedule.origin) / (query.schedule.expires - query.schedule.origin)
    return [
        f"At this schedule a device falls silent about {iso_time(found.at)}, after {100 * share:.1f} % of the query's life.",
        "To last longer, ask less often or sample less.",
    ]
