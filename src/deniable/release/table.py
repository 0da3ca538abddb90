"""A table as whole numbers: its distinct rows with how often each occurs, and what every value
becomes on every level.

Tables have far fewer distinct rows than rows, and a combination of labels is one integer, so that a
generalisation is tried by adding up counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ReleaseError, ReleaseRowError
from deniable.mechanisms.domain import column
from deniable.release.hierarchy import Hierarchy, is_missing

__all__ = [
    "CodedTable",
    "Integers",
    "Levels",
    "TableAttribute",
    "coded_attributes",
    "combine",
    "one_of_each",
]

Integers = NDArray[np.int64]
Levels = tuple[int, ...]
"""One level for each attribute."""
_LARGEST_KEY = 1 << 62
_DIGITS = re.compile(r"(\d+)", re.ASCII)


@dataclass(frozen=True, eq=False)
class CodedTable:
    """The distinct rows of a table's columns, as indices into the distinct values of each
    column."""

    values: dict[str, list[Any]]
    """The distinct values of each column, in their order: numbers by size, texts by their letters,
    missing last."""
    codes: dict[str, Integers]
    """For each distinct row the index of its value."""
    counts: Integers
    """How often each distinct row occurs."""
    rows: Integers
    """For each row of the table the index of its distinct row."""
    first_rows: dict[str, list[int]]
    """For each distinct value the number of the first row that has it; the first row of a table is
    row 1."""

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.rows.size)

    def _check(self, columns: Sequence[str], person: str | None) -> None:
        """Refuse columns that this table does not have, and a person's column, which is no longer
        known."""
        if person is not None:
            raise ReleaseError(
                f"rows per person can no longer be counted: name {person!r} where the table is"
                " coded"
            )
        for name in set(columns) - set(self.values):
            raise ReleaseError(
                f"the table has no column {name!r}; it has {', '.join(map(repr, self.values))}"
            )

    @classmethod
    def of(cls, frame: Any, columns: Sequence[str], person: str | None = None) -> CodedTable:
        """From a mapping of columns, or a frame of pandas, Polars or Arrow, or an iterable of such
        parts.

        `person` names a column that says whose row it is: two rows of one person are refused.
        """
        if isinstance(frame, CodedTable):
            frame._check(columns, person)
            return frame
        _check_named(columns)
        codes: dict[str, list[Integers]] = {name: [] for name in columns}
        seen: dict[str, dict[Any, int]] = {name: {} for name in columns}
        first_rows: dict[str, list[int]] = {name: [] for name in columns}
        types: dict[str, type | None] = dict.fromkeys(columns)
        people: set[Any] = set()
        n = 0
        for part in _parts(frame):
            lengths = set()
            for name in columns:
                cells = _cells(part, name)
                types[name] = _one_type(cells, types[name], n, name)
                codes[name].append(_encode(cells, seen[name], first_rows[name], n, name))
                lengths.add(len(cells))
            if person is not None:
                _refuse_repeated(_cells(part, person), people, n, person)
            if len(lengths) > 1:
                raise ReleaseError(
                    f"the columns have different lengths: {', '.join(map(str, sorted(lengths)))}"
                )
            n += lengths.pop()
        if not n:
            raise ReleaseError("the table has no rows")
        values = {name: list(seen[name]) for name in columns}
        order = {name: _order(values[name]) for name in columns}
        whole = [np.argsort(order[name])[np.concatenate(codes[name])] for name in columns]
        rows, distinct = combine(whole, [len(seen[name]) for name in columns])
        place = one_of_each(rows, distinct)
        return cls(
            {name: [values[name][i] for i in order[name]] for name in columns},
            {name: code[place] for name, code in zip(columns, whole, strict=True)},
            np.bincount(rows, minlength=distinct),
            rows,
            {name: [first_rows[name][i] for i in order[name]] for name in columns},
        )


def _parts(frame: Any) -> Iterable[Any]:
    if isinstance(frame, Mapping) or hasattr(frame, "columns"):
        return (frame,)
    if isinstance(frame, Iterator | list | tuple):
        return frame
    raise ReleaseError(
        "a table must be a mapping of columns, a frame of pandas, Polars or Arrow, or an iterable"
        " of such parts"
    )


def _check_named(columns: Sequence[str]) -> None:
    if len(set(columns)) < len(columns):
        raise ReleaseError(f"a column is named twice: {', '.join(columns)}")
    if not columns:
        raise ReleaseError("there is no column to release")


def _cells(part: Any, name: str) -> list[Any]:
    columns = (
        part.columns if hasattr(part, "columns") and not hasattr(part, "column_names") else None
    )
    known = (
        list(part)
        if isinstance(part, Mapping)
        else list(part.column_names if columns is None else columns)
    )
    if name not in known:
        raise ReleaseError(
            f"the table has no column {name!r}; it has {', '.join(map(repr, known))}"
        )
    cells = part[name]
    return cells if isinstance(cells, list) else column(cells).tolist()


def _one_type(cells: list[Any], known: type | None, offset: int, name: str) -> type | None:
    """The type of all values that are there. 1, 1.0 and True are equal: how one row writes them
    would change the others."""
    if set(map(type, cells)) <= {known}:
        return known
    for i, cell in enumerate(cells, offset + 1):
        if type(cell) is not known and not is_missing(cell):
            if known is not None:
                raise ReleaseRowError(
                    f"row {i}, column {name!r}: the value is no {known.__name__}, as others of the"
                    " column are"
                )
            known = type(cell)
    return known


def _encode(
    cells: list[Any], seen: dict[Any, int], first_rows: list[int], offset: int, name: str
) -> Integers:
    """The index of each value among those seen; missing ones are all alike."""
    out = np.empty(len(cells), dtype=np.int64)
    for i, cell in enumerate(cells):
        try:
            code = seen.get(cell)
        except TypeError:
            raise ReleaseRowError(
                f"row {offset + i + 1}, column {name!r}: the value is a collection"
            ) from None
        if code is None:
            value = None if is_missing(cell) else cell
            code = seen.get(value)
            if code is None:
                code = seen[value] = len(seen)
                first_rows.append(offset + i + 1)
        out[i] = code
    return out


def _refuse_repeated(cells: list[Any], people: set[Any], offset: int, name: str) -> None:
    for i, cell in enumerate(cells, offset + 1):
        if is_missing(cell):
            raise ReleaseRowError(f"row {i}, column {name!r}: says of nobody whose row it is")
        if cell in people:
            raise ReleaseRowError(
                f"row {i}, column {name!r}: a second row of the same person; the guarantee is for"
                " one row each"
            )
        people.add(cell)


def combine(codes: Sequence[Integers], sizes: Sequence[int]) -> tuple[Integers, int]:
    """One index for each combination that occurs, in lexicographic order, and how many there
    are."""
    key, size = codes[0], sizes[0]
    for code, more in zip(codes[1:], sizes[1:], strict=True):
        if size * more > _LARGEST_KEY:
            key, size = _dense(key, size)
        key, size = key * more + code, size * more
    return _dense(key, size)


def one_of_each(ids: Integers, n: int) -> Integers:
    """For each index below n a place where it stands."""
    place = np.empty(n, dtype=np.int64)
    place[ids] = np.arange(ids.size)
    return place


def _dense(key: Integers, size: int) -> tuple[Integers, int]:
    if size <= 4 * key.size + 1024:
        occurs = np.zeros(size, dtype=np.bool_)
        occurs[key] = True
        place = np.cumsum(occurs, dtype=np.int64) - 1
        return place[key], int(occurs.sum())
    distinct, dense = np.unique(key, return_inverse=True)
    return dense.reshape(-1).astype(np.int64, copy=False), int(distinct.size)


class TableAttribute:
    """A column with its hierarchy: the label of each distinct value on each level, as an index, and
    its loss."""

    def __init__(
        self, name: str, values: list[Any], hierarchy: Hierarchy, first_rows: list[int]
    ) -> None:
        self.name, self.hierarchy = name, hierarchy
        for row, value in sorted(zip(first_rows, values, strict=True), key=itemgetter(0)):
            try:
                hierarchy.check(value)
            except ValueError as error:
                raise ReleaseRowError(f"row {row}, column {name!r}: the value {error}") from None
        self.labels: list[list[Hashable]] = []
        """The labels of each level that occur, in their own order, so that the order of the output
        tells nothing."""
        self.places: list[Integers] = []
        """For each level, the index of the label of each distinct value."""
        self.losses: list[NDArray[np.float64]] = []
        """For each level, the loss of each label."""
        for level in range(hierarchy.levels):
            found = [hierarchy.label(value, level) for value in values]
            loss = dict(zip(found, (hierarchy.loss(value, level) for value in values), strict=True))
            distinct = list(loss)
            labels = [distinct[i] for i in _order(distinct)]
            place = {label: i for i, label in enumerate(labels)}
            self.labels.append(labels)
            self.places.append(np.array([place[label] for label in found], dtype=np.int64))
            self.losses.append(np.array([loss[label] for label in labels]))

    @property
    def levels(self) -> int:
        """How many levels there are."""
        return self.hierarchy.levels


def _order(values: list[Any]) -> list[int]:
    """The order of distinct values: by size if all are numbers, else by their texts, numbers in
    them by size; missing last."""
    try:
        keys: list[Any] = [math.inf if value is None else float(value) for value in values]
    except (TypeError, ValueError, OverflowError):
        keys = [
            [float(part) if i % 2 else part for i, part in enumerate(_DIGITS.split(str(value)))]
            for value in values
        ]
    return sorted(range(len(values)), key=lambda i: (values[i] is None, keys[i], str(values[i])))


def coded_attributes(
    table: CodedTable, hierarchies: Mapping[str, Hierarchy]
) -> list[TableAttribute]:
    """The columns that have a hierarchy. A value that its hierarchy does not take is refused, with
    the row."""
    return [
        TableAttribute(name, table.values[name], hierarchies[name], table.first_rows[name])
        for name in hierarchies
    ]
