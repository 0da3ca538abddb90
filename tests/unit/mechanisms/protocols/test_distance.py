"""The distance-sensitive protocol: the thesis's kernel, its estimator, and the kernel that spends
the whole epsilon."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable import DirectEncoding, DistanceSensitive, Reports, SquareWave, Tally, seeded_source
from deniable.errors import OutOfDomainError, ParameterError, ReportFormatError, ReportMismatchError
from deniable.estimation.em import em
from toolkit.references.laws import (
    assert_bulk_draws_follow_the_channel,
    assert_errors_are_as_stated,
    assert_private_and_unbiased,
    exact_laws,
)

Floats = NDArray[np.float64]

SMALL = [
    DistanceSensitive(2, 0.7),
    DistanceSensitive(6, 1.0),
    DistanceSensitive(7, math.log(6)),
    DistanceSensitive(4, 2.6),
    DistanceSensitive(["cold", "cool", "warm", "hot"], 1.9),
    DistanceSensitive(2, 0.3, kernel="full"),
    DistanceSensitive(6, 1.0, kernel="full"),
    DistanceSensitive(["cold", "cool", "warm", "hot"], 3.0, kernel="full"),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(mechanism: DistanceSensitive) -> None:
    assert_private_and_unbiased(mechanism)


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_the_channel_states_what_is_drawn(mechanism: DistanceSensitive) -> None:
    channel = mechanism.channel()
    for value, law in enumerate(exact_laws(mechanism)):
        np.testing.assert_allclose(
            [float(law[bytes([u])]) for u in range(len(law))], channel[:, value], rtol=1e-15
        )


def thesis_kernel(k: int, theta: int) -> Floats:
    """4.6.5 and 4.6.6, entry by entry."""
    alpha = theta * (theta + 1) / (3 * theta**2 - theta + k - 1)
    far = alpha / (theta * (theta + 1))
    matrix = np.empty((k, k))
    for x in range(k):
        outside = [abs(i - x) for i in range(x - theta, x + theta + 1) if not 0 <= i < k]
        m = sum(alpha / (c * (c + 1)) - far for c in outside)
        for i in range(k):
            c = min(theta, abs(i - x))
            matrix[i, x] = alpha if i == x else alpha / (c * (c + 1)) + m / (k - 1)
    return matrix


@pytest.mark.parametrize(
    ("k", "epsilon", "theta"),
    [(89, math.log(20), 4), (30, 1.8, 2), (6, 1.0, 1), (4, 2.6, 3), (9, 4.2, 7)],
)
def test_the_kernel_is_the_thesiss(k: int, epsilon: float, theta: int) -> None:
    mechanism = DistanceSensitive(k, epsilon)
    assert mechanism.theta == theta
    np.testing.assert_allclose(mechanism.channel(), thesis_kernel(k, theta), rtol=1e-13)


@pytest.mark.parametrize("theta", [1, 2, 4, 9])
def test_the_thesiss_epsilon_is_a_staircase_that_its_own_steps_reach(theta: int) -> None:
    step = math.log(theta * (theta + 1))
    for asked in (step, step + 1e-3, math.log((theta + 1) * (theta + 2)) - 1e-6):
        mechanism = DistanceSensitive(60, asked)
        assert mechanism.theta == theta
        assert mechanism.epsilon <= asked
        assert mechanism.epsilon == pytest.approx(step, abs=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, math.log(2), 1.0, 2.0, 3.7, 10.0])
@pytest.mark.parametrize("k", [2, 16, 100])
def test_the_full_kernel_spends_the_whole_epsilon(k: int, epsilon: float) -> None:
    assert epsilon - 1e-6 < DistanceSensitive(k, epsilon, kernel="full").epsilon <= epsilon


@pytest.mark.parametrize("kernel", ["thesis", "full"])
def test_bulk_draws_follow_the_channel_and_no_other(kernel: str) -> None:
    # 2.6 and 0.8 and 1.2 times it lie on three steps of the thesis's staircase.
    factor = {"thesis": 2.6, "full": 1.0}[kernel]
    assert_bulk_draws_follow_the_channel(
        lambda epsilon: DistanceSensitive(8, factor * epsilon, kernel=kernel), value=1
    )


@pytest.mark.parametrize("kernel", ["thesis", "full"])
def test_simulated_errors_are_the_stated_ones(kernel: str) -> None:
    mechanism = DistanceSensitive(4, 2.0, kernel=kernel)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    matrix = mechanism.channel()
    lam = matrix @ shares
    weights = np.diag(1 / matrix.mean(axis=1))
    inverse = np.linalg.inv(matrix.T @ weights @ matrix) @ matrix.T @ weights
    theory = dict(
        zip(
            shares,
            np.diagonal(inverse @ (np.diag(lam) - np.outer(lam, lam)) @ inverse.T),
            strict=True,
        )
    )
    assert_errors_are_as_stated(mechanism, theory.__getitem__, shares)


def test_the_papers_estimator_is_the_papers_and_is_biased() -> None:
    mechanism = DistanceSensitive(20, 2.0)
    theta, k = 2, 20
    alpha = theta * (theta + 1) / (3 * theta**2 - theta + k - 1)
    near, far = alpha * (1 + 2 * (1 / 2 + 1 / 6)), alpha / 6
    reports = mechanism.privatize([5] * 40_000, seeded_source(1))
    estimate = mechanism.estimate(reports, estimator="paper")
    np.testing.assert_allclose(
        estimate.proportions,
        (np.bincount(reports.data, minlength=20) / 40_000 - far) / (near - far),
    )
    assert "biased" in estimate.notes[0]
    # Everybody holds value 5, and the paper's figure for it stays far below 1, however many report.
    assert estimate.proportions[5] + 20 * estimate.stderr[5] < 1
    unbiased = mechanism.estimate(reports, estimator="inverse")
    assert abs(unbiased.proportions[5] - 1) < 6 * unbiased.stderr[5]


def test_only_the_thesiss_kernel_has_the_papers_estimator() -> None:
    mechanism = DistanceSensitive(20, 2.0, kernel="full")
    with pytest.raises(
        ParameterError, match=r"estimator = 'paper' must be one of 'inverse', 'em', 'ems'$"
    ):
        mechanism.estimate(mechanism.privatize([5]), estimator="paper")


def kantorovich(one: Floats, other: Floats) -> float:
    return float(np.abs(np.cumsum(one - other)).sum()) / one.size


def populations(k: int) -> list[Floats]:
    x = (np.arange(k) + 0.5) / k
    two_humps = 10 * np.exp(-((x - 0.25) ** 2) / 0.0072) + 4 * np.exp(-((x - 0.7) ** 2) / 0.02)
    spikes = np.full(k, 0.3 / k)
    spikes[[k // 10, k // 3, 4 * k // 5]] += [0.2, 0.3, 0.2]
    return [shape / shape.sum() for shape in (x**4 * (1 - x), two_humps, np.exp(-6 * x), spikes)]


def mean_error(channel: Floats, n: int, smooth: bool, trials: int = 12) -> float:
    rng = np.random.default_rng(1)
    errors = [
        kantorovich(em(rng.multinomial(n, channel @ truth), channel, smooth=smooth), truth)
        for truth in populations(channel.shape[1])
        for _ in range(trials)
    ]
    return float(np.mean(errors))


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "share"), [(1.0, 0.35), (2.0, 0.6)])
@pytest.mark.parametrize("smooth", [False, True])
def test_the_full_kernel_errs_far_less_than_the_thesiss(
    epsilon: float, share: float, smooth: bool
) -> None:
    full, thesis = (
        mean_error(DistanceSensitive(64, epsilon, kernel=kernel).channel(), 10_000, smooth)
        for kernel in ("full", "thesis")
    )
    assert full < share * thesis


@pytest.mark.parametrize("smooth", [False, True])
def test_the_full_kernel_errs_less_than_the_square_wave(smooth: bool) -> None:
    full = mean_error(DistanceSensitive(64, 1.0, kernel="full").channel(), 10_000, smooth)
    wave = mean_error(SquareWave(1.0, 64).channel(), 10_000, smooth)
    assert full < wave


def test_the_default_estimator_does_not_lose_to_direct_encoding_at_few_reports() -> None:
    """k = 20, epsilon 2, 500 reports of four populations, 12 trials each; the inverse, the former
    default, is the control."""
    rng = np.random.default_rng(4)
    ordered, direct = DistanceSensitive(20, 2.0, kernel="full"), DirectEncoding(20, 2.0)
    errors: dict[str, list[float]] = {"default": [], "inverse": [], "direct": []}
    for truth in populations(20):
        for _ in range(12):
            tally = Tally(ordered, rng.multinomial(500, ordered.channel() @ truth), 500)
            errors["default"].append(kantorovich(tally.estimate().proportions, truth))
            errors["inverse"].append(
                kantorovich(tally.estimate(estimator="inverse").proportions, truth)
            )
            other = Tally(direct, rng.multinomial(500, direct.channel() @ truth), 500)
            errors["direct"].append(kantorovich(other.estimate().proportions, truth))
    mean = {name: float(np.mean(values)) for name, values in errors.items()}
    assert mean["default"] < 0.75 * mean["direct"]
    assert mean["default"] < 0.75 * mean["inverse"]
    notes = ordered.estimate(ordered.privatize([3] * 50)).notes
    assert "maximum likelihood (EM)" in notes[0]
    assert "intervals are those of the unbiased estimate" in notes[0]


@pytest.mark.parametrize("kernel", ["thesis", "full"])
def test_reports_and_tallies_survive_their_bytes(kernel: str) -> None:
    mechanism = DistanceSensitive(["a", "b", "c", "d"], 2.0, kernel=kernel)
    reports = mechanism.privatize(["a", "d", "b", "b"], seeded_source(1))
    assert Reports.from_bytes(reports.to_bytes()) == reports
    tally = mechanism.tally().update(reports)
    assert Tally.from_bytes(tally.to_bytes()) == tally


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="must be at least ln 2"):
        DistanceSensitive(10, 0.69)
    with pytest.raises(ParameterError, match="theta = 4, which must be below k = 4"):
        DistanceSensitive(4, 3.0)
    with pytest.raises(ParameterError, match="kernel = 'best' must be one of 'thesis', 'full'"):
        DistanceSensitive(10, 1.0, kernel="best")
    for epsilon in (0, -1.0, math.inf, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            DistanceSensitive(10, epsilon, kernel="full")
    with pytest.raises(OutOfDomainError):
        DistanceSensitive(10, 1.0).privatize(10)
    with pytest.raises(ReportMismatchError):
        DistanceSensitive(10, 1.0).estimate(
            DistanceSensitive(10, 1.0, kernel="full").privatize([1])
        )
    mechanism = DistanceSensitive(10, 1.0)
    forged = Reports(mechanism, np.array([10], dtype=np.uint8)).to_bytes()
    with pytest.raises(ReportFormatError):
        Reports.from_bytes(forged)
