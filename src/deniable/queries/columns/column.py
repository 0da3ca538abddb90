"""Columns: the buckets of one column of a query's result, disjoint unless it says otherwise."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_flag
from deniable.errors import ParameterError
from deniable.queries.asking import FormTexts
from deniable.queries.columns.bucket_index import (
    NONE,
    ColumnIndex,
    PlainColumn,
)
from deniable.queries.columns.patterns import first_overlap
from deniable.queries.columns.ranges import (
    Range,
    Text,
    meant_as_number,
    read_range,
    read_text,
    written,
)
from deniable.queries.texts import check_text

__all__ = ["MOST_BUCKETS", "Column"]


_Edges = tuple[NDArray[Any], NDArray[Any], NDArray[np.intp]]

MOST_BUCKETS = 1 << 16
_MOST_COMPARISONS = 1 << 18


@dataclass(frozen=True)
class Column:
    """The buckets of one column of the answer: all of them ranges of numbers, or all of them texts.

    With `other`, everything else (including missing values and values of another type) goes into an
    extra last bucket.

    >>> Column("distance", ["[0,1)", "[1,2)", "[2,inf)"]).labels
    ('[0,1)', '[1,2)', '[2,inf)')
    >>> Column("distance", ["[0,1]", "[1,2)"])
    Traceback (most recent call last):
    deniable.errors.ParameterError: buckets[1] = '[1,2)' overlaps '[0,1]': both hold 1
    """

    name: str
    buckets: tuple[Range, ...] | tuple[Text, ...]
    other: bool = False
    kind: Literal["number", "text"] = "number"
    overlapping: bool = False
    """Whether a value may be in several buckets: for queries with `ones` above 1."""
    form: FormTexts | None = None
    """What a person reads, in a query that asks people: given as `question` and `labels`."""

    def __init__(
        self,
        name: str,
        buckets: Iterable[Any],
        other: bool = False,
        kind: Literal["number", "text"] | None = None,
        overlapping: bool = False,
        question: Mapping[str, str] | None = None,
        labels: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        check_text("name", name, 200, "the name of a column of the answer")
        check_flag("other", other)
        if isinstance(buckets, str) or not isinstance(buckets, Iterable):
            raise ParameterError("buckets", buckets, "must be a list of buckets")
        given = list(buckets)
        if not given or len(given) > MOST_BUCKETS:
            raise ParameterError(
                "buckets", f"{len(given)} buckets", f"must number between 1 and {MOST_BUCKETS}"
            )
        if kind is None:
            kind = "number" if any(map(meant_as_number, given)) else "text"
        if kind not in ("number", "text"):
            raise ParameterError("kind", kind, "must be 'number' or 'text'")
        read = read_range if kind == "number" else read_text
        parsed = tuple(read(f"buckets[{i}]", bucket) for i, bucket in enumerate(given))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "buckets", parsed)
        object.__setattr__(self, "other", other)
        object.__setattr__(self, "kind", kind)
        check_flag("overlapping", overlapping)
        object.__setattr__(self, "overlapping", overlapping)
        if not overlapping:
            self._refuse_overlaps()
        asked = (
            None
            if question is None and labels is None
            else FormTexts.of(question, labels, len(self))
        )
        object.__setattr__(self, "form", asked)

    @property
    def choices(self) -> tuple[str | float | None, ...]:
        """For each bucket, `other` not included, the one value that it holds; None for patterns and
        ranges of several values."""
        if self.kind == "number":
            return tuple(r.low if r.low == r.high else None for r in self._ranges)
        return tuple(text.text if text.kind == "exact" else None for text in self._texts)

    def _refuse_overlaps(self) -> None:
        if self.kind == "number":
            for i, (below, above) in enumerate(pairwise(self._ranges)):
                if above.first > below.last:
                    continue
                if above.last < below.first:
                    raise ParameterError(
                        f"buckets[{i + 1}]",
                        str(above),
                        f"must come before {str(below)!r}: buckets ascend",
                    )
                both = written(max(below.first, above.first))
                raise ParameterError(
                    f"buckets[{i + 1}]", str(above), f"overlaps {str(below)!r}: both hold {both}"
                )
            return
        texts = self._texts
        exact = {
            text.text: i for i, text in reversed(list(enumerate(texts))) if text.kind == "exact"
        }
        patterns = [(i, text) for i, text in enumerate(texts) if text.kind != "exact"]
        if len(patterns) * len(texts) > _MOST_COMPARISONS:
            raise ParameterError(
                "buckets",
                f"{len(patterns)} patterns of {len(texts)} buckets",
                "are too many to check for overlaps",
            )
        for i, text in enumerate(texts):
            if text.kind == "exact" and exact[text.text] != i:
                raise ParameterError(
                    f"buckets[{i}]",
                    str(text),
                    f"is repeated: it is also buckets[{exact[text.text]}]",
                )
            if text.kind == "exact":
                for j, pattern in patterns:
                    if pattern.holds(text.text):
                        one, two = min(i, j), max(i, j)
                        raise ParameterError(
                            f"buckets[{two}]", str(texts[two]), _overlap(texts[one], text.text)
                        )
        found = first_overlap([pattern.automaton for _, pattern in patterns])
        if found:
            (_, one_text), (j, two_text) = patterns[found[0]], patterns[found[1]]
            raise ParameterError(f"buckets[{j}]", str(two_text), _overlap(one_text, found[2]))

    @cached_property
    def _ranges(self) -> tuple[Range, ...]:
        return tuple(b for b in self.buckets if isinstance(b, Range))

    @cached_property
    def _texts(self) -> tuple[Text, ...]:
        return tuple(b for b in self.buckets if isinstance(b, Text))

    @cached_property
    def plain(self) -> PlainColumn:
        """What a :class:`ColumnIndex` is made from, in any process."""
        if self.kind == "number":
            buckets: Any = tuple(r.plain for r in self._ranges)
        else:
            buckets = tuple(
                text.text if text.kind == "exact" else text.automaton.plain for text in self._texts
            )
        return self.kind, len(self), self.outside, self.overlapping, buckets

    @cached_property
    def _index(self) -> ColumnIndex:
        return ColumnIndex(self.plain)

    @property
    def n_positions(self) -> int:
        """The positions of all patterns: for each character of a text, at most that many steps."""
        return sum(len(text.automaton.ranges) for text in self._texts if text.kind != "exact")

    @cached_property
    def _edges(self) -> _Edges:
        """The first and last double of each range, and its position."""
        first, last = [r.first for r in self._ranges], [r.last for r in self._ranges]
        return np.array(first), np.array(last), np.append(np.arange(len(first)), self.outside)

    @cached_property
    def _integer_edges(self) -> _Edges:
        """The first and last 64-bit integer of each range that contains one, and its position."""
        smallest, largest = -(1 << 63), (1 << 63) - 1
        first, last, places = [], [], []
        for place, r in enumerate(self._ranges):
            low = (
                smallest
                if math.isinf(r.low)
                else math.ceil(r.low) + (not r.low_closed and r.low.is_integer())
            )
            high = (
                largest
                if math.isinf(r.high)
                else math.floor(r.high) - (not r.high_closed and r.high.is_integer())
            )
            if max(low, smallest) <= min(high, largest):
                first.append(max(low, smallest))
                last.append(min(high, largest))
                places.append(place)
        return (
            np.array(first, dtype=np.int64),
            np.array(last, dtype=np.int64),
            np.array([*places, self.outside]),
        )

    def __len__(self) -> int:
        return len(self.buckets) + self.other

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One label per bucket, in order."""
        return (*map(str, self.buckets), "other") if self.other else tuple(map(str, self.buckets))

    @property
    def outside(self) -> int:
        """The bucket of a value that is in none of the others."""
        return len(self.buckets) if self.other else NONE

    def indices(self, value: Any) -> list[int]:
        """All buckets that one value is in, ascending; that of `other`, or none, if it is in no
        bucket.

        >>> Column("age", ["[0,inf)", "[18,inf)", "[65,inf)"], overlapping=True).indices(40)
        [0, 1]
        """
        return self._index.indices(value.item() if isinstance(value, np.generic) else value)

    def index(self, value: Any) -> int:
        """The bucket of one value."""
        return self._index.index(value.item() if isinstance(value, np.generic) else value)

    def index_many(self, values: NDArray[Any]) -> NDArray[np.intp]:
        """The bucket of each value of a one-dimensional array: :meth:`index` in bulk."""
        values = np.asarray(values)
        if values.ndim != 1:
            raise ParameterError("values", values.shape, "must have one dimension")
        if self.overlapping:
            return np.fromiter(
                (self.index(value) for value in values.tolist()), dtype=np.intp, count=values.size
            )
        if self.kind == "number" and values.dtype.kind == "f" and values.dtype.itemsize <= 8:
            return _search(self._edges, values.astype(np.float64, copy=False))
        if self.kind == "number" and (
            values.dtype.kind in "ib" or (values.dtype.kind == "u" and values.dtype.itemsize < 8)
        ):
            return _search(self._integer_edges, values.astype(np.int64, copy=False))
        if values.dtype.kind == "U":
            distinct, inverse = np.unique(values, return_inverse=True)
            return np.array([self.index(value) for value in distinct.tolist()], dtype=np.intp)[
                inverse
            ]
        return np.fromiter(
            (self.index(value) for value in values.tolist()), dtype=np.intp, count=values.size
        )

    def to_dict(self) -> dict[str, Any]:
        """The constructor's arguments that make this column again, as JSON values in their
        canonical form."""
        if self.kind == "number":
            written: list[Any] = [r.low if r.low == r.high else str(r) for r in self._ranges]
        else:
            written = [
                text.text if text.kind == "exact" else {text.kind: text.text}
                for text in self._texts
            ]
        tree = {"name": self.name, "kind": self.kind, "buckets": written, "other": self.other}
        if self.overlapping:
            tree["overlapping"] = True
        return tree if self.form is None else {**tree, **self.form.to_dict()}


def _search(edges: _Edges, values: NDArray[Any]) -> NDArray[np.intp]:
    first, last, places = edges
    if not first.size:
        return np.full(values.size, places[-1], dtype=np.intp)
    found = np.searchsorted(first, values, side="right") - 1
    found[~(values <= last[found])] = -1  # written so that NaN is outside too
    return places[found].astype(np.intp, copy=False)


def _overlap(other: Text, both: str) -> str:
    return f"overlaps {str(other)!r}: both hold {both!r}"
