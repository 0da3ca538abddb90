"""Which difference between two groups can be detected, and with how many reports."""

from __future__ import annotations

import math

from deniable.checks import check_count, check_range
from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.numerics import boundary, normal_quantile
from deniable.planning.precision import ProportionVariance
from deniable.renames import reads_old_names

__all__ = ["detectable_difference", "open_proportion", "two_group_sample_size"]


def open_proportion(name: str, value: float) -> float:
    """The value, if it lies strictly between 0 and 1."""
    return check_range(name, value, above=0, below=1)


def _needed(
    spread: ProportionVariance, proportion: float, other: float, z_level: float, z_power: float
) -> float:
    """Reports in each group: (z_level sqrt(2 v(mean)) + z_power sqrt(v(proportion) + v(other)))^2 /
    (proportion - other)^2."""
    pooled = math.sqrt(2 * spread.variance((proportion + other) / 2))
    apart = math.sqrt(spread.variance(proportion) + spread.variance(other))
    return ((z_level * pooled + z_power * apart) / (proportion - other)) ** 2


@reads_old_names
def two_group_sample_size(
    mechanism: Mechanism,
    proportion: float,
    other: float,
    power: float = 0.8,
    significance: float = 0.05,
) -> int:
    """The reports that each of two groups must send for a two-sided test to find that their
    proportions differ.

    The usual formula for two proportions (Fleiss, Levin and Paik 2003, section 4.2), with the
    variance of a randomized answer in place of f (1 - f). Only a fraction of those asked answers:
    divide by the sampling to get people.

    >>> from deniable import BinaryResponse
    >>> two_group_sample_size(BinaryResponse.from_epsilon(1.0), 0.10, 0.15)
    6467
    """
    proportion, other = open_proportion("proportion", proportion), open_proportion("other", other)
    if proportion == other:
        raise ParameterError("other", other, f"must differ from proportion = {proportion!r}")
    z_level, z_power = _quantiles(power, significance)
    return math.ceil(_needed(ProportionVariance.of(mechanism), proportion, other, z_level, z_power))


@reads_old_names
def detectable_difference(
    mechanism: Mechanism, proportion: float, n: int, power: float = 0.8, significance: float = 0.05
) -> float:
    """The smallest difference, upwards from `proportion`, that a two-sided test finds with `n`
    reports from each of two groups.

    The inverse of :func:`two_group_sample_size`.

    >>> from deniable import BinaryResponse
    >>> round(detectable_difference(BinaryResponse.from_epsilon(1.0), 0.10, 6467), 4)
    0.05
    """
    proportion, count = open_proportion("proportion", proportion), check_count("n", n)
    z_level, z_power = _quantiles(power, significance)
    spread = ProportionVariance.of(mechanism)
    needed = _needed(spread, proportion, 1.0, z_level, z_power)
    if needed > count:
        raise InfeasiblePlanError(
            f"{count:,} reports per group distinguish no proportion from {proportion:g}, not even"
            " 100 %",
            {"n": math.ceil(needed)},
        )
    found = boundary(
        lambda other: _needed(spread, proportion, other, z_level, z_power) <= count, proportion, 1.0
    )
    return found - proportion


def _quantiles(power: float, significance: float) -> tuple[float, float]:
    power, significance = (
        open_proportion("power", power),
        open_proportion("significance", significance),
    )
    return normal_quantile(1 - significance / 2), normal_quantile(power)
