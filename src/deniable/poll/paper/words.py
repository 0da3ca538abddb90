"""Numbers as a person reads them. What bounds is rounded to the side that keeps it true."""

from __future__ import annotations

import html
import math
from datetime import UTC, datetime

from deniable.display import factor_text

__all__ = ["after_hearing", "day", "escaped", "odds_sentence", "points"]

_ROUNDING = 1e-6


def escaped(text: str) -> str:
    """The text, to be put into HTML."""
    return html.escape(text)


def after_hearing(prior: int, factor: float) -> tuple[int, int]:
    """Out of 100: the least and the most that someone who thought `prior` can come to think.

    >>> after_hearing(10, 3)
    (3, 25)
    """
    low, high = (100 * prior * f / (100 - prior + prior * f) for f in (1 / factor, factor))
    return math.floor(low + _ROUNDING), math.ceil(high - _ROUNDING)


def odds_sentence(factor: float) -> str:
    """What one answer reveals at most."""
    return (
        "Whatever a person answers, nobody’s odds about that person change by more than a factor"
        f" of {factor_text(factor)}."
    )


def points(half_width: float) -> str:
    """A half-width in percentage points."""
    return f"± {100 * half_width:.1f}"


def day(time: int) -> str:
    """A day in UTC, as people write it.

    >>> day(1_800_000_000)
    '15 January 2027'
    """
    moment = datetime.fromtimestamp(time, UTC)
    return f"{moment.day} {moment:%B %Y}"
