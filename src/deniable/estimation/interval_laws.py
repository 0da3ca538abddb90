"""Intervals of statistics for which "value ± standard errors" does not hold: laws that give limits for any confidence."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.intervals import check_confidence

__all__ = ["IntervalLaw", "QuadraticLaw", "QuantileLaw", "ShareLaw", "WidenedLaw", "interval_law"]

_Floats = NDArray[np.float64]
_LARGEST_NONCENTRALITY = 1e4
"""Beyond this a noncentral chi-square is a normal law to four digits, and its sum would take long."""


class IntervalLaw(Protocol):
    """What a statistic's interval is made from."""

    def interval(self, confidence: float) -> tuple[float, float]: ...

    def to_dict(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class QuadraticLaw:
    """Of a squared length Z = |u|^2, u being normal around mu with covariance S: the values of |mu|^2 that explain Z.

    Near 0 the delta method fails, for its gradient vanishes. Here Z is taken to be c times a noncentral chi-square, with the
    first two moments it really has: E Z = m + tr S and Var Z = 2 tr S^2 + 4 m s, with m = |mu|^2 and s = mu' S mu/m the spread
    along mu. So c = (tr S^2 + 2 m s)/(tr S + 2 m), with tr S/c degrees of freedom and noncentrality m/c. Far from 0 the limits
    are those of the delta method. A statistic is `scale` times m, or the root of that.
    """

    observed: float
    trace: float
    square_trace: float
    along: float
    scale: float = 1.0
    root: bool = False

    def interval(self, confidence: float) -> tuple[float, float]:
        tail = (1 - check_confidence(confidence)) / 2
        if self.observed > _LARGEST_NONCENTRALITY * self.along:
            reach = -_normal_quantile(tail) * math.sqrt(2 * self.square_trace + 4 * self.observed * self.along)
            low, high = self.observed - self.trace - reach, self.observed - self.trace + reach
        else:
            low, high = self._where(1 - tail), self._where(tail)
        # A length of exactly 0 is never certain: a tenth of its own noise is left at least, as at the edge of a proportion.
        high = max(high, 0.01 * self.trace)
        low, high = max(low, 0.0) * self.scale, high * self.scale
        return (math.sqrt(low), math.sqrt(high)) if self.root else (low, high)

    def _below(self, length: float) -> float:
        """P(Z <= observed) if |mu|^2 = length."""
        from scipy.special import chndtr  # noqa: PLC0415 - slow to import

        c = (self.square_trace + 2 * length * self.along) / (self.trace + 2 * length)
        return float(chndtr(self.observed / c, self.trace / c, length / c))

    def _where(self, level: float) -> float:
        """The squared length at which P(Z <= observed) has fallen to `level`; 0 if it is below that already there."""
        if self._below(0.0) <= level:
            return 0.0
        low, high = 0.0, self.observed + self.trace
        while self._below(high) > level:
            low, high = high, 2 * high
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if self._below(middle) > level else (low, middle)
        return high

    def to_dict(self) -> dict[str, Any]:
        return {"law": "quadratic", **asdict(self)}


@dataclass(frozen=True, eq=False)
class QuantileLaw:
    """Of a quantile: the points x at which the estimated F(x) is within z of its own standard errors of the level.

    A test of F(x) = level at each x, inverted (Woodruff, "Confidence intervals for medians and other position measures", JASA
    1952): the true quantile passes it with the given probability, whatever the shape of F. Where noise makes F fall and rise
    again, the interval reaches from the first such point to the last, and covers more often.
    """

    level: float
    points: _Floats
    below: _Floats
    stderr: _Floats

    def interval(self, confidence: float) -> tuple[float, float]:
        z = -_normal_quantile((1 - check_confidence(confidence)) / 2)
        up, down = self.below + z * self.stderr - self.level, self.below - z * self.stderr - self.level
        return _first_crossing(self.points, up), _last_crossing(self.points, down)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuantileLaw) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def to_dict(self) -> dict[str, Any]:
        lists = {name: getattr(self, name).tolist() for name in ("points", "below", "stderr")}
        return {"law": "quantile", "level": self.level, **lists}


@dataclass(frozen=True)
class WidenedLaw:
    """Of a statistic of an estimate that was made consistent: the interval of the unbiased one, drawn out to hold the value."""

    value: float
    unbiased: float
    stderr: float
    law: Any = None

    def interval(self, confidence: float) -> tuple[float, float]:
        if self.law is not None:
            low, high = self.law.interval(confidence)
        else:
            reach = -_normal_quantile((1 - check_confidence(confidence)) / 2) * self.stderr
            low, high = self.unbiased - reach, self.unbiased + reach
        return min(low, self.value), max(high, self.value)

    def to_dict(self) -> dict[str, Any]:
        law = None if self.law is None else self.law.to_dict()
        return {"law": "widened", "value": self.value, "unbiased": self.unbiased, "stderr": self.stderr, "of": law}


@dataclass(frozen=True, eq=False)
class ShareLaw:
    """Of the share of one label: the interval that the whole estimate gives it."""

    estimate: Any
    place: int

    def interval(self, confidence: float) -> tuple[float, float]:
        low, high = self.estimate.interval(confidence)[self.place].tolist()
        return low, high

    def to_dict(self) -> dict[str, Any]:
        """A share by itself has the interval of an estimate with this label alone, but for strata and a curator's noise."""
        whole = self.estimate
        if whole.strata or type(whole).interval is not _plain_interval():
            raise ParameterError("law", type(whole).__name__, "goes into JSON with the whole estimate only: use its to_dict()")
        at = slice(self.place, self.place + 1)
        return {
            "law": "share",
            "share": float(whole.proportions[self.place]),
            "variance": float(whole.variance[self.place]),
            "n": whole.n,
            "population": whole.population,
            "support": None if whole.support is None else [float(side[at][0]) for side in whole.support],
            "degrees": None if whole.degrees is None else float(whole.degrees[self.place]),
            "unbiased": None if whole.unbiased is None else float(whole.unbiased[self.place]),
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> ShareLaw:
        """The law that :meth:`to_dict` described."""
        from deniable.estimation.estimate import Estimate  # noqa: PLC0415 - each needs the other

        def alone(value: float | None) -> _Floats | None:
            return None if value is None else np.array([value])

        support = document["support"]
        return cls(
            Estimate(
                labels=("",),
                proportions=np.array([document["share"]]),
                variance=np.array([document["variance"]]),
                n=document["n"],
                population=document["population"],
                support=None if support is None else (np.array(support[:1]), np.array(support[1:])),
                degrees=alone(document["degrees"]),
                unbiased=alone(document["unbiased"]),
            ),
            0,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShareLaw) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]


def _plain_interval() -> Any:
    from deniable.estimation.estimate import Estimate  # noqa: PLC0415 - each needs the other

    return Estimate.interval


def interval_law(document: Mapping[str, Any] | None) -> IntervalLaw | None:
    """The law that a `to_dict` described."""
    if document is None:
        return None
    given = {name: value for name, value in document.items() if name != "law"}
    makers: dict[str, Callable[..., IntervalLaw]] = {"quadratic": QuadraticLaw}
    if document["law"] == "quantile":
        return QuantileLaw(given.pop("level"), **{name: np.array(values) for name, values in given.items()})
    if document["law"] == "share":
        return ShareLaw.from_dict(document)
    if document["law"] == "widened":
        return WidenedLaw(given["value"], given["unbiased"], given["stderr"], interval_law(given["of"]))
    return makers[document["law"]](**given)


def _normal_quantile(level: float) -> float:
    from statistics import NormalDist  # noqa: PLC0415 - not to be taken for this package's own statistics

    return NormalDist().inv_cdf(level)


def _first_crossing(points: _Floats, heights: _Floats) -> float:
    """The first point from which on the heights, straight between points, have reached 0 once."""
    at = int(np.argmax(heights >= 0)) if np.any(heights >= 0) else heights.size - 1
    if at == 0 or heights[at] < 0:
        return float(points[at])
    rise = heights[at] - heights[at - 1]
    return float(points[at] - heights[at] / rise * (points[at] - points[at - 1]))


def _last_crossing(points: _Floats, heights: _Floats) -> float:
    """The last point at which the heights are at most 0."""
    return -_first_crossing(-points[::-1], -heights[::-1])
