"""How private a sampled, generalised and thresholded table is: the exact delta of (epsilon, delta),
and the smallest threshold.

Each row is kept with probability beta, its attributes are generalised by a rule that does not
depend on the data, and every combination of which fewer than k rows were kept is dropped. The
result depends on one person only through the size of one combination. Let n be that size with the
person in it, and j the number of its rows that were kept. Then

    P(j | with) / P(j | without) = (1 - beta) n / (n - j),

which is above E = exp(epsilon) if and only if j > gamma n, gamma = 1 - (1 - beta)/E. In the other
direction, and where the combination is dropped, no ratio exceeds 1/(1 - beta), which must not
exceed E. So the loss exceeds epsilon with probability

    delta = max over n of P(Binomial(n, beta) >= max(k, floor(gamma n) + 1))
          = max over j >= k of P(Binomial(ceil(j / gamma) - 1, beta) >= j):

for each j the largest n at which j reveals too much. (Li, Qardaji and Su 2012, theorem 5; Bild,
Kuhn and Prasser 2018.) The maximum is not always at j = k. By Chernoff's bound no n beyond that of
j gives more than exp(-n KL(gamma || beta)), and the search stops where that falls below what was
found.

Arithmetic is decimal with 60 digits, and what is rounded is rounded up, so a delta stated here is
never below the true one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, check_probability, whole
from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.numerics import first_whole
from deniable.randomness import ONE, Source
from deniable.results import Result, fields_of

__all__ = [
    "LARGEST_THRESHOLD",
    "Guarantee",
    "binomial_tail",
    "delta_of",
    "largest_sampling",
    "smallest_threshold",
]

_CONTEXT = Context(prec=60)
_EXP_ERROR = Fraction(1, 10**50)
"""Above the relative error of :func:`exact.exp`."""
_NEGLIGIBLE = Decimal("1e-45")
LARGEST_THRESHOLD = 100_000
"""A release that needs more rows than this in every combination is useless."""


@dataclass(frozen=True, eq=False)
class Guarantee(Result):
    """What the release of a table promises each person: the loss exceeds epsilon with probability
    at most delta.

    Made by :meth:`of`. Neighbouring tables differ in one row that is there or not, and a person has
    one row. ``delta`` is exact for the coins tossed, and never exceeds the requested one.

    >>> Guarantee.of(1.0, 1e-5)
    Guarantee(epsilon=1, delta=8.9e-06, sampling=0.474, k=32)
    """

    epsilon: float
    delta: float
    numerator: int
    """A row is kept with probability `numerator` / 2**64."""
    k: int
    """A combination is released if at least this many of its rows are kept."""

    @classmethod
    def of(
        cls,
        epsilon: float,
        delta: float,
        sampling: float | Fraction | None = None,
        k: int | None = None,
    ) -> Guarantee:
        """The guarantee for an epsilon and a delta: the smallest threshold k that satisfies it, or
        a larger one of your choice.

        `sampling` is at most 1 - exp(-epsilon). Left out, it is the one of twenty fractions of that
        limit at which sampling**2 / k is largest: a combination needs about k / sampling rows to be
        released, and sampling is the part of them that is. At the limit itself k would grow without
        bound as epsilon does.
        """
        check_epsilon(epsilon)
        check_probability("delta", delta)
        balanced = sampling is None
        numerator = (
            _balanced_numerator(float(epsilon), float(delta))
            if balanced
            else _numerator(sampling, epsilon)
        )
        beta = Fraction(numerator, ONE)
        least = smallest_threshold(delta, beta, epsilon)
        if k is not None and _check_threshold(k) < least:
            raise ParameterError(
                "k", k, f"must be at least {least} for epsilon {epsilon:g} and delta {delta:g}"
            )
        k = max(least, k or 1)
        return cls(float(epsilon), delta_of(k, beta, epsilon), numerator, k)

    @property
    def sampling(self) -> Fraction:
        """The probability of keeping a row, exactly."""
        return Fraction(self.numerator, ONE)

    @property
    def replace_one(self) -> tuple[float, float]:
        """Epsilon and delta where neighbours differ in the values of one row: one row less, and one
        more."""
        return 2 * self.epsilon, (1 + math.exp(self.epsilon)) * self.delta

    def keep(self, n: int, source: Source) -> NDArray[np.bool_]:
        """Which of `n` rows are kept, by exact coins."""
        return source.coins(self.numerator, n).view(np.bool_)

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with what the guarantee is about."""
        return {**fields_of(self), **self.terms()}

    def terms(self) -> dict[str, Any]:
        """What a reader of the release needs to know, for JSON."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "neighbours": "one row more or less",
            "sampling": float(self.sampling),
            "threshold": self.k,
        }

    KEYS: ClassVar[Mapping[str, str]] = {"k": "threshold", "numerator": "sampling_numerator"}

    def __repr__(self) -> str:
        return (
            f"Guarantee(epsilon={self.epsilon:g}, delta={self.delta:.2g},"
            f" sampling={float(self.sampling):.3g}, k={self.k})"
        )


def delta_of(
    k: int,
    sampling: float | Fraction,
    epsilon: float | None = None,
    *,
    odds: Fraction | None = None,
) -> float:
    """The exact delta of a release that keeps rows with probability `sampling` and combinations of
    `k` kept rows or more.

    Instead of an epsilon, `odds` gives exp(epsilon) as an exact fraction. That matters where gamma
    n is a whole number: the double nearest to ln 2 is slightly below ln 2, and its delta is larger
    by one term of the sum.

    >>> delta_of(5, Fraction(1, 2), odds=Fraction(2))
    0.109375
    >>> delta_of(10, 0.25, odds=Fraction(2)), delta_of(10, 0.25, math.log(2))
    (0.000794949010014534, 0.0016444653738290071)
    """
    beta, ratio = check_probability("sampling", sampling), _odds(epsilon, odds)
    if ratio * (1 - beta) < 1:
        raise ParameterError(
            "sampling", sampling, f"must be at most 1 - exp(-epsilon) = {float(1 - 1 / ratio):.6g}"
        )
    return _delta(_check_threshold(k), beta, ratio)


def smallest_threshold(
    delta: float,
    sampling: float | Fraction,
    epsilon: float | None = None,
    *,
    odds: Fraction | None = None,
) -> int:
    """The smallest k whose delta is at most the given one.

    >>> smallest_threshold(1e-5, largest_sampling(1.0), 1.0)
    61
    """
    target = float(check_probability("delta", delta))
    high = 2
    while delta_of(high, sampling, epsilon, odds=odds) > target:
        high *= 2
        if high > LARGEST_THRESHOLD:
            rule = (
                f"needs combinations of more than {LARGEST_THRESHOLD:,} rows; use a larger delta or"
                " sample fewer rows"
            )
            raise ParameterError("delta", delta, rule)
    low = high // 2  # delta(low) is above the target, or low is 1
    return first_whole(lambda k: delta_of(k, sampling, epsilon, odds=odds) <= target, low, high)


def largest_sampling(epsilon: float) -> Fraction:
    """The largest probability of keeping a row, 1 - exp(-epsilon), rounded down to a whole number
    of 1/2**64."""
    return Fraction(exact.down(1 - 1 / _odds(epsilon, None)), ONE)


def _numerator(sampling: Any, epsilon: float) -> int:
    limit = largest_sampling(epsilon)
    wanted = check_probability("sampling", sampling)
    # the double of the limit stands for the limit
    if wanted > limit and float(wanted) > float(limit):
        raise ParameterError(
            "sampling", sampling, f"must be at most 1 - exp(-epsilon) = {float(limit):.6g}"
        )
    return exact.down(min(wanted, limit))


@lru_cache(maxsize=256)
def _balanced_numerator(epsilon: float, delta: float) -> int:
    limit = largest_sampling(epsilon)
    best, found = Fraction(0), 0
    for step in range(1, 21):
        beta = Fraction(exact.down(limit * step / 20), ONE)
        # Beyond the threshold at which it would be no better than the best one so far, its own does
        # not matter.
        if best and delta_of(max(1, math.floor(beta**2 / best)), beta, epsilon) > delta:
            continue
        worth = beta**2 / smallest_threshold(delta, beta, epsilon)
        if worth > best:
            best, found = worth, int(beta * ONE)
    return found


def _odds(epsilon: float | None, odds: Fraction | None) -> Fraction:
    if (epsilon is None) == (odds is None):
        raise ParameterError("epsilon", epsilon, "must be given, or odds = exp(epsilon)")
    if odds is not None:
        if odds <= 1:
            raise ParameterError("odds", odds, "must be above 1")
        return Fraction(odds)
    assert epsilon is not None  # noqa: S101 - for mypy
    # Rounded down: a smaller E makes gamma n smaller, so the stated delta larger.
    return exact.exp(check_epsilon(epsilon)) * (1 - _EXP_ERROR)


def _check_threshold(k: Any) -> int:
    return whole("k", k, 1, LARGEST_THRESHOLD)


@lru_cache(maxsize=4096)
def _delta(k: int, beta: Fraction, odds: Fraction) -> float:
    gamma = 1 - (1 - beta) / odds
    divergence = _divergence(gamma, beta)
    best, j = Decimal(0), k
    with localcontext(_CONTEXT):
        while True:
            n = math.ceil(j / gamma) - 1
            if best and n * divergence > -best.ln():
                return _double_up(best)
            best = max(best, binomial_tail(n, j, beta))
            j += 1


def _divergence(gamma: Fraction, beta: Fraction) -> Decimal:
    """KL(gamma || beta) of two coins, a little rounded down."""
    with localcontext(_CONTEXT):
        g, b = _decimal(gamma), _decimal(beta)
        return (g * (g / b).ln() + (1 - g) * ((1 - g) / (1 - b)).ln()) * (
            1 - _NEGLIGIBLE ** Decimal("0.5")
        )


def binomial_tail(n: int, j: int, beta: Fraction) -> Decimal:
    """P(Binomial(n, beta) >= j) for j above the mean, rounded up: within 1e-44 of itself."""
    with localcontext(_CONTEXT):
        if j > n:
            return Decimal(0)
        b = _decimal(beta)
        odds = b / (1 - b)
        term = _combinations(n, min(j, n - j)) * b**j * (1 - b) ** (n - j)
        total, i = term, j
        while i < n:
            ratio = (n - i) * odds / (i + 1)
            term *= ratio
            total += term
            i += 1
            if term < total * _NEGLIGIBLE and ratio < Decimal("0.99"):
                break
        # The ratio of terms falls, so that those left out are below term / (1 - 0.99).
        return total * (1 + 101 * _NEGLIGIBLE)


def _combinations(n: int, j: int) -> Decimal:
    """n over j to all digits but the last few; an exact integer would have too many of them."""
    product = Decimal(1)
    for i in range(j):
        product *= Decimal(n - i) / (i + 1)
    return product


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _double_up(number: Decimal) -> float:
    """The smallest double that is not below it; what lies within 1e-42 above a double is that
    double, by rounding."""
    with localcontext(_CONTEXT):
        number *= 1 - 200 * _NEGLIGIBLE
    rounded = float(number)
    return rounded if Decimal(rounded) >= number else math.nextafter(rounded, math.inf)
