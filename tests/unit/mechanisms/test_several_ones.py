"""Answers that are in several buckets: what they cost, how they are drawn and kept, and what is
learnt of them."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.aggregator.windows.window import Window
from deniable.client import encoding
from deniable.client.simulation.fleet import Fleet
from deniable.counts import Counts
from deniable.errors import ParameterError
from deniable.mechanisms.protocols.unary import UnaryEncoding
from deniable.privacy.response import answer_epsilon
from deniable.queries.buckets import Buckets
from deniable.queries.budget import Budget
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.columns.column import Column
from deniable.queries.files import parse_query
from deniable.queries.query import Query
from deniable.queries.summary import summary
from deniable.randomness import Source, seeded_source
from deniable.scripted_randomness import every_path
from toolkit.crowds import minute_query
from toolkit.devices import at, bits, make_device, make_policy, opened, signed
from toolkit.queries import make_query

DEAR = {"name": "OptimizedUnary", "epsilon": 20.0}
AGES = Column("distance", ["[0,inf)", "[18,inf)", "[65,inf)"], overlapping=True)


def overlapping(**changes: Any) -> Query:
    given: dict[str, Any] = {
        "columns": [AGES],
        "ones": 2,
        "mechanism": {"name": "TwoCoin", "p": 0.5, "q": 0.5},
        "budget": Budget(),
        "sampling": 1.0,
    }
    return make_query(**{**given, **changes})


def test_values_are_in_all_buckets_that_hold_them() -> None:
    assert AGES.indices(17) == [0]
    assert AGES.indices(70.0) == [0, 1, 2]
    assert AGES.indices(-1) == AGES.indices(None) == AGES.indices(float("nan")) == []
    words = Column(
        "x", ["New York", {"glob": "New *"}, {"regex": ".*York"}], other=True, overlapping=True
    )
    assert words.indices("New York") == [0, 1, 2]
    assert words.indices("New Delhi") == [1]
    assert words.indices("Oslo") == words.indices(3) == [3]
    both = Buckets([AGES, Column("y", ["[0,1)", "[0,2)"], overlapping=True)])
    assert both.indices([20, 0.5]) == [0, 1, 2, 3]
    assert both.indices([20, 9]) == []
    with pytest.raises(ParameterError, match="overlaps"):
        Column("age", ["[0,inf)", "[18,inf)"])


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ones": 1}, "columns\\[0\\].overlapping = True needs ones above 1"),
        ({"ones": 4}, "ones = 4 must be a whole number from 1 to 3"),
        ({"rows": "several", "most_rows": 2}, "rows = 'several' cannot be combined"),
        (
            {
                "columns": [Column("x", ["a", "b"], other=True)],
                "mechanism": {"name": "DirectEncoding", "epsilon": 1.0},
            },
            "only unary",
        ),
        (
            {"columns": [Column("x", ["a", "b"])], "ones": 1, "rows": "all"},
            "rows = 'all' needs ones",
        ),
        (
            {
                "columns": [Column("x", [f"[{i},inf)" for i in range(99)], overlapping=True)],
                "ones": 99,
                "mechanism": DEAR,
            },
            "more than 1000",
        ),
    ],
)
def test_what_cannot_have_several_ones_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        overlapping(**changes)


def test_an_answer_with_several_ones_is_charged_for_all_of_them() -> None:
    query = overlapping()
    assert query.epsilon == answer_epsilon(0.5, 0.5, ones=2)
    assert query.epsilon_local == query.epsilon_charged == query.epsilon
    assert query.epsilon == pytest.approx(2 * math.log(9))
    assert encoding.cost_of_answer(query) == Fraction(repr(query.epsilon))
    assert b'"ones":2' in query.content
    assert Query.from_content(query.content) == query
    assert b"ones" not in make_query().content
    assert "An answer may be in up to 2 buckets" in summary(query)


def test_the_law_of_a_report_is_exactly_the_channel_of_each_bit() -> None:
    """Every path of the draws, for a small denominator: bits are independent, a where the label is
    there and b elsewhere."""
    mechanism = UnaryEncoding(3, 0.75, 0.25)
    for sets, true in (([0, 2], (1, 0, 1)), ([1, NONE], (0, 1, 0)), ([NONE, NONE], (0, 0, 0))):
        law: dict[int, Fraction] = {}

        def report_of(source: Source, sets: list[int] = sets) -> int:
            return int(mechanism.draw_sets(np.array([sets]), source)[0, 0])

        for probability, report in every_path(report_of):
            law[report] = law.get(report, Fraction(0)) + probability
        assert sum(law.values()) == 1
        for report in range(8):
            expected = Fraction(1)
            for bit in range(3):
                one = Fraction(3, 4) if true[bit] else Fraction(1, 4)
                expected *= one if report >> bit & 1 else 1 - one
            assert law[report] == expected


def test_the_loss_is_reached_by_the_worst_two_answers_and_never_passed() -> None:
    """All pairs of answers with up to two ones of four, by the exact law of independent bits."""
    mechanism = UnaryEncoding(4, 0.7, 0.3)
    a, b = mechanism.channel()
    answers = [row for row in np.ndindex(2, 2, 2, 2) if sum(row) <= 2]
    worst = 0.0
    for first in answers:
        for second in answers:
            ratios = [
                max(math.log(x / y), math.log((1 - x) / (1 - y)))
                for x, y in zip(
                    *([a if one else b for one in row] for row in (first, second)), strict=True
                )
            ]
            worst = max(worst, sum(ratios))
    assert worst == pytest.approx(mechanism.answer_epsilon(2))
    assert mechanism.answer_epsilon(1) == mechanism.epsilon


def test_a_device_reports_the_buckets_of_its_row_and_of_all_rows(tmp_path: Path) -> None:
    """With coins that hardly lie, the bits of a report are the buckets."""
    truthful = {"name": "UnaryEncoding", "a": 1 - 2**-40, "b": 2**-40}
    cases: list[tuple[str, list[float | None], set[tuple[int, ...]]]] = [
        ("random", [40.0], {(1, 1, 0)}),
        ("random", [70.0], {(1, 1, 0), (1, 0, 1), (0, 1, 1)}),
        ("all", [5.0, 40.0], {(1, 1, 0)}),
        ("all", [None], {(0, 0, 0)}),
        ("aggregate", [5.0, 40.0], {(0, 0, 0)}),
    ]
    for i, (rows, distances, expected) in enumerate(cases):
        folder = tmp_path / str(i)
        folder.mkdir()
        query = overlapping(rows=rows, mechanism=truthful)
        device = make_device(
            folder, query, distances, policy=make_policy(query, epsilon_per_answer=1000, limits=())
        )
        receipts = device.answer_all([signed(query)], at(0))
        assert [receipt.outcome for receipt in receipts] == ["answered"]
        [message] = opened(device)
        assert tuple(bits(message.report, 3).tolist()) in expected


def test_a_device_and_a_fleet_of_one_send_the_same_reports(tmp_path: Path) -> None:
    query = overlapping()
    answers = encoding.checked(query, np.array([[1, 0]]))
    assert answers.tolist() == [[0, 1]]
    one = encoding.randomize(query, np.array([[1, 0]]), seeded_source(5))
    two = encoding.randomize(query, np.array([[0, 1]]), seeded_source(5))
    assert one.tolist() == two.tolist(), (
        "an answer is a set: the order in which it is given does not matter"
    )


def test_the_permanent_answer_is_the_same_for_the_same_buckets_in_any_order(tmp_path: Path) -> None:
    query = overlapping(memoize=True, distinct=2, rows="all")
    device = make_device(tmp_path, query, [5.0, 40.0], policy=make_policy(query, limits=()))
    reports = []
    for epoch in range(3):
        device.answer_all([signed(query)], at(epoch))
        reports = [message.report for message in opened(device)]
    assert len(reports) == 3
    assert len(set(reports)) == 1, "a permanent answer is replayed"
    with device.store.transaction() as transaction:
        assert transaction.charges.spent_on(query.analyst, query.id) == 2 * Fraction(
            repr(query.epsilon)
        )
    fleet = Fleet(query, 50, source=seeded_source(1))
    assert fleet._memo is not None
    everybody = np.arange(50)
    first = fleet._memo.reports(
        everybody, encoding.checked(query, np.tile([0, 1], (50, 1))), seeded_source(2)
    )
    again = fleet._memo.reports(
        everybody, encoding.checked(query, np.tile([1, 0], (50, 1))), seeded_source(3)
    )
    other = fleet._memo.reports(
        everybody, encoding.checked(query, np.tile([2, NONE], (50, 1))), seeded_source(4)
    )
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_of_more_buckets_than_an_answer_may_have_each_is_drawn_equally_often() -> None:
    """10,000 people in all three buckets, of which two are answered: each in 2/3, to 4.5 standard
    errors. Seed 6."""
    fleet = Fleet(overlapping(), 10_000, source=seeded_source(6))
    sets = fleet.sets([np.full(10_000, 70.0)])
    counts = np.bincount(sets.reshape(-1), minlength=3)
    assert np.all(np.abs(counts / 10_000 - 2 / 3) < 4.5 * math.sqrt(2 / 9 / 10_000))
    assert (sets[:, 0] != sets[:, 1]).all()


def test_a_window_estimates_each_bucket_and_says_that_they_need_not_add_up() -> None:
    query = minute_query(
        columns=[AGES], ones=2, mechanism={"name": "TwoCoin", "p": 0.5, "q": 0.5}, minimum_cohort=1
    )
    fleet = Fleet(query, 20_000, source=seeded_source(7))
    sets = fleet.sets([np.random.default_rng(7).uniform(0, 90, 20_000).round()])
    reports = encoding.randomize(query, sets, seeded_source(8))
    panes = {PaneKey(query.id, 1, 0, 0): Counts(query.mechanism.count(reports), 20_000)}
    window = assemble([query], 0, panes)
    assert window.estimate is not None
    truth = np.bincount(sets[sets >= 0], minlength=3) / 20_000
    low, high = window.estimate.interval(1 - 1e-9).T
    assert np.all((low <= truth) & (truth <= high))
    assert window.estimate.proportions.sum() > 1.5
    assert (
        "a person may be in up to 2 buckets: proportions need not add up to 1"
        in window.estimate.notes
    )
    assert not any("improbable" in note for note in window.estimate.notes)
    again = Window.from_dict(window.to_dict())
    assert again.estimate is not None
    assert again.estimate.exclusive is False
    with pytest.raises(ParameterError):
        again.estimate.projected()


def test_a_file_says_that_buckets_overlap() -> None:
    text = """
id = "x"
analyst = "City"
sql = "SELECT age FROM people"
proxies = ["one", "two"]
mechanism = { name = "TwoCoin", p = 0.3, q = 0.5 }
ones = 3
columns = [{ name = "age", buckets = ["[0,inf)", "[18,inf)", "[65,inf)"], overlapping = true }]
[schedule]
origin = 0
expires = 7200
every = 3600
window = 3600
slide = 3600
"""
    assert parse_query(text).buckets.indices([30]) == [0, 1]


def test_inverted_answers_are_those_of_the_complement_and_the_result_says_so() -> None:
    """(p, q) on "not in the bucket", sent as its complement, is the channel (p, 1 - q): the same
    loss, the other variance."""
    coins = {"name": "TwoCoin", "p": 0.3, "q": 0.8}
    plain, inverted = (
        minute_query(mechanism={**coins, **more}) for more in ({}, {"inverted": True})
    )
    other = minute_query(mechanism={"name": "TwoCoin", "p": 0.3, "q": 0.2})
    assert inverted.mechanism.channel() == pytest.approx(other.mechanism.channel(), abs=1e-15)
    assert inverted.epsilon == pytest.approx(plain.epsilon)
    assert b'"inverted":true' in inverted.content
    assert Query.from_content(inverted.content) == inverted
    assert b"inverted" not in minute_query(mechanism={**coins, "inverted": False}).content
    reports = inverted.mechanism.draw(np.zeros(5_000, dtype=np.intp), seeded_source(1))
    window = assemble(
        [inverted],
        0,
        {PaneKey(inverted.id, 1, 0, 0): Counts(inverted.mechanism.count(reports), 5_000)},
    )
    assert window.estimate is not None
    assert any("answers were inverted" in note for note in window.estimate.notes)
    assert window.estimate.proportions[0] == pytest.approx(1, abs=0.1)
    assert "inverted question" in summary(inverted)
    with pytest.raises(ParameterError, match="inverted"):
        minute_query(mechanism={**coins, "inverted": 1})
