"""The joint distribution of several attributes, each randomized by its own mechanism."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import NoReportsError, ParameterError, ReportError
from deniable.estimation.report_counts import check_population
from deniable.estimation.tables.attributes import Attribute, Randomizer, attribute
from deniable.estimation.tables.cell_errors import (
    CellErrors,
)
from deniable.estimation.tables.counted_cells import CountedCellErrors, ListedCellErrors
from deniable.estimation.tables.table import Table

__all__ = ["LARGEST_TABLE", "joint"]

_Floats = NDArray[np.float64]


LARGEST_TABLE = 1 << 24
"""The most cells of a table, and outcomes of its contingency tensor."""


_COUNTING_ROWS = 1 << 16


def joint(
    mechanisms: Mapping[str, Randomizer], reports: Any = None, population: int | None = None
) -> Table:
    """The joint distribution of several attributes of the same people, each randomized by its own
    mechanism.

    `mechanisms` names the attributes, in the order of the table's axes; `reports` holds the reports
    of each (a mapping or a data frame), row i of each from the same person. With P = P_1 (x) ...
    (x) P_s the estimate is P^-1 lam, found by inverting attribute by attribute on the contingency
    tensor of reports; its covariance P^-1 (diag(lam) - lam lam') P^-T / (n - 1) (Wang, Wu and Hu
    2016, section 5.1) is kept in that factored form. An attribute whose reports are one bit per
    label contributes (bit
    - b)/(a - b), and the covariance is that of the products over the reports.

    >>> from deniable import BinaryResponse, DirectEncoding, seeded_source
    >>> smoker, stress = BinaryResponse(0.6, 0.5), DirectEncoding(["low", "high"], 2.0)
    >>> source = seeded_source(1)
    >>> table = joint(
    ...     {"smoker": smoker, "stress": stress},
    ...     {
    ...         "smoker": smoker.privatize([0, 0, 1, 1] * 5000, source),
    ...         "stress": stress.privatize(["low", "low", "low", "high"] * 5000, source),
    ...     },
    ... )
    >>> print(table)
            stress, %
    smoker                     low                    high
    0       49.11 (47.91 to 50.31)    0.31 (-0.43 to 1.06)
    1       25.33 (24.18 to 26.48)  25.24 (24.29 to 26.20)
    20,000 reports; epsilon 3.386 per person, all attributes together; intervals cover 95 %
    >>> table.conditional("stress", given="smoker").proportions.round(2).tolist()
    [[0.99, 0.01], [0.5, 0.5]]
    """
    _check_given(mechanisms, reports)
    attributes = [
        attribute(name, mechanism, _column(reports, name)) for name, mechanism in mechanisms.items()
    ]
    n = _common_length(attributes)
    shape = tuple(len(a.labels) for a in attributes)
    if prod(shape) > LARGEST_TABLE:
        raise ParameterError(
            "cells", prod(shape), f"must be at most {LARGEST_TABLE}: choose fewer attributes"
        )
    inverses = [a.inverse for a in attributes if a.inverse is not None]
    spread: CellErrors
    if (
        len(inverses) == len(attributes)
        and prod(inverse.shape[1] for inverse in inverses) <= LARGEST_TABLE
    ):
        coins = [a.coins for a in attributes if a.coins is not None]
        spread = CountedCellErrors(
            _contingency(attributes, tuple(inverse.shape[1] for inverse in inverses)),
            inverses,
            coins,
        )
    else:
        spread = ListedCellErrors(attributes)
    return Table(
        axes=tuple(a.name for a in attributes),
        labels=tuple(a.labels for a in attributes),
        spread=spread,
        n=n,
        population=check_population(population, n),
        mechanism=" x ".join(a.mechanism for a in attributes),
        epsilon=math.fsum(a.epsilon for a in attributes),
    )


def _check_given(mechanisms: Any, reports: Any) -> None:
    if not hasattr(mechanisms, "items"):
        kind = type(mechanisms).__name__
        raise ParameterError(
            "mechanisms",
            kind,
            "must be a mapping from attributes to mechanisms, and reports one from them too",
        )
    if not mechanisms:
        raise ParameterError(
            "mechanisms", mechanisms, "must name at least one attribute and its mechanism"
        )
    # without a default, one argument alone would end in Python's own TypeError
    if not (hasattr(reports, "keys") or hasattr(reports, "columns")):
        raise ParameterError(
            "reports",
            None if reports is None else type(reports).__name__,
            "must be a mapping or a data frame with the reports of each attribute",
        )


def _column(reports: Any, name: str) -> Any:
    if name not in reports:
        raise ReportError(f"there are no reports of the attribute {name!r}")
    return reports[name]


def _common_length(attributes: list[Attribute]) -> int:
    first = attributes[0]
    for other in attributes[1:]:
        if other.n != first.n:
            raise ReportError(
                f"{first.name!r} has {first.n} reports and {other.name!r} has {other.n}: rows must"
                " be of the same people"
            )
    if first.n == 0:
        raise NoReportsError("there are no reports, so there is nothing to estimate")
    return first.n


def _contingency(attributes: list[Attribute], outcomes: tuple[int, ...]) -> NDArray[np.int64]:
    """How often each combination of outcomes was reported."""
    counts = np.zeros(prod(outcomes), dtype=np.int64)
    for start in range(0, attributes[0].n, _COUNTING_ROWS):
        code = attributes[0].data[start : start + _COUNTING_ROWS].astype(np.intp)
        for other, size in zip(attributes[1:], outcomes[1:], strict=True):
            code *= size
            code += other.data[start : start + _COUNTING_ROWS]
        if counts.size <= _COUNTING_ROWS:
            counts += np.bincount(code, minlength=counts.size)
        else:  # more outcomes than rows: do not visit all of them for every chunk
            np.add.at(counts, code, 1)
    return counts.reshape(outcomes)
