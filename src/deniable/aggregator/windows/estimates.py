"""The estimate of a window: panes added up and solved, with an error that covers all its causes.

These are sampling, randomization, strata and a finite population.

A window's estimate is of the mean, over its epochs, of the population's proportions, each epoch
weighted by the people who could answer in it: by its reports or, if versions of the query sampled
differently, by its reports divided by the sampling. With n_e reports of U people in epoch e, and n
in all, panes are independent given the answers, and the variance of their pooled estimate is

    V = V_infinite - V_s / U_w,        U_w = U n^2 / sum n_e^2

which is the formula of docs/estimation.md for one epoch, and that for a population of m U for m
equal epochs. A query without a stated population gets V_infinite, which is never smaller.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.estimate_documents import LARGEST_SENT, LARGEST_SOLVED
from deniable.aggregator.windows.shuffled_loss import sampled_loss
from deniable.counts import Counts
from deniable.estimation.estimate import Estimate
from deniable.estimation.pooling import stratified, with_estimated_sizes
from deniable.estimation.report_counts import ReportCounts
from deniable.estimation.unbias import covariances_up_to
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.queries.query import Query
from deniable.randomness import ONE

__all__ = ["counted_versions", "estimate_period", "largest_influence"]


def estimate_period(
    versions: Sequence[Query], panes: Mapping[PaneKey, Counts], period: tuple[int, int]
) -> tuple[Query, int, Estimate | None]:
    """The newest version in some panes, how many answers can be used with it, and their estimate if
    there are enough."""
    counted, newest, same = counted_versions(versions, panes)
    used = {
        key: pane
        for key, pane in panes.items()
        if any(key.serial == query.serial for query in same)
    }
    n = sum(pane.n for pane in used.values())
    if n < max(query.minimum_cohort for query in [newest, *same]):
        return newest, n, None
    estimate = _estimate(same, used, period)
    if len(same) < len(counted):
        notes = (*estimate.notes, "answers to earlier versions with other buckets are left out")
        estimate = dataclasses.replace(estimate, notes=notes)
    return newest, n, estimate


def counted_versions(
    versions: Sequence[Query], panes: Mapping[PaneKey, Counts]
) -> tuple[list[Query], Query, list[Query]]:
    """The versions that have answers, the newest of them, and those with the same labels as it."""
    counted = [
        query
        for query in versions
        if any(key.serial == query.serial and pane.n for key, pane in panes.items())
    ]
    newest = counted[-1] if counted else versions[-1]
    # Shares of other buckets say nothing about these: a version that changed the labels starts
    # afresh.
    return counted, newest, [query for query in counted if query.labels == newest.labels]


def largest_influence(versions: Sequence[Query], panes: Mapping[PaneKey, Counts]) -> float:
    """The largest change that one lying report can make: in the stratum and version where it weighs
    most."""
    used = [(query, _by_stratum(query, panes)) for query in counted_versions(versions, panes)[2]]
    people = [_people(query, strata) for query, strata in used]
    worst = 0.0
    for (query, strata), mine in zip(used, people, strict=True):
        sizes = {stratum: _size(query, stratum, epochs) for stratum, epochs in strata.items()}
        of_version = mine / sum(people)
        for stratum, epochs in strata.items():
            weight = of_version * sizes[stratum] / sum(sizes.values())
            worst = max(
                worst,
                weight * float(query.mechanism.influence(sum(pane.n for pane in epochs)).max()),
            )
    return worst


def _by_stratum(query: Query, panes: Mapping[PaneKey, Counts]) -> dict[int, list[Counts]]:
    """The panes of a version that have answers, by stratum."""
    mine = [
        (key.stratum, pane) for key, pane in panes.items() if key.serial == query.serial and pane.n
    ]
    return {
        stratum: [pane for of, pane in mine if of == stratum]
        for stratum in sorted({of for of, _ in mine})
    }


def _people(query: Query, strata: Mapping[int, Sequence[Counts]]) -> float:
    """How many people could answer a version, each counted once per epoch: its answers divided by
    the sampling."""
    return sum(
        sum(pane.n for pane in epochs) / (query.sampling_of(stratum) / ONE)
        for stratum, epochs in strata.items()
    )


def _size(query: Query, stratum: int, epochs: Sequence[Counts]) -> float:
    """How many people a stratum represents: as stated, or else estimated from its answers."""
    of = query.strata[stratum].population if query.strata else query.population
    return (
        float(of)
        if of is not None
        else sum(pane.n for pane in epochs) / (query.sampling_of(stratum) / ONE)
    )


def _size_variance(query: Query, stratum: int, epochs: Sequence[Counts]) -> float:
    """The variance of a stratum's size if it is estimated from its answers, each of which was
    sampled with probability s."""
    of = query.strata[stratum].population if query.strata else query.population
    s = query.sampling_of(stratum) / ONE
    return 0.0 if of is not None else sum(pane.n for pane in epochs) * (1 - s) / s**2


def _estimate(
    versions: Sequence[Query], panes: Mapping[PaneKey, Counts], window: tuple[int, int]
) -> Estimate:
    parts = []
    for query in versions:
        mine = {key: pane for key, pane in panes.items() if key.serial == query.serial and pane.n}
        parts.append(_estimate_version(query, mine))
    if len(parts) == 1:
        total = parts[0]
    else:
        # These are the same people, and asking them in two ways does not make them more: so the
        # parts state no population.
        bare = [
            dataclasses.replace(part, population=None, support=None, score_law=None)
            for part in parts
        ]
        people = [_people(query, _by_stratum(query, panes)) for query in versions]
        total = _pooled(
            bare,
            people,
            f"{len(parts)} versions of the query, weighted by the people they were put to",
        )
        total = dataclasses.replace(total, population=parts[-1].population)
        total = _without_small_parts(total, max(query.minimum_cohort for query in versions))
    sampled = sampled_loss(versions, panes)
    return dataclasses.replace(
        total,
        epsilon=max(query.epsilon_local for query in versions),
        exclusive=all(query.ones == 1 for query in versions),
        sampled_epsilon=None if sampled is None else sampled.epsilon,
        sampled_delta=None if sampled is None else sampled.delta,
        sampled_crowd=None if sampled is None else sampled.crowd,
        window=window,
    )


def _estimate_version(query: Query, panes: Mapping[PaneKey, Counts]) -> Estimate:
    notes = []
    strata = _by_stratum(query, panes)
    parts, sizes, known = [], [], True
    for stratum, epochs in strata.items():
        of = query.strata[stratum].population if query.strata else query.population
        known = known and of is not None
        parts.append(_estimate_stratum(query, epochs, of, query.sampling_of(stratum) / ONE))
        sizes.append(_size(query, stratum, epochs))
    if query.ones > 1:
        notes.append(
            f"a person may be in up to {query.ones} buckets: proportions need not add up to 1"
        )
    if query.recipe.get("inverted"):
        notes.append(
            "answers were inverted: devices randomized for each bucket that they are not in it"
        )
    if query.rows == "several":
        notes.append("a person may have sent several rows; intervals treat them as independent")
    if query.memoize and len({key.epoch for key in panes}) > 1:
        notes.append(
            "devices answer from permanent answers: intervals allow for people who are counted in"
            " several epochs"
        )
    silent = [each.name for i, each in enumerate(query.strata) if i not in strata]
    if silent:
        notes.append(
            f"too few answers from {', '.join(silent)}: the estimate is of the other strata"
        )
    if not query.strata:
        total = parts[0]
    else:
        how = (
            "by their size"
            if known
            else "by their size, estimated from the answers where it is not stated"
        )
        names = ", ".join(query.strata[stratum].name for stratum in strata)
        total = _pooled(parts, sizes, f"strata {names}, weighted {how}")
        total = _without_small_parts(total, query.minimum_cohort)
        if not known and len(parts) > 1:
            spread = [_size_variance(query, stratum, epochs) for stratum, epochs in strata.items()]
            total = with_estimated_sizes(total, parts, sizes, spread)
    return dataclasses.replace(total, notes=(*total.notes, *notes))


def _without_small_parts(total: Estimate, minimum_cohort: int) -> Estimate:
    """The estimate, without its parts if a stratum or version has fewer reports than the minimum
    cohort."""
    if min(part.n for _, part in total.strata) >= minimum_cohort:
        return total
    sent = total.covariance if len(total.labels) <= LARGEST_SENT else None
    return dataclasses.replace(total, strata=(), covariance=sent)


def _estimate_stratum(
    query: Query, panes: Sequence[Counts], population: int | None, sampling: float
) -> Estimate:
    mechanism = query.mechanism
    total = Counts.total(panes)
    note: tuple[str, ...] = ()
    person_epochs = None
    if population is not None and query.rows != "several":
        if max(pane.n for pane in panes) > population:
            note = (
                (
                    f"more answers in an epoch than the {population:,} people stated: treated as an"
                    " unbounded population"
                ),
            )
        else:
            person_epochs = total.n**2 * population // sum(pane.n**2 for pane in panes)
    with covariances_up_to(LARGEST_SOLVED):
        estimate: Estimate = mechanism.estimate(total, person_epochs).without_bias()
    # how many people are in two buckets at once is unknown, and so is how their errors correlate
    if query.ones > 1:
        estimate = dataclasses.replace(estimate, covariance=None, exclusive=False)
    estimate = dataclasses.replace(estimate, notes=_notes(query, estimate, total, panes))
    repeated = _repeated(query, panes, sampling) if query.memoize else 1.0
    if query.memoize:
        covariance = None if estimate.covariance is None else estimate.covariance * repeated
        estimate = dataclasses.replace(
            estimate,
            variance=estimate.variance * repeated,
            covariance=covariance,
            support=None,
            score_law=None,
        )
    # An interval made from the support would take `population` for what n was drawn from; over
    # several epochs it is not.
    if person_epochs not in (None, population):
        estimate = dataclasses.replace(estimate, support=None, score_law=None)
    reports = (
        ReportCounts(_described(mechanism), total, person_epochs, repeated)
        if query.ones == 1
        else None
    )
    return dataclasses.replace(
        estimate, population=population, notes=(*estimate.notes, *note), reports=reports
    )


def _repeated(query: Query, panes: Sequence[Counts], sampling: float) -> float:
    """How many times larger the variance is because people answer from the same permanent answer in
    several epochs.

    Two reports of one person have a correlation r (1 where permanent answers are sent as they are,
    less where each report randomizes them once more), and of the n reports of an epoch at most a
    proportion s is expected to come from people who are also in another one, since every device
    tosses a coin of its own in each. So the variance of the mean grows by the factor 1 + r s (sum
    over pairs of different epochs of the smaller n) / (sum of all n).
    """
    mechanism = query.mechanism
    correlation = (
        mechanism.replay_correlation() if isinstance(mechanism, MemoizedMechanism) else 1.0
    )
    sizes = np.sort(np.array([pane.n for pane in panes], dtype=np.float64))[::-1]
    # each epoch is the smaller one beside all that are larger
    shared = 2 * float(sizes @ np.arange(sizes.size))
    return 1 + correlation * sampling * shared / float(sizes.sum())


def _described(mechanism: Mechanism) -> dict[str, Any]:
    """The mechanism without its labels, which are in the estimate."""
    described = mechanism.to_dict()
    return {**described, "values": len(mechanism.domain)} if "values" in described else described


def _notes(
    query: Query, estimate: Estimate, total: Counts, panes: Sequence[Counts]
) -> tuple[str, ...]:
    """The notes of an estimate, including what is improbable for reports that this query draws."""
    mechanism, unlabelled = query.mechanism, not query.buckets.complete
    if query.ones == 1 and not query.memoize and not unlabelled:
        return estimate.notes  # the mechanism assumes the same
    assumed = mechanism.doubts(total.counts, total.n) if estimate.notes else ()
    other = tuple(note for note in estimate.notes if note not in assumed)
    largest = max(panes, key=lambda pane: pane.n)  # within an epoch the coins are independent
    if query.memoize and largest.n < query.minimum_cohort:
        return other  # what a part of a granule looks like is not published
    if query.ones > 1:
        honest = largest if query.memoize else total
        return (*other, *mechanism.doubts_of_sets(honest.counts, honest.n, unlabelled, query.ones))
    if not query.memoize:
        return (*other, *mechanism.doubts(total.counts, total.n, unlabelled))
    if query.rows == "several":
        # one person's rows may replay the same coins, and the distribution of their sum is unknown
        return other
    return (*other, *mechanism.doubts(largest.counts, largest.n, unlabelled))


def _pooled(parts: Sequence[Estimate], sizes: Sequence[float], note: str) -> Estimate:
    """The mean of independent estimates, weighted by the sizes of their groups (Quoc 2017, 3.3.1),
    with a note that says so."""
    total = stratified(parts, sizes)
    return dataclasses.replace(total, notes=(*total.notes[:-1], note))
