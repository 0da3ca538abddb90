"""The square wave: numbers into bins, bins into places, and back to a distribution."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from deniable import Reports, SquareWave, Tally, seeded_source, statistics
from deniable.errors import (
    AnswerError,
    AnswerTypeError,
    MissingAnswerError,
    OutOfDomainError,
    ParameterError,
    ReportError,
    ReportMismatchError,
    WholeNumbersWarning,
)
from deniable.mechanisms.registry import from_dict
from toolkit.references.laws import (
    assert_bulk_draws_follow_the_channel,
    assert_errors_are_as_stated,
    assert_private_and_unbiased,
    exact_laws,
)

Floats = NDArray[np.float64]

SMALL = [
    SquareWave(1.0, 2),
    SquareWave(0.01, 5),
    SquareWave(1.0, 6),
    SquareWave(3.0, 7, low=-2.0, high=5.0),
    SquareWave(8.0, 4),
]


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_what_is_drawn_loses_exactly_epsilon_and_is_unbiased(mechanism: SquareWave) -> None:
    assert_private_and_unbiased(mechanism)


@pytest.mark.parametrize("mechanism", SMALL, ids=repr)
def test_the_channel_states_what_is_drawn(mechanism: SquareWave) -> None:
    channel = mechanism.channel()
    for value, law in enumerate(exact_laws(mechanism)):
        np.testing.assert_allclose(
            [float(law[bytes([u])]) for u in range(len(law))], channel[:, value], rtol=1e-15
        )


@pytest.mark.parametrize(("epsilon", "bins"), [(0.5, 20), (1.0, 64), (3.0, 100)])
def test_the_channel_is_the_papers_wave(epsilon: float, bins: int) -> None:
    growth = math.exp(epsilon)
    half = math.floor(
        bins * (epsilon * growth - growth + 1) / (2 * growth * (growth - 1 - epsilon))
    )
    mechanism = SquareWave(epsilon, bins)
    assert mechanism.half_width == half
    assert mechanism.n_outputs == bins + 2 * half
    p = growth / ((2 * half + 1) * growth + bins - 1)
    near = np.abs(np.arange(-half, bins + half)[:, None] - np.arange(bins)) <= half
    np.testing.assert_allclose(mechanism.channel(), np.where(near, p, p / growth), rtol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, math.log(3), 2.0, 10.0, 30.0])
@pytest.mark.parametrize("bins", [2, 33])
def test_the_whole_epsilon_is_spent_and_no_more(epsilon: float, bins: int) -> None:
    assert epsilon * (1 - 1e-6) < SquareWave(epsilon, bins).epsilon <= epsilon


def test_a_wave_far_narrower_than_a_bin_is_direct_encoding() -> None:
    assert SquareWave(8.0, 4).half_width == 0
    # 0.85 of a bin: rounding it down to none would err more
    assert SquareWave(4.2, 32).half_width == 1


def test_bulk_draws_follow_the_channel_and_no_other() -> None:
    assert_bulk_draws_follow_the_channel(lambda epsilon: SquareWave(epsilon, 8), value=0.3)


@pytest.mark.slow
def test_simulated_errors_are_the_stated_ones() -> None:
    mechanism = SquareWave(2.0, 4)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    matrix = mechanism.channel()
    lam = matrix @ shares
    weights = np.diag(1 / matrix.mean(axis=1))
    inverse = np.linalg.inv(matrix.T @ weights @ matrix) @ matrix.T @ weights
    theory = dict(
        zip(
            shares,
            np.diagonal(inverse @ (np.diag(lam) - np.outer(lam, lam)) @ inverse.T),
            strict=True,
        )
    )
    assert_errors_are_as_stated(mechanism, theory.__getitem__, shares, n=500)


def test_values_fall_into_their_bins_and_the_highest_into_the_last() -> None:
    mechanism = SquareWave(1.0, 4, low=-1.0, high=1.0)
    assert mechanism.indices([-1.0, -0.5000001, -0.5, 0.0, 0.4999, 0.5, 1.0]).tolist() == [
        0,
        0,
        1,
        2,
        2,
        3,
        3,
    ]


@pytest.mark.parametrize(
    ("bins", "low", "high"),
    [(2, 0.0, 1.0), (10, 0.0, 1.0), (7, -3.0, 11.0), (1000, 0.1, 0.2), (12, 1e9, 1e9 + 1)],
)
def test_a_label_is_the_middle_of_its_bin_and_a_value_of_it(
    bins: int, low: float, high: float
) -> None:
    mechanism = SquareWave(1.0, bins, low, high)
    np.testing.assert_allclose(
        mechanism.labels, low + (np.arange(bins) + 0.5) * (high - low) / bins, rtol=1e-11
    )
    assert mechanism.indices(list(mechanism.labels)).tolist() == list(range(bins))


def test_labels_show_no_rounding() -> None:
    assert SquareWave(1.0, 10).labels == (
        0.05,
        0.15,
        0.25,
        0.35,
        0.45,
        0.55,
        0.65,
        0.75,
        0.85,
        0.95,
    )


CONTAINERS: list[Callable[[list[float]], Any]] = [
    list,
    tuple,
    np.array,
    lambda v: np.array(v, dtype=np.float32),
    pd.Series,
    lambda v: pd.Series(v, dtype="Float64"),
    pl.Series,
    pa.array,
    lambda v: pa.chunked_array([v[:1], v[1:]]),
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_values_come_in_any_column(container: Callable[[list[float]], Any]) -> None:
    mechanism = SquareWave(1.0, 4)
    assert mechanism.indices(container([0.125, 0.375, 0.875])).tolist() == [0, 1, 3]


def test_a_single_number_and_whole_numbers_are_values_too() -> None:
    mechanism = SquareWave(1.0, 4, low=0, high=100)
    assert len(mechanism.privatize(37.5)) == 1
    assert mechanism.indices([0, 25, 100]).tolist() == [0, 1, 3]
    assert mechanism.indices(np.array([24, 99])).tolist() == [0, 3]
    assert mechanism.indices(np.float64(99.5)).tolist() == [3]


def test_a_short_float_just_below_the_interval_is_outside_it() -> None:
    mechanism = SquareWave(1.0, 4, low=0.7, high=1.7)
    assert float(np.float32(0.7)) < 0.7
    with pytest.raises(OutOfDomainError):
        mechanism.indices(np.array([0.7], dtype=np.float32))


SECRET = 0.987654321


@pytest.mark.parametrize(
    ("values", "error", "position"),
    [
        ([0.5, 1.0 + SECRET], OutOfDomainError, 1),
        ([-SECRET], OutOfDomainError, 0),
        ([0.5, math.inf], OutOfDomainError, 1),
        ([0.5, math.nan], MissingAnswerError, 1),
        ([0.5, None], MissingAnswerError, 1),
        (pd.Series([0.5, None]), MissingAnswerError, 1),
        (pl.Series([0.5, None]), MissingAnswerError, 1),
        (pa.array([0.5, None]), MissingAnswerError, 1),
        (np.array([0.2, np.nan]), MissingAnswerError, 1),
        (["0.987654321"], AnswerTypeError, 0),
        ("0.987654321", AnswerTypeError, 0),
        (np.array(["0.987654321"]), AnswerTypeError, 0),
        (np.array([True, False]), AnswerTypeError, 0),
    ],
)
def test_unusable_values_are_refused_by_position_and_never_named(
    values: Any, error: type[AnswerError], position: int
) -> None:
    with pytest.raises(error) as caught:
        SquareWave(1.0, 4).privatize(values)
    assert caught.value.position == position
    assert "98765" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"epsilon": 0, "bins": 4}, "epsilon"),
        ({"epsilon": math.inf, "bins": 4}, "epsilon"),
        ({"epsilon": 1.0, "bins": 1}, "bins"),
        ({"epsilon": 1.0, "bins": 4.0}, "bins"),
        ({"epsilon": 1.0, "bins": True}, "bins"),
        ({"epsilon": 1.0, "bins": 5000}, "bins"),
        ({"epsilon": 1.0, "bins": 4, "low": 1.0}, "high"),
        ({"epsilon": 1.0, "bins": 4, "low": math.nan}, "low"),
        ({"epsilon": 1.0, "bins": 4, "high": math.inf}, "high"),
        ({"epsilon": 1.0, "bins": 4, "high": "x"}, "high"),
        ({"epsilon": 1.0, "bins": 4, "high": [1]}, "high"),
        ({"epsilon": 1.0, "bins": 100, "low": 1e16, "high": 1e16 + 8}, "bins"),
    ],
)
def test_bad_parameters_are_refused(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SquareWave(**arguments)
    assert caught.value.name == name


def test_reports_and_tallies_survive_their_bytes() -> None:
    mechanism = SquareWave(0.5, 300, low=-1.0, high=1.0)  # more than 256 places: two bytes each
    reports = mechanism.privatize([-1.0, 0.1, 0.99], seeded_source(1))
    assert Reports.from_bytes(reports.to_bytes()) == reports
    tally = mechanism.tally().update(reports)
    assert Tally.from_bytes(tally.to_bytes()) == tally
    with pytest.raises(ReportMismatchError):
        SquareWave(0.5, 300).estimate(reports)
    with pytest.raises(ReportError, match="privatize"):
        mechanism.estimate([0.1, 0.2])


def two_humps(x: Floats) -> Floats:
    density = 10 * np.exp(-((x - 0.25) ** 2) / 0.0072) + 4 * np.exp(-((x - 0.7) ** 2) / 0.02)
    return np.asarray(density / density.sum(), dtype=np.float64)


def test_smoothed_estimates_show_both_humps_where_the_inverse_shows_noise() -> None:
    mechanism = SquareWave(1.0, 256)
    middles = np.array(mechanism.labels)
    truth = two_humps(middles)
    values = np.random.default_rng(1).choice(middles, size=50_000, p=truth)
    reports = mechanism.privatize(values, seeded_source(1))

    found = {
        name: mechanism.estimate(reports, estimator=name).proportions
        for name in ("inverse", "em", "ems")
    }
    # The earth mover's distance from the truth, as a share of the range.
    moved = {
        name: float(np.abs(np.cumsum(proportions - truth)).mean())
        for name, proportions in found.items()
    }
    smooth = found["ems"]
    rising = np.sign(np.diff(smooth))
    peaks = np.flatnonzero((rising[:-1] > 0) & (rising[1:] < 0)) + 1
    highest = sorted(peaks, key=lambda i: -smooth[i])[:2]
    np.testing.assert_allclose(np.sort(middles[highest]), [0.25, 0.7], atol=0.05)
    assert smooth[128] < 0.2 * smooth.max()  # and a valley between them
    assert moved["ems"] < 0.02
    assert moved["em"] < 0.02
    assert moved["inverse"] > 2 * moved["em"]


# --- whole numbers

AGES = np.arange(18, 96)
AGED = np.exp(-((AGES - 44) ** 2) / 500.0)
AGED /= AGED.sum()


def means_of_ages(
    mechanism: SquareWave, n: int = 2_000, trials: int = 400
) -> tuple[float, float, float]:
    """The bias of the mean, its standard error, and how often its 95 % interval holds the truth."""
    rng, source = np.random.default_rng(11), seeded_source(11)
    true = float(AGES @ AGED)
    errors, held = [], 0
    for _ in range(trials):
        found = statistics.mean(
            mechanism.estimate(mechanism.privatize(rng.choice(AGES, n, p=AGED), source))
        )
        low, high = found.interval()
        errors.append(found.value - true)
        held += low <= true <= high
    return float(np.mean(errors)), float(np.std(errors) / math.sqrt(trials)), held / trials


@pytest.mark.parametrize("bins", [78, 39])
def test_whole_numbers_have_a_form_that_does_not_bias_their_mean(bins: int) -> None:
    bias, error, held = means_of_ages(SquareWave(2.0, bins, low=18, high=95, integers=True))
    assert abs(bias) < 4 * error
    assert 0.92 <= held <= 0.98  # 400 trials: 2.7 standard errors


@pytest.mark.filterwarnings("ignore::deniable.errors.WholeNumbersWarning")
def test_as_numbers_from_an_interval_they_are_biased_by_half_a_bin() -> None:
    bias, error, held = means_of_ages(SquareWave(2.0, 78, low=18, high=96), n=20_000, trials=60)
    assert abs(bias - 0.5) < 4 * error
    assert held < 0.93


def test_a_column_of_whole_numbers_is_warned_of_and_a_single_answer_is_not() -> None:
    mechanism = SquareWave(2.0, 78, low=18, high=96)
    with pytest.warns(
        WholeNumbersWarning,
        match=r"up to 0.5 away from them: the mean is biased; use integers=True",
    ):
        mechanism.privatize(np.tile([20, 31, 47], 20))
    # warnings are errors here: what a device holds is nobody's business
    mechanism.privatize([20, 31, 47])
    mechanism.privatize(np.tile([20, 31.5, 47], 20))
    SquareWave.of_integers(2.0, 18, 95).privatize(np.tile([20, 31, 47], 20))
    # the middles are whole numbers
    SquareWave(2.0, 78, low=17.5, high=95.5).privatize(np.tile([20, 31, 47], 20))


def test_the_form_for_whole_numbers_is_described_and_checked() -> None:
    mechanism = SquareWave.of_integers(2.0, 18, 95)
    assert mechanism.labels == tuple(float(age) for age in AGES)
    assert mechanism.indices([18, 19, 95]).tolist() == [0, 1, 77]
    assert from_dict(mechanism.to_dict()) == mechanism
    assert SquareWave(2.0, 39, 18, 95, integers=True).labels[:2] == (18.5, 20.5)
    assert "integers" not in SquareWave(2.0, 78, 18, 95).to_dict()
    with pytest.raises(OutOfDomainError, match="is not a whole number"):
        mechanism.privatize([18.5])
    with pytest.raises(ParameterError, match="bins = 10 must divide the 78 whole numbers"):
        SquareWave(2.0, 10, 18, 95, integers=True)
    with pytest.raises(ParameterError, match=r"low = 17.5 must be a whole number"):
        SquareWave(2.0, 10, 17.5, 95, integers=True)
    with pytest.raises(ParameterError, match="integers = 'yes' must be true or false"):
        SquareWave(2.0, 78, 18, 95, integers="yes")  # type: ignore[arg-type]
