"""Unary encoding in two steps: the exact law of both, their losses, and what links two reports of
one device."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest

from deniable import (
    BasicRappor,
    Mechanism,
    OptimizedUnary,
    SymmetricUnary,
    UnaryEncoding,
    every_path,
    seeded_source,
)
from deniable.console.design_plans import DesignRequest, design_answer
from deniable.errors import ParameterError, ReportFormatError
from deniable.mechanisms.protocols.memoized_unary import MemoizedUnary
from deniable.mechanisms.protocols.threshold import ThresholdHistogram
from deniable.randomness import ONE, Source

COARSE = MemoizedUnary(UnaryEncoding(2, a=0.75, b=0.25), p=0.25, q=0.75)


def law(mechanism: MemoizedUnary, value: int) -> dict[tuple[int, ...], Fraction]:
    """P(permanent bits) of an answer, exactly."""
    a, b = mechanism.first_step._a, mechanism.first_step._b
    out = {}
    for bits in product((0, 1), repeat=len(mechanism.labels)):
        chance = Fraction(1)
        for i, bit in enumerate(bits):
            one = Fraction(a if i == value else b, ONE)
            chance *= one if bit else 1 - one
        out[bits] = chance
    return out


def drawn(value: int, source: Source) -> int:
    return int(COARSE.draw(np.array([value]), source)[0, 0])


def test_every_path_of_both_steps_gives_the_exact_channel() -> None:
    a, b = COARSE.channel()
    assert (a, b) == (0.625, 0.375)
    for value in (-1, 0, 1):
        found = dict.fromkeys(range(4), Fraction(0))
        for path, report in every_path(partial(drawn, value)):
            found[report] += path
        for report in range(4):
            bits = [report >> i & 1 for i in range(2)]
            one = [Fraction(5, 8) if i == value else Fraction(3, 8) for i in range(2)]
            chance = math.prod(p if bit else 1 - p for p, bit in zip(one, bits, strict=True))
            assert found[report] == chance


@pytest.mark.parametrize(
    "mechanism",
    [
        MemoizedUnary(OptimizedUnary(3, 2.0), 0.25, 0.75),
        MemoizedUnary(SymmetricUnary(["a", "b", "c"], 1.0), 0.1, 0.6),
        MemoizedUnary(UnaryEncoding(2, 0.9, 0.2), 0.01, 0.99),
    ],
    ids=repr,
)
def test_both_losses_are_those_of_the_exact_laws(mechanism: MemoizedUnary) -> None:
    laws = [law(mechanism, value) for value in range(len(mechanism.labels))]
    largest = max(one[bits] / other[bits] for one in laws for other in laws for bits in one)
    assert mechanism.lifetime_epsilon == pytest.approx(math.log(largest), rel=1e-12)
    p, q = Fraction(mechanism._step.p, ONE), Fraction(mechanism._step.q, ONE)
    seen = []
    for one in laws:
        reports = dict.fromkeys(one, Fraction(0))
        for bits, chance in one.items():
            for report in reports:
                coins = ((q if bit else p) for bit in bits)
                reports[report] += chance * math.prod(
                    c if r else 1 - c for c, r in zip(coins, report, strict=True)
                )
        seen.append(reports)
    largest = max(one[report] / other[report] for one in seen for other in seen for report in one)
    assert mechanism.epsilon == pytest.approx(math.log(largest), rel=1e-12)
    assert mechanism.epsilon < mechanism.lifetime_epsilon
    one_bit = sum(chance for report, chance in seen[0].items() if report[0])
    assert mechanism.channel().a == pytest.approx(float(one_bit), rel=1e-12)


def test_basic_rappor_is_the_case_of_a_symmetric_first_step() -> None:
    f, p, q = 0.5, 0.25, 0.75
    rappor, two = BasicRappor(4, f, p, q), MemoizedUnary(UnaryEncoding(4, 1 - f / 2, f / 2), p, q)
    assert two.epsilon == rappor.epsilon
    assert two.lifetime_epsilon == rappor.lifetime_epsilon
    assert two.channel() == rappor.channel()
    assert two.equal_reports() == pytest.approx(rappor.equal_reports())


def test_answers_in_several_buckets_lose_as_many_times_as_much() -> None:
    two = MemoizedUnary(SymmetricUnary(5, 1.0), 0.25, 0.75)
    assert two.answer_epsilon(3) == pytest.approx(3 * two.epsilon)
    assert two.lifetime_answer_epsilon(3) == pytest.approx(3.0)
    sets = np.array([[0, 2, -1]] * 60_000)
    kept = two.draw_permanent(sets, seeded_source(1))
    ones = two.count(two.draw_report(kept, seeded_source(2))) / len(sets)
    a, b = two.channel()
    assert np.allclose(ones, [a, b, a, b, b], atol=0.012)  # six standard errors


def test_one_permanent_answer_gives_reports_that_differ_as_often_as_is_said() -> None:
    two = MemoizedUnary(OptimizedUnary(6, 2.0), 0.25, 0.75)
    n = 200_000
    kept = two.draw_permanent(np.zeros(n, dtype=np.intp), seeded_source(3))
    first, again = (two.draw_report(kept, seeded_source(seed)) for seed in (4, 5))
    said = two.equal_reports()
    assert said is not None
    same, other = said
    for claim, observed in ((same, first == again), (other, first == np.roll(again, 1, axis=0))):
        assert abs(observed.all(axis=1).mean() - claim) < 6 * math.sqrt(claim * (1 - claim) / n)
    assert SymmetricUnary(64, 2.0).equal_reports() == pytest.approx((1.0, (0.6068) ** 64), rel=0.01)


def test_no_two_reports_of_a_bit_correlate_more_than_is_said() -> None:
    two = MemoizedUnary(OptimizedUnary(3, 1.0), 0.2, 0.7)
    p, q, most = 0.2, 0.7, two.replay_correlation()
    found = []
    for one in np.linspace(0.001, 0.999, 999):
        mean = p + (q - p) * one
        found.append((q - p) ** 2 * one * (1 - one) / (mean * (1 - mean)))
    assert max(found) == pytest.approx(most, rel=1e-4)
    assert max(found) <= most


def test_it_is_written_and_read_again() -> None:
    for first in (
        OptimizedUnary(["x", "y"], 2.0),
        UnaryEncoding(3, 0.6, 0.4),
        ThresholdHistogram(4, 1.0),
    ):
        two = MemoizedUnary(first, 0.25, 0.75)
        again = Mechanism.from_dict(two.to_dict())
        assert again == two
        assert again.channel() == two.channel()
        reports = two.privatize([two.labels[0]] * 3)
        assert type(reports).from_bytes(reports.to_bytes()).mechanism == two


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (
            {"first_step": OptimizedUnary(3, 1.0), "p": 0.75, "q": 0.25},
            "q = 0.25 must exceed p = 0.75",
        ),
        (
            {"first_step": OptimizedUnary(3, 1.0), "p": 0.0, "q": 0.25},
            "p = 0.0 must lie strictly between 0 and 1",
        ),
        (
            {"first_step": BasicRappor(3, 0.5, 0.5, 0.75), "p": 0.2, "q": 0.8},
            "must be a unary mechanism",
        ),
        (
            {"first_step": {"mechanism": "OptimizedUnary", "epsilon": 1.0}, "p": 0.2, "q": 0.8},
            "values = None must be given",
        ),
    ],
)
def test_bad_parameters_are_named(given: dict[str, Any], says: str) -> None:
    with pytest.raises((ParameterError, ReportFormatError)) as caught:
        MemoizedUnary(**given)
    assert says in str(caught.value)


def test_the_console_states_the_error_of_both_steps() -> None:
    """A drafted memoized query has the second step: a design that left it out would promise half of
    the ±."""
    asked: dict[str, Any] = {
        "population": 20_000,
        "proportion": 0.1,
        "buckets": 8,
        "every": "1 h",
        "epochs": 24,
        "epsilon": 2.0,
    }
    fresh, kept = (
        design_answer(DesignRequest(**asked, memoize=memoize)) for memoize in (False, True)
    )
    assert fresh["mechanism"]["name"] == kept["mechanism"]["name"] == "OptimizedUnary"
    two = MemoizedUnary(OptimizedUnary(8, 2.0), 0.25, 0.75)
    assert kept["margin"] == pytest.approx(1.959964 * two.stderr(20_000, 0.1), rel=1e-3)
    assert kept["margin"] > 1.9 * fresh["margin"]
    wanted = {**asked, "margin": fresh["margin"] * 1.2}
    del wanted["epsilon"]
    refused = design_answer(DesignRequest(**wanted, memoize=True))
    assert not refused["feasible"]
    assert "randomizes the permanent answer once more" in refused["problem"]
    assert refused["nearest"]["population"] > 3 * 20_000 / 1.2**2
