"""Joining: one share of every proxy, the first of each; everything that arrives is matched, kept or
a duplicate."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.join import Bucket, IdSet, merge_rows, split_rows

Words = np.ndarray[Any, Any]


def rows(ids: list[int] | list[tuple[int, int]], proxy: int = 0) -> Words:
    """Rows with ascending ids; their third word tells id and proxy."""
    pairs = sorted(i if isinstance(i, tuple) else (i, 0) for i in ids)
    words = [
        [high for high, _ in pairs],
        [low for _, low in pairs],
        [high * 1000 + low * 10 + proxy for high, low in pairs],
    ]
    return np.array(words, dtype=np.uint64).reshape(3, -1)


def ids(columns: Words) -> list[int]:
    return [int(high) for high in columns[0]]


def test_a_message_is_matched_when_every_proxy_has_sent_its_share() -> None:
    joined = Bucket(3).add([[rows([1, 2, 5], p)] if p else [rows([1, 5, 9])] for p in range(3)])
    assert [ids(part) for part in joined.matched] == [[1, 5]] * 3
    assert [part[2].tolist() for part in joined.matched] == [[1000 + p, 5000 + p] for p in range(3)]
    assert [ids(part) for part in joined.kept] == [[9], [2], [2]]


def test_a_share_waits_until_the_last_proxy_comes() -> None:
    bucket = Bucket(3)
    assert bucket.add([[rows([4])], [], []]).ids.size == 0
    assert bucket.add([[], [], [rows([4], 2)]]).ids.size == 0
    joined = bucket.add([[], [rows([4], 1)], []])
    assert [part[2].tolist() for part in joined.matched] == [[4000], [4001], [4002]]
    assert [bucket.n_pending(p) for p in range(3)] == [0, 0, 0]


def test_two_shares_of_one_proxy_do_not_make_a_message() -> None:
    bucket = Bucket(2)
    joined = bucket.add([[rows([4]), rows([4], 7)], []])
    assert joined.ids.size == 0
    assert joined.duplicates == [1, 0]
    joined = bucket.add([[rows([4], 8)], []])
    assert joined.ids.size == 0
    assert joined.duplicates == [1, 0]
    # The first share is the one that counts.
    assert bucket.add([[], [rows([4], 1)]]).matched[0][2].tolist() == [4000]


def test_a_share_of_a_joined_message_is_a_duplicate_for_ever() -> None:
    bucket = Bucket(2)
    bucket.add([[rows([3, 4])], [rows([3, 4], 1)]])
    joined = bucket.add([[rows([4, 5])], [rows([4, 5], 1)]])
    assert ids(joined.matched[0]) == [5]
    assert joined.duplicates == [1, 1]
    assert [bucket.n_pending(p) for p in range(2)] == [0, 0]


def test_only_arrivals_are_kept_for_storing() -> None:
    bucket = Bucket(2)
    assert ids(bucket.add([[rows([1, 2, 3])], []]).kept[0]) == [1, 2, 3]
    joined = bucket.add([[rows([6])], [rows([2], 1)]])
    assert ids(joined.kept[0]) == [6]  # 1 and 3 are stored already
    assert bucket.n_pending(0) == 3


def test_ids_that_differ_in_their_low_word_only_are_different() -> None:
    bucket = Bucket(2)
    joined = bucket.add([[rows([(1, 1), (1, 2), (2, 0)])], [rows([(1, 2), (1, 3)], 1)]])
    assert joined.matched[0][:2].T.tolist() == [[1, 2]]
    joined = bucket.add([[rows([(1, 2), (1, 3)])], [rows([(1, 1)], 1)]])
    assert joined.matched[0][:2].T.tolist() == [[1, 1], [1, 3]]
    assert joined.duplicates == [1, 0]


def test_a_restored_bucket_goes_on_where_it_was() -> None:
    bucket = Bucket(2)
    bucket.add([[rows([1, 2, 3])], []])
    bucket.add([[], [rows([2], 1)]])
    again = Bucket(2)
    again.done.add(rows([2])[:2])
    again.restore(0, rows([1, 2, 3]))  # 2 was stored as waiting, and is joined since
    assert again.n_pending(0) == bucket.n_pending(0) == 2
    for each in (bucket, again):
        joined = each.add([[rows([2])], [rows([2, 3], 1)]])
        assert (ids(joined.matched[0]), joined.duplicates) == ([3], [1, 1])


@pytest.mark.parametrize("seed", range(20))
def test_whatever_the_order_of_arrival_every_message_is_joined_once_and_every_share_is_accounted_for(
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    n_proxies = int(rng.integers(2, 4))
    sent = [set(rng.choice(60, 50, replace=False).tolist()) for _ in range(n_proxies)]
    bucket = Bucket(n_proxies)
    matched: Counter[int] = Counter()
    arrived, repeated = [0] * n_proxies, [0] * n_proxies
    for turn in range(12):
        arrivals: list[list[Words]] = []
        for proxy in range(n_proxies):
            # In the last turn everything comes again.
            chosen = (
                [sorted(sent[proxy])]
                if turn == 11
                else [rng.choice(sorted(sent[proxy]), 6, replace=False).tolist()] * (turn % 3)
            )
            arrivals.append([rows(part, proxy) for part in chosen])
            arrived[proxy] += sum(len(part) for part in chosen)
        if not any(arrivals):
            continue
        joined = bucket.add(arrivals)
        matched.update(ids(joined.matched[0]))
        for proxy in range(n_proxies):
            assert (joined.matched[proxy][2] % 10 == proxy).all()
            repeated[proxy] += joined.duplicates[proxy]
    assert matched == Counter(set.intersection(*sent))
    for proxy in range(n_proxies):
        assert arrived[proxy] == len(matched) + repeated[proxy] + bucket.n_pending(proxy)


def test_merging_keeps_the_earliest_of_equal_ids() -> None:
    merged, n_repeated = merge_rows([rows([2, 4], 1), rows([1, 4, 5], 2), rows([4], 3)])
    assert merged[2].tolist() == [1002, 2001, 4001, 5002]
    assert n_repeated == 2


def test_rows_of_a_coarser_prefix_are_split_by_bucket_and_those_of_a_finer_one_stay_together() -> (
    None
):
    highs = [i << 60 for i in (4, 5, 5, 7)]
    block = np.array([highs, range(4)], dtype=np.uint64)
    assert [(bucket, part[1].tolist()) for bucket, part in split_rows(block, 2, 1, 4)] == [
        (4, [0]),
        (5, [1, 2]),
        (7, [3]),
    ]
    assert [(bucket, part.shape[1]) for bucket, part in split_rows(block, 2, 1, 1)] == [(0, 4)]


@pytest.mark.parametrize("on_disk", [False, True])
def test_an_id_set_knows_what_was_put_in_over_many_runs(tmp_path: Path, on_disk: bool) -> None:
    rng = np.random.default_rng(4)
    numbers = rng.permutation(500)
    known = IdSet(tmp_path if on_disk else None, largest=20)
    for start in range(0, 300, 10):
        known.add(rows(numbers[start : start + 10].tolist())[:2])
    assert len(known) == 300
    assert len(known._runs) <= 6
    left = known.without(rows(numbers[250:].tolist()))
    assert sorted(ids(left)) == sorted(numbers[300:].tolist())
    assert known.runs[0].flags.owndata is not on_disk
