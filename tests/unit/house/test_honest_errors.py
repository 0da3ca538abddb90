"""Errors that are never 0 while coins are random, and reports that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import deniable
from deniable import (
    DirectEncoding,
    HadamardResponse,
    LaplaceEncoding,
    LocalHashing,
    Mechanism,
    OptimizedUnary,
    PiecewiseMean,
    SquareWave,
    SubsetSelection,
    SummedHistogram,
    SymmetricUnary,
    Tally,
    fit_test,
    joint,
    seeded_source,
)

# The case that failed: 100 reports of 11 buckets, most of them empty, at a large epsilon.
N, BUCKETS, EPSILON = 100, 11, 4.0
SHARES = np.array([0.5, 0.3, 0.1, 0.05, 0.05, *[0.0] * 6])
MAKERS: list[Callable[[], Mechanism]] = [
    lambda: OptimizedUnary(BUCKETS, EPSILON),
    lambda: SymmetricUnary(BUCKETS, EPSILON),
    lambda: DirectEncoding(BUCKETS, EPSILON),
    lambda: SubsetSelection(BUCKETS, EPSILON),
    lambda: HadamardResponse(BUCKETS, EPSILON),
    lambda: LocalHashing(BUCKETS, EPSILON),
    lambda: SummedHistogram(BUCKETS, EPSILON),
    lambda: LaplaceEncoding(BUCKETS, EPSILON),
    lambda: SquareWave(EPSILON, BUCKETS),
    lambda: PiecewiseMean(EPSILON, points=BUCKETS),
]


def crowds(mechanism: Mechanism) -> list[Any]:
    rng = np.random.default_rng(1)
    values = rng.choice(BUCKETS, (25, N), p=SHARES)
    return [
        mechanism.privatize([mechanism.labels[i] for i in row], seeded_source(seed))
        for seed, row in enumerate(values.tolist())
    ]


@pytest.mark.parametrize("share", ["even", "one label", "Zipf"])
def test_the_covariance_of_direct_encoding_is_proper_without_a_factorisation(
    share: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A factorisation of 256 labels took 16 ms on one thread and up to 2.9 s on two that were busy."""

    def refuse(*_: object) -> None:
        raise AssertionError("the linear algebra library was asked")

    mechanism = DirectEncoding(256, 2.0)
    truth = {"even": np.ones(256), "one label": np.eye(256)[0], "Zipf": 1 / np.arange(1.0, 257)}
    rates = mechanism.channel() @ truth[share] / truth[share].sum()
    counts = np.random.default_rng(3).multinomial(20_000, rates)
    with monkeypatch.context() as patched:
        for name in ("cholesky", "eigh", "eigvalsh"):
            patched.setattr(np.linalg, name, refuse)
        covariance = Tally(mechanism, counts, 20_000).estimate().covariance
    assert covariance is not None
    eigenvalues = np.linalg.eigvalsh(covariance)
    assert eigenvalues[0] > -1e-9 * eigenvalues[-1]


@pytest.mark.parametrize("population", [None, N, 4 * N])
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
def test_no_error_is_0_no_interval_a_point_and_no_eigenvalue_negative(
    make: Callable[[], Mechanism], population: int | None
) -> None:
    mechanism = make()
    for reports in crowds(mechanism):
        estimate = mechanism.estimate(reports, population=population)
        assert (estimate.plus_minus() > 0.005).all()
        assert "± 0.00" not in str(estimate)
        assert min(estimate.to_dict()["stderr"]) > 0.002
        low, high = estimate.interval().T
        assert (high - low > 0.0005).all()
        assert estimate.covariance is not None
        eigenvalues = np.linalg.eigvalsh(estimate.covariance)
        assert eigenvalues[0] > -1e-9 * eigenvalues[-1]
        np.testing.assert_allclose(np.diagonal(estimate.covariance), estimate.variance, rtol=1e-9)


@pytest.mark.parametrize("population", [None, N])
def test_tables_have_no_error_of_0_either(population: int | None) -> None:
    mechanism = DirectEncoding(BUCKETS, EPSILON)
    for reports in crowds(mechanism):
        table = joint({"bucket": mechanism}, {"bucket": reports}, population=population)
        assert (table.stderr > 0.002).all()
        assert table.covariance is not None
        eigenvalues = np.linalg.eigvalsh(table.covariance)
        assert eigenvalues[0] > -1e-9 * eigenvalues[-1]
        single = np.zeros((1, BUCKETS))
        single[0, -1] = 1
        assert table.covariance_of(single)[0, 0] > 0


@pytest.mark.parametrize("population", [None, 100, 150])
def test_nearly_truthful_bits_of_people_who_say_yes_to_all_have_a_proper_covariance(
    population: int | None,
) -> None:
    """Shares of 90 and 60 %: -pi_u pi_v/n beside such small variances is no covariance that two
    numbers can have."""
    mechanism = deniable.UnaryEncoding(["a", "b"], a=0.999, b=0.001)
    estimate = Tally(mechanism, np.array([90, 60]), 100).estimate(population=population)
    assert estimate.covariance is not None
    eigenvalues = np.linalg.eigvalsh(estimate.covariance)
    assert eigenvalues[0] > -1e-9 * eigenvalues[-1]
    np.testing.assert_allclose(np.diagonal(estimate.covariance), estimate.variance, rtol=1e-9)
    correlation = estimate.covariance[0, 1] / np.sqrt(estimate.variance.prod())
    assert -1 - 1e-9 <= correlation < (-0.5 if population is None else 0.5)


@pytest.mark.parametrize("count", [0, 5])
def test_a_tiny_cohort_is_not_certain(count: int) -> None:
    """Five answers that all say the same: a window printed -6.67 % ± 0.00."""
    mechanism = deniable.UnaryEncoding(["a", "b"], a=0.75, b=0.05)
    estimate = Tally(mechanism, np.array([count, 5]), 5).estimate(population=20)
    assert (estimate.stderr > 0.01).all()
    assert "± 0.00" not in str(estimate)


def test_the_error_of_a_label_that_nobody_reported_is_of_the_size_the_coins_have() -> None:
    mechanism = OptimizedUnary(BUCKETS, EPSILON)
    a, b = mechanism.channel()
    counts = np.array([50, 30, *[2] * 8, 0])
    found = Tally(mechanism, counts, N).estimate()
    coins = np.sqrt(b * (1 - b) / ((a - b) ** 2 * N))
    assert 0.6 * coins < found.stderr[-1] < 1.1 * coins


# --- reports that cannot be


def test_answers_that_were_never_randomized_are_said_not_to_fit() -> None:
    survey = deniable.BinaryResponse(p=0.5, q=0.5)
    plain = survey.estimate([0] * 930 + [1] * 70)
    assert plain.proportions[0] > 1.3
    assert "THESE REPORTS DO NOT FIT THE MECHANISM" in str(plain)
    assert "Were they randomized" in plain.to_dict()["notes"][0]
    wave = SquareWave(1.0, 16)
    spikes = np.zeros(wave.n_outputs, dtype=np.int64)
    spikes[[3, 12]] = 500
    assert "DO NOT FIT" in str(Tally(wave, spikes, 1_000).estimate())


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: type(make()).__name__)
def test_reports_that_fit_are_not_called_misfits(make: Callable[[], Mechanism]) -> None:
    """Everybody holds one value, so that shares lie outside 0 to 1 most: 75 crowds at a false-alarm
    rate of 1e-5 each."""
    mechanism = make()
    for n in (5, 100, 2_000):
        for seed in range(25):
            reports = mechanism.privatize([mechanism.labels[0]] * n, seeded_source(seed))
            assert mechanism.estimate(reports).notes == ()


@pytest.mark.slow
def test_the_test_of_fit_rejects_no_more_often_than_it_says() -> None:
    """1,000 crowds of one value: the p-value is an upper bound, so at most 5 % lie below 0.05, and
    one standard error more."""
    for mechanism in (DirectEncoding(4, 1.0), deniable.Kuk(0.8, 0.3, draws=4)):
        rng = np.random.default_rng(6)
        matrix = mechanism.channel()
        counts = rng.multinomial(300, matrix[:, 0], 1_000)
        values = np.array(
            [fit_test(mechanism, Tally(mechanism, row, 300)).p_value for row in counts]
        )
        assert (values < 0.05).mean() <= 0.05 + 0.007


def test_the_test_of_fit_finds_what_no_share_shows() -> None:
    """Half count no card, half five: shares in between, and no deck that does it."""
    cards = deniable.Kuk(0.8, 0.3, draws=5)
    tally = cards.counted([300, 0, 0, 0, 0, 300])
    assert 0 < tally.estimate().proportions[1] < 1
    found = fit_test(cards, tally)
    assert found.p_value < 1e-12
    assert "do not fit the mechanism: likelihood ratio" in str(found)
    good = fit_test(cards, cards.privatize(["yes", "no"] * 300, seeded_source(1)))
    assert good.p_value > 0.01
    assert "reports fit the mechanism" in str(good)
