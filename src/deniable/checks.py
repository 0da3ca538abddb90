"""Checks of numbers, in one place and one wording. A float, a bool or a string is not a whole number, whatever it equals.

In Python `0.0 in range(7)` and `True == 1` are true, so a number from outside must be checked to be whole before it is compared.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

from deniable.errors import ParameterError

__all__ = ["LARGEST_WORD", "check_number", "decimal", "is_whole", "whole"]

LARGEST_WORD = (1 << 63) - 1
"""The largest whole number that a column of SQLite holds."""
_MOST_DIGITS = 20


def is_whole(value: Any) -> bool:
    """Whether it is a whole number: an `int` or a NumPy integer, but not a bool.

    >>> [is_whole(value) for value in (3, 3.0, True, "3", None)]
    [True, False, False, False, False]
    """
    return isinstance(value, Integral) and not isinstance(value, bool)


def whole(name: str, value: Any, least: int, most: int | None = None) -> int:
    """The value as an `int`, if it is a whole number within the bounds.

    >>> whole("port", 8600, 0, 65535)
    8600
    >>> whole("size_class", 0.0, 0, 6)
    Traceback (most recent call last):
    deniable.errors.ParameterError: size_class = 0.0 must be a whole number from 0 to 6
    """
    if not is_whole(value) or value < least or (most is not None and value > most):
        bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ParameterError(name, value, f"must be a whole number {bounds}")
    return int(value)


def check_number(name: str, value: Any) -> float:
    """The value as a float, which may still be infinite or NaN.

    >>> check_number("epsilon", "1.5")
    Traceback (most recent call last):
    deniable.errors.ParameterError: epsilon = '1.5' must be a number
    """
    if isinstance(value, bool | str | bytes | None):
        raise ParameterError(name, value, "must be a number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(name, value, "must be a number") from None


def decimal(name: str, text: Any, least: int = 0, most: int = LARGEST_WORD) -> int:
    """The whole number that a text (a header, or part of a URL) writes in plain decimal digits, within the bounds.

    >>> decimal("Log-End", "17")
    17
    >>> decimal("Log-End", "1_7")
    Traceback (most recent call last):
    deniable.errors.ParameterError: Log-End = '1_7' must be a whole number from 0 to 9223372036854775807
    """
    digits = isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    number = int(text) if digits else -1
    if not digits or not least <= number <= most:
        shown = text if not isinstance(text, str) or len(text) <= 40 else f"{text[:40]}…"
        raise ParameterError(name, shown, f"must be a whole number from {least} to {most}")
    return number
