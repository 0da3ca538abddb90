"""Amplification by shuffling: the clones' bound against brute force, real mechanisms, and the
closed form."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from deniable import BinaryResponse, DirectEncoding
from deniable.errors import ParameterError
from deniable.privacy import (
    shuffled_delta,
    shuffled_epsilon,
    shuffled_epsilon_closed_form,
    shuffling,
)

DELTA = 1e-6
Law = dict[tuple[int, ...], float]


def excess(
    one: dict[tuple[int, ...], Fraction], other: dict[tuple[int, ...], Fraction], g: Fraction
) -> Fraction:
    return sum(
        (max(Fraction(), p - g * other.get(outcome, Fraction())) for outcome, p in one.items()),
        Fraction(),
    )


def clones_by_enumeration(growth: Fraction, n: int) -> tuple[dict[tuple[int, ...], Fraction], ...]:
    """Both distributions of the reduction, listed outcome by outcome."""
    one: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    other: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
    clone, keep = 1 / growth, growth / (growth + 1)
    for c in range(n):
        chance_c = math.comb(n - 1, c) * clone**c * (1 - clone) ** (n - 1 - c)
        for a in range(c + 1):
            chance = chance_c * Fraction(math.comb(c, a), 2**c)
            one[(a + 1, c - a)] += chance * keep
            one[(a, c - a + 1)] += chance * (1 - keep)
            other[(a, c - a + 1)] += chance * keep
            other[(a + 1, c - a)] += chance * (1 - keep)
    return dict(one), dict(other)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("growth", [Fraction(11, 10), Fraction(3), Fraction(50)])
def test_the_bound_is_the_clones_divergence_by_brute_force(n: int, growth: Fraction) -> None:
    one, other = clones_by_enumeration(growth, n)
    for share in (0.0, 0.2, 0.6, 0.95):
        promised = share * math.log(growth)
        g = Fraction(math.exp(promised))
        exact = float(excess(one, other, g))
        bound = shuffled_delta(math.log(growth), n, promised)
        assert exact <= bound <= exact * (1 + 1e-6) + 1e-11
        assert float(excess(other, one, g)) == pytest.approx(exact, rel=1e-12)


def shuffled_law(
    columns: Sequence[Sequence[float]], values: Sequence[int]
) -> dict[tuple[int, ...], Fraction]:
    """The law of the counts of reports, which is all that shuffling leaves, for these people's
    values."""
    outputs = len(columns[0])
    law: dict[tuple[int, ...], Fraction] = {(0,) * outputs: Fraction(1)}
    for value in values:
        grown: defaultdict[tuple[int, ...], Fraction] = defaultdict(Fraction)
        for counts, chance in law.items():
            for report in range(outputs):
                more = tuple(c + (i == report) for i, c in enumerate(counts))
                grown[more] += chance * Fraction(columns[value][report])
        law = dict(grown)
    return law


@pytest.mark.parametrize(
    "mechanism",
    [BinaryResponse.from_epsilon(1.0), BinaryResponse(0.4, 0.8), DirectEncoding(3, 1.5)],
    ids=repr,
)
def test_real_shuffled_reports_lose_no_more_than_the_bound(
    mechanism: BinaryResponse | DirectEncoding,
) -> None:
    n, k = 6, len(mechanism.labels)
    columns = mechanism.channel().T.tolist()
    for promised in (0.1, 0.5, 0.9):
        bound = shuffled_delta(mechanism.epsilon, n, promised)
        for others in product(range(k), repeat=n - 1):
            if list(others) != sorted(others):
                continue
            laws = [shuffled_law(columns, (mine, *others)) for mine in range(k)]
            for one, other in product(laws, repeat=2):
                assert float(excess(one, other, Fraction(math.exp(promised)))) <= bound + 1e-15


def test_the_computed_bound_is_below_the_closed_form_and_falls_with_n() -> None:
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        least = math.ceil(16 * math.log(2 / DELTA) * math.exp(epsilon)) + 1
        bounds = []
        for n in (least, 4 * least, 30 * least):
            bounds.append(shuffled_epsilon(epsilon, n, DELTA))
            assert bounds[-1] <= shuffled_epsilon_closed_form(epsilon, n, DELTA)
        assert bounds[0] > bounds[1] > bounds[2] > 0


def test_the_bound_falls_with_n_from_the_first_report_on() -> None:
    bounds = [shuffled_epsilon(2.0, n, 1e-3) for n in [*range(1, 40), 60, 100, 1000]]
    assert np.all(np.diff(bounds) <= 2e-6)
    assert bounds[-1] < bounds[0] / 5


def test_what_is_promised_holds_and_is_not_wasteful() -> None:
    promised = shuffled_epsilon(1.0, 5_000, DELTA)
    assert shuffled_delta(1.0, 5_000, promised) <= DELTA
    assert shuffled_delta(1.0, 5_000, promised * (1 - 1e-4)) > DELTA


def test_numbers_of_clones_taken_in_blocks_stay_an_upper_bound_and_next_to_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one_by_one = shuffled_epsilon(1.0, 100_000, DELTA)
    monkeypatch.setattr(shuffling, "_BLOCKS", 300)
    assert one_by_one < shuffled_epsilon(1.0, 100_000, DELTA) < one_by_one * 1.001


def test_the_closed_form_is_the_theorems() -> None:
    growth, n = math.exp(1.0), 100_000
    by_hand = math.log(
        1
        + (growth - 1) / (growth + 1) * (8 * math.sqrt(growth * math.log(4e6) / n) + 8 * growth / n)
    )
    assert shuffled_epsilon_closed_form(1.0, n, DELTA) == pytest.approx(by_hand, rel=1e-12)


def test_the_closed_form_is_refused_outside_its_condition() -> None:
    with pytest.raises(
        ParameterError, match=r"epsilon = 5 must be at most .* the theorem needs 34,4\d\d reports"
    ):
        shuffled_epsilon_closed_form(5, 10_000, DELTA)


def test_the_edges_are_exact() -> None:
    assert shuffled_epsilon(0.0, 10, DELTA) == shuffled_epsilon_closed_form(0.0, 10, DELTA) == 0
    assert shuffled_epsilon(1.0, 10, 0.0) == shuffled_epsilon_closed_form(1.0, 10, 0.0) == 1
    assert shuffled_epsilon(math.inf, 10, DELTA) == math.inf
    assert shuffled_delta(1.0, 1000, 1.0) == 0
    # One report alone hides nowhere: a loss of ln 3, but for the delta of a single coin.
    assert shuffled_delta(math.log(3), 1, 0.0) == pytest.approx(0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "n", "delta"),
    [(-1, 10, 0.1), (1, 0, 0.1), (1, 2.5, 0.1), (1, 10, 1), (1, 10, -0.1)],
)
def test_nonsense_is_refused(epsilon: float, n: int, delta: float) -> None:
    for bound in (shuffled_epsilon, shuffled_epsilon_closed_form):
        with pytest.raises(ParameterError):
            bound(epsilon, n, delta)


def test_the_edges_of_loss_and_delta_are_answered_not_overflowed() -> None:
    assert shuffled_epsilon(1000.0, 10**6, 1e-6) == 1000.0
    assert shuffled_epsilon(math.inf, 10**6, 1e-6) == math.inf
    assert shuffled_delta(1000.0, 10**6, 999.0) == 1.0
    assert shuffled_delta(1000.0, 10**6, 1000.0) == 0.0
    smallest = 5e-324
    growth = (
        (math.e - 1)
        / (math.e + 1)
        * (8 * math.sqrt(math.e * (math.log(4) - math.log(smallest)) / 1e6) + 8e-6 * math.e)
    )
    assert shuffled_epsilon_closed_form(1.0, 10**6, smallest) == pytest.approx(
        math.log1p(growth), rel=1e-12
    )
