"""From an epsilon to integers over 2**64 and back, without a rounding error that would spend more
than requested.

Decimal arithmetic with 60 digits computes exp and ln far more finely than the spacing of doubles
and coins; the result is rounded once, in the direction that protects the person.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.randomness import ONE

__all__ = [
    "double_down",
    "double_up",
    "down",
    "exp",
    "integer_columns",
    "log_ratio",
    "matrix_epsilon",
    "nearest",
    "placed_columns",
    "powers",
    "private",
    "private_columns",
    "thresholds",
    "up",
]

Columns = Sequence[Sequence[int]] | NDArray[np.uint64]
"""Integer weights, one row per value (the columns of the channel), each summing to 2**64."""
_Columns = TypeVar("_Columns", list[list[int]], NDArray[np.uint64])

_CONTEXT = Context(prec=60)


def exp(x: float | Fraction) -> Fraction:
    """exp(x) to 60 digits, or more near 1, where exp(x) - 1 would otherwise lose digits."""
    with localcontext(_CONTEXT):
        exact = Fraction(x)
        value = Decimal(exact.numerator) / Decimal(exact.denominator)
        lost = max(0, -value.adjusted() - 10) if value else 0
        with localcontext(Context(prec=60 + lost)):
            return Fraction(value.exp())


def powers(base: Fraction, n: int) -> list[Fraction]:
    """1, base, … base**n for a base in [0, 1], each within 2**-190: rounded at each step, so that
    their digits do not grow."""
    out = [Fraction(1)]
    for _ in range(n):
        out.append(Fraction(round(out[-1] * base * (1 << 200)), 1 << 200))
    return out


def log_ratio(ratio: Fraction, times: int = 1) -> float:
    """`times` ln(ratio) of an exact ratio, as the smallest double that is not below it.

    A loss that is at most the requested double is therefore never stated above it.
    """
    if ratio < 1:
        raise ParameterError("ratio", ratio, "must be at least 1")
    if ratio == 1:
        return 0.0
    with localcontext(_CONTEXT):
        # ln near 1 loses digits of ratio - 1, so the quotient gets as many extra digits as it
        # needs.
        excess = ratio - 1
        lost = max(0, len(str(excess.denominator)) - len(str(excess.numerator)))
        with localcontext(Context(prec=60 + lost)):
            value = (Decimal(ratio.numerator) / Decimal(ratio.denominator)).ln() * times
        rounded = float(value)
        return rounded if Decimal(rounded) >= value else math.nextafter(rounded, math.inf)


def up(probability: Fraction) -> int:
    """The numerator over 2**64, rounded up, and never 2**64 itself."""
    return min(math.ceil(probability * ONE), ONE - 1)


def down(probability: Fraction) -> int:
    """The numerator over 2**64, rounded down, and never 0."""
    return max(math.floor(probability * ONE), 1)


def double_down(numerator: int) -> float:
    """The largest double that is at most `numerator` / 2**64 and itself a whole number of
    1/2**64."""
    spare = max(0, numerator.bit_length() - 53)
    return math.ldexp(numerator >> spare << spare, -64)


def double_up(numerator: int) -> float:
    """The smallest double that is at least `numerator` / 2**64 and itself a whole number of
    1/2**64."""
    spare = max(0, numerator.bit_length() - 53)
    return math.ldexp(-(-numerator >> spare) << spare, -64)


def nearest(probability: Fraction) -> int:
    """The nearest numerator over 2**64 that is neither 0 nor 2**64."""
    return min(max(round(probability * ONE), 1), ONE - 1)


def integer_columns(columns: Sequence[Sequence[Fraction]]) -> list[list[int]]:
    """Columns of probabilities as integers that sum to exactly 2**64 each, none of them 0: an
    output that one value excludes would distinguish it from all others.

    The rounding remainder goes to the largest entry, where it matters least.
    """
    out = []
    for column in columns:
        total = sum(column)
        weights = [max(1, math.floor(p * ONE / total)) for p in column]
        largest = max(range(len(weights)), key=weights.__getitem__)
        weights[largest] += ONE - sum(weights)
        out.append(weights)
    return out


def placed_columns(weights: Sequence[Fraction], places: NDArray[np.intp]) -> NDArray[np.uint64]:
    """Integer columns with many equal entries: entry u of column v is the probability
    `weights[places[v, u]]`.

    Only the distinct entries are rounded, upwards, because the rarest reports reveal the most. What
    that adds is taken from each column's largest entry; uint64 arithmetic is exact modulo 2**64,
    which is what a column sums to.
    """
    rounded = np.array([math.ceil(p * ONE) for p in weights], dtype=np.uint64)
    columns = rounded[places]
    leftover = np.uint64(0) - columns.sum(axis=1, dtype=np.uint64)
    columns[np.arange(len(columns)), columns.argmax(axis=1)] += leftover
    return columns


def matrix_epsilon(columns: Columns) -> float:
    """ln max over outputs of (largest / smallest probability of that output), exactly."""
    weights = np.asarray(columns, dtype=np.uint64)
    extremes = zip(weights.max(axis=0).tolist(), weights.min(axis=0).tolist(), strict=True)
    return log_ratio(max(Fraction(most, least) for most, least in extremes))


def private(build: Callable[[float], _Columns], epsilon: float) -> _Columns:
    """`build(target)` for the largest target at which rounding leaves the loss of its columns
    within `epsilon`."""
    for bits in (None, 52, 46, 40, 34, 28, 22, 16, 10):
        columns = build(epsilon if bits is None else epsilon * (1 - 2.0**-bits))
        if matrix_epsilon(columns) <= epsilon:
            return columns
    raise ParameterError(
        "epsilon", epsilon, "is too fine for 64-bit weights and a domain of this size"
    )


def private_columns(
    build: Callable[[float], Sequence[Sequence[Fraction]]], epsilon: float
) -> list[list[int]]:
    """The integer columns of `build(target)` for the largest target at which rounding leaves their
    loss within `epsilon`."""
    return private(lambda target: integer_columns(build(target)), epsilon)


def thresholds(columns: Columns) -> NDArray[np.uint64]:
    """Cumulative weights of each column but its last cell, one row per column: what
    :meth:`Source.pick` draws from."""
    return np.cumsum(np.asarray(columns, dtype=np.uint64)[:, :-1], axis=1, dtype=np.uint64)
