"""How much of a measured dependence is noise: the basis of intervals for Cramér's V and related
measures."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.interval_laws import QuadraticLaw
from deniable.estimation.tables.table import Table

__all__ = ["noise_traces", "quadratic_law"]

_Floats = NDArray[np.float64]
_LARGEST_DENSE = 400
"""The most cells for which the full covariance of the gaps is used."""


def noise_traces(table: Table, matrix: tuple[int, int], n_rows: int) -> tuple[float, float] | None:
    """tr S and tr S^2, with S the covariance of u_ij = (pi_ij - r_i c_j)/sqrt(r_i c_j): phi^2 =
    |u|^2 for noise alone.

    For few cells, from the covariance of the table, including the finite population; if every
    attribute was randomized separately, the covariance under independence, S_r (x) S_c/n; otherwise
    unknown.
    """
    p = table.proportions.reshape(matrix)
    r, c = p.sum(axis=1), p.sum(axis=0)
    if p.size <= _LARGEST_DENSE:
        root = 1 / np.sqrt(np.outer(r, c))
        rows, columns = matrix
        weights = np.eye(p.size).reshape(rows, columns, rows, columns)
        at_row, at_column = np.arange(rows), np.arange(columns)
        weights[at_row, :, at_row, :] -= c[:, None]
        weights[:, at_column, :, at_column] -= r[:, None]
        weights = weights.reshape(p.size, *matrix) * root.reshape(-1, 1, 1)
        spread = table.covariance_of(weights.reshape(p.size, *table.shape))
        return float(np.trace(spread)), float((spread**2).sum())
    if not table.spread.crossed:
        return None
    groups = [_scaled(table.marginal(*axes)) for axes in (table.axes[:n_rows], table.axes[n_rows:])]
    traces = [(float(np.trace(s)), float((s**2).sum())) for s in groups]
    return math.prod(t for t, _ in traces) / table.n, math.prod(t for _, t in traces) / table.n**2


def _scaled(group: Table) -> _Floats:
    """The covariance of one report's contributions to a group's combinations, each over the root of
    its proportion."""
    cells = group.proportions.size
    proportions = group.proportions.reshape(-1)
    covariance = (group.n - 1) * group.spread.covariance(np.eye(cells).reshape(cells, *group.shape))
    return np.asarray(covariance / np.sqrt(np.outer(proportions, proportions)))


def quadratic_law(
    traces: tuple[float, float], observed: float, variance: float, scale: float, root: bool = False
) -> QuadraticLaw:
    """The law of a squared length, whose delta-method variance is `variance`: 4 u' S u.

    The spread along mu is u' S u / u' u, which includes the noise's own part, tr S^2 and tr S on
    average. If that is small it is subtracted; the larger of the two is used, to be conservative.
    """
    trace, square_trace = traces
    along = variance / (4 * observed) if observed > 0 else square_trace / trace
    if observed > 2 * trace:
        along = max(along, (variance / 4 - square_trace) / (observed - trace))
    return QuadraticLaw(observed, trace, square_trace, along, scale, root)
