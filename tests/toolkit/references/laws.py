"""The tests every mechanism has to pass: exact where that is possible, and with a stated
false-alarm rate where it is not."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import stats

from deniable import Mechanism, Reports, every_path, seeded_source
from deniable.mechanisms.exact import log_ratio

Law = dict[bytes, Fraction]

FALSE_ALARM = 1e-9


def exact_law(mechanism: Mechanism, value: Hashable) -> Law:
    """P(report | value) of every report, by walking every path of the draws."""
    law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for probability, data in every_path(lambda source: mechanism.privatize(value, source).data):
        law[data.tobytes()] += probability
    return dict(law)


def exact_laws(mechanism: Mechanism) -> list[Law]:
    return [exact_law(mechanism, label) for label in mechanism.labels]


def report_of(mechanism: Mechanism, row: bytes) -> Reports:
    dtype, shape = mechanism.layout
    return Reports(mechanism, np.frombuffer(row, dtype=dtype).reshape(1, *shape))


def assert_private_and_unbiased(mechanism: Mechanism) -> None:
    """Columns sum to 1, their largest ratio is exactly exp(epsilon), and the estimator's
    expectation is the truth."""
    laws = exact_laws(mechanism)
    outcomes = set().union(*laws)
    for law in laws:
        assert sum(law.values()) == 1
        assert set(law) == outcomes, "a report that some value excludes identifies the others"
    worst = max(
        Fraction(max(law[o] for law in laws), min(law[o] for law in laws)) for o in outcomes
    )
    assert log_ratio(worst) == mechanism.epsilon
    alone = {
        row: mechanism.solve(mechanism.count(report_of(mechanism, row).data), 1)[0]
        for row in outcomes
    }
    for index, law in enumerate(laws):
        expectation = np.zeros(len(mechanism.labels))
        for row, probability in law.items():
            expectation += float(probability) * alone[row]
        truth = np.eye(len(mechanism.labels))[index]
        np.testing.assert_allclose(expectation, truth, atol=1e-9)


def chi_square(observed: Counter[bytes], law: Law, n: int) -> float:
    """The p-value of the observed reports under the law; outcomes expected less than 5 times are
    taken together."""
    rows = sorted(law, key=lambda row: law[row])
    expected = np.array([float(law[row]) * n for row in rows])
    seen = np.array([observed.get(row, 0) for row in rows], dtype=float)
    if sum(observed.values()) != seen.sum():
        return 0.0  # something was drawn that the law excludes
    merged = int(np.searchsorted(np.cumsum(expected), 5)) + 1
    expected = np.concatenate([[expected[:merged].sum()], expected[merged:]])
    seen = np.concatenate([[seen[:merged].sum()], seen[merged:]])
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def assert_bulk_draws_follow_the_channel(
    make: Callable[[float], Mechanism],
    value: Hashable,
    epsilon: float = 1.0,
    n: int = 200_000,
    seed: int = 1,
) -> None:
    """The vectorised draws follow the exact law at `epsilon`; the same draws are rejected against
    0.8 and 1.2 times it."""
    mechanism = make(epsilon)
    reports = mechanism.privatize([value] * n, seeded_source(seed))
    observed = Counter(row.tobytes() for row in reports.data)
    assert chi_square(observed, exact_law(mechanism, value), n) > FALSE_ALARM
    for factor in (0.8, 1.2):
        assert chi_square(observed, exact_law(make(factor * epsilon), value), n) < FALSE_ALARM, (
            factor
        )


def assert_errors_are_as_stated(
    mechanism: Mechanism,
    variance: Callable[[Any], Any],
    shares: np.ndarray[Any, np.dtype[np.float64]],
    n: int = 2_000,
    trials: int = 2_000,
    seed: int = 1,
) -> None:
    """Over many simulated crowds the estimate is unbiased, and its variance is the formula's and
    the stated one.

    `variance(share)` is the formula for one proportion, times n, in an infinite population. False
    alarms: a z-test of each mean at 1e-9 / k, and of each variance at the same level (the spread of
    a sample variance is that of a normal sample).
    """
    source = seeded_source(seed)
    rng = np.random.default_rng(seed)
    k = len(mechanism.labels)
    values = rng.choice(k, size=(trials, n), p=shares)
    estimates = np.empty((trials, k))
    stated = np.empty((trials, k))
    for trial in range(trials):
        labels = (
            values[trial]
            if mechanism.domain.numbered
            else [mechanism.labels[i] for i in values[trial]]
        )
        unbiased: dict[str, Any] = (
            {"estimator": "inverse"} if hasattr(mechanism, "ESTIMATORS") else {}
        )
        estimate = (
            mechanism.tally().update(mechanism.privatize(labels, source)).estimate(**unbiased)
        )
        estimates[trial], stated[trial] = estimate.proportions, estimate.variance
    z = stats.norm.isf(FALSE_ALARM / k / 2)
    theory = np.array([variance(share) for share in shares]) / n
    np.testing.assert_array_less(
        np.abs(estimates.mean(axis=0) - shares), z * np.sqrt(theory / trials)
    )
    ratio = estimates.var(axis=0, ddof=1) / theory
    np.testing.assert_array_less(np.abs(ratio - 1), z * np.sqrt(2 / (trials - 1)))
    np.testing.assert_allclose(stated.mean(axis=0), theory, rtol=0.02)
