"""Sampling of strata: Neyman's allocation is the best there is and keeps to its bounds; simulated
people have strata."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deniable.errors import ParameterError
from deniable.local.own_data import _from_table
from deniable.local.up_settings import Data
from deniable.planning.allocation import neyman
from deniable.queries.columns.column import Column
from deniable.queries.strata import Stratum
from toolkit.crowds import minute_query


def variance(sizes: list[float], deviations: list[float], reports: list[float]) -> float:
    return sum(
        (size * deviation) ** 2 / n
        for size, deviation, n in zip(sizes, deviations, reports, strict=True)
    )


def test_no_other_allocation_of_as_many_reports_has_a_smaller_variance() -> None:
    """2,000 random rivals that spend no more reports inside the same bounds; seed 3."""
    sizes, deviations, people = [4000.0, 1000.0, 500.0], [0.5, 1.5, 0.2], [3000.0, 900.0, 500.0]
    bounds = (0.05, 0.6)
    chosen = neyman(sizes, deviations, people, 0.3, bounds)
    reports = [s * m for s, m in zip(chosen, people, strict=True)]
    assert sum(reports) == pytest.approx(0.3 * sum(people))
    assert all(bounds[0] <= s <= bounds[1] for s in chosen)
    least = variance(sizes, deviations, reports)
    rng, rivals = np.random.default_rng(3), 0
    for _ in range(2_000):
        other = rng.uniform(*bounds, 3) * people
        if other.sum() <= sum(reports):
            rivals += 1
            assert variance(sizes, deviations, other.tolist()) >= least * (1 - 1e-9)
    assert rivals > 300


def test_the_people_of_a_table_belong_to_the_strata_that_a_column_names(tmp_path: Path) -> None:
    table = tmp_path / "trips.csv"
    table.write_text("who,where,km\na,north,1\nb,south,2\nb,south,3\nc,north,9\n")
    query = minute_query(
        sql="SELECT km FROM trips",
        columns=[Column("km", ["[0,5)", "[5,inf)"])],
        mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5},
        strata=[Stratum("north"), Stratum("south")],
    )
    n_people, people = _from_table(Data(table=table, name="trips", owner="who", stratum="where"), 1)
    answers, _ = people(query, tmp_path / "people")
    assert n_people == 3
    assert answers.strata is not None
    assert answers.strata.tolist() == [0, 1, 0]
    others = answers.part(1)
    assert others.strata is not None
    assert others.strata.tolist() == [1, 0]
    elsewhere = minute_query(
        strata=[Stratum("east")],
        sql="SELECT km FROM trips",
        columns=query.columns,
        mechanism=query.recipe,
    )
    with pytest.raises(ParameterError, match="not one of the query's strata"):
        people(elsewhere, tmp_path / "again")
    with pytest.raises(ParameterError, match="must be one of the table's columns"):
        _from_table(Data(table=table, name="trips", owner="who", stratum="nowhere"), 1)
