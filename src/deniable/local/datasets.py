"""Synthetic populations for the questions of PrivApprox's case studies (Quoc 2017, section 6.1).

The paper's data (New York taxis in 2013, household meters) are not ours to ship. These are drawn
from simple distributions of about the same shape, reproducibly from a seed, so that the truth is
known, which only a simulation allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.queries.columns.column import Column

__all__ = ["DATASETS", "Dataset", "dataset"]

_Draw = Callable[[np.random.Generator, int], NDArray[Any]]


@dataclass(frozen=True)
class Dataset:
    """A table that every client has, the question about it, and how a client's rows are drawn."""

    name: str
    clients: str
    """What the clients are, in the plural."""
    question: str
    table: str
    kinds: dict[str, str]
    """The table's columns: first the row number, which the SQL sorts by, then the value."""
    unit: str
    buckets: tuple[Any, ...]
    draw: _Draw
    other: bool = False
    n_rows: int = 3
    """Rows per client. The question is about the last one."""

    @property
    def sql(self) -> str:
        """The query each client runs: the value of the newest row."""
        order, value = self.kinds
        return f"SELECT {value} FROM {self.table} ORDER BY {order} DESC LIMIT 1"  # noqa: S608 - our own names

    @property
    def columns(self) -> list[Column]:
        """The buckets of the answer."""
        return [Column(self.unit, self.buckets, other=self.other)]

    def rows(self, n_clients: int, seed: int) -> list[list[tuple[int, Any]]]:
        """The rows of each client: number and value."""
        values = (
            self.draw(np.random.default_rng(seed), n_clients * self.n_rows)
            .reshape(n_clients, self.n_rows)
            .tolist()
        )
        return [list(enumerate(row, start=1)) for row in values]


def _miles(random: np.random.Generator, n: int) -> NDArray[Any]:
    """Log-normal trips: median 1.8 miles, and one in fifty above ten."""
    return np.round(random.lognormal(np.log(1.8), 0.85, n), 2)


def _kilowatt_hours(random: np.random.Generator, n: int) -> NDArray[Any]:
    """Half hours of a household: mostly idle, sometimes a stove or a heater; at most 3 kWh, the end
    of the paper's buckets."""
    idle, busy = random.gamma(2.0, 0.12, n), random.gamma(4.0, 0.35, n)
    return np.round(np.minimum(np.where(random.random(n) < 0.65, idle, busy), 3.0), 3)


_TOPICS = ("#sport", "#music", "#news", "#weather", "#cats")
_TOPIC_PROPORTIONS = (0.22, 0.18, 0.15, 0.08, 0.05)
_WORDS = ("what a day", "again", "did you see this", "not bad", "at last", "who knew")


def _texts(random: np.random.Generator, n: int) -> NDArray[Any]:
    """Short texts, two thirds of them about one of a few topics."""
    topics = np.array([f"{topic} " for topic in _TOPICS] + ["@friend ", ""])
    rest = 1 - sum(_TOPIC_PROPORTIONS)
    chosen = random.choice(topics, n, p=[*_TOPIC_PROPORTIONS, 0.5 * rest, 0.5 * rest])
    return np.char.add(chosen, random.choice(np.array(_WORDS), n))


DATASETS = {
    each.name: each
    for each in (
        Dataset(
            "taxi",
            "taxis",
            "How many miles was your last trip?",
            "trips",
            {"trip": "INTEGER", "miles": "REAL"},
            "miles",
            (*(f"[{mile},{mile + 1})" for mile in range(10)), "[10,inf)"),
            _miles,
        ),
        Dataset(
            "electricity",
            "households",
            "How many kWh did your household use in the last half hour?",
            "meter",
            {"half_hour": "INTEGER", "kwh": "REAL"},
            "kWh",
            ("[0,0.5]", "(0.5,1]", "(1,1.5]", "(1.5,2]", "(2,2.5]", "(2.5,3]"),
            _kilowatt_hours,
        ),
        Dataset(
            "tweets",
            "people",
            "What was your last post about?",
            "posts",
            {"post": "INTEGER", "words": "TEXT"},
            "words",
            (*({"glob": f"{topic} *"} for topic in _TOPICS), {"glob": "@*"}),
            _texts,
            other=True,
        ),
    )
}


def dataset(name: str) -> Dataset:
    """The dataset of that name.

    >>> dataset("electricity").sql
    'SELECT kwh FROM meter ORDER BY half_hour DESC LIMIT 1'
    """
    if name not in DATASETS:
        raise ParameterError("dataset", name, f"must be one of {', '.join(DATASETS)}")
    return DATASETS[name]
