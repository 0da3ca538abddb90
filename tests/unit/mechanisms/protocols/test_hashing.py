"""Local hashing: the family of hash functions exhaustively, the coins exactly, the errors by
simulation."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from deniable import LocalHashing, every_path, seeded_source
from deniable.errors import ParameterError
from deniable.mechanisms.exact import log_ratio
from deniable.mechanisms.protocols.hashing import MultiplyShift
from deniable.randomness import ONE
from toolkit.references.contracts import (
    assert_a_finite_population_narrows_the_error,
    assert_bytes_come_back,
    assert_covariance_is,
    refuse_rows,
    simulate,
)
from toolkit.references.laws import FALSE_ALARM, assert_errors_are_as_stated, chi_square

TINY = np.dtype(np.uint8)
# Every hash function of the family with words of 8 bits, and so codes of 4 bits and tops of 5.
ALL_ALPHA, ALL_BETA = (
    part.ravel().astype(np.uint8) for part in np.meshgrid(np.arange(256), np.arange(256))
)


def tops(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    family = MultiplyShift(TINY, g=32)  # as many buckets as tops: the bucket is the top
    return [family.hash(ALL_ALPHA, ALL_BETA, np.full(ALL_ALPHA.size, v)) for v in values]


def test_the_tops_of_two_values_are_uniform_and_independent() -> None:
    # Over all 65,536 functions, each of the 32 x 32 pairs of tops occurs exactly 64 times,
    # whichever two values are asked.
    drawn = tops(np.arange(16))
    for u, v in combinations(range(16), 2):
        assert (np.bincount(32 * drawn[u] + drawn[v], minlength=1024) == 64).all(), (u, v)


@pytest.mark.parametrize("g", [2, 3, 5, 8, 31, 32])
def test_two_values_collide_exactly_as_often_as_stated(g: int) -> None:
    family = MultiplyShift(TINY, g)
    drawn = [family.hash(ALL_ALPHA, ALL_BETA, np.full(ALL_ALPHA.size, v)) for v in range(16)]
    assert {int(bucket) for bucket in drawn[0]} == set(range(g))
    for u, v in combinations(range(16), 2):
        assert Fraction(int((drawn[u] == drawn[v]).sum()), ALL_ALPHA.size) == family.collision


@pytest.mark.parametrize("g", [2, 3, 4, 7, 256, 1000, 65_536])
@pytest.mark.parametrize("word", [np.uint32, np.uint64])
def test_the_collision_probability_is_one_over_g_to_a_hair(word: type, g: int) -> None:
    excess = MultiplyShift(np.dtype(word), g).collision - Fraction(1, g)
    assert 0 <= excess < Fraction(g, 1 << 34)
    assert (excess == 0) == (g.bit_count() == 1)


@pytest.mark.parametrize(("word", "bits"), [(np.uint8, 4), (np.uint32, 16)])
def test_no_two_values_share_a_code(word: type, bits: int) -> None:
    codes = MultiplyShift(np.dtype(word), 2).codes(np.arange(1 << bits))
    np.testing.assert_array_equal(np.sort(codes), np.arange(1 << bits))


@pytest.mark.slow
def test_no_two_values_of_a_large_domain_share_a_code() -> None:
    codes = MultiplyShift.for_values(1 << 20, 2).codes(np.arange(1 << 20))
    assert codes.dtype == np.uint64
    assert codes.max() < 1 << 32
    assert np.unique(codes).size == 1 << 20


@pytest.mark.parametrize(("k", "most"), [(16, 0), (256, 64 + 6 * 8)])
def test_codes_fall_into_lines_no_more_often_than_random_ones(k: int, most: int) -> None:
    # Three codes in arithmetic progression collide together. Of 256 random codes of 16 bits 64
    # triples do, give or take 8; of 16 random ones, one triple in one of 68 cases.
    codes = MultiplyShift.for_values(k, 2).codes(np.arange(k)).astype(int).tolist()
    known = set(codes)
    assert (
        sum((u + v) % 2 == 0 and (u + v) // 2 in known for u, v in combinations(codes, 2)) <= most
    )


@pytest.mark.parametrize("g", [2, 3, 4, 7, 300, 65_536])
@pytest.mark.parametrize("k", [5, 70_000])
def test_counting_finds_the_values_that_hash_to_the_reported_bucket(k: int, g: int) -> None:
    family = MultiplyShift.for_values(k, g)
    rng = np.random.default_rng(g)
    n, few = 20_000, 5  # more than one chunk
    alpha, beta = (rng.integers(0, 1 << family.word_bits, n, dtype=family.word) for _ in range(2))
    # Half of the buckets are those of the value 3, so that something is found however large g is.
    buckets = np.where(
        np.arange(n) % 2, family.hash(alpha, beta, np.full(n, 3)), rng.integers(0, g, n)
    )
    expected = [(family.hash(alpha, beta, np.full(n, v)) == buckets).sum() for v in range(few)]
    assert expected[3] >= n // 2
    np.testing.assert_array_equal(family.count(alpha, beta, buckets, few), expected)


def exact_bucket_law(
    mechanism: LocalHashing, seed: tuple[int, int], value: int
) -> dict[int, Fraction]:
    """P(y | hash function, value), by walking every path of the coins."""
    seeds = np.array([seed], dtype=mechanism.layout[0]["alpha"])
    law: defaultdict[int, Fraction] = defaultdict(Fraction)
    for probability, rows in every_path(
        lambda source: mechanism.answer(seeds, np.array([value]), source)
    ):
        assert (int(rows["alpha"][0]), int(rows["beta"][0])) == seed
        law[int(rows["y"][0])] += probability
    return dict(law)


@pytest.mark.parametrize(("g", "epsilon"), [(2, 1.0), (3, 0.5), (4, 1.0), (7, 2.0), (5, 1e-6)])
def test_given_any_hash_function_what_is_drawn_loses_exactly_epsilon(
    g: int, epsilon: float
) -> None:
    mechanism = LocalHashing(6, epsilon, g)
    reached = 0
    for seed in [
        (0, 0),
        (0x9E3779B9, 1),
        (0xFFFFFFFF, 0xFFFFFFFF),
        (0x80000000, 12345),
        (0x1234567, 0x89ABCDEF),
    ]:
        laws = [exact_bucket_law(mechanism, seed, value) for value in range(6)]
        for law in laws:
            assert sum(law.values()) == 1
            assert set(law) == set(range(g)), (
                "a report that some value excludes identifies the others"
            )
        worst = max(max(law[y] for law in laws) / min(law[y] for law in laws) for y in range(g))
        # no loss at all where the function sends all values to one bucket
        assert log_ratio(worst) in (mechanism.epsilon, 0.0)
        reached += log_ratio(worst) == mechanism.epsilon
    assert reached


@pytest.mark.parametrize("g", [2, 3, 5])
def test_over_the_whole_family_values_are_supported_exactly_as_the_channel_states(g: int) -> None:
    # Every function of the tiny family and every path of the coins: expected support counts, as
    # fractions.
    mechanism, k = LocalHashing(5, 1.0, g), 5
    family = MultiplyShift(TINY, g)
    mechanism._derive(family)
    kept = Fraction(mechanism._truthful, ONE)
    for x in range(k):
        bucket = family.hash(ALL_ALPHA, ALL_BETA, np.full(ALL_ALPHA.size, x))
        support = [Fraction(0)] * k
        for true in range(g):
            sent = np.flatnonzero(bucket == true)
            law = exact_bucket_law(mechanism, (int(ALL_ALPHA[sent[0]]), int(ALL_BETA[sent[0]])), x)
            assert law[true] == kept
            for y, probability in law.items():
                found = family.count(ALL_ALPHA[sent], ALL_BETA[sent], np.full(sent.size, y), k)
                support = [
                    s + probability * Fraction(int(f), ALL_ALPHA.size)
                    for s, f in zip(support, found, strict=True)
                ]
        stated = mechanism.channel()
        assert [float(s) for s in support] == [stated.a if v == x else stated.b for v in range(k)]


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, math.log(3), 5.0, 15.0, 30.0])
def test_the_whole_epsilon_is_spent_and_no_more(epsilon: float) -> None:
    assert epsilon * (1 - 1e-6) < LocalHashing(100, epsilon).epsilon <= epsilon


def test_probabilities_are_those_of_the_paper() -> None:
    assert LocalHashing(5, 1.0).channel() == pytest.approx(
        (math.e / (math.e + 3), 1 / 4), rel=1e-15
    )
    assert LocalHashing(5, 1.0, g=3).channel() == pytest.approx(
        (math.e / (math.e + 2), 1 / 3), rel=1e-9
    )


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 0.5, 1.0, 1.5, 2.0, 4.0])
def test_no_other_number_of_buckets_has_a_smaller_variance(epsilon: float) -> None:
    growth = math.exp(epsilon)

    def variance(g: int) -> float:
        # Wang et al. 2017, equation 13, times n
        return (growth - 1 + g) ** 2 / ((growth - 1) ** 2 * (g - 1))

    best = LocalHashing(50, epsilon).g
    assert best is not None
    assert abs(best - (growth + 1)) < 1
    assert variance(best) == min(variance(g) for g in range(2, 100))


def test_the_number_of_buckets_has_a_limit() -> None:
    assert LocalHashing(50, 20.0).g == 65_536


def test_bulk_draws_follow_the_channel_and_no_other() -> None:
    n, k = 200_000, 9
    mechanism = LocalHashing(k, 1.0)
    values = np.arange(n) % k
    data = mechanism.privatize(values, seeded_source(1)).data
    true = mechanism._family.hash(data["alpha"], data["beta"], values)
    observed = Counter(bytes([shift]) for shift in (data["y"] - true) % 4)

    def law(epsilon: float) -> dict[bytes, Fraction]:
        kept = Fraction(LocalHashing(k, epsilon, g=4).channel().a)
        return {bytes([shift]): kept if shift == 0 else (1 - kept) / 3 for shift in range(4)}

    assert chi_square(observed, law(1.0), n) > FALSE_ALARM
    assert chi_square(observed, law(0.8), n) < FALSE_ALARM
    assert chi_square(observed, law(1.2), n) < FALSE_ALARM


@pytest.mark.parametrize("k", [9, 70_000])
def test_hash_functions_are_drawn_uniformly(k: int) -> None:
    n = 100_000
    data = LocalHashing(k, 1.0).privatize(np.zeros(n, dtype=int), seeded_source(2)).data
    for name in ("alpha", "beta"):
        for column in np.ascontiguousarray(data[name]).view(np.uint8).reshape(n, -1).T:
            counts = np.bincount(column, minlength=256)
            assert stats.chisquare(counts).pvalue > FALSE_ALARM
    joint = np.histogram2d(data["alpha"].astype(float), data["beta"].astype(float), bins=16)[0]
    assert stats.chisquare(joint.ravel()).pvalue > FALSE_ALARM


def pure_variance(a: float, b: float, f: float) -> float:
    return b * (1 - b) / (a - b) ** 2 + f * (1 - a - b) / (a - b) + f * (1 - f)


@pytest.mark.parametrize("g", [None, 3])
def test_simulated_errors_are_the_stated_ones(g: int | None) -> None:
    mechanism = LocalHashing(4, 1.0, g)
    a, b = math.e / (math.e + (g or 4) - 1), 1 / (g or 4)
    assert_errors_are_as_stated(
        mechanism, lambda f: pure_variance(a, b, f), np.array([0.5, 0.3, 0.15, 0.05])
    )


@pytest.mark.slow
def test_simulated_covariances_of_neighbours_are_the_stated_ones() -> None:
    # Were the codes the values themselves, 0 and 2 would be supported together by too many of those
    # who hold 1, and this fails.
    n, mechanism = 200, LocalHashing(6, 2.0)
    shares = np.array([0.05, 0.7, 0.05, 0.1, 0.05, 0.05])
    a, b = mechanism.channel()
    theory = -np.outer(shares, shares)
    np.fill_diagonal(theory, [pure_variance(a, b, f) for f in shares])
    assert_covariance_is(simulate(mechanism, shares, n, trials=10_000, seed=3), theory / n)


@pytest.mark.slow
def test_a_finite_population_narrows_the_error() -> None:
    assert_a_finite_population_narrows_the_error(LocalHashing(4, 4.0))


@pytest.mark.parametrize(
    ("k", "epsilon"), [(4, 1.0), (["a", "b", "c"], 1.0), (10, 7.0), (70_000, 1.0)]
)
def test_reports_and_tallies_come_back_from_their_bytes(k: object, epsilon: float) -> None:
    assert_bytes_come_back(LocalHashing(k, epsilon))


def test_the_default_number_of_buckets_is_part_of_the_description() -> None:
    assert LocalHashing(16, 1.0).to_dict() == {
        "mechanism": "LocalHashing",
        "values": 16,
        "epsilon": 1.0,
        "g": 4,
    }
    assert LocalHashing(16, 1.0) == LocalHashing(16, 1.0, g=4) != LocalHashing(16, 1.0, g=5)


@pytest.mark.parametrize(
    ("k", "g", "length"), [(16, 4, 9), (16, 257, 10), (65_536, 4, 9), (65_537, 4, 17)]
)
def test_all_reports_are_of_one_length(k: int, g: int, length: int) -> None:
    assert len(LocalHashing(k, 1.0, g).privatize([0, 1, 2]).data.tobytes()) == 3 * length


def test_words_are_little_endian_on_the_wire() -> None:
    mechanism = LocalHashing(16, 1.0)
    rows = mechanism.answer(
        np.array([[0x01020304, 0x05060708]], dtype=np.uint32), np.array([0]), seeded_source(1)
    )
    assert rows.tobytes()[:8] == bytes([4, 3, 2, 1, 8, 7, 6, 5])


def test_a_bucket_that_is_not_there_is_refused() -> None:
    mechanism = LocalHashing(5, 1.0)
    data = mechanism.privatize([0, 1, 2]).data.copy()
    data["y"][1] = 4
    refuse_rows(mechanism, data, "bucket lies outside 0 to 3")


@pytest.mark.parametrize("g", [1, 0, -2, 2.5, "4", True, 65_537])
def test_an_impossible_number_of_buckets_is_refused(g: object) -> None:
    with pytest.raises(ParameterError, match=r"g = .* must be a whole number from 2 to 65536"):
        LocalHashing(5, 1.0, g)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan])
def test_an_impossible_epsilon_is_refused(epsilon: float) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        LocalHashing(5, epsilon)
