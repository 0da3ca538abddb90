"""The exact delta of a release against exact rational arithmetic, and the coins against every path
they can take."""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import pairwise
from math import comb

import numpy as np
import pytest

from deniable.errors import ParameterError
from deniable.randomness import ONE, Source, seeded_source
from deniable.release import (
    Categories,
    Guarantee,
    delta_of,
    largest_sampling,
    release,
    smallest_threshold,
)
from deniable.scripted_randomness import every_path

F = Fraction
TINY = F(1, 10**18)


def pmf(n: int, j: int, beta: F) -> F:
    return comb(n, j) * beta**j * (1 - beta) ** (n - j) if 0 <= j <= n else F(0)


def tail(n: int, least: int, beta: F) -> F:
    return sum((pmf(n, j, beta) for j in range(least, n + 1)), F(0))


def horizon(gamma: F, beta: F, below: float) -> int:
    """From this n on, exp(-n KL(gamma || beta)) is below the given figure."""
    g, b = float(gamma), float(beta)
    divergence = g * math.log(g / b) + (1 - g) * math.log((1 - g) / (1 - b))
    return math.ceil(-math.log(below) / divergence * 1.001) + 1


def exact_delta(k: int, beta: F, odds: F) -> tuple[F, int]:
    """The definition: the maximum over the sizes n of P(more than gamma n rows kept), and the n
    that attains it."""
    gamma = (odds - 1 + beta) / odds
    first = math.ceil(k / gamma - 1)
    best, at = F(0), first
    for n in range(first, 100_000):
        if best and n > horizon(gamma, beta, float(best)):
            return best, at
        value = tail(n, math.floor(gamma * n) + 1, beta)
        if value > best:
            best, at = value, n
    raise AssertionError("no end in sight")


def hockey_stick(k: int, beta: F, odds: F) -> F:
    """The largest divergence of what is released with a person from what is released without, in
    both directions."""
    gamma = (odds - 1 + beta) / odds
    worst, n = F(0), 1
    while n < k or not worst or n <= horizon(gamma, beta, float(worst)):
        laws = []
        for size in (n, n - 1):
            law = {j: pmf(size, j, beta) for j in range(k, n + 1)}
            law[0] = 1 - sum(law.values(), F(0))
            laws.append(law)
        for one, other in (laws, laws[::-1]):
            worst = max(worst, sum((max(one[j] - odds * other[j], F(0)) for j in one), F(0)))
        n += 1
    return worst


# CHECKS: k, beta, odds, delta, attained at n, delta for an epsilon just below, exact divergence
TABLE = [
    (2, F(1, 2), F(2), 0.25, 2, 0.3125, 0.25),
    (5, F(1, 2), F(2), 0.109375, 6, 0.14453125, 0.046875),
    (10, F(1, 4), F(2), 0.000794949010014534, 15, 0.001644465373829007, 0.0001112017780542),
    (20, F(1, 10), F(3, 2), 1.5694545999362e-08, 49, 2.368599358184186e-08, 3.450178421469e-10),
    (8, F(2, 3), F(3), 0.1040491794949957, 10, 0.143067621805619, 0.03901844231062),
]


@pytest.mark.parametrize(("k", "beta", "odds", "delta", "n", "below", "divergence"), TABLE)
def test_delta_at_whole_numbers_of_gamma_n_is_the_one_of_exact_odds(
    k: int, beta: F, odds: F, delta: float, n: int, below: float, divergence: float
) -> None:
    assert delta_of(k, beta, odds=odds) == pytest.approx(delta, rel=1e-12, abs=0)
    assert exact_delta(k, beta, odds)[1] == n
    # An epsilon a hair smaller makes the sum longer by one term. Sampling a hair less keeps it
    # within its limit.
    assert delta_of(k, beta * (1 - TINY), odds=odds * (1 - TINY / 2)) == pytest.approx(
        below, rel=1e-12, abs=0
    )
    assert float(hockey_stick(k, beta, odds)) == pytest.approx(divergence, rel=1e-10, abs=0)


@pytest.mark.parametrize(
    ("k", "beta", "epsilon", "delta", "divergence"),
    [
        (10, F(1, 10), 0.5, 2.072311815879745e-05, 6.716234369993e-07),
        (20, F(3, 10), 1.0, 1.176126789522093e-06, 1.324074386585e-07),
        (50, F(1, 2), 1.0, 2.294415609753117e-07, 9.752543906478e-09),
        (30, largest_sampling(1.0), 1.0, 0.001638989101661654, 0.0002074963082976),
        (15, F(4, 5), 2.0, 0.035184372088832, 0.03518437208883),
    ],
)
def test_delta_of_an_epsilon_is_the_tabulated_one(
    k: int, beta: F, epsilon: float, delta: float, divergence: float
) -> None:
    assert delta_of(k, beta, epsilon) == pytest.approx(delta, rel=1e-12, abs=0)
    assert delta_of(k, beta, epsilon) >= divergence


GRID = [
    (k, beta, odds)
    for k in (1, 2, 3, 7, 12, 25)
    for odds in (F(11, 10), F(3, 2), F(2), F(3), F(8))
    for beta in ((odds - 1) / odds, (odds - 1) / odds / 2, (odds - 1) / odds * F(9, 10))
]


def test_delta_equals_exact_rational_arithmetic_over_a_grid() -> None:
    beyond = 0
    for k, beta, odds in GRID:
        expected, at = exact_delta(k, beta, odds)
        stated = delta_of(k, beta, odds=odds)
        assert F(stated) >= expected, (k, beta, odds)
        assert F(stated) - expected <= min(F(1, 10**12), expected / 10**12), (k, beta, odds)
        gamma = 1 - (1 - beta) / odds
        beyond += at > math.ceil(k / gamma) - 1
    # The smallest size is not always the worst one: a computation that stops there understates
    # these.
    assert beyond >= 10


def test_delta_is_never_below_the_exact_divergence() -> None:
    for k, beta, odds in GRID:
        if k <= 7 and odds > F(11, 10):
            assert F(delta_of(k, beta, odds=odds)) >= hockey_stick(k, beta, odds), (k, beta, odds)


def test_delta_of_a_double_epsilon_is_that_of_its_exact_exponential() -> None:
    for k, epsilon, part in [
        (6, 0.3, 0.9),
        (9, math.log(2), 0.5),
        (14, 1.25, 1.0),
        (11, math.log(3), 0.7),
    ]:
        with localcontext() as context:
            context.prec = 80
            odds = F(Decimal(epsilon).exp())
        beta = F(math.floor((1 - 1 / odds) * F(part) * ONE), ONE)
        expected, _ = exact_delta(k, beta, odds)
        assert abs(F(delta_of(k, beta, epsilon)) - expected) <= expected / 10**12


SMALLEST = [
    (F(2), [(1e-4, 41, 43), (1e-5, 53, 55), (1e-8, 92, 94)]),
    (F(3), [(1e-3, 35, 35), (1e-5, 62, 65), (1e-8, 108, 108)]),
    (0.5, [(1e-3, 27, 27), (1e-5, 51, 51), (1e-6, 63, 63)]),
    (1.0, [(1e-4, 47, 47), (1e-5, 61, 61), (1e-8, 104, 104)]),
    (1.5, [(1e-3, 44, 44), (1e-4, 62, 62), (1e-6, 99, 99)]),
    (2.0, [(1e-4, 81, 81), (1e-5, 113, 113), (1e-8, 182, 182)]),
]


@pytest.mark.parametrize(("privacy", "rows"), SMALLEST)
def test_the_smallest_threshold_is_the_tabulated_one(
    privacy: F | float, rows: list[tuple[float, int, int]]
) -> None:
    for delta, k, just_below in rows:
        if isinstance(privacy, F):
            assert smallest_threshold(delta, 1 - 1 / privacy, odds=privacy) == k
            odds = privacy * (1 - TINY)
            assert smallest_threshold(delta, 1 - 1 / odds, odds=odds) == just_below
        else:
            assert smallest_threshold(delta, largest_sampling(privacy), privacy) == k == just_below


def test_a_guarantee_keeps_what_it_was_asked_for_and_no_smaller_threshold_would() -> None:
    for epsilon, delta, sampling in [
        (0.1, 1e-4, None),
        (1.0, 1e-5, None),
        (1.0, 1e-5, 0.3),
        (4.0, 1e-9, None),
        (8.0, 1e-6, 0.9),
    ]:
        made = Guarantee.of(epsilon, delta, sampling)
        assert made.delta <= delta
        assert made.delta == delta_of(made.k, made.sampling, epsilon)
        assert made.k == 1 or delta_of(made.k - 1, made.sampling, epsilon) > delta
        assert made.sampling <= largest_sampling(epsilon)
        if sampling is not None:
            assert abs(made.sampling - F(sampling)) <= F(1, ONE)


def test_the_sampling_chosen_is_the_best_balanced_of_twenty() -> None:
    made = Guarantee.of(2.0, 1e-5)
    limit = largest_sampling(2.0)
    worths = []
    for step in range(1, 21):
        beta = F(math.floor(limit * step / 20 * ONE), ONE)
        worths.append((beta**2 / smallest_threshold(1e-5, beta, 2.0), beta))
    assert made.sampling == max(worths)[1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"epsilon": 0.0, "delta": 1e-5}, "epsilon = 0.0 must be finite and above 0"),
        ({"epsilon": 1.0, "delta": 0.0}, "delta = 0.0 must lie strictly between 0 and 1"),
        ({"epsilon": 1.0, "delta": 1.5}, "delta = 1.5 must lie strictly between 0 and 1"),
        (
            {"epsilon": 1.0, "delta": 1e-5, "sampling": 0.7},
            "sampling = 0.7 must be at most 1 - exp(-epsilon) = 0.632121",
        ),
        (
            {"epsilon": 1.0, "delta": 1e-5, "sampling": 1.0},
            "sampling = 1.0 must lie strictly between 0 and 1",
        ),
        (
            {"epsilon": 1.0, "delta": 1e-5, "sampling": 0.6, "k": 20},
            "k = 20 must be at least 54 for epsilon 1 and delta 1e-05",
        ),
        (
            {"epsilon": 1.0, "delta": 1e-5, "k": 2.5},
            "k = 2.5 must be a whole number from 1 to 100000",
        ),
        (
            {"epsilon": 20.0, "delta": 1e-5, "sampling": 0.99999},
            "delta = 1e-05 needs combinations of more than 100,000 rows",
        ),
    ],
)
def test_bad_parameters_are_refused_by_name(arguments: dict[str, float], text: str) -> None:
    with pytest.raises(ParameterError) as error:
        Guarantee.of(**arguments)  # type: ignore[arg-type]
    assert str(error.value).startswith(text)


def released_law(
    n: int, epsilon: float, delta: float, sampling: float
) -> tuple[dict[int, F], Guarantee]:
    """The exact law of the number of released rows of a table of `n` equal rows, over every path of
    the coins."""

    def experiment(source: Source) -> int:
        table = {"a": ["x"] * n}
        return release(
            table,
            {"a": Categories()},
            epsilon,
            delta,
            levels={"a": 0},
            sampling=sampling,
            source=source,
        ).n

    law: dict[int, F] = defaultdict(F)
    for probability, rows in every_path(experiment):
        law[rows] += probability
    return law, Guarantee.of(epsilon, delta, sampling)


def test_what_is_released_follows_its_law_on_every_path_and_its_delta_is_kept() -> None:
    laws = [released_law(n, 0.8, 0.2, 0.45) for n in range(1, 8)]
    for n, (law, guarantee) in enumerate(laws, 1):
        k, beta = guarantee.k, guarantee.sampling
        assert k == 3
        expected = {j: pmf(n, j, beta) for j in range(k, n + 1)}
        assert {j: p for j, p in law.items() if j} == expected
    odds = F(math.exp(0.8))
    for (with_, guarantee), (without, _) in pairwise(reversed(laws)):
        for one, other in ((with_, without), (without, with_)):
            divergence = sum((max(one[j] - odds * other[j], F(0)) for j in [*one]), F(0))
            assert divergence <= F(guarantee.delta)


def test_rows_are_kept_as_often_as_stated_in_bulk() -> None:
    guarantee = Guarantee.of(1.0, 1e-5)
    n = 1_000_000
    kept = int(guarantee.keep(n, seeded_source(5)).sum())
    beta = float(guarantee.sampling)
    spread = math.sqrt(n * beta * (1 - beta))
    # Seed 5; six standard errors: a false alarm once in 5e8. A sampling rate 1 % off lies 9 of them
    # away.
    assert abs(kept - n * beta) < 6 * spread < abs(n * beta * 0.01)


def test_replacing_a_row_costs_twice() -> None:
    guarantee = Guarantee.of(0.7, 1e-5)
    assert guarantee.replace_one == (1.4, (1 + math.exp(0.7)) * guarantee.delta)
    assert np.isclose(guarantee.to_dict()["delta"], guarantee.delta)
