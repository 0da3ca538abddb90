from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import pairwise
from math import comb
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import (
    DirectEncoding,
    ScriptedSource,
    every_path,
    randomness,
    seeded_source,
    system_source,
)
from deniable.errors import ParameterError, RandomnessError
from deniable.exact_draws import add_ones, lemire, search_rows
from deniable.randomness import ONE, Categorical


@pytest.mark.parametrize("sixteenths", range(1, 16))
def test_a_coin_of_four_digits_comes_up_exactly_as_often_as_it_says(sixteenths: int) -> None:
    # ReplayedSource i of the four words spells the digits of i % 16: one pass walks every path,
    # four times over.
    lanes = np.arange(64) % 16
    words = [
        sum(1 << lane for lane in range(64) if lanes[lane] >> (3 - digit) & 1) for digit in range(4)
    ]
    source = ScriptedSource(b"".join(word.to_bytes(8, "little") for word in words) + bytes(64 * 8))
    drawn = source.bit_rows(sixteenths * (ONE // 16), 1, 64)
    assert np.bitwise_count(drawn).sum() == 4 * sixteenths


HEAD = 11
"""Digits that are drawn for all lanes together; a lane that agrees in them has 64 more to
itself."""


def test_a_coin_is_decided_by_its_last_digit() -> None:
    # The smallest coin there is comes up only if the uniform number agrees with it in 63 digits and
    # lies below in the last.
    agree = (ONE - 1).to_bytes(8, "little") * HEAD
    edge = 1 << HEAD  # what is left of the numerator 1 after the head
    assert ScriptedSource(agree + (edge - 1).to_bytes(8, "little") * 64).bit_rows(1, 1, 64).all()
    assert not ScriptedSource(agree + edge.to_bytes(8, "little") * 64).bit_rows(1, 1, 64).any()
    for digit in range(HEAD):
        script = bytearray(agree + bytes(64 * 8))
        script[8 * digit] ^= 1  # lane 0 differs from the numerator at this digit
        assert ScriptedSource(bytes(script)).bit_rows(1, 1, 64).tolist() == [[254] + [255] * 7]


@pytest.mark.parametrize(
    "numerator", [1, 3 << 40, ONE // 3, ONE // 2 + 1, ONE - 1, 0x5555_5555_5555_5555]
)
def test_every_lane_is_what_comparing_its_number_gives(numerator: int) -> None:
    # Most lanes agree with the numerator in the head, and what follows lies around the rest of the
    # numerator.
    random = np.random.default_rng(numerator % 1000)
    top, rest = numerator >> (64 - HEAD), (numerator << HEAD) % ONE
    heads = [
        [top ^ (random.integers(8) == 0) << int(random.integers(HEAD)) for _ in range(64)]
        for _ in range(2)
    ]
    tails = [max(0, min(ONE - 1, rest + int(random.integers(-2, 3)))) for _ in range(128)]
    # A random 1 stands for a digit 0 of the uniform number.
    digits = [
        sum((int(head) >> (HEAD - 1 - digit) & 1 ^ 1) << lane for lane, head in enumerate(word))
        for digit in range(HEAD)
        for word in heads
    ]
    source = ScriptedSource(b"".join(word.to_bytes(8, "little") for word in digits + tails))
    drawn = source.bit_rows(numerator, 2, 64).view("<u8")[:, 0].tolist()

    # Word after word, and lane after lane: each that is undecided takes the next of the tails.
    undecided = [
        (i, lane) for i, word in enumerate(heads) for lane, head in enumerate(word) if head == top
    ]
    own = dict(zip(undecided, tails, strict=False))
    expected = [
        sum(
            (int(head) << 64 | own.get((i, lane), 0)) < numerator << HEAD and 1 << lane
            for lane, head in enumerate(word)
        )
        for i, word in enumerate(heads)
    ]
    assert drawn == expected
    assert len(own) > 80
    assert source.remaining == 8 * (128 - len(own))


@pytest.mark.parametrize("digits", ["1", "01", "10011", "01011101", "11111111", "00000001"])
def test_chunk_after_chunk_is_drawn_into_its_own_place(
    digits: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(randomness, "_CHUNK_WORDS", 3)
    monkeypatch.setattr(randomness, "_per_thread", randomness._PerThread())
    numerator = int(digits, 2) << (64 - len(digits))
    script = seeded_source(digits).words(8 * len(digits))
    drawn = ScriptedSource(script.tobytes()).bit_rows(numerator, 8, 64).view("<u8")[:, 0].tolist()
    # Three words at a time: the first digit of each, then the second of each, and so on.
    at, expected = 0, []
    for size in (3, 3, 2):
        rows = script[at : at + size * len(digits)].reshape(len(digits), size)
        at += rows.size
        for word in rows.T:
            numbers = ["".join("10"[int(row) >> lane & 1] for row in word) for lane in range(64)]
            expected.append(sum((number < digits) << lane for lane, number in enumerate(numbers)))
    assert drawn == expected


def test_certain_coins_draw_nothing() -> None:
    assert not ScriptedSource(b"").bit_rows(0, 3, 9).any()
    assert ScriptedSource(b"").coins(ONE, 5).tolist() == [1] * 5


def test_bits_beyond_the_width_are_zero() -> None:
    rows = seeded_source(1).bit_rows(ONE - 1, 1000, 11)
    assert rows.shape == (1000, 2)
    assert (rows[:, 1] >> 3 == 0).all()
    assert (rows[:, 0] == 255).mean() > 0.99


@pytest.mark.parametrize("numerator", [-1, ONE + 1])
def test_an_impossible_coin_is_refused(numerator: int) -> None:
    with pytest.raises(ParameterError, match="numerator"):
        system_source().coins(numerator, 1)


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 6, 7, 100, 255, 256])
def test_bounded_integers_are_equally_likely(bound: int) -> None:
    values, rejected = lemire(np.arange(256, dtype=np.uint8), bound, 8)
    kept = np.delete(values, rejected)
    assert len(set(Counter(kept.tolist()).values())) == 1
    assert set(kept.tolist()) == set(range(bound))


def test_bounded_integers_stay_below_their_bound_and_reach_all_of_it() -> None:
    drawn = seeded_source(3).below(1000, 100_000)
    assert set(drawn.tolist()) == set(range(1000))


@pytest.mark.parametrize("bound", [0, -3, (1 << 32) + 1])
def test_an_impossible_bound_is_refused(bound: int) -> None:
    with pytest.raises(ParameterError, match="bound"):
        system_source().below(bound, 1)


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 8, 20])
def test_a_cell_begins_exactly_at_its_threshold(cells: int) -> None:
    edges = np.sort(
        np.random.default_rng(cells).choice(10_000, size=(2, cells - 1), replace=False), axis=1
    ).astype(np.uint64)
    edges += np.uint64(1)
    words = np.concatenate(
        [edges[1], edges[1] - np.uint64(1), [np.uint64(0), np.uint64(ONE - 1)]]
    ).astype(np.uint64)
    expected = np.searchsorted(edges[1], words, side="right")
    assert (
        search_rows(edges, np.ones(words.size, dtype=np.intp), words).tolist() == expected.tolist()
    )


def test_one_more_is_added_in_every_free_place_and_nowhere_else() -> None:
    # Every set of 9 bits against every place: the free places, and they alone, make a new set, each
    # its own.
    sets, places = map(np.ravel, np.meshgrid(np.arange(512), np.arange(9), indexing="ij"))
    rows = np.unpackbits(
        sets.astype("<u2").view(np.uint8).reshape(-1, 2), axis=1, bitorder="little"
    )
    packed = np.packbits(rows, axis=1, bitorder="little")
    free = add_ones(packed, np.arange(len(packed)), places)
    assert (free == (sets >> places & 1 == 0)).all()
    assert (packed.view("<u2")[:, 0] == sets | 1 << places).all()


@pytest.mark.parametrize(
    ("width", "size"), [(4, 1), (7, 3), (9, 4), (9, 7), (10, 9), (1, 0), (6, 6)]
)
def test_subsets_are_equally_likely(width: int, size: int) -> None:
    n = 100_000
    seen = Counter(row.tobytes() for row in seeded_source(width).subsets(n, width, size))
    possible = comb(width, size)
    assert len(seen) == possible
    statistic = sum((count - n / possible) ** 2 for count in seen.values()) / (n / possible)
    assert possible == 1 or stats.chi2.sf(statistic, possible - 1) > 1e-9


def test_places_of_wide_subsets_are_equally_likely_alone_and_in_pairs() -> None:
    n, width, size = 40_000, 300, 80
    bits = np.unpackbits(
        seeded_source(5).subsets(n, width, size), axis=1, count=width, bitorder="little"
    ).astype(np.float64)
    assert (bits.sum(axis=1) == size).all()
    together = bits.T @ bits
    single, pair = size / width, size * (size - 1) / (width * (width - 1))
    z = stats.norm.isf(1e-9 / width**2)
    assert (
        np.abs(np.diagonal(together) - n * single) < z * np.sqrt(n * single * (1 - single))
    ).all()
    off = together[~np.eye(width, dtype=bool)]
    assert (np.abs(off - n * pair) < z * np.sqrt(n * pair * (1 - pair))).all()


@pytest.mark.parametrize("size", [-1, 5])
def test_a_subset_larger_than_the_whole_is_refused(size: int) -> None:
    with pytest.raises(ParameterError, match=r"size = -?\d must lie between 0 and the width, 4"):
        system_source().subsets(1, 4, size)


WEIGHTS = [ONE // 3, 5, (1 << 48) - 1, 0, (1 << 48) * 1000, ONE - ONE // 3 - 4 - (1 << 48) * 1001]


def test_a_law_gives_each_outcome_exactly_its_weight() -> None:
    law = Categorical(WEIGHTS)
    owned = np.bincount(law.lookup[: law.owned], minlength=len(WEIGHTS))
    ends = [*law.remainders.tolist(), (65_536 - law.owned) << 48]
    remainders = np.diff(np.array([0, *ends], dtype=object))
    assert [
        (int(whole) << 48) + rest for whole, rest in zip(owned, remainders, strict=True)
    ] == WEIGHTS
    # And the draws read the table so: at the edges of what is left over, the outcome changes
    # exactly there.
    for outcome, (start, end) in enumerate(pairwise([0, *ends])):
        for place in {start, end - 1} if end > start else ():
            prefix, rest = law.owned + (place >> 48), place & ((1 << 48) - 1)
            script = prefix.to_bytes(2, "little") + (rest << 16 | 0xFFFF).to_bytes(8, "little")
            assert ScriptedSource(script).outcomes(law, 1).tolist() == [outcome]


def test_a_decided_prefix_draws_two_bytes_and_no_more() -> None:
    law = Categorical([ONE // 2, ONE // 4, ONE // 4])
    source = ScriptedSource(
        np.array([0, 32_767, 32_768, 49_151, 49_152, 65_535], dtype="<u2").tobytes()
    )
    assert source.outcomes(law, 6).tolist() == [0, 0, 1, 1, 2, 2]
    assert source.remaining == 0


def test_every_path_walks_a_law() -> None:
    paths = {
        int(outcome[0]): probability
        for probability, outcome in every_path(lambda s: s.outcomes(Categorical(WEIGHTS), 1))
    }
    assert paths == {i: Fraction(weight, ONE) for i, weight in enumerate(WEIGHTS) if weight}


def test_bulk_outcomes_follow_the_law() -> None:
    # Chi-square over more than one chunk, false alarms 1e-9; most of the weight lies in the
    # remainders of many small outcomes.
    weights = [ONE // 4001] * 4000
    law = Categorical([*weights, ONE - sum(weights)])
    drawn = np.bincount(seeded_source(4).outcomes(law, 400_000), minlength=4001)
    assert stats.chisquare(drawn, 400_000 * np.array(law.weights, dtype=float) / ONE).pvalue > 1e-9


@pytest.mark.parametrize("weights", [[], [ONE, 1], [ONE - 1], [ONE + 1, -1], [1] * 5000])
def test_an_impossible_law_is_refused(weights: list[int]) -> None:
    with pytest.raises(ParameterError, match="weights"):
        Categorical(weights)


def test_subsets_have_the_size_asked_for() -> None:
    rows = seeded_source(2).subsets(500, 13, 5)
    assert (np.bitwise_count(rows).sum(axis=1) == 5).all()
    assert (rows[:, 1] >> 5 == 0).all()


def test_every_path_adds_up_and_weighs_each_outcome() -> None:
    law: defaultdict[int, Fraction] = defaultdict(Fraction)
    for probability, total in every_path(lambda s: int(s.below(6, 2).sum())):
        law[total] += probability
    assert law[5] == Fraction(1, 6)
    assert sum(law.values()) == 1


def test_raw_bytes_cannot_be_walked() -> None:
    with pytest.raises(RandomnessError, match="raw bytes"):
        next(every_path(lambda s: s.words(1)))


def test_a_seed_repeats_and_another_does_not() -> None:
    assert seeded_source(1).words(4).tolist() == seeded_source(1).words(4).tolist()
    assert seeded_source(1).words(4).tolist() != seeded_source(2).words(4).tolist()
    assert seeded_source("1").words(1).tolist() != seeded_source(1).words(1).tolist()


def test_a_seed_must_be_given_as_one() -> None:
    with pytest.raises(ParameterError, match="seed"):
        seeded_source(1.5)  # type: ignore[arg-type]


def test_a_used_up_script_says_so() -> None:
    source = ScriptedSource(bytes(8))
    source.words(1)
    with pytest.raises(RandomnessError, match="0 bytes left"):
        source.words(1)


def test_a_seeded_source_is_not_copied_by_pickle_and_the_system_source_is_shared() -> None:
    with pytest.raises(TypeError, match="seeded"):
        pickle.dumps(seeded_source(1))
    assert pickle.loads(pickle.dumps(system_source())) is system_source()  # noqa: S301


def _send_words(connection: object) -> None:
    connection.send(system_source().words(4).tolist())  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_children_draw_differently_from_each_other_and_the_parent() -> None:
    context = multiprocessing.get_context("fork")
    drawn = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        child = context.Process(target=_send_words, args=(theirs,))
        child.start()
        drawn.append(ours.recv())
        child.join()
    drawn.append(system_source().words(4).tolist())
    assert len(set(map(tuple, drawn))) == 3


def test_threads_never_get_the_same_words() -> None:
    drawn: list[int] = []

    def work() -> None:
        for _ in range(200):
            drawn.extend(system_source().words(5).tolist())

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == 8 * 200 * 5


def test_a_numpy_integer_seeds_as_the_same_integer_does() -> None:
    assert (
        seeded_source(np.int64(7)).below(1000, 5).tolist()
        == seeded_source(7).below(1000, 5).tolist()
    )


@pytest.mark.parametrize(
    ("source", "kind"), [(1, "int"), (np.random.default_rng(1), "Generator")], ids=str
)
def test_a_seed_or_a_generator_in_place_of_a_source_is_refused(source: Any, kind: str) -> None:
    with pytest.raises(
        ParameterError, match=f"source = '{kind}' must be a Source, such as seeded_source"
    ):
        DirectEncoding(3, 1.0).privatize([0, 1, 2], source)
