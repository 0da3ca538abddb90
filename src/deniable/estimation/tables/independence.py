"""A test of independence that is valid under randomization."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.tables.dependence import two_way
from deniable.estimation.tables.deriving import Axes, Subject
from deniable.estimation.tables.table import Table
from deniable.results import Result

__all__ = ["IndependenceTest", "independence_test"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class IndependenceTest(Result):
    """A test of independence: how far the table is from it, and the p-value."""

    name: str
    statistic: float
    """Chi-square distributed with `degrees` degrees of freedom if the attributes are
    independent."""
    degrees: int
    p_value: float
    method: str
    """"score": the errors are those under independence; "wald": those of the estimate."""
    n: int

    def __str__(self) -> str:
        degrees = "1 degree" if self.degrees == 1 else f"{self.degrees} degrees"
        return (
            f"independence of {self.name}: chi-square {self.statistic:.4g} ({degrees} of freedom), "
            f"p = {self.p_value:.3g} ({self.method}, from {self.n:,} reports)"
        )


def independence_test(
    subject: Subject, rows: Axes | None = None, columns: Axes | None = None
) -> IndependenceTest:
    """Whether two attributes, or two groups of them, are independent: a chi-square test of D =
    pi_ij - pi_i+ pi_+j = 0.

    The usual chi-square treats the estimated counts as observed. They also carry the noise of the
    coins, so it nearly always rejects independent attributes. Here D is measured by its own
    covariance V: the statistic is d' V^-1 d, with (r - 1)(c - 1) degrees of freedom, d being D
    without its last row and column.

    *score*: where every attribute was randomized by itself (`joint`), the contributions of the two
    groups to a report are independent under the null, so V = S_r (x) S_c / n with the groups' own
    covariances S_r and S_c, and the statistic is n tr(S_c^-1 D' S_r^-1 D). With square channels it
    equals Pearson's chi-square of the randomized table, which is valid there. *wald*: otherwise
    (composite buckets, slices) V is the delta method's, from dD_ij = dpi_ij - c_j dr_i - r_i dc_j.

    The null hypothesis is about the distribution that people are drawn from, so there is no
    finite-population correction.

    >>> from deniable import BinaryResponse, joint, seeded_source
    >>> rr, source = BinaryResponse(0.5, 0.5), seeded_source(3)
    >>> left, right = [0, 0, 1, 1, 1] * 4000, [0, 1, 1, 1, 0] * 4000
    >>> table = joint({"left": rr, "right": rr}, {"left": rr.privatize(left, source), "right": rr.privatize(right, source)})
    >>> print(independence_test(table))
    independence of left and right: chi-square 27.25 (1 degree of freedom), p = 1.78e-07 (score, from 20,000 reports)
    """
    table, matrix, name, n_rows = two_way(subject, rows, columns)
    degrees = (matrix[0] - 1) * (matrix[1] - 1)
    p = table.proportions.reshape(matrix)
    gap = (p - np.outer(p.sum(axis=1), p.sum(axis=0)))[:-1, :-1]
    crossed = table.spread.crossed
    statistic = _score(table, gap, n_rows) if crossed else _wald(table, gap, p)
    from scipy.special import chdtrc  # noqa: PLC0415 - slow to import

    return IndependenceTest(
        name,
        statistic,
        degrees,
        float(chdtrc(degrees, statistic)),
        "score" if crossed else "wald",
        table.n,
    )


def _score(table: Table, gap: _Floats, n_rows: int) -> float:
    across = _group_covariance(table, table.axes[:n_rows])
    along = _group_covariance(table, table.axes[n_rows:])
    left, right = _solve(table, across, gap), _solve(table, along, gap.T)
    return table.n * float(np.einsum("ij,ji->", left, right))


def _group_covariance(table: Table, axes: tuple[str, ...]) -> _Floats:
    """Of one report's contributions to the combinations of these axes, but for the last
    combination."""
    group = table.marginal(*axes)
    cells = group.proportions.size
    weights = np.eye(cells)[:-1].reshape(cells - 1, *group.shape)
    return (table.n - 1) * group.spread.covariance(weights)


def _wald(table: Table, gap: _Floats, p: _Floats) -> float:
    r, c = p.sum(axis=1), p.sum(axis=0)
    weights = np.zeros((*gap.shape, *p.shape))
    for i, j in np.ndindex(*gap.shape):
        weights[i, j, i, j] += 1
        weights[i, j, i, :] -= c[j]
        weights[i, j, :, j] -= r[i]
    covariance = table.spread.covariance(weights.reshape(gap.size, *table.shape))
    d = gap.reshape(-1)
    return float(d @ _solve(table, covariance, d))


def _solve(table: Table, covariance: _Floats, right: _Floats) -> _Floats:
    if np.linalg.matrix_rank(covariance, hermitian=True) < len(covariance):
        raise ParameterError(
            "n",
            table.n,
            message=f"{table.n} reports are too few to distinguish {len(covariance)} combinations",
        )
    return np.asarray(np.linalg.solve(covariance, right), dtype=np.float64)
