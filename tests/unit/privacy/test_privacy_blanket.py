"""Shuffled reports of a known mechanism: the bound against every small crowd, the exact formula,
and Fourier inversion."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from itertools import combinations_with_replacement, permutations
from typing import Any

import numpy as np
import pytest

from deniable import (
    BasicRappor,
    BinaryResponse,
    DesignMatrix,
    DirectEncoding,
    DistanceSensitive,
    HadamardResponse,
    HierarchicalRanges,
    LaplaceEncoding,
    LocalHashing,
    Mechanism,
    OptimizedUnary,
    ProjectiveResponse,
    RandomProjection,
    Rappor,
    SquareWave,
    SubsetSelection,
    SummedHistogram,
    SymmetricUnary,
    ThresholdHistogram,
    UnaryEncoding,
    every_path,
)
from deniable.errors import ParameterError
from deniable.mechanisms import blankets
from deniable.mechanisms.blankets import Blanket, matrix_blanket
from deniable.privacy import blanket as blanket_room
from deniable.privacy import blanket_delta, blanket_epsilon, shuffled_delta, shuffled_epsilon
from deniable.queries.columns.bucket_index import NONE

# k, n, local epsilon, epsilon, delta of the worst crowd, delta, epsilon of the worst crowd: direct
# encoding, by enumeration
EXACT = [
    (2, 4, 1.0, 0.25, 0.15070963881447, 0.05, 0.8075679009059),
    (2, 8, 0.5, 0.125, 0.030848947162497, 0.01, 0.2572611769764),
    (2, 12, 1.0, 0.25, 0.048144223430869, 0.01, 0.5727874373491),
    (2, 12, 2.0, 0.5, 0.17866922121273, 0.05, 1.739505843307),
    (3, 6, 1.0, 0.25, 0.094299128434357, 0.02, 0.6361108081599),
    (3, 9, 2.0, 0.5, 0.24766726026567, 0.1, 1.259983502417),
]

DESIGN = [[0.6, 0.2, 0.1], [0.3, 0.5, 0.3], [0.1, 0.3, 0.6]]

SMALL: list[tuple[Mechanism, int]] = [
    (BinaryResponse(0.4, 0.8), 7),
    (DirectEncoding(3, 1.5), 5),
    (DesignMatrix(DESIGN), 5),
    (LaplaceEncoding(3, 2.0), 5),
    (DistanceSensitive(4, 1.0), 4),
    (SquareWave(1.0, bins=3), 4),
    (OptimizedUnary(2, 1.0), 5),
    (SymmetricUnary(3, 1.5), 3),
    (UnaryEncoding(2, 0.7, 0.2), 5),
    (ThresholdHistogram(2, 2.0), 5),
    (SubsetSelection(4, 0.7), 4),
    (HadamardResponse(3, 1.0), 5),
    (RandomProjection(3, 1.0, m=3), 4),
    (SummedHistogram(2, 1.5, levels=3), 3),
    (HierarchicalRanges(4, 1.0, (2, 2)), 4),
    (ProjectiveResponse(4, 1.0, 3), 4),
]


def columns(mechanism: Mechanism) -> np.ndarray[Any, Any]:
    """P[report, value], and for unary reports the law of an answer with none of the labels; by
    walking every path."""
    values = [
        *range(len(mechanism.labels)),
        *([NONE] if isinstance(mechanism, UnaryEncoding | OptimizedUnary) else []),
    ]
    laws: list[defaultdict[bytes, float]] = []
    for value in values:
        law: defaultdict[bytes, float] = defaultdict(float)
        for probability, row in every_path(
            lambda source, value=value: mechanism.draw(np.array([value]), source)  # type: ignore[misc]
        ):
            law[row.tobytes()] += float(probability)
        laws.append(law)
    rows = sorted(set().union(*laws))
    return np.array([[law[row] for law in laws] for row in rows])


def counts_law(
    channel: np.ndarray[Any, Any], values: tuple[int, ...]
) -> dict[tuple[int, ...], float]:
    """The law of how many of each report there are: all that shuffling leaves."""
    law = {(0,) * len(channel): 1.0}
    for value in values:
        grown: defaultdict[tuple[int, ...], float] = defaultdict(float)
        for counts, chance in law.items():
            for report, probability in enumerate(channel[:, value].tolist()):
                grown[(*counts[:report], counts[report] + 1, *counts[report + 1 :])] += (
                    chance * probability
                )
        law = dict(grown)
    return law


def worst_crowd(channel: np.ndarray[Any, Any], n: int, epsilons: list[float]) -> list[float]:
    """The largest chance of a greater loss, over the others' values and the two values of the
    person: by enumeration."""
    values = range(channel.shape[1])
    worst = [0.0] * len(epsilons)
    for others in combinations_with_replacement(values, n - 1):
        law = counts_law(channel, others)
        after: list[dict[tuple[int, ...], float]] = []
        for mine in values:
            grown: defaultdict[tuple[int, ...], float] = defaultdict(float)
            for counts, chance in law.items():
                for report, probability in enumerate(channel[:, mine].tolist()):
                    grown[(*counts[:report], counts[report] + 1, *counts[report + 1 :])] += (
                        chance * probability
                    )
            after.append(dict(grown))
        for one, other in permutations(after, 2):
            for i, epsilon in enumerate(epsilons):
                excess = sum(
                    max(p - math.exp(epsilon) * other.get(counts, 0.0), 0.0)
                    for counts, p in one.items()
                )
                worst[i] = max(worst[i], excess)
    return worst


@pytest.mark.parametrize(("k", "n", "local", "epsilon", "delta", "slack", "loss"), EXACT)
def test_the_bound_is_never_below_the_worst_small_crowd(
    k: int, n: int, local: float, epsilon: float, delta: float, slack: float, loss: float
) -> None:
    mechanism = DirectEncoding(k, local)
    assert worst_crowd(mechanism.channel(), n, [epsilon]) == [pytest.approx(delta, rel=1e-9)]
    assert delta <= blanket_delta(mechanism, n, epsilon) <= shuffled_delta(local, n, epsilon)
    assert (
        loss
        <= blanket_epsilon(mechanism, n, slack)
        <= min(local, shuffled_epsilon(local, n, slack) + 1e-5)
    )


@pytest.mark.parametrize(("mechanism", "n"), SMALL, ids=repr)
def test_no_small_crowd_of_any_mechanism_loses_more_than_the_bound(
    mechanism: Mechanism, n: int
) -> None:
    epsilons = [share * mechanism.epsilon for share in (0.0, 0.1, 0.4, 0.8)]
    exact = worst_crowd(columns(mechanism), n, epsilons)
    for epsilon, delta in zip(epsilons, exact, strict=True):
        assert delta * (1 - 1e-12) <= blanket_delta(mechanism, n, epsilon)


def worst_binary_crowd(
    mechanism: BinaryResponse | DirectEncoding, n: int
) -> Callable[[float], float]:
    """Exactly, for one bit a report: shuffled, only the number of ones is left, a sum of two
    binomials. By convolution, over all crowds of the others and both directions."""
    zero, one = mechanism.channel()[1].tolist()
    powers: list[list[np.ndarray[Any, Any]]] = [[np.ones(1)], [np.ones(1)]]
    for p, laws in zip((zero, one), powers, strict=True):
        for _ in range(n):
            laws.append(np.convolve(laws[-1], [1 - p, p]))
    after = [
        [
            np.convolve(np.convolve(powers[0][n - 1 - ones], powers[1][ones]), [1 - p, p])
            for p in (zero, one)
        ]
        for ones in range(n)
    ]

    def delta(epsilon: float) -> float:
        growth = math.exp(epsilon)
        return max(
            float(np.maximum(a - growth * b, 0).sum())
            for pair in after
            for a, b in (pair, pair[::-1])
        )

    return delta


@pytest.mark.parametrize("n", [2, 3, 16, 40, 120])
@pytest.mark.parametrize(
    "mechanism",
    [
        DirectEncoding(2, 0.3),
        DirectEncoding(2, 1.0),
        DirectEncoding(2, 4.0),
        BinaryResponse(0.4, 0.8),
        BinaryResponse(0.9, 0.1),
    ],
    ids=repr,
)
def test_no_crowd_of_bits_up_to_120_loses_more_than_the_bound(
    mechanism: BinaryResponse | DirectEncoding, n: int
) -> None:
    exact = worst_binary_crowd(mechanism, n)
    for share in (0.0, 0.02, 0.1, 0.3, 0.6, 0.9):
        epsilon = share * mechanism.epsilon
        assert exact(epsilon) * (1 - 1e-12) <= blanket_delta(mechanism, n, epsilon)
    for slack in (0.1, 1e-2, 1e-4, 1e-6):
        assert exact(blanket_epsilon(mechanism, n, slack)) <= slack * (1 + 1e-9)


@pytest.mark.parametrize(("mechanism", "n"), SMALL, ids=repr)
def test_a_blanket_lies_under_every_column_of_the_channel(mechanism: Mechanism, n: int) -> None:
    """Its mass is at most that of the largest blanket there is, and the columns that are made of it
    have the mass 1."""
    blanket = mechanism.blanket()
    assert blanket is not None
    assert blanket.ratio.min() >= 1 - 1e-12
    np.testing.assert_allclose(blanket.weight @ blanket.ratio, 1, rtol=1e-12)
    assert blanket.weight.sum() <= columns(mechanism).min(axis=1).sum() * (1 + 1e-12)


def by_enumeration(blanket: Blanket, pair: tuple[int, int], n: int, epsilon: float) -> float:
    """E(Z_1 + … + Z_n)_+ / n, over all numbers of each class."""
    z = np.append(blanket.ratio[:, pair[0]] - math.exp(epsilon) * blanket.ratio[:, pair[1]], 0.0)
    chances = np.append(blanket.weight, max(1 - blanket.weight.sum(), 0.0))
    total = 0.0
    for drawn in combinations_with_replacement(range(len(z)), n):
        ways = math.factorial(n)
        for times in np.bincount(drawn).tolist():
            ways //= math.factorial(times)
        total += ways * float(np.prod(chances[list(drawn)])) * max(float(z[list(drawn)].sum()), 0.0)
    return total / n


@pytest.mark.parametrize(
    "mechanism",
    [
        DirectEncoding(7, 1.0),
        SymmetricUnary(5, 2.0),
        SubsetSelection(6, 1.0),
        LocalHashing(9, 1.0),
        DesignMatrix(DESIGN),
    ],
    ids=repr,
)
def test_the_grid_costs_less_than_one_per_cent(mechanism: Mechanism) -> None:
    blanket = mechanism.blanket()
    assert blanket is not None
    for n in (1, 2, 5, 9):
        for share in (0.0, 0.3, 0.7):
            epsilon = share * mechanism.epsilon
            exact = max(
                by_enumeration(blanket, pair, n, epsilon)
                for pair in permutations(range(blanket.ratio.shape[1]), 2)
            )
            assert exact <= blanket_delta(mechanism, n, epsilon) <= exact * 1.01 + 1e-12


def by_fourier(blanket: Blanket, n: int, epsilon: float) -> float:
    """The same for the first two values, from E|S| = (2/pi) times the integral of (1 - Re
    phi(t)^n)/t^2."""
    z = np.append(blanket.ratio[:, 0] - math.exp(epsilon) * blanket.ratio[:, 1], 0.0)
    chances = np.append(blanket.weight, max(1 - blanket.weight.sum(), 0.0))
    mean, square = float(chances @ z), float(chances @ z**2)
    end = 9 / math.sqrt(n * (square - mean**2))
    nodes, weights = np.polynomial.legendre.leggauss(600)
    t, weights = end * (nodes + 1) / 2, end * weights / 2
    exponent = n * np.log(np.exp(1j * np.outer(t, z)) @ chances)
    integral = float(weights @ (-np.real(np.expm1(exponent)) / t**2)) + 1 / end
    return (2 / math.pi * integral + n * mean) / 2 / n


@pytest.mark.parametrize(
    ("make", "published"),
    [
        (lambda: DirectEncoding(16, 1.0), 0.0054),
        (lambda: SymmetricUnary(16, 1.0), 0.0090),
        (lambda: BinaryResponse.from_epsilon(1.0), None),
        (lambda: SubsetSelection(16, 1.0), None),
        (lambda: LaplaceEncoding(16, 1.0), None),
    ],
    ids=["direct", "symmetric unary", "binary", "subset", "laplace"],
)
def test_large_crowds_agree_with_fourier_inversion_and_with_published_figures(
    make: Callable[[], Mechanism], published: float | None
) -> None:
    mechanism = make()
    n, delta = 100_000, 1e-6
    start = time.perf_counter()
    found = blanket_epsilon(mechanism, n, delta)
    took = time.perf_counter() - start
    if published is not None:
        assert abs(found / published - 1) < 0.05
        assert took < 1
    blanket = mechanism.blanket()
    assert blanket is not None
    # the values at the two ends are the easiest to tell apart
    if isinstance(mechanism, LaplaceEncoding):
        blanket = Blanket(blanket.weight, blanket.ratio[:, [0, -1]])
    assert by_fourier(blanket, n, found) <= delta * (1 + 1e-4)
    assert by_fourier(blanket, n, found * 0.998) > delta


@pytest.mark.parametrize("n", [2, 7, 1000, 4096, 10_001])
def test_tails_that_are_moved_in_are_paid_for(n: int) -> None:
    """Of n terms that are 100 with probability 0.001, and else 0, the mean is known; much of the
    upper tail is moved down."""
    term = blanket_room._Law(np.array([0.999, *[0.0] * 99, 0.001]), 0, 1.0)
    for part in (1e-9, 0.01, 0.5):
        budget = part * 0.1 * n
        found = blanket_room._positive_part(term, n, budget)
        assert 0.1 * n * (1 - 1e-12) <= found <= 0.1 * n + budget


def test_the_generic_bound_is_the_third_published_figure() -> None:
    assert shuffled_epsilon(1.0, 100_000, 1e-6) == pytest.approx(0.0153, rel=0.05)


@pytest.mark.parametrize(
    "mechanism",
    [
        DirectEncoding(16, 1.0),
        OptimizedUnary(16, 1.0),
        LocalHashing(1000, 1.0),
        HadamardResponse(100, 1.0),
        RandomProjection(16, 1.0),
        SummedHistogram(16, 1.0),
        BasicRappor(16, 0.3, 0.4, 0.7),
        SquareWave(1.0, bins=20),
        SquareWave(1.0, bins=256),
        DistanceSensitive(64, 2.0),
    ],
    ids=repr,
)
def test_a_mechanism_of_its_own_is_hidden_better_than_the_worst_one(mechanism: Mechanism) -> None:
    found = blanket_epsilon(mechanism, 20_000, 1e-6)
    assert 0 < found < 0.9 * shuffled_epsilon(mechanism.epsilon, 20_000, 1e-6)
    assert blanket_delta(mechanism, 20_000, found) <= 1.01e-6


def test_one_pair_that_stands_for_many_values_is_told_apart_at_least_as_easily(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for mechanism in (
        LaplaceEncoding(12, 1.0),
        SquareWave(1.0, bins=12),
        DistanceSensitive(12, 2.0),
    ):
        matrix = mechanism.channel()
        each = blanket_epsilon(mechanism, 3000, 1e-6)
        monkeypatch.setattr(blankets, "LARGEST_PAIRS", 2)
        assert matrix_blanket(matrix).ratio.shape == (4, 2)
        # but for the root finder
        assert each * (1 - 1e-4) <= blanket_epsilon(mechanism, 3000, 1e-6) <= 1.25 * each
        monkeypatch.undo()


def test_without_a_known_blanket_the_generic_bound_stands_in() -> None:
    mechanism = Rappor(bits=32, hashes=2, cohorts=4, f=0.3, p=0.4, q=0.7)
    assert mechanism.blanket() is None
    assert blanket_epsilon(mechanism, 5000, 1e-6) == shuffled_epsilon(mechanism.epsilon, 5000, 1e-6)
    assert blanket_delta(mechanism, 5000, 0.1) == shuffled_delta(mechanism.epsilon, 5000, 0.1)


def test_the_loss_falls_with_the_crowd_and_never_exceeds_the_local_one() -> None:
    mechanism = OptimizedUnary(8, 3.0)
    found = [blanket_epsilon(mechanism, n, 1e-6) for n in (1, 2, 30, 1000, 30_000, 10**6)]
    assert found[0] == found[1] == mechanism.epsilon
    assert all(np.diff(found[1:]) < 0)
    assert blanket_delta(mechanism, 1000, mechanism.epsilon) == 0
    assert blanket_epsilon(mechanism, 1000, 0.0) == mechanism.epsilon
    # Nothing promised, and one report: the total variation between two columns.
    lone = DirectEncoding(4, 1.0)
    a, b = lone.support()[0][0], lone.support()[1][0]
    assert blanket_delta(lone, 1, 0.0) == pytest.approx(a - b, rel=1e-6)


@pytest.mark.parametrize(("n", "delta"), [(0, 0.1), (2.5, 0.1), (10, 1), (10, -0.1)])
def test_nonsense_is_refused(n: float, delta: float) -> None:
    with pytest.raises(ParameterError):
        blanket_epsilon(DirectEncoding(3, 1.0), n, delta)  # type: ignore[arg-type]
