"""Checks of parameters, in one place and one wording. A float, a bool or a string is not a whole
number, whatever it equals.

In Python `0.0 in range(7)` and `True == 1` are true, so a number from outside must be checked to be
whole before it is compared.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral
from typing import Any

from deniable.errors import ParameterError

__all__ = [
    "LARGEST_EPSILON",
    "LARGEST_LOSS",
    "LARGEST_WORD",
    "SMALLEST_EPSILON",
    "check_confidence",
    "check_count",
    "check_delta",
    "check_double",
    "check_epsilon",
    "check_finite",
    "check_flag",
    "check_loss",
    "check_number",
    "check_probability",
    "check_proportion",
    "check_range",
    "decimal",
    "is_whole",
    "whole",
]

LARGEST_LOSS = 1000.0
"""Above this a loss is no guarantee at all; `inf`, meaning "no guarantee", is also accepted."""
SMALLEST_EPSILON = 1e-9
LARGEST_EPSILON = 40.0
"""Outside these bounds a coin of 64 binary digits cannot distinguish its two sides, or its rare
side from never."""
LARGEST_WORD = (1 << 63) - 1
"""The largest whole number that a column of SQLite holds."""
_MOST_DIGITS = 20


def is_whole(value: Any) -> bool:
    """Whether it is a whole number: an `int` or a NumPy integer, but not a bool.

    >>> [is_whole(value) for value in (3, 3.0, True, "3", None)]
    [True, False, False, False, False]
    """
    # The first is the usual case, and ten times as fast: a device checks several for each share.
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


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
    """The whole number that a text (a header, or part of a URL) writes in plain decimal digits,
    within the bounds.

    >>> decimal("Log-End", "17")
    17
    >>> decimal("Log-End", "1_7")
    Traceback (most recent call last):
    deniable.errors.ParameterError: Log-End = '1_7' must be a whole number from 0 to 9223372036854775807
    """
    digits = (
        isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    )
    number = int(text) if digits else -1
    if not digits or not least <= number <= most:
        shown = text if not isinstance(text, str) or len(text) <= 40 else f"{text[:40]}…"
        raise ParameterError(name, shown, f"must be a whole number from {least} to {most}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """The value, if it is true or false and nothing that only counts as such."""
    if not isinstance(value, bool):
        raise ParameterError(name, value, "must be true or false")
    return value


def check_finite(name: str, value: Any) -> float:
    """The value as a float, neither infinite nor NaN."""
    number = check_number(name, value)
    if not math.isfinite(number):
        raise ParameterError(name, value, "must be finite")
    return number


def check_range(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """The value as a finite float within the bounds: `above` and `below` exclude theirs, `least`
    and `most` include it.

    >>> check_range("sampling", 1, above=0, most=1)
    1.0
    >>> check_range("p", 1.2, above=0, below=1)
    Traceback (most recent call last):
    deniable.errors.ParameterError: p = 1.2 must lie strictly between 0 and 1
    """
    try:
        number = check_number(name, value)
    except ParameterError:
        number = math.nan  # refused below, by the whole rule
    fits = (
        math.isfinite(number)
        and (above is None or number > above)
        and (least is None or number >= least)
        and (below is None or number < below)
        and (most is None or number <= most)
    )
    if not fits:
        raise ParameterError(name, value, f"must {_range(above, least, below, most)}")
    return number


def _range(
    above: float | None, least: float | None, below: float | None, most: float | None
) -> str:
    if above is not None and below is not None:
        return f"lie strictly between {above:g} and {below:g}"
    if least is not None and most is not None:
        return f"lie between {least:g} and {most:g}"
    low = (
        None
        if above is None and least is None
        else f"above {above:g}"
        if above is not None
        else f"at least {least:g}"
    )
    high = (
        None
        if below is None and most is None
        else f"below {below:g}"
        if below is not None
        else f"at most {most:g}"
    )
    return f"be {low} and {high}" if low and high else f"be finite and {low or high}"


def check_proportion(name: str, value: Any) -> float:
    """A probability or a part of a whole: 0 and 1 included."""
    return check_range(name, value, least=0, most=1)


def check_confidence(value: Any) -> float:
    """The confidence of an interval."""
    return check_range("confidence", value, above=0, below=1)


def check_delta(value: Any) -> float:
    """A delta: at least 0, below 1."""
    return check_range("delta", value, least=0, below=1)


def check_loss(name: str, value: Any) -> float:
    """An epsilon that is stated: from 0 (nothing is lost) to `LARGEST_LOSS`, or `inf` (nothing is
    promised)."""
    number = check_number(name, value)
    if number == math.inf or 0 <= number <= LARGEST_LOSS:
        return number
    raise ParameterError(name, value, f"must lie between 0 and {LARGEST_LOSS:g}, or be inf")


def check_epsilon(epsilon: Any, name: str = "epsilon") -> float:
    """An epsilon that a mechanism is to be made for."""
    value = check_range(name, epsilon, above=0)
    if not SMALLEST_EPSILON <= value <= LARGEST_EPSILON:
        rule = (
            f"must lie between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g}: 64-bit coins are no"
            " finer"
        )
        raise ParameterError(name, epsilon, rule)
    return value


def check_probability(name: str, value: Any) -> Fraction:
    """The probability as an exact fraction, strictly between 0 and 1."""
    try:
        # Not from a string: the Fraction of '1e999999999' would never finish.
        exact = Fraction(
            0 if isinstance(value, str) else value.item() if hasattr(value, "dtype") else value
        )
    except (TypeError, ValueError, OverflowError):
        exact = Fraction(0)
    if not 0 < exact < 1:
        raise ParameterError(name, value, "must lie strictly between 0 and 1")
    return exact


def check_double(name: str, value: Any) -> Fraction:
    """The probability as the double it is stored as, so that a mechanism read back has the same
    coins."""
    return check_probability(name, float(check_probability(name, value)))


def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number of at least `least`, which may be written as a float: 1e6 people."""
    number = check_number(name, value)
    if math.isfinite(number) and number == math.floor(number) and number >= least:
        return int(value)
    raise ParameterError(name, value, f"must be a whole number of at least {least}")
