"""Counting as state machines: the join of a bucket, windows with revisions, and a controller inside
its envelope."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from deniable.aggregator.counting.catalogue import published
from deniable.aggregator.counting.join import Bucket
from deniable.queries.schedule import Schedule
from deniable.queries.signed.signing import verify
from stateful.machines import run
from toolkit.adaptive import AdaptiveRun, adaptive_query
from toolkit.crowds import ORIGIN, RING, Crowd, minute_query

N_PROXIES = 3
ROWS = st.lists(
    st.tuples(st.integers(0, 15), st.integers(0, 3)), max_size=12, unique_by=lambda row: row[0]
)


class JoinMachine(RuleBasedStateMachine):
    """Shares of three proxies in any order, twice, changed or never; the engine restarted in
    between."""

    def __init__(self) -> None:
        super().__init__()
        self.bucket = Bucket(N_PROXIES)
        self.first: list[dict[int, int]] = [{} for _ in range(N_PROXIES)]
        self.joined: dict[int, tuple[int, ...]] = {}

    @rule(arrivals=st.lists(st.lists(ROWS, max_size=2), min_size=N_PROXIES, max_size=N_PROXIES))
    def arrive(self, arrivals: list[list[list[tuple[int, int]]]]) -> None:
        if not any(part for parts in arrivals for part in parts):
            return
        found = self.bucket.add([[_columns(part) for part in parts] for parts in arrivals])
        for proxy, parts in enumerate(arrivals):
            n_before = len(self.first[proxy])
            for row_id, payload in (row for part in parts for row in part):
                if row_id not in self.joined:
                    self.first[proxy].setdefault(row_id, payload)
            n_new = len(self.first[proxy]) - n_before
            assert found.duplicates[proxy] == sum(map(len, parts)) - n_new
        complete = set.intersection(*(set(each) for each in self.first)) - set(self.joined)
        ids = found.ids[1].tolist()
        assert sorted(ids) == sorted(complete)
        for at, row_id in enumerate(ids):
            self.joined[row_id] = tuple(int(rows[2, at]) for rows in found.matched)
            assert self.joined[row_id] == tuple(first[row_id] for first in self.first)

    @rule()
    def restart(self) -> None:
        """What is stored are the ids that are done and all rows that ever waited: the engine's own
        way to begin again."""
        fresh = Bucket(N_PROXIES)
        for run_of_ids in self.bucket.done.runs:
            fresh.done.add(run_of_ids)
        for proxy, rows in enumerate(self.bucket.pending):
            if rows is not None:
                fresh.restore(proxy, rows)
        self.bucket = fresh

    @invariant()
    def nothing_is_lost(self) -> None:
        for proxy, first in enumerate(self.first):
            assert self.bucket.n_pending(proxy) == len(set(first) - set(self.joined))


def _columns(rows: list[tuple[int, int]]) -> Any:
    """Rows as they stand in a block: by id, of which some share their high word."""
    chosen = sorted(rows)
    return np.array(
        [[i // 8 for i, _ in chosen], [i for i, _ in chosen], [p for _, p in chosen]],
        dtype=np.uint64,
    ).reshape(3, -1)


class WindowMachine(RuleBasedStateMachine):
    """Answers of any epoch, on time and late; marks, a clock that goes on and back, restarts:
    windows count each answer once."""

    GRACE = 600

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        schedule = Schedule(ORIGIN, ORIGIN + 3600, 60, 120, 60)
        self.crowd = Crowd(
            self.folder, minute_query(schedule=schedule, grace=self.GRACE, minimum_cohort=3)
        )
        self.engine = self.crowd.engine(early=60, patience=900)
        self.counted: dict[int, int] = defaultdict(int)
        self.late = 0
        self.marked = 0

    def teardown(self) -> None:
        self.crowd.close_all()
        shutil.rmtree(self.folder)

    def _front(self) -> int:
        assert self.crowd.state is not None
        return next(iter(self.crowd.state.fronts().values()))

    @rule(back=st.integers(0, 8), n=st.integers(1, 6))
    def answer(self, back: int, n: int) -> None:
        epoch = max(0, (self.crowd.now - ORIGIN) // 60 - back)
        if epoch >= 59:
            return
        self.engine.drain()  # what is due at this time is closed before it comes
        late = epoch < self._front()
        self.crowd.answer([1] * n, epoch)
        self.engine.drain()
        if late:
            self.late += n
        else:
            self.counted[epoch] += n

    @rule(minutes=st.sampled_from([1, 2, 3, 7, 12, -2]))
    def pass_time(self, minutes: int) -> None:
        self.crowd.now = max(ORIGIN, self.crowd.now + 60 * minutes)
        self.engine.drain()

    @rule(behind=st.integers(0, 3))
    def mark(self, behind: int) -> None:
        """Proxies promise only what their grace allows them to."""
        epoch = (self.crowd.now - ORIGIN - self.GRACE) // 60 - behind
        if epoch > self.marked:
            self.marked = epoch
            self.crowd.mark(min(epoch, 59))
            self.engine.drain()

    @rule()
    def restart(self) -> None:
        self.engine = self.crowd.engine(publish_query=False, early=60, patience=900)

    @invariant()
    def every_answer_is_counted_once(self) -> None:
        assert self.crowd.counts()[1] == sum(self.counted.values())
        totals = self.crowd.state.connection.execute(  # type: ignore[union-attr]
            "SELECT sum(late), sum(malformed), sum(duplicate) FROM accounts"
        ).fetchone()
        assert [n or 0 for n in totals] == [2 * self.late, 0, 0]

    @invariant()
    def windows_are_revised_in_order_and_end_with_the_truth(self) -> None:
        by_index: dict[int, list[Any]] = defaultdict(list)
        for window in self.crowd.windows():
            by_index[window.index].append(window)
        for index, revisions in by_index.items():
            assert [each.revision for each in revisions] == list(range(len(revisions)))
            assert not any(each.final for each in revisions[:-1])
            sizes = [each.n for each in revisions]
            assert sizes == sorted(sizes)
            gaps = [later - before for before, later in pairwise(sizes)]
            assert all(gap >= 3 for gap in (gaps[:-1] if revisions[-1].final else gaps)), (
                "a revision says nothing new"
            )
            assert all(gap == 0 or gap >= 3 for gap in gaps), (
                "a revision shows fewer answers than a cohort"
            )
            if revisions[-1].final:
                epochs = self.crowd.query.schedule.epochs_of_window(index)
                assert sizes[-1] + revisions[-1].held_back == sum(
                    self.counted[epoch] for epoch in epochs
                )
                assert revisions[-1].conservation["balanced"]


class ControllerMachine(RuleBasedStateMachine):
    """People come, stay away and change their minds: each version lies inside the envelope, and
    serials only go up."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.run = AdaptiveRun(self.folder, adaptive_query(60, 0.05, 60.0), 1500)
        self.epoch = 0

    def teardown(self) -> None:
        self.run.close()
        shutil.rmtree(self.folder)

    @rule(yes=st.floats(0, 1), present=st.sampled_from([0.0, 0.05, 0.5, 1.0]))
    def ask(self, yes: float, present: float) -> None:
        if self.epoch >= 58:
            return
        coins = np.random.default_rng(self.epoch)
        indices = (coins.random(1500) < yes).astype(np.intp)
        self.run.epoch(self.epoch, indices, present=coins.random(1500) < present)
        self.epoch += 1

    @rule()
    def step_again(self) -> None:
        """A controller that is started anew decides nothing twice."""
        assert self.run.controller.step(self.run.crowd.state.connection) == []  # type: ignore[union-attr]

    @rule()
    def restart(self) -> None:
        self.run.engine = self.run.crowd.engine(publish_query=False)

    @invariant()
    def versions_stay_inside(self) -> None:
        connection = self.run.crowd.state.connection  # type: ignore[union-attr]
        entries = published(connection, self.run.query.id)
        assert [entry.query.serial for entry in entries] == list(range(1, len(entries) + 1))
        envelope = self.run.query.envelope
        assert envelope is not None
        for entry in entries:
            # as a device does, which refuses what is outside
            query = verify(entry.signed, RING, self.run.crowd.now)
            assert envelope.sampling[0] <= query.sampling <= envelope.sampling[1]
            assert query.epsilon_local <= envelope.epsilon_per_answer
            assert (query.sql, query.labels, query.schedule) == (
                self.run.query.sql,
                self.run.query.labels,
                self.run.query.schedule,
            )


def test_a_bucket_joins_each_message_once_whatever_comes_in_whatever_order() -> None:
    run(JoinMachine, examples=60, steps=12)


@pytest.mark.slow
def test_windows_with_revisions_count_each_answer_once() -> None:
    run(WindowMachine, examples=6, steps=15)


@pytest.mark.slow
def test_a_controller_stays_inside_its_envelope() -> None:
    run(ControllerMachine, examples=4, steps=10)
