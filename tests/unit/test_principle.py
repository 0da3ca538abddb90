"""Nothing leaves a device but the randomized report: two devices that differ in their data alone look alike in all else."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from deniable.client import encoding
from deniable.privacy.ledger import Limit
from deniable.queries.buckets import Column
from deniable.queries.query import Query, Stratum
from toolkit.devices import asked, make_policy
from toolkit.observed import Observed, live
from toolkit.queries import MILES

FAILS = 99.0
SQL = f"SELECT CASE WHEN distance = {FAILS} THEN abs(-9223372036854775807 - 1) ELSE distance END FROM trips"
"""An analyst's SQL that fails while it runs, for those whose data hold a certain value."""
HISTORIES: dict[str, list[list[Any]]] = {
    "the same value in all epochs": [[3.5], [3.5], [3.5], [3.5]],
    "a value that changes back and forth": [[3.5], [8.5], [3.5], [8.5]],
    "another value in each epoch": [[0.5], [1.5], [2.5], [9.5]],
    "no row, a null, a text": [[], [None], ["far"], []],
    "several rows, alike and not": [[3.5, 3.5], [1.5, 2.5, 4.5, 5.5], [3.5] * 9, [3.5]],
    "rows for which the SQL fails": [[3.5], [FAILS], [FAILS, 3.5], [2.5]],
}
MECHANISM = {"name": "OptimizedUnary", "epsilon": 1.0}


def others(query: Query) -> list[Query]:
    """Ten queries that are asked next, each another way."""
    ways: list[dict[str, Any]] = [
        {},
        {"rows": "several", "most_rows": 2},
        {"memoize": True},
        {"cover": True},
        {"mechanism": {"name": "OptimizedUnary", "epsilon": 0.5}},
    ]
    return [
        asked(id=f"next-{i}", **{"mechanism": MECHANISM, "proxies": query.proxies, **ways[i % len(ways)]}) for i in range(10)
    ]


def assert_alike(folder: Path, query: Query, histories: dict[str, list[list[Any]]]) -> list[Observed]:
    """Lives with these histories look alike, to the last byte that n - 1 proxies see; the budget runs out on the way."""
    cost = Fraction(repr(query.epsilon))
    policy = make_policy(query, limits=(Limit(cost * 14, period=40 * 600),), strata=("south",))
    seen = {name: live(folder / str(i), policy, rows, query, others(query)) for i, (name, rows) in enumerate(histories.items())}
    [(first, expected), *rest] = seen.items()
    for name, found in rest:
        for part in ("outcomes", "ledger", "queue", "sends", "polls"):
            assert getattr(found, part) == getattr(expected, part), f"{part} tell {name!r} from {first!r}"
    return list(seen.values())


def queries() -> list[Query]:
    grid = itertools.product([False, True], ["random", "aggregate", "several"], [False, True], [False, True], [1.0, 0.5])
    return [
        asked(
            sql=SQL,
            mechanism=MECHANISM,
            memoize=memoize,
            rows=rows,
            most_rows=3 if rows == "several" else 1,
            cover=cover,
            strata=[Stratum("north"), Stratum("south", sampling=sampling)] if strata else [],
            sampling=sampling,
        )
        for memoize, rows, cover, strata, sampling in grid
    ]


def named(query: Query) -> str:
    flags = [name for name in ("memoize", "cover", "strata") if getattr(query, name)]
    return "-".join([query.rows, *flags, *(["sampled"] if query.sampling < 1 else [])])


@pytest.mark.parametrize("query", queries(), ids=named)
def test_whatever_the_data_are_a_device_sends_charges_and_refuses_alike(tmp_path: Path, query: Query) -> None:
    [one, *_] = assert_alike(tmp_path, query, HISTORIES)
    outcomes = [outcome for outcome, *_ in one.outcomes]
    assert "refused" in outcomes, "the limit is never reached, so refusals were not compared"
    assert one.sends
