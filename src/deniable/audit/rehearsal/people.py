"""The people of a rehearsal: how many there are, their true answers, and the query as it is put to
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.client.simulation.fleet import Fleet
from deniable.errors import ParameterError
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule, spoken_duration
from deniable.randomness import Source

__all__ = ["Cohort", "assumed_proportions", "make_cohort", "rehearsed_query"]

_Floats = NDArray[np.float64]
_MOST_EPOCHS_PER_WINDOW = 12


def rehearsed_query(query: Query, people: int, windows: int) -> tuple[Query, list[str]]:
    """The query as rehearsed, and how it differs from the original.

    Windows do not overlap and have their own people, so they are independent. A stated population
    becomes the simulated one.
    """
    notes = []
    schedule = query.schedule
    epochs = schedule.window // schedule.every
    if epochs > _MOST_EPOCHS_PER_WINDOW:
        notes.append(
            f"a window has {epochs:,} epochs, and is rehearsed with {_MOST_EPOCHS_PER_WINDOW} of"
            " them, so its ± is wider here"
        )
        epochs = _MOST_EPOCHS_PER_WINDOW
    window = epochs * schedule.every
    if schedule.slide != window:
        notes.append(
            "windows follow each other, while those of the query slide by"
            f" {spoken_duration(schedule.slide)}"
        )
    changes: dict[str, Any] = {
        "schedule": Schedule(
            schedule.origin, schedule.origin + windows * window, schedule.every, window, window
        )
    }
    stated = [stratum.population for stratum in query.strata]
    if query.population is not None:
        changes["population"] = people
        if query.population != people:
            notes.append(
                f"{people:,} people are simulated, of the {query.population:,} that the query"
                " states"
            )
    if query.strata and all(each is not None for each in stated):
        sizes = _stratum_sizes(query, people)
        changes["strata"] = [
            replace(stratum, population=n) for stratum, n in zip(query.strata, sizes, strict=True)
        ]
    return query.revised(**changes), notes


def assumed_proportions(
    query: Query, given: Mapping[str, float] | Sequence[float] | None
) -> _Floats:
    """The assumed truth: the proportion of each label.

    Without `given`, each label's frequency is proportional to 1/rank, so that some are common and
    some rare. The remainder up to 1 answers outside every bucket, or `other` where there is one.
    """
    labels = query.labels
    if given is None:
        weights = 1 / np.arange(1, len(labels) + 1)
        return np.asarray(weights / weights.sum(), dtype=np.float64)
    if isinstance(given, Mapping):
        unknown = [label for label in given if label not in labels]
        if unknown:
            raise ParameterError(
                "proportions",
                unknown[0],
                f"is not a label of the query, whose labels are {_some(labels)}",
            )
        values = [given.get(label, 0.0) for label in labels]
    else:
        values = list(given)
        if len(values) != len(labels):
            raise ParameterError(
                "proportions",
                len(values),
                f"must number {len(labels)}, one for each of {_some(labels)}",
            )
    found = np.array(values, dtype=np.float64)
    if (
        not np.isfinite(found).all()
        or found.min() < 0
        or found.sum() > 1 + 1e-9
        or found.sum() <= 0
    ):
        raise ParameterError(
            "sum(proportions)",
            round(float(found.sum()), 9),
            "must be above 0 and at most 1, with none negative",
        )
    if query.buckets.complete:
        found[-1] += max(0.0, 1 - found.sum())
    return found


def _some(labels: Sequence[str]) -> str:
    return ", ".join(labels[:12]) + (", …" if len(labels) > 12 else "")


def _stratum_sizes(query: Query, n: int) -> list[int]:
    """How many of `n` people are in each stratum: as stated, or else the same number in each."""
    stated = [stratum.population for stratum in query.strata]
    weights = np.array([1 if None in stated else each for each in stated], dtype=np.float64)
    edges = np.rint(np.cumsum(weights / weights.sum()) * n).astype(int)
    sizes = np.diff(edges, prepend=0)
    if sizes.min() < 1:
        raise ParameterError(
            "people", n, f"must be enough for someone in each of {len(sizes)} strata"
        )
    return [int(size) for size in sizes]


@dataclass(frozen=True, eq=False, repr=False)
class Cohort:
    """The people of one window. Liars are not part of the fleet, but their true answers are part of
    the truth."""

    fleet: Fleet
    answers: NDArray[np.intp]
    present: NDArray[np.bool_]
    """Who is present in each epoch of the window, one row per epoch."""
    truth: _Floats
    """The proportions among everyone present, averaged over the epochs."""
    n_liars: int
    liar_strata: Any

    def __repr__(self) -> str:
        return f"<cohort of {self.fleet.n:,} people and {self.n_liars:,} liars>"


def make_cohort(
    query: Query,
    weights: _Floats | None,
    people: int,
    liars: int,
    churn: float,
    random: np.random.Generator,
    source: Source,
) -> Cohort:
    """People whose answers are drawn with the given weights; with churn, some leave after each
    epoch and others arrive.

    Without weights, everyone has their own bucket.
    """
    epochs = query.schedule.window // query.schedule.every
    honest = people - liars
    leaving = round(churn * honest)
    total = honest + leaving * (epochs - 1)
    present = np.zeros((epochs, total), dtype=np.bool_)
    there = np.arange(honest)
    for epoch in range(epochs):
        present[epoch, there] = True
        # the longest-present leave
        there = np.concatenate([there[leaving:], honest + epoch * leaving + np.arange(leaving)])
    answers = (
        np.arange(total + liars)
        if weights is None
        else _draw(query, weights, total + liars, random)
    )
    strata: Any = 0
    if query.strata:
        strata = np.repeat(np.arange(len(query.strata)), _stratum_sizes(query, total + liars))
        random.shuffle(strata)
    lying, speaking = answers[total:], answers[:total]
    counts = [_count(query, speaking[here]) + _count(query, lying) for here in present]
    truth = np.sum(counts, axis=0) / (epochs * people * query.most_rows)
    fleet = Fleet(
        query, total, strata=strata if np.ndim(strata) == 0 else strata[:total], source=source
    )
    return Cohort(
        fleet, speaking, present, truth, liars, strata if np.ndim(strata) == 0 else strata[total:]
    )


def _draw(query: Query, weights: _Floats, n: int, random: np.random.Generator) -> NDArray[np.intp]:
    """The true buckets of `n` people, as a fleet takes them."""
    k = len(weights)
    law = np.append(weights, max(0.0, 1 - weights.sum()))
    law /= law.sum()
    if query.ones == 1:
        shape = (n,) if query.most_rows == 1 else (n, query.most_rows)
        drawn = random.choice(k + 1, shape, p=law)
        return np.where(drawn == k, NONE, drawn).astype(np.intp)
    # Up to `ones` different buckets, sampled by weight: those with the largest random keys
    # (Efraimidis 2006).
    with np.errstate(divide="ignore"):
        keys = np.log(random.random((n, k))) / np.where(weights > 0, weights, np.nan)
    order = np.argsort(np.where(np.isnan(keys), -np.inf, keys), axis=1)[:, ::-1][
        :, : query.ones
    ].astype(np.intp)
    many = random.integers(1, query.ones + 1, n)
    order[(np.arange(query.ones) >= many[:, None]) | (weights[order] == 0)] = NONE
    return order


def _count(query: Query, answers: NDArray[np.intp]) -> _Floats:
    flat = answers.reshape(-1)
    return np.bincount(flat[flat >= 0], minlength=len(query.labels)).astype(np.float64)
