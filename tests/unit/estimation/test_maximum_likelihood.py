from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import deniable
from deniable import Mechanism, maximum_likelihood, seeded_source
from toolkit.references.laws import exact_laws

SMALL: list[Mechanism] = [
    deniable.OptimizedUnary(3, 1.0),
    deniable.SubsetSelection(4, 1.0),
    deniable.HadamardResponse(3, 1.0),
    deniable.DirectEncoding(["a", "b", "c"], 1.0),
    deniable.BinaryResponse(0.3, 0.6),
    deniable.BasicRappor(3, 0.3, 0.4, 0.8),
]


def crowd(mechanism: Mechanism, n: int = 400) -> deniable.Reports:
    k = len(mechanism.labels)
    values = np.random.default_rng(k).choice(k, n, p=[0.8, *[0.2 / (k - 1)] * (k - 1)])
    return mechanism.privatize([mechanism.labels[v] for v in values], seeded_source(3))


@pytest.mark.parametrize("mechanism", SMALL, ids=lambda m: type(m).__name__)
def test_no_other_distribution_makes_the_reports_likelier(mechanism: Mechanism) -> None:
    reports = crowd(mechanism)
    laws = exact_laws(mechanism)
    table = np.array([[float(law[row.tobytes()]) for law in laws] for row in reports.data])

    def loss(free: Any) -> float:
        shares = np.append(free, 1 - free.sum())
        return -float(np.log(np.maximum(table @ shares, 1e-300)).sum())

    k = len(laws)
    inside: Any = {"type": "ineq", "fun": lambda free: 1 - free.sum()}
    best = minimize(
        loss, np.full(k - 1, 1 / k), bounds=[(0, 1)] * (k - 1), constraints=inside, method="SLSQP"
    )
    found = maximum_likelihood(mechanism, reports)
    assert found.proportions.min() >= 0
    assert found.proportions.sum() == pytest.approx(1)
    # the fit promises to be within 1e-3 of the maximum
    assert loss(found.proportions[:-1]) <= best.fun + 2e-3


def test_local_hashing_is_fitted_by_what_each_report_supports() -> None:
    mechanism = deniable.LocalHashing(5, 2.0)
    values = np.random.default_rng(1).choice(5, 5000, p=[0.5, 0.3, 0.2, 0.0, 0.0])
    found = maximum_likelihood(
        mechanism, mechanism.privatize(values, seeded_source(4)), population=5000
    )
    truth = np.bincount(values, minlength=5) / 5000
    assert (np.abs(found.proportions - truth) < 5 * found.stderr).all()


def test_the_interval_stays_that_of_the_unbiased_estimate_and_the_notes_say_so() -> None:
    mechanism = deniable.OptimizedUnary(4, 1.0)
    reports = crowd(mechanism)
    found, unbiased = maximum_likelihood(mechanism, reports), mechanism.estimate(reports)
    assert found.unbiased is not None
    assert found.unbiased.tolist() == unbiased.proportions.tolist()
    assert found.stderr.tolist() == unbiased.stderr.tolist()
    low, high = found.interval().T
    assert (low <= unbiased.interval()[:, 0]).all()
    assert (high >= unbiased.interval()[:, 1]).all()
    assert "biased" in found.notes[-1]
    assert "smoothing" in maximum_likelihood(mechanism, reports, smooth=True).notes[-1]


def test_it_errs_less_than_the_unbiased_estimate_where_shares_are_small() -> None:
    mechanism = deniable.OptimizedUnary(16, 1.0)
    truth = np.array([0.7, 0.3, *[0.0] * 14])
    ours = theirs = 0.0
    for seed in range(20):
        reports = mechanism.privatize(np.repeat([0, 1], [1400, 600]), seeded_source(seed))
        ours += ((maximum_likelihood(mechanism, reports).proportions - truth) ** 2).sum()
        theirs += ((mechanism.estimate(reports).proportions - truth) ** 2).sum()
    assert ours < 0.7 * theirs


def test_a_matrix_estimated_by_em_keeps_its_honest_interval() -> None:
    wave = deniable.SquareWave(1.0, 8)
    reports = wave.privatize(np.linspace(0, 1, 500), seeded_source(1))
    fitted, unbiased = wave.estimate(reports, estimator="em"), wave.estimate(reports)
    low, high = fitted.interval().T
    assert (low <= unbiased.interval()[:, 0]).all()
    assert (high >= unbiased.interval()[:, 1]).all()
    assert maximum_likelihood(wave, reports).proportions == pytest.approx(
        fitted.proportions, abs=1e-3
    )
