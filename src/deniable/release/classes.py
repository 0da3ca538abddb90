"""The classes of a generalised table: rows that share all labels, their number, and the
distribution of their sensitive values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.release.table import (
    CodedTable,
    Integers,
    Levels,
    TableAttribute,
    combine,
    one_of_each,
)

__all__ = ["Classes", "Cube"]

_CACHED_CELLS = 40_000_000
"""How many numbers a cube keeps of intermediate tables."""


@dataclass(frozen=True, eq=False)
class Classes:
    """One entry for each class; cells are classes split by the sensitive values."""

    labels: list[Integers]
    """For each attribute the index of each class's label."""
    sizes: Integers
    """The number of rows of each class."""
    cell_class: Integers
    """For each cell its class."""
    cell_counts: Integers
    """For each cell its number of rows."""
    sensitive: dict[str, Integers]
    """For each sensitive column the index of each cell's value."""

    @property
    def n(self) -> int:
        """The number of rows."""
        return int(self.sizes.sum())

    def values_per_class(self, column: str) -> tuple[Integers, Integers, Integers]:
        """Each sensitive value of each class once: its class, the value's index, and its number of
        rows."""
        values = self.sensitive[column]
        size = int(values.max(initial=0)) + 1
        ids, n = combine([self.cell_class, values], [self.sizes.size, size])
        place = one_of_each(ids, n)
        counts = np.bincount(ids, weights=self.cell_counts, minlength=n).astype(np.int64)
        return self.cell_class[place], values[place], counts

    def kept(self, keep: NDArray[np.bool_]) -> Classes:
        """Only those classes."""
        place = np.cumsum(keep) - 1
        cells = keep[self.cell_class]
        return Classes(
            [labels[keep] for labels in self.labels],
            self.sizes[keep],
            place[self.cell_class[cells]],
            self.cell_counts[cells],
            {name: values[cells] for name, values in self.sensitive.items()},
        )


class Cube:
    """The classes of a table at any levels. Attributes are rolled up one after the other, and what
    was rolled up is kept."""

    def __init__(
        self,
        table: CodedTable,
        attributes: Sequence[TableAttribute],
        sensitive: Sequence[str] = (),
        counts: Integers | None = None,
    ) -> None:
        self.attributes = list(attributes)
        self._sensitive = list(sensitive)
        # Attributes with many values first: rolling these up shortens the table most.
        self._order = sorted(
            range(len(attributes)), key=lambda i: -len(table.values[attributes[i].name])
        )
        names = [attributes[i].name for i in self._order] + self._sensitive
        self._sizes = [len(table.values[name]) for name in names]
        counts = table.counts if counts is None else counts
        self.n = int(counts.sum())
        """The number of rows."""
        some = counts > 0
        columns = [table.codes[name][some] for name in names]
        self._base = (
            (columns, counts[some]) if some.all() else _added_up(columns, self._sizes, counts[some])
        )
        self._cache: dict[Levels, tuple[list[Integers], Integers]] = {}
        self._cached_cells = 0

    def classes(self, levels: Levels) -> Classes:
        """The classes at these levels, one level for each attribute."""
        columns, counts = self._rolled_up(tuple(levels[i] for i in self._order))
        n_attributes = len(self._order)
        labels, sensitive = columns[:n_attributes], columns[n_attributes:]
        sizes = [len(self.attributes[i].labels[levels[i]]) for i in self._order]
        ids, n = combine(labels, sizes) if sensitive else (np.arange(counts.size), counts.size)
        place = one_of_each(ids, n)
        ordered: list[Any] = [None] * n_attributes
        for i, label in zip(self._order, labels, strict=True):
            ordered[i] = label[place]
        class_sizes = np.bincount(ids, weights=counts, minlength=n).astype(np.int64)
        return Classes(
            ordered, class_sizes, ids, counts, dict(zip(self._sensitive, sensitive, strict=True))
        )

    def _rolled_up(self, levels: Levels) -> tuple[list[Integers], Integers]:
        """The table with the first attributes of the order at these levels, equal rows added up."""
        if not levels:
            return self._base
        if levels in self._cache:
            return self._cache[levels]
        columns, counts = self._rolled_up(levels[:-1])
        at = len(levels) - 1
        attribute = self.attributes[self._order[at]]
        columns = list(columns)
        columns[at] = attribute.places[levels[-1]][columns[at]]
        sizes = [
            len(self.attributes[i].labels[level])
            for i, level in zip(self._order, levels, strict=False)
        ]
        rolled = _added_up(columns, sizes + self._sizes[len(levels) :], counts)
        if len(levels) < len(self._order):  # the last step belongs to one node alone
            self._cached_cells += rolled[1].size * (len(columns) + 1)
            if self._cached_cells > _CACHED_CELLS:
                self._cache.clear()
                self._cached_cells = 0
            self._cache[levels] = rolled
        return rolled


def _added_up(
    columns: list[Integers], sizes: Sequence[int], counts: Integers
) -> tuple[list[Integers], Integers]:
    ids, n = combine(columns, sizes)
    if n == ids.size:
        return columns, counts
    place = one_of_each(ids, n)
    return [column[place] for column in columns], np.bincount(
        ids, weights=counts, minlength=n
    ).astype(np.int64)
