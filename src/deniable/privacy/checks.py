"""Checks of the numbers used in this package."""

from __future__ import annotations

import math
from typing import Any

from deniable.checks import check_number
from deniable.errors import ParameterError

__all__ = ["LARGEST_LOSS", "check_count", "check_delta", "check_loss", "check_share"]

LARGEST_LOSS = 1000.0
"""Above this a loss is no guarantee at all; `inf`, meaning "no guarantee", is also accepted."""


def check_loss(name: str, value: Any) -> float:
    """An epsilon: from 0 (nothing is lost) to `LARGEST_LOSS`, or `inf` (nothing is promised)."""
    number = check_number(name, value)
    if number == math.inf or 0 <= number <= LARGEST_LOSS:
        return number
    raise ParameterError(name, value, f"must lie between 0 and {LARGEST_LOSS:g}, or be inf")


def check_share(name: str, value: Any) -> float:
    """A probability, 0 and 1 included."""
    number = check_number(name, value)
    if 0 <= number <= 1:
        return number
    raise ParameterError(name, value, "must lie between 0 and 1")


def check_delta(value: Any) -> float:
    """A delta: at least 0, below 1."""
    number = check_number("delta", value)
    if 0 <= number < 1:
        return number
    raise ParameterError("delta", value, "must be at least 0 and below 1")


def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number, at least `least`."""
    number = check_number(name, value)
    if math.isfinite(number) and number == math.floor(number) and number >= least:
        return int(value)
    raise ParameterError(name, value, f"must be a whole number, at least {least}")
