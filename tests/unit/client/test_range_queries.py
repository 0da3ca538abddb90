"""A query over a tree of ranges, from devices through shares and both proxies to a window."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from deniable import Column, HierarchicalRanges, seeded_source
from deniable.client.simulation.fleet import Fleet
from deniable.local.scratch import scratch_folder
from deniable.local.system import LocalSystem
from deniable.queries.schedule import Schedule
from toolkit.crowds import ORIGIN, minute_query

PEOPLE = 20_000


def test_a_window_of_a_range_query_answers_ranges() -> None:
    query = minute_query(
        schedule=Schedule(ORIGIN, ORIGIN + 86400, 600, 600, 600),
        columns=[Column("distance", [f"[{i},{i + 1})" for i in range(31)], other=True)],
        mechanism={"name": "HierarchicalRanges", "epsilon": 2.0},
        population=PEOPLE,
    )
    assert isinstance(query.mechanism, HierarchicalRanges)
    assert len(query.mechanism.levels) > 1
    truth = np.arange(PEOPLE) % 20
    with scratch_folder() as folder, LocalSystem(query, folder) as system:
        shares = Fleet(query, PEOPLE, source=seeded_source(1)).answer(0, truth)
        for proxy in (0, 1):
            system.at(ORIGIN + 60, partial(system.post, proxy, 0, shares.columns[proxy]))
        system.run(ORIGIN + 1200)
        (window,) = system.windows()
    estimate = window.estimate
    assert estimate is not None
    assert estimate.n == PEOPLE
    found = estimate.range(query.labels[0], query.labels[9])
    # the truth is half of the people; 6 standard errors are missed less than once in 1e8
    assert found.value == pytest.approx(0.5, abs=6 * found.stderr)
    assert found.stderr < 0.02
