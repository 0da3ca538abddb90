"""Discrete Laplace noise, drawn exactly: integer coins only (Canonne, Kamath and Steinke 2020,
algorithm 2).

P(x) is proportional to e^(-|x|/scale) on the whole numbers. For two values that lie d apart the
ratio of the probabilities of any outcome is at most e^(d/scale), exactly: there is no grid, no tail
cut off and no last digit that would tell them apart.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon
from deniable.errors import ParameterError
from deniable.randomness import ONE, Source

__all__ = [
    "LARGEST_SCALE",
    "discrete_laplace",
    "discrete_laplace_each",
    "laplace_fourth_moment",
    "laplace_quantile",
    "laplace_variance",
    "round_up",
    "scale_for",
]

_Ints = NDArray[np.int64]
LARGEST_SCALE = (1 << 32) - 1
_LARGEST_DENOMINATOR = 1 << 20


def scale_for(sensitivity: int, epsilon: float | Fraction) -> Fraction:
    """The smallest scale that is no less than sensitivity/epsilon and has a small enough
    denominator to be drawn.

    >>> scale_for(2, 0.5)
    Fraction(4, 1)
    """
    if not isinstance(epsilon, Fraction):
        epsilon = Fraction(check_epsilon(epsilon))
    return round_up(Fraction(sensitivity) / epsilon)


def round_up(scale: Fraction | float) -> Fraction:
    """The next scale that can be drawn: over a power of two that leaves its numerator below
    2**32."""
    wanted = Fraction(scale)
    if not 0 < wanted <= LARGEST_SCALE:
        raise ParameterError("scale", float(wanted), f"must be above 0 and at most {LARGEST_SCALE}")
    denominator = _LARGEST_DENOMINATOR
    while math.ceil(wanted * denominator) > LARGEST_SCALE:
        denominator //= 2
    return Fraction(math.ceil(wanted * denominator), denominator)


def discrete_laplace(scale: Fraction, n: int, source: Source) -> _Ints:
    """`n` independent draws of one scale."""
    return _draw(np.full(n, scale.numerator, dtype=np.int64), scale.denominator, source)


def discrete_laplace_each(scales: _Ints, source: Source) -> _Ints:
    """One draw for each of many scales, which are whole numbers."""
    return _draw(scales, 1, source)


def _draw(numerators: _Ints, denominator: int, source: Source) -> _Ints:
    """With scale = t/s: a number u + t k, u uniform below t and kept with probability e^(-u/t), k
    geometric with e^-1, has probability proportional to e^(-x/t); divided by s and rounded down it
    has e^(-x s/t), and a fair sign makes it two-sided, where one of the two zeros is drawn again.
    """
    if numerators.size and not 1 <= numerators.min() <= numerators.max() <= LARGEST_SCALE:
        raise ParameterError(
            "scale", int(numerators.max()), f"must have a numerator between 1 and {LARGEST_SCALE}"
        )
    out = np.zeros(numerators.size, dtype=np.int64)
    left = np.arange(numerators.size)
    while left.size:
        t = numerators[left]
        remainder = _below_each(t, source)
        kept = _exponential_coins(remainder, t, source)
        # e^-1 coins until the first that fails: how many held.
        times = np.zeros(left.size, dtype=np.int64)
        running = np.arange(left.size)
        ones = np.ones(left.size, dtype=np.int64)
        while running.size:
            running = running[
                _exponential_coins(ones[: running.size], ones[: running.size], source)
            ]
            times[running] += 1
        magnitude = (remainder + t * times) // denominator
        negative = source.coins(ONE // 2, left.size).astype(bool)
        done = kept & ~(negative & (magnitude == 0))
        out[left[done]] = np.where(negative, -magnitude, magnitude)[done]
        left = left[~done]
    return out


def _exponential_coins(numerators: _Ints, denominators: _Ints, source: Source) -> NDArray[np.bool_]:
    """Coins that are true with probability e^-(numerator/denominator), for numerators up to the
    denominators.

    Von Neumann's (1951): the length of a run of coins with probabilities x, x/2, x/3, … is even
    with probability e^-x. The coin of probability x/k is made of two, x and 1/k.
    """
    length = np.zeros(numerators.size, dtype=np.int64)
    running = np.arange(numerators.size)
    k = 1
    while running.size:
        held = _below_each(denominators[running], source) < numerators[running]
        if k > 1:
            held &= source.below(k, running.size) == 0
        running = running[held]
        length[running] += 1
        k += 1
    even: NDArray[np.bool_] = length % 2 == 0
    return even


def _below_each(bounds: _Ints, source: Source) -> _Ints:
    """An integer below each of the bounds, uniform, by the rejection of :meth:`Source.below`."""
    out = np.zeros(bounds.size, dtype=np.int64)
    left = np.flatnonzero(bounds > 1)
    while left.size:
        bound = bounds[left].astype(np.uint64)
        product = (source.words(left.size) >> np.uint64(32)) * bound
        done = (product & np.uint64(0xFFFFFFFF)) >= np.uint64(1 << 32) % bound
        out[left[done]] = (product[done] >> np.uint64(32)).astype(np.int64)
        left = left[~done]
    return out


def laplace_variance(scale: float | Fraction) -> float:
    """2 q/(1 - q)^2 with q = e^(-1/scale); for large scales close to 2 scale^2.

    >>> round(laplace_variance(10), 3)
    199.833
    """
    return 1 / (2 * math.sinh(1 / (2 * float(scale))) ** 2)


def laplace_fourth_moment(scale: float | Fraction) -> float:
    """E x^4 = 2 q (1 + 10 q + q^2)/(1 - q)^4."""
    q = math.exp(-1 / float(scale))
    return 2 * q * (1 + 10 * q + q * q) / math.expm1(-1 / float(scale)) ** 4


def laplace_quantile(scale: float | Fraction, confidence: float) -> int:
    """The smallest k with P(|x| <= k) of at least the confidence.

    >>> laplace_quantile(2, 0.95)
    6
    """
    # P(|x| > k) = 2 q^(k+1)/(1 + q)
    q = math.exp(-1 / float(scale))
    return max(0, math.ceil(-float(scale) * math.log((1 - confidence) * (1 + q) / 2) - 1 - 1e-12))
