"""The covariance of a table's cells, without ever building the matrix of cells by cells.

Every report adds an unbiased contribution x to the cells: the estimate is the mean of x over the reports. A linear functional
w of the cells is then the mean of the scores g = w . x, and the covariance of two functionals is the sample covariance of
their scores over n. So marginals, conditionals and gradients of any statistic get exact variances in one pass over the distinct
reports, whatever the number of cells.

In a finite population of U people the sampling part V_s = diag(pi) - pi pi' counts (1 - n/U) times (MATHS 1): the covariance
is the infinite one less V_s/U.

A few reports can all agree about a cell although the coins still have their error, so no cell's variance is taken to be less than
half of what the coins alone give it, whatever the truth. Given the truth, the attributes' contributions are independent, so the
product of their smallest variances is such a bound.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from operator import itemgetter, methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.attributes import Attribute
from deniable.estimation.unbias import LEAST
from deniable.results import encode

__all__ = [
    "CountedSpread",
    "DenseSpread",
    "ListedSpread",
    "Spread",
    "conditioned",
    "reshaped",
    "selected",
]

_Floats = NDArray[np.float64]

LARGEST_STATED = 1024
"""The most cells whose covariances are all stored in a document."""
_BATCH = 64
"""Functionals computed at once when each cell needs one."""
_CHUNK_NUMBERS = 1 << 20
"""Numbers in a chunk's largest array: few enough to stay near the cache, enough for NumPy's overhead to vanish."""


class Spread(ABC):
    """The estimated cells, and the covariance of any linear functionals of them."""

    proportions: _Floats
    crossed = False
    """Whether every axis was randomized separately, so that independent attributes have independent contributions."""

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
        """A JSON document; for up to `LARGEST_STATED` cells with all covariances, with and without the population."""
        cells = self.proportions.size
        known = [None] if population is None else [None, population]
        every = np.eye(cells).reshape(cells, *self.proportions.shape) if cells <= LARGEST_STATED else None
        return {
            "proportions": encode(self.proportions),
            "variance": [encode(self.variance(each)) for each in known],
            "covariance": [] if every is None else [encode(self.covariance(every, each)) for each in known],
            "crossed": self.crossed,
        }

    @staticmethod
    def from_dict(document: Mapping[str, Any]) -> Spread:
        """The spread that :meth:`to_dict` described."""
        if "counts" in document:
            inverses, coins = ([_floats(matrix) for matrix in document[name]] for name in ("inverses", "coins"))
            return CountedSpread(np.array(document["counts"], dtype=np.int64), inverses, coins)
        if "of" in document:
            return _STEPS[document["step"]](Spread.from_dict(document["of"]), document["argument"])
        proportions = _floats(document["proportions"])
        variances, covariances = ([_floats(each) for each in document[name]] for name in ("variance", "covariance"))
        return StatedSpread(proportions, variances, covariances, document["crossed"])

    def marginal(self, keep: Sequence[int]) -> Spread:
        """Of the sums over all axes but those to keep, in the order given."""
        kept = self.proportions.sum(axis=tuple(i for i in range(self.proportions.ndim) if i not in keep))
        order = np.argsort(np.argsort(keep))
        pull = partial(_spread_out, tuple(keep), self.proportions.shape)
        return DerivedCellErrors(self, kept.transpose(*order), pull, ("marginal", list(keep)))


class CountedSpread(Spread):
    """From the contingency tensor of reports: one inverse per axis, applied one after the other."""

    crossed = True

    def __init__(self, counts: NDArray[np.int64], inverses: Sequence[_Floats], coins: Sequence[_Floats] = ()) -> None:
        self.counts, self.inverses, self.coins = counts, tuple(inverses), tuple(coins)
        self.n = int(counts.sum())
        self.rate = counts / self.n
        self.proportions = _along_axes(self.rate[None], self.inverses)[0]

    def variance(self, population: int | None = None) -> _Floats:
        squares = _along_axes(self.rate[None], [inverse**2 for inverse in self.inverses])[0]
        return np.maximum(_finite_cells(squares, self.proportions, self.n, population), _floor(self.coins, self.n))

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        flat = _along_axes(weights, [inverse.T for inverse in self.inverses]).reshape(len(weights), -1)
        found = _finite((flat * self.rate.reshape(-1)) @ flat.T, weights, self.proportions, n=self.n, population=population)
        return _at_least(found, weights, _floor(self.coins, self.n))

    def to_dict(self, population: int | None = None) -> dict[str, Any]:
        parts = {"inverses": self.inverses, "coins": self.coins}
        return {"counts": self.counts.tolist(), **{name: [encode(each) for each in some] for name, some in parts.items()}}

    def marginal(self, keep: Sequence[int]) -> CountedSpread:
        # The columns of an inverse sum to 1, so summing the cells over an axis means ignoring its reports.
        order = np.argsort(np.argsort(keep))
        counts = self.counts.sum(axis=tuple(i for i in range(self.counts.ndim) if i not in keep))
        coins = [self.coins[i] for i in keep] if self.coins else ()
        return CountedSpread(counts.transpose(*order), [self.inverses[i] for i in keep], coins)


class ListedSpread(Spread):
    """From the reports themselves, if a report is not one of a few outcomes."""

    crossed = True

    def __init__(self, attributes: Sequence[Attribute]) -> None:
        self.attributes = tuple(attributes)
        self.n = attributes[0].n
        shape = tuple(len(attribute.labels) for attribute in attributes)
        half = len(shape) // 2
        self._sides = prod(shape[:half]), prod(shape[half:])
        total, squares = np.zeros(self._sides), np.zeros(self._sides)
        for left, right in self._chunks(max(self._sides)):
            total += left.T @ right
            squares += (left**2).T @ right**2
        self.proportions = (total / self.n).reshape(shape)
        self._squares = (squares / self.n).reshape(shape)
        self._coins = _floor([attribute.coins for attribute in attributes if attribute.coins is not None], self.n)

    def _chunks(self, numbers_a_report: int) -> Iterator[tuple[_Floats, _Floats]]:
        """Contributions to the first half of the axes and to the second: a cell's contribution is a product of one of each."""
        step = max(1, _CHUNK_NUMBERS // numbers_a_report)
        half = len(self.attributes) // 2
        for start in range(0, self.n, step):
            rows = slice(start, min(start + step, self.n))
            parts = [attribute.contributions(rows) for attribute in self.attributes]
            yield _products(parts[:half], rows.stop - start), _products(parts[half:], rows.stop - start)

    def variance(self, population: int | None = None) -> _Floats:
        return np.maximum(_finite_cells(self._squares, self.proportions, self.n, population), self._coins)

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        m = len(weights)
        n_left, n_right = self._sides
        by_left = weights.reshape(m, n_left, n_right).transpose(1, 0, 2).reshape(n_left, m * n_right)
        moments = np.zeros((m, m))
        for left, right in self._chunks(m * n_right + n_left):
            scores = np.einsum("nmr,nr->nm", (left @ by_left).reshape(-1, m, n_right), right)
            moments += scores.T @ scores
        found = _finite(moments / self.n, weights, self.proportions, n=self.n, population=population)
        return _at_least(found, weights, self._coins)

    def marginal(self, keep: Sequence[int]) -> ListedSpread:
        return ListedSpread([self.attributes[i] for i in keep])


class DenseSpread(Spread):
    """From a covariance matrix of the cells that is known already, for an infinite population."""

    def __init__(self, proportions: _Floats, variance: _Floats, covariance: _Floats | None) -> None:
        self.proportions, self._variance, self._covariance = proportions, variance, covariance

    def variance(self, population: int | None = None) -> _Floats:
        shares = np.clip(self.proportions, 0, 1)
        sampling = 0.0 if population is None else shares * (1 - shares) / population
        return np.maximum(self._variance - sampling, LEAST * self._variance)

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        if self._covariance is None:
            raise ParameterError(
                "cells",
                self.proportions.size,
                "are too many for an Estimate to keep their covariance: make the table with joint()",
            )
        flat = weights.reshape(len(weights), -1)
        infinite = flat @ self._covariance @ flat.T
        found = _less_sampling(infinite, weights, self.proportions, population)
        np.fill_diagonal(found, np.maximum(np.diagonal(found), LEAST * np.diagonal(infinite)))
        return found


class StatedSpread(Spread):
    """For a table read from a document: its covariances in an infinite population, then in its own."""

    def __init__(self, proportions: _Floats, variances: Sequence[_Floats], covariances: Sequence[_Floats], crossed: bool) -> None:
        self.proportions, self._variances, self._covariances, self.crossed = proportions, variances, covariances, crossed

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
                "cells", self.proportions.size, f"are more than the {LARGEST_STATED} whose covariances are stored"
            )
        flat, known = weights.reshape(len(weights), -1), self._covariances[0 if population is None else -1]
        unknown = np.isnan(np.diagonal(known))  # cells of empty conditions must not affect the others
        found = flat @ np.where(unknown | unknown[:, None], 0, known) @ flat.T
        touched = (flat[:, unknown] != 0).any(axis=1)
        found[touched | touched[:, None]] = np.nan
        np.fill_diagonal(found, np.maximum(np.diagonal(found), 0))
        return np.asarray(found)


class DerivedCellErrors(Spread):
    """For cells that are (to first order) linear in those of another table: their functionals are functionals of that table."""

    def __init__(self, parent: Spread, proportions: _Floats, pull: Callable[[_Floats], _Floats], step: tuple[str, Any]) -> None:
        self.parent, self.proportions, self.pull, self.step = parent, proportions, pull, step

    def to_dict(self, population: int | None = None) -> dict[str, Any]:
        return {"of": self.parent.to_dict(population), "step": self.step[0], "argument": self.step[1]}

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        return self.parent.covariance(self.pull(weights), population)


class RearrangedSpread(DerivedCellErrors):
    """For cells that are cells of another table in other places, found by `view`."""

    def __init__(
        self, parent: Spread, view: Callable[[_Floats], _Floats], pull: Callable[[_Floats], _Floats], step: tuple[str, Any]
    ) -> None:
        super().__init__(parent, view(parent.proportions), pull, step)
        self.view = view

    def variance(self, population: int | None = None) -> _Floats:
        return self.view(self.parent.variance(population))


def selected(parent: Spread, place: tuple[int | slice, ...]) -> Spread:
    """Of the cells at `place`, an index of the tensor of cells."""
    step = ("selected", [None if isinstance(where, slice) else where for where in place])
    return RearrangedSpread(parent, itemgetter(place), partial(_embed, place, parent.proportions.shape), step)


def conditioned(parent: Spread, n_given: int) -> Spread:
    """For each cell divided by the sum of those that agree with it on the first `n_given` axes, by the delta method.

    With p = pi/S, dp = (dpi - p dS)/S. Where S is not positive, p is NaN.
    """
    of = tuple(range(n_given, parent.proportions.ndim))
    totals = parent.proportions.sum(axis=of, keepdims=True)
    known = np.where(totals > 0, totals, np.nan)
    shares = parent.proportions / known
    return DerivedCellErrors(parent, shares, partial(_divide, shares, known, of), ("conditioned", n_given))


def reshaped(parent: Spread, shape: tuple[int, ...]) -> Spread:
    """For the same cells in another shape."""
    pull = partial(_arrange, parent.proportions.shape)
    return RearrangedSpread(parent, methodcaller("reshape", shape), pull, ("reshaped", list(shape)))


_STEPS: dict[str, Callable[[Spread, Any], Spread]] = {
    "marginal": lambda parent, keep: parent.marginal(keep),
    "selected": lambda parent, place: selected(parent, tuple(slice(None) if at is None else at for at in place)),
    "conditioned": conditioned,
    "reshaped": lambda parent, shape: reshaped(parent, tuple(shape)),
}
"""How one table is made from another, under the names used in documents."""


def _floats(numbers: Any) -> _Floats:
    return np.array(numbers, dtype=np.float64)


def _spread_out(keep: tuple[int, ...], shape: tuple[int, ...], weights: _Floats) -> _Floats:
    order = np.argsort(keep)
    ascending = weights.transpose(0, *(1 + order))
    dropped = tuple(1 + i for i in range(len(shape)) if i not in keep)
    return np.broadcast_to(np.expand_dims(ascending, dropped), (len(weights), *shape))


def _embed(place: tuple[int | slice, ...], shape: tuple[int, ...], weights: _Floats) -> _Floats:
    out = np.zeros((len(weights), *shape))
    out[(slice(None), *place)] = weights
    return out


def _divide(shares: _Floats, totals: _Floats, of: tuple[int, ...], weights: _Floats) -> _Floats:
    of = tuple(1 + axis for axis in of)
    touched = weights != 0  # the NaN of an unused row must not affect the others
    mean = np.where(touched, weights * shares, 0).sum(axis=of, keepdims=True)
    present = touched.any(axis=of, keepdims=True)
    return np.where(present, (weights - mean) / totals, 0)


def _arrange(shape: tuple[int, ...], weights: _Floats) -> _Floats:
    return weights.reshape(-1, *shape)


def _along_axes(tensors: _Floats, matrices: Sequence[_Floats]) -> _Floats:
    """Multiply each axis of each tensor by its matrix: what the Kronecker product of the matrices would do, never built.

    The first axis goes through its matrix and comes out last, so after one round all axes are back in order.
    """
    n_tensors = len(tensors)
    turned = tensors.reshape(n_tensors, -1).T
    for matrix in matrices:
        turned = turned.reshape(matrix.shape[1], -1).T @ matrix.T
    return turned.reshape(n_tensors, *(len(matrix) for matrix in matrices))


def _products(parts: Sequence[_Floats], n: int) -> _Floats:
    """For each report, all products of one number from each part: the rows' Kronecker products."""
    out = np.ones((n, 1))
    for part in parts:
        out = (out[:, :, None] * part[:, None, :]).reshape(n, -1)
    return out


def _floor(coins: Sequence[_Floats], n: int) -> _Floats:
    """The smallest variance that the coins give each cell; 0 if not known."""
    if not coins:
        return np.zeros(())
    out = np.ones(())
    for part in coins:
        out = np.multiply.outer(out, part)
    return np.asarray(out / (2 * n), dtype=np.float64)


def _at_least(covariance: _Floats, weights: _Floats, floor: _Floats) -> _Floats:
    """The covariance, with the variances of single-cell functionals raised to the cells' minimum."""
    flat = weights.reshape(len(weights), -1)
    single = np.flatnonzero(np.count_nonzero(flat, axis=1) == 1)
    cells = np.abs(flat[single]).argmax(axis=1)
    least = flat[single, cells] ** 2 * np.broadcast_to(floor, weights.shape[1:]).reshape(-1)[cells]
    covariance[single, single] = np.maximum(covariance[single, single], least)
    return covariance


def _finite_cells(squares: _Floats, proportions: _Floats, n: int, population: int | None) -> _Floats:
    """Variances of the cells from the mean squares of their contributions."""
    variance = (squares - proportions**2) / max(n - 1, 1)
    if population is not None:
        shares = np.clip(proportions, 0, 1)
        variance -= shares * (1 - shares) / population
    return np.maximum(variance, 0)


def _finite(moments: _Floats, weights: _Floats, proportions: _Floats, n: int, population: int | None) -> _Floats:
    """Covariance of functionals from the mean products of their scores."""
    means = weights.reshape(len(weights), -1) @ proportions.reshape(-1)
    covariance = (moments - np.outer(means, means)) / max(n - 1, 1)
    return _less_sampling(covariance, weights, proportions, population)


def _less_sampling(covariance: _Floats, weights: _Floats, proportions: _Floats, population: int | None) -> _Floats:
    """Remove the sampling error that a finite population does not have."""
    if population is not None:
        flat, shares = weights.reshape(len(weights), -1), proportions.reshape(-1)
        sampling = (flat * shares) @ flat.T - np.outer(flat @ shares, flat @ shares)
        # Estimated shares below 0 can make a sampling variance negative, which is impossible.
        np.fill_diagonal(sampling, np.maximum(np.diagonal(sampling), 0))
        covariance = covariance - sampling / population
    np.fill_diagonal(covariance, np.maximum(np.diagonal(covariance), 0))
    return covariance
