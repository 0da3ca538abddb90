"""From a released window to tables: joint, conditional, and the steps of an event chain, with
errors that cover."""

from __future__ import annotations

import json

import numpy as np
import pytest

from deniable.aggregator.counting.panes import PaneKey
from deniable.aggregator.windows.assembling import assemble
from deniable.aggregator.windows.window import Window
from deniable.counts import Counts
from deniable.errors import ParameterError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.randomness import seeded_source
from toolkit.crowds import minute_query


def words(n: int) -> list[str]:
    return [f"w{i}" for i in range(n - 1)]


def chain_query(width: int, epsilon: float = 6.0, name: str = "OptimizedUnary") -> Query:
    """`width` labels now and `width` next, one of them `other` each."""
    columns = [Column(name, words(width), other=True, kind="text") for name in ("current", "next")]
    return minute_query(
        columns=columns, mechanism={"name": name, "epsilon": epsilon}, sql="SELECT a, b FROM t"
    )


def window_of(
    query: Query, indices: np.ndarray[tuple[int], np.dtype[np.intp]], seed: int = 1
) -> Window:
    reports = query.mechanism.draw(indices, seeded_source(seed))
    released = assemble(
        [query],
        0,
        {PaneKey(query.id, 1, 0, 0): Counts(query.mechanism.count(reports), len(reports))},
    )
    return Window.from_dict(json.loads(json.dumps(released.to_dict(), allow_nan=False)))


def test_a_released_window_becomes_a_table_and_a_conditional_one() -> None:
    query = chain_query(3)
    joint = np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.05], [0.05, 0.1, 0.1]])
    indices = np.random.default_rng(1).choice(9, 60_000, p=joint.reshape(-1)).astype(np.intp)
    window = window_of(query, indices)
    table = window.table()
    assert table.axes == ("current", "next")
    assert table.labels == (("w0", "w1", "other"), ("w0", "w1", "other"))
    assert np.abs(table.proportions - joint).max() < 0.02
    step = window.table(of="next", given="current")
    assert np.allclose(step.proportions.sum(axis=1), 1)
    expected = joint / joint.sum(axis=1, keepdims=True)
    assert np.all(np.abs(step.proportions - expected) < 5 * step.stderr)
    assert np.all(step.stderr < 0.05)
    [only] = window.chain()
    assert np.array_equal(only.proportions, step.proportions)
    assert window.table(of="next").axes == ("next",)
    assert "current" in str(step)


@pytest.mark.slow
def test_a_thousand_and_twenty_four_composite_buckets_make_a_table_after_transport() -> None:
    """32 x 32 labels; each conditional row's error is that of the delta method, checked by 10,240
    cells of 10 windows. Seed 2."""
    query = chain_query(32, epsilon=8.0)
    assert len(query.labels) == 1024
    rng = np.random.default_rng(2)
    joint = rng.dirichlet(np.ones(1024) * 5)
    steps = []
    for seed in range(10):
        indices = rng.choice(1024, 100_000, p=joint).astype(np.intp)
        steps.append(window_of(query, indices, seed).table(of="next", given="current"))
    shares = np.array([step.proportions for step in steps])
    truth = joint.reshape(32, 32) / joint.reshape(32, 32).sum(axis=1, keepdims=True)
    stated = np.mean([step.stderr for step in steps], axis=0)
    scatter = np.sqrt(np.mean((shares - truth) ** 2, axis=0))
    assert np.mean(scatter) == pytest.approx(np.mean(stated), rel=0.05)
    covered = np.mean(np.abs(shares - truth) <= 1.96 * np.array([step.stderr for step in steps]))
    assert 0.94 <= covered <= 0.96


def test_conditional_cells_with_too_few_answers_claim_no_95_percent() -> None:
    """At 20 answers a cell the delta method covers 93.7 %, so it is not called 95 %."""
    query = chain_query(32, epsilon=8.0)
    for n, narrow in ((20_000, True), (100_000, False)):
        indices = np.random.default_rng(3).choice(1024, n).astype(np.intp)
        table = window_of(query, indices, 1).table(of="next", given="current")
        assert ("intervals cover 95 %" not in str(table)) == narrow
        assert (
            "intervals cover somewhat less than 95 %: a cell has only about 20 answers"
            in str(table)
        ) == narrow


def test_what_makes_no_table_is_refused_with_the_reason() -> None:
    open_ended = minute_query(
        columns=[Column("x", ["a", "b"])], mechanism={"name": "OptimizedUnary", "epsilon": 2.0}
    )
    window = window_of(open_ended, np.zeros(100, dtype=np.intp))
    with pytest.raises(ParameterError, match="other = true"):
        window.table()
    complete = window_of(chain_query(3), np.zeros(100, dtype=np.intp))
    with pytest.raises(ParameterError):
        complete.table(of="next", given="nowhere")
    withheld = assemble([minute_query(minimum_cohort=50)], 0, {})
    with pytest.raises(ParameterError, match="has no estimate"):
        withheld.table()
