"""Intervals of windows whose panes come from several versions and strata: what says 95 % covers 94
to 96 %.

A unary report's buckets are estimated one by one, so a query of 1,100 buckets with a proportion
each is 1,100 windows at once. Each test looks at 10,000 or more of them, solved by the code that
releases windows. With a coverage of exactly 95 %, 11,000 windows lie outside 94 to 96 % with
probability 2e-6 (false alarm). Seeds are stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.estimates import estimate_period
from deniable.counts import Counts
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.strata import Stratum
from toolkit.crowds import minute_query

# more labels than an estimate keeps covariances of, which are not looked at here
BUCKETS, TRIALS = 1_100, 10
Floats = NDArray[np.float64]


def wide_query(**changes: Any) -> Query:
    columns = [Column("x", [f"[{i},{i + 1})" for i in range(BUCKETS)])]
    given = {
        "columns": columns,
        "mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5},
        "sampling": 0.6,
        "minimum_cohort": 1,
    }
    return minute_query(**{**given, **changes})


def drawn(
    rng: np.random.Generator,
    query: Query,
    people: int,
    shares: Floats,
    stratum: int = 0,
    whole: bool = False,
) -> Counts:
    """The pane of an epoch in which so many people could answer; with `whole`, the shares are those
    of these very people."""
    a, b = query.mechanism.channel()
    n = int(rng.binomial(people, query.sampling_of(stratum) / 2**64))
    if whole:
        ones = rng.hypergeometric(
            np.rint(shares * people).astype(int), people - np.rint(shares * people).astype(int), n
        )
    else:
        ones = rng.binomial(n, shares)
    return Counts((rng.binomial(ones, a) + rng.binomial(n - ones, b)).astype(np.int64), n)


def covered(versions: Sequence[Query], panes: dict[PaneKey, Counts], truth: Floats) -> float:
    estimate = estimate_period(versions, panes, (0, 1))[2]
    assert estimate is not None
    low, high = estimate.interval(0.95).T
    return float(np.mean((low <= truth) & (truth <= high)))


def assert_covers(shares_covered: Sequence[float]) -> None:
    assert len(shares_covered) * BUCKETS >= 10_000
    assert 0.94 <= np.mean(shares_covered) <= 0.96, np.mean(shares_covered)


@pytest.mark.parametrize("population", [None, 3_000])
def test_windows_of_mixed_versions_cover_while_the_population_drifts(
    population: int | None,
) -> None:
    """Two epochs asked with s = 0.6, p = 0.5, then one with s = 0.9, p = 0.3, q = 0.4, then two
    versions at once. Seed 11."""
    rng = np.random.default_rng(11)
    first = wide_query(population=population)
    second = first.revised(sampling=0.9, mechanism={"name": "TwoCoin", "p": 0.3, "q": 0.4})
    third = second.revised(sampling=0.25, mechanism={"name": "TwoCoin", "p": 0.55, "q": 0.55})
    versions = [first, second, third]
    asked = [
        [(first, 3_000)],
        [(first, 3_000)],
        [(second, 3_000)],
        [(second, 1_000), (third, 2_000)],
    ]
    found = []
    for _ in range(TRIALS):
        shares = rng.uniform(0.02, 0.6, BUCKETS)
        drift = rng.uniform(-0.02, 0.02, BUCKETS)
        panes, truth = {}, np.zeros(BUCKETS)
        for epoch, parts in enumerate(asked):
            now = np.clip(shares + drift * (epoch - 1.5), 0, 1)
            truth += now / len(asked)
            for query, people in parts:
                panes[PaneKey(query.id, query.serial, epoch, 0)] = drawn(
                    rng, query, people, now, whole=population is not None
                )
        found.append(covered(versions, panes, truth))
    assert_covers(found)


def test_windows_of_strata_that_versions_sample_differently_cover() -> None:
    """Strata of 2,000 and 800 people, sampled with 0.3 and 0.9, then with 0.6 and 0.6 and other
    coins. Seed 12."""
    rng = np.random.default_rng(12)
    sizes = (2_000, 800)
    first = wide_query(strata=[Stratum("north", 0.3, sizes[0]), Stratum("south", 0.9, sizes[1])])
    second = first.revised(
        strata=[Stratum("north", 0.6, sizes[0]), Stratum("south", 0.6, sizes[1])],
        mechanism={"name": "TwoCoin", "p": 0.35, "q": 0.5},
    )
    found = []
    for _ in range(TRIALS):
        shares = [np.rint(rng.uniform(0.02, 0.6, BUCKETS) * size) / size for size in sizes]
        truth = np.average(shares, axis=0, weights=sizes)
        panes = {
            PaneKey(first.id, query.serial, epoch, stratum): drawn(
                rng, query, sizes[stratum], shares[stratum], stratum, whole=True
            )
            for epoch, query in enumerate([first, first, second])
            for stratum in range(2)
        }
        found.append(covered([first, second], panes, truth))
    assert_covers(found)


def test_windows_of_answers_with_several_ones_cover() -> None:
    """Every bucket holds 2 to 60 % of the people, who are in up to 300 of them; two versions. Seed
    14."""
    rng = np.random.default_rng(14)
    columns = [Column("x", [f"[{i},inf)" for i in range(BUCKETS)], overlapping=True)]
    first = wide_query(columns=columns, ones=300, budget=Budget())
    second = first.revised(sampling=0.3, mechanism={"name": "TwoCoin", "p": 0.4, "q": 0.3})
    found = []
    for _ in range(TRIALS):
        shares = rng.uniform(0.02, 0.6, BUCKETS)
        panes = {
            PaneKey(first.id, query.serial, epoch, 0): drawn(rng, query, 3_000, shares)
            for epoch, query in enumerate([first, second, second])
        }
        found.append(covered([first, second], panes, shares))
    assert_covers(found)


def test_weighing_versions_by_their_answers_would_not_cover() -> None:
    """The control: where sampling and population change together, the mean of answers is another
    figure than that of people."""
    rng = np.random.default_rng(13)
    first, found = wide_query(sampling=0.9), []
    second = first.revised(sampling=0.1)
    for _ in range(TRIALS):
        shares = rng.uniform(0.1, 0.3, BUCKETS), rng.uniform(0.4, 0.6, BUCKETS)
        panes = {
            PaneKey(first.id, query.serial, epoch, 0): drawn(rng, query, 4_000, shares[epoch])
            for epoch, query in enumerate([first, second])
        }
        truths = np.mean(shares, axis=0), 0.9 * shares[0] + 0.1 * shares[1]
        found.append([covered([first, second], panes, truth) for truth in truths])
    assert_covers([by_people for by_people, _ in found])
    assert np.mean([by_answers for _, by_answers in found]) < 0.5
