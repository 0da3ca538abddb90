"""Values and reports as the cells of a file: a label where a report is one, a number or hexadecimal
where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import MissingAnswerError, ReportFormatError, UnknownLabelError
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.multiple_choice import MultipleChoice
from deniable.mechanisms.reports import Reports
from deniable.mechanisms.values import IndexReports, ValueReports
from deniable.survey.spelling import is_missing, spell, spell_choices

__all__ = ["cells_to_reports", "cells_to_values", "reports_to_cells"]


def cells_to_values(mechanism: Mechanism, cells: Sequence[Any]) -> Sequence[Any]:
    """The labels that the cells of a column spell.

    Raises MissingAnswerError or UnknownLabelError with the position of the first cell that spells
    none.
    """
    if isinstance(mechanism, MultipleChoice):
        return spell_choices(mechanism.labels, cells)
    # its domain is any text, or there is nothing to spell
    if not mechanism.labels or all(type(cell) is int for cell in cells):
        return cells
    if mechanism.numeric:
        return [_number(position, cell) for position, cell in enumerate(cells)]
    return spell(mechanism.labels, cells)


def _number(position: int, cell: Any) -> float:
    if is_missing(cell):
        raise MissingAnswerError(position, "is missing (empty or null)")
    try:
        return float(cell)
    except (TypeError, ValueError):
        raise UnknownLabelError(position, "is not a number") from None


def reports_to_cells(reports: Reports) -> list[Any]:
    """One cell per report."""
    mechanism = reports.mechanism
    if isinstance(mechanism, ValueReports):
        return mechanism.report_labels(reports)
    if isinstance(mechanism, IndexReports):
        return list(reports.data.tolist())
    return [row.tobytes().hex() for row in reports.data]


def cells_to_reports(mechanism: Mechanism, cells: Sequence[Any]) -> Reports:
    """The reports that :func:`reports_to_cells` wrote."""
    if isinstance(mechanism, ValueReports):
        texts = any(isinstance(cell, str) for cell in cells)
        return mechanism.reports(spell(mechanism.report_domain.labels, cells) if texts else cells)
    data = (
        _numbers(mechanism, cells)
        if isinstance(mechanism, IndexReports)
        else _rows(mechanism, cells)
    )
    mechanism.check(data)
    return Reports(mechanism, data)


def _numbers(mechanism: IndexReports, cells: Sequence[Any]) -> NDArray[Any]:
    numbers = np.empty(len(cells), dtype=np.int64)
    for position, cell in enumerate(cells):
        try:
            numbers[position] = int(cell)
        except (TypeError, ValueError, OverflowError):
            raise ReportFormatError(
                f"is not a report of {mechanism!r}: it must be a whole number", position
            ) from None
        if not 0 <= numbers[position] < mechanism.n_outputs:
            raise ReportFormatError(
                f"lies outside the reports 0 to {mechanism.n_outputs - 1}", position
            )
    return numbers.astype(mechanism.layout[0])


def _rows(mechanism: Mechanism, cells: Sequence[Any]) -> NDArray[Any]:
    dtype, shape = mechanism.layout
    length = dtype.itemsize * int(np.prod(shape, dtype=int))
    rows = bytearray()
    for position, cell in enumerate(cells):
        try:
            row = bytes.fromhex(cell)
        except (TypeError, ValueError):
            row = b""
        if len(row) != length:
            raise ReportFormatError(
                f"is not a report of {mechanism!r}: it must be {2 * length} hexadecimal digits",
                position,
            )
        rows += row
    return np.frombuffer(bytes(rows), dtype=dtype).reshape(len(cells), *shape)
