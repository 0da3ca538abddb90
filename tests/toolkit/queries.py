"""A query to test with, and changes to it."""

from __future__ import annotations

from typing import Any

from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule

MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


def make_query(**changes: Any) -> Query:
    """The paper's question about taxi trips: 11 buckets of distance (Quoc 2017, section 7)."""
    given: dict[str, Any] = {
        "id": "taxi-distance",
        "analyst": "City of Exampleton",
        "sql": "SELECT distance FROM trips",
        "columns": [Column("distance", MILES)],
        "schedule": Schedule(
            origin=1_700_000_000, expires=1_800_000_000, every=600, window=3600, slide=1200
        ),
        "proxies": ["https://one.example", "https://two.example"],
        "mechanism": {"name": "TwoCoin", "p": 0.3, "q": 0.6},
        "sampling": 0.6,
        "budget": Budget(epsilon=20.0),
        # a memoized query replays its answers, unless a test asks for a second step
        "instantaneous": None,
    }
    return Query(**{**given, **changes})
