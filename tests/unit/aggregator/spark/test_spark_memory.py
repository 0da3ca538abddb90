"""A bucket's memory: what a batch writes and reads of it, by whichever process, after whatever went
wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.blocks import Task
from deniable.aggregator.engines.spark import bucket_state as module
from deniable.aggregator.engines.spark.bucket_state import EpochCache, Memory
from toolkit.references.segments import InMemorySegments

TASK: Task = (7, 3, 1)
PLACE = TASK[:2]
WIDTH = 8


def rows_of(ids: Any, proxy: int = 0) -> Any:
    """Shares under these ids, ascending."""
    ids = np.sort(np.array(ids, dtype=np.uint64))
    return np.stack(
        [ids << np.uint64(32), ids, *(ids + np.uint64(100 * proxy + i) for i in range(WIDTH - 2))]
    )


class Stream:
    """Batches of one bucket, each counted by one of several processes."""

    def __init__(self, n_minds: int = 1, most_bytes: int = 1 << 30) -> None:
        self.shelf, self.head = InMemorySegments(), ""
        self.minds = [EpochCache(most_bytes) for _ in range(n_minds)]

    def open(self, mind: int = 0) -> Memory:
        return Memory(2, 5, self.head, self.shelf, self.minds[mind])

    def batch(self, arrivals: list[list[int]], mind: int = 0, *, commits: bool = True) -> Any:
        """What came from each proxy; returns what became of it. Without a commit nothing of it
        stays but what is in mind."""
        before = dict(self.shelf.content)
        memory = self.open(mind)
        parts = [[rows_of(ids, proxy)] if len(ids) else [] for proxy, ids in enumerate(arrivals)]
        joined = memory.bucket(TASK).add(parts)
        memory.note(TASK, joined)
        head = memory.save()
        if commits:
            self.head = head
        else:
            self.shelf.content = before
        return joined

    def waiting(self) -> list[int]:
        """How many shares wait, as a process knows it that has never counted here."""
        memory = Memory(2, 5, self.head, self.shelf, EpochCache(0))
        bucket = memory.bucket(TASK)
        return [bucket.n_pending(proxy) for proxy in range(2)]


def found(joined: Any) -> tuple[list[int], list[int]]:
    """The ids that were joined, and how many were duplicates."""
    return joined.ids[1].tolist(), joined.duplicates


def test_a_batch_writes_what_it_changed_and_a_process_reads_what_others_wrote() -> None:
    stream = Stream(2)
    stream.batch([list(range(1000)), list(range(1000))], 0)
    big = len(stream.shelf.content[PLACE, 0])
    stream.batch([[2000, 2001], [2001]], 0)
    assert stream.shelf.reads == []
    assert len(stream.shelf.content[PLACE, 1]) < big / 50
    # Another process has to read both; then the first one reads only what the other one has
    # written.
    assert found(stream.batch([[2001, 5], [2000]], 1)) == ([2000], [2, 0])
    assert stream.shelf.reads == [0, 1]
    assert found(stream.batch([[3000], [2000, 3000]], 0)) == ([3000], [0, 1])
    assert stream.shelf.reads == [0, 1, 2]
    for _ in range(2):  # it has caught up, though it has nothing to write
        assert found(stream.batch([[3000], [3000]], 1)) == ([], [1, 1])
        assert stream.shelf.reads == [0, 1, 2, 3]
    assert stream.waiting() == [0, 0]


def test_a_process_that_catches_up_forgets_what_waited_and_was_joined_elsewhere() -> None:
    stream = Stream(2)
    stream.batch([[1, 2, 3, 4], []], 0)
    assert found(stream.batch([[], [2, 3]], 1)) == ([2, 3], [0, 0])
    assert found(stream.batch([[2, 5], [1, 3]], 0)) == ([1], [1, 1])
    assert stream.waiting() == [2, 0]
    assert stream.open().drop(*PLACE) == [2, 0]


@pytest.mark.parametrize("again", [0, 1])
def test_an_attempt_that_failed_leaves_nothing_in_mind_that_counts(again: int) -> None:
    stream = Stream(2)
    stream.batch([[1, 2], [1]])
    stream.batch([[3], [2, 3]], 0, commits=False)
    # The batch is run again, by the same process or by another one; both go on from what was
    # committed.
    assert found(stream.batch([[3], [2, 3]], again)) == ([2, 3], [0, 0])
    assert found(stream.batch([[3, 4], [4]], 0)) == ([4], [1, 0])
    assert found(stream.batch([[4], [2, 5]], 1)) == ([], [1, 1])
    assert stream.waiting() == [0, 1]


def test_a_mind_of_another_stream_is_not_believed() -> None:
    one, other = Stream(), Stream()
    other.minds = one.minds
    one.batch([[1], [1]])
    other.batch([[2], [2]])
    assert found(one.batch([[1, 2], [2]])) == ([2], [1, 0])
    assert found(other.batch([[1, 2], [1]])) == ([1], [1, 0])


def long_stream(monkeypatch: pytest.MonkeyPatch, few: int, many: int) -> tuple[int, int]:
    """A hundred batches, compared with sets; returns the bytes written, and the most segments there
    were."""
    monkeypatch.setattr(module, "_FEW_SEGMENTS", few)
    monkeypatch.setattr(module, "_MANY_SEGMENTS", many)
    stream = Stream(2)
    rng = np.random.default_rng(3)
    left, counted, written, most = [set[int](), set[int]()], set[int](), 0, 0
    for i in range(100):
        arrivals = [rng.choice(5000, 30, replace=False).tolist() for _ in range(2)]
        known = dict(stream.shelf.content)
        joined = stream.batch(arrivals, int(rng.integers(2)))
        written += sum(
            len(content) for key, content in stream.shelf.content.items() if key not in known
        )
        most = max(most, len(stream.shelf.content))
        repeated = []
        for proxy, ids in enumerate(arrivals):
            fresh = set(ids) - counted - left[proxy]
            repeated.append(len(ids) - len(fresh))
            left[proxy] |= fresh
        both = left[0] & left[1]
        left, counted = [ids - both for ids in left], counted | both
        assert found(joined) == (sorted(both), repeated), i
    assert stream.waiting() == [len(ids) for ids in left]
    return written, most


def test_segments_are_put_together_where_that_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, everything = long_stream(monkeypatch, 1000, 1000)
    assert everything == 100
    # Whenever as much was added as there was: what is written doubles at most, and half of the
    # segments remain.
    doubled, most = long_stream(monkeypatch, 4, 1000)
    assert plain < doubled < 2.2 * plain
    assert most < 60
    assert long_stream(monkeypatch, 1000, 12)[1] == 12


def test_what_does_not_fit_in_mind_is_read_again() -> None:
    stream = Stream(most_bytes=100)
    stream.batch([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6, 7, 8]])
    assert len(stream.minds[0]) == 0
    assert found(stream.batch([[5, 6], []])) == ([6], [1, 0])
    assert stream.shelf.reads == [0]


def test_a_mind_keeps_what_was_used_last() -> None:
    mind = EpochCache(3 * 16 * 10)  # ten ids of three buckets
    shelves = [InMemorySegments() for _ in range(4)]
    heads = [""] * 4
    for bucket in (0, 1, 2, 0, 3):
        memory = Memory(2, bucket, heads[bucket], shelves[bucket], mind)
        ids = list(range(10))
        memory.note(TASK, memory.bucket(TASK).add([[rows_of(ids)], [rows_of(ids, 1)]]))
        heads[bucket] = memory.save()
    assert [shelf.reads for shelf in shelves] == [[], [], [], []]
    assert [mind.take(bucket, PLACE) is not None for bucket in range(4)] == [
        True,
        False,
        True,
        True,
    ]


def test_a_closed_epoch_leaves_the_shelf_and_every_mind() -> None:
    stream = Stream(2)
    for mind in (0, 1, 0):
        stream.batch([[10 + mind], []], mind)
    memory = stream.open(0)
    assert memory.drop(*PLACE) == [2, 0]
    stream.head = memory.save()
    assert stream.shelf.content == {}
    assert stream.open(1).places == set()
    assert [len(mind) for mind in stream.minds] == [0, 0]


def test_duplicates_alone_write_nothing() -> None:
    stream = Stream()
    stream.batch([[1], [1]])
    head = stream.head
    assert found(stream.batch([[1], [1]])) == ([], [1, 1])
    assert stream.head == head
    assert len(stream.shelf.content) == 1
