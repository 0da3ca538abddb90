"""The rules of `deniable release`, as they are written in its options."""

from __future__ import annotations

from typing import Any

from deniable.errors import ReleaseError
from deniable.release import (
    Constraint,
    DistinctDiversity,
    EntropyDiversity,
    RecursiveDiversity,
    TCloseness,
)

__all__ = ["given_constraints", "level_range"]


def level_range(text: str) -> tuple[str, int | tuple[int, int]]:
    """The column and the level, or the range of levels, of NAME=2 or NAME=1-3."""
    name, _, value = text.rpartition("=")
    first, dash, last = value.partition("-")
    if not name or not first.isdecimal() or (dash and not last.isdecimal()):
        raise ReleaseError(f"--level {text!r} must have the form NAME=2 or NAME=1-3")
    return name, (int(first), int(last)) if dash else int(first)


def given_constraints(options: dict[str, Any]) -> list[Constraint]:
    """What --l-diversity and --t-closeness require of each class."""
    found: list[Constraint] = []
    for text in options["l_diversity"]:
        name, value, kind = _rule(text, "--l-diversity")
        if not kind:
            found.append(DistinctDiversity(name, value))
        elif kind == "entropy":
            found.append(EntropyDiversity(name, value))
        elif kind.startswith("recursive=") and value == int(value):
            found.append(
                RecursiveDiversity(name, int(value), _number(kind.removeprefix("recursive="), text))
            )
        else:
            raise ReleaseError(f"--l-diversity {text!r} may only end in :entropy or :recursive=C")
    for text in options["t_closeness"]:
        name, value, kind = _rule(text, "--t-closeness")
        if kind not in {"", "ordered"}:
            raise ReleaseError(f"--t-closeness {text!r} may only end in :ordered")
        found.append(TCloseness(name, value, ordered=bool(kind)))
    return found


def _rule(text: str, option: str) -> tuple[str, float, str]:
    name, equals, rest = text.partition("=")
    value, _, kind = rest.partition(":")
    if not (name and equals):
        raise ReleaseError(f"{option} {text!r} must have the form NAME=NUMBER")
    return name, _number(value, text), kind


def _number(value: str, text: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ReleaseError(f"{value!r} in {text!r} must be a number") from None
