"""The loss of one answer: against exact laws, the papers' figures, and its own inverses."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from deniable import BinaryResponse, UnaryEncoding
from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.privacy import (
    answer_epsilon,
    bit_epsilon,
    largest_sampling,
    local_epsilon,
    quoc_one_sided_epsilon,
    sampled_epsilon,
    zero_knowledge_epsilon,
)
from toolkit.references.laws import exact_laws

# Quoc et al. 2017, table 1 (s = 0.6): p, q, the privacy level they print.
QUOC_TABLE_1 = [
    (0.3, 0.3, 1.7047),
    (0.3, 0.6, 1.3862),
    (0.3, 0.9, 1.2527),
    (0.6, 0.3, 2.5649),
    (0.6, 0.6, 2.0476),
    (0.6, 0.9, 1.7917),
    (0.9, 0.3, 4.1820),
    (0.9, 0.6, 3.5263),
    (0.9, 0.9, 3.1570),
]


@pytest.mark.parametrize(("p", "q", "printed"), QUOC_TABLE_1)
def test_the_papers_privacy_column_comes_out_of_its_one_sided_formula(
    p: float, q: float, printed: float
) -> None:
    claimed = zero_knowledge_epsilon(quoc_one_sided_epsilon(p, q), 0.6)
    assert math.floor(claimed * 10_000) / 10_000 == printed  # the paper cuts off after four digits


@pytest.mark.parametrize(("p", "q", "printed"), QUOC_TABLE_1)
def test_the_honest_figure_is_larger_exactly_where_a_no_tells_more(
    p: float, q: float, printed: float
) -> None:
    honest = zero_knowledge_epsilon(bit_epsilon(p, q), 0.6)
    if q > 0.5:
        assert honest > printed + 0.1
    else:
        assert honest == zero_knowledge_epsilon(quoc_one_sided_epsilon(p, q), 0.6)


@pytest.mark.parametrize(("p", "q"), [(0.5, 0.5), (0.3, 0.9), (0.88, 0.37), (0.01, 0.99)])
def test_the_bits_loss_is_the_largest_ratio_of_what_is_drawn(p: float, q: float) -> None:
    assert bit_epsilon(p, q) == pytest.approx(BinaryResponse(p, q).epsilon, rel=1e-12)


@pytest.mark.parametrize("ones", [1, 2, 3])
def test_an_answers_loss_is_the_largest_ratio_over_all_answers_and_reports(ones: int) -> None:
    p, q = 0.4, 0.3
    a, b = p + (1 - p) * q, (1 - p) * q
    width = 2 * ones
    answers = [x for x in product((0, 1), repeat=width) if sum(x) <= ones]

    def chance(report: tuple[int, ...], answer: tuple[int, ...]) -> float:
        return math.prod(
            (a if y else 1 - a) if x else (b if y else 1 - b)
            for x, y in zip(answer, report, strict=True)
        )

    worst = 0.0
    for report in product((0, 1), repeat=width):
        chances = [chance(report, answer) for answer in answers]
        worst = max(worst, max(chances) / min(chances))
    assert answer_epsilon(p, q, ones) == pytest.approx(math.log(worst), rel=1e-12)


def test_a_one_hot_answers_loss_is_that_of_unary_encoding() -> None:
    p, q = 0.6, 0.2
    mechanism = UnaryEncoding(3, a=p + (1 - p) * q, b=(1 - p) * q)
    laws = exact_laws(mechanism)
    worst = max(laws[0][row] / laws[1][row] for row in laws[0])
    assert answer_epsilon(p, q) == pytest.approx(exact.log_ratio(worst), rel=1e-12)


def test_a_whole_answer_never_costs_less_than_its_bits() -> None:
    for p, q in product((0.1, 0.5, 0.9), repeat=2):
        assert answer_epsilon(p, q) > bit_epsilon(p, q)


def test_the_edges_are_exact() -> None:
    for epsilon in (0.0, 1e-9, 0.1, 1.0, math.pi, 40.0, math.inf):
        assert sampled_epsilon(epsilon, 1) == epsilon
        assert sampled_epsilon(epsilon, 0) == 0
        assert local_epsilon(epsilon, 1) == epsilon
        assert zero_knowledge_epsilon(epsilon, 1) == math.inf
        assert zero_knowledge_epsilon(epsilon, 0) == 0
    for s in (0.0, 0.3, 1.0):
        assert sampled_epsilon(0.0, s) == 0
        assert largest_sampling(0.0, s) == 1
    assert sampled_epsilon(math.inf, 0.01) == math.inf
    assert bit_epsilon(0.0, 0.0) == answer_epsilon(0.0, 1.0) == 0
    assert (
        bit_epsilon(0.5, 0.0)
        == bit_epsilon(0.5, 1.0)
        == answer_epsilon(0.5, 0.0)
        == answer_epsilon(0.5, 1.0)
        == math.inf
    )


def test_no_figure_understates_the_loss_not_even_by_rounding() -> None:
    for epsilon, s in product((1e-9, 0.01, 0.7, 3.3, 40.0), (1e-6, 0.1, 0.5, 0.999)):
        truth = 1 + Fraction(s) * (exact.exp(epsilon) - 1)
        stated = sampled_epsilon(epsilon, s)
        assert exact.exp(stated) >= truth
        assert exact.exp(math.nextafter(stated, 0)) < truth


def test_the_inverses_round_to_the_private_side_and_lose_next_to_nothing() -> None:
    for sampled, s in product((1e-6, 0.1, 0.7, 2.0), (1e-4, 0.05, 0.3, 0.99)):
        local = local_epsilon(sampled, s)
        assert sampled * (1 - 1e-9) < sampled_epsilon(local, s) <= sampled
        back = largest_sampling(local, sampled)
        assert back == pytest.approx(s, rel=1e-9)
        assert sampled_epsilon(local, back) <= sampled


def test_zero_knowledge_figures_are_the_formulas_not_the_thesiss_slip() -> None:
    # Lavengood quotes 1.41 and 2.72 for these, with a 1 too many inside the logarithm.
    assert round(zero_knowledge_epsilon(bit_epsilon(0.88, 0.37), 0.05), 3) == 1.127
    assert round(zero_knowledge_epsilon(bit_epsilon(0.94, 0.2), 0.08), 3) == 2.651


def test_a_loss_too_small_for_sixty_digits_is_not_rounded_to_nothing() -> None:
    for loss in (1e-20, 1e-58, 1e-61, 1e-300):
        assert loss / 2 <= sampled_epsilon(loss, 0.5) <= loss / 2 * (1 + loss + 1e-15)
        assert (
            loss
            <= sampled_epsilon(local_epsilon(loss, 0.5), 0.5) * (1 + 1e-15)
            <= loss * (1 + 1e-14)
        )


def test_answers_of_very_many_ones_are_added_up_at_once() -> None:
    assert answer_epsilon(0.3, 0.6, 10**12) == pytest.approx(
        1e12 * answer_epsilon(0.3, 0.6), rel=1e-15
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bit_epsilon(1.2, 0.5), "p = 1.2 must lie between 0 and 1"),
        (lambda: bit_epsilon(0.5, math.nan), "q = nan must lie between 0 and 1"),
        (lambda: answer_epsilon(0.5, 0.5, 0), "ones = 0 must be a whole number of at least 1"),
        (
            lambda: answer_epsilon(0.5, 0.5, 1.5),  # type: ignore[arg-type]
            "ones = 1.5 must be a whole number of at least 1",
        ),
        (
            lambda: answer_epsilon(0.5, 0.5, math.nan),  # type: ignore[arg-type]
            "ones = nan must be a whole number of at least 1",
        ),
        (lambda: sampled_epsilon(-1, 0.5), "epsilon = -1 must lie between 0 and 1000, or be inf"),
        (lambda: sampled_epsilon(1, 1.5), "s = 1.5 must lie between 0 and 1"),
        (lambda: sampled_epsilon(True, 0.5), "epsilon = True must be a number"),
        (lambda: zero_knowledge_epsilon("1", 0.5), "epsilon = '1' must be a number"),  # type: ignore[arg-type]
        (lambda: largest_sampling(math.inf, 1.0), "epsilon = inf must be finite"),
    ],
)
def test_nonsense_is_refused_by_name_value_and_rule(call: object, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        call()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
