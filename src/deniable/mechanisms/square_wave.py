"""Square wave: numbers from an interval, reported as a place near them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import AnswerTypeError, MissingAnswerError, OutOfDomainError, ParameterError
from deniable.mechanisms import exact
from deniable.mechanisms.design import MatrixMechanism, check_size
from deniable.mechanisms.domain import Domain, column, numbers
from deniable.mechanisms.wave import half_width, in_places, wave_columns

__all__ = ["SquareWave"]


@dataclass(frozen=True, eq=False, repr=False)
class SquareWave(MatrixMechanism):
    """The distribution of a number in [`low`, `high`], as shares of `bins` equal bins (Li et al., SIGMOD 2020).

    A value is put into its bin, and a place is reported: one of the 2b + 1 nearest with probability p each, one of the others
    with p / e^epsilon. The wave's half-width is b = floor(bins * b(epsilon)), by which a report tells the most
    (:func:`~deniable.mechanisms.wave.half_width`); where that is far below one bin, b = 0 and the wave is direct encoding.

    Estimators: "inverse" (default) is unbiased with its covariance, and noisy bin by bin. "ems", expectation maximisation with
    smoothing, is what one normally wants to look at, with a few hundred bins: it averages neighbouring bins, so wide bins blur
    (two humps of a twentieth of the range, 50,000 reports, epsilon 1: they merge at 48 bins and are clear at 256). "em" is the
    same without smoothing, for few bins or distributions with spikes.

    A label is the middle of its bin: a number, so that means and quantiles can be taken, and itself a value of the bin.
    Values may be floats or integers; one outside the interval is refused, not clipped.

    >>> from deniable import seeded_source
    >>> heights = SquareWave(epsilon=2.0, bins=4, low=140, high=220)
    >>> heights.labels
    (150.0, 170.0, 190.0, 210.0)
    >>> reports = heights.privatize([152.5] * 300 + [178.0] * 700, source=seeded_source(1))
    >>> heights.labels[heights.estimate(reports, estimator="em").proportions.argmax()]
    170.0

    Reference: Li, Wang, Lopuhaä-Zwakenberg, Skoric and Li, "Estimating numerical distributions under local differential privacy",
    SIGMOD 2020, sections 5.2 to 5.5.
    """

    epsilon: float
    bins: int
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self) -> None:
        asked = exact.check_epsilon(self.epsilon)
        if isinstance(self.bins, bool) or not isinstance(self.bins, int | np.integer) or self.bins < 2:
            raise ParameterError("bins", self.bins, "must be a whole number of at least 2")
        bins = check_size("bins", int(self.bins))
        low, high = _finite("low", self.low), _finite("high", self.high)
        if not low < high:
            raise ParameterError("high", self.high, f"must exceed low = {self.low!r}")
        edges = np.linspace(low, high, bins + 1)
        middles = edges[:-1] + np.diff(edges) / 2
        if not np.all(np.isfinite(middles)) or not np.all((edges[:-1] < middles) & (middles < edges[1:])):
            raise ParameterError("bins", self.bins, f"cannot be told apart by floating-point numbers from {low!r} to {high!r}")
        half = in_places(half_width(asked) * bins)
        self._set(asked=asked, bins=bins, low=low, high=high, half_width=half, edges=edges)
        self._settle(Domain.of(_readable(edges, middles)), wave_columns(bins, half, asked), blame="epsilon")

    numeric: ClassVar[bool] = True
    half_width: ClassVar[int]
    """Of the wave, in bins."""
    edges: ClassVar[NDArray[np.float64]]
    """Of the bins: one more than there are bins. A value on an edge belongs to the bin above it, but the highest to the last."""

    def parameters(self) -> dict[str, Any]:
        return {"epsilon": self.asked, "bins": self.bins, "low": self.low, "high": self.high}

    def indices(self, values: Any) -> NDArray[np.intp]:
        array = numbers(column(values))
        if array.dtype.kind not in "fiu":
            raise AnswerTypeError(None if array.size == 0 else 0, "is not a number")
        array = array.astype(np.float64, copy=False)  # or a short float would be compared with rounded bounds
        missing = np.isnan(array)
        if missing.any():
            raise MissingAnswerError(int(missing.argmax()), "is missing (NaN or null)")
        outside = (array < self.low) | (array > self.high)
        if outside.any():
            raise OutOfDomainError(int(outside.argmax()), f"lies outside the interval from {self.low!r} to {self.high!r}")
        return np.minimum(self.edges.searchsorted(array, side="right") - 1, self.bins - 1)


def _finite(name: str, value: Any) -> float:
    number = exact.check_number(name, value)
    if not math.isfinite(number):
        raise ParameterError(name, value, "must be finite")
    return number


def _readable(edges: NDArray[np.float64], middles: NDArray[np.float64]) -> list[float]:
    """The middles, without the last digits that only rounding put there."""
    short = [float(f"{middle:.12g}") for middle in middles]
    bounds = pairwise(edges)
    return [s if low < s < high else float(m) for s, m, (low, high) in zip(short, middles, bounds, strict=True)]
