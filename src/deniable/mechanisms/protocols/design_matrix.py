"""Design matrices: any channel from k values to reports, drawn exactly (Wang, Wu and Hu 2016)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.matrices import left_inverse
from deniable.mechanisms import exact, solving
from deniable.mechanisms.blankets import Blanket, matrix_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.reports import require_reports
from deniable.mechanisms.values import IndexReports, ValueReports
from deniable.randomness import Source

__all__ = ["DesignMatrix", "MatrixMechanism"]

LARGEST_MATRIX = 4096
"""The most values; beyond this a matrix would take gigabytes."""


class MatrixMechanism(IndexReports):
    """Draws from a matrix of integer weights, one column per value, each column summing to
    2**64."""

    ESTIMATORS: ClassVar[tuple[str, ...]] = ("inverse", "em", "ems")
    ESTIMATOR: ClassVar[str] = "inverse"
    """The default estimator."""

    _thresholds: NDArray[np.uint64]
    _matrix: NDArray[np.float64]
    _inverse: NDArray[np.float64]

    def _derive(self, domain: Domain, columns: exact.Columns, blame: str = "P") -> None:
        """Set the integer columns and what derives from them.

        `blame` is the parameter to name if they have no inverse.
        """
        weights = np.asarray(columns, dtype=np.uint64)
        matrix = np.ascontiguousarray(np.ldexp(weights.T.astype(np.float64), -64))
        inverse = _invert(matrix)
        if inverse is None:
            value = matrix.shape if blame == "P" else getattr(self, blame)
            raise ParameterError(
                blame,
                value,
                "gives a matrix that cannot be inverted: different populations would look the same",
            )
        self._set(
            domain=domain,
            _thresholds=exact.thresholds(weights),
            _matrix=matrix,
            _inverse=inverse,
            epsilon=exact.matrix_epsilon(weights),
        )

    @property
    def n_outputs(self) -> int:
        return len(self._matrix)

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        return source.pick(self._thresholds, indices).astype(self.layout[0])

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        return solving.matrix_moments(counts, n, self._inverse, self._matrix)

    def blanket(self) -> Blanket:
        return matrix_blanket(self._matrix)

    def contribution_ranges(self) -> NDArray[np.float64]:
        return np.asarray(np.ptp(self._inverse, axis=1), dtype=np.float64)

    def estimate(
        self, reports: Any, population: int | None = None, estimator: str | None = None
    ) -> solving.Estimate:
        """What reports (or a tally, or several of either in a list) say about the population.

        `estimator` is "inverse" (usually the default): unbiased, P^-1 times the reported
        proportions; "em": the most likely distribution (:mod:`deniable.estimation.em`); or "ems":
        the same with neighbours averaged at each step, for ordered values. The last two give a
        proper distribution and are biased, as the estimate's notes say; their intervals are those
        of the unbiased one.
        """
        estimator = self.ESTIMATOR if estimator is None else estimator
        if estimator not in self.ESTIMATORS:
            raise ParameterError(
                "estimator", estimator, f"must be one of {', '.join(map(repr, self.ESTIMATORS))}"
            )
        tally = self.gather(reports)
        n = require_reports(tally.n)
        population = solving.check_population(population, n)
        moments = solving.finite(self.solve(tally.counts, n), population)
        if estimator == "inverse":
            return self.describe(moments, n, population)
        proportions, note = self._biased(estimator, tally.counts)
        unbiased = self.describe(
            moments, n, population, [f"{note}; intervals are those of the unbiased estimate"]
        )
        return dataclasses.replace(unbiased, proportions=proportions, unbiased=moments[0])

    def _biased(self, estimator: str, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], str]:
        """The proportions of one of the other estimators, and a note on its bias."""
        fit = solving.em.fit(counts, self._matrix, smooth=estimator == "ems")
        if estimator == "ems":
            return (
                fit.proportions,
                "maximum likelihood with smoothing (EMS): biased towards smooth distributions",
            )
        within = f"log-likelihood within {fit.shortfall:.1g} of its maximum"
        return (
            fit.proportions,
            f"maximum likelihood (EM), {within}: biased, because it stays on the simplex",
        )

    def describe(
        self, moments: solving.Moments, n: int, population: int | None, notes: Any = ()
    ) -> solving.Estimate:
        found = super().describe(moments, n, population, notes)
        if found.support is not None or len(self.domain) > solving.largest_covariance():
            return found
        law, rare = solving.matrix_law(moments[0], n, self._inverse, self._matrix)
        return dataclasses.replace(found, score_law=law, rare=rare)

    def channel(self) -> NDArray[np.float64]:
        """P[report, value]."""
        return self._matrix.copy()

    def inverse(self) -> NDArray[np.float64]:
        """The matrix that turns reports into unbiased guesses of the value: inverse() @ channel()
        is the identity."""
        return self._inverse.copy()

    def edge_errors(self) -> solving.EdgeVariances | None:
        return self._edge_errors

    @cached_property
    def _edge_errors(self) -> solving.EdgeVariances | None:
        return (
            solving.edge_variances(self._inverse, self._matrix)
            if len(self.domain) <= solving.LARGEST_COVARIANCE
            else None
        )


@dataclass(frozen=True, eq=False, repr=False)
class DesignMatrix(MatrixMechanism, ValueReports):
    """Randomize with your own matrix: `P[u][v]` is the probability of reporting u when the truth is
    v.

    Columns sum to 1, every entry is positive, and the matrix can be inverted: the estimate is P^-1
    times the reported proportions, with covariance P^-1 (diag(lam) - lam lam') P^-T / (n - 1)
    (Wang, Wu and Hu 2016, section 3). `values` may give the labels.

    >>> DesignMatrix([[0.8, 0.3], [0.2, 0.7]], values=["sick", "well"]).labels
    ('sick', 'well')
    """

    generic = True

    P: Any
    values: Any = None

    @classmethod
    def from_epsilon(cls, epsilon: float, *, values: Any) -> DesignMatrix:
        """With the matrix of direct encoding."""
        from deniable.mechanisms.protocols.direct import DirectEncoding  # noqa: PLC0415 - only this uses it

        asked = epsilon
        while (made := cls(DirectEncoding(values, asked).channel(), values)).epsilon > epsilon:
            asked -= 2 * (made.epsilon - epsilon)  # doubles round a matrix either way: never above
        return made

    def __post_init__(self) -> None:
        matrix = _check_matrix(self.P)
        size = check_size("P", len(matrix))
        domain = Domain.of(size if self.values is None else self.values)
        if len(domain) != size:
            raise ParameterError(
                "values", self.values, f"must name the {size} values of the matrix"
            )
        columns = exact.integer_columns(
            [[Fraction(x) for x in column] for column in matrix.T.tolist()]
        )
        self._set(P=matrix, values=domain.labels)
        self._derive(domain, columns)

    def parameters(self) -> dict[str, Any]:
        return {"P": self.P.tolist(), "values": self.domain.spec()}


def _check_matrix(given: Any) -> NDArray[np.float64]:
    try:
        matrix = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("P", given, "must be a square matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        raise ParameterError("P", matrix.shape, "must be a square matrix, at least 2 by 2")
    if not np.all((matrix > 0) & (matrix < 1)):
        raise ParameterError(
            "P",
            given,
            "must have entries strictly between 0 and 1: a report that some value excludes would"
            " identify",
        )
    sums = matrix.sum(axis=0)
    if np.any(np.abs(sums - 1) > 1e-9):
        worst = int(np.abs(sums - 1).argmax())
        raise ParameterError(f"sum of P's column {worst}", float(sums[worst]), "must be 1")
    return matrix


def check_size(name: str, size: int) -> int:
    """The number of values of a matrix, checked not to be too large."""
    if size > LARGEST_MATRIX:
        raise ParameterError(name, size, f"must be at most {LARGEST_MATRIX} values for a matrix")
    return size


def _invert(matrix: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """The left inverse, or None if doubles do not find one."""
    try:
        inverse = left_inverse(matrix)
    except np.linalg.LinAlgError:
        return None
    if not np.all(np.isfinite(inverse)):
        return None
    return inverse if np.abs(inverse @ matrix - np.eye(matrix.shape[1])).max() < 1e-4 else None
