"""What making estimates consistent does to bias and squared error."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable import DirectEncoding, Estimate, OptimizedUnary
from deniable.estimation.consistency import smooth

Floats = NDArray[np.float64]
ZIPF = 1 / np.arange(1, 1025) ** 1.3
ZIPF /= ZIPF.sum()
TRIALS = 60


@functools.cache
def simulated(n: int = 100_000) -> list[Estimate]:
    """k = 1024 at epsilon 1, the largest share 0.284."""
    survey, rng = OptimizedUnary(1024, 1.0), np.random.default_rng(1)
    a, b = survey.channel()
    estimates = []
    for _ in range(TRIALS):
        having = rng.multinomial(n, ZIPF)
        estimates.append(
            survey.describe(
                survey.solve(rng.binomial(having, a) + rng.binomial(n - having, b), n), n, None
            )
        )
    return estimates


def squared_error(values: list[Floats]) -> float:
    return float(np.mean([((v - ZIPF) ** 2).sum() for v in values]))


def test_norm_sub_lowers_the_squared_error_tenfold_and_the_largest_share_by_little() -> None:
    raw = squared_error([e.proportions for e in simulated()])
    better = [e.consistent("norm-sub").proportions for e in simulated()]
    assert 9 < raw / squared_error(better) < 13
    bias = np.mean(better, axis=0) - ZIPF
    assert -0.012 < bias[0] < -0.004
    assert bias[512:].mean() > 0  # what is taken from the large shares ends up with the absent ones


def test_base_cut_keeps_large_shares_unbiased_and_drops_the_rest() -> None:
    cut = [e.consistent("base-cut").proportions for e in simulated()]
    assert squared_error([e.proportions for e in simulated()]) / squared_error(cut) > 11
    spread = simulated()[0].stderr[0] / np.sqrt(TRIALS)
    assert abs(np.mean(cut, axis=0)[0] - ZIPF[0]) < 4.5 * spread
    assert np.mean(cut, axis=0)[200:].max() < 0.001
    assert np.mean(cut, axis=0)[30:].sum() < 0.1 * ZIPF[30:].sum()


def test_base_cut_keeps_an_absent_label_as_rarely_as_it_says() -> None:
    survey, rng, n = OptimizedUnary(100, 1.0), np.random.default_rng(2), 2_000
    a, b = survey.channel()
    having = np.zeros(100, dtype=np.int64)
    having[0] = n
    wrong = 0
    for _ in range(2_000):
        counts = rng.binomial(having, a) + rng.binomial(n - having, b)
        kept = (
            survey.describe(survey.solve(counts, n), n, None)
            .consistent("base-cut", false_alarm=0.1)
            .proportions
        )
        wrong += bool(kept[1:].any())
    assert 0.07 < wrong / 2_000 < 0.13  # skewness moves it a little above the normal tail


def test_clipping_and_renormalising_ruins_the_largest_share() -> None:
    """Why it is not offered: the noise on a thousand absent labels, once cut to be positive, counts
    as people."""
    clipped = [
        np.maximum(e.proportions, 0) / np.maximum(e.proportions, 0).sum() for e in simulated()
    ]
    assert abs(np.mean(clipped, axis=0)[0] - 0.086) < 0.002
    assert squared_error(clipped) > squared_error([e.proportions for e in simulated()])
    reach = simulated()[0].plus_minus()[0]
    assert not any(abs(c[0] - ZIPF[0]) < reach for c in clipped)


def test_norm_is_unbiased_and_states_its_own_smaller_error() -> None:
    survey, shares, n, trials = OptimizedUnary(3, 1.0), np.array([0.2, 0.5, 0.3]), 500, 2_000
    rng = np.random.default_rng(3)
    a, b = survey.channel()
    before, after, stated = [], [], []
    for _ in range(trials):
        having = rng.multinomial(n, shares)
        estimate = survey.describe(
            survey.solve(rng.binomial(having, a) + rng.binomial(n - having, b), n), n, None
        )
        normed = estimate.consistent("norm")
        assert abs(normed.proportions.sum() - 1) < 1e-12
        before.append(estimate.proportions)
        after.append(normed.proportions)
        stated.append(normed.variance)
    spread = np.std(after, axis=0, ddof=1)
    np.testing.assert_array_less(
        np.abs(np.mean(after, axis=0) - shares), 4.5 * spread / np.sqrt(trials)
    )
    np.testing.assert_allclose(np.sqrt(np.mean(stated, axis=0)) / spread, 1, atol=0.05)
    assert np.all(spread < 0.9 * np.std(before, axis=0))


@pytest.mark.parametrize("method", ["norm-sub", "base-cut"])
def test_intervals_of_a_changed_estimate_still_cover(method: str) -> None:
    """They are those of the unbiased one, drawn out to the changed one."""
    covered = []
    for estimate in simulated():
        changed = estimate.consistent(method)
        low, high = changed.interval(method="normal").T
        assert np.all((low <= changed.proportions) & (changed.proportions <= high))
        covered.append(((low <= ZIPF) & (high >= ZIPF)).mean())
    assert np.mean(covered) > 0.945


def test_smoothing_helps_on_a_smooth_truth_and_stays_away_from_a_rough_one() -> None:
    rng, survey, n = np.random.default_rng(4), DirectEncoding(64, 2.0), 20_000
    gentle = np.exp(-0.5 * ((np.arange(64) - 25) / 9.0) ** 2) + 0.05
    rough = np.where(np.arange(64) % 2, 1.0, 0.02)
    channel = survey.channel()
    for truth, gain in ((gentle / gentle.sum(), 4.0), (rough / rough.sum(), 0.95)):
        raw, made = [], []
        for _ in range(100):
            estimate = survey.describe(
                survey.solve(rng.multinomial(n, channel @ truth), n), n, None
            )
            raw.append(((estimate.proportions - truth) ** 2).sum())
            made.append(((estimate.consistent("smooth").proportions - truth) ** 2).sum())
        assert np.mean(raw) / np.mean(made) > gain


def test_how_much_to_smooth_is_judged_by_an_unbiased_figure() -> None:
    """Mallows' C_p of m passes has the true squared error for expectation, up to what does not
    depend on m."""
    rng, survey, n, passes = np.random.default_rng(5), DirectEncoding(32, 2.0), 5_000, 6
    truth = np.linspace(1, 3, 32) / np.linspace(1, 3, 32).sum()
    matrix = np.array([smooth(row, passes) for row in np.eye(32)])
    gaps = []
    for _ in range(2_000):
        estimate = survey.describe(
            survey.solve(rng.multinomial(n, survey.channel() @ truth), n), n, None
        )
        assert estimate.covariance is not None
        made = smooth(estimate.proportions, passes)
        judged = ((made - estimate.proportions) ** 2).sum() + 2 * np.trace(
            matrix @ estimate.covariance
        )
        judged -= np.trace(estimate.covariance)
        gaps.append(judged - ((made - truth) ** 2).sum())
    assert abs(np.mean(gaps)) < 4.5 * np.std(gaps) / np.sqrt(2_000)
