"""What every mechanism promises of its estimates and its bytes, held by simulation with a stated
false-alarm rate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from deniable import Estimate, Mechanism, Reports, Tally, seeded_source
from deniable.errors import ReportFormatError
from toolkit.references.laws import FALSE_ALARM

Floats = NDArray[np.float64]


def simulate(
    mechanism: Mechanism, shares: Floats, n: int, trials: int, seed: int, **options: Any
) -> list[Estimate]:
    """Estimates from many crowds of n people, drawn from an infinite population with these
    shares."""
    people = np.random.default_rng(seed).choice(len(shares), size=trials * n, p=shares)
    return estimate_in_groups(mechanism, people, n, seed, **options)


def estimate_in_groups(
    mechanism: Mechanism, people: NDArray[np.int64], n: int, seed: int, **options: Any
) -> list[Estimate]:
    """One estimate for every n people in turn."""
    reports = mechanism.privatize(people, seeded_source(seed))
    return [
        mechanism.estimate(reports[start : start + n], **options)
        for start in range(0, people.size, n)
    ]


def assert_covariance_is(estimates: list[Estimate], theory: Floats) -> None:
    """Estimates scatter with the covariance `theory`, and state it.

    False alarms: each entry of the sample covariance is tested at 1e-9 over the number of entries,
    its spread being that of a normal sample, sqrt((V_ii V_jj + V_ij^2) / (trials - 1)). The mean of
    the stated ones is tested at the same level.
    """
    trials, k = len(estimates), len(theory)
    z = stats.norm.isf(FALSE_ALARM / k**2 / 2)
    sample = np.cov(np.array([e.proportions for e in estimates]), rowvar=False)
    diagonal = np.diagonal(theory)
    spread = np.sqrt((np.outer(diagonal, diagonal) + theory**2) / (trials - 1))
    np.testing.assert_array_less(np.abs(sample - theory), z * spread)
    stated = np.array([e.covariance for e in estimates])
    np.testing.assert_allclose(stated, stated.transpose(0, 2, 1), atol=1e-15)
    np.testing.assert_allclose(
        np.diagonal(stated, axis1=1, axis2=2), [e.variance for e in estimates], rtol=1e-12
    )
    error = z * stated.std(axis=0, ddof=1) / np.sqrt(trials)
    np.testing.assert_array_less(
        np.abs(stated.mean(axis=0) - theory), error + 1e-9 * diagonal.max()
    )


def assert_a_finite_population_narrows_the_error(
    mechanism: Mechanism, trials: int = 3_000, seed: int = 7
) -> None:
    """Asking half of a population, or all of it, leaves exactly the error that is stated for a
    population of that size.

    A z-test of each variance at 1e-9 / k, as in `assert_errors_are_as_stated`. Where all were
    asked, the variance for an infinite population must fail it.
    """
    rng = np.random.default_rng(seed)
    k = len(mechanism.labels)
    people = np.repeat(np.arange(k), [500, 300, *[200 // (k - 2)] * (k - 2)])
    shares = np.bincount(people, minlength=k) / people.size
    z = stats.norm.isf(FALSE_ALARM / k / 2) * np.sqrt(2 / trials)
    for n in (people.size // 2, people.size):
        sample = np.concatenate([rng.permutation(people)[:n] for _ in range(trials)])
        estimates = estimate_in_groups(mechanism, sample, n, seed + n, population=people.size)
        observed = np.mean([(e.proportions - shares) ** 2 for e in estimates], axis=0)
        stated = np.mean([e.variance for e in estimates], axis=0)
        np.testing.assert_array_less(np.abs(observed / stated - 1), z)
    infinite = stated + shares * (1 - shares) / people.size
    assert observed[0] / infinite[0] - 1 < -z, (
        "this test cannot tell a finite population from an infinite one"
    )


def assert_bytes_come_back(mechanism: Mechanism) -> None:
    """Reports and tallies are the same after a trip through bytes, and cut or padded bytes are
    refused."""
    labels = [mechanism.labels[i] for i in np.arange(300) % len(mechanism.labels)]
    reports = mechanism.privatize(labels, seeded_source(5))
    content = reports.to_bytes()
    back = Reports.from_bytes(content)
    assert back == reports
    assert back.mechanism == mechanism
    assert back.mechanism.epsilon == mechanism.epsilon
    tally = mechanism.tally().update(back[:100]).merge(mechanism.tally().update(back[100:]))
    assert tally == mechanism.tally().update(reports)
    assert Tally.from_bytes(tally.to_bytes()) == tally
    np.testing.assert_array_equal(
        mechanism.estimate(tally).proportions, mechanism.estimate(reports).proportions
    )
    for broken in (content[:-1], content + b"\0"):
        with pytest.raises(ReportFormatError, match="300 reports of"):
            Reports.from_bytes(broken)


def refuse_rows(mechanism: Mechanism, data: NDArray[Any], message: str) -> None:
    """Bytes with these rows are refused, for the reason given."""
    with pytest.raises(ReportFormatError, match=message):
        Reports.from_bytes(Reports(mechanism, data).to_bytes())
