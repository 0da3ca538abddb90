"""Derived statistics: gradients against numerical ones, hand-made values, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from deniable import (
    DirectEncoding,
    Estimate,
    Mechanism,
    OptimizedUnary,
    Statistic,
    Table,
    independence_test,
    joint,
    seeded_source,
    statistics,
)
from deniable.errors import ParameterError
from deniable.estimation.interval_laws import QuadraticLaw
from deniable.estimation.simplex import ascending
from toolkit.tables import Crowds, Floats

MECHANISMS: dict[str, Mechanism] = {
    "a": DirectEncoding([0, 1, 5], 2.0),
    "b": OptimizedUnary([2, 3], 2.0),
    "c": DirectEncoding(["u", "v"], 2.0),
}
TRUTH = np.einsum(
    "i,ij,ijk->ijk", [0.5, 0.3, 0.2], [[0.7, 0.3], [0.5, 0.5], [0.2, 0.8]], np.full((3, 2, 2), 0.5)
)
TRUTH[:, 0, 0] *= 1.3
TRUTH /= TRUTH.sum()
TABLE = Crowds(MECHANISMS, TRUTH, 200_000, seed=3).tables(1)[0]


@pytest.mark.parametrize(
    "derive",
    [
        statistics.entropy,
        lambda t: statistics.entropy(t, "a", base=math.e),
        lambda t: statistics.mean(t, "a"),
        lambda t: statistics.mean(t, "c", scores=[-1, 4]),
        lambda t: statistics.variance(t, "a"),
        lambda t: statistics.mutual_information(t, "a", "b"),
        lambda t: statistics.mutual_information(t, "b", ("c", "a")),
        lambda t: statistics.g_square(t, ("a", "c"), "b", size=500),
        lambda t: statistics.phi_square(t, "a", ("b", "c")),
        lambda t: statistics.chi_square(t, "a", "b", size=500),
        lambda t: statistics.correlation(t, "a", "b", scores={"b": [0, 3]}),
        lambda t: statistics.proportion(t, {"a": [0, 5], "c": "u"}),
        lambda t: statistics.difference(t, {"a": 0}, {"b": 3, "c": "v"}),
        lambda t: statistics.ratio(t, {"a": 0}, {"b": 3, "c": "v"}),
    ],
)
def test_the_stated_error_is_that_of_the_numerical_gradient(
    derive: Callable[[Table], Statistic],
) -> None:
    def value(shares: Floats) -> float:
        # the statistics take the sum for 1, the gradient must not see it move
        p = shares.reshape(-1) / shares.sum()
        flat = Estimate(tuple(range(12)), p, np.ones(12), 200_000, np.eye(12))
        return derive(
            Table.of(flat).unfolded(dict(zip(TABLE.axes, TABLE.labels, strict=True)))
        ).value

    numerical = statistics.derived(TABLE, value, "numerical")
    found = derive(TABLE)
    assert found.value == pytest.approx(numerical.value, rel=1e-9)
    assert found.stderr == pytest.approx(numerical.stderr, rel=1e-4)


def test_cramers_v_is_the_root_of_phi_square_less_what_noise_alone_makes_it() -> None:
    phi, v = statistics.phi_square(TABLE, "a", "b"), statistics.cramers_v(TABLE, "a", "b")
    assert isinstance(v.law, QuadraticLaw)
    p = TABLE.marginal("a", "b").proportions
    r, c = p.sum(axis=1), p.sum(axis=0)

    def gaps(shares: Floats) -> Floats:
        return (shares - np.outer(shares.sum(axis=1), shares.sum(axis=0))) / np.sqrt(np.outer(r, c))

    # tr S, from the covariance of the gaps by numerical differentiation.
    step = 1e-6 * np.eye(6).reshape(6, 3, 2)
    gradients = np.array([(gaps(p + move) - gaps(p - move)).reshape(-1) / 2e-6 for move in step]).T
    trace = np.trace(TABLE.marginal("a", "b").covariance_of(gradients.reshape(6, 3, 2)))
    assert v.law.trace == pytest.approx(trace, rel=1e-6)
    assert v.value**2 == pytest.approx(phi.value - trace, rel=1e-6)
    assert v.interval()[0] < v.value < v.interval()[1]


def test_a_statistic_prints_and_gives_intervals() -> None:
    statistic = Statistic("mean of age", 41.25, 0.5, n=10_000, notes=("a remark",))
    assert (
        str(statistic)
        == "mean of age: 41.250, 40.270 to 42.230 (95 %, from 10,000 reports)\na remark"
    )
    assert statistic.interval(0.9) == pytest.approx((41.25 - 0.8224268, 41.25 + 0.8224268))
    assert float(statistic) == 41.25
    assert statistic.to_dict()["high"] == pytest.approx(42.22998)
    with pytest.raises(ParameterError, match="confidence = 1"):
        statistic.interval(1)


def estimate(shares: list[float], labels: tuple[object, ...] | None = None) -> Estimate:
    p = np.array(shares)
    covariance = (np.diag(np.abs(p)) - np.outer(p, p)) / 1000
    return Estimate(labels or tuple(range(len(p))), p, np.diag(covariance).copy(), 1000, covariance)


def test_statistics_take_an_estimate_as_well() -> None:
    uniform = estimate([0.25] * 4)
    assert statistics.entropy(uniform).value == pytest.approx(2)
    assert statistics.mean(uniform).value == pytest.approx(1.5)
    assert statistics.mean(uniform).stderr == pytest.approx(math.sqrt(1.25 / 1000))
    assert statistics.variance(uniform).value == pytest.approx(1.25)
    assert statistics.quantile(uniform).value == 1
    assert statistics.quantile(uniform, evenly=True).value == pytest.approx(1.5)
    assert statistics.quantile(uniform, 0.25, edges=[0, 10, 20, 30, 100]).value == pytest.approx(10)
    assert statistics.quantile(uniform, 0.9, edges=[0, 10, 20, 30, 100]).value == pytest.approx(
        30 + 70 * 0.6
    )
    assert statistics.quantile(estimate([0.6, 0.4]), 0.3).value == 0.0
    assert statistics.quantile(estimate([0.6, 0.4]), 0.3, scores=[2.5, 7.5]).interval() == (
        2.5,
        2.5,
    )
    assert statistics.quantile(uniform, 0.3, edges=[0, 10, 20, 30, 100]).interval() == (10, 20)
    assert statistics.quantile(estimate([0.5, 0.5], (1.0, 3.0)), 0.3).interval() == (0, 2)
    # of 0, 1 and 2, 3
    assert statistics.quantile(estimate([0.5, 0.5], (0.5, 2.5)), 0.3).interval() == (0, 1)
    assert statistics.difference(
        estimate([0.6, 0.4], ("yes", "no")), "yes", "no"
    ).stderr == pytest.approx(math.sqrt((0.6 * 0.4 + 0.4 * 0.6 + 2 * 0.6 * 0.4) / 1000))


def test_negative_shares_are_projected_where_the_statistic_needs_it_and_said_so() -> None:
    below = estimate([0.8, 0.5, -0.3])
    projected = statistics.entropy(below)
    assert projected.value == pytest.approx(-(0.65 * math.log2(0.65) + 0.35 * math.log2(0.35)))
    assert "projected onto the simplex" in projected.notes[0]
    assert statistics.mean(below).notes == ()
    assert statistics.mean(below).value == pytest.approx(0.5 - 0.6)
    # would be -0.31
    assert statistics.variance(estimate([0.7, 0.5, -0.2])).notes[0].startswith("projected")
    assert statistics.variance(estimate([0.5, 0.52, -0.02])).notes == ()
    falling = statistics.quantile(estimate([0.3, 0.4, -0.1, 0.4]), 0.475, evenly=True)
    assert falling.value == pytest.approx(1.0)  # F = 0.3, 0.7, 0.6 becomes 0.3, 0.65, 0.65
    assert "does not fall" in falling.notes[0]


def test_the_nearest_sequence_that_never_falls_is_nearest() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        values = rng.normal(size=7)
        found = ascending(values)
        assert np.all(np.diff(found) >= 0)
        for _ in range(50):
            other = np.sort(found + 0.1 * rng.normal(size=7))
            assert ((found - values) ** 2).sum() <= ((other - values) ** 2).sum() + 1e-12


def test_what_has_no_meaning_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"use given\(...\)"):
        statistics.entropy(TABLE.select(a=1))
    with pytest.raises(ParameterError, match=r"use given\(...\)"):
        statistics.mean(TABLE.conditional("b", given="a"), "b")
    with pytest.raises(ParameterError, match="labels of 'c' are not numbers"):
        statistics.mean(TABLE, "c")
    with pytest.raises(ParameterError, match="3 finite numbers"):
        statistics.mean(TABLE, "a", scores=[1, 2])
    with pytest.raises(ParameterError, match="must ascend"):
        statistics.quantile(TABLE, axis="a", scores=[3, 2, 1])
    with pytest.raises(ParameterError, match="must ascend"):
        statistics.quantile(TABLE, axis="a", edges=[3, 2, 1, 0])
    with pytest.raises(ParameterError, match="3 finite numbers"):
        statistics.quantile(TABLE, axis="a", edges=[0, 1, 2])
    with pytest.raises(ParameterError, match="level = 1"):
        statistics.quantile(TABLE, 1, axis="a")
    with pytest.raises(ParameterError, match="axis = None must be one of a, b, c"):
        statistics.mean(TABLE)
    with pytest.raises(ParameterError, match="which are rows"):
        statistics.chi_square(TABLE)
    with pytest.raises(ParameterError, match="none twice"):
        statistics.chi_square(TABLE, "a", ("a", "b"))
    with pytest.raises(ParameterError, match="between two attributes"):
        statistics.correlation(TABLE, "a", ("b", "c"))  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="event = 'u' must be a mapping"):
        statistics.proportion(TABLE, "u")
    with pytest.raises(ParameterError, match="must be positive to divide by"):
        statistics.ratio(estimate([0.8, 0.5, -0.3]), 0, 2)
    with pytest.raises(ParameterError, match="base = 1"):
        statistics.entropy(TABLE, base=1)


def test_a_test_on_bits_is_the_test_on_the_outcomes_they_make() -> None:
    bits: dict[str, Mechanism] = {"a": OptimizedUnary(3, 2.0), "b": OptimizedUnary(2, 1.0)}
    values = np.arange(2_000)
    reports = {
        "a": bits["a"].privatize(values % 3, seeded_source(1)),
        "b": bits["b"].privatize(values % 2, seeded_source(2)),
    }
    counts = np.zeros((8, 4), dtype=np.int64)
    np.add.at(counts, (reports["a"].data[:, 0], reports["b"].data[:, 0]), 1)
    expected = independence_test(Crowds(bits, np.full((3, 2), 1 / 6), 2_000, seed=1).table(counts))
    found = independence_test(joint(bits, reports))
    assert (found.method, found.degrees) == ("score", 2)
    assert found.statistic == pytest.approx(expected.statistic, rel=1e-9)
    assert "independence of a and b: chi-square" in str(found)
    assert "(2 degrees of freedom)" in str(found)


def test_too_few_reports_for_a_test_are_refused() -> None:
    mechanism = DirectEncoding(8, 1.0)
    few = mechanism.privatize([0, 1, 2], seeded_source(1))
    with pytest.raises(ParameterError, match="3 reports are too few"):
        independence_test(joint({"a": mechanism, "b": mechanism}, {"a": few, "b": few}))
