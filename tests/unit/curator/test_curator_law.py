"""The law of a curator's noise: exact figures, and reaches and limits that follow from it."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from deniable.curator.error_laws import BracketError, LinearError, RootError, VarianceError
from deniable.curator.law import DiscreteLaplace, choice_shortfall, proportion_limits, sum_reach
from deniable.curator.noise import LaplaceNoise, NoisyChoice
from deniable.curator.numeric_questions import Mean, Sum
from deniable.curator.protection import Protection
from deniable.curator.questions import Count
from deniable.errors import ParameterError

# Computed independently from P(x) = (1 - alpha)/(1 + alpha) alpha^|x|, with 14 digits.
EXACT = [
    # query, noise, bins; alpha, variance, expected absolute error, t95, P(> t95), expected largest
    # over the bins
    (
        LaplaceNoise(Protection("add-remove").of_sum(0, 1), Fraction(1, 2)),
        1,
        (0.60653065971263, 7.8353961780655, 1.9190347513349, 6, 0.037593286178205, 1.9190347513349),
    ),
    (
        Sum("x", (0, 10), step=1).noise(Protection("add-remove"), Fraction(1)),
        1,
        (
            0.90483741803596,
            199.83341663361,
            9.9833527572961,
            30,
            0.047299787338289,
            9.9833527572961,
        ),
    ),
    (
        LaplaceNoise(Protection("add-remove").of_vector(1), Fraction(1)),
        8,
        (
            0.36787944117144,
            1.8413471884156,
            0.85091812823932,
            3,
            0.026779609865397,
            2.5970713262316,
        ),
    ),
    (
        Mean("x", (0, 100), step=1).noise(Protection("replace-one", size=200), Fraction(2)),
        1,
        (
            0.98019867330676,
            4999.8333366666,
            49.996666822216,
            150,
            0.049289214279211,
            49.996666822216,
        ),
    ),
]


@pytest.mark.parametrize(
    ("noise", "bins", "figures"), EXACT, ids=["count", "sum", "histogram", "mean"]
)
def test_the_noise_of_counts_sums_histograms_and_means_has_the_exact_law(
    noise: LaplaceNoise, bins: int, figures: tuple[float, ...]
) -> None:
    alpha, variance, absolute, reach, beyond, largest = figures
    law = noise.law
    assert law.alpha == pytest.approx(alpha, rel=1e-13)
    assert law.variance == pytest.approx(variance, rel=1e-13)
    assert law.mean_absolute == pytest.approx(absolute, rel=1e-13)
    assert law.reach(0.95) == reach
    assert law.tail(int(reach)) == pytest.approx(beyond, rel=1e-13)
    assert law.expected_largest(bins) == pytest.approx(largest, rel=1e-13)


def test_a_mean_with_a_public_size_has_the_variance_of_the_sum_over_n_squared() -> None:
    mean, protection = Mean("x", (0, 100), step=1), Protection("replace-one", size=200)
    seen = mean.foresee(mean.noise(protection, Fraction(2)), protection, None)
    assert seen.error.stderr**2 == pytest.approx(0.124995833, abs=5e-10)


@pytest.mark.parametrize("scale", [0.1, 0.5, 1.0, 3.7, 50.0])
def test_moments_tails_and_reaches_agree_with_the_summed_probabilities(scale: float) -> None:
    law = DiscreteLaplace(scale, unit=0.25)
    x = np.arange(-3000, 3001)
    p = (1 - law.alpha) / (1 + law.alpha) * law.alpha ** np.abs(x)
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert law.variance == pytest.approx((p * (0.25 * x) ** 2).sum(), rel=1e-10)
    assert law.mean_absolute == pytest.approx((p * np.abs(0.25 * x)).sum(), rel=1e-10)
    for confidence in (0.5, 0.9, 0.95, 0.999):
        reach = round(law.reach(confidence) / 0.25)
        assert p[np.abs(x) <= reach].sum() >= confidence - 1e-12
        assert reach == 0 or p[np.abs(x) < reach].sum() < confidence


def test_the_largest_of_many_draws_on_a_fine_grid_is_that_of_continuous_noise() -> None:
    harmonic = sum(1 / i for i in range(1, 101))
    assert DiscreteLaplace(1e7, unit=1e-7).expected_largest(100) == pytest.approx(
        harmonic, rel=1e-6
    )


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
@pytest.mark.parametrize("weight", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_the_reach_of_two_weighted_noises_covers_what_it_claims(
    weight: float, confidence: float
) -> None:
    """Exact: the tail of X + w Y is (e^-t - w^2 e^(-t/w))/(1 - w^2) for Laplace X, Y of scale 1."""
    t = float(sum_reach([1.0, weight], confidence)) * math.sqrt(2 * (1 + weight**2))
    tail = (math.exp(-t) - (weight**2 * math.exp(-t / weight) if weight else 0)) / (1 - weight**2)
    assert 1 - tail == pytest.approx(confidence, abs=0.0015)


def test_the_reach_of_many_equal_noises_is_the_normal_one() -> None:
    assert float(sum_reach(np.ones(10_000), 0.95)) == pytest.approx(1.95996, abs=2e-4)


def test_limits_of_a_proportion_hold_the_estimate_and_become_all_where_noise_drowns_the_total() -> (
    None
):
    limits = proportion_limits([0.0, 300.0, 700.0], 1000.0, 2.0, 3, 0.95)
    assert np.all(limits[:, 0] <= [0, 0.3, 0.7])
    assert np.all(limits[:, 1] >= [0, 0.3, 0.7])
    assert np.all(limits[:, 1] - limits[:, 0] < 0.02)
    assert proportion_limits([1.0], 3.0, 2.0, 3, 0.95).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0, 5.0])
def test_limits_of_a_small_share_cover_with_noise_on_the_grid_of_whole_counts(
    epsilon: float,
) -> None:
    """Exact: every noise that 10 rows of a million can have, the noise of the million being too
    small to matter."""
    law = DiscreteLaplace(1 / epsilon)
    x = np.arange(-200, 201)
    p = (1 - law.alpha) / (1 + law.alpha) * law.alpha ** np.abs(x)
    low, high = proportion_limits(10.0 + x, 1e6, law.scale, 2, 0.95).T
    share = p[(low <= 1e-5) & (high >= 1e-5)].sum()
    assert share >= 0.95
    # at most one step more than needed
    assert share <= 1 - law.tail(int(law.reach(0.95)) + 1) + 1e-9


def test_a_noisy_choice_of_two_falls_short_as_often_as_it_says() -> None:
    """A score d below the other wins with probability exp(-d/scale)/2, so d at 95 % is scale ln
    10."""
    assert choice_shortfall(3.0, 2, 0.95) == pytest.approx(3 * math.log(10))
    assert choice_shortfall(3.0, 1, 0.95) == 0


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1, 3), Fraction(7, 9), Fraction(3)])
@pytest.mark.parametrize("sensitivity", [1, 3, 77, 2**24 + 1])
def test_what_opendp_says_a_draw_loses_is_never_above_what_is_paid(
    epsilon: Fraction, sensitivity: int
) -> None:
    noise = LaplaceNoise(sensitivity, epsilon)
    assert Fraction(noise._measurement.map(d_in=sensitivity)) <= epsilon
    assert noise.scale == pytest.approx(float(sensitivity / epsilon), rel=1e-14)
    for monotonic in (False, True):
        choice = NoisyChoice(sensitivity, epsilon, monotonic)
        assert Fraction(choice._measurement.map(d_in=sensitivity)) <= epsilon
        assert choice.scale == pytest.approx(
            float(sensitivity / epsilon) * (1 if monotonic else 2), rel=1e-14
        )


def test_noise_that_does_not_fit_into_64_bits_is_refused() -> None:
    with pytest.raises(ParameterError, match="epsilon = 1e-12 is too small"):
        LaplaceNoise(2**24, Fraction(1, 10**12))


def test_a_public_count_needs_no_noise() -> None:
    assert Count().noise(Protection("replace-one", size=10), Fraction(1)) is None
    assert Count().noise(Protection("replace-one"), Fraction(1)) is not None


def test_the_limits_of_a_root_are_the_roots_of_the_limits_and_never_negative() -> None:
    inner = LinearError(DiscreteLaplace(10.0))
    low, high = RootError(4.0, inner).limits(2.0, 0.95)
    assert low == 0
    assert high == math.sqrt(inner.limits(4.0, 0.95)[1])
    assert math.isnan(RootError(4.0, inner).stderr)
    assert RootError(1e4, inner).stderr == pytest.approx(inner.stderr / 200)


def test_a_variance_of_few_rows_may_be_anything_that_is_possible() -> None:
    assert VarianceError((1.0, 0.0, 0.0), 30.0, 1.0, 1e-9, 4.0).limits(1.0, 0.95) == (0.0, 4.0)
    low, high = VarianceError((1.0, 0.0, 0.0), 3000.0, 1.0, 1e-9, 4.0).limits(1.0, 0.95)
    assert high - 1 == pytest.approx(1 - low)
    assert high - 1 == pytest.approx(16 * math.log(20) / 3000, rel=1e-3)


def test_a_bracket_says_no_more_than_was_bought() -> None:
    bracket = BracketError(2.0, 3.0, (0.0, 10.0))
    assert bracket.limits(2.5, 0.9) == bracket.limits(2.5, 0.95) == (2.0, 3.0)
    assert bracket.limits(2.5, 0.99) == (0.0, 10.0)
