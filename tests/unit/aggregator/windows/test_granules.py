"""No difference of two published figures isolates fewer answers than the minimum cohort: every
figure is a sum of granules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deniable.aggregator.state import connect
from deniable.aggregator.windows.granules import group_epochs, last_segment, released_granules
from deniable.aggregator.windows.window import Window
from deniable.queries.releasing import release_words
from deniable.queries.schedule import Schedule
from deniable.queries.strata import Stratum
from deniable.queries.summary import summary
from deniable.service.files import row_checks
from toolkit.crowds import ORIGIN, Crowd, minute_query
from toolkit.releases import ReleasingAggregator, telling_query

TUMBLING = Schedule(ORIGIN, ORIGIN + 3600, 60, 180, 180)
SLIDING = Schedule(ORIGIN, ORIGIN + 3600, 60, 180, 60)
ONE_BY_ONE = Schedule(ORIGIN, ORIGIN + 3600, 60, 60, 60)


@pytest.fixture
def crowds(tmp_path: Path) -> Iterator[Any]:
    made: list[Crowd] = []

    def make(**changes: Any) -> Crowd:
        folder = tmp_path / str(len(made))
        folder.mkdir()
        made.append(Crowd(folder, minute_query(**changes)))
        return made[-1]

    yield make
    for crowd in made:
        crowd.close_all()


def counts(window: Window) -> np.ndarray[Any, Any]:
    """The answers in each bucket: the mechanism of these tests hardly randomizes, so that the
    estimate is the truth."""
    if window.estimate is None:
        return np.zeros(12)
    return np.rint(window.estimate.proportions * window.n)


def differences(windows: Sequence[Window]) -> list[float]:
    """How many answers make up the difference of each two results that are not alike."""
    found = [np.abs(counts(one) - counts(other)).sum() for one, other in combinations(windows, 2)]
    return [n for n in found if n]


def run_epochs(crowd: Crowd, sizes: Sequence[int]) -> list[Window]:
    """The windows of epochs with these numbers of answers, each in a bucket of its own."""
    engine = crowd.engine()
    for epoch, n in enumerate(sizes):
        crowd.now = ORIGIN + 60 * epoch
        crowd.answer([epoch % 11] * n, epoch)
    crowd.now = ORIGIN + 60 * len(sizes)
    crowd.mark(len(sizes))
    engine.drain()
    return crowd.windows()


def test_the_last_revision_does_not_differ_from_the_one_before_by_one_answer(crowds: Any) -> None:
    crowd = crowds(schedule=ONE_BY_ONE, grace=600, minimum_cohort=500)
    engine = crowd.engine(early=60, patience=900)
    crowd.answer([1] * 5000)
    crowd.now = ORIGIN + 120
    engine.drain()
    crowd.answer([7])
    crowd.mark(1)
    engine.drain()
    early, last = crowd.windows()
    assert (early.final, early.n, early.held_back) == (False, 5000, 0)
    assert (last.final, last.n, last.held_back) == (True, 5000, 1)
    assert differences([early, last]) == []
    assert last.conservation["balanced"]
    assert [each["counted"] for each in last.conservation["proxies"].values()] == [5001] * 2


def test_late_answers_are_released_once_they_are_a_cohort(crowds: Any) -> None:
    crowd = crowds(schedule=ONE_BY_ONE, grace=6000, minimum_cohort=50)
    engine = crowd.engine(early=60, patience=9000)
    crowd.answer([1] * 100)
    for late, age in (([2] * 30, 60), ([3] * 30, 120), ([4] * 30, 240), ([], 480)):
        crowd.now = ORIGIN + 60 + age
        engine.drain()
        if late:
            crowd.answer(late)
    crowd.mark(1)
    engine.drain()
    windows = crowd.windows()
    assert [(each.n, each.final) for each in windows] == [(100, False), (160, False), (160, True)]
    assert windows[-1].held_back == 30
    assert min(differences(windows)) >= 50


def test_windows_that_overlap_do_not_differ_by_a_small_epoch(crowds: Any) -> None:
    """
    epoch        0    1   2   3    4    5        answers
    answers     200   3  200 200   5   200
    window 0    [---------)                      without epoch 1
    window 1         [---------)
    window 2             [---------)
    window 3                 [---------)
    """
    crowd = crowds(schedule=SLIDING, minimum_cohort=100)
    windows = run_epochs(crowd, [200, 3, 200, 200, 5, 200])
    assert [(each.n, each.held_back, each.condition) for each in windows] == [
        (400, 3, "complete"),
        (400, 3, "complete"),
        (400, 5, "complete"),
        (400, 5, "complete"),
    ]
    assert min(differences(windows)) >= 100


def test_small_epochs_are_joined_and_windows_that_cut_them_leave_them_out(crowds: Any) -> None:
    """
    epoch        0   1   2   3   4
    answers     40  40  40  40  40        of 60 that are needed
    granules    [---)   [---)
    window 0    [---------)               0 and 1
    window 1        [---------)           2 and 3
    window 2            [---------)       2 and 3
    """
    crowd = crowds(schedule=SLIDING, minimum_cohort=60)
    windows = run_epochs(crowd, [40] * 5)
    assert [(each.n, each.held_back) for each in windows] == [(80, 40)] * 3
    assert [np.flatnonzero(counts(each)).tolist() for each in windows] == [[0, 1], [2, 3], [2, 3]]
    assert "40 answers are held back" in str(windows[0])


def test_a_window_that_does_not_overlap_others_has_all_its_epochs_however_small(
    crowds: Any,
) -> None:
    crowd = crowds(schedule=TUMBLING, minimum_cohort=100)
    windows = run_epochs(crowd, [3, 99, 2, 200, 1, 2])
    assert [(each.n, each.held_back, each.condition) for each in windows] == [
        (104, 0, "complete"),
        (203, 0, "complete"),
    ]


def test_a_stratum_or_version_that_is_too_small_is_in_no_figure(crowds: Any) -> None:
    strata = [Stratum("city", 1.0, 1000), Stratum("village", 1.0, 10)]
    crowd = crowds(schedule=ONE_BY_ONE, minimum_cohort=100, strata=strata)
    engine = crowd.engine()
    crowd.answer([1] * 300, strata=0)
    crowd.answer([2] * 4, strata=1)
    crowd.mark(1)
    engine.drain()
    (window,) = crowd.windows()
    assert (window.n, window.held_back) == (300, 4)
    assert counts(window).tolist() == [0, 300, *[0] * 10]
    assert window.estimate is not None
    assert (
        "too few answers from village: the estimate is of the other strata" in window.estimate.notes
    )

    other = crowds(schedule=ONE_BY_ONE, minimum_cohort=100)
    engine = other.engine()
    newer = other.query.revised()
    other.publish(newer)
    other.answer([1] * 300)
    other.answer([2] * 4, query=newer)
    other.mark(1)
    engine.drain()
    (window,) = other.windows()
    assert (window.n, window.held_back, window.serial) == (300, 4, 1)


def test_granules_outlive_a_restart(crowds: Any) -> None:
    crowd = crowds(schedule=SLIDING, grace=600, minimum_cohort=60)
    crowd.engine(early=60, patience=900)
    for epoch, n in enumerate([40, 40, 40, 40]):
        crowd.now = ORIGIN + 60 * epoch
        crowd.answer([epoch] * n, epoch)
        engine = crowd.engine(publish_query=epoch < 0, early=60, patience=900)
        engine.drain()
    crowd.now = ORIGIN + 300
    engine.drain()
    crowd.answer([9] * 3, 0)  # late, for a granule that is out
    for _ in range(2):
        engine = crowd.engine(publish_query=False, early=60, patience=900)
        crowd.mark(4)
        engine.drain()
    windows = crowd.windows()
    assert [each.n for each in windows if each.index == 0] == [80, 80]
    assert min(differences(windows)) >= 60


def statements_to_close(folder: Path, n_epochs: int) -> int:
    """How many statements read the state when a window of so many epochs is closed, each of them a
    granule."""
    folder.mkdir()
    length = 60 * n_epochs
    query = telling_query(
        schedule=Schedule(ORIGIN, ORIGIN + length, 60, length, length), minimum_cohort=2
    )
    aggregator = ReleasingAggregator(folder, [query], early=600)
    for epoch in range(n_epochs):
        aggregator.answer(query, epoch, 0, 3)
    aggregator.close_epochs(n_epochs - 1)
    read: list[str] = []
    aggregator.state.connection.set_trace_callback(read.append)
    aggregator.close_epochs(n_epochs)
    aggregator.state.connection.set_trace_callback(None)
    assert [each["n"] for each in aggregator.windows(query)] == [3 * n_epochs]
    assert (
        len(released_granules(aggregator.state.connection, query.id, range(n_epochs))) == n_epochs
    )
    aggregator.close()
    return sum(statement.startswith("SELECT") for statement in read)


def test_closing_a_window_reads_the_state_as_often_however_many_epochs_it_has(
    tmp_path: Path,
) -> None:
    assert (
        statements_to_close(tmp_path / "long", 24) == statements_to_close(tmp_path / "short", 2) > 0
    )


def downgraded(crowd: Crowd) -> None:
    """Make the state what the release before granules left."""
    crowd.close()
    connection = connect(crowd.folder / "state.db")
    row_checks.unguard(connection)
    connection.executescript(
        """
        DROP TABLE granules;
        DROP TABLE sealed;
        ALTER TABLE versions RENAME COLUMN margin TO wish;
        ALTER TABLE tokens RENAME COLUMN hash TO digest;
        ALTER TABLE grants RENAME COLUMN hash TO digest;
        UPDATE meta SET value = 4 WHERE name = 'schema';
        PRAGMA application_id = 0;
        PRAGMA user_version = 0;
        """
    )
    connection.close()


def test_a_state_of_the_last_release_goes_on_and_repeats_what_it_had_released(crowds: Any) -> None:
    """epoch      0    1    2         cohort 50 answers   60   70   80 closed    yes  yes
    open, and released early by the old release; then 3 more answers come
    """
    crowd = crowds(schedule=ONE_BY_ONE, grace=600, minimum_cohort=50)
    engine = crowd.engine(early=60, patience=900)
    for epoch, n in enumerate([60, 70, 80]):
        crowd.now = ORIGIN + 60 * epoch
        crowd.answer([epoch] * n, epoch)
    crowd.now = ORIGIN + 240
    crowd.mark(2)
    engine.drain()
    downgraded(crowd)
    engine = crowd.engine(publish_query=False, early=60, patience=900)
    crowd.answer([9] * 60, 2)
    crowd.answer([9] * 60, 3)
    crowd.mark(4)
    engine.drain()
    assert [(each.index, each.n, each.final, each.held_back) for each in crowd.windows()] == [
        *((0, 60, True, 0), (1, 70, True, 0), (2, 80, False, 0)),
        *((2, 80, True, 60), (3, 60, True, 0)),
    ]
    assert crowd.state is not None
    known = released_granules(crowd.state.connection, crowd.query.id, range(9))
    assert [(each.first, each.n) for each in known] == [(0, 60), (1, 70), (3, 60)]


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=24),
    cohort=st.integers(1, 60),
    slide=st.integers(1, 6),
    more=st.integers(0, 8),
)
@settings(max_examples=300, deadline=None)
def test_groups_are_disjoint_and_large_enough_and_within_a_segment_nothing_is_left(
    sizes: list[int], cohort: int, slide: int, more: int
) -> None:
    schedule = Schedule(0, 6000, 1, slide + more, slide)
    given_sizes = [(epoch, n) for epoch, n in enumerate(sizes) if n]
    groups = group_epochs(given_sizes, cohort, schedule)
    taken = [epoch for group in groups for epoch in group]
    assert len(taken) == len(set(taken))
    assert all(sum(sizes[epoch] for epoch in group) >= cohort for group in groups)
    # Every window begins and ends between segments: what is left of a segment that has a group
    # joins it.
    for window in range(schedule.n_windows):
        epochs = schedule.epochs_of_window(window)
        if epochs.stop > len(sizes) or (slide + more) % slide:
            continue
        for start in range(epochs.start, epochs.stop, slide):
            segment = range(start, start + slide)
            if any(set(group) <= set(segment) for group in groups):
                assert {epoch for epoch in segment if sizes[epoch]} <= set(taken)


def test_epochs_are_grouped_when_the_last_of_their_segment_is_closed() -> None:
    assert [last_segment(TUMBLING, epoch) for epoch in range(4)] == [None, None, range(3), None]
    assert [last_segment(SLIDING, epoch) for epoch in range(4)] == [
        range(1),
        range(1, 2),
        range(3),
        range(1, 4),
    ]
    uneven = Schedule(0, 1000, 1, 5, 3)  # windows 0-4, 3-7, 6-10: segments 0-2, 3-4, 5, 6-7, 8, …
    assert [last_segment(uneven, epoch) for epoch in range(9)] == [
        *(None, None, range(3), None, range(5), range(5, 6), None, range(3, 8), range(8, 9)),
    ]
    assert last_segment(Schedule(0, 8, 1, 3, 3), 7) == range(6, 8), (
        "the end of the query's life ends a segment"
    )


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"population": 1000}, []),
        ({"population": None}, []),
        ({"population": 100}, ["About 100 answers come in 1 min, and the minimum cohort is 250"]),
        (
            {"population": 80},
            [
                "A window has about 240 answers, and the minimum cohort is 250: no result would be"
                " released."
            ],
        ),
        ({"population": 100, "schedule": TUMBLING}, []),
        (
            {
                "strata": [
                    Stratum("city", 1.0, 900),
                    Stratum("village", 1.0, 20),
                    Stratum("island", 0.5, 300),
                ]
            },
            [
                (
                    "A window has about 60 answers from village, and the minimum cohort is 250:"
                    " village would be left out"
                ),
                "About 150 answers from island come in 1 min",
            ],
        ),
    ],
)
def test_a_query_that_could_not_be_released_is_warned_of_before_it_is_signed(
    changes: Any, found: list[str]
) -> None:
    query = minute_query(**{"schedule": SLIDING, "minimum_cohort": 250, **changes})
    lines = release_words(query)
    assert len(lines) == len(found)
    assert all(line.startswith(start) for line, start in zip(lines, found, strict=True))
    assert all(line in summary(query) for line in lines)
