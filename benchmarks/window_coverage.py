"""How often the 95 % intervals of windows hold the truth where versions, strata and answers with
several ones are mixed.

    python benchmarks/window_coverage.py [--windows 10000]

Every line simulates that many windows one by one, each with people and panes of its own, and
estimates them with the code that releases windows. The standard error of the coverage of one bucket
over 10,000 windows is 0.22 points. Exits with 1 if a coverage lies outside 94 to 96 %.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.estimates import estimate_period
from deniable.counts import Counts
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum

Floats = NDArray[np.float64]
Generator = np.random.Generator
Case = Callable[[Generator], tuple[list[Query], dict[PaneKey, Counts], Floats]]
BUCKETS = 4
COINS = (
    {"name": "TwoCoin", "p": 0.5, "q": 0.5},
    {"name": "TwoCoin", "p": 0.3, "q": 0.4},
    {"name": "TwoCoin", "p": 0.55, "q": 0.55},
)
NORTH, SOUTH = 2_000, 800


def query(**changes: Any) -> Query:
    """A query with one epoch a minute."""
    given: dict[str, Any] = {
        "id": "q",
        "analyst": "acme",
        "sql": "SELECT x FROM t",
        "columns": [Column("x", [f"[{i},{i + 1})" for i in range(BUCKETS)])],
        "schedule": Schedule(0, 6_000, 60, 180, 60),
        "mechanism": COINS[0],
        "sampling": 0.6,
        "proxies": ("one", "two"),
        "minimum_cohort": 1,
    }
    return Query(**{**given, **changes})


def overlapping(**changes: Any) -> Query:
    """A person may be in up to three of the buckets."""
    columns = [Column("x", [f"[{i},inf)" for i in range(BUCKETS)], overlapping=True)]
    return query(columns=columns, ones=3, budget=Budget(), **changes)


def pane(
    rng: Generator, asked: Query, people: int, shares: Floats, stratum: int = 0, whole: bool = False
) -> Counts:
    """The counts of one epoch; with `whole`, the shares are those of just these people, of whom
    some are sampled."""
    a, b = asked.mechanism.channel()
    n = int(rng.binomial(people, asked.sampling_of(stratum) / 2**64))
    inside = np.rint(shares * people).astype(np.int64)
    ones = rng.hypergeometric(inside, people - inside, n) if whole else rng.binomial(n, shares)
    return Counts((rng.binomial(ones, a) + rng.binomial(n - ones, b)).astype(np.int64), n)


VERSIONS = [query()]
VERSIONS.append(VERSIONS[0].revised(sampling=0.9, mechanism=COINS[1]))
VERSIONS.append(VERSIONS[1].revised(sampling=0.25, mechanism=COINS[2]))
STRATA = [query(strata=[Stratum("north", 0.3, NORTH), Stratum("south", 0.9, SOUTH)])]
STRATA.append(
    STRATA[0].revised(
        strata=[Stratum("north", 0.6, NORTH), Stratum("south", 0.6, SOUTH)], mechanism=COINS[1]
    )
)
ONES = [overlapping()]
ONES.append(ONES[0].revised(sampling=0.3, mechanism={"name": "TwoCoin", "p": 0.4, "q": 0.3}))
ALL = [overlapping(strata=[Stratum("north", 0.3, NORTH), Stratum("south", 0.9, SOUTH)])]
ALL.append(
    ALL[0].revised(
        strata=[Stratum("north", 0.6, NORTH), Stratum("south", 0.6, SOUTH)], mechanism=COINS[1]
    )
)


def mixed_versions(rng: Generator) -> tuple[list[Query], dict[PaneKey, Counts], Floats]:
    """A drifting population, asked with one version for two epochs, then with another, then with
    two at once."""
    asked = [[(0, 3_000)], [(0, 3_000)], [(1, 3_000)], [(1, 1_000), (2, 2_000)]]
    shares, drift = rng.uniform(0.02, 0.6, BUCKETS), rng.uniform(-0.02, 0.02, BUCKETS)
    panes, truth = {}, np.zeros(BUCKETS)
    for epoch, parts in enumerate(asked):
        now = np.clip(shares + drift * (epoch - 1.5), 0, 1)
        truth += now / len(asked)
        for version, people in parts:
            panes[PaneKey("q", VERSIONS[version].serial, epoch, 0)] = pane(
                rng, VERSIONS[version], people, now
            )
    return VERSIONS, panes, truth


def stratified(versions: list[Query]) -> Case:
    """Two finite strata, which two versions sample differently."""

    def window(rng: Generator) -> tuple[list[Query], dict[PaneKey, Counts], Floats]:
        shares = [np.rint(rng.uniform(0.02, 0.6, BUCKETS) * size) / size for size in (NORTH, SOUTH)]
        panes = {
            PaneKey("q", asked.serial, epoch, at): pane(
                rng, asked, size, shares[at], at, whole=True
            )
            for epoch, asked in enumerate([versions[0], versions[0], versions[1]])
            for at, size in enumerate((NORTH, SOUTH))
        }
        return versions, panes, np.average(shares, axis=0, weights=(NORTH, SOUTH))

    return window


def several_ones(rng: Generator) -> tuple[list[Query], dict[PaneKey, Counts], Floats]:
    """Each bucket holds 2 to 60 % of the people; two versions."""
    shares = rng.uniform(0.02, 0.6, BUCKETS)
    asked = enumerate([ONES[0], ONES[1], ONES[1]])
    return (
        ONES,
        {
            PaneKey("q", each.serial, epoch, 0): pane(rng, each, 3_000, shares)
            for epoch, each in asked
        },
        shares,
    )


CASES: dict[str, Case] = {
    "mixed versions, drifting": mixed_versions,
    "strata and versions": stratified(STRATA),
    "several ones and versions": several_ones,
    "all three": stratified(ALL),
}


def coverage(case: Case, windows: int, seed: int) -> Floats:
    """For each bucket, the part of the windows whose interval held its truth."""
    rng, held = np.random.default_rng(seed), np.zeros(BUCKETS)
    for _ in range(windows):
        versions, panes, truth = case(rng)
        estimate = estimate_period(versions, panes, (0, 1))[2]
        assert estimate is not None
        low, high = estimate.interval(0.95).T
        held += (low <= truth) & (truth <= high)
    return held / windows


def main() -> bool:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--windows", type=int, default=10_000)
    windows, kept = parser.parse_args().windows, True
    for seed, (name, case) in enumerate(CASES.items()):
        started = time.process_time()
        found = coverage(case, windows, seed)
        inside = bool(0.94 <= found.mean() <= 0.96)
        kept = kept and inside
        shown = "  ".join(f"{100 * each:.2f}" for each in found)
        verdict = "" if inside else "OUTSIDE"
        print(
            f"{name:<28} {100 * found.mean():.2f} %   by bucket: {shown}  "
            f" {time.process_time() - started:.0f} s {verdict}",
            flush=True,
        )
    return kept


if __name__ == "__main__":
    sys.exit(0 if main() else 1)
