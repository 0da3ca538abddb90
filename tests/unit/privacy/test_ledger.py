"""The ledger's rules: what is counted, what is refused and why, and that a refusal changes
nothing."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from deniable.errors import BudgetExceededError, ParameterError
from deniable.privacy import Accountant, Limit, PrivacyEvent

DAY = 86_400


def event(
    epsilon: Any = 0.1,
    analyst: str = "acme",
    query: str = "steps",
    time: int = 0,
    fresh: bool = True,
) -> PrivacyEvent:
    return PrivacyEvent(analyst, query, time, epsilon, fresh)


def test_a_budget_is_spent_to_its_last_digit() -> None:
    ledger = Accountant([Limit(1.0)])
    for _ in range(10):
        ledger.record(event(0.1))
    assert ledger.spent() == 1
    assert ledger.left("acme", 0) == 0
    assert ledger.check(event(1e-9)) is not None


def test_a_refusal_changes_nothing() -> None:
    ledger = Accountant([Limit(5.0), Limit(1.0, each_analyst=True), Limit(0.5, period=DAY)])
    ledger.record(event(0.4))
    before = ledger.to_dict()
    with pytest.raises(BudgetExceededError):
        ledger.record(event(0.2, query="other"))
    assert ledger.to_dict() == before
    ledger.record(event(0.1))


def test_asking_changes_nothing() -> None:
    ledger = Accountant([Limit(1.0)])
    before = ledger.to_dict()
    assert ledger.check(event(0.3)) is None
    assert ledger.check(event(3.0)) is not None
    assert ledger.to_dict() == before


def test_the_reason_names_the_limit_what_is_spent_and_what_was_asked() -> None:
    ledger = Accountant([Limit(1.5, period=7 * DAY, each_analyst=True)])
    ledger.record(event(1.25))
    reason = ledger.check(event(0.5, time=DAY))
    assert (
        reason
        == "epsilon 0.5 was asked by acme and 0.25 is left: at most 1.5 in any 7 days for each"
        " analyst, and 1.25 is spent"
    )


def test_analysts_are_counted_apart_and_together() -> None:
    ledger = Accountant([Limit(1.0, each_analyst=True), Limit(1.5)])
    ledger.record(event(1.0, analyst="acme"))
    ledger.record(event(0.5, analyst="zeta"))
    assert "for life for each analyst" in str(ledger.check(event(0.1, analyst="acme")))
    assert "at most 1.5 for life, and 1.5 is spent" in str(ledger.check(event(0.1, analyst="zeta")))


def test_a_limit_on_one_analyst_binds_no_other() -> None:
    ledger = Accountant([Limit(0.2, analyst="acme")])
    ledger.record(event(7.0, analyst="zeta"))
    ledger.record(event(0.2, analyst="acme"))
    assert ledger.check(event(0.1, analyst="acme")) is not None
    assert ledger.check(event(9.0, analyst="zeta")) is None
    assert ledger.left("zeta", 0) is None


def test_a_period_slides() -> None:
    #   day      0    1    2    3
    #   asked   0.6  0.4  0.1
    #   any 2 days hold at most 1: full on day 1, and 0.6 free again once day 0 is two days ago
    ledger = Accountant([Limit(1.0, period=2 * DAY)])
    ledger.record(event(0.6, time=0))
    ledger.record(event(0.4, time=DAY))
    assert ledger.check(event(0.1, time=2 * DAY - 1)) is not None
    assert ledger.check(event(0.6, time=2 * DAY)) is None
    assert ledger.check(event(0.7, time=2 * DAY)) is not None


def test_a_clock_that_is_set_back_frees_no_budget() -> None:
    ledger = Accountant([Limit(1.0, period=DAY)])
    ledger.record(event(1.0, time=10 * DAY))
    assert ledger.check(event(0.1, time=3 * DAY)) is not None


def test_a_replay_costs_nothing_beyond_its_permanent_draw() -> None:
    ledger = Accountant([Limit(1.0)])
    ledger.record(event(1.0))
    for day in range(1, 1000):
        ledger.record(event(1.0, time=day * DAY, fresh=False))
    assert ledger.spent() == 1


def test_a_replay_of_what_was_never_drawn_is_refused() -> None:
    ledger = Accountant([Limit(1.0)])
    ledger.record(event(0.5, query="steps"))
    assert "no permanent answer was ever drawn" in str(
        ledger.check(event(query="pulse", fresh=False))
    )
    assert ledger.check(event(analyst="zeta", fresh=False)) is not None


def test_forgetting_dates_keeps_what_was_spent_for_life_and_every_open_period() -> None:
    ledger = Accountant([Limit(1.0, period=DAY), Limit(10.0)])
    for day in range(5):
        ledger.record(event(1.0, time=day * DAY))
    before = [ledger.left("acme", 4 * DAY + offset) for offset in (0, DAY // 2, DAY)]
    ledger.forget(4 * DAY)
    assert len(ledger.to_dict()["history"]) == 1
    assert ledger.spent() == 5
    assert [ledger.left("acme", 4 * DAY + offset) for offset in (0, DAY // 2, DAY)] == before


def test_the_state_goes_through_json_and_back() -> None:
    limits = [Limit(1.0, period=DAY, each_analyst=True), Limit(3.0)]
    ledger = Accountant(limits)
    ledger.record(event(1 / 3, time=5))
    ledger.record(event("2/7", analyst="zeta", time=6))
    again = Accountant.from_dict(limits, json.loads(json.dumps(ledger.to_dict())))
    assert again.to_dict() == ledger.to_dict()
    assert again.spent("zeta") == Fraction(2, 7)
    for asked in (
        event(0.6, time=7),
        event(0.7, time=7),
        event(1.0, time=7, fresh=False),
        event(0.8, "zeta", time=7),
    ):
        assert again.check(asked) == ledger.check(asked)


def test_a_state_of_another_version_is_refused() -> None:
    with pytest.raises(ParameterError, match="version of a ledger's state must be 1, not 99"):
        Accountant.from_dict([], {"version": 99})


def test_numbers_of_any_exact_kind_are_taken_as_they_read() -> None:
    for tenth in (0.1, "0.1", Decimal("0.1"), Fraction(1, 10)):
        assert event(tenth).cost == Fraction(1, 10)


def test_events_cannot_be_changed_afterwards() -> None:
    with pytest.raises(FrozenInstanceError):
        event().fresh = False  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: event(-0.1), "epsilon = -0.1 must be finite and at least 0"),
        (lambda: event(math.inf), "epsilon = inf must be finite and at least 0"),
        (lambda: event(math.nan), "epsilon = nan must be finite and at least 0"),
        (lambda: event(None), "epsilon = None must be a number"),
        (lambda: event(analyst=""), "analyst = '' must be a nonempty text"),
        (lambda: event(time=-1), "time = -1 must be a whole number of at least 0"),
        (lambda: Limit(1.0, period=0), "period = 0 must be a whole number of at least 1"),
        (lambda: Limit(1.0, analyst="acme", each_analyst=True), "each_analyst = True contradicts"),
        (lambda: Accountant([1.0]), "limits = 1.0 must be a Limit"),  # type: ignore[list-item]
    ],
)
def test_nonsense_is_refused_by_name_value_and_rule(make: object, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value).startswith(message)
