"""What OpenDP draws follows the law that intervals are made of, and intervals cover what they
claim.

OpenDP draws from the operating system and cannot be seeded. Every bound here is 5 or more standard
errors of the simulation wide, or has alpha 1e-9: the file as a whole raises a false alarm less than
once in 10,000 runs.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

from deniable.curator import Curator, DiscreteLaplace
from deniable.curator.law import proportion_limits
from deniable.curator.noise import LaplaceNoise, NoisyChoice
from toolkit.curators import releases

ALPHA = 1e-9


def chi_square(draws: np.ndarray[Any, Any], law: DiscreteLaplace) -> float:
    """The p-value of draws under a law, in cells of |x| and its sign, tails pooled."""
    edge = round(4 * law.scale)
    x = np.arange(-edge, edge + 1)
    inner = (1 - law.alpha) / (1 + law.alpha) * law.alpha ** np.abs(x)
    expected = np.concatenate([[law.tail(edge) / 2], inner, [law.tail(edge) / 2]]) * draws.size
    found = np.bincount(np.clip(draws, -edge - 1, edge + 1) + edge + 1, minlength=expected.size)
    return float(stats.chisquare(found, expected * found.sum() / expected.sum()).pvalue)


def test_draws_follow_the_law_of_their_epsilon_and_of_no_other() -> None:
    """n = 40,000, sensitivity 3 and epsilon 2/3."""
    noise = LaplaceNoise(3, Fraction(2, 3))
    draws = np.array(noise.add([0] * 40_000))
    assert chi_square(draws, noise.law) > ALPHA
    for wrong in (0.8, 1.2):
        assert chi_square(draws, DiscreteLaplace(noise.scale * wrong)) < ALPHA


def test_noise_on_one_number_is_independent_of_that_on_the_next() -> None:
    draws = np.array(LaplaceNoise(1, Fraction(1)).add([0] * 40_000)).reshape(-1, 2).astype(float)
    assert abs(np.corrcoef(draws.T)[0, 1]) < 6 / math.sqrt(20_000)


@pytest.mark.parametrize(("monotonic", "distance"), [(False, 3), (True, 2)])
def test_a_noisy_choice_takes_the_worse_of_two_as_often_as_its_law_says(
    monotonic: bool, distance: int
) -> None:
    """P = exp(-distance/scale)/2 by exponential noise; Gumbel noise, the exponential mechanism,
    would take it more often."""
    choice = NoisyChoice(1, Fraction(1), monotonic)
    times = 4_000
    worse = sum(choice.largest([0, distance]) == 0 for _ in range(times))
    law = math.exp(-distance / choice.scale) / 2
    assert stats.binomtest(worse, times, law).pvalue > ALPHA
    assert stats.binomtest(worse, times, 1 / (1 + math.exp(distance / choice.scale))).pvalue < ALPHA


def covered(found: list[Any], truth: float) -> float:
    """How many of the intervals hold the truth."""
    limits = [release.interval() for release in found]
    return float(
        np.mean([low - 1e-9 * abs(low) <= truth <= high + 1e-9 * abs(high) for low, high in limits])
    )


def covered_ratio(found: list[Any], truth: float) -> float:
    """The same for means of a private number of rows, whose limits are computed together."""
    errors = [release.error for release in found]
    parts, totals = np.array([[error.part, error.total] for error in errors]).T
    one = errors[0]
    low, high = (
        one.low + one.width * proportion_limits(parts, totals, one.scale, 2, 0.95, one.grid)
    ).T
    assert (low[0], high[0]) == pytest.approx(found[0].interval())
    return float(np.mean((low <= truth) & (truth <= high)))


RNG = np.random.default_rng(22)
SALARIES = np.round(RNG.gamma(4, 12_000, 900), 2)
PAY = (0, 500_000)
BINARY = (RNG.random(900) < 0.1).astype(float)
TIMES = 1_200


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("statistic", "truth"),
    [
        ("sum", SALARIES.sum()),
        ("mean", SALARIES.mean()),
        ("variance", SALARIES.var()),
        ("std", SALARIES.std()),
    ],
)
def test_intervals_of_numbers_cover_95_percent(
    statistic: str, truth: float, neighbours: Any
) -> None:
    """6,000 releases at epsilon 1: 95 % within 5 standard errors, 1.4 points, so that 97.3 % is
    seen.

    So often did intervals of a variance cover that were laid around a value cut off at 0.
    """
    curator = Curator({"pay": SALARIES}, 1, neighbours=neighbours)
    found = releases(curator, 5 * TIMES, 1, statistic, "pay", bounds=PAY)
    ratio = (statistic, neighbours) == ("mean", "add-remove")
    share = (covered_ratio if ratio else covered)(found, truth)
    assert abs(share - 0.95) < 5 * math.sqrt(0.95 * 0.05 / (5 * TIMES))


def test_intervals_of_a_mean_cover_where_noise_nearly_drowns_the_rows() -> None:
    """A mean of yes and no on a grid of one step, of 900 rows and epsilon 0.05: the noise has scale
    20."""
    found = releases(Curator({"yes": BINARY}, 1), TIMES, 0.05, "mean", "yes", bounds=(0, 1), step=1)
    share = covered_ratio(found, BINARY.mean())
    assert abs(share - 0.96) < 0.01 + 5 * math.sqrt(0.95 * 0.05 / TIMES)


@pytest.mark.parametrize("epsilon", [0.2, 1, 3])
def test_intervals_of_counts_cover_exactly_as_often_as_the_law_says(epsilon: float) -> None:
    curator = Curator({"yes": BINARY}, 1)
    law = DiscreteLaplace(1 / epsilon)
    exact = 1 - law.tail(int(law.reach(0.95)))
    assert exact >= 0.95
    share = covered(releases(curator, TIMES, epsilon, "count"), 900)
    assert abs(share - exact) < 5 * math.sqrt(exact * (1 - exact) / TIMES) + 1e-3


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_intervals_of_proportions_cover_at_least_95_percent(
    neighbours: Any, epsilon: float
) -> None:
    """On the grid of whole counts an interval covers more, as the exact one does."""
    cities = np.array(["Oslo"] * 600 + ["Paris"] * 290 + ["Rome"] * 10)
    truth = np.array([600, 290, 10, 0]) / 900
    curator = Curator({"city": cities}, 1, neighbours=neighbours)
    times, inside, together = 300, np.zeros(4), 0
    for found in releases(
        curator, times, epsilon, "histogram", "city", labels=["Oslo", "Paris", "Rome"]
    ):
        low, high = found.interval().T
        inside += (low <= truth + 1e-12) & (truth <= high + 1e-12)
        low, high = found.interval(simultaneous=True).T
        together += bool(np.all((low <= truth + 1e-12) & (truth <= high + 1e-12)))
    error = 5 * math.sqrt(0.95 * 0.05 / times)
    assert np.all(inside / times >= 0.95 - error)
    assert together / times >= 0.95 - error


TIES = np.repeat([20, 40, 41, 90], [300, 1, 599, 100])


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(
    ("values", "level"),
    [
        (np.arange(1000) % 100, 0.5),
        (np.arange(1000) % 100, 0.03),
        (TIES, 0.5),
        (TIES, 0.9),  # the last row of a heap: right below lies much, right above little
        (TIES, 0.301),
        (np.full(1000, 7), 0.75),
        (np.array([3, 5, 50]), 0.5),
    ],
    ids=[
        "even",
        "even, low",
        "ties",
        "end of a tie",
        "beginning of a tie",
        "one value",
        "three rows",
    ],
)
def test_intervals_of_quantiles_cover_at_least_95_percent_whatever_the_data(
    values: np.ndarray[Any, Any], level: float, neighbours: Any
) -> None:
    truth = float(np.quantile(values, level, method="inverted_cdf"))
    curator = Curator({"x": values}, 1, neighbours=neighbours)
    share = covered(
        releases(curator, 150, 1, "quantile", "x", level, bounds=(0, 127), step=1), truth
    )
    assert share >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / 150)


def test_a_quantile_s_interval_is_of_use() -> None:
    """Of 20,000 people and at epsilon 1 it is a few ranks in a hundred wide, ties or not."""
    ages = np.repeat(np.arange(18, 98), 250)
    found = releases(Curator({"age": ages}, 1), 20, 1, "median", "age", bounds=(18, 98), step=1)
    widths = [high - low for low, high in (release.interval() for release in found)]
    assert max(widths) <= 6
    assert max(abs(release.value - 57) for release in found) <= 2


@pytest.mark.parametrize(("step", "widest"), [(1, 16), (None, 20)])
def test_a_median_of_few_people_has_an_interval_too(step: int | None, widest: float) -> None:
    """200 values at epsilon 1, between 0 and 100: 34 and 75 wide by noisy searches.

    Ends of rank 100 ± 30 and 100 ± 40, for choices at epsilon 1/4 among 101 and 1,023 candidates,
    lie 11 and 15 apart.
    """
    values = np.random.default_rng(5).normal(50, 15, 200).clip(0, 100)
    values = values.round() if step else values
    found = releases(Curator({"x": values}, 1), 30, 1, "median", "x", bounds=(0, 100), step=step)
    limits = np.array([release.interval() for release in found])
    assert np.diff(limits, axis=1).mean() <= widest
    truth = float(np.quantile(values, 0.5, method="inverted_cdf"))
    # of 30, each at least 95 %: more than 7 misses have probability 1e-4
    assert np.sum((limits[:, 0] > truth) | (limits[:, 1] < truth)) <= 7


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_a_maximum_and_a_minimum_stay_within_the_values_that_are_there(neighbours: Any) -> None:
    values = np.concatenate([np.repeat([10, 30], 500), [100]])
    curator = Curator({"x": values}, 1, neighbours=neighbours)
    largest = releases(curator, 300, 1, "maximum", "x", bounds=(0, 127), step=1)
    smallest = releases(curator, 300, 1, "minimum", "x", bounds=(0, 127), step=1)
    error = 5 * math.sqrt(0.95 * 0.05 / 300)
    assert np.mean([release.value <= 100 for release in largest]) >= 0.95 - error
    assert np.mean([release.value >= 10 for release in smallest]) >= 0.95 - error
    # Of use, too: 500 people have 30, and one more is hidden. P(less) is below 1e-6 a release.
    assert min(release.value for release in largest) >= 30
    assert max(release.value for release in smallest) <= 10
