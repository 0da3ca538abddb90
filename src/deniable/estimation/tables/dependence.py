"""How much one attribute tells about another: mutual information, G², phi², chi-square and Cramér's V."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.tables.association import noise_traces, quadratic_law
from deniable.estimation.tables.deriving import (
    Axes,
    Subject,
    axis_names,
    check_base,
    delta_statistic,
    of_unbiased,
    proper_proportions,
    whole_table,
)
from deniable.estimation.tables.statistic import Statistic, normal_reach
from deniable.estimation.tables.table import Table

__all__ = [
    "TwoWay",
    "chi_square",
    "cramers_v",
    "g_square",
    "mutual_information",
    "phi_square",
    "two_way",
]

_Floats = NDArray[np.float64]


@of_unbiased
def mutual_information(
    subject: Subject, rows: Axes | None = None, columns: Axes | None = None, base: float = 2
) -> Statistic:
    """What one attribute reveals about the other, in bits: sum pi_ij log2( pi_ij / (pi_i+ pi_+j) ).

    Near independence the gradient vanishes and with it the stated error, while the value is biased
    upwards: use :func:`~deniable.independence_test` to decide whether there is any dependence at
    all.
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _information(two.table, two.shape)
    unit = math.log(check_base(base))
    return _dependence(
        two, 2 * value, 2 * gradient, f"mutual information of {two.name}", notes, 1 / (2 * unit)
    )


@of_unbiased
def g_square(
    subject: Subject, rows: Axes | None = None, columns: Axes | None = None, size: int | None = None
) -> Statistic:
    """G^2 = 2 N sum pi_ij ln( pi_ij / (pi_i+ pi_+j) ) that N true answers with these proportions
    would show.

    N is `size`, else the population, else the number of reports. See :func:`mutual_information`
    about the neighbourhood of independence, and do not look up G^2 in a chi-square table: it
    includes the noise of the coins.
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _information(two.table, two.shape)
    return _dependence(
        two, 2 * value, 2 * gradient, f"G² of {two.name}", notes, _size(two.table, size)
    )


@of_unbiased
def phi_square(
    subject: Subject, rows: Axes | None = None, columns: Axes | None = None
) -> Statistic:
    """Pearson's mean square contingency, chi-square over the number of people: sum pi_ij^2 / (pi_i+
    pi_+j) - 1."""
    two = two_way(subject, rows, columns)
    value, gradient, notes = _contingency(two.table, two.shape)
    return _dependence(two, value, gradient, f"phi² of {two.name}", notes, 1.0)


@of_unbiased
def chi_square(
    subject: Subject, rows: Axes | None = None, columns: Axes | None = None, size: int | None = None
) -> Statistic:
    """The chi-square that N true answers with these proportions would show: N times
    :func:`phi_square`.

    N is `size`, else the population, else the number of reports. Do not look it up in a chi-square
    table: it includes the noise of the coins, and would nearly always reject independence.
    :func:`~deniable.independence_test` is the valid test.
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _contingency(two.table, two.shape)
    return _dependence(
        two, value, gradient, f"chi-square of {two.name}", notes, _size(two.table, size)
    )


@of_unbiased
def cramers_v(subject: Subject, rows: Axes | None = None, columns: Axes | None = None) -> Statistic:
    """Cramér's V = sqrt( phi^2 / (min(rows, columns) - 1) ): 0 for independent attributes, 1 if one
    determines the other.

    phi^2 of the estimated table is too large by tr S, the contribution of noise
    (:mod:`deniable.estimation.tables.association`), which is subtracted; a negative result counts
    as 0. The interval is valid near independence too, where a symmetric one would exclude 0 far too
    often (64 % of the time in one case).
    """
    two = two_way(subject, rows, columns)
    value, gradient, notes = _contingency(two.table, two.shape)
    return _dependence(
        two,
        value,
        gradient,
        f"Cramér's V of {two.name}",
        notes,
        1 / (min(two.shape) - 1),
        root=True,
    )


def _dependence(
    two: TwoWay,
    length: float,
    gradient: _Floats,
    name: str,
    notes: tuple[str, ...],
    scale: float,
    root: bool = False,
) -> Statistic:
    """A measure of dependence: `scale` times a squared length that is 0 for independent attributes,
    or the root of that."""
    plain = delta_statistic(two.table, scale * length, scale * gradient, name, notes)
    traces = None if plain.biased else noise_traces(two.table, two.shape, two.n_rows)
    value, stderr = plain.value, plain.stderr
    if root:
        clean = max(length - (traces[0] if traces else 0.0), 0.0)
        value = math.sqrt(scale * clean)
        stderr = plain.stderr / (2 * math.sqrt(scale * length)) if length > 0 else 0.0
    if traces is None:
        return replace(plain, value=value, stderr=stderr, biased=True)
    law = quadratic_law(traces, length, (plain.stderr / scale) ** 2, scale, root)
    if root:  # near 0 the gradient is useless: use the width of the interval
        low, high = law.interval(0.95)
        stderr = max(stderr, (high - low) / (2 * normal_reach(0.95)))
    return replace(plain, value=value, stderr=stderr, law=law)


class TwoWay(NamedTuple):
    """A table whose axes are split into two groups."""

    table: Table
    shape: tuple[int, int]
    """Combinations of the rows' labels by combinations of the columns'."""
    name: str
    n_rows: int
    """How many of the axes are the rows'."""


def two_way(subject: Subject, rows: Axes | None, columns: Axes | None) -> TwoWay:
    """The table of both groups of axes."""
    table = whole_table(subject)
    if rows is None and columns is None and len(table.axes) == 2:
        rows, columns = table.axes
    if rows is None or columns is None:
        raise ParameterError(
            "axes", table.axes, "must be two; otherwise say which are rows and which are columns"
        )
    rows, columns = axis_names(rows), axis_names(columns)
    both = table.marginal(*rows, *columns)
    height = math.prod(both.shape[: len(rows)])
    shape = height, both.proportions.size // height
    return TwoWay(both, shape, f"{', '.join(rows)} and {', '.join(columns)}", len(rows))


def _information(table: Table, matrix: tuple[int, int]) -> tuple[float, _Floats, tuple[str, ...]]:
    """Mutual information in nats, and its gradient ln( pi_ij / (pi_i+ pi_+j) ) - 1."""
    proportions, back, notes = proper_proportions(table)
    p = proportions.reshape(matrix)
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0)
    logs = np.log(np.divide(p, expected, out=np.ones_like(p), where=p > 0))
    return float((p * logs).sum()), back((logs - 1).reshape(table.shape)), notes


def _contingency(table: Table, matrix: tuple[int, int]) -> tuple[float, _Floats, tuple[str, ...]]:
    """phi^2 and its gradient, with q = pi_ij^2 / (r_i c_j): 2 q/pi - (row sum of q)/r_i - (column
    sum of q)/c_j.

    Cells may be negative, marginals must not be.
    """

    def without_margin(proportions: _Floats) -> bool:
        cells = proportions.reshape(matrix)
        return bool(cells.sum(axis=1).min() <= 0 or cells.sum(axis=0).min() <= 0)

    proportions, back, notes = proper_proportions(table, always=False, bad=without_margin)
    p = proportions.reshape(matrix)
    r, c = p.sum(axis=1, keepdims=True), p.sum(axis=0, keepdims=True)
    rate = np.divide(p, r * c, out=np.zeros_like(p), where=r * c > 0)
    q = p * rate
    by_row = np.divide(q.sum(axis=1, keepdims=True), r, out=np.zeros_like(r), where=r > 0)
    by_column = np.divide(q.sum(axis=0, keepdims=True), c, out=np.zeros_like(c), where=c > 0)
    return float(q.sum() - 1), back((2 * rate - by_row - by_column).reshape(table.shape)), notes


def _size(table: Table, size: int | None) -> float:
    return table.proportion * (table.population or table.n) if size is None else size
