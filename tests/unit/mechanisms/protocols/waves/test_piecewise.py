"""The piecewise mechanism: an exact channel, values that are not moved, and means that err less."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from deniable import PiecewiseMean, Reports, SquareWave, Tally, every_path, seeded_source
from deniable.errors import AnswerError, ParameterError, ReportFormatError
from deniable.mechanisms.registry import from_dict
from toolkit.references.laws import (
    assert_bulk_draws_follow_the_channel,
    assert_private_and_unbiased,
    exact_laws,
)

Floats = NDArray[np.float64]

SMALL = [
    PiecewiseMean(1.0, points=2),
    PiecewiseMean(0.01, points=5),
    PiecewiseMean(2.0, low=-2.0, high=5.0, points=9),
    PiecewiseMean(8.0, points=4),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(mechanism: PiecewiseMean) -> None:
    assert_private_and_unbiased(mechanism)


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_the_channel_states_what_is_drawn(mechanism: PiecewiseMean) -> None:
    channel = mechanism.channel()
    for value, law in enumerate(exact_laws(mechanism)):
        np.testing.assert_allclose(
            [float(law[bytes([u])]) for u in range(len(law))], channel[:, value], rtol=1e-12
        )  # a point that is no double may be rounded up or down, once in 2**52


def test_bulk_draws_follow_the_channel_and_no_other() -> None:
    assert_bulk_draws_follow_the_channel(
        lambda epsilon: PiecewiseMean(epsilon, points=9), value=0.3
    )


@pytest.mark.parametrize("value", [-1.0, -0.3, 0.0, 0.123456, 0.999, 1.0])
def test_a_value_between_two_points_is_reported_without_being_moved(value: float) -> None:
    """Over every path of the draws, the mean of a single report is the value: exact."""
    mechanism = PiecewiseMean(2.0, points=4)
    scores = np.array(mechanism.labels) @ mechanism.inverse()
    expectation, total = 0.0, Fraction(0)
    for probability, data in every_path(lambda source: mechanism.privatize(value, source).data):
        expectation += float(probability) * float(scores[data[0]])
        total += probability
    assert total == 1
    assert expectation == pytest.approx(value, abs=1e-12)


def test_every_value_takes_the_same_draws() -> None:
    """Also one on a point, which needs no coin."""
    left = []
    for value in (0.0, 0.3, 1.0):
        source = seeded_source(1)
        PiecewiseMean(2.0, points=5).privatize([value] * 10, source)
        left.append(int(source.words(1)[0]))
    assert len(set(left)) == 1


def coins(mechanism: Any, weights: Floats) -> float:
    """n times the coins' variance of the mean, by the exact channel."""
    labels = np.array(mechanism.labels)
    scores, rates = labels @ mechanism.inverse(), mechanism.channel() @ weights
    return float(rates @ scores**2 - weights @ labels**2)


def uniform(k: int) -> Floats:
    return np.full(k, 1 / k)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 4.0, 6.0])
def test_means_err_no_more_than_by_the_published_mechanism(epsilon: float) -> None:
    """Its variance for a value v in [-1, 1] is v^2/(E - 1) + (E + 3)/(3 (E - 1)^2)."""
    mechanism, growth = PiecewiseMean(epsilon), math.exp(epsilon / 2)
    for weights in (uniform(257), np.eye(257)[0], np.eye(257)[200]):
        square = float(weights @ np.array(mechanism.labels) ** 2)
        published = square / (growth - 1) + (growth + 3) / (3 * (growth - 1) ** 2)
        assert coins(mechanism, weights) <= published


@pytest.mark.parametrize(
    ("epsilon", "least"), [(3.0, 1.4), (4.0, 3.0), (5.0, 2.2), (6.0, 4.8), (8.0, 2.5)]
)
def test_from_epsilon_3_on_means_err_less_than_by_the_square_wave(
    epsilon: float, least: float
) -> None:
    """Of uniform values, with 64 bins."""
    wave = SquareWave(epsilon, 64, -1.0, 1.0)
    ratio = coins(wave, uniform(64)) / coins(PiecewiseMean(epsilon), uniform(257))
    assert ratio > least


@pytest.mark.parametrize("points", [3, 17, 129])
def test_the_error_of_a_mean_never_rises_with_epsilon(points: int) -> None:
    """For values that are uniform, at an end, and in the middle."""
    mechanisms = [PiecewiseMean(float(e), points=points) for e in np.linspace(0.2, 12, 60)]
    for weights in (uniform(points), np.eye(points)[-1], np.eye(points)[points // 2]):
        errors = np.array([coins(mechanism, weights) for mechanism in mechanisms])
        assert (np.diff(errors) <= 1e-9 * errors[:-1]).all()


@pytest.mark.slow
def test_intervals_of_means_cover_95_percent_of_the_time() -> None:
    """1,500 surveys of 400 people with values on no point: 3.5 standard errors are 2 points."""
    mechanism, source = PiecewiseMean(4.0, 0.0, 10.0), seeded_source(3)
    values = np.random.default_rng(3).beta(2, 5, (1_500, 400)) * 10
    held = []
    for row in values:
        low, high = mechanism.estimate(mechanism.privatize(row, source)).mean().interval()
        held.append(low <= 10 * 2 / 7 <= high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)


def test_a_description_and_a_tally_survive_bytes_and_forged_sizes_are_refused() -> None:
    mechanism = PiecewiseMean(4.0, 0.0, 80.0, points=17)
    assert from_dict(mechanism.to_dict()) == mechanism
    reports = mechanism.privatize(np.linspace(0, 80, 50), seeded_source(1))
    assert Reports.from_bytes(reports.to_bytes()) == reports
    tally = mechanism.tally().update(reports)
    assert Tally.from_bytes(tally.to_bytes()) == tally
    forged = reports.to_bytes().replace(b'"points":17', b'"points":4096')
    with pytest.raises(ReportFormatError):
        Reports.from_bytes(forged)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": 1.0, "low": 2.0, "high": 1.0}, "high"),
        ({"epsilon": 1.0, "low": math.inf}, "low"),
        ({"epsilon": 1.0, "points": 1}, "points"),
        ({"epsilon": 1.0, "points": 5000}, "points"),
        ({"epsilon": 1.0, "low": 1.0, "high": 1.0 + 1e-14}, "points"),
    ],
)
def test_a_wrong_parameter_is_named(arguments: Any, name: str) -> None:
    with pytest.raises(ParameterError) as refused:
        PiecewiseMean(**arguments)
    assert refused.value.name == name


@pytest.mark.parametrize("values", [[1.5], [-1.01], [math.nan], ["a"], [None]])
def test_a_value_that_is_not_in_the_interval_is_refused_and_not_shown(values: Any) -> None:
    with pytest.raises(AnswerError) as refused:
        PiecewiseMean(1.0).privatize(values)
    assert "1.5" not in str(refused.value)
