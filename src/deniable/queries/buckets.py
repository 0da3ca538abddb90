"""Buckets: what an analyst can distinguish. Ranges, exact values and text patterns per column; columns combine as a product.

The buckets of a column are checked to be disjoint, unless the column says that they may overlap. The bucket of an answer over
several columns is the mixed-radix number of its columns' buckets, with the first column most significant (Lavengood 2017, 5.3.1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.queries.bucket_index import NONE, BucketIndex, ColumnIndex, PlainColumn, PlainRange, in_range
from deniable.queries.patterns import Automaton, compile_pattern, first_overlap
from deniable.queries.texts import check_text, first_repeated

__all__ = ["NONE", "Buckets", "Column", "Range", "Text"]

_Edges = tuple[NDArray[Any], NDArray[Any], NDArray[np.intp]]

MOST_BUCKETS = 1 << 16
_MOST_COMPARISONS = 1 << 18
_LONGEST_LABELS = 1 << 24
"""The most characters in the names of all combinations: a few kilobytes of columns can combine to gigabytes of names."""
_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf"
_RANGE = re.compile(rf"\s*([\[(])\s*({_NUMBER})\s*,\s*({_NUMBER})\s*([\])])\s*", re.ASCII)
_RULE = "must be a range such as '[0,1)', '(2.5,3]' or '[10,inf)', or a number for an exact value"


def _double(text: str) -> float:
    value = float(text)
    if math.isinf(value) and "inf" not in text:
        raise ParameterError("bound", text, "is beyond the largest double")
    if re.fullmatch(r"[+-]?\d+", text) and int(text) != value:
        raise ParameterError("bound", text, "is an integer that a double cannot represent")
    return value + 0.0  # no negative zero: it would be written differently with the same meaning


def _written(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and value == int(value) and abs(value) < 2**53 else repr(value)


@dataclass(frozen=True)
class Range:
    """Numbers between two bounds, each closed (it belongs) or open.

    >>> Range.parse("(2.5, 3]")
    Range('(2.5,3]')
    >>> [Range.parse("(2.5,3]").holds(x) for x in (2.5, 2.6, 3)]
    [False, True, True]
    """

    low: float
    high: float
    low_closed: bool = True
    high_closed: bool = False

    def __post_init__(self) -> None:
        if math.isnan(self.low) or math.isnan(self.high):
            raise ParameterError("range", str(self), "must not have a bound that is not a number")
        if (math.isinf(self.low) and self.low_closed) or (math.isinf(self.high) and self.high_closed):
            raise ParameterError("range", str(self), "must be open at an infinite end")
        if self.first > self.last:
            raise ParameterError("range", str(self), "contains no number: its lower bound must come first")

    @classmethod
    def parse(cls, text: str) -> Range:
        """The range written in the usual way."""
        found = _RANGE.fullmatch(text)
        if not found:
            raise ParameterError("range", text, _RULE)
        return cls(_double(found[2]), _double(found[3]), found[1] == "[", found[4] == "]")

    @classmethod
    def exactly(cls, value: float) -> Range:
        """The range that contains one number."""
        if isinstance(value, int) and abs(value) > 2**53 and (abs(value) >> 1024 or int(float(value)) != value):
            raise ParameterError("value", value, "is an integer that a double cannot represent")
        if not math.isfinite(value):
            raise ParameterError("value", value, "must be finite")
        return cls(float(value) + 0.0, float(value) + 0.0, True, True)

    @cached_property
    def first(self) -> float:
        """The smallest double in the range."""
        return self.low if self.low_closed else math.nextafter(self.low, math.inf)

    @cached_property
    def last(self) -> float:
        """The largest double in the range."""
        return self.high if self.high_closed else math.nextafter(self.high, -math.inf)

    @property
    def plain(self) -> PlainRange:
        """Its bounds for a :class:`ColumnIndex`."""
        return self.low, self.high, self.low_closed, self.high_closed, self.first, self.last

    def holds(self, value: float) -> bool:
        """Whether the number lies in the range; integers of any size are compared exactly."""
        return in_range(self.plain, value)

    def __str__(self) -> str:
        if self.low == self.high:
            return _written(self.low)
        ends = "[" if self.low_closed else "(", "]" if self.high_closed else ")"
        return f"{ends[0]}{_written(self.low)},{_written(self.high)}{ends[1]}"

    def __repr__(self) -> str:
        return f"Range({str(self)!r})"


@dataclass(frozen=True)
class Text:
    """An exact text, or all texts that match a glob or a regular expression: always the whole text.

    >>> Text("glob", "New *").holds("New York")
    True
    """

    kind: Literal["exact", "glob", "regex"]
    text: str

    def __post_init__(self) -> None:
        if self.kind != "exact":
            compile_pattern(self.kind, self.text)

    @property
    def automaton(self) -> Automaton:
        """What reads texts for a pattern."""
        if self.kind == "exact":
            raise TypeError("an exact text is compared, not matched")
        return compile_pattern(self.kind, self.text)

    def holds(self, value: str) -> bool:
        """Whether the text is in the bucket."""
        return self.text == value if self.kind == "exact" else self.automaton.matches(value)

    def __str__(self) -> str:
        return self.text if self.kind == "exact" else f"{self.kind}:{self.text}"


@dataclass(frozen=True)
class Column:
    """The buckets of one column of the answer: all of them ranges of numbers, or all of them texts.

    With `other`, everything else (including missing values and values of another type) goes into an extra last bucket.

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

    def __init__(
        self,
        name: str,
        buckets: Iterable[Any],
        other: bool = False,
        kind: Literal["number", "text"] | None = None,
        overlapping: bool = False,
    ) -> None:
        check_text("name", name, 200, "the name of a column of the answer")
        if not isinstance(other, bool):
            raise ParameterError("other", other, "must be true or false")
        if isinstance(buckets, str) or not isinstance(buckets, Iterable):
            raise ParameterError("buckets", buckets, "must be a list of buckets")
        given = list(buckets)
        if not given or len(given) > MOST_BUCKETS:
            raise ParameterError("buckets", f"{len(given)} buckets", f"must number between 1 and {MOST_BUCKETS}")
        if kind is None:
            kind = "number" if any(map(_meant_as_number, given)) else "text"
        if kind not in ("number", "text"):
            raise ParameterError("kind", kind, "must be 'number' or 'text'")
        read = _read_range if kind == "number" else _read_text
        parsed = tuple(read(f"buckets[{i}]", bucket) for i, bucket in enumerate(given))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "buckets", parsed)
        object.__setattr__(self, "other", other)
        object.__setattr__(self, "kind", kind)
        if not isinstance(overlapping, bool):
            raise ParameterError("overlapping", overlapping, "must be true or false")
        object.__setattr__(self, "overlapping", overlapping)
        if not overlapping:
            self._refuse_overlaps()

    def _refuse_overlaps(self) -> None:
        if self.kind == "number":
            for i, (below, above) in enumerate(pairwise(self._ranges)):
                if above.first > below.last:
                    continue
                if above.last < below.first:
                    raise ParameterError(f"buckets[{i + 1}]", str(above), f"must come before {str(below)!r}: buckets ascend")
                both = _written(max(below.first, above.first))
                raise ParameterError(f"buckets[{i + 1}]", str(above), f"overlaps {str(below)!r}: both hold {both}")
            return
        texts = self._texts
        exact = {text.text: i for i, text in reversed(list(enumerate(texts))) if text.kind == "exact"}
        patterns = [(i, text) for i, text in enumerate(texts) if text.kind != "exact"]
        if len(patterns) * len(texts) > _MOST_COMPARISONS:
            raise ParameterError(
                "buckets", f"{len(patterns)} patterns of {len(texts)} buckets", "are too many to check for overlaps"
            )
        for i, text in enumerate(texts):
            if text.kind == "exact" and exact[text.text] != i:
                raise ParameterError(f"buckets[{i}]", str(text), f"is repeated: it is also buckets[{exact[text.text]}]")
            if text.kind == "exact":
                for j, pattern in patterns:
                    if pattern.holds(text.text):
                        one, two = min(i, j), max(i, j)
                        raise ParameterError(f"buckets[{two}]", str(texts[two]), _overlap(texts[one], text.text))
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
            buckets = tuple(text.text if text.kind == "exact" else text.automaton.plain for text in self._texts)
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
            low = smallest if math.isinf(r.low) else math.ceil(r.low) + (not r.low_closed and r.low.is_integer())
            high = largest if math.isinf(r.high) else math.floor(r.high) - (not r.high_closed and r.high.is_integer())
            if max(low, smallest) <= min(high, largest):
                first.append(max(low, smallest))
                last.append(min(high, largest))
                places.append(place)
        return np.array(first, dtype=np.int64), np.array(last, dtype=np.int64), np.array([*places, self.outside])

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
        """All buckets that one value is in, ascending; that of `other`, or none, if it is in no bucket.

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
            return np.fromiter((self.index(value) for value in values.tolist()), dtype=np.intp, count=values.size)
        if self.kind == "number" and values.dtype.kind == "f" and values.dtype.itemsize <= 8:
            return _search(self._edges, values.astype(np.float64, copy=False))
        if self.kind == "number" and (values.dtype.kind in "ib" or (values.dtype.kind == "u" and values.dtype.itemsize < 8)):
            return _search(self._integer_edges, values.astype(np.int64, copy=False))
        if values.dtype.kind == "U":
            distinct, inverse = np.unique(values, return_inverse=True)
            return np.array([self.index(value) for value in distinct.tolist()], dtype=np.intp)[inverse]
        return np.fromiter((self.index(value) for value in values.tolist()), dtype=np.intp, count=values.size)

    def to_dict(self) -> dict[str, Any]:
        """The constructor's arguments that make this column again, as JSON values in their canonical form."""
        if self.kind == "number":
            written: list[Any] = [r.low if r.low == r.high else str(r) for r in self._ranges]
        else:
            written = [text.text if text.kind == "exact" else {text.kind: text.text} for text in self._texts]
        tree = {"name": self.name, "kind": self.kind, "buckets": written, "other": self.other}
        return {**tree, "overlapping": True} if self.overlapping else tree


def _search(edges: _Edges, values: NDArray[Any]) -> NDArray[np.intp]:
    first, last, places = edges
    if not first.size:
        return np.full(values.size, places[-1], dtype=np.intp)
    found = np.searchsorted(first, values, side="right") - 1
    found[~(values <= last[found])] = -1  # written so that NaN is outside too
    return places[found].astype(np.intp, copy=False)


def _overlap(other: Text, both: str) -> str:
    return f"overlaps {str(other)!r}: both hold {both!r}"


def _meant_as_number(bucket: Any) -> bool:
    """Also for a malformed range: taken as a text, it would be a bucket that contains no number."""
    if isinstance(bucket, str):
        return bucket.startswith(("[", "(")) and bucket.endswith((")", "]"))
    return isinstance(bucket, Range | float | int)


def _read_range(place: str, bucket: Any) -> Range:
    if isinstance(bucket, Range):
        return bucket
    if isinstance(bucket, bool) or not isinstance(bucket, str | int | float):
        raise ParameterError(place, bucket, _RULE)
    try:
        return Range.parse(bucket) if isinstance(bucket, str) else Range.exactly(bucket)
    except ParameterError as error:
        raise ParameterError(place, bucket, error.rule) from None


def _read_text(place: str, bucket: Any) -> Text:
    rule = 'must be a text, { glob = "…" } or { regex = "…" }'
    if isinstance(bucket, Text):
        return bucket
    kind: Literal["exact", "glob", "regex"]
    if isinstance(bucket, str):
        kind, text = "exact", bucket
    elif isinstance(bucket, dict) and (set(bucket) == {"glob"} or set(bucket) == {"regex"}):
        kind = "glob" if "glob" in bucket else "regex"
        text = bucket[kind]
    else:
        raise ParameterError(place, bucket, rule)
    check_text(place, text, 1000, "a value or a pattern", empty=True)
    try:
        return Text(kind, text)
    except ParameterError as error:
        raise ParameterError(place, text, error.rule) from None


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
            raise ParameterError("columns", f"{len(self)} buckets", f"must combine to between 2 and {MOST_BUCKETS} buckets")
        n_characters = sum(
            len(self) // len(column) * sum(len(label) + len(column.name) + 3 for label in column.labels) for column in given
        )
        if n_characters > _LONGEST_LABELS:
            raise ParameterError("columns", f"labels of {n_characters} characters", f"must have at most {_LONGEST_LABELS}")
        twice = first_repeated(self.labels)
        if twice is not None:
            raise ParameterError("columns", self.labels[twice], "is the name of two buckets, so results would be ambiguous")

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
        """The bucket of one answer, given as a row with one value per column; `NONE` if it is in none."""
        self._check_width(len(row))
        return self._index.index(tuple(row))

    def indices(self, row: Sequence[Any]) -> list[int]:
        """All buckets of one answer, ascending: every combination of those that its columns are in."""
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
                raise ParameterError("columns", found.size, f"must have as many values as the first, {total.size}")
            outside |= found == NONE
            total = total * len(column) + found
        assert total is not None  # noqa: S101 - there is at least one column
        total[outside] = NONE
        return total

    def _check_width(self, width: int) -> None:
        if width != len(self.columns):
            raise ParameterError("row", f"{width} values", f"must be {len(self.columns)}: one per column of the query")
