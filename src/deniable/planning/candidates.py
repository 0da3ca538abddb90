"""The mechanisms that can answer a question, each as a function of its epsilon."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from deniable.errors import DeniableError
from deniable.mechanisms import exact
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.mechanisms.protocols.unary import UnaryEncoding
from deniable.mechanisms.registry import PluginWarning, mechanisms_by_epsilon
from deniable.planning.precision import ProportionVariance
from deniable.planning.search import least
from deniable.registries import is_own

__all__ = ["Candidate", "Trial", "candidates"]

Weigh = Callable[[ProportionVariance], float]
"""What a plan minimises, as a function of a spread."""
_FEW = 16
"""As many values show whether a mechanism's reports support labels: it takes no time to build one
for them."""


class Trial(NamedTuple):
    """A mechanism at one epsilon: what a search needs, and how to build it."""

    spread: ProportionVariance
    growth: float
    """e^epsilon - 1, of the mechanism's own epsilon."""
    build: Callable[[], Mechanism]


class Candidate(NamedTuple):
    """A mechanism's name, its best version at an epsilon for a given goal, and whether it is one of
    ours."""

    name: str
    at: Callable[[float, Weigh], Trial]
    own: bool = True


@lru_cache(maxsize=8)
def candidates(buckets: int) -> tuple[Candidate, ...]:
    """The mechanisms that can answer a yes/no question (one bucket) or choose one of several
    buckets.

    Those whose reports support labels, with fresh coins: the others have no error that a plan could
    state in advance. For a yes/no question, those made for it come first, and otherwise the order
    is that of names.
    """
    domain, found = Domain.of(max(buckets, 2)), []
    for name, kind in mechanisms_by_epsilon().items():
        if kind is UnaryEncoding:
            if buckets > 1:
                found.append(
                    Candidate(name, lambda epsilon, weigh: _two_coins(domain, epsilon, weigh))
                )
        elif (buckets == 1 or not kind.yes_or_no) and _supports_labels(name, kind, len(domain)):
            make = partial(kind.from_epsilon, values=2 if kind.yes_or_no else domain)
            found.append(Candidate(name, _remembered(make), is_own(kind)))
    kinds = mechanisms_by_epsilon()
    return tuple(sorted(found, key=lambda candidate: not kinds[candidate.name].yes_or_no))


def _supports_labels(name: str, kind: type[Mechanism], values: int) -> bool:
    """Whether its reports support each of the labels alike, and are drawn with fresh coins."""
    if kind.generic or kind.numeric or not kind.exclusive or issubclass(kind, MemoizedMechanism):
        return False
    try:
        support = kind.from_epsilon(1.0, values=min(values, _FEW)).support()
    except DeniableError:
        return False
    except Exception as error:  # one of another package must not end the plan of all
        if is_own(kind):
            raise
        text = f"the mechanism {name} is left out: {type(error).__name__}: {error}"
        warnings.warn(text, PluginWarning, stacklevel=2)
        return False
    return support is not None and all(bool(np.ptp(side) == 0) for side in support)


def _remembered(make: Callable[[float], Mechanism]) -> Callable[[float, Weigh], Trial]:
    """Mechanisms are frozen, so those of the search's usual epsilons are built only once."""

    @lru_cache(maxsize=256)
    def trial(epsilon: float) -> Trial:
        mechanism = make(epsilon)
        return Trial(
            ProportionVariance.of(mechanism), math.expm1(mechanism.epsilon), lambda: mechanism
        )

    return lambda epsilon, _: trial(epsilon)


def _two_coins(domain: Domain, epsilon: float, weigh: Weigh) -> Trial:
    """One bit per bucket, with the best coins (a, b) among all whose answers lose `epsilon`.

    They lie between b = 1/(E + 1), best for rare values (optimized unary), and the symmetric b =
    1/(sqrt(E) + 1).
    """

    def spread(log_odds: float) -> ProportionVariance:
        return ProportionVariance.of_pair(
            1 / (1 + math.exp(-log_odds - epsilon)), 1 / (1 + math.exp(-log_odds))
        )

    best = least(lambda log_odds: weigh(spread(log_odds)), -epsilon, -epsilon / 2, 1e-3 * epsilon)

    def build() -> Mechanism:
        b = Fraction(exact.double_down(exact.up(Fraction(1 / (1 + math.exp(-best))))))
        growth = exact.exp(epsilon)
        return UnaryEncoding(
            domain, exact.double_down(exact.down(growth * b / (1 - b + growth * b))), float(b)
        )

    return Trial(spread(best), math.expm1(epsilon), build)
