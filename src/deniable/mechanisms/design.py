"""Design matrices: any channel from k values to reports, drawn exactly (Wang, Wu and Hu 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.unbias import Moments, left_inverse, matrix_moments
from deniable.mechanisms import exact
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.values import IndexReports, ValueReports
from deniable.randomness import ONE, Source

__all__ = ["DesignMatrix", "MatrixMechanism"]


class MatrixMechanism(IndexReports):
    """Draws from a matrix of integer weights, one column a value, each column summing to 2**64."""

    _columns: tuple[tuple[int, ...], ...]
    _thresholds: NDArray[np.uint64]
    _matrix: NDArray[np.float64]
    _inverse: NDArray[np.float64]

    def _settle(self, domain: Domain, columns: Sequence[Sequence[int]]) -> None:
        """Take the integer columns, and derive what follows from them."""
        matrix = np.array([[weight / ONE for weight in column] for column in columns]).T
        self._set(
            domain=domain,
            _columns=tuple(map(tuple, columns)),
            _thresholds=exact.thresholds(columns),
            _matrix=matrix,
            _inverse=_invert(matrix),
            epsilon=exact.matrix_epsilon(columns),
        )

    @property
    def n_outputs(self) -> int:
        return len(self._matrix)

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        return source.pick(self._thresholds, indices).astype(self.layout[0])

    def solve(self, counts: NDArray[np.int64], n: int) -> Moments:
        return matrix_moments(counts, n, self._inverse)

    def channel(self) -> NDArray[np.float64]:
        """P[report, value]."""
        return self._matrix.copy()


@dataclass(frozen=True, eq=False, repr=False)
class DesignMatrix(MatrixMechanism, ValueReports):
    """Randomize with a matrix of your own: `P[u][v]` is the probability of reporting u when the truth is v.

    Columns sum to 1, every entry is positive, and the matrix can be inverted: the estimate is P^-1 times the reported
    proportions, with covariance P^-1 (diag(lam) - lam lam') P^-T / (n - 1) (Wang, Wu and Hu 2016, section 3).
    `k` may give the labels.

    >>> DesignMatrix([[0.8, 0.3], [0.2, 0.7]], k=["sick", "well"]).labels
    ('sick', 'well')
    """

    P: Any
    k: Any = None

    def __post_init__(self) -> None:
        matrix = _check_matrix(self.P)
        size = len(matrix)
        domain = Domain.of(size if self.k is None else self.k)
        if len(domain) != size:
            raise ParameterError("k", self.k, f"must name the {size} values of the matrix")
        columns = exact.integer_columns([[Fraction(x) for x in column] for column in matrix.T.tolist()])
        self._set(P=matrix, k=size)
        self._settle(domain, columns)

    def parameters(self) -> dict[str, Any]:
        return {"P": self.P.tolist(), "k": self.domain.spec()}


def _check_matrix(given: Any) -> NDArray[np.float64]:
    try:
        matrix = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("P", given, "must be a square matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ParameterError("P", matrix.shape, "must be a square matrix, at least 2 by 2")
    if not np.all((matrix > 0) & (matrix < 1)):
        raise ParameterError(
            "P", given, "must have entries strictly between 0 and 1: a report that some value excludes identifies"
        )
    sums = matrix.sum(axis=0)
    if np.any(np.abs(sums - 1) > 1e-9):
        worst = int(np.abs(sums - 1).argmax())
        raise ParameterError("P", float(sums[worst]), f"is the sum of column {worst}, which must be 1")
    return matrix


def _invert(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    if np.linalg.matrix_rank(matrix) < matrix.shape[1]:
        raise ParameterError("P", matrix.shape, "cannot be inverted: different populations would look the same")
    return left_inverse(matrix)
