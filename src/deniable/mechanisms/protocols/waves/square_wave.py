"""Square wave: numbers from an interval, reported as a nearby point."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, check_finite, whole
from deniable.errors import OutOfDomainError, ParameterError, WholeNumbersWarning
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.protocols.design_matrix import MatrixMechanism, check_size
from deniable.mechanisms.protocols.waves.wave import (
    half_width,
    in_places,
    numbers_within,
    wave_columns,
)

__all__ = ["SquareWave"]

_FEWEST_WARNED = 30
"""The fewest values for the warning: on a person's device it must not reveal what kind of number a
single answer is."""
_MOST_LOOKED_AT = 100_000


@dataclass(frozen=True, eq=False, repr=False)
class SquareWave(MatrixMechanism):
    """The distribution of a number in [`low`, `high`], as proportions of `bins` equal bins (Li et
    al., SIGMOD 2020).

    A value is put into its bin, and a place is reported: one of the 2b + 1 nearest with probability
    p each, one of the others with p / e^epsilon. The wave's half-width is b = floor(bins *
    b(epsilon)), which maximises the information in a report
    (:func:`~deniable.mechanisms.protocols.waves.wave.half_width`); if that is far below one bin, b
    = 0 and the wave is direct encoding.

    Estimators: "inverse" (default) is unbiased with its covariance, and noisy bin by bin. "ems",
    expectation maximisation with smoothing, is the usual choice, with a few hundred bins: it
    averages neighbouring bins, so wide bins blur (two humps of a twentieth of the range, 50,000
    reports, epsilon 1: they merge at 48 bins and are clear at 256). "em" is the same without
    smoothing, for few bins or distributions with spikes. If only the mean matters,
    :class:`~deniable.PiecewiseMean` errs less above epsilon 3.

    A label is the middle of its bin: a number, so that means and quantiles can be taken, and itself
    a value of the bin. Values may be floats or integers; one outside the interval is refused, not
    clipped.

    **Whole numbers** (ages, counts) are not numbers from an interval: each is at the lower end of
    its bin, and the bins' middles would move the mean up by half a unit. With `integers=True` the
    interval runs from `low` - 1/2 to `high` + 1/2, so that each bin has the same number of integers
    and its label is their mean; :meth:`of_integers` makes a bin for each. If a column declared as
    numbers from an interval has only whole numbers, :class:`~deniable.errors.WholeNumbersWarning`
    says so.

    >>> from deniable import seeded_source
    >>> heights = SquareWave(epsilon=2.0, bins=4, low=140, high=220)
    >>> heights.labels
    (150.0, 170.0, 190.0, 210.0)
    >>> reports = heights.privatize([152.5] * 300 + [178.0] * 700, source=seeded_source(1))
    >>> heights.labels[heights.estimate(reports, estimator="em").proportions.argmax()]
    170.0

    >>> ages = SquareWave.of_integers(2.0, low=18, high=95)
    >>> ages.bins, ages.labels[:3]
    (78, (18.0, 19.0, 20.0))

    Reference: Li, Wang, Lopuhaä-Zwakenberg, Skoric and Li, "Estimating numerical distributions
    under local differential privacy", SIGMOD 2020, sections 5.2 to 5.5.
    """

    epsilon: float
    bins: int
    low: float = 0.0
    high: float = 1.0
    integers: bool = False

    def __post_init__(self) -> None:
        requested_epsilon = check_epsilon(self.epsilon)
        bins = check_size("bins", whole("bins", self.bins, 2))
        low, high = check_finite("low", self.low), check_finite("high", self.high)
        if not low < high:
            raise ParameterError("high", self.high, f"must exceed low = {self.low!r}")
        if not isinstance(self.integers, bool | int) or self.integers not in (0, 1):
            raise ParameterError("integers", self.integers, "must be true or false")
        reach = 0.5 if self.integers else 0.0
        if self.integers:
            _check_integers(bins, low, high)
        edges = np.linspace(low - reach, high + reach, bins + 1)
        middles = edges[:-1] + np.diff(edges) / 2
        if not np.all(np.isfinite(middles)) or not np.all(
            (edges[:-1] < middles) & (middles < edges[1:])
        ):
            raise ParameterError(
                "bins",
                self.bins,
                message=(
                    f"{self.bins} bins are too narrow for floating-point numbers from {low!r} to"
                    f" {high!r}"
                ),
            )
        half = in_places(half_width(requested_epsilon) * bins)
        self._set(
            requested_epsilon=requested_epsilon,
            bins=bins,
            low=low,
            high=high,
            integers=bool(self.integers),
            half_width=half,
            edges=edges,
        )
        self._derive(
            Domain.of(_readable(edges, middles)),
            wave_columns(bins, 2 * half + 1, requested_epsilon),
            blame="epsilon",
        )

    numeric: ClassVar[bool] = True
    half_width: ClassVar[int]
    """Of the wave, in bins."""
    edges: ClassVar[NDArray[np.float64]]
    """Of the bins: one more than there are bins. A value on an edge belongs to the bin above it,
    but the highest to the last."""

    @classmethod
    def from_epsilon(cls, epsilon: float, *, values: Any) -> SquareWave:
        """Over `values` bins between 0 and 1."""
        return cls(epsilon, values)

    @classmethod
    def of_integers(cls, epsilon: float, low: int, high: int) -> SquareWave:
        """The distribution of a whole number from `low` to `high`, one bin for each."""
        return cls(
            epsilon,
            round(check_finite("high", high) - check_finite("low", low)) + 1,
            low,
            high,
            integers=True,
        )

    def parameters(self) -> dict[str, Any]:
        given = {
            "epsilon": self.requested_epsilon,
            "bins": self.bins,
            "low": self.low,
            "high": self.high,
        }
        return given | ({"integers": True} if self.integers else {})

    def indices(self, values: Any) -> NDArray[np.intp]:
        array = numbers_within(values, self.low, self.high)
        whole = array == np.round(array)
        if self.integers and not whole.all():
            raise OutOfDomainError(
                int((~whole).argmax()), "is not a whole number, which integers=True asks for"
            )
        if not self.integers and array.size >= _FEWEST_WARNED and whole.all():
            self._warn_of_whole_numbers()
        return np.minimum(self.edges.searchsorted(array, side="right") - 1, self.bins - 1)

    def _warn_of_whole_numbers(self) -> None:
        """Warn that whole numbers are moved, and by how much at most, if they are."""
        first, last = math.ceil(self.low), math.floor(self.high)
        integers = np.linspace(first, last, min(last - first + 1, _MOST_LOOKED_AT)).round()
        places = np.minimum(self.edges.searchsorted(integers, side="right") - 1, self.bins - 1)
        middles = self.edges[:-1] + np.diff(self.edges) / 2
        shift = float(np.abs(middles[places] - integers).max(initial=0.0))
        if shift > 0.05 * (self.high - self.low) / self.bins:
            warnings.warn(
                f"all values are whole numbers, and the bins' middles are up to {shift:.2g} away"
                " from them: the mean is biased; use integers=True, or"
                " SquareWave.of_integers(epsilon, low, high)",
                WholeNumbersWarning,
                stacklevel=4,
            )


def _check_integers(bins: int, low: float, high: float) -> None:
    for name, end in (("low", low), ("high", high)):
        if end != round(end):
            raise ParameterError(name, end, "must be a whole number with integers=True")
    count = round(high - low) + 1
    if count % bins:
        raise ParameterError(
            "bins", bins, f"must divide the {count} whole numbers from {low:g} to {high:g} evenly"
        )


def _readable(edges: NDArray[np.float64], middles: NDArray[np.float64]) -> list[float]:
    """The middles, without the last digits that are due to rounding."""
    short = [float(f"{middle:.12g}") for middle in middles]
    bounds = pairwise(edges)
    return [
        s if low < s < high else float(m)
        for s, m, (low, high) in zip(short, middles, bounds, strict=True)
    ]
