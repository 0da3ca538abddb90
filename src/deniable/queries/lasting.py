"""How long a schedule lasts within a person's limits: when devices fall silent, for the analyst and
the owner."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from deniable.display import loss_text
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.privacy.release_accountant import Releases, StatedLoss
from deniable.queries.query import Query
from deniable.queries.schedule import spoken_duration
from deniable.queries.times import iso_time

__all__ = [
    "Silence",
    "lifetime_epsilon",
    "linkability_words",
    "own_limits",
    "replay_words",
    "sampled_life",
    "silence",
    "silence_words",
    "spending_words",
    "worst_releases",
]

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
        again = (
            ""
            if self.period is None
            else f", until earlier answers are {spoken_duration(self.period)} old"
        )
        return (
            f"{self.why} pays for {many}: at this schedule a device falls silent about"
            f" {iso_time(self.at)}{again}"
        )


def silence(
    query: Query, limits: Iterable[tuple[float, int | None, str]], start: int | None = None
) -> Silence | None:
    """The first limit to be used up, from `start` on, before the query ends; None if all last.

    A limit is an epsilon, its period in seconds or None for life, and a name for it.
    A memoized query, and one that is answered once, is paid for once.
    """
    first = query.schedule.origin if start is None else max(start, query.schedule.origin)
    if query.memoize or query.once:
        return None
    found: list[Silence] = []
    for epsilon, period, why in limits:
        answers = math.floor(epsilon / query.epsilon_local * (1 + 1e-12))
        epochs = math.ceil(answers / query.most_sampling) if answers else 0
        at = first + epochs * query.schedule.every
        lasts = math.inf if period is None else first + period
        if at < min(query.schedule.expires, lasts):
            found.append(Silence(answers, epochs, at, why, period))
    return min(found, key=lambda each: each.at, default=None)


def lifetime_epsilon(query: Query) -> float:
    """The most that all answers of one person to a query, and to all versions its envelope allows,
    can cost together.

    Every epoch answered, at the highest epsilon an answer may have; less where the query's own
    budget ends it earlier, or where permanent answers are paid for once.
    """
    most = worst_releases(query).life.epsilon
    return most if query.budget.epsilon is None else min(most, query.budget.epsilon)


def sampled_life(query: Query) -> StatedLoss:
    """The most that all answers of one person lose against anyone who cannot tell who took part,
    whatever a controller chooses.

    Never more than the query's own budget, which devices enforce.
    """
    found, most = worst_releases(query).sampled_life(query.crowd), lifetime_epsilon(query)
    return StatedLoss(most) if most <= found.epsilon else found


def worst_releases(query: Query) -> Releases:
    """What leaves the devices if a controller chooses the worst that the query's envelope allows;
    the query's own without one.

    That is the highest sampling in every epoch and, where the coins have ranges, the highest
    epsilon of an answer. The coins of permanent answers have none; but inverted ones draw permanent
    answers of their own.
    """
    own, envelope = query.releases, query.envelope
    if envelope is None:
        return own
    free = (
        any(low < high for name, (low, high) in envelope.ranges().items() if name != "sampling")
        or envelope.inversion
    )
    worst = replace(own, sampling=max(own.sampling, envelope.sampling[1]))
    if query.memoize and envelope.inversion:
        return replace(worst, distinct=2 * own.distinct)
    if query.memoize or not free:
        return worst
    return replace(worst, mechanism=max(envelope.epsilon_per_answer, own.local.epsilon), rows=1)


def own_limits(query: Query) -> list[tuple[float, int | None, str]]:
    """The query's own limits."""
    return (
        []
        if query.budget.epsilon is None
        else [(query.budget.epsilon, None, f"the query's budget of {query.budget.epsilon:g}")]
    )


def spending_words(query: Query) -> list[str]:
    """The expected cost to a person per answer, per day and over the query's life, in words."""
    sampling, each, schedule = query.most_sampling, query.epsilon_local, query.schedule
    if query.memoize:
        return [
            f"One report loses {each:.4g}; all reports together lose {query.releases.life}, paid"
            " with the first."
        ]
    if query.once:
        return [
            "A device answers once at most, whatever the number of epochs. The answer costs"
            f" {each:.4g}."
        ]
    a_day = sampling * _DAY / schedule.every
    life = sampling * schedule.n_epochs
    day = f"{a_day:,.1f} answers per day" if a_day >= 1 else f"one answer in {1 / a_day:,.1f} days"
    cost = f"{life * each:,.0f}" if life * each >= 100 else f"{life * each:.4g}"
    return [
        (
            f"One answer costs {each:.4g}. A device gives about {day}, which is {a_day * each:.4g}"
            " per day."
        ),
        (
            f"Until the end of the query it would give about {life:,.0f} answers, which would cost"
            f" {cost}."
        ),
    ]


def silence_words(query: Query, limits: Any = ()) -> list[str]:
    """When devices fall silent under the query's own budget and a person's limits, in words."""
    found = silence(query, [*own_limits(query), *limits])
    if found is None:
        return []
    proportion = (found.at - query.schedule.origin) / (
        query.schedule.expires - query.schedule.origin
    )
    return [
        (
            f"At this schedule a device falls silent about {iso_time(found.at)}, after"
            f" {100 * proportion:.1f} % of the query's life."
        ),
        "To last longer, ask less often or sample less.",
    ]


def linkability_words(query: Query) -> list[str]:
    """Whether anyone who reads the log or the history can tell that two reports came from the same
    device, in words."""
    if not query.memoize:
        return []
    same, other = query.mechanism.equal_reports() or (None, None)
    if isinstance(query.mechanism, MemoizedMechanism):
        return [
            "Every report randomizes the permanent answer once more: two reports of a device are"
            f" equal with probability {_chance(same)}, those of two devices with the same answer"
            f" with {_chance(other)}."
        ]
    by_chance = "rarely" if other is None else f"with probability {_chance(other)}"
    return [
        "Permanent answers are sent as they are: all reports of a device are equal, and those of"
        f" two devices with the same answer {by_chance}. Equal reports link a device's messages"
        " over epochs for anyone who reads the log or the history."
    ]


def replay_words(query: Query) -> str:
    """For a receipt: what one report and all reports lose, and whether they can be linked; nothing
    for fresh answers."""
    if not query.memoize:
        return ""
    losses = (
        f"One report loses {loss_text(query.epsilon_local)}, all reports together at most"
        f" {query.releases.life}"
    )
    if isinstance(query.mechanism, MemoizedMechanism):
        return (
            f"{losses}; each is randomized once more, so that they are not equal, though still"
            " alike"
        )
    return (
        f"{losses}; all are equal, which links your messages for anyone who reads the log or the"
        " history"
    )


def _chance(probability: float | None) -> str:
    return "an unknown probability" if probability is None else f"{probability:.2g}"
