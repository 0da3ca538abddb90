"""Texts that people read on a screen: no control characters, and none that change the reading
direction."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import Any

from deniable.errors import ParameterError

__all__ = ["check_text", "first_repeated"]

_TURNING = {*range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C}


def check_text(
    name: str, value: Any, longest: int, what: str, empty: bool = False, lines: bool = False
) -> str:
    """The value, if it is a text of at most `longest` characters without control characters;
    `lines` allows several lines.

    >>> check_text("analyst", "City\\x1b[2J", 100, "who asks")
    Traceback (most recent call last):
    deniable.errors.ParameterError: analyst = 'City\\x1b[2J' must not contain control characters such as U+001B
    """
    if not isinstance(value, str) or len(value) > longest or not (value.strip() or empty):
        raise ParameterError(
            name, value, f"must be a text of {0 if empty else 1} to {longest} characters: {what}"
        )
    for character in value:
        if lines and character in "\n\t":
            continue
        if (
            unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
            or ord(character) in _TURNING
        ):
            raise ParameterError(
                name, value, f"must not contain control characters such as U+{ord(character):04X}"
            )
    return value


def first_repeated(texts: Iterable[str]) -> int | None:
    """The position of the first repeated text, if any.

    >>> first_repeated(["a", "b", "a", "b"])
    2
    """
    seen: set[str] = set()
    for place, text in enumerate(texts):
        if text in seen:
            return place
        seen.add(text)
    return None
