"""Counts: what reports add up to, in the one form that they have from the join to the estimate.

Ones per cell and the number of reports are sufficient statistics: an estimate needs nothing else.
They are additive over epochs, strata and machines, and as small for a billion reports as for ten. A
pane is the counts of one epoch, a window the sum of some panes, a tally counts that know their
mechanism (:class:`deniable.Tally`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError

__all__ = ["Counts", "add_by_key"]

_Key = TypeVar("_Key")


@dataclass(eq=False)
class Counts:
    """A mechanism's counts, the number of reports in them, and how many messages had nothing to
    report.

    >>> monday = Counts(np.array([3, 5]), 8)
    >>> monday += Counts(np.array([1, 1]), 2, nothing=4)
    >>> monday
    Counts(counts=array([4, 6]), n=10, nothing=4)
    """

    counts: NDArray[np.int64]
    n: int = 0
    nothing: int = 0

    @staticmethod
    def empty(cells: int) -> Counts:
        """Nothing counted yet."""
        return Counts(np.zeros(cells, dtype=np.int64))

    @staticmethod
    def total(parts: Iterable[Counts]) -> Counts:
        """The sum of one or more."""
        first, *others = parts
        out = first.copy()
        for part in others:
            out += part
        return out

    def copy(self) -> Counts:
        """The same counts, which can be added to by themselves."""
        return Counts(self.counts.copy(), self.n, self.nothing)

    def __iadd__(self, other: Counts) -> Self:
        if self.counts.shape != other.counts.shape:
            message = (
                f"cannot add panes of different versions: {self.counts.size} counts and"
                f" {other.counts.size}"
            )
            raise ParameterError("counts", other.counts.size, message=message)
        self.counts += other.counts
        self.n += other.n
        self.nothing += other.nothing
        return self

    def __sub__(self, other: Counts) -> Counts:
        counts = self.counts - other.counts
        return Counts(counts, self.n - other.n, self.nothing - other.nothing)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        same = self.n == other.n and self.nothing == other.nothing
        return same and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]


def add_by_key(total: dict[_Key, Counts], more: Mapping[_Key, Counts]) -> dict[_Key, Counts]:
    """Add counts to `total`, key by key; what is added stays as it is."""
    for key, counts in more.items():
        known = total.get(key)
        if known is None:
            total[key] = counts.copy()
        else:
            known += counts
    return total
