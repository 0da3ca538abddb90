"""Which difference between two groups can be detected, and with how many reports."""

from __future__ import annotations

import math

from deniable.checks import check_count, check_range
from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.numerics import boundary, normal_quantile
from deniable.planning.precision import ExpectedSpread

__all__ = ["detectable_difference", "open_share", "two_group_sample_size"]


def open_share(name: str, value: float) -> float:
    """The value, if it lies strictly between 0 and 1."""
    return check_range(name, value, above=0, below=1)


def _needed(
    spread: ExpectedSpread, share: float, other: float, z_level: float, z_power: float
) -> float:
    """Reports in each group: (z_level sqrt(2 v(mean)) + z_power sqrt(v(share) + v(other)))^2 /
    (share - other)^2."""
    pooled = math.sqrt(2 * spread.variance((share + other) / 2))
    apart = math.sqrt(spread.variance(share) + spread.variance(other))
    return ((z_level * pooled + z_power * apart) / (share - other)) ** 2


def two_group_sample_size(
    mechanism: Mechanism, share: float, other: float, power: float = 0.8, significance: float = 0.05
) -> int:
    """The reports that each of two groups must send for a two-sided test to find that their shares
    differ.

    The usual formula for two proportions (Fleiss, Levin and Paik 2003, section 4.2), with the
    variance of a randomized answer in place of f (1 - f). Only a fraction of those asked answers:
    divide by the sampling to get people.

    >>> from deniable import BinaryResponse
    >>> two_group_sample_size(BinaryResponse.from_epsilon(1.0), 0.10, 0.15)
    6467
    """
    share, other = open_share("share", share), open_share("other", other)
    if share == other:
        raise ParameterError("other", other, f"must differ from share = {share!r}")
    z_level, z_power = _quantiles(power, significance)
    return math.ceil(_needed(ExpectedSpread.of(mechanism), share, other, z_level, z_power))


def detectable_difference(
    mechanism: Mechanism, share: float, n: int, power: float = 0.8, significance: float = 0.05
) -> float:
    """The smallest difference, upwards from `share`, that a two-sided test finds with `n` reports
    from each of two groups.

    The inverse of :func:`two_group_sample_size`.

    >>> from deniable import BinaryResponse
    >>> round(detectable_difference(BinaryResponse.from_epsilon(1.0), 0.10, 6467), 4)
    0.05
    """
    share, count = open_share("share", share), check_count("n", n)
    z_level, z_power = _quantiles(power, significance)
    spread = ExpectedSpread.of(mechanism)
    needed = _needed(spread, share, 1.0, z_level, z_power)
    if needed > count:
        raise InfeasiblePlanError(
            f"{count:,} reports per group distinguish no share from {share:g}, not even 100 %",
            {"n": math.ceil(needed)},
        )
    found = boundary(
        lambda other: _needed(spread, share, other, z_level, z_power) <= count, share, 1.0
    )
    return found - share


def _quantiles(power: float, significance: float) -> tuple[float, float]:
    power, significance = open_share("power", power), open_share("significance", significance)
    return normal_quantile(1 - significance / 2), normal_quantile(power)
