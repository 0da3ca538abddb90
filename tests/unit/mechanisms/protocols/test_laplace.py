"""Laplace noise as a design matrix, against its exact law."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from scipy import stats

from deniable import LaplaceEncoding, Reports, Tally, seeded_source
from deniable.errors import OutOfDomainError, ParameterError, ReportMismatchError
from toolkit.references.laws import (
    assert_bulk_draws_follow_the_channel,
    assert_errors_are_as_stated,
    assert_private_and_unbiased,
    exact_laws,
)

SMALL = [
    LaplaceEncoding(2, 1.0),
    LaplaceEncoding(3, 0.01),
    LaplaceEncoding(5, 3.0),
    LaplaceEncoding(["low", "middle", "high", "top"], 1.0),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(mechanism: LaplaceEncoding) -> None:
    assert_private_and_unbiased(mechanism)


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_the_channel_states_what_is_drawn(mechanism: LaplaceEncoding) -> None:
    channel = mechanism.channel()
    for value, law in enumerate(exact_laws(mechanism)):
        np.testing.assert_allclose(
            [float(law[bytes([u])]) for u in range(len(law))], channel[:, value], rtol=1e-15
        )


@pytest.mark.parametrize(("k", "epsilon"), [(2, 1.0), (4, 0.3), (7, 5.0), (100, 2.0)])
def test_the_channel_is_rounded_laplace_noise(k: int, epsilon: float) -> None:
    noise = stats.laplace(scale=(k - 1) / epsilon)
    cuts = np.concatenate([[-np.inf], np.arange(k - 1) + 0.5, [np.inf]])
    expected = np.diff(noise.cdf(cuts[:, None] - np.arange(k)), axis=0)
    np.testing.assert_allclose(
        LaplaceEncoding(k, epsilon).channel(), expected, rtol=1e-9, atol=1e-14
    )


def test_two_values_are_kept_with_the_papers_diagonal() -> None:
    np.testing.assert_allclose(
        np.diagonal(LaplaceEncoding(2, 1.5).channel()), 1 - math.exp(-0.75) / 2, rtol=1e-15
    )


@pytest.mark.parametrize("k", [2, 3, 16, 200])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, math.log(3), 10.0])
def test_rounding_to_few_values_hides_as_much_as_the_formula_says(k: int, epsilon: float) -> None:
    mechanism = LaplaceEncoding(k, epsilon)
    ratio = math.exp(-epsilon / (2 * (k - 1)))
    assert mechanism.epsilon <= epsilon
    assert mechanism.epsilon == pytest.approx(epsilon + math.log1p(-((1 - ratio) ** 2)), rel=1e-9)


def test_the_largest_epsilon_is_not_exceeded_where_weights_are_single_units() -> None:
    assert LaplaceEncoding(512, 40.0).epsilon <= 40.0


def test_bulk_draws_follow_the_channel_and_no_other() -> None:
    assert_bulk_draws_follow_the_channel(lambda epsilon: LaplaceEncoding(5, epsilon), value=1)


def test_simulated_errors_are_the_stated_ones() -> None:
    mechanism = LaplaceEncoding(4, 3.0)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    matrix = mechanism.channel()
    lam = matrix @ shares
    inverse = np.linalg.inv(matrix)
    theory = dict(
        zip(
            shares,
            np.diagonal(inverse @ (np.diag(lam) - np.outer(lam, lam)) @ inverse.T),
            strict=True,
        )
    )
    assert_errors_are_as_stated(mechanism, theory.__getitem__, shares)


@pytest.mark.parametrize(("k", "seconds"), [(16, 0.05), (1024, 4.0)])
def test_it_is_built_without_a_fraction_for_every_entry(k: int, seconds: float) -> None:
    start = time.process_time()
    LaplaceEncoding(k, 1.0)
    assert time.process_time() - start < seconds


def test_reports_and_tallies_survive_their_bytes() -> None:
    mechanism = LaplaceEncoding(["a", "b", "c"], 2.0)
    reports = mechanism.privatize(["a", "c", "b", "b"], seeded_source(1))
    assert Reports.from_bytes(reports.to_bytes()) == reports
    tally = mechanism.tally().update(reports)
    assert Tally.from_bytes(tally.to_bytes()) == tally
    assert mechanism.report_labels(reports)[0] in {"a", "b", "c"}


def test_bad_input_is_refused() -> None:
    for epsilon in (0, -1.0, math.inf, math.nan):
        with pytest.raises(ParameterError, match="epsilon"):
            LaplaceEncoding(4, epsilon)
    with pytest.raises(ParameterError, match="values = 1"):
        LaplaceEncoding(1, 1.0)
    with pytest.raises(ParameterError, match="at most 4096"):
        LaplaceEncoding(5000, 1.0)
    with pytest.raises(ParameterError, match=r"epsilon = 1e-08 .* cannot be inverted"):
        LaplaceEncoding(300, 1e-8)
    with pytest.raises(OutOfDomainError):
        LaplaceEncoding(4, 1.0).privatize(4)
    with pytest.raises(ReportMismatchError):
        LaplaceEncoding(4, 1.0).estimate(LaplaceEncoding(4, 2.0).privatize([1]))
