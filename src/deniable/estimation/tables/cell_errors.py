"""The covariance of a table's cells, without ever building the matrix of cells by cells.

Every report adds an unbiased contribution x to the cells: the estimate is the mean of x over the
reports. A linear functional w of the cells is then the mean of the scores g = w . x, and the
covariance of two functionals is the sample covariance of their scores over n. So marginals,
conditionals and gradients of any statistic get exact variances in one pass over the distinct
reports, whatever the number of cells.

In a finite population of U people the sampling part V_s = diag(pi) - pi pi' counts (1 - n/U) times
(docs/estimation.md): the covariance is the infinite one less V_s/U.

A few reports can all agree about a cell although the coins still have their error, so no cell's
variance is taken to be less than half of what the coins alone give it, whatever the truth. Given
the truth, the attributes' contributions are independent, so the product of their smallest variances
is such a bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from operator import itemgetter, methodcaller
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.tables.cell_moments import (
    divide_by_condition,
    embed,
    less_sampling,
    spread_out,
)
from deniable.estimation.unbias import LEAST
from deniable.results import encode

__all__ = [
    "CellErrors",
    "DenseCellErrors",
    "TableFields",
    "conditioned",
    "dense_errors",
    "reshaped",
    "selected",
]

_Floats = NDArray[np.float64]

LARGEST_STATED = 1024
"""The most cells whose covariances are all stored in a document."""
_BATCH = 64
"""Functionals computed at once when each cell needs one."""


class TableFields(TypedDict):
    """What the document of a table has besides its fields: figures in lists within lists, one
    level per axis."""

    spread: dict[str, Any]
    """The errors of the cells, as :class:`Table` reads them back."""
    estimate: list[Any]
    stderr: list[Any]
    low: list[Any]
    high: list[Any]
    confidence: float


class CellErrors(ABC):
    """The estimated cells, and the covariance of any linear functionals of them."""

    proportions: _Floats
    crossed = False
    """Whether every axis was randomized separately, so that independent attributes have independent
    contributions."""

    @abstractmethod
    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        """Of the functionals in the rows of `weights`, an array of (functionals, *cells)."""

    def variance(self, population: int | None = None) -> _Floats:
        """Of each cell."""
        shape = self.proportions.shape
        cells = prod(shape)
        out = np.empty(cells)
        for start in range(0, cells, _BATCH):
            some = np.arange(start, min(start + _BATCH, cells))
            weights = np.zeros((some.size, cells))
            weights[np.arange(some.size), some] = 1
            out[some] = np.diagonal(self.covariance(weights.reshape(-1, *shape), population))
        return out.reshape(shape)

    def to_dict(self, population: int | None = None) -> dict[str, Any]:
        """A JSON document; for up to `LARGEST_STATED` cells with all covariances, with and without
        the population."""
        cells = self.proportions.size
        known = [None] if population is None else [None, population]
        every = (
            np.eye(cells).reshape(cells, *self.proportions.shape)
            if cells <= LARGEST_STATED
            else None
        )
        return {
            "proportions": encode(self.proportions),
            "variance": [encode(self.variance(each)) for each in known],
            "covariance": (
                [] if every is None else [encode(self.covariance(every, each)) for each in known]
            ),
            "crossed": self.crossed,
        }

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> CellErrors:
        """The spread that :meth:`to_dict` described."""
        if "counts" in document:
            from deniable.estimation.tables.counted_cells import CountedCellErrors  # noqa: PLC0415 - a cycle

            inverses, coins = (
                [_floats(matrix) for matrix in document[name]] for name in ("inverses", "coins")
            )
            return CountedCellErrors(np.array(document["counts"], dtype=np.int64), inverses, coins)
        if "of" in document:
            return _STEPS[document["step"]](
                CellErrors.from_dict(document["of"]), document["argument"]
            )
        proportions = _floats(document["proportions"])
        variances, covariances = (
            [_floats(each) for each in document[name]] for name in ("variance", "covariance")
        )
        return StatedCellErrors(proportions, variances, covariances, document["crossed"])

    def marginal(self, keep: Sequence[int]) -> CellErrors:
        """Of the sums over all axes but those to keep, in the order given."""
        kept = self.proportions.sum(
            axis=tuple(i for i in range(self.proportions.ndim) if i not in keep)
        )
        order = np.argsort(np.argsort(keep))
        pull = partial(spread_out, tuple(keep), self.proportions.shape)
        return DerivedCellErrors(self, kept.transpose(*order), pull, ("marginal", list(keep)))


class DenseCellErrors(CellErrors):
    """From a covariance matrix of the cells that is known already, for an infinite population."""

    def __init__(self, proportions: _Floats, variance: _Floats, covariance: _Floats | None) -> None:
        self.proportions, self._variance, self._covariance = proportions, variance, covariance

    def variance(self, population: int | None = None) -> _Floats:
        proportions = np.clip(self.proportions, 0, 1)
        sampling = 0.0 if population is None else proportions * (1 - proportions) / population
        return np.maximum(self._variance - sampling, LEAST * self._variance)

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        if self._covariance is None:
            raise ParameterError(
                "cells",
                self.proportions.size,
                message=(
                    f"{self.proportions.size} cells are too many for an Estimate to keep their"
                    " covariance: make the table with joint()"
                ),
            )
        flat = weights.reshape(len(weights), -1)
        infinite = flat @ self._covariance @ flat.T
        found = less_sampling(infinite, weights, self.proportions, population)
        np.fill_diagonal(found, np.maximum(np.diagonal(found), LEAST * np.diagonal(infinite)))
        return found


def dense_errors(estimate: Estimate) -> DenseCellErrors:
    """The estimate's errors in an infinite population, shifted so that its proportions sum to 1."""
    proportions, variance, covariance = estimate.proportions, estimate.variance, estimate.covariance
    k = proportions.size
    if estimate.population is not None:  # undo `finite`
        clipped = np.clip(proportions, 0, 1)
        variance = variance + clipped * (1 - clipped) / estimate.population
        if covariance is not None:
            covariance = covariance - np.outer(clipped, clipped) / estimate.population
            np.fill_diagonal(covariance, variance)
    proportions = proportions + (1 - proportions.sum()) / k
    if covariance is not None:
        covariance = covariance - covariance.mean(axis=0)
        covariance = covariance - covariance.mean(axis=1, keepdims=True)
        variance = np.diagonal(covariance).copy()
    return DenseCellErrors(proportions, variance, covariance)


class StatedCellErrors(CellErrors):
    """For a table read from a document: its covariances in an infinite population, then in its
    own."""

    def __init__(
        self,
        proportions: _Floats,
        variances: Sequence[_Floats],
        covariances: Sequence[_Floats],
        crossed: bool,
    ) -> None:
        self.proportions, self._variances, self._covariances, self.crossed = (
            proportions,
            variances,
            covariances,
            crossed,
        )

    def to_dict(self, population: int | None = None) -> dict[str, Any]:
        return {
            "proportions": encode(self.proportions),
            "variance": [encode(each) for each in self._variances],
            "covariance": [encode(each) for each in self._covariances],
            "crossed": self.crossed,
        }

    def variance(self, population: int | None = None) -> _Floats:
        return self._variances[0 if population is None else -1].copy()

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        if not self._covariances:
            raise ParameterError(
                "cells",
                self.proportions.size,
                message=(
                    f"covariances of {self.proportions.size} cells are not stored: the most is"
                    f" {LARGEST_STATED}"
                ),
            )
        flat, known = (
            weights.reshape(len(weights), -1),
            self._covariances[0 if population is None else -1],
        )
        # cells of empty conditions must not affect the others
        unknown = np.isnan(np.diagonal(known))
        found = flat @ np.where(unknown | unknown[:, None], 0, known) @ flat.T
        touched = (flat[:, unknown] != 0).any(axis=1)
        found[touched | touched[:, None]] = np.nan
        np.fill_diagonal(found, np.maximum(np.diagonal(found), 0))
        return np.asarray(found)


class DerivedCellErrors(CellErrors):
    """For cells that are (to first order) linear in those of another table: their functionals are
    functionals of that table."""

    def __init__(
        self,
        parent: CellErrors,
        proportions: _Floats,
        pull: Callable[[_Floats], _Floats],
        step: tuple[str, Any],
    ) -> None:
        self.parent, self.proportions, self.pull, self.step = parent, proportions, pull, step

    def to_dict(self, population: int | None = None) -> dict[str, Any]:
        return {
            "of": self.parent.to_dict(population),
            "step": self.step[0],
            "argument": self.step[1],
        }

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        return self.parent.covariance(self.pull(weights), population)


class RearrangedCellErrors(DerivedCellErrors):
    """For cells that are cells of another table in other places, found by `view`."""

    def __init__(
        self,
        parent: CellErrors,
        view: Callable[[_Floats], _Floats],
        pull: Callable[[_Floats], _Floats],
        step: tuple[str, Any],
    ) -> None:
        super().__init__(parent, view(parent.proportions), pull, step)
        self.view = view

    def variance(self, population: int | None = None) -> _Floats:
        return self.view(self.parent.variance(population))


def selected(parent: CellErrors, place: tuple[int | slice, ...]) -> CellErrors:
    """Of the cells at `place`, an index of the tensor of cells."""
    step = ("selected", [None if isinstance(where, slice) else where for where in place])
    return RearrangedCellErrors(
        parent, itemgetter(place), partial(embed, place, parent.proportions.shape), step
    )


def conditioned(parent: CellErrors, n_given: int) -> CellErrors:
    """For each cell divided by the sum of those that agree with it on the first `n_given` axes, by
    the delta method.

    With p = pi/S, dp = (dpi - p dS)/S. Where S is not positive, p is NaN.
    """
    of = tuple(range(n_given, parent.proportions.ndim))
    totals = parent.proportions.sum(axis=of, keepdims=True)
    known = np.where(totals > 0, totals, np.nan)
    proportions = parent.proportions / known
    return DerivedCellErrors(
        parent,
        proportions,
        partial(divide_by_condition, proportions, known, of),
        ("conditioned", n_given),
    )


def reshaped(parent: CellErrors, shape: tuple[int, ...]) -> CellErrors:
    """For the same cells in another shape."""
    pull = partial(_arrange, parent.proportions.shape)
    return RearrangedCellErrors(
        parent, methodcaller("reshape", shape), pull, ("reshaped", list(shape))
    )


_STEPS: dict[str, Callable[[CellErrors, Any], CellErrors]] = {
    "marginal": lambda parent, keep: parent.marginal(keep),
    "selected": lambda parent, place: selected(
        parent, tuple(slice(None) if at is None else at for at in place)
    ),
    "conditioned": conditioned,
    "reshaped": lambda parent, shape: reshaped(parent, tuple(shape)),
}
"""How one table is made from another, under the names used in documents."""


def _floats(numbers: Any) -> _Floats:
    return np.array(numbers, dtype=np.float64)


def _arrange(shape: tuple[int, ...], weights: _Floats) -> _Floats:
    return weights.reshape(-1, *shape)
