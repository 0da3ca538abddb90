"""Generalisation hierarchies: from a value to ever wider labels, level by level, up to ``*``.

A hierarchy is a rule that is fixed before the table is seen. Level 0 is the value itself, the last
level is ``*`` for everybody. A missing value (empty, None, NaN) counts as a separate value, shown
as None, on every level but the last.

Each label has a loss: 0 for a single value, 1 for ``*``, and in between the fraction of the domain
that the label covers (Iyengar's loss, 2002). It depends only on the label.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

from deniable.checks import check_finite, whole
from deniable.errors import ParameterError
from deniable.mechanisms.domain import missing

__all__ = ["ANY", "Categories", "Dates", "Hierarchy", "Masked", "Numbers", "is_missing"]

ANY = "*"
"""The label of the last level."""
_MOST_LEVELS = 64


def is_missing(value: Any) -> bool:
    """Whether a cell is empty: None, NaN, or an empty text."""
    return value == "" if isinstance(value, str) else missing(value)


class Hierarchy(ABC):
    """A rule that gives each value a label on each level."""

    @property
    @abstractmethod
    def levels(self) -> int:
        """How many levels there are, with level 0 and the last one, ``*``."""

    @abstractmethod
    def check(self, value: Any) -> None:
        """Raise a ValueError whose text is the rule that the value breaks. It must not contain the
        value."""

    def label(self, value: Any, level: int) -> Hashable:
        """The label of a value that :meth:`check` accepts."""
        if level == self.levels - 1:
            return ANY
        if is_missing(value):
            return None
        return self.inner_label(value, level) if level else value

    def loss(self, value: Any, level: int) -> float:
        """The part of the domain that the value's label covers beyond one value: 0 to 1."""
        if level == self.levels - 1:
            return 1.0
        return self.inner_loss(value, level) if level and not is_missing(value) else 0.0

    @abstractmethod
    def inner_label(self, value: Any, level: int) -> Hashable:
        """The label on a level between the first and the last."""

    @abstractmethod
    def inner_loss(self, value: Any, level: int) -> float:
        """The loss on a level between the first and the last."""

    def domain(self, level: int) -> list[Hashable] | None:
        """All labels of a level, in order, where they are known without any table. Missing values
        are not among them."""
        return [ANY] if level == self.levels - 1 else None


@dataclass(frozen=True)
class Categories(Hierarchy):
    """The value, or ``*``. Where `labels` are given, other values are refused.

    >>> Categories(("north", "south")).label("north", 1)
    '*'
    """

    labels: tuple[Hashable, ...] | None = None

    @property
    def levels(self) -> int:
        """Two."""
        return 2

    def check(self, value: Any) -> None:
        """Is it one of the labels?"""
        if self.labels is not None and not is_missing(value) and value not in self.labels:
            raise ValueError(f"is not one of the {len(self.labels)} labels")

    def inner_label(self, value: Any, level: int) -> Hashable:
        """There is no level in between."""
        raise AssertionError(level)

    def inner_loss(self, value: Any, level: int) -> float:
        """There is no level in between."""
        raise AssertionError(level)

    def domain(self, level: int) -> list[Hashable] | None:
        """The labels."""
        return super().domain(level) if level or self.labels is None else list(self.labels)


@dataclass(frozen=True)
class Numbers(Hierarchy):
    """Intervals of `width`, then of `factor` times as much, and so on, between declared bounds.

    Values outside the bounds get one label on either side. The bounds are part of the rule: taken
    from the table, they would reveal its extremes.

    >>> ages = Numbers(0, 100, width=5, factor=4)
    >>> [ages.label(37, level) for level in range(ages.levels)], ages.label(104, 1)
    ([37, '[35, 40)', '[20, 40)', '[0, 80)', '*'], '≥100')
    """

    low: float
    high: float
    width: float
    factor: int = 2

    def __post_init__(self) -> None:
        for name in ("low", "high", "width"):
            check_finite(name, getattr(self, name))
        if self.high <= self.low:
            raise ParameterError("high", self.high, f"must be above low = {self.low!r}")
        if not 0 < self.width <= self.high - self.low:
            raise ParameterError("width", self.width, "must be above 0 and at most high - low")
        whole("factor", self.factor, 2)
        if self.levels > _MOST_LEVELS:
            raise ParameterError(
                "width",
                self.width,
                f"makes {self.levels} levels; at most {_MOST_LEVELS} are allowed",
            )

    @cached_property
    def levels(self) -> int:
        """The values, one level for each width below that of the domain, and ``*``."""
        level, width = 2, self.width
        while (width := width * self.factor) < self.high - self.low:
            level += 1
        return level + 1

    def check(self, value: Any) -> None:
        """Is it a number?"""
        if not is_missing(value):
            _number(value)

    def inner_label(self, value: Any, level: int) -> Hashable:
        """The interval, or the side on which the value lies outside."""
        number = _number(value)
        if number < self.low:
            return f"<{self.low:.15g}"
        if number >= self.high:
            return f"≥{self.high:.15g}"
        # From the narrowest intervals up, so that each lies in one of the next level, whatever a
        # division rounds to.
        return self._interval(
            math.floor((number - self.low) / self.width) // self.factor ** (level - 1), level
        )

    def _interval(self, index: int, level: int) -> str:
        width = self.width * self.factor ** (level - 1)
        start = self.low + index * width
        return f"[{start:.15g}, {min(start + width, self.high):.15g})"

    def inner_loss(self, value: Any, level: int) -> float:
        """The part of the domain that an interval covers."""
        return min(1.0, self.width * float(self.factor) ** (level - 1) / (self.high - self.low))

    def domain(self, level: int) -> list[Hashable] | None:
        """The intervals, with what lies below and above."""
        if not 0 < level < self.levels - 1:
            return super().domain(level)
        steps = math.ceil((self.high - self.low) / (self.width * self.factor ** (level - 1)))
        return [
            f"<{self.low:.15g}",
            *(self._interval(i, level) for i in range(steps)),
            f"≥{self.high:.15g}",
        ]


@dataclass(frozen=True)
class Dates(Hierarchy):
    """The day, its month, its year, its decade, ``*``; levels that would cover the whole range are
    left out.

    >>> born = Dates(date(1920, 1, 1), date(2019, 12, 31))
    >>> [born.label("1987-06-05", level) for level in range(born.levels)]
    ['1987-06-05', '1987-06', '1987', '1980s', '*']
    """

    low: date
    high: date

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            try:
                object.__setattr__(self, name, _date(getattr(self, name)))
            except ValueError:
                raise ParameterError(
                    name, getattr(self, name), "must be a date such as 1987-06-05"
                ) from None
        if self.high <= self.low:
            raise ParameterError(
                "high", self.high.isoformat(), f"must be after low = {self.low.isoformat()!r}"
            )

    @cached_property
    def _days(self) -> float:
        return (self.high - self.low) / timedelta(days=1) + 1

    @cached_property
    def levels(self) -> int:
        """Two, and one for each span shorter than the range."""
        return 2 + sum(span < self._days for span in _SPANS)

    def check(self, value: Any) -> None:
        """Is it a date?"""
        if not is_missing(value):
            _date(value)

    def inner_label(self, value: Any, level: int) -> Hashable:
        """The month, the year or the decade."""
        day = _date(value)
        return (f"{day:%Y-%m}", f"{day.year:04}", f"{day.year // 10 * 10:04}s")[level - 1]

    def inner_loss(self, value: Any, level: int) -> float:
        """The span as a part of the range."""
        return _SPANS[level - 1] / self._days


_SPANS = (30.44, 365.25, 3652.5)
"""Days of a month, a year, a decade."""


@dataclass(frozen=True)
class Masked(Hierarchy):
    """Codes of one length, such as postal codes, of which the last characters are hidden one after
    the other.

    >>> codes = Masked(5)
    >>> [codes.label("80331", level) for level in (1, 3, 5)]
    ['8033*', '80***', '*']
    """

    length: int
    alphabet: int = 10
    """How many characters there are: what a hidden one could be."""

    def __post_init__(self) -> None:
        for name, least in (("length", 1), ("alphabet", 2)):
            value = getattr(self, name)
            whole(name, value, least, _MOST_LEVELS)

    @property
    def levels(self) -> int:
        """One for each character, and the code itself."""
        return self.length + 1

    def check(self, value: Any) -> None:
        """Has it that length?"""
        if not is_missing(value) and len(str(value)) != self.length:
            raise ValueError(f"does not have {self.length} characters")

    def inner_label(self, value: Any, level: int) -> Hashable:
        """The first characters."""
        return str(value)[: self.length - level] + ANY * level

    def inner_loss(self, value: Any, level: int) -> float:
        """How many codes share the first characters, of all."""
        part: float = (self.alphabet**level - 1) / (self.alphabet**self.length - 1)
        return part


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("is not a number") from None
    if not math.isfinite(number):
        raise ValueError("is not a finite number")
    return number


def _date(value: Any) -> date:
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    try:
        return datetime.fromisoformat(value).date()
    except (TypeError, ValueError):
        raise ValueError("is not a date such as 1987-06-05") from None
