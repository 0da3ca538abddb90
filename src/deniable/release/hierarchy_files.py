"""Hierarchies from files, from the text of an option, and from a column."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from deniable.errors import ParameterError, ReleaseError
from deniable.release.hierarchy import Categories, Dates, Hierarchy, Masked, Numbers, is_missing
from deniable.release.tree import Tree
from deniable.table_file import open_text

__all__ = ["automatic_hierarchy", "parse_hierarchy", "read_hierarchy"]

_KINDS: dict[str, tuple[type[Hierarchy], dict[str, type]]] = {
    "numbers": (Numbers, {"low": float, "high": float, "width": float, "factor": int}),
    "dates": (Dates, {"low": str, "high": str}),
    "masked": (Masked, {"length": int, "alphabet": int}),
    "categories": (Categories, {"labels": tuple}),
}
_INTERVALS = 64


def read_hierarchy(path: Path | str) -> Tree:
    """A tree from a CSV file without a header: in each row a value and its ever wider labels,
    separated by commas or semicolons.

    A file whose first row is ``value,parent`` holds a value and its parent in each further row
    instead.
    """
    path = Path(path)
    # labels such as [10,20) may contain commas
    with open_text(path, ReleaseError, delimiters=";,") as table:
        first, others = table.header, [row for row in table.rows if row]
    if first == ["value", "parent"]:
        return Tree.from_parents(others, str(path))
    return Tree.from_paths([first, *others], str(path))


def parse_hierarchy(text: str) -> tuple[str, Hierarchy | None]:
    """A column and its hierarchy from ``NAME=KIND:PARAMETER=VALUE,…``, or from ``NAME=FILE.csv``;
    None for ``NAME=auto``.

    >>> parse_hierarchy("age=numbers:low=0,high=100,width=5")
    ('age', Numbers(low=0.0, high=100.0, width=5.0, factor=2))
    >>> parse_hierarchy("sex=categories:labels=f|m")
    ('sex', Categories(labels=('f', 'm')))
    """
    name, equals, rest = text.partition("=")
    kind, _, arguments = rest.partition(":")
    if not (name and equals and kind):
        raise ReleaseError(
            f"{text!r} must have the form NAME=KIND:PARAMETER=VALUE,… or NAME=FILE.csv"
        )
    if kind == "auto" and not arguments:
        return name, None
    if kind not in _KINDS:
        if rest.lower().endswith(".csv"):
            return name, read_hierarchy(rest)
        raise ReleaseError(
            f"{text!r}: {kind!r} is neither a CSV file nor one of {', '.join(_KINDS)}, auto"
        )
    cls, types = _KINDS[kind]
    given: dict[str, Any] = {}
    for argument in filter(None, arguments.split(",")):
        parameter, equals, value = argument.partition("=")
        if parameter not in types or not equals:
            raise ReleaseError(
                f"{text!r}: {argument!r} must be one of"
                f" {', '.join(f'{known}=…' for known in types)}"
            )
        try:
            given[parameter] = (
                tuple(value.split("|")) if types[parameter] is tuple else types[parameter](value)
            )
        except ValueError:
            raise ReleaseError(f"{text!r}: {parameter} = {value!r} must be a number") from None
    try:
        return name, cls(**given)
    except TypeError:
        raise ReleaseError(
            f"{text!r}: {kind} needs {', '.join(f'{known}=…' for known in types)}"
        ) from None
    except ParameterError as error:
        raise ReleaseError(f"{text!r}: {error}") from None


def automatic_hierarchy(values: Iterable[Any]) -> Hierarchy:
    """A hierarchy that fits the distinct values of a column: numbers, dates, codes of one length
    with a leading 0, or categories.

    Its bounds are those of the values, so it reveals their extremes: for a differentially private
    release, derive it from public data.

    >>> automatic_hierarchy([17, 90, 23])
    Numbers(low=17.0, high=91.0, width=2.0, factor=2)
    >>> automatic_hierarchy(["yes", "no"])
    Categories(labels=None)
    """
    present = [value for value in values if not is_missing(value)]
    if present and all(isinstance(value, str) and value.isdecimal() for value in present):
        lengths = {len(value) for value in present}
        if len(lengths) == 1 and any(value[0] == "0" for value in present) and lengths != {1}:
            return Masked(lengths.pop())
    numbers = _all(present, lambda value: math.nan if isinstance(value, bool) else float(value))
    if len(numbers) > 2 and all(map(math.isfinite, numbers)):
        return _numbers(min(numbers), max(numbers))
    return _dates(present) or Categories()


def _all(values: list[Any], convert: Any) -> list[Any]:
    try:
        return [convert(value) for value in values]
    except (TypeError, ValueError):
        return []


def _numbers(low: float, high: float) -> Numbers:
    """Up to 64 intervals, of a width that is 1, 2 or 5 times a power of ten."""
    least = (high - low) / _INTERVALS
    power = 10.0 ** math.floor(math.log10(least))
    width = next(step * power for step in (1, 2, 5, 10) if step * power >= least)
    return Numbers(low, low + width * (math.floor((high - low) / width) + 1), width)


def _dates(values: list[Any]) -> Dates | None:
    any_range = Dates("0001-01-01", "9999-12-31")  # type: ignore[arg-type] # texts become dates
    try:
        for value in values:
            any_range.check(value)
    except ValueError:
        return None
    days = sorted(Dates("0001-01-01", value).high if value else value for value in values)  # type: ignore[arg-type]
    return Dates(days[0], days[-1]) if len(days) > 1 and days[0] < days[-1] else None
