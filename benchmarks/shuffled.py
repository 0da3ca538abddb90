"""The shuffled epsilon: how long each takes, how far below the general bound it lies, and what it
adds to closing a window.

python benchmarks/shuffled.py
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.counts import Counts
from deniable.mechanisms.registry import mechanism_by_name, mechanisms_by_epsilon
from deniable.privacy import blanket_epsilon, shuffled_epsilon
from deniable.privacy import release_accountant as accountant
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule

DELTA = 1e-6
SIZES = (1000, 100_000, 10_000_000)
WINDOWS = 200


def milliseconds(start: float) -> float:
    return 1000 * (time.perf_counter() - start)


def mechanisms() -> None:
    shuffled_epsilon(1.0, 10, DELTA)  # SciPy is imported here
    print(
        f"{'local epsilon 1, 16 values':<28}"
        + "".join(f"{f'n = {n:,}':>18}" for n in SIZES)
        + f"{'slowest ms':>12}{'of generic':>12}"
    )
    for name in mechanisms_by_epsilon():
        mechanism = mechanism_by_name(name, 1.0, 2 if name == "BinaryResponse" else 16)
        found, times = [], []
        for n in SIZES:
            start = time.perf_counter()
            found.append(blanket_epsilon(mechanism, n, DELTA))
            times.append(milliseconds(start))
        ratio = found[1] / shuffled_epsilon(mechanism.epsilon, SIZES[1], DELTA)
        print(
            f"{name:<28}"
            + "".join(f"{epsilon:>18.6f}" for epsilon in found)
            + f"{max(times):>12.0f}{ratio:>12.2f}"
        )


def windows() -> None:
    """Windows of about as many answers each, as they close one after the other."""
    column = Column("km", ["[0,5)", "[5,10)", "[10,inf)"])
    query = Query(
        "commute",
        "City",
        "SELECT km FROM trips",
        [column],
        Schedule(0, 1 << 30, 600, 600, 600),
        ["one", "two"],
        {"name": "OptimizedUnary", "epsilon": 1.0},
    )
    sizes = np.random.default_rng(1).poisson(100_000, WINDOWS).tolist()
    times = []
    for i, n in enumerate(sizes):
        panes = {
            PaneKey(query.id, query.serial, i, 0): Counts(np.array([n // 2, n // 3, n // 3]), n)
        }
        start = time.perf_counter()
        assemble([query], i, panes)
        times.append(milliseconds(start))
    known = accountant._shuffled.cache_info()
    print(
        f"\n{WINDOWS} windows of some 100,000 answers: first {times[0]:.1f} ms, median"
        f" {statistics.median(times):.2f} ms,",
        end=" ",
    )
    print(
        f"slowest later one {max(times[1:]):.1f} ms; the figure was computed {known.misses} times"
    )


if __name__ == "__main__":
    mechanisms()
    windows()
