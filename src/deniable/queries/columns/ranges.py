"""Ranges and texts: the buckets of one column, as an analyst writes them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from deniable.errors import ParameterError
from deniable.queries.columns.bucket_index import (
    PlainRange,
    in_range,
)
from deniable.queries.columns.patterns import Automaton, compile_pattern
from deniable.queries.texts import check_text

__all__ = ["Range", "Text", "meant_as_number", "read_range", "read_text", "written"]


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


def written(value: float) -> str:
    """A bound as it is written: whole numbers without a point."""
    return (
        str(int(value))
        if math.isfinite(value) and value == int(value) and abs(value) < 2**53
        else repr(value)
    )


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
        if (math.isinf(self.low) and self.low_closed) or (
            math.isinf(self.high) and self.high_closed
        ):
            raise ParameterError("range", str(self), "must be open at an infinite end")
        if self.first > self.last:
            raise ParameterError(
                "range", str(self), "contains no number: its lower bound must come first"
            )

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
        if (
            isinstance(value, int)
            and abs(value) > 2**53
            and (abs(value) >> 1024 or int(float(value)) != value)
        ):
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
            return written(self.low)
        ends = "[" if self.low_closed else "(", "]" if self.high_closed else ")"
        return f"{ends[0]}{written(self.low)},{written(self.high)}{ends[1]}"

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


def meant_as_number(bucket: Any) -> bool:
    """Also for a malformed range: taken as a text, it would be a bucket that contains no number."""
    if isinstance(bucket, str):
        return bucket.startswith(("[", "(")) and bucket.endswith((")", "]"))
    return isinstance(bucket, Range | float | int)


def read_range(place: str, bucket: Any) -> Range:
    """The range that a bucket of a column of numbers gives."""
    if isinstance(bucket, Range):
        return bucket
    if isinstance(bucket, bool) or not isinstance(bucket, str | int | float):
        raise ParameterError(place, bucket, _RULE)
    try:
        return Range.parse(bucket) if isinstance(bucket, str) else Range.exactly(bucket)
    except ParameterError as error:
        raise ParameterError(place, bucket, error.rule) from None


def read_text(place: str, bucket: Any) -> Text:
    """The text or pattern that a bucket of a column of texts gives."""
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
