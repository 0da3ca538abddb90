"""How a query's parameters have changed: every version, with its losses, its error and its reason."""

from __future__ import annotations

import math
import sqlite3
from typing import Any, TypedDict

from deniable.aggregator.counting.catalogue import published
from deniable.queries.query import Query
from deniable.queries.times import iso_time

__all__ = ["VersionDocument", "VersionsDocument", "versions_of"]


class _Losses(TypedDict):
    local: float
    sampled: float
    sampled_delta: float
    sampled_crowd: int | None


VersionDocument = TypedDict(
    "VersionDocument",
    {
        "serial": int,
        "from_epoch": int,
        "from": str,
        "parameters": dict[str, Any],
        "minimum_cohort": int,
        "epsilon": _Losses,
        "reason": str,
        "wish": float | None,
        "achieved": float | None,
    },
)
"""A version of a query: from when, with which parameters, and why."""


class VersionsDocument(TypedDict):
    """All versions of a query, oldest first."""

    versions: list[VersionDocument]


def versions_of(connection: sqlite3.Connection, query_id: str) -> list[VersionDocument]:
    """All versions of a query, oldest first: when, with which parameters, and why."""
    rows = connection.execute(
        "SELECT serial, reason, margin, achieved FROM versions WHERE query = ?", (query_id,)
    )
    made: dict[int, tuple[str, float, float | None]] = {row[0]: row[1:] for row in rows}
    out: list[VersionDocument] = []
    for entry in published(connection, query_id):
        query, schedule = entry.query, entry.query.schedule
        epoch = min(schedule.epochs_over(entry.published), schedule.n_epochs - 1)
        reason, wish, achieved = made.get(
            query.serial, ("published by the analyst", query.budget.target, None)
        )
        parameters: dict[str, Any] = {
            "sampling": query.sampling,
            **{name: query.recipe.get(name) for name in ("p", "q")},
        }
        if "epsilon" in query.recipe:
            parameters["epsilon"] = query.recipe["epsilon"]
        if query.recipe.get("inverted"):
            parameters["inverted"] = True
        if query.strata:
            parameters["strata"] = {
                stratum.name: query.sampling if stratum.sampling is None else stratum.sampling
                for stratum in query.strata
            }
        out.append(
            {
                "serial": query.serial,
                "from_epoch": epoch,
                "from": iso_time(schedule.start_of_epoch(epoch)),
                "parameters": parameters,
                "minimum_cohort": query.minimum_cohort,
                "epsilon": _losses(query),
                "reason": reason,
                "wish": wish,
                "achieved": achieved if achieved is None or math.isfinite(achieved) else None,
            }
        )
    return out


def _losses(query: Query) -> _Losses:
    sampled = query.sampled_loss
    return {
        "local": query.epsilon_local,
        "sampled": sampled.epsilon,
        "sampled_delta": sampled.delta,
        "sampled_crowd": sampled.crowd,
    }
