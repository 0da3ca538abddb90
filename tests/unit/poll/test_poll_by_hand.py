"""What coins, dice and two statements draw is what the device draws, and both are estimated together
with one ±."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from deniable.poll.asking import queries_of
from deniable.poll.files import poll_of_tree
from deniable.queries.query import Query
from deniable.randomness import seeded_source

Channel = list[list[Fraction]]
DIE = range(1, 7)
HEADS = (True, False)


def query_of(k: int, factor: float) -> Query:
    tree: dict[str, Any] = {
        "id": "p", "asker": "Council", "start": 1_800_000_000, "end": 1_800_600_000,
        "factor": factor, "page": "https://poll.example", "aggregator": "https://count.example",
        "proxies": [{"url": "https://one.example"}, {"url": "https://two.example"}],
        "questions": [{"kind": "one", "text": "Which?", "options": [str(i) for i in range(k)]}],
        "title": "A poll",
    }  # fmt: skip
    (query,) = queries_of(poll_of_tree(tree))
    return query


def of_outcomes(k: int, *outcomes: int | None) -> Channel:
    """The channel of outcomes that are equally likely: an answer, or None for the truth."""
    n = len(outcomes)
    return [
        [
            Fraction(sum(1 for each in outcomes if (true if each is None else each) == said), n)
            for true in range(k)
        ]
        for said in range(k)
    ]


YES, NO = 0, 1
RULES: dict[tuple[int, int], Channel] = {
    (2, 2): of_outcomes(2, *(None if die >= 5 else YES if die <= 2 else NO for die in DIE)),
    (2, 3): of_outcomes(2, *(None if a else YES if b else NO for a, b in product(HEADS, HEADS))),
    (2, 5): of_outcomes(2, *(YES if die == 1 else NO if die == 6 else None for die in DIE)),
    (2, 7): of_outcomes(
        2, *(None if a or b else YES if c else NO for a, b, c in product(HEADS, HEADS, HEADS))
    ),
    (2, 11): of_outcomes(
        2, *(None if die <= 5 else YES if coin else NO for die, coin in product(DIE, HEADS))
    ),
    (3, 4): of_outcomes(3, *(None if a else (die - 1) // 2 for a, die in product(HEADS, DIE))),
} | {  # a die is thrown until it shows at most k
    (k, k + 1): of_outcomes(k, *(None if a else i for a, i in product(HEADS, range(k))))
    for k in (4, 5, 6)
}


@pytest.mark.parametrize(("k", "factor"), RULES)
def test_coins_and_dice_draw_from_the_channel_of_the_device(k: int, factor: int) -> None:
    rule = RULES[k, factor]
    assert max(max(row) / min(row) for row in rule) == factor  # the loss is its logarithm, exactly
    query = query_of(k, factor)
    assert query.mechanism.channel() == pytest.approx(np.array(rule, float), abs=1e-12)
    assert query.epsilon == pytest.approx(math.log(factor), abs=1e-12)
    assert query.epsilon <= math.log(factor)


@pytest.mark.parametrize(("factor", "below", "numbers"), [(3, 25, 100), (7, 125, 1000)])
@pytest.mark.parametrize("high", [False, True])
def test_two_statements_draw_from_the_channel_of_the_coins(
    factor: int, below: int, numbers: int, high: bool
) -> None:
    """The reply is whether exactly one is true; it is turned for those whose B is likely."""
    is_b = [(number >= below) if high else (number < below) for number in range(numbers)]
    said = [
        [Fraction(sum((a != b) != high for b in is_b), numbers) for a in (True, False)],
        [Fraction(sum((a != b) == high for b in is_b), numbers) for a in (True, False)],
    ]
    assert said == RULES[2, factor]


def covered(query: Query, rule: Channel, truth: list[float], by_hand: float, n: int) -> int:
    """In how many of 2,000 polls the 95 % interval of the first option holds its proportion, where
    so many people toss by hand."""
    trials, k = 2000, len(truth)
    rng = np.random.default_rng(7)
    values = rng.choice(k, size=(trials, n), p=truth)
    reports = np.asarray(query.mechanism.draw(values.ravel(), seeded_source(8))).copy()
    reports = reports.reshape(trials, n)
    hand = round(by_hand * n)
    edges = np.cumsum(np.array(rule, float), axis=0)[:, values[:, :hand]]
    reports[:, :hand] = (rng.random((trials, hand)) > edges[:-1]).sum(axis=0)
    labels = np.array([*map(str, range(k - 1)), "other"])
    held = 0
    for row in reports:
        low, high = query.mechanism.estimate(labels[row]).interval(0.95)[0]
        held += bool(low <= truth[0] <= high)
    return held


@pytest.mark.slow
@pytest.mark.parametrize("by_hand", [0.5, 1.0])
@pytest.mark.parametrize("truth", [[0.3, 0.7], [0.7, 0.2, 0.1]])
def test_tosses_by_hand_alone_and_mixed_are_covered_by_one_interval(
    truth: list[float], by_hand: float
) -> None:
    """94 to 96 % of 2,000 polls, widened by what chance does at 1e-4 each way: 1.9 points."""
    k = len(truth)
    factor = {2: 3, 3: 4}[k]
    held = covered(query_of(k, factor), RULES[k, factor], truth, by_hand, 500)
    assert 0.94 - 0.019 <= held / 2000 <= 0.96 + 0.019
    # people who tell the truth without tossing are found out
    wrong = of_outcomes(k, None)
    assert covered(query_of(k, factor), wrong, truth, by_hand, 500) / 2000 < 0.9
