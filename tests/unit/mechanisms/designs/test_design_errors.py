"""The error of a survey design never rises with the epsilon that its randomizer spends, nor that of
an estimator that stays between 0 and 1."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deniable import (
    Crosswise,
    ForcedResponse,
    Kuk,
    Mangat,
    SquareWave,
    Tally,
    Triangular,
    UnrelatedQuestion,
    Warner,
)

FAMILIES: dict[str, Callable[[float], Any]] = {
    "Warner": Warner,
    "Crosswise": lambda p: Crosswise(1 - p),
    "Mangat": Mangat,
    "Triangular": lambda p: Triangular(1 - p),
    "ForcedResponse": lambda p: ForcedResponse(p, (1 - p) / 2),
    "UnrelatedQuestion, 25 %": lambda p: UnrelatedQuestion(p, 0.25),
    "UnrelatedQuestion, 70 %": lambda p: UnrelatedQuestion(p, 0.7),
    "Kuk": lambda p: Kuk(p, 1 - p),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_the_exact_variance_of_a_design_falls_as_its_randomizer_tells_more(name: str) -> None:
    """At every prevalence. No epsilon is finite where "no" is never a lie (Mangat, triangular)."""
    epsilons, variances = [], []
    for p in np.linspace(0.52, 0.97, 46):
        design = FAMILIES[name](float(p))
        at = np.array([float(design.rates(pi)[1]) for pi in np.linspace(0, 1, 51)])
        epsilons.append(float(design.epsilon))
        variances.append(at * (1 - at) / (at[-1] - at[0]) ** 2)
    rising = all(low < high for low, high in itertools.pairwise(epsilons))
    assert rising or np.isinf(epsilons).all()
    inside = np.array(variances)[:, 1:-1]
    assert (inside[1:] < inside[:-1]).all()


@pytest.mark.parametrize("estimator", ["em", "ems"])
@pytest.mark.parametrize("spiky", [False, True], ids=["smooth", "spiky"])
def test_the_error_of_a_likely_distribution_does_not_rise_with_epsilon(
    estimator: str, spiky: bool
) -> None:
    """40 crowds of 5,000 people at each epsilon; four standard errors of the difference of means."""
    k, n, places = 16, 5_000, np.arange(16)
    truth = np.eye(k)[1] + 1 / k if spiky else np.exp(-(((places - 6) / 4) ** 2))
    truth /= truth.sum()
    found = []
    for epsilon in (0.5, 1.0, 2.0, 4.0, 6.0):
        wave = SquareWave(epsilon, k)
        crowds = np.random.default_rng(7).multinomial(n, wave.channel() @ truth, 40)
        errors = [
            ((Tally(wave, c, n).estimate(estimator=estimator).proportions - truth) ** 2).sum()
            for c in crowds
        ]
        found.append((np.mean(errors), np.std(errors, ddof=1) / np.sqrt(len(crowds))))
    for (before, spread), (after, other) in itertools.pairwise(found):
        assert after - before <= 4 * np.hypot(spread, other)
    assert found[-1][0] < found[0][0] / 2  # and it does fall
