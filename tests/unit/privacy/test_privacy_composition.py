"""Several answers together: the bounds against brute force and against each other."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from deniable.errors import ParameterError
from deniable.privacy import (
    advanced_composition,
    budget_per_answer,
    memoized_epsilon,
    optimal_composition,
    rappor_lifetime_epsilon,
    rappor_report_epsilon,
    repeated_epsilon,
    sequential_composition,
)


def hockey_stick(growth: Fraction, answers: int, promised: Fraction) -> Fraction:
    """P(loss exceeds ln promised) of `answers` symmetric coins, by listing every outcome."""
    keep = growth / (growth + 1)
    excess = Fraction()
    for outcome in product((0, 1), repeat=answers):
        one = math.prod((keep if bit else 1 - keep for bit in outcome), start=Fraction(1))
        other = math.prod((1 - keep if bit else keep for bit in outcome), start=Fraction(1))
        excess += max(Fraction(), one - promised * other)
    return excess


@pytest.mark.parametrize("answers", [1, 2, 5, 8])
@pytest.mark.parametrize("delta", [1e-4, 0.01, 0.2])
def test_optimal_composition_is_the_least_loss_that_holds(answers: int, delta: float) -> None:
    growth = Fraction(3, 2)
    bound = optimal_composition(math.log(1.5), answers, delta)
    assert hockey_stick(growth, answers, Fraction(math.exp(bound * (1 + 1e-9) + 1e-12))) <= delta
    if bound > 1e-6:
        assert hockey_stick(growth, answers, Fraction(math.exp(bound * (1 - 1e-6)))) > delta


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 2.0, 30.0])
@pytest.mark.parametrize("answers", [1, 10, 1000])
def test_the_bounds_come_in_their_order(epsilon: float, answers: int) -> None:
    optimal = optimal_composition(epsilon, answers, 1e-6)
    advanced = advanced_composition(epsilon, answers, 1e-6)
    assert (
        0
        <= optimal
        <= advanced * (1 + 1e-12)
        <= sequential_composition([epsilon] * answers) * (1 + 2e-12)
    )


def test_advanced_composition_is_the_theorems_formula() -> None:
    by_hand = 0.1 * math.sqrt(2 * 100 * math.log(1e5)) + 100 * 0.1 * (math.exp(0.1) - 1)
    assert advanced_composition(0.1, 100, 1e-5) == pytest.approx(by_hand, rel=1e-12)


def test_without_a_delta_nothing_beats_the_sum() -> None:
    for epsilon, answers in product((0.0, 0.3, 5.0), (1, 7)):
        assert (
            advanced_composition(epsilon, answers, 0)
            == optimal_composition(epsilon, answers, 0)
            == epsilon * answers
        )


def test_the_sum_does_not_drift() -> None:
    assert sequential_composition([0.1] * 1000) == 100
    assert sequential_composition([0.1, 0.2]) == 0.3
    assert sequential_composition([1.0, math.inf]) == math.inf


@pytest.mark.parametrize("answers", [1, 3, 7, 49, 1000])
def test_shares_of_a_budget_never_add_up_to_more(answers: int) -> None:
    proportion = budget_per_answer(0.7, answers)
    assert 0.7 * (1 - 1e-12) < sequential_composition([proportion] * answers) <= 0.7


def test_memoized_loss_counts_distinct_answers_not_epochs() -> None:
    assert memoized_epsilon(0.5, 3) == 1.5


def test_rappor_figures_are_the_papers() -> None:
    # Erlingsson et al. 2014 with h = 2, f = 0.5, p = 0.5, q = 0.75: one report loses 1.0743, all of
    # them 4 ln 3.
    assert round(rappor_report_epsilon(0.5, 0.5, 0.75, hashes=2), 4) == 1.0743
    assert rappor_lifetime_epsilon(0.5, hashes=2) == pytest.approx(4 * math.log(3), rel=1e-15)


def test_a_rappor_report_loses_what_its_two_steps_together_lose() -> None:
    f, p, q = 0.4, 0.2, 0.7
    one = (1 - f / 2) * q + f / 2 * p
    zero = (1 - f / 2) * p + f / 2 * q
    assert rappor_report_epsilon(f, p, q) == pytest.approx(
        math.log(one * (1 - zero) / (zero * (1 - one))), rel=1e-12
    )
    assert rappor_report_epsilon(f, 0.3, 0.3) == 0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sequential_composition([0.1, -0.1]), "epsilon = -0.1 must lie"),
        (lambda: advanced_composition(0.1, 0, 0.1), "answers = 0 must be a whole number"),
        (lambda: optimal_composition(0.1, 1, 1.0), "delta = 1.0 must be at least 0 and below 1"),
        (lambda: rappor_report_epsilon(0.5, 0.75, 0.5), "q = 0.5 must be at least p = 0.75"),
        (lambda: rappor_lifetime_epsilon(0.0), "f = 0.0 must lie strictly between 0 and 1"),
    ],
)
def test_nonsense_is_refused_by_name_value_and_rule(call: object, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)


def test_a_sum_beyond_all_doubles_is_no_promise() -> None:
    assert repeated_epsilon(1000.0, 10**306) == math.inf
