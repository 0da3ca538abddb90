"""A start is no crisis: what the controller does while people are still joining a query."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.operations.controller import Change, Controller
from deniable.aggregator.step import Step
from deniable.counts import Counts
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from toolkit.adaptive import CONTROLLER, adaptive_query, envelope
from toolkit.crowds import ORIGIN, RING
from toolkit.releases import ReleasingAggregator

EPOCHS = 12


def query_of_single_epochs() -> Query:
    """Windows of one epoch; the target is out of reach for the first few hundred people."""
    return adaptive_query(
        EPOCHS,
        0.05,
        200.0,
        sampling=0.2,
        envelope=envelope(epsilon_per_answer=4.0, p=(0.1, 0.9)),
        schedule=Schedule(ORIGIN, ORIGIN + 60 * EPOCHS, 60, 60, 60),
    )


def expected_counts(query: Query, n: int) -> Counts:
    """What coins give on average if a fifth says yes, so that nothing is left to chance."""
    a, b = query.mechanism.channel()
    return Counts(np.rint(n * (b + (a - b) * np.array([0.8, 0.2]))).astype(np.int64), n)


def changes(folder: Path, people: list[int]) -> list[list[Change]]:
    """What the controller changes after each epoch, if so many people could have answered in it."""
    query = query_of_single_epochs()
    aggregator = ReleasingAggregator(folder, [query], early=600)
    connection = aggregator.state.connection
    controller = Controller(CONTROLLER, lambda: RING, query.proxies, lambda: aggregator.now)
    found = []
    for epoch, present in enumerate(people):
        newest = published(connection, query.id)[-1].query
        counts = expected_counts(newest, round(present * newest.sampling))
        with aggregator.state.transaction():
            aggregator.state.apply(Step(panes={PaneKey(query.id, newest.serial, epoch, 0): counts}))
        aggregator.now = ORIGIN + 60 * (epoch + 1)
        aggregator.close_epochs(epoch + 1)
        found.append(controller.step(connection))
    aggregator.close()
    return found


@pytest.mark.parametrize("answers", [4, 20, 49])
def test_a_window_below_the_minimum_cohort_changes_nothing(tmp_path: Path, answers: int) -> None:
    assert changes(tmp_path, [5 * answers] * 4) == [[], [], [], []]


def test_nothing_is_raised_while_people_are_still_joining(tmp_path: Path) -> None:
    joining = [300, 400, 520, 680, 900]
    found = changes(tmp_path, [*joining, 910])
    assert found[: len(joining)] == [[]] * len(joining)
    (change,) = found[-1]
    assert change.after.sampling > change.before.sampling


def test_one_step_at_most_doubles_the_sampling_and_costs_half_as_much_again(
    tmp_path: Path,
) -> None:
    found = [change for each in changes(tmp_path, [300] * EPOCHS) for change in each]
    assert len(found) >= 2, "the target is out of reach, so it moves as far as it may, in steps"
    losses = [2.1972, *(loss(change) for change in found)]
    for before, change, after in zip(losses, found, losses[1:], strict=False):
        assert change.after.sampling <= 2 * change.before.sampling + 1e-9
        assert after <= 1.5 * before + 1e-3
    assert found[0].after.sampling == pytest.approx(0.4)
    assert "the least that one step allows" in found[0].reason
    assert "the least inside the envelope" in found[-1].reason


def loss(change: Change) -> float:
    p, q = float(change.after.coins["p"]), float(change.after.coins["q"])
    a, b = p + (1 - p) * q, (1 - p) * q
    return float(np.log(a * (1 - b) / (b * (1 - a))))
