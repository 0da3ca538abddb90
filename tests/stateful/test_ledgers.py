"""Ledgers as state machines: a device's store with its permanent answers, and a curator's
budget."""

from __future__ import annotations

import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
)

from deniable.client.permanent_answers import PermanentAnswers
from deniable.client.sandbox.answer import seated
from deniable.client.storage.store import Store
from deniable.client.witness import Witness
from deniable.curator.budget import CuratorBudget, release_event
from deniable.errors import BudgetExceededError, BudgetFileError, StoreError
from deniable.privacy.ledger import Limit, PrivacyEvent
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.columns.column import Column
from deniable.randomness import system_source
from stateful.machines import run
from toolkit.devices import asked

ANALYSTS, QUERIES = st.sampled_from(["City", "Town"]), st.sampled_from(["a", "b"])
COSTS = st.fractions(min_value=Fraction(1, 7), max_value=3, max_denominator=20)
DAY = 86_400
MEMOIZED = asked(
    columns=[Column("distance", [0.0, 1.0, 2.0, 3.0], other=True)],
    mechanism={"name": "LocalHashing", "epsilon": 1.0},
    rows="several",
    most_rows=2,
    memoize=True,
    distinct=2,
)
"""Hardly two of its permanent answers are equal."""


class StoreMachine(RuleBasedStateMachine):
    """Charges, what is given back, permanent answers, killed transactions, copies that are put
    back, and clocks that jump."""

    charges = Bundle("charges")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.store = Store(
            self.folder / "store", durable=False, witness=Witness(self.folder / "witness")
        )
        self.spent: dict[tuple[str, str], Fraction] = {}
        self.dated: dict[int, tuple[int, str, Fraction]] = {}
        self.memo: dict[int, dict[int, bytes]] = {}
        """For each slot, the permanent answer to each of its true answers."""
        self.last_spoken: dict[int, int] = {}
        self.n_answers = 0
        self.now = 1000 * DAY
        self.changes = 0

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(target=charges, analyst=ANALYSTS, query=QUERIES, cost=COSTS)
    def charge(self, analyst: str, query: str, cost: Fraction) -> int:
        with self.store.transaction() as transaction:
            place = transaction.charges.add(PrivacyEvent(analyst, query, self.now, cost))
        self.spent[analyst, query] = self.spent.get((analyst, query), Fraction()) + cost
        self.dated[place] = (self.now, analyst, cost)
        self.changes += 1
        return place

    @rule(place=consumes(charges))
    def give_back(self, place: int) -> None:
        with self.store.transaction() as transaction:
            analyst, query, cost = transaction.charges.give_back(place)
        assert (analyst, cost) == self.dated.pop(place)[1:]
        self.spent[analyst, query] -= cost
        self.changes += 1

    @rule(analyst=ANALYSTS, query=QUERIES, cost=COSTS)
    def killed_while_charging(self, analyst: str, query: str, cost: Fraction) -> None:
        class Killed(BaseException):
            pass

        try:
            with self.store.transaction() as transaction:
                transaction.charges.add(PrivacyEvent(analyst, query, self.now, cost))
                raise Killed
        except Killed:
            pass

    @rule(answers=st.tuples(st.integers(0, 4), st.integers(0, 4)))
    def answer_permanently(self, answers: tuple[int, int]) -> None:
        """At most two permanent answers are drawn for a slot; then the one that spoke last speaks
        again."""
        with self.store.transaction() as transaction:
            kept = PermanentAnswers.of(transaction, MEMOIZED)
            found = seated(("several", 2, 1, kept.memo), answers)
            reports = kept.reports(transaction, found, self.changes, system_source())
            self.n_answers += 1
            assert [len(slot) for slot in kept.slots] == 2 * [min(self.n_answers, 2)]
        for slot, answer in enumerate(answers):
            mine = self.memo.setdefault(slot, {})
            if answer not in mine and len(mine) < 2:
                mine[answer] = reports[slot].tobytes()
                assert found.buckets[slot] == answer
            else:
                assert found.buckets[slot] == NONE
            said = answer if answer in mine else self.last_spoken[slot]
            assert reports[slot].tobytes() == mine[said]
            self.last_spoken[slot] = said
        self.changes += 1

    @rule(seconds=st.sampled_from([-3 * DAY, -60, 3600, 2 * DAY]))
    def clock(self, seconds: int) -> None:
        self.now += seconds
        with self.store.transaction() as transaction:
            transaction.outbox.set_clock(self.now)
        self.changes += 1

    @precondition(lambda self: self.changes)
    @rule(cost=COSTS)
    def a_copy_that_is_put_back_is_refused(self, cost: Fraction) -> None:
        copy = self.store.path.read_bytes()
        with self.store.transaction() as transaction:
            transaction.charges.add(PrivacyEvent("City", "a", self.now, cost))
        newest = self.store.path.read_bytes()
        self.store.path.write_bytes(copy)
        with pytest.raises(StoreError, match="backup"), self.store.transaction():
            pass
        self.store.path.write_bytes(newest)
        self.spent["City", "a"] = self.spent.get(("City", "a"), Fraction()) + cost
        self.dated[-self.changes] = (self.now, "City", cost)
        self.changes += 1

    @invariant()
    def the_ledger_is_right(self) -> None:
        with self.store.transaction() as transaction:
            accountant = transaction.charges.accountant(
                [Limit(1000), Limit(500, period=2 * DAY)], self.now
            )
            for key, cost in self.spent.items():
                assert transaction.charges.spent_on(*key) == cost
        assert accountant.spent() == sum(self.spent.values(), Fraction())
        recent = sum(
            (cost for when, _, cost in self.dated.values() if when > self.now - 2 * DAY), Fraction()
        )
        left = min(1000 - accountant.spent(), 500 - recent)
        assert accountant.left("City", self.now) == left


class BudgetMachine(RuleBasedStateMachine):
    """A curator's budget in a file: releases that fit and that do not, other processes, killed
    writers, other tables."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "budget.json"
        self.budget = CuratorBudget.at(self.path, 5)
        self.budget.charge(release_event("City", "first", "1/10"), {"table": "ab"})
        self.spent = Fraction(1, 10)

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(analyst=ANALYSTS, query=QUERIES, cost=COSTS, fresh=st.booleans())
    def charge(self, analyst: str, query: str, cost: Fraction, fresh: bool) -> None:
        budget = CuratorBudget.at(self.path) if fresh else self.budget
        try:
            budget.charge(release_event(analyst, query, str(cost)), {"table": "ab"})
        except BudgetExceededError:
            assert self.spent + cost > 5
        else:
            self.spent += cost
            assert self.spent <= 5

    @rule(cost=COSTS)
    def charge_another_table(self, cost: Fraction) -> None:
        try:
            self.budget.charge(release_event("City", "a", str(cost)), {"table": "cd"})
        except BudgetFileError:
            return
        raise AssertionError("a budget was spent on another table")

    @rule(half=st.floats(0, 1))
    def a_writer_is_killed(self, half: float) -> None:
        content = self.path.read_bytes()
        (self.folder / "budget.json.partial").write_bytes(content[: int(half * len(content))])

    @rule(epsilon=st.sampled_from([5, 6, "1/2"]))
    def open_again(self, epsilon: Any) -> None:
        again = (
            CuratorBudget.at(self.path, epsilon) if epsilon == 5 else CuratorBudget.at(self.path)
        )
        assert again.epsilon == 5

    @invariant()
    def every_reader_sees_what_is_spent(self) -> None:
        for budget in (self.budget, CuratorBudget.at(self.path)):
            assert (budget.spent, budget.left) == (self.spent, 5 - self.spent)


@pytest.mark.slow
def test_a_device_s_ledger_and_permanent_answers() -> None:
    run(StoreMachine, examples=12, steps=20)


def test_a_curator_s_budget() -> None:
    run(BudgetMachine, examples=15, steps=15)
