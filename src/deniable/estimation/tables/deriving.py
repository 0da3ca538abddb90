"""What all derived statistics use: the delta method, tables whose cells sum to 1, scores of labels."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.interval_laws import (
    WidenedLaw,
)
from deniable.estimation.simplex import project
from deniable.estimation.tables.statistic import Statistic
from deniable.estimation.tables.table import Table

__all__ = [
    "PROJECTED",
    "Axes",
    "Derive",
    "Subject",
    "axis_names",
    "check_base",
    "delta_statistic",
    "label_scores",
    "marginal_table",
    "of_unbiased",
    "proper_proportions",
    "score_variance",
    "scored_table",
    "whole_table",
]

_Floats = NDArray[np.float64]


Subject = Table | Estimate
Axes = str | tuple[str, ...]
Derive = TypeVar("Derive", bound=Callable[..., Statistic])


PROJECTED = (
    "projected onto the simplex first because some estimated proportions were negative: biased, and"
    " its"
    " interval does not cover the bias"
)


def of_unbiased(derive: Derive) -> Derive:
    """For a consistent estimate: its value, and the interval of the unbiased one, extended to
    contain it."""

    @functools.wraps(derive)
    def derived_statistic(subject: Subject, *arguments: Any, **options: Any) -> Statistic:
        found = derive(subject, *arguments, **options)
        if not isinstance(subject, Estimate) or subject.unbiased is None:
            return found
        honest = derive(subject.without_bias(), *arguments, **options)
        law = WidenedLaw(found.value, honest.value, honest.stderr, honest.law)
        return replace(
            found, stderr=honest.stderr, law=None if honest.biased else law, biased=honest.biased
        )

    return derived_statistic  # type: ignore[return-value]


def delta_statistic(
    table: Table, value: float, gradient: _Floats, name: str, notes: tuple[str, ...] = ()
) -> Statistic:
    """A statistic by the delta method, from its value and its gradient by the cells."""
    stderr = math.sqrt(table.covariance_of(gradient.reshape(1, *table.shape))[0, 0])
    return Statistic(
        name, float(value), stderr, table.n, (*table.notes, *notes), biased=PROJECTED in notes
    )


def whole_table(subject: Subject) -> Table:
    """The subject as a table of proportions that sum to 1."""
    table = Table.of(subject) if isinstance(subject, Estimate) else subject
    total = float(table.proportions.sum())
    if not abs(total - 1) < 1e-6:
        raise ParameterError(
            "total",
            total,
            message=(
                f"the table's proportions sum to {total!r}, not 1: for a slice or a conditional use"
                " given(...)"
            ),
        )
    return table


def marginal_table(subject: Subject, axes: Axes | None) -> Table:
    """The subject as a table of some axes, or of all."""
    table = whole_table(subject)
    return table if axes is None else table.marginal(*axis_names(axes))


def proper_proportions(
    table: Table, always: bool = True, bad: Callable[[_Floats], bool] = lambda p: False
) -> tuple[_Floats, Callable[[_Floats], _Floats], tuple[str, ...]]:
    """The proportions, projected if the statistic needs it; the projection's effect on the
    gradient; and the notes."""
    proportions = table.proportions
    if not (bad(proportions) or (always and proportions.min() < 0)):
        return proportions, lambda gradient: gradient, ()
    proportions = project(proportions.reshape(-1)).reshape(proportions.shape)
    kept = proportions > 0

    def back(gradient: _Floats) -> _Floats:
        return np.where(kept, gradient - gradient[kept].mean(), 0.0)

    return proportions, back, (PROJECTED,)


def scored_table(
    subject: Subject, axis: str | None, scores: Sequence[float] | _Floats | None
) -> tuple[Table, _Floats]:
    """The subject as a table of one axis, and a score for each of its labels."""
    table = marginal_table(subject, axis)
    if len(table.axes) != 1:
        raise ParameterError("axis", axis, f"must be one of {', '.join(table.axes)}")
    return table, label_scores(table, 0, scores)


def label_scores(table: Table, axis: int, scores: Sequence[float] | _Floats | None) -> _Floats:
    """A score for each label of an axis: those given, else the labels, if they are numbers."""
    name, labels = table.axes[axis], table.labels[axis]
    given = labels if scores is None else scores
    if scores is None and not all(isinstance(label, int | float) for label in labels):
        raise ParameterError(
            "scores", None, f"must be given, because the labels of {name!r} are not numbers"
        )
    values = np.asarray(given, dtype=np.float64)
    if values.shape != (len(labels),) or not np.all(np.isfinite(values)):
        raise ParameterError(
            "scores", scores, f"must be {len(labels)} finite numbers, one per label of {name!r}"
        )
    return values


def score_variance(values: _Floats, proportions: _Floats) -> float:
    """The variance of the scores under these proportions."""
    return float(((values - values @ proportions) ** 2) @ proportions)


def check_base(base: float) -> float:
    """The base of a logarithm, checked."""
    if not base > 1:
        raise ParameterError("base", base, "must exceed 1")
    return base


def axis_names(axes: Axes) -> tuple[str, ...]:
    """One name of an axis or several, as a tuple."""
    return (axes,) if isinstance(axes, str) else tuple(axes)
