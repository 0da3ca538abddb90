"""The controller's rule: what it aims at, what it never leaves, when it stays, and what it says."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from deniable.mechanisms.protocols.unary import UnaryEncoding
from deniable.planning.feedback import (
    AIM,
    Coins,
    Limits,
    Outlook,
    Setting,
    best_setting,
    decide,
    expected_error,
    sustainable_rate,
)
from deniable.privacy.response import sampled_epsilon

COINS = Coins.two((0.1, 0.6), (0.2, 0.8)).within(2.5)
LIMITS = Limits((0.05, 1.0), COINS, minimum_cohort=50)


def channel(setting: Setting) -> tuple[float, float]:
    p, q = float(setting.coins["p"]), float(setting.coins["q"])
    a, b = p + (1 - p) * q, (1 - p) * q
    return (b, a) if setting.coins.get("inverted") else (a, b)


def loss(setting: Setting) -> float:
    a, b = sorted(channel(setting), reverse=True)
    return math.log(a * (1 - b) / (b * (1 - a)))


@pytest.mark.parametrize(
    ("people", "proportion", "margin"),
    list(product([2_000, 20_000, 500_000], [0.0, 0.05, 0.4], [0.01, 0.03])),
)
def test_a_plan_keeps_to_its_limits_and_meets_its_target_where_any_setting_does(
    people: float, proportion: float, margin: float
) -> None:
    outlook = Outlook(people, [proportion, 1 - proportion])
    setting, error = best_setting(LIMITS, outlook, margin)
    assert 0.05 <= setting.sampling <= 1
    assert 0.1 <= setting.coins["p"] <= 0.6
    assert 0.2 <= setting.coins["q"] <= 0.8
    assert loss(setting) <= 2.5
    assert error == pytest.approx(expected_error(*channel(setting), setting.sampling, outlook))
    most = min(
        expected_error(a, b, 1.0, outlook)
        for a, b in zip(COINS.a.tolist(), COINS.b.tolist(), strict=True)
    )
    if most <= margin:
        assert error <= margin * (1 + 1e-9)
    else:
        assert error == pytest.approx(most)


def test_the_expected_error_is_that_of_the_estimator() -> None:
    """Exact variance of the bit's estimate, not through the library's formula: lam (1 - lam) / ((a
    - b)^2 n)."""
    mechanism = UnaryEncoding(2, 0.7, 0.25)
    a, b = mechanism.channel()
    n, proportion = 4_000, 0.3
    lam = b + (a - b) * proportion
    by_hand = 1.959963984540054 * math.sqrt(lam * (1 - lam) / n) / (a - b)
    assert expected_error(a, b, 0.5, Outlook(8_000, [proportion])) == pytest.approx(by_hand)
    finite = expected_error(a, b, 0.5, Outlook(8_000, [proportion], reached=1.0))
    assert finite == pytest.approx(
        by_hand
        * math.sqrt(1 - 0.5 * proportion * (1 - proportion) * (a - b) ** 2 / (lam * (1 - lam)))
    )


def test_no_setting_that_meets_the_target_has_a_smaller_sampled_epsilon() -> None:
    outlook, target = Outlook(20_000, [0.1, 0.9]), 0.02
    setting, _ = best_setting(LIMITS, outlook, target)
    best = sampled_epsilon(loss(setting), setting.sampling)
    rng = np.random.default_rng(1)
    others = 0
    for _ in range(3_000):
        sampling, p, q = rng.uniform(0.05, 1), rng.uniform(0.1, 0.6), rng.uniform(0.2, 0.8)
        other = Setting(float(sampling), {"p": float(p), "q": float(q)})
        if (
            loss(other) <= 2.5
            and expected_error(*channel(other), other.sampling, outlook) <= target
        ):
            others += 1
            assert sampled_epsilon(loss(other), other.sampling) >= best - 0.01
    assert others > 100


def test_what_lasts_comes_before_what_is_least_told() -> None:
    outlook = Outlook(20_000, [0.1, 0.9])
    free, _ = best_setting(LIMITS, outlook, 0.02)
    bound = Limits((0.05, 1.0), COINS, spending=0.8 * free.sampling * loss(free))
    lasting, error = best_setting(bound, outlook, 0.02)
    assert lasting.sampling * loss(lasting) < free.sampling * loss(free)
    assert error <= 0.02 * (1 + 1e-9)


def test_a_budget_lasts_with_the_stated_probability() -> None:
    """20,000 simulated people, seed 2: at least 97 % of them have budget to the end."""
    epsilon, epochs, budget = 2.0, 200, 100.0
    sampling = sustainable_rate(budget, epochs, epsilon) / epsilon
    answers = np.random.default_rng(2).binomial(epochs, sampling, 20_000)
    assert np.mean(answers * epsilon <= budget) >= 0.97
    assert sustainable_rate(budget, 0, epsilon) == math.inf


def test_nothing_changes_between_seven_tenths_of_the_wish_and_the_wish() -> None:
    outlook, present = Outlook(20_000, [0.2, 0.8]), Setting(0.5, {"p": 0.5, "q": 0.5})
    error = expected_error(0.75, 0.25, 0.5, outlook)
    for part in (0.71, 0.85, 0.99):
        assert not decide(error / part, present, (0.75, 0.25), LIMITS, outlook).changed
    for part in (0.69, 1.01):
        decision = decide(error / part, present, (0.75, 0.25), LIMITS, outlook)
        assert decision.changed
        again = decide(error / part, decision.setting, channel(decision.setting), LIMITS, outlook)
        assert not again.changed, "what was just decided stays"
        assert decision.expected == pytest.approx(AIM * error / part, rel=0.02)


def test_a_fresh_setting_stays_for_three_windows_unless_the_error_is_far_off() -> None:
    outlook, present = Outlook(20_000, [0.2, 0.8]), Setting(0.5, {"p": 0.5, "q": 0.5})
    error = expected_error(0.75, 0.25, 0.5, outlook)
    for windows, part, changes in (
        (1, 1.1, False),
        (2, 0.5, False),
        (3, 1.1, True),
        (3, 0.5, True),
        (1, 1.2, True),
    ):
        decision = decide(
            error / part, present, (0.75, 0.25), LIMITS, outlook, windows_since_change=windows
        )
        assert decision.changed is changes, (windows, part)


def test_at_the_edge_of_the_envelope_it_says_so_once_and_stays() -> None:
    outlook, present = Outlook(500, [0.2, 0.8]), Setting(0.05, {"p": 0.5, "q": 0.5})
    decision = decide(0.001, present, (0.75, 0.25), LIMITS, outlook)
    assert decision.changed
    assert "is the least inside the envelope" in decision.reason
    assert not decide(0.001, decision.setting, channel(decision.setting), LIMITS, outlook).changed


def test_without_an_estimate_the_hardest_proportion_and_the_cohort_are_planned_for() -> None:
    setting, _ = best_setting(Limits((0.001, 1.0), COINS, minimum_cohort=400), Outlook(2_000), 0.5)
    assert setting.sampling >= 400 / 2_000
    unknown = expected_error(0.6, 0.1, 0.5, Outlook(2_000))
    assert unknown >= max(
        expected_error(0.6, 0.1, 0.5, Outlook(2_000, [proportion]))
        for proportion in (0.0, 0.3, 0.7, 1.0)
    )


def test_inversion_is_worth_something_only_where_q_may_not_follow() -> None:
    """With q in [0.2, 0.8], (p, 1 - q) says the same as inverted (p, q); with q fixed at 0.8, rare
    answers gain by inversion."""
    outlook = Outlook(20_000, [0.03])
    for q, helps in (((0.2, 0.8), False), ((0.5, 0.5), False), ((0.8, 0.8), True)):
        plain, inverted = (Coins.two((0.3, 0.3), q, inversion=flag) for flag in (False, True))
        without, error = best_setting(Limits((0.01, 1.0), plain), outlook, 1e-6)
        chosen, better = best_setting(Limits((0.01, 1.0), inverted), outlook, 1e-6)
        assert bool(chosen.coins.get("inverted")) is helps
        assert (better < 0.95 * error) is helps
        assert "inverted" not in without.coins
