from __future__ import annotations

import math
from fractions import Fraction

import pytest

from deniable.checks import check_epsilon, check_probability
from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.randomness import ONE


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 0.1, math.log(3), 1.0, 7.3, 40.0])
def test_the_logarithm_of_a_ratio_is_the_next_double_up(epsilon: float) -> None:
    ratio = exact.exp(epsilon)
    assert exact.log_ratio(ratio * (1 - Fraction(1, 10**40))) == epsilon
    assert exact.log_ratio(ratio * (1 + Fraction(1, 10**40))) == math.nextafter(epsilon, math.inf)


def test_no_loss_is_zero() -> None:
    assert exact.log_ratio(Fraction(1)) == 0.0


def test_a_ratio_below_one_is_a_mistake() -> None:
    with pytest.raises(ParameterError, match="ratio"):
        exact.log_ratio(Fraction(1, 2))


def test_rounding_goes_where_it_says() -> None:
    third = Fraction(1, 3)
    assert exact.down(third) < third * ONE < exact.up(third)
    assert exact.up(Fraction(ONE - 1, ONE) + Fraction(1, 3 * ONE)) == ONE - 1
    assert exact.down(Fraction(1, 3 * ONE)) == 1


@pytest.mark.parametrize("numerator", [1, 3, 2**53 + 1, 2**64 - 1, 12345678901234567890])
def test_a_double_below_a_numerator_is_a_whole_number_of_steps(numerator: int) -> None:
    value = Fraction(exact.double_down(numerator)) * ONE
    assert value.denominator == 1
    assert numerator * (1 - Fraction(1, 2**52)) < value <= numerator


def test_integer_columns_sum_to_one_exactly_and_lose_no_entry() -> None:
    columns = exact.integer_columns(
        [[Fraction(1, 3), Fraction(2, 3)], [Fraction(1), Fraction(1, 10**30)]]
    )
    assert [sum(column) for column in columns] == [ONE, ONE]
    assert min(map(min, columns)) == 1


def test_private_columns_never_exceed_the_epsilon_asked_for() -> None:
    def build(target: float) -> list[list[Fraction]]:
        growth = exact.exp(target)
        return [
            [growth / (growth + 2) if u == v else 1 / (growth + 2) for u in range(3)]
            for v in range(3)
        ]

    columns = exact.private_columns(build, 1.0)
    assert 1.0 - 1e-12 < exact.matrix_epsilon(columns) <= 1.0


@pytest.mark.parametrize(
    "epsilon", [0, -1, math.inf, math.nan, "1", None, True, 1e-12, 100, [1], 10**400]
)
def test_an_epsilon_that_cannot_be_drawn_is_refused(epsilon: object) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        check_epsilon(epsilon)


@pytest.mark.parametrize(
    "p", [0, 1, -0.1, 1.2, math.nan, math.inf, None, 10**400, "x", "0.5", "1e999999999"]
)
def test_a_probability_outside_the_open_interval_is_refused(p: object) -> None:
    with pytest.raises(ParameterError, match=r"p = .* must lie strictly between 0 and 1"):
        check_probability("p", p)
