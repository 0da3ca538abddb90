"""Buckets: what an analyst can distinguish. Ranges, exact values and text patterns per column;
columns combine as a product.

The buckets of a column are checked to be disjoint, unless the column says that they may overlap.
The bucket of an answer over several columns is the mixed-radix number of its columns' buckets, with
the first column most significant (Lavengood 2017, 5.3.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.queries.columns.bucket_index import (
    NONE,
    BucketIndex,
    PlainColumn,
)
from deniable.queries.columns.column import MOST_BUCKETS, Column
from deniable.queries.texts import first_repeated

__all__ = ["Buckets"]

_LONGEST_LABELS = 1 << 24
"""The most characters in the names of all combinations: a few kilobytes of columns can combine to
gigabytes of names."""


@dataclass(frozen=True)
class Buckets:
    """All possible answers: the product of the columns' buckets.

    >>> shape = Buckets([Column("colour", ["a", "b", "c"]), Column("size", ["[0,1)", "[1,2)"])])
    >>> len(shape), shape.index(["b", 1.5]), shape.labels[3]
    (6, 3, 'colour=b, size=[1,2)')
    >>> shape.index(["b", 7]) == NONE
    True
    """

    columns: tuple[Column, ...]

    def __init__(self, columns: Iterable[Column]) -> None:
        given = tuple(columns) if isinstance(columns, Iterable) else ()
        if not given or not all(isinstance(column, Column) for column in given):
            raise ParameterError("columns", columns, "must be a list of at least one Column")
        object.__setattr__(self, "columns", given)
        twice = first_repeated(column.name for column in given)
        if twice is not None:
            rule = "is repeated: columns must have different names"
            raise ParameterError(f"columns[{twice}].name", given[twice].name, rule)
        if not 2 <= len(self) <= MOST_BUCKETS:
            raise ParameterError(
                "columns",
                f"{len(self)} buckets",
                f"must combine to between 2 and {MOST_BUCKETS} buckets",
            )
        n_characters = sum(
            len(self)
            // len(column)
            * sum(len(label) + len(column.name) + 3 for label in column.labels)
            for column in given
        )
        if n_characters > _LONGEST_LABELS:
            raise ParameterError(
                "columns",
                f"labels of {n_characters} characters",
                f"must have at most {_LONGEST_LABELS}",
            )
        twice = first_repeated(self.labels)
        if twice is not None:
            raise ParameterError(
                "columns",
                self.labels[twice],
                "is the name of two buckets, so results would be ambiguous",
            )

    def __len__(self) -> int:
        return math.prod(map(len, self.columns))

    @property
    def complete(self) -> bool:
        """Whether every column has an `other`, so that each answer is in some bucket."""
        return all(column.other for column in self.columns)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One text a bucket, in the order of their indices."""
        if len(self.columns) == 1:
            return self.columns[0].labels
        parts = [[f"{column.name}={label}" for label in column.labels] for column in self.columns]
        return tuple(", ".join(combination) for combination in product(*parts))

    @cached_property
    def plain(self) -> tuple[PlainColumn, ...]:
        """What a :class:`BucketIndex` is made from, in any process."""
        return tuple(column.plain for column in self.columns)

    @cached_property
    def _index(self) -> BucketIndex:
        return BucketIndex(self.plain)

    @property
    def n_positions(self) -> int:
        """The positions of all patterns of all columns."""
        return sum(column.n_positions for column in self.columns)

    def index(self, row: Sequence[Any]) -> int:
        """The bucket of one answer, given as a row with one value per column; `NONE` if it is in
        none."""
        self._check_width(len(row))
        return self._index.index(tuple(row))

    def indices(self, row: Sequence[Any]) -> list[int]:
        """All buckets of one answer, ascending: every combination of those that its columns are
        in."""
        self._check_width(len(row))
        return self._index.indices(tuple(row))

    def index_many(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.intp]:
        """The bucket of each of many answers, given as one array per column: :meth:`index` in bulk.

        >>> Buckets([Column("x", ["[0,1)", "[1,2]"])]).index_many([np.array([0.5, 2.0, 9.0, np.nan])]).tolist()
        [0, 1, -1, -1]
        """
        self._check_width(len(columns))
        total: NDArray[np.intp] | None = None
        outside: NDArray[np.bool_] | None = None
        for column, values in zip(self.columns, columns, strict=True):
            found = column.index_many(values)
            if total is None or outside is None:
                total, outside = found.copy(), found == NONE
                continue
            if found.shape != total.shape:
                raise ParameterError(
                    "columns", found.size, f"must have as many values as the first, {total.size}"
                )
            outside |= found == NONE
            total = total * len(column) + found
        assert total is not None  # noqa: S101 - there is at least one column
        total[outside] = NONE
        return total

    def _check_width(self, width: int) -> None:
        if width != len(self.columns):
            raise ParameterError(
                "row",
                f"{width} values",
                f"must be {len(self.columns)}: one per column of the query",
            )
