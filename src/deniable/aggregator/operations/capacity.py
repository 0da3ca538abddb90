"""The cost function of counting: how many answers per second this aggregator really sustains, by
size class.

PrivApprox assumes a function from a budget to what can be computed with it (Quoc 2017, 2.2.5 and
appendix B). Here it is measured: each busy step of the engine (reading, joining, counting and
committing) adds its answers and seconds to those of its size class, and earlier measurements fade,
so that the figure follows the machine. A step of Spark is a whole batch.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypedDict

from deniable.aggregator.counting.catalogue import CountedChannel
from deniable.aggregator.counting.conservation import OUTSIDE, Ledger
from deniable.documents import Timestamp, WrittenAs, times_of
from deniable.queries.times import with_times

__all__ = ["CapacityDocument", "CapacityMeter", "capacity"]

_FEWEST = 1000
"""With fewer answers, the time of a step says more about the pause between steps than about
counting."""
_FADE = 0.98
"""What is left of the older figures after each busy step: the last fifty steps weigh most."""


class MeasuredClass(TypedDict):
    """What was measured for one size class of shares."""

    size_class: int
    answers_per_second: float
    answers: float
    """How many recent answers that is measured from."""
    updated: Timestamp


class CapacityDocument(TypedDict):
    """What the engine recently sustained."""

    capacity: list[Annotated[dict[str, Any], WrittenAs(MeasuredClass)]]


class CapacityMeter:
    """Times an engine's steps. What one step measured is stored by the next, so that no commit is
    added."""

    def __init__(self, n_proxies: int) -> None:
        self._n_proxies = n_proxies
        self._measured: dict[int, tuple[float, float]] = {}
        self._answers: dict[int, float] = {}

    @contextmanager
    def step(self) -> Iterator[None]:
        """Time the body; steps with little to do are left out."""
        self._answers = {}
        start = time.perf_counter()
        yield
        self.took(self._answers, time.perf_counter() - start)

    def took(self, answers: Mapping[int, float], seconds: float) -> None:
        """Record how long the answers of each size class took; too few answers say nothing and are
        left out."""
        total = sum(answers.values())
        if total < _FEWEST:
            return
        for size_class, n in answers.items():
            before = self._measured.get(size_class, (0.0, 0.0))
            self._measured[size_class] = (
                before[0] * _FADE + n,
                before[1] * _FADE + seconds * n / total,
            )

    def counted(self, ledger: Ledger, channels: Mapping[int, CountedChannel]) -> None:
        """Record the shares that a step brought."""
        for size_class, n in self.answers(ledger, channels).items():
            self._answers[size_class] = self._answers.get(size_class, 0.0) + n

    def answers(self, ledger: Ledger, channels: Mapping[int, CountedChannel]) -> dict[int, float]:
        """How many answers of each size class the shares in a ledger amount to."""
        found: dict[int, float] = {}
        for (_, channel, epoch), account in ledger.accounts.items():
            if epoch != OUTSIDE and channel in channels and account.received:
                size_class = channels[channel].size_class
                found[size_class] = found.get(size_class, 0.0) + account.received / self._n_proxies
        return found

    def store(self, connection: sqlite3.Connection, now: int) -> None:
        """Store what was measured, inside the caller's transaction."""
        if not self._measured:
            return
        rows = [
            (size_class, answers, seconds, now)
            for size_class, (answers, seconds) in self._measured.items()
        ]
        connection.executemany("INSERT OR REPLACE INTO capacity VALUES (?, ?, ?, ?)", rows)

    def load(self, connection: sqlite3.Connection) -> None:
        """Continue from what an earlier run measured."""
        self._measured = {
            each["size_class"]: (each["answers"], each["answers"] / each["answers_per_second"])
            for each in capacity(connection)
        }


def capacity(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """For each size class that was counted: answers per second, the number of recent answers, and
    when it was last measured."""
    rows = connection.execute(
        "SELECT size_class, answers, seconds, updated FROM capacity ORDER BY size_class"
    )
    measured: list[MeasuredClass] = [
        {
            "size_class": size_class,
            "answers_per_second": answers / seconds,
            "answers": answers,
            "updated": updated,
        }
        for size_class, answers, seconds, updated in rows
    ]
    return [with_times(each, *times_of(MeasuredClass)) for each in measured]
