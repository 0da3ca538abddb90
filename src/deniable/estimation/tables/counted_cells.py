"""Errors of cells that were estimated from reports: from their contingency tensor, or one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.tables.attributes import Attribute
from deniable.estimation.tables.cell_errors import CellErrors
from deniable.estimation.tables.cell_moments import (
    along_axes,
    cell_variances,
    functional_covariance,
    least_variance,
    raise_to_least,
    row_products,
)
from deniable.results import encode

__all__ = ["CountedCellErrors", "ListedCellErrors"]

_Floats = NDArray[np.float64]


_CHUNK_NUMBERS = 1 << 20
"""Numbers in a chunk's largest array: few enough to stay near the cache, enough for NumPy's
overhead to vanish."""


class CountedCellErrors(CellErrors):
    """From the contingency tensor of reports: one inverse per axis, applied one after the other."""

    crossed = True

    def __init__(
        self, counts: NDArray[np.int64], inverses: Sequence[_Floats], coins: Sequence[_Floats] = ()
    ) -> None:
        self.counts, self.inverses, self.coins = counts, tuple(inverses), tuple(coins)
        self.n = int(counts.sum())
        self.rate = counts / self.n
        self.proportions = along_axes(self.rate[None], self.inverses)[0]

    def variance(self, population: int | None = None) -> _Floats:
        squares = along_axes(self.rate[None], [inverse**2 for inverse in self.inverses])[0]
        return np.maximum(
            cell_variances(squares, self.proportions, self.n, population),
            least_variance(self.coins, self.n),
        )

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        flat = along_axes(weights, [inverse.T for inverse in self.inverses]).reshape(
            len(weights), -1
        )
        found = functional_covariance(
            (flat * self.rate.reshape(-1)) @ flat.T,
            weights,
            self.proportions,
            n=self.n,
            population=population,
        )
        return raise_to_least(found, weights, least_variance(self.coins, self.n))

    def to_dict(self, population: int | None = None) -> dict[str, Any]:
        parts = {"inverses": self.inverses, "coins": self.coins}
        return {
            "counts": self.counts.tolist(),
            **{name: [encode(each) for each in some] for name, some in parts.items()},
        }

    def marginal(self, keep: Sequence[int]) -> CountedCellErrors:
        # The columns of an inverse sum to 1, so summing the cells over an axis means ignoring its
        # reports.
        order = np.argsort(np.argsort(keep))
        counts = self.counts.sum(axis=tuple(i for i in range(self.counts.ndim) if i not in keep))
        coins = [self.coins[i] for i in keep] if self.coins else ()
        return CountedCellErrors(counts.transpose(*order), [self.inverses[i] for i in keep], coins)


class ListedCellErrors(CellErrors):
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
        self._coins = least_variance(
            [attribute.coins for attribute in attributes if attribute.coins is not None], self.n
        )

    def _chunks(self, numbers_a_report: int) -> Iterator[tuple[_Floats, _Floats]]:
        """Contributions to the first half of the axes and to the second: a cell's contribution is a
        product of one of each."""
        step = max(1, _CHUNK_NUMBERS // numbers_a_report)
        half = len(self.attributes) // 2
        for start in range(0, self.n, step):
            rows = slice(start, min(start + step, self.n))
            parts = [attribute.contributions(rows) for attribute in self.attributes]
            yield (
                row_products(parts[:half], rows.stop - start),
                row_products(parts[half:], rows.stop - start),
            )

    def variance(self, population: int | None = None) -> _Floats:
        return np.maximum(
            cell_variances(self._squares, self.proportions, self.n, population), self._coins
        )

    def covariance(self, weights: _Floats, population: int | None = None) -> _Floats:
        m = len(weights)
        n_left, n_right = self._sides
        by_left = (
            weights.reshape(m, n_left, n_right).transpose(1, 0, 2).reshape(n_left, m * n_right)
        )
        moments = np.zeros((m, m))
        for left, right in self._chunks(m * n_right + n_left):
            scores = np.einsum("nmr,nr->nm", (left @ by_left).reshape(-1, m, n_right), right)
            moments += scores.T @ scores
        found = functional_covariance(
            moments / self.n, weights, self.proportions, n=self.n, population=population
        )
        return raise_to_least(found, weights, self._coins)

    def marginal(self, keep: Sequence[int]) -> ListedCellErrors:
        return ListedCellErrors([self.attributes[i] for i in keep])
