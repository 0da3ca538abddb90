"""The shuffled epsilon of a window: for whom it is stated, among how many, and never below what an
exact count shows."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.aggregator.windows.shuffled_loss import shuffled_loss
from deniable.aggregator.windows.window import Window
from deniable.counts import Counts
from deniable.privacy import blanket_epsilon, shuffled_epsilon
from deniable.privacy.blanket import SHUFFLED_DELTA
from deniable.privacy.release_accountant import rounded_down
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.strata import Stratum
from deniable.randomness import seeded_source
from toolkit.devices import asked

MECHANISM = {"name": "OptimizedUnary", "epsilon": 1.0}


def pane(query: Query, n: int) -> Counts:
    indices = np.arange(n) % len(query.buckets)
    if query.ones > 1:
        sets = np.column_stack([indices, *[np.full(n, -1)] * (query.ones - 1)])
        reports = query.mechanism.draw_sets(sets, seeded_source(n))
    else:
        reports = query.mechanism.draw(indices, seeded_source(n))
    return Counts(query.mechanism.count(reports), n)


def window_of(query: Query, *sizes: int) -> Window:
    panes = {
        PaneKey(query.id, query.serial, epoch, 0): pane(query, n) for epoch, n in enumerate(sizes)
    }
    return assemble([query], 0, panes)


def test_a_window_states_the_loss_of_its_own_mechanism_among_the_reports_of_one_epoch() -> None:
    """Epochs can be told apart, by windows that overlap and in the history: an answer hides among
    those of its own."""
    query = asked(mechanism=MECHANISM)
    window = window_of(query, 4000, 2500, 6000)
    exact = blanket_epsilon(query.mechanism, 2500, SHUFFLED_DELTA)
    assert window.shuffled_among == 2500
    assert window.delta_shuffled == SHUFFLED_DELTA
    assert window.epsilon_shuffled is not None
    assert exact * (1 - 1e-3) <= window.epsilon_shuffled <= 1.02 * exact
    assert window.epsilon_shuffled < shuffled_epsilon(1.0, 2500, SHUFFLED_DELTA)
    assert (
        "for anyone who sees only the reports, shuffled among 2,500 or more (delta 1e-06)"
        in str(window)
    )


def test_strata_and_versions_hide_nobody_in_each_other() -> None:
    query = asked(mechanism=MECHANISM, strata=[Stratum("north"), Stratum("south")])
    newer = query.revised(mechanism={"name": "OptimizedUnary", "epsilon": 2.0})
    one = {
        PaneKey(query.id, 1, 0, 0): pane(query, 3000),
        PaneKey(query.id, 1, 0, 1): pane(query, 700),
    }
    alone = shuffled_loss([query], one)
    assert alone is not None
    assert alone.crowd == 700
    both = shuffled_loss(
        [query, newer], {**one, PaneKey(query.id, newer.serial, 1, 0): pane(newer, 5000)}
    )
    assert both is not None
    found = blanket_epsilon(newer.mechanism, 5000, SHUFFLED_DELTA)
    assert both.epsilon == pytest.approx(max(alone.epsilon, found), rel=0.02)


def test_of_memoized_answers_and_of_withheld_windows_none_is_stated() -> None:
    memoized = window_of(asked(mechanism=MECHANISM, memoize=True), 3000)
    assert memoized.estimate is not None
    assert memoized.epsilon_shuffled is memoized.shuffled_among is None
    assert "sees only the reports" not in str(memoized)
    assert window_of(asked(mechanism=MECHANISM, minimum_cohort=5000), 3000).epsilon_shuffled is None


def test_several_rows_of_a_person_are_all_paid_for() -> None:
    """k steps of (e, d) are (k e, d (e^(k e) - 1)/(e^e - 1)); the window's delta is the whole of
    it."""
    query = asked(mechanism=MECHANISM, rows="several", most_rows=3)
    found = window_of(query, 4096).epsilon_shuffled
    assert found is not None
    one = found / 3
    part = SHUFFLED_DELTA * math.expm1(query.epsilon) / math.expm1(3 * query.epsilon)
    assert one == pytest.approx(blanket_epsilon(query.mechanism, 4096, part), rel=1e-3)
    assert found > 3 * blanket_epsilon(query.mechanism, 4096, SHUFFLED_DELTA) * (1 - 1e-3)
    assert part * math.expm1(3 * one) / math.expm1(one) <= SHUFFLED_DELTA


def test_answers_in_several_buckets_have_the_bound_for_every_mechanism() -> None:
    query = asked(mechanism=MECHANISM, columns=[Column("d", ["a", "b", "c"])], ones=2, rows="all")
    found = window_of(query, 4096).epsilon_shuffled
    assert found == pytest.approx(shuffled_epsilon(query.epsilon, 4096, SHUFFLED_DELTA), rel=1e-3)


@pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 1000, 4096, 99_999, 10**7])
def test_a_crowd_is_rounded_down_and_by_little(n: int) -> None:
    assert 0.97 * n < rounded_down(n) <= n


def test_a_small_crowd_hides_nothing_and_says_so() -> None:
    window = window_of(asked(mechanism=MECHANISM, minimum_cohort=1), 3)
    assert window.epsilon_shuffled == pytest.approx(1.0)
    assert window.shuffled_among == 3


def test_documents_keep_it_and_older_ones_have_none() -> None:
    window = window_of(asked(mechanism=MECHANISM), 2500)
    document = window.to_dict()
    assert Window.from_dict(document) == window
    older = {name: value for name, value in document.items() if "shuffled" not in name}
    assert Window.from_dict(older).epsilon_shuffled is None


def test_the_next_window_of_about_as_many_answers_finds_the_figure_again() -> None:
    """A first one may take some tenths of a second; then closing a window costs microseconds
    more."""
    query = asked(mechanism=MECHANISM, id="closes-quickly")
    sizes = [20_000 + i for i in range(50)]
    assert len({rounded_down(n) for n in sizes}) == 1
    panes = [
        {PaneKey(query.id, query.serial, 0, 0): Counts(np.zeros(3, dtype=np.int64), n)}
        for n in sizes
    ]
    shuffled_loss([query], panes[0])
    start = time.perf_counter()
    for each in panes[1:]:
        shuffled_loss([query], each)
    assert time.perf_counter() - start < 0.02


def test_rows_that_lose_so_much_that_nothing_is_hidden_are_said_to() -> None:
    query = asked(
        mechanism={"name": "OptimizedUnary", "epsilon": 30.0}, rows="several", most_rows=40
    )
    window = window_of(query, 4096)
    assert window.epsilon_shuffled == query.epsilon_local


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 20.0])
@pytest.mark.parametrize(
    "name", ["OptimizedUnary", "DirectEncoding", "LocalHashing", "SubsetSelection", "BasicRappor"]
)
def test_every_window_can_be_closed_whatever_its_mechanism_and_size(
    name: str, epsilon: float
) -> None:
    mechanism = (
        {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75}
        if name == "BasicRappor"
        else {"name": name, "epsilon": epsilon}
    )
    query = asked(mechanism=mechanism, columns=[Column("d", ["a", "b", "c"], other=True)])
    found = [
        shuffled_loss([query], {PaneKey(query.id, 1, 0, 0): Counts(np.zeros(4, dtype=np.int64), n)})
        for n in (1, 2, 100, 10**6)
    ]
    losses = [each.epsilon for each in found if each is not None]
    assert len(losses) == 4
    assert all(0 < loss <= query.epsilon_local for loss in losses)
    assert losses == sorted(losses, reverse=True)
