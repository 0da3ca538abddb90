"""What an attacker looks at in a report: each view maps reports to small numbers (cells), and an
event is a set of them.

A view may use everything public: the bytes, the hash functions, the claimed channel. It may be
wrong about all of it: the bound comes from counting, and a bad view only makes it smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Cells",
    "ClaimedLikelihood",
    "CountDifference",
    "EqualReports",
    "ItemScores",
    "Supports",
    "View",
    "WholeReport",
]

_Rows = NDArray[Any]
Cells = NDArray[np.intp]
_LEVELS = 48
_MOST_DISTINCT = 4096
_MOST_BYTES = 512
_TELLING = 4.0
"""How many standard deviations above chance a byte must be to count as informative."""


class View(Protocol):
    """How reports become cells."""

    name: str

    def fit(self, rows: Sequence[_Rows]) -> bool:
        """Fit the view to the reports of each input; False if this view says nothing about them."""

    def cells(self, rows: _Rows, one: int, other: int) -> Cells:
        """The cell of each report, for telling the inputs `one` and `other` apart."""

    @property
    def n_cells(self) -> int:
        """How many cells there are."""


def _as_bytes(rows: _Rows) -> NDArray[np.uint8]:
    contiguous = np.ascontiguousarray(rows)
    return contiguous.view(np.uint8).reshape(len(rows), -1)


def _bin(scores: NDArray[np.float64], edges: NDArray[np.float64]) -> Cells:
    return np.searchsorted(edges, scores, side="right")


class WholeReport:
    """The report itself, where not too many different ones occur."""

    name = "the whole report"

    def __init__(self) -> None:
        self._known: NDArray[Any] = np.empty(0)

    def fit(self, rows: Sequence[_Rows]) -> bool:
        keys = [np.unique(self._keys(part)) for part in rows]
        self._known = np.unique(np.concatenate(keys))
        return len(self._known) <= _MOST_DISTINCT

    @staticmethod
    def _keys(rows: _Rows) -> NDArray[Any]:
        content = _as_bytes(rows)
        return content.view(f"S{content.shape[1]}")[:, 0]

    @property
    def n_cells(self) -> int:
        return len(self._known) + 1

    def cells(self, rows: _Rows, one: int, other: int) -> Cells:
        keys = self._keys(rows)
        place = np.minimum(np.searchsorted(self._known, keys), len(self._known) - 1)
        return np.where(self._known[place] == keys, place, len(self._known))


class ItemScores:
    """The bytes of a report, each weighted by how much more often it occurs under one input than
    under the other.

    The chance differences of many uninformative bytes add up to more than the signal of a few
    informative ones. So only bytes whose values differ by more than chance explains are counted (a
    chi-square test per position).
    """

    name = "the report's bytes, weighed one by one"
    n_cells = _LEVELS

    def __init__(self) -> None:
        self._counts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._weights: dict[tuple[int, int], NDArray[np.float64]] = {}
        self._sample: list[NDArray[np.uint8]] = []
        self._edges: dict[tuple[int, int], NDArray[np.float64]] = {}

    def fit(self, rows: Sequence[_Rows]) -> bool:
        content = [_as_bytes(part) for part in rows]
        width = content[0].shape[1]
        if width > _MOST_BYTES:
            return False
        offsets = 256 * np.arange(width)
        counts = [
            np.bincount((part + offsets).reshape(-1), minlength=256 * width) for part in content
        ]
        self._counts = np.array(counts).reshape(len(content), width, 256)
        self._sample = [part[:4000] for part in content]
        return True

    def _weigh(self, one: int, other: int) -> NDArray[np.float64]:
        """How strongly each value of each byte indicates one input over the other."""
        first, second = self._counts[one], self._counts[other]
        both = first + second
        degrees = np.maximum(np.count_nonzero(both, axis=1) - 1, 1)
        square = ((first - second) ** 2 / np.maximum(both, 1)).sum(axis=1)
        excess = (square - degrees) / np.sqrt(2 * degrees)
        telling = excess >= min(_TELLING, float(excess.max()))
        gains = np.log(first + 0.5) - np.log(second + 0.5)
        return np.where(telling[:, None], gains, 0.0).reshape(-1)

    def _scores(self, content: NDArray[np.uint8], one: int, other: int) -> NDArray[np.float64]:
        if (one, other) not in self._weights:
            self._weights[one, other] = self._weigh(one, other)
        difference = self._weights[one, other]
        places = content + 256 * np.arange(content.shape[1])
        return np.asarray(difference[places].sum(axis=1), dtype=np.float64)

    def cells(self, rows: _Rows, one: int, other: int) -> Cells:
        if (one, other) not in self._edges:
            seen = np.concatenate([self._scores(self._sample[i], one, other) for i in (one, other)])
            self._edges[one, other] = np.quantile(seen, np.linspace(0, 1, _LEVELS + 1)[1:-1])
        return _bin(self._scores(_as_bytes(rows), one, other), self._edges[one, other])


class Supports:
    """Whether a report supports each of the two inputs, as the mechanism's own estimator counts it.

    `supports(rows, inputs)` returns one column per input: a whole number from 0 to `most`.
    """

    name = "what the report supports"

    def __init__(self, supports: Callable[[_Rows, list[int]], NDArray[Any]], most: int = 1) -> None:
        self._supports = supports
        self._most = most

    def fit(self, rows: Sequence[_Rows]) -> bool:
        return True

    @property
    def n_cells(self) -> int:
        return (self._most + 1) ** 2

    def cells(self, rows: _Rows, one: int, other: int) -> Cells:
        counts = self._supports(rows, [one, other]).astype(np.intp)
        return counts[:, 0] * (self._most + 1) + counts[:, 1]


class ClaimedLikelihood:
    """How much more probable a report is under one input than under the other, by the claimed
    channel.

    `logs(rows, i)` returns the logarithm of a report's probability under input i, up to terms
    common to all inputs.
    """

    name = "the claimed likelihood ratio"
    n_cells = _LEVELS

    def __init__(self, logs: Callable[[_Rows, int], NDArray[np.float64]], epsilon: float) -> None:
        self._logs = logs
        self._edges = np.linspace(-epsilon, epsilon, _LEVELS + 1)[1:-1]

    def fit(self, rows: Sequence[_Rows]) -> bool:
        return True

    def cells(self, rows: _Rows, one: int, other: int) -> Cells:
        return _bin(self._logs(rows, one) - self._logs(rows, other), self._edges)


class EqualReports:
    """For two reports: how many of their bytes are equal, and whether all are."""

    name = "how much of two reports is equal"
    n_cells = _LEVELS + 1

    def fit(self, rows: Sequence[_Rows]) -> bool:
        return True

    def cells(self, rows: _Rows, one: int, other: int) -> Cells:
        first, second = np.hsplit(_as_bytes(rows), 2)
        equal = np.count_nonzero(first == second, axis=1)
        return np.where(equal == first.shape[1], _LEVELS, np.minimum(equal, _LEVELS - 1))


class CountDifference:
    """For counts, one column per label: how many more there are of one input than of the other."""

    name = "the difference of two counts"
    n_cells = _LEVELS + 1

    def __init__(self, columns: Sequence[int]) -> None:
        self._columns = list(columns)

    def fit(self, rows: Sequence[_Rows]) -> bool:
        return True

    def cells(self, rows: _Rows, one: int, other: int) -> Cells:
        difference = rows[:, self._columns[one]].astype(np.intp) - rows[
            :, self._columns[other]
        ].astype(np.intp)
        return np.clip(difference + _LEVELS // 2, 0, _LEVELS)
