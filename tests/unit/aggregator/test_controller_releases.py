"""A version is published too: what the controller puts into it follows from released granules, and
not from other answers."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.operations import controller
from deniable.aggregator.operations.controller import Controller
from deniable.aggregator.operations.version_history import versions_of
from deniable.aggregator.state import stored_panes
from deniable.aggregator.step import Step
from deniable.aggregator.windows.granules import Granule, released_granules
from deniable.counts import Counts
from deniable.queries.query import Query
from deniable.queries.strata import Stratum
from toolkit.adaptive import CONTROLLER, adaptive_query, envelope
from toolkit.crowds import ORIGIN, RING
from toolkit.releases import ReleasingAggregator

STRATA = [Stratum("rare", population=3000), Stratum("even", population=3000)]
YES = (0.02, 0.5)
"""The proportion of each stratum that says yes: one in fifty, and one in two."""


def stratified_query() -> Query:
    """Windows of three epochs that slide by one, so that an epoch below the cohort of 100 is held
    back."""
    ranges = envelope(p=(0.9, 0.9), q=(0.5, 0.5), epsilon_per_answer=6.0, allocation="neyman")
    return adaptive_query(
        20,
        0.02,
        2000.0,
        strata=STRATA,
        envelope=ranges,
        mechanism={"name": "TwoCoin", "p": 0.9, "q": 0.5},
        sampling=0.9,
        minimum_cohort=100,
    )


def expected_pane(query: Query, n: int, yes: float) -> Counts:
    """The counts that coins give on average, so that nothing is left to chance."""
    a, b = query.mechanism.channel()
    return Counts(np.rint(n * (b + (a - b) * np.array([1 - yes, yes]))).astype(np.int64), n)


def allocation(folder: Path, unreleased_yes: float) -> dict[str, float]:
    """How the first window's version samples the strata, if the answers held back say yes in this
    proportion.

    epoch           0     1     2
    answers       2700   90   2700       of each stratum; 100 are needed
    window 0      [---------------)      without epoch 1
    """
    folder.mkdir()
    query = stratified_query()
    aggregator = ReleasingAggregator(folder, [query], early=600)
    connection = aggregator.state.connection
    panes = {
        PaneKey(query.id, 1, epoch, stratum): expected_pane(query, n, yes)
        for stratum in (0, 1)
        for epoch, n, yes in (
            (0, 2700, YES[stratum]),
            (1, 90, unreleased_yes),
            (2, 2700, YES[stratum]),
        )
    }
    with aggregator.state.transaction():
        aggregator.state.apply(Step(panes=panes))
    aggregator.now = ORIGIN + 180
    aggregator.close_epochs(3)
    released = released_granules(connection, query.id, range(3))
    assert [(each.first, each.stratum, each.n) for each in released] == [
        *((0, 0, 2700), (0, 1, 2700), (2, 0, 2700), (2, 1, 2700)),
    ]
    Controller(CONTROLLER, lambda: RING, query.proxies, lambda: aggregator.now).step(connection)
    newest = versions_of(connection, query.id)[-1]
    aggregator.close()
    assert newest["serial"] == 2
    strata: dict[str, float] = newest["parameters"]["strata"]
    return strata


def _every_pane(connection: sqlite3.Connection, query: str, epochs: range) -> list[Granule]:
    """What a controller would read that looks at all that was counted."""
    panes = stored_panes(connection, query, epochs)
    return [
        Granule(key.serial, key.stratum, key.epoch, key.epoch, {key: pane})
        for key, pane in panes.items()
    ]


def test_how_strata_are_sampled_says_nothing_about_answers_that_are_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = allocation(tmp_path / "no", 0.0)
    assert 1.2 * found["rare"] < found["even"]  # it does depend on what was released
    assert allocation(tmp_path / "yes", 1.0) == found

    monkeypatch.setattr(controller, "released_granules", _every_pane)
    assert allocation(tmp_path / "planted-no", 0.0) != allocation(tmp_path / "planted-yes", 1.0)
