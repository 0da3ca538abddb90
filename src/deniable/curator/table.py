"""The table in the curator's hands: columns of any frame as arrays, and rows chosen by public
rules.

Nothing in this file is private: it is reached through :class:`deniable.curator.Curator` only, which
releases nothing without noise. Errors name a column and a row and are for the table's holder;
they never contain a value.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import CuratorError, ParameterError

__all__ = ["CuratedTable", "Filter"]

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Filter:
    """A rule that each row passes or not, whatever the other rows say: `column operator value`, or
    `column in values`."""

    column: str
    operator: str
    value: Any

    def __post_init__(self) -> None:
        if self.operator not in {*_OPERATORS, "in"}:
            raise ParameterError(
                "operator", self.operator, f"must be one of {', '.join([*_OPERATORS, 'in'])}"
            )
        if self.operator == "in":
            if isinstance(self.value, str | bytes) or not isinstance(self.value, Iterable):
                raise ParameterError(
                    "value", self.value, "must be a list of values for the operator 'in'"
                )
            object.__setattr__(self, "value", tuple(self.value))
        for value in self.value if self.operator == "in" else [self.value]:
            if value is None or not isinstance(value, Hashable):
                raise ParameterError(
                    "value", value, "must be a text, a number or another value that is not missing"
                )

    def __str__(self) -> str:
        return (
            f"{self.column} {self.operator}"
            f" {list(self.value) if self.operator == 'in' else self.value!r}"
        )


@dataclass
class CuratedTable:
    """Columns of equal length, copied once, so that later changes of the frame have no effect."""

    size: int
    digest: str
    """Identifies the table by its columns' names and contents."""
    _cells: dict[str, NDArray[Any]]
    _numbers: dict[str, NDArray[np.float64]] = field(default_factory=dict)

    @classmethod
    def of(cls, frame: Any, digest: str | None = None) -> CuratedTable:
        """The table of a pandas or Polars frame, an Arrow table, or a mapping of names to
        columns."""
        names = _names(frame)
        cells = {name: _cells(frame[name]) for name in names}
        sizes = {array.size for array in cells.values()}
        if len(sizes) > 1:
            raise CuratorError(
                "the columns of the table have different lengths:"
                f" {', '.join(map(str, sorted(sizes)))}"
            )
        if sizes in (set(), {0}):
            raise CuratorError("the table has no rows")
        return cls(sizes.pop(), _digest(cells) if digest is None else digest, cells)

    def cells(self, column: str) -> NDArray[Any]:
        """A column: numbers as floats with NaN for what is missing, anything else as objects with
        None for it."""
        if column not in self._cells:
            raise CuratorError(
                f"the table has no column {column!r}; it has {', '.join(map(repr, self._cells))}"
            )
        return self._cells[column]

    def numbers(self, column: str) -> NDArray[np.float64]:
        """A column of numbers, or of texts that spell them, with NaN for what is missing."""
        cells = self.cells(column)
        if cells.dtype != object:
            return cells
        if column not in self._numbers:
            self._numbers[column] = np.fromiter(
                (_number(column, row, cell) for row, cell in enumerate(cells, 1)),
                dtype=np.float64,
                count=cells.size,
            )
        return self._numbers[column]

    def present(self, column: str) -> NDArray[np.bool_]:
        """Whether a row has a value in this column. An empty text has none."""
        cells = self.cells(column)
        if cells.dtype != object:
            return np.asarray(~np.isnan(cells))
        return np.fromiter(
            (cell is not None and cell != "" for cell in cells), dtype=np.bool_, count=cells.size
        )

    def codes(self, column: str, labels: Sequence[Hashable]) -> NDArray[np.intp]:
        """Each row's place among the labels, or -1. A text counts as the label it spells."""
        places: dict[Any, int] = {label: place for place, label in enumerate(labels)}
        spelled = {str(label): place for place, label in enumerate(labels)}
        found = (
            (spelled if isinstance(cell, str) else places).get(_hashable(cell), -1)
            for cell in self.cells(column).tolist()
        )
        return np.fromiter(found, dtype=np.intp, count=self.size)

    def passes(self, rule: Filter) -> NDArray[np.bool_]:
        """The rows that pass. What is missing passes no rule."""
        if rule.operator == "in":
            return self.present(rule.column) & (self.codes(rule.column, rule.value) >= 0)
        numeric = isinstance(rule.value, int | float)
        cells = self.numbers(rule.column) if numeric else self.cells(rule.column)
        compare = _OPERATORS[rule.operator]
        present = self.present(rule.column)
        if cells.dtype != object:
            if not numeric:
                raise _incomparable(rule)
            return present & np.asarray(compare(cells, rule.value), dtype=np.bool_)
        try:
            passed = (
                there and bool(compare(cell, rule.value))
                for cell, there in zip(cells, present, strict=True)
            )
            return np.fromiter(passed, dtype=np.bool_, count=self.size)
        except TypeError:
            raise _incomparable(rule) from None

    def most_rows(self, person: str) -> int:
        """How many rows the person with most rows has."""
        missing = ~self.present(person)
        if missing.any():
            raise CuratorError(
                f"column {person!r}, row {int(missing.argmax()) + 1}: the person is missing"
            )
        counts: dict[Any, int] = {}
        for cell in self.cells(person).tolist():
            counts[_hashable(cell)] = counts.get(_hashable(cell), 0) + 1
        return max(counts.values())


def _incomparable(rule: Filter) -> CuratorError:
    return CuratorError(
        f"column {rule.column!r} cannot be compared with {rule.value!r} by {rule.operator}"
    )


def _hashable(cell: Any) -> Any:
    return cell if isinstance(cell, Hashable) else repr(cell)


def _number(column: str, row: int, cell: Any) -> float:
    if cell is None or cell == "":
        return math.nan
    try:
        number = float(cell)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if math.isnan(number):
        raise CuratorError(f"column {column!r}, row {row}: the value is not a number")
    return number


def _names(frame: Any) -> list[str]:
    if isinstance(frame, Mapping):
        names = list(frame)
    elif hasattr(frame, "column_names"):  # Arrow
        names = list(frame.column_names)
    elif hasattr(frame, "columns") and hasattr(frame, "shape"):  # pandas, Polars
        names = list(frame.columns)
    else:
        raise ParameterError(
            "frame",
            type(frame).__name__,
            "must be a pandas or Polars DataFrame, an Arrow table or a mapping of columns",
        )
    for name in names:
        if not isinstance(name, str) or names.count(name) > 1:
            raise CuratorError(
                f"the table's columns must have different texts as names, not {name!r}"
            )
    return names


def _plain(values: Any) -> Any:
    """A column of pandas, Polars or Arrow as an array or a list; anything else as it is."""
    module = type(values).__module__.partition(".")[0]
    if module == "pandas":
        if values.dtype.kind in "iufb":
            return values.to_numpy(dtype=np.float64, na_value=math.nan)
        return values.astype(object).where(values.notna(), None).to_numpy()
    if module == "polars":
        return values.to_numpy() if values.dtype.is_numeric() else values.to_list()
    return values.to_numpy() if module == "pyarrow" else values


def _cells(given: Any) -> NDArray[Any]:
    values = _plain(given)
    if isinstance(values, np.ndarray) and values.ndim == 1:
        if values.dtype.kind in "iufb":
            return np.array(values, dtype=np.float64)
        values = values.tolist()
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise CuratorError(f"a column must be a sequence of values, not {type(values).__name__}")
    values = list(values)
    if values and all(value is None or isinstance(value, int | float) for value in values):
        try:
            return np.array([math.nan if value is None else float(value) for value in values])
        except OverflowError:  # refused where it is used as a number
            pass
    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # one by one, because NumPy would split lists
        array[row] = None if isinstance(value, float) and math.isnan(value) else value
    return array


def _digest(cells: dict[str, NDArray[Any]]) -> str:
    digest = hashlib.sha256()
    for name, array in cells.items():
        content = (
            array.tobytes()
            if array.dtype != object
            else "\x1f".join(map(repr, array.tolist())).encode()
        )
        digest.update(f"{name!r} {array.dtype} {len(content)} ".encode())
        digest.update(content)
    return digest.hexdigest()
