"""Maximum likelihood: monotone, converged, a distribution; and its estimators on the mechanisms
that offer them."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize, stats

from deniable import DesignMatrix, DirectEncoding, LaplaceEncoding, SquareWave, seeded_source
from deniable.errors import NoReportsError, ParameterError
from deniable.estimation.em import em, fit, log_likelihood, observed_covariance, smooth_steps, steps
from toolkit.references.laws import FALSE_ALARM

Floats = NDArray[np.float64]

MATRICES: dict[str, Floats] = {
    "direct": DirectEncoding(6, 1.0).channel(),
    "laplace": LaplaceEncoding(8, 1.0).channel(),
    "wave": SquareWave(1.0, 8).channel(),
    "wide wave": SquareWave(0.5, 24).channel(),
}


def counts_of(matrix: Floats, n: int, seed: int = 1) -> NDArray[np.int64]:
    """Reports of a lopsided population: enough noise for the inverse to leave the simplex."""
    k = matrix.shape[1]
    truth = np.arange(k, 0, -1) ** 3.0
    return np.random.default_rng(seed).multinomial(n, matrix @ (truth / truth.sum()))


@pytest.fixture(params=list(MATRICES), ids=list(MATRICES))
def matrix(request: pytest.FixtureRequest) -> Floats:
    return MATRICES[request.param]


@pytest.mark.parametrize("n", [50, 5_000, 500_000])
def test_the_log_likelihood_never_falls(matrix: Floats, n: int) -> None:
    counts = counts_of(matrix, n)
    path = [
        log_likelihood(counts, matrix, proportions)
        for proportions, _ in islice(steps(counts, matrix), 90)
    ]
    rounding = 1e-13 * abs(path[-1])
    assert np.diff(path).min() > -rounding
    assert path[-1] > path[0]


@pytest.mark.parametrize("n", [50, 5_000, 500_000])
def test_the_bound_on_what_is_left_to_gain_holds_at_every_step(matrix: Floats, n: int) -> None:
    counts = counts_of(matrix, n)
    best = fit(counts, matrix, tolerance=1e-7)
    assert best.shortfall <= 1e-7
    highest = log_likelihood(counts, matrix, best.proportions)
    for proportions, shortfall in islice(steps(counts, matrix), 70):
        assert highest - log_likelihood(counts, matrix, proportions) <= shortfall + 1e-7


@pytest.mark.parametrize("smooth", [False, True])
@pytest.mark.parametrize("n", [50, 500_000])
def test_the_result_is_a_distribution(matrix: Floats, n: int, smooth: bool) -> None:
    proportions = em(counts_of(matrix, n), matrix, smooth=smooth)
    assert proportions.min() >= 0
    assert proportions.sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("n", [50, 5_000])
def test_it_is_the_maximum_that_a_constrained_optimiser_finds(matrix: Floats, n: int) -> None:
    counts = counts_of(matrix, n)
    k = matrix.shape[1]
    minimize: Any = optimize.minimize  # its stubs want one exact overload
    found = minimize(
        lambda x: -log_likelihood(counts, matrix, x) / n,
        np.full(k, 1 / k),
        jac=lambda x: -matrix.T @ (counts / (matrix @ x)) / n,
        method="SLSQP",
        bounds=[(0, 1)] * k,
        constraints=optimize.LinearConstraint(np.ones(k), 1, 1),
        options={"ftol": 1e-15, "maxiter": 2000},
    )
    ours = em(counts, matrix, tolerance=1e-7)
    direct = found.x / found.x.sum()
    # Neither beats the other by more than either's own precision.
    assert log_likelihood(counts, matrix, ours) == pytest.approx(
        log_likelihood(counts, matrix, direct), abs=1e-5
    )
    if n == 5_000 and k <= 8:
        np.testing.assert_allclose(ours, direct, atol=2e-3)


def test_inside_the_simplex_it_is_the_inverse() -> None:
    matrix = MATRICES["direct"]
    counts = np.rint(1_000_000 * matrix @ np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])).astype(np.int64)
    inverse = np.linalg.solve(matrix, counts / counts.sum())
    np.testing.assert_allclose(em(counts, matrix, tolerance=1e-9), inverse, atol=1e-6)


def test_smoothing_ends_at_its_fixed_point() -> None:
    matrix = MATRICES["wide wave"]
    counts = counts_of(matrix, 5_000)
    settled = em(counts, matrix, smooth=True)
    stepped = settled * (matrix.T @ (counts / counts.sum() / (matrix @ settled)))
    padded = np.concatenate([stepped[:1], stepped, stepped[-1:]])
    smoothed = (padded[:-2] + 2 * padded[1:-1] + padded[2:]) / 4
    np.testing.assert_allclose(smoothed, settled, atol=1e-7)


def test_a_smoothed_step_keeps_all_mass() -> None:
    counts = counts_of(MATRICES["wave"], 500)
    for proportions, _ in islice(smooth_steps(counts, MATRICES["wave"]), 30):
        assert proportions.sum() == pytest.approx(1, abs=1e-12)


def test_reports_that_never_occurred_do_no_harm() -> None:
    matrix = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    np.testing.assert_allclose(em(np.array([100, 0, 0]), matrix), [1, 0, 0], atol=1e-3)


@pytest.mark.parametrize("n", [1, 3, 10**12])
@pytest.mark.parametrize("smooth", [False, True])
def test_one_report_or_a_trillion_can_be_fitted_as_far_as_doubles_go(
    matrix: Floats, n: int, smooth: bool
) -> None:
    counts = counts_of(matrix, n)
    found = fit(counts, matrix, smooth=smooth, tolerance=1e-9)
    assert np.all(np.isfinite(found.proportions))
    if not smooth:
        assert found.shortfall <= max(1e-9, 1e-13 * n)


def test_too_few_iterations_are_told_by_the_shortfall() -> None:
    matrix = MATRICES["laplace"]
    hurried = fit(counts_of(matrix, 5_000), matrix, max_iterations=3)
    assert hurried.iterations == 3
    assert hurried.shortfall > 1e-3


@pytest.mark.slow
def test_the_observed_information_gives_the_spread_of_the_estimate() -> None:
    # Inside the simplex, where it applies: simulated and stated covariances agree within what 2,000
    # trials can tell.
    matrix = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.2, 0.7]])
    truth, n, trials = np.array([0.3, 0.4, 0.3]), 20_000, 2_000
    drawn = np.random.default_rng(5).multinomial(n, matrix @ truth, size=trials)
    estimates = np.array([em(counts, matrix, tolerance=1e-6) for counts in drawn])
    stated = observed_covariance(np.rint(n * matrix @ truth), matrix, truth)
    ratio = estimates.var(axis=0, ddof=1) / np.diagonal(stated)
    np.testing.assert_array_less(
        np.abs(ratio - 1), stats.norm.isf(FALSE_ALARM / 6) * np.sqrt(2 / (trials - 1))
    )
    np.testing.assert_allclose(stated.sum(axis=0), 0, atol=1e-15)


def test_on_the_edge_there_is_no_such_covariance() -> None:
    matrix = MATRICES["direct"]
    with pytest.raises(ParameterError, match="at the edge"):
        observed_covariance(counts_of(matrix, 100), matrix, np.array([1.0, 0, 0, 0, 0, 0]))


@pytest.mark.parametrize(
    ("counts", "options", "error", "match"),
    [
        (np.zeros(2), {}, NoReportsError, "no reports"),
        (np.ones(3), {}, ParameterError, "counts"),
        (np.array([1.0, -1.0]), {}, ParameterError, "counts"),
        (np.array([1.0, np.nan]), {}, ParameterError, "counts"),
        (np.ones(2), {"tolerance": 0.0}, ParameterError, "tolerance"),
        (np.ones(2), {"max_iterations": 0}, ParameterError, "max_iterations"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    counts: Floats, options: dict[str, float], error: type, match: str
) -> None:
    with pytest.raises(error, match=match):
        em(counts, np.array([[0.8, 0.3], [0.2, 0.7]]), **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("estimator", ["em", "ems"])
def test_a_matrix_offers_it_and_says_what_it_did_to_bias(estimator: str) -> None:
    mechanism = DesignMatrix(DirectEncoding(4, 0.5).channel())
    reports = mechanism.privatize([0] * 90 + [3] * 10, seeded_source(1))
    plain = mechanism.estimate(reports)
    fitted = mechanism.estimate(reports, estimator=estimator)
    np.testing.assert_array_equal(
        fitted.proportions,
        em(np.bincount(reports.data, minlength=4), mechanism.channel(), smooth=estimator == "ems"),
    )
    assert "biased" in fitted.notes[0]
    assert "intervals are those of the unbiased estimate" in str(fitted)
    np.testing.assert_array_equal(fitted.variance, plain.variance)
    assert not plain.notes
    via_tally = mechanism.tally().update(reports).estimate(population=1000, estimator=estimator)
    np.testing.assert_array_equal(via_tally.proportions, fitted.proportions)
    assert np.all(via_tally.variance <= plain.variance)


def test_an_unknown_estimator_is_refused_by_name() -> None:
    mechanism = DesignMatrix(DirectEncoding(4, 0.5).channel())
    with pytest.raises(
        ParameterError, match=r"estimator = 'paper' must be one of 'inverse', 'em', 'ems'"
    ):
        mechanism.estimate(mechanism.privatize([0, 1]), estimator="paper")
