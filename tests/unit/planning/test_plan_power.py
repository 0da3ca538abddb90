"""Power analysis: the stated power comes out of simulated tests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from deniable import BinaryResponse, DesignMatrix, DirectEncoding, Mechanism, OptimizedUnary, plan
from deniable.errors import InfeasiblePlanError, ParameterError, PlanError
from deniable.planning import ProportionVariance, detectable_difference, two_group_sample_size
from toolkit.references.laws import FALSE_ALARM

TRIALS = 20_000
MECHANISMS: list[Mechanism] = [
    BinaryResponse.from_epsilon(1.0),
    BinaryResponse(0.6, 0.2),
    OptimizedUnary(6, 2.0),
    DirectEncoding(4, 1.5),
]


def rejections(
    mechanism: Mechanism, proportion: float, other: float, n: int, significance: float
) -> float:
    """How often a two-sided z-test with the pooled rate finds a difference between two groups of
    `n` reports."""
    support = mechanism.support()
    assert support is not None
    a, b = float(support[0][-1]), float(support[1][-1])
    rng = np.random.default_rng(1)
    rates = [rng.binomial(n, b + (a - b) * f, TRIALS) / n for f in (proportion, other)]
    pooled = (rates[0] + rates[1]) / 2
    z = (rates[0] - rates[1]) / np.sqrt(2 * pooled * (1 - pooled) / n)
    return float((np.abs(z) > stats.norm.isf(significance / 2)).mean())


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize(("power", "significance"), [(0.8, 0.05), (0.95, 0.01)])
def test_that_many_reports_have_the_stated_power(
    mechanism: Mechanism, power: float, significance: float
) -> None:
    n = two_group_sample_size(mechanism, 0.10, 0.16, power, significance)
    slack = float(stats.norm.isf(FALSE_ALARM / 2)) * math.sqrt(power * (1 - power) / TRIALS)
    assert (
        abs(rejections(mechanism, 0.10, 0.16, n, significance) - power) < slack + 0.005
    )  # the formula is a normal approximation
    assert rejections(mechanism, 0.10, 0.16, int(0.8 * n), significance) < power - 0.02


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_the_detectable_difference_is_the_inverse_of_the_sample_size(mechanism: Mechanism) -> None:
    for n in (2_000, 50_000):
        difference = detectable_difference(mechanism, 0.2, n)
        assert two_group_sample_size(mechanism, 0.2, 0.2 + difference) == pytest.approx(n, abs=1)
    assert detectable_difference(mechanism, 0.2, 50_000) < detectable_difference(
        mechanism, 0.2, 2_000
    )


def test_truthful_answers_need_the_textbooks_number() -> None:
    # Two proportions 0.1 and 0.2, power 80 %, level 5 %: 199 in each group without a correction for
    # continuity.
    assert two_group_sample_size(BinaryResponse.from_epsilon(30.0), 0.1, 0.2) == 199


def test_a_plan_tells_what_two_halves_of_its_population_must_differ_by() -> None:
    made = plan(population=100_000, sampled_epsilon=0.7, cv=0.05)
    assert made.detectable_difference is not None
    needed = two_group_sample_size(
        made.mechanism, made.proportion, made.proportion + made.detectable_difference
    )
    assert 2 * needed / made.sampling == pytest.approx(100_000, rel=1e-3)


def test_too_few_reports_for_any_difference_are_refused_with_the_number_that_is_enough() -> None:
    mechanism = BinaryResponse.from_epsilon(0.1)
    with pytest.raises(InfeasiblePlanError) as caught:
        detectable_difference(mechanism, 0.5, 20)
    enough = int(caught.value.nearest["n"])
    assert detectable_difference(mechanism, 0.5, enough) == pytest.approx(0.5, abs=1e-3)


def test_nonsense_is_refused() -> None:
    mechanism = BinaryResponse(0.5, 0.5)
    for proportion, other in ((0.0, 0.5), (0.5, 1.0), (0.5, 0.5)):
        with pytest.raises(ParameterError):
            two_group_sample_size(mechanism, proportion, other)
    with pytest.raises(ParameterError, match="n = 0 must be a whole number"):
        detectable_difference(mechanism, 0.5, 0)
    with pytest.raises(ParameterError, match=r"power = 1\.0 must lie strictly between 0 and 1"):
        two_group_sample_size(mechanism, 0.1, 0.2, power=1.0)
    with pytest.raises(PlanError, match="DesignMatrix does not report supported labels"):
        ProportionVariance.of(DesignMatrix([[0.7, 0.2, 0.25], [0.2, 0.6, 0.25], [0.1, 0.2, 0.5]]))
