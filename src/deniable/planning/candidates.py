"""The mechanisms that can answer a question, each as a function of its epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from deniable.mechanisms import exact
from deniable.mechanisms.binary import BinaryResponse
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.mechanism import Mechanism, known_mechanisms
from deniable.mechanisms.unary import UnaryEncoding
from deniable.planning.precision import Spread
from deniable.planning.search import least

__all__ = ["Candidate", "Trial", "candidates"]

Weigh = Callable[[Spread], float]
"""What a plan minimises, as a function of a spread."""

# Mechanisms made from a domain and an epsilon, in order of preference between equals.
_BY_EPSILON = (
    "DirectEncoding",
    "SubsetSelection",
    "OptimizedUnary",
    "SymmetricUnary",
    "HadamardResponse",
    "LocalHashing",
    "ThresholdHistogram",
)


class Trial(NamedTuple):
    """A mechanism at one epsilon: what a search needs, and how to build it."""

    spread: Spread
    growth: float
    """e^epsilon - 1, of the mechanism's own epsilon."""
    build: Callable[[], Mechanism]


class Candidate(NamedTuple):
    """A mechanism's name, and its best version at an epsilon for a given goal."""

    name: str
    at: Callable[[float, Weigh], Trial]


@lru_cache(maxsize=8)
def candidates(buckets: int) -> tuple[Candidate, ...]:
    """The mechanisms that can answer a yes/no question (one bucket) or choose one of several buckets."""
    domain = Domain.of(max(buckets, 2))
    found = []
    if buckets == 1:
        # With q = 1/2 both answers give away the same. Any other q spends epsilon on one of them, and has a larger error for
        # every share.
        found.append(Candidate("BinaryResponse", _remembered(BinaryResponse.from_epsilon)))
    for name in _BY_EPSILON:
        kind: Any = known_mechanisms()[name]
        found.append(Candidate(name, _remembered(lambda epsilon, kind=kind: kind(domain, epsilon))))  # type: ignore[misc]
    if buckets > 1:
        found.append(Candidate("UnaryEncoding", lambda epsilon, weigh: _two_coins(domain, epsilon, weigh)))
    return tuple(found)


def _remembered(make: Callable[[float], Mechanism]) -> Callable[[float, Weigh], Trial]:
    """Mechanisms are frozen, so those of the search's usual epsilons are built only once."""

    @lru_cache(maxsize=256)
    def trial(epsilon: float) -> Trial:
        mechanism = make(epsilon)
        return Trial(Spread.of(mechanism), math.expm1(mechanism.epsilon), lambda: mechanism)

    return lambda epsilon, _: trial(epsilon)


def _two_coins(domain: Domain, epsilon: float, weigh: Weigh) -> Trial:
    """One bit per bucket, with the best coins (a, b) among all whose answers lose `epsilon`.

    They lie between b = 1/(E + 1), best for rare values (optimized unary), and the symmetric b = 1/(sqrt(E) + 1).
    """

    def spread(log_odds: float) -> Spread:
        return Spread.of_pair(1 / (1 + math.exp(-log_odds - epsilon)), 1 / (1 + math.exp(-log_odds)))

    best = least(lambda log_odds: weigh(spread(log_odds)), -epsilon, -epsilon / 2, 1e-3 * epsilon)

    def build() -> Mechanism:
        b = Fraction(exact.double_down(exact.up(Fraction(1 / (1 + math.exp(-best))))))
        growth = exact.exp(epsilon)
        return UnaryEncoding(domain, exact.double_down(exact.down(growth * b / (1 - b + growth * b))), float(b))

    return Trial(spread(best), math.expm1(epsilon), build)
