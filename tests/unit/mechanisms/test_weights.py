"""Reports that weigh what honest coins hardly ever make them weigh are flagged, and honest ones are
not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable import (
    BasicRappor,
    Mechanism,
    OptimizedUnary,
    Reports,
    SummedHistogram,
    SymmetricUnary,
    seeded_source,
)
from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.counts import Counts
from deniable.mechanisms.weights import FALSE_ALARM, bits_law
from deniable.queries.columns.bucket_index import NONE
from deniable.queries.columns.column import Column
from toolkit.queries import MILES, make_query

UNARY: list[Mechanism] = [
    OptimizedUnary(11, 1.0),
    SymmetricUnary(4, 2.0),
    BasicRappor(16, 0.3, 0.4, 0.7),
]


def exact_log_tails(total: int, true: int, a: float, others: int, b: float) -> tuple[float, float]:
    """ln P(T >= total) and ln P(T <= total) of Binomial(true, a) + Binomial(others, b), by adding
    up the first."""
    x = np.arange(true + 1)
    law = stats.binom.logpmf(x, true, a)
    up = np.logaddexp.reduce(law + stats.binom.logsf(total - x - 1, others, b))
    down = np.logaddexp.reduce(law + stats.binom.logcdf(total - x, others, b))
    return float(up), float(down)


@pytest.mark.parametrize(
    ("n", "k", "a", "b"), [(50, 3, 0.5, 0.25), (400, 11, 0.6, 0.1), (2000, 2, 0.9, 0.05)]
)
def test_the_tail_is_bounded_from_above_and_closely(n: int, k: int, a: float, b: float) -> None:
    law = bits_law(n * k, n, a, b)
    deviation = math.sqrt(n * (a * (1 - a) + (k - 1) * b * (1 - b)))
    for z in (-7, -5, -3, 3, 5, 7):
        total = round(law.mean + z * deviation)
        exact = exact_log_tails(total, n, a, n * (k - 1), b)[0 if z > 0 else 1]
        bound = law.log_tail(total, 1 if z > 0 else -1)
        assert exact <= bound + 1e-9 * abs(bound) <= exact + math.log(40)


@pytest.mark.parametrize("mechanism", [*UNARY, SummedHistogram(6, 1.0)], ids=repr)
def test_honest_crowds_are_not_flagged_whatever_they_answer(mechanism: Mechanism) -> None:
    """300 crowds of each: one flagged among them has a chance of 3e-4 at the stated rate."""
    source = seeded_source(1)
    k = len(mechanism.labels)
    for n in (1, 5, 300):
        for answer in range(100):
            indices = np.full(n, answer % k) if answer < 50 else np.arange(answer, answer + n) % k
            assert (
                mechanism.estimate(Reports(mechanism, mechanism.draw(indices, source))).notes == ()
            )
    assert FALSE_ALARM <= 1e-6


@pytest.mark.parametrize("mechanism", [*UNARY, SummedHistogram(6, 1.0)], ids=repr)
@pytest.mark.parametrize("everything", [True, False], ids=["raised", "lowered"])
def test_liars_who_raise_or_lower_every_label_are_flagged(
    mechanism: Mechanism, everything: bool
) -> None:
    n = 20_000
    rows = mechanism.draw(np.arange(n) % len(mechanism.labels), seeded_source(2))
    liars = n // 20
    if isinstance(mechanism, SummedHistogram):
        rows[:liars] = mechanism.levels - 1 if everything else 0
    else:
        bits = np.full(len(mechanism.labels), everything)
        rows[:liars] = np.packbits(bits, bitorder="little")
    (note,) = mechanism.estimate(Reports(mechanism, rows)).notes
    assert note.startswith("improbable reports: ")
    assert "less than once in 1,000,000" in note
    assert ("at most" if everything else "at least") in note


def incomplete() -> Any:
    """A query without a bucket for everything else: an answer may have no label at all."""
    return make_query(columns=[Column("distance", MILES[:-1])], minimum_cohort=1)


def pane(query: Any, rows: Any) -> Counts:
    return Counts(query.mechanism.count(rows), len(rows))


def test_answers_in_no_bucket_are_not_taken_for_liars() -> None:
    query = incomplete()
    assert not query.buckets.complete
    rows = query.mechanism.draw(np.where(np.arange(20_000) < 10_000, NONE, 3), seeded_source(3))
    # as if all had a label
    assert query.mechanism.estimate(Reports(query.mechanism, rows)).notes != ()
    window = assemble([query], 0, {PaneKey(query.id, 1, 0, 0): pane(query, rows)})
    assert window.estimate is not None
    assert window.estimate.notes == ()
    rows[:2000] = np.packbits(np.ones(10, dtype=np.uint8), bitorder="little")
    window = assemble([query], 0, {PaneKey(query.id, 1, 0, 0): pane(query, rows)})
    assert window.estimate is not None
    assert "improbable reports" in window.estimate.notes[0]
    assert "improbable reports" in str(window)


def test_a_replayed_epoch_is_no_further_evidence() -> None:
    """The same permanent reports in 40 epochs: a chance excess of 2.5 standard deviations would
    become one of 16."""
    query = make_query(memoize=True, minimum_cohort=1)
    a, b = query.mechanism.channel()
    n, k = 2000, len(query.labels)
    excess = round(2.5 * math.sqrt(n * (a * (1 - a) + (k - 1) * b * (1 - b))))
    counts = np.full(k, round(n * b), dtype=np.int64)
    counts[0] = round(n * a) + excess
    replayed = {PaneKey(query.id, 1, epoch, 0): Counts(counts, n) for epoch in range(40)}
    window = assemble([query], 0, replayed)
    assert window.estimate is not None
    assert not any("improbable" in note for note in window.estimate.notes)
    assert query.mechanism.doubts(40 * counts, 40 * n) != ()
