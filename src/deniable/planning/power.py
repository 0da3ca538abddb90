"""Which difference between two groups can be detected, and with how many reports."""

from __future__ import annotations

import math
from statistics import NormalDist

from deniable.errors import InfeasiblePlanError, ParameterError
from deniable.mechanisms.mechanism import Mechanism
from deniable.planning.precision import Spread
from deniable.privacy.checks import check_count

__all__ = ["detectable_difference", "open_share", "two_group_sample_size"]


def open_share(name: str, value: float) -> float:
    """The value, if it lies strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1:
        raise ParameterError(name, value, "must lie strictly between 0 and 1")
    return float(value)


def _needed(spread: Spread, share: float, other: float, z_level: float, z_power: float) -> float:
    """Reports in each group: (z_level sqrt(2 v(mean)) + z_power sqrt(v(share) + v(other)))^2 / (share - other)^2."""
    pooled = math.sqrt(2 * spread.variance((share + other) / 2))
    apart = math.sqrt(spread.variance(share) + spread.variance(other))
    return ((z_level * pooled + z_power * apart) / (share - other)) ** 2


def two_group_sample_size(
    mechanism: Mechanism, share: float, other: float, power: float = 0.8, significance: float = 0.05
) -> int:
    """The reports that each of two groups must send for a two-sided test to find that their shares differ.

    The usual formula for two proportions (Fleiss, Levin and Paik 2003, section 4.2), with the variance of a randomized answer in
    place of f (1 - f). Only a fraction of those asked answers: divide by the sampling to get people.

    >>> from deniable import BinaryResponse
    >>> two_group_sample_size(BinaryResponse.from_epsilon(1.0), 0.10, 0.15)
    6467
    """
    share, other = open_share("share", share), open_share("other", other)
    if share == other:
        raise ParameterError("other", other, f"must differ from share = {share!r}")
    z_level, z_power = _quantiles(power, significance)
    return math.ceil(_needed(Spread.of(mechanism), share, other, z_level, z_power))


def detectable_difference(mechanism: Mechanism, share: float, n: int, power: float = 0.8, significance: float = 0.05) -> float:
    """The smallest difference, upwards from `share`, that a two-sided test finds with `n` reports from each of two groups.

    The inverse of :func:`two_group_sample_size`.

    >>> from deniable import BinaryResponse
    >>> round(detectable_difference(BinaryResponse.from_epsilon(1.0), 0.10, 6467), 4)
    0.05
    """
    share, count = open_share("share", share), check_count("n", n)
    z_level, z_power = _quantiles(power, significance)
    spread = Spread.of(mechanism)
    low, high = share, 1.0
    needed = _needed(spread, share, high, z_level, z_power)
    if needed > count:
        raise InfeasiblePlanError(
            f"{count:,} reports per group distinguish no share from {share:g}, not even 100 %", {"n": math.ceil(needed)}
        )
    for _ in range(60):
        middle = (low + high) / 2
        if middle > share and _needed(spread, share, middle, z_level, z_power) <= count:
            high = middle
        else:
            low = middle
    return high - share


def _quantiles(power: float, significance: float) -> tuple[float, float]:
    power, significance = open_share("power", power), open_share("significance", significance)
    return NormalDist().inv_cdf(1 - significance / 2), NormalDist().inv_cdf(power)
