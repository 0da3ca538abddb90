"""The parameters of survey designs: probabilities from dice, cards or birthdays, as exact
fractions."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from deniable.checks import check_epsilon
from deniable.errors import ParameterError
from deniable.mechanisms import exact

__all__ = ["chance", "count", "odds_chance", "one_of", "rounded", "two_labels"]

_TEXT = re.compile(r"\d{1,18}(/[1-9]\d{0,17}|\.\d{1,18})?")
_SIMPLE = 1000
"""A float that is the nearest to a fraction with at most this denominator is read as that fraction:
1/6, and 0.15 too."""


def chance(name: str, value: Any, *, edges: bool = False) -> Fraction:
    """A probability as an exact fraction, from a Fraction, a float or a text such as "7/10"; 0 and
    1 only with `edges`.

    >>> chance("p", 1 / 6), chance("p", 0.15), chance("p", "7/10")
    (Fraction(1, 6), Fraction(3, 20), Fraction(7, 10))
    """
    exact = _fraction(value)
    if exact is None:
        raise ParameterError(
            name, value, "must be a probability, as a number or a fraction such as '7/10'"
        )
    if not (0 <= exact <= 1 if edges else 0 < exact < 1):
        raise ParameterError(
            name,
            value,
            "must lie between 0 and 1" if edges else "must lie strictly between 0 and 1",
        )
    return exact


def _fraction(value: Any) -> Fraction | None:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | str):
        return None
    if isinstance(value, str):
        return Fraction(value) if _TEXT.fullmatch(value.strip()) else None
    if not isinstance(value, float):
        return Fraction(value)
    if value != value or abs(value) > 1e9:  # noqa: PLR0124 - a NaN is not equal to itself
        return None
    simple = Fraction(value).limit_denominator(_SIMPLE)
    # Decimals mean exactly what was written.
    return simple if float(simple) == value else Fraction(repr(value))


def one_of(p: Any, epsilon: Any) -> None:
    """Require exactly one of a probability and the epsilon that would determine it."""
    if (p is None) == (epsilon is None):
        raise ParameterError(
            "p", p, message=f"give one of p and epsilon, not p = {p!r} and epsilon = {epsilon!r}"
        )


def odds_chance(epsilon: float) -> Fraction:
    """E/(1 + E), E = e^epsilon, rounded down to a multiple of 1/2**32, so that coins can be drawn
    exactly."""
    growth = exact.exp(check_epsilon(epsilon))
    return rounded(growth / (1 + growth))


def rounded(value: Fraction) -> Fraction:
    """The fraction rounded down to a multiple of 1/2**32."""
    return Fraction(int(value * (1 << 32)), 1 << 32)


def count(name: str, value: Any, most: int | None = None) -> int:
    """A number of people: whole, not negative, at most `most`."""
    if isinstance(value, np.generic):
        value = value.item()
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or value != value  # noqa: PLR0124
        or value < 0
        or value != int(value)
    ):
        raise ParameterError(name, value, "must be a whole number of people")
    if most is not None and value > most:
        raise ParameterError(name, value, f"must be at most {most}, the number of people asked")
    return int(value)


def two_labels(labels: Sequence[Hashable]) -> tuple[Hashable, Hashable]:
    """The labels of a yes/no question: first for people without the trait, then for people with
    it."""
    if isinstance(labels, str) or len(labels) != 2:
        raise ParameterError("labels", labels, "must be two, that of 'no' first")
    no, yes = labels
    return no, yes
