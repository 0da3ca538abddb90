"""Noise and noisy choices, drawn by OpenDP: the only file that calls it.

A measurement of OpenDP knows its own loss, rounded up. Scales are chosen so that this loss is at
most the epsilon that is paid, as an exact number: no arithmetic of our own decides a person's
privacy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from deniable.curator.law import DiscreteLaplace
from deniable.errors import MissingExtraError, ParameterError

__all__ = ["LaplaceNoise", "NoisyChoice"]

_LARGEST = 2**62
"""OpenDP adds noise to 64-bit integers. Cutting an exact sum to this range changes no
sensitivity."""
_LARGEST_SCALE = 2**57
"""Noise of this scale leaves the range that remains with probability e^-32."""


def _opendp() -> Any:
    try:
        import opendp.domains  # noqa: PLC0415 - an extra
        import opendp.measurements  # noqa: PLC0415
        import opendp.measures  # noqa: PLC0415
        import opendp.metrics  # noqa: PLC0415
        from opendp.mod import enable_features  # noqa: PLC0415
    except ImportError:
        raise MissingExtraError("opendp", "curator", "a curator's noise") from None
    enable_features("contrib")
    return opendp


def _affordable(
    make: Callable[[float], Any], distance: int, factor: int, epsilon: Fraction
) -> tuple[Any, float]:
    """The measurement with the smallest scale whose loss, as OpenDP gives it, is at most
    epsilon."""
    if factor * distance / epsilon > _LARGEST_SCALE:
        raise ParameterError(
            "epsilon",
            float(epsilon),
            "is too small for this question: its noise would not fit into 64 bits",
        )
    scale = float(factor * distance / epsilon)
    measurement = make(scale)
    while Fraction(measurement.map(d_in=distance)) > epsilon:
        scale = math.nextafter(scale, math.inf)
        measurement = make(scale)
    return measurement, scale


@dataclass(frozen=True)
class LaplaceNoise:
    """Independent discrete Laplace noise on each of some whole numbers, which one person moves by
    `sensitivity` in all.

    >>> LaplaceNoise(sensitivity=10, epsilon=Fraction(1, 2)).law
    DiscreteLaplace(scale=20.0, unit=1.0)
    """

    sensitivity: int
    epsilon: Fraction
    scale: float = field(init=False)
    _measurement: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dp = _opendp()
        space = (
            dp.domains.vector_domain(dp.domains.atom_domain(T="i64")),
            dp.metrics.l1_distance(T="i64"),
        )
        measurement, scale = _affordable(
            lambda scale: dp.measurements.make_laplace(*space, scale=scale),
            self.sensitivity,
            1,
            self.epsilon,
        )
        object.__setattr__(self, "_measurement", measurement)
        object.__setattr__(self, "scale", scale)

    @property
    def law(self) -> DiscreteLaplace:
        """The law of each number's noise."""
        return DiscreteLaplace(self.scale)

    def add(self, numbers: Sequence[int]) -> list[int]:
        """The numbers with noise."""
        noisy: list[int] = self._measurement(
            [max(-_LARGEST, min(_LARGEST, int(number))) for number in numbers]
        )
        return noisy


@dataclass(frozen=True)
class NoisyChoice:
    """The position of about the largest of some scores, none of which one person moves by more than
    `sensitivity`.

    The largest after adding exponential noise to each (report noisy max; the law is that of
    permute-and-flip, McKenna and Sheldon 2020). If a person can only move all scores the same way
    (`monotonic`), half the noise is enough.
    """

    sensitivity: int
    epsilon: Fraction
    monotonic: bool = False
    scale: float = field(init=False)
    _measurement: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        dp = _opendp()
        domain = dp.domains.vector_domain(dp.domains.atom_domain(T="i64"))
        space = (
            domain,
            dp.metrics.linf_distance(T="i64", monotonic=self.monotonic),
            dp.measures.max_divergence(),
        )
        measurement, scale = _affordable(
            lambda scale: dp.measurements.make_noisy_max(*space, scale=scale),
            self.sensitivity,
            1 if self.monotonic else 2,
            self.epsilon,
        )
        object.__setattr__(self, "_measurement", measurement)
        object.__setattr__(self, "scale", scale)

    def largest(self, scores: Sequence[int]) -> int:
        """The position of about the largest score."""
        return int(
            self._measurement([max(-_LARGEST, min(_LARGEST, int(score))) for score in scores])
        )
