"""Which bucket a value is in, in plain Python.

Devices put answers into buckets inside the confined process that touches data
(`client/sandbox/worker.py`). That process loads this file alone, so it imports nothing of this
package, and it is given columns and patterns as plain tuples (`Plain…`).

A pattern is read with sets of positions stored as integers (`patterns.py`). Reading a character
looks up, for every eight positions, which may follow, so a text takes at most (its length) x
(positions / 8) steps for any pattern.
"""

from __future__ import annotations

from bisect import bisect_right

__all__ = [
    "LONGEST_TEXT",
    "NONE",
    "BucketIndex",
    "ColumnIndex",
    "Matcher",
    "PlainColumn",
    "PlainPattern",
    "in_range",
]

NONE = -1
"""The index of an answer that is in no bucket."""
LONGEST_TEXT = 4096
"""A longer text matches no pattern."""
_MOST_REMEMBERED = 2_000
_LARGEST = (2**53 - 1) * 2**971  # the largest double

_Ranges = tuple[tuple[int, int], ...]
PlainPattern = tuple[tuple[_Ranges, ...], tuple[int, ...], int, int, bool]
"""An automaton: per position its characters and the mask of those that may follow; first and last
positions; empty matches."""
PlainRange = tuple[float, float, bool, bool, float, float]
"""Bounds, whether each belongs, and the first and last double inside."""
PlainColumn = tuple[str, int, int, bool, tuple[PlainRange, ...] | tuple[str | PlainPattern, ...]]
"""Kind, number of buckets, index of what is in none, whether buckets overlap, and the buckets."""


class Matcher:
    """One pattern, ready to read texts. Steps are remembered: usually one look-up per character."""

    def __init__(self, pattern: PlainPattern) -> None:
        ranges, self._follow, self._start, self._end, self._empty = pattern
        self._firsts, self._takers = _segments(ranges)
        self._tables: list[list[int]] = []
        self._steps: dict[tuple[int, str], int] = {}

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole text."""
        if len(text) > LONGEST_TEXT:
            return False
        if not text:
            return self._empty
        state = self._start & self._taking(text[0])
        steps = self._steps
        for character in text[1:]:
            if not state:
                return False
            found = steps.get((state, character))
            state = self._step(state, character) if found is None else found
        return bool(state & self._end)

    def _step(self, state: int, character: str) -> int:
        if len(self._steps) >= _MOST_REMEMBERED:
            self._steps.clear()
        found = self._steps[state, character] = self._following(state) & self._taking(character)
        return found

    def _following(self, state: int) -> int:
        """The positions that may come after any of these."""
        if not self._tables:
            self._tables = [
                _unions(self._follow[i : i + 8]) for i in range(0, len(self._follow), 8)
            ]
        reached = 0
        for table, part in zip(
            self._tables, state.to_bytes(len(self._tables), "little"), strict=True
        ):
            if part:
                reached |= table[part]
        return reached

    def _taking(self, character: str) -> int:
        """The mask of positions that match this character."""
        return self._takers[bisect_right(self._firsts, ord(character)) - 1]


def _unions(masks: tuple[int, ...]) -> list[int]:
    """The union of each subset of up to eight masks, by the subset's own mask."""
    table = [0]
    for mask in masks:
        table += [union | mask for union in table]
    return table


def _segments(ranges: tuple[_Ranges, ...]) -> tuple[list[int], list[int]]:
    """The ranges of characters that are matched by the same positions: first characters,
    positions."""
    owners: dict[_Ranges, int] = {}
    for position, each in enumerate(ranges):
        owners[each] = owners.get(each, 0) | 1 << position
    changes: dict[int, int] = {0: 0}
    for each, mask in owners.items():
        for low, high in each:
            changes[low] = changes.get(low, 0) ^ mask
            changes[high + 1] = changes.get(high + 1, 0) ^ mask
    firsts = sorted(changes)
    takers, mask = [], 0
    for first in firsts:
        mask ^= changes[first]
        takers.append(mask)
    return firsts, takers


def in_range(bounds: PlainRange, value: float) -> bool:
    """Whether a number lies in a range; integers of any size are compared exactly."""
    low, high, low_closed, high_closed, first, last = bounds
    # an integer between two doubles may be inside the bounds but not between first and last
    if isinstance(value, int):
        return (low <= value if low_closed else low < value) and (
            value <= high if high_closed else value < high
        )
    return first <= value <= last


class ColumnIndex:
    """The buckets of one column."""

    def __init__(self, column: PlainColumn) -> None:
        self._kind, self.size, self.outside, self._overlapping, buckets = column
        if self._kind == "number":
            self._ranges: tuple[PlainRange, ...] = buckets  # type: ignore[assignment]
            self._firsts = [bounds[4] for bounds in self._ranges]
            return
        self._exact: dict[str, int] = {}
        self._patterns: list[tuple[int, Matcher]] = []
        for place, bucket in enumerate(buckets):
            if isinstance(bucket, str):
                self._exact.setdefault(bucket, place)
            else:
                self._patterns.append((place, Matcher(bucket)))  # type: ignore[arg-type]

    def index(self, value: object) -> int:
        """The bucket of one value; the first of them if buckets overlap."""
        if self._overlapping:
            return next(iter(self.indices(value)), NONE)
        if self._kind == "text":
            return self._text_index(value) if isinstance(value, str) else self.outside
        if not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - only NaN differs from itself
            return self.outside
        at = bisect_right(self._firsts, float(min(max(value, -_LARGEST), _LARGEST)))
        # an integer that no double represents may be rounded past an edge, either way
        for place in (at - 1, at, at - 2):
            if 0 <= place < len(self._ranges) and in_range(self._ranges[place], value):
                return place
        return self.outside

    def _text_index(self, value: str) -> int:
        found = self._exact.get(value)
        if found is not None:
            return found
        return next(
            (place for place, pattern in self._patterns if pattern.matches(value)), self.outside
        )

    def indices(self, value: object) -> list[int]:
        """All buckets that one value is in, ascending; otherwise that of `other`, if there is
        one."""
        if not self._overlapping:
            found = self.index(value)
            return [] if found == NONE else [found]
        if self._kind == "text":
            inside = self._text_indices(value) if isinstance(value, str) else []
        else:
            number = isinstance(value, int | float) and value == value  # noqa: PLR0124 - only NaN differs from itself
            inside = [
                i
                for i, bounds in enumerate(self._ranges)
                if number and in_range(bounds, value)  # type: ignore[arg-type]
            ]
        return inside or ([self.outside] if self.outside != NONE else [])

    def _text_indices(self, value: str) -> list[int]:
        exact = [self._exact[value]] if value in self._exact else []
        return sorted(
            exact + [place for place, pattern in self._patterns if pattern.matches(value)]
        )


class BucketIndex:
    """The buckets of whole rows: the product of the columns', the first most significant."""

    def __init__(self, columns: tuple[PlainColumn, ...]) -> None:
        self.columns = tuple(ColumnIndex(column) for column in columns)

    def index(self, row: tuple[object, ...]) -> int:
        """The bucket of one row; `NONE` if it is in none."""
        total = 0
        for column, value in zip(self.columns, row, strict=True):
            found = column.index(value)
            if found == NONE:
                return NONE
            total = total * column.size + found
        return total

    def indices(self, row: tuple[object, ...]) -> list[int]:
        """All buckets of one row, ascending: every combination of those that its columns are in."""
        found = [0]
        for column, value in zip(self.columns, row, strict=True):
            places = column.indices(value)
            found = [total * column.size + place for total in found for place in places]
        return found
