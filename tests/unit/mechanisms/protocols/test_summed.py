"""The summed histogram: noise from an explicit table, against its exact law."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from deniable import Reports, SummedHistogram, Tally, seeded_source
from deniable.errors import OutOfDomainError, ParameterError, ReportFormatError, ReportMismatchError
from deniable.mechanisms.exact import log_ratio
from deniable.randomness import ONE
from toolkit.references.laws import (
    FALSE_ALARM,
    assert_bulk_draws_follow_the_channel,
    assert_errors_are_as_stated,
    assert_private_and_unbiased,
    exact_laws,
)

# Few levels, so that every path can be walked; the drawing is the same.
SMALL = [
    SummedHistogram(2, 1.0, levels=8),
    SummedHistogram(3, 0.1, levels=6),
    SummedHistogram(["a", "b"], 5.0, levels=13),
    SummedHistogram(4, 2.0, levels=2),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(mechanism: SummedHistogram) -> None:
    assert_private_and_unbiased(mechanism)


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_the_channel_states_what_is_drawn(mechanism: SummedHistogram) -> None:
    channel = mechanism.channel()
    for value, law in enumerate(exact_laws(mechanism)):
        assert len(law) == mechanism.levels ** len(mechanism.labels)
        for row, probability in law.items():
            factors = [
                (channel.one if i == value else channel.zero)[level] for i, level in enumerate(row)
            ]
            assert math.isclose(probability, math.prod(factors), rel_tol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, math.log(3), 2.0, 10.0, 30.0])
def test_an_entry_loses_half_of_epsilon_at_every_level(epsilon: float) -> None:
    mechanism = SummedHistogram(5, epsilon)
    zero, one = (law.weights for law in mechanism._laws)
    assert sum(zero) == sum(one) == ONE
    ratios = [Fraction(x, y) for x, y in zip(one, zero, strict=True)]
    worst = max(*ratios, 1 / min(ratios))
    assert log_ratio(worst) <= epsilon / 2
    assert mechanism.epsilon == log_ratio(worst**2) <= epsilon
    assert mechanism.epsilon > epsilon * (1 - 1e-5)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_the_levels_are_cells_of_laplace_noise(epsilon: float) -> None:
    mechanism = SummedHistogram(5, epsilon)
    scale = 2 / epsilon
    edges = np.linspace(-12 * scale, 1 + 12 * scale, 257)
    edges[0], edges[-1] = -np.inf, np.inf
    channel = mechanism.channel()
    np.testing.assert_allclose(
        channel.zero, np.diff(stats.laplace(0, scale).cdf(edges)), rtol=1e-7, atol=1e-15
    )
    np.testing.assert_allclose(
        channel.one, np.diff(stats.laplace(1, scale).cdf(edges)), rtol=1e-7, atol=1e-15
    )


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 40.0])
def test_the_variance_is_that_of_continuous_noise_within_what_is_stated(epsilon: float) -> None:
    assert SummedHistogram(5, epsilon).noise_variance == pytest.approx(8 / epsilon**2, rel=0.0013)


def test_bulk_draws_follow_the_table_and_no_other() -> None:
    assert_bulk_draws_follow_the_channel(
        lambda epsilon: SummedHistogram(2, epsilon, levels=16), value=1
    )


def test_bulk_draws_of_all_levels_follow_the_table() -> None:
    # Chi-square of one entry 0 and one entry 1 over the usual 256 levels; rejected against 0.8 and
    # 1.2 times epsilon.
    n = 400_000
    drawn = SummedHistogram(2, 1.0).privatize(np.zeros(n, dtype=int), seeded_source(2)).data

    def p_value(column: int, law: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
        seen = np.bincount(drawn[:, column], minlength=256)
        common = law * n >= 5
        observed, expected = (np.append(x[common], x[~common].sum()) for x in (seen, law * n))
        return float(
            stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), expected.size - 1)
        )

    for factor in (1.0, 0.8, 1.2):
        # The grid scales with the noise, so only where 0 and 1 lie on it tells one epsilon from
        # another.
        channel = SummedHistogram(2, factor).channel()
        fits = [p_value(0, channel.one) > FALSE_ALARM, p_value(1, channel.zero) > FALSE_ALARM]
        assert fits == [factor == 1.0] * 2


@pytest.mark.slow
def test_simulated_errors_are_the_stated_ones() -> None:
    mechanism = SummedHistogram(4, 1.0)
    assert_errors_are_as_stated(
        mechanism,
        lambda f: mechanism.noise_variance + f * (1 - f),
        np.array([0.5, 0.3, 0.15, 0.05]),
    )


def test_counts_are_column_sums_however_many_rows_there_are() -> None:
    mechanism = SummedHistogram(3, 1.0)
    data = np.full((70_001, 3), 255, dtype=np.uint8)
    data[:, 1] = np.arange(70_001) % 256
    assert mechanism.count(data).tolist() == [
        255 * 70_001,
        int(data[:, 1].sum(dtype=np.int64)),
        255 * 70_001,
    ]
    assert mechanism.count(data[:5]).tolist() == [1275, 10, 1275]


def test_a_cell_takes_a_few_nanoseconds() -> None:
    # 2 to 4 ns on one core of a plain server; the bound leaves room for a slow or busy one.
    mechanism, values = SummedHistogram(128, 1.0), np.arange(40_000) % 128
    source = seeded_source(1)
    mechanism.privatize(values, source)
    start = time.process_time()
    mechanism.privatize(values, source)
    assert (time.process_time() - start) / (40_000 * 128) < 25e-9


def test_reports_and_tallies_survive_their_bytes() -> None:
    mechanism = SummedHistogram(["a", "b", "c"], 2.0)
    reports = mechanism.privatize(["a", "c", "b", "b"], seeded_source(1))
    assert reports.data.shape == (4, 3)
    assert Reports.from_bytes(reports.to_bytes()) == reports
    tally = mechanism.tally().update(reports)
    assert Tally.from_bytes(tally.to_bytes()) == tally
    halves = mechanism.tally().update(reports[:2]).merge(mechanism.tally().update(reports[2:]))
    np.testing.assert_array_equal(
        halves.estimate().proportions, mechanism.estimate(reports).proportions
    )


def test_bad_input_is_refused() -> None:
    for epsilon in (0, -1.0, math.inf, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            SummedHistogram(4, epsilon)
    for levels in (1, 257, 8.0, True):
        with pytest.raises(ParameterError, match="levels"):
            SummedHistogram(4, 1.0, levels=levels)  # type: ignore[arg-type]
    with pytest.raises(OutOfDomainError):
        SummedHistogram(4, 1.0).privatize(4)
    with pytest.raises(ReportMismatchError):
        SummedHistogram(4, 1.0).estimate(SummedHistogram(4, 2.0).privatize([1]))
    few = SummedHistogram(2, 1.0, levels=8)
    forged = Reports(few, np.array([[0, 8]], dtype=np.uint8)).to_bytes()
    with pytest.raises(ReportFormatError, match="outside 0 to 7"):
        Reports.from_bytes(forged)
