"""What estimates of ordered labels are asked for: ranges, cumulative curves, quantiles, means."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from deniable.errors import ParameterError
from deniable.estimation.tables.statistic import Statistic

if TYPE_CHECKING:
    from deniable.estimation.estimate import Estimate

__all__ = ["OrderedStatistics"]

_FEWEST_PLACES = 8
"""From this many numeric labels on, a scale is summarized by its mean and quantiles."""


class OrderedStatistics:
    """Statistics of an Estimate whose labels are in order, each with the interval that the
    covariance of the whole estimate gives it."""

    labels: tuple[Hashable, ...]

    @property
    def numeric(self) -> bool:
        """Whether the labels are points of a scale, better summarized by a mean and quantiles than
        by shares."""
        return len(self.labels) >= _FEWEST_PLACES and all(
            isinstance(label, float) for label in self.labels
        )

    def summary(self) -> tuple[Statistic, ...]:
        """For numeric labels: mean, median and quartiles."""
        if not self.numeric:
            raise ParameterError(
                "labels",
                list(self.labels[:3]),
                "must be numbers of a scale for a mean and quantiles",
            )
        found = [
            self.mean(),
            *(self.quantile(level) for level in (0.5, 0.25, 0.75)),
        ]
        names = ("mean", "median", "lower quartile", "upper quartile")
        return tuple(
            dataclasses.replace(part, name=name, notes=())
            for part, name in zip(found, names, strict=True)
        )

    def range(self, start: Any = None, end: Any = None) -> Statistic:
        """The proportion of people from `start` to `end`, both included; None is the first or the
        last label.

        Of numbers, all labels between the two: for bins, those whose middle lies there. Otherwise
        both must be labels.

        >>> from deniable import DirectEncoding
        >>> survey = DirectEncoding(["never", "once", "often"], epsilon=2.0)
        >>> answers = survey.estimate(["never"] * 600 + ["once"] * 250 + ["often"] * 150)
        >>> print(answers.range("once"))
        proportion from once to often: 0.2748, 0.2301 to 0.3194 (95 %, from 1,000 reports)
        """
        statistics, subject = _statistics(), _estimate(self)
        first = 0 if start is None else self._place("start", start, upper=False)
        last = len(self.labels) - 1 if end is None else self._place("end", end, upper=True)
        if first > last:
            raise ParameterError("end", end, f"must not lie before start = {start!r}")
        found = statistics.proportion(subject, {"value": list(self.labels[first : last + 1])})
        name = f"proportion from {self.labels[first]} to {self.labels[last]}"
        named: Statistic = dataclasses.replace(found, name=name)
        return named

    def _place(self, name: str, value: Any, upper: bool) -> int:
        if all(isinstance(label, int | float) for label in self.labels):
            if isinstance(value, bool) or not isinstance(value, int | float | np.number):
                raise ParameterError(name, value, "must be a number, as the labels are")
            points = np.asarray(self.labels, dtype=np.float64)
            if np.any(np.diff(points) <= 0):
                raise ParameterError("labels", list(self.labels[:3]), "must ascend for a range")
            if upper:
                return int(points.searchsorted(value, side="right")) - 1
            return int(points.searchsorted(value, side="left"))
        if value not in self.labels:
            raise ParameterError(name, value, "must be one of the labels")
        return self.labels.index(value)

    def cdf(self) -> Estimate:
        """The cumulative curve: for each label the proportion of people with that label or an
        earlier one.

        Itself an Estimate, whose `interval(simultaneous=True)` is a band around the whole curve.
        """
        table = _statistics().whole_table(_estimate(self))
        below = np.cumsum(table.proportions)
        covariance = table.covariance_of(np.tri(below.size))
        below[-1], covariance[-1], covariance[:, -1] = 1.0, 0.0, 0.0  # everybody
        curve: Estimate = dataclasses.replace(
            _estimate(self),
            proportions=below,
            variance=np.diagonal(covariance).copy(),
            covariance=covariance,
            exclusive=False,
            support=None,
            score_law=None,
            rare=None,
            strata=(),
            unbiased=None,
            reports=None,
            degrees=None,
        )
        return curve

    def quantile(self, level: float = 0.5, **options: Any) -> Statistic:
        """The smallest value that a proportion `level` of people does not exceed, by default the
        median: :func:`deniable.quantile`."""
        found: Statistic = _statistics().quantile(_estimate(self), level, **options)
        return found

    def mean(self) -> Statistic:
        """The mean of labels that are numbers: :func:`deniable.mean`."""
        found: Statistic = _statistics().mean(_estimate(self))
        return found


def _statistics() -> Any:
    from deniable.estimation.tables import statistics  # noqa: PLC0415 - made from estimates

    return statistics


def _estimate(subject: Any) -> Any:
    """The subject, which is an Estimate, as its type does not say yet."""
    return subject
