"""Composite buckets: the mixed-radix index, and the way back to a table."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deniable import (
    DirectEncoding,
    Estimate,
    OptimizedUnary,
    Reports,
    composite,
    independence_test,
    joint,
    seeded_source,
    statistics,
)
from deniable.errors import (
    AnswerTypeError,
    MissingAnswerError,
    ParameterError,
    ReportMismatchError,
    UnknownLabelError,
)
from toolkit.tables import covariance

CHAIN = composite({"current": ["a", "b", "c"], "next": ["d", "e"]})


def test_buckets_are_numbered_as_in_lavengood() -> None:
    # 5.3.1: {a, b, c} and {d, e} make six buckets, and {b, e} is number 3.
    assert CHAIN.labels == [("a", "d"), ("a", "e"), ("b", "d"), ("b", "e"), ("c", "d"), ("c", "e")]
    assert len(CHAIN) == 6
    columns = {"current": ["b", "a", "c"], "next": ["e", "d", "d"]}
    assert CHAIN.index(columns).tolist() == [3, 0, 4]
    assert CHAIN.index(pd.DataFrame(columns)).tolist() == [3, 0, 4]


def test_every_combination_has_its_own_bucket_in_the_order_of_the_labels() -> None:
    three = composite({"x": 2, "y": ["p", "q", "r"], "z": 4})
    columns = dict(zip(three.axes, zip(*three.labels, strict=True), strict=True))
    assert three.index(columns).tolist() == list(range(24))


def test_tuples_and_numbers_are_the_same_answers() -> None:
    rows = {"current": ["a", "b", "c", "b"] * 500, "next": ["d", "e", "e", "d"] * 500}
    named, numbered = DirectEncoding(CHAIN.labels, 2.0), DirectEncoding(len(CHAIN), 2.0)
    tuples = list(zip(rows["current"], rows["next"], strict=True))
    one = named.privatize(tuples, seeded_source(1))
    other = numbered.privatize(CHAIN.index(rows), seeded_source(1))
    np.testing.assert_array_equal(one.data, other.data)
    # JSON turns tuples into lists: the labels must come back as tuples
    again = Reports.from_bytes(one.to_bytes())
    assert again == one
    np.testing.assert_array_equal(
        CHAIN.table(named.estimate(again)).proportions,
        CHAIN.table(numbered.estimate(other)).proportions,
    )


def test_an_estimate_of_buckets_becomes_a_table_with_its_covariance() -> None:
    mechanism = DirectEncoding(CHAIN.labels, 2.0)
    estimate = mechanism.estimate(
        mechanism.privatize(CHAIN.labels * 500, seeded_source(2)), population=5_000
    )
    table = CHAIN.table(estimate)
    assert (table.axes, table.labels) == (("current", "next"), (("a", "b", "c"), ("d", "e")))
    assert (table.n, table.population, table.epsilon) == (3_000, 5_000, mechanism.epsilon)
    np.testing.assert_allclose(table.proportions.reshape(-1), estimate.proportions, atol=1e-12)
    np.testing.assert_allclose(covariance(table), covariance(estimate), atol=1e-12)
    row = statistics.proportion(table, {"current": "b"})
    assert row.stderr == pytest.approx(math.sqrt(covariance(estimate)[2:4, 2:4].sum()))
    np.testing.assert_allclose(table.marginal("current").stderr[1], row.stderr)


@pytest.mark.parametrize("population", [None, 5_000])
@pytest.mark.parametrize("make", [DirectEncoding, OptimizedUnary], ids=lambda m: m.__name__)
def test_a_table_from_an_estimate_is_the_table_from_the_reports(
    make: type, population: int | None
) -> None:
    mechanism = make(len(CHAIN), 2.0)
    reports = mechanism.privatize(np.arange(4_000) % 5, seeded_source(3))
    first = CHAIN.table(mechanism.estimate(reports, population))
    second = CHAIN.table(joint({"bucket": mechanism}, {"bucket": reports}, population))
    np.testing.assert_allclose(first.proportions, second.proportions, atol=1e-12)
    # The Estimate of bits states its covariances by the model, the table by the reports themselves:
    # equal on average.
    close = 1e-12 if make is DirectEncoding else 0.05 * float(second.variance.max())
    np.testing.assert_allclose(covariance(first), covariance(second), atol=close)
    one, other = (statistics.mutual_information(table) for table in (first, second))
    assert one.value == pytest.approx(other.value)
    assert one.stderr == pytest.approx(other.stderr, rel=0.05)


def test_more_buckets_than_an_estimate_holds_covariances_for_go_by_way_of_joint() -> None:
    many = composite({"row": 40, "column": 40})
    mechanism = DirectEncoding(len(many), 6.0)
    reports = mechanism.privatize(np.arange(20_000) % 1_600, seeded_source(4))
    short = many.table(mechanism.estimate(reports))
    table = many.table(joint({"bucket": mechanism}, {"bucket": reports}))
    np.testing.assert_allclose(short.stderr, table.stderr, rtol=0.01)
    with pytest.raises(ParameterError, match="make the table with joint"):
        short.marginal("row").stderr  # noqa: B018 - the property computes
    # A row's share by direct encoding: (rate - 40 b)/(a - b), a binomial proportion of the reports
    # in that row.
    a, b = mechanism.channel()[0, :2]
    rate = np.bincount(reports.data // 40, minlength=40) / 20_000
    rows = table.marginal("row")
    np.testing.assert_allclose(rows.proportions, (rate - 40 * b) / (a - b), atol=1e-9)
    np.testing.assert_allclose(
        rows.stderr, np.sqrt(rate * (1 - rate) / 19_999) / (a - b), rtol=1e-9
    )
    assert (
        independence_test(
            rows.unfolded({"tens": tuple(range(4)), "ones": tuple(range(10))})
        ).degrees
        == 27
    )


def test_what_an_estimate_knows_of_its_privacy_and_time_stays_with_the_table() -> None:
    shares = Estimate(
        tuple(range(6)), np.full(6, 1 / 6), np.full(6, 0.01), 100, np.eye(6) / 100, epsilon=2.0
    )
    sampled: dict[str, Any] = {"sampled_epsilon": 0.7, "sampled_delta": 1e-6, "sampled_crowd": 5000}
    table = CHAIN.table(dataclasses.replace(shares, window=("Monday", "Tuesday"), **sampled))
    assert "epsilon 2 (sampled 0.7 in a crowd of 5,000, delta 1e-06) per person" in str(table)
    assert table.marginal("next").to_dict()["window"] == ["Monday", "Tuesday"]
    assert table.estimate().sampled_epsilon == 0.7


def test_bad_rows_are_refused_by_attribute_and_position_without_the_answer() -> None:
    with pytest.raises(
        UnknownLabelError, match=r"values\[1\] of 'next' is not one of the 2 labels"
    ) as caught:
        CHAIN.index({"current": ["a", "a"], "next": ["d", "secret"]})
    assert "secret" not in str(caught.value)
    with pytest.raises(MissingAnswerError, match=r"values\[0\] of 'current'"):
        CHAIN.index({"current": [None], "next": ["d"]})
    with pytest.raises(AnswerTypeError, match="of 'next' must have 1 rows"):
        CHAIN.index({"current": ["a"], "next": ["d", "e"]})
    with pytest.raises(ParameterError, match="must hold the attribute 'next'"):
        CHAIN.index({"current": ["a"]})


def test_other_estimates_and_too_few_or_too_many_attributes_are_refused() -> None:
    other = Estimate(tuple("abcdef"), np.full(6, 1 / 6), np.full(6, 0.01), 100)
    with pytest.raises(ReportMismatchError, match="not an estimate of these 6 buckets"):
        CHAIN.table(other)
    with pytest.raises(ParameterError, match="at least two attributes"):
        composite({"only": 3})
    with pytest.raises(ParameterError, match="buckets"):
        composite({"a": 10_000, "b": 10_000})
