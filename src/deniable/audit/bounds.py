"""From counts of an event to bounds on epsilon, and which event to count."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LossBounds",
    "best_event",
    "clopper_pearson",
    "invisible_below",
    "loss_bounds",
    "visible_from",
]

_CAUTION = 2.5
"""How many standard errors each probability of an event is discounted by when the event is
chosen."""


class LossBounds(NamedTuple):
    """A confidence interval for ln(P(event | one)/P(event | other))."""

    low: float
    high: float


def clopper_pearson(hits: int, n: int, error: float) -> tuple[float, float]:
    """An exact interval for a probability; each side fails with probability at most `error`
    (Clopper and Pearson 1934)."""
    from scipy.stats import beta  # noqa: PLC0415 - slow to import

    low = 0.0 if hits == 0 else float(beta.ppf(error, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.isf(error, hits + 1, n - hits))
    return low, high


def loss_bounds(hits_one: int, hits_other: int, n: int, error: float) -> LossBounds:
    """Bounds from `n` reports of each value. The four sides together fail with probability at most
    `error`.

    If epsilon is claimed for both, no event has a larger ratio, so a lower bound above the claim
    refutes it.
    """
    one, other = (clopper_pearson(hits, n, error / 4) for hits in (hits_one, hits_other))
    low = math.log(one[0] / other[1]) if one[0] > 0 else -math.inf
    high = math.log(one[1] / other[0]) if other[0] > 0 else math.inf
    return LossBounds(low, high)


def invisible_below(n: int, error: float) -> float:
    """The probability below which an event may well not occur in `n` reports, so nothing is learnt
    about it."""
    return -math.expm1(math.log(error / 4) / n)


def visible_from(chosen_from: int, n: int, error: float, claim: float) -> float | None:
    """The power: how often a leak must happen to be seen, 19 times out of 20.

    The leak is one that reveals the input outright: an event with this probability under one input
    that never happens under the other. It must stand out among the `chosen_from` reports of each
    input in which events are chosen, and refute the claim among the `n` in which they are counted.
    None if not even a leak in every report would be seen, or if nothing is claimed.
    """
    from scipy.stats import beta  # noqa: PLC0415 - slow to import

    def choice(hits: int) -> float:
        return float(_cautious(np.array([hits]), np.array([0]), chosen_from, chosen_from)[0])

    if math.isinf(claim):
        return None
    worst = 0.0
    for size, value in (
        (chosen_from, choice),
        (n, lambda hits: loss_bounds(hits, 0, n, error).low),
    ):
        if value(size) <= claim:
            return None
        few, many = 0, size  # hits: too few, and enough
        while many - few > 1:
            middle = (few + many) // 2
            few, many = (few, middle) if value(middle) > claim else (middle, many)
        worst = max(worst, float(beta.ppf(0.95, many, size - many + 1)) if many < size else 1.0)
    return worst


def _cautious(
    one: NDArray[np.int64], other: NDArray[np.int64], n_one: int, n_other: int
) -> NDArray[np.float64]:
    """ln of the ratio of two probabilities, one taken at its lower Wilson limit and the other at
    its upper."""
    limits = []
    for hits, n, side in ((one, n_one, -1), (other, n_other, 1)):
        centre, square = hits + _CAUTION**2 / 2, hits * (n - hits) / n + _CAUTION**2 / 4
        limits.append(
            np.maximum(centre + side * _CAUTION * np.sqrt(square), 1e-9) / (n + _CAUTION**2)
        )
    return np.asarray(np.log(limits[0] / limits[1]), dtype=np.float64)


def best_event(
    order: tuple[NDArray[np.int64], NDArray[np.int64]],
    counts: tuple[NDArray[np.int64], NDArray[np.int64]],
) -> tuple[NDArray[np.bool_], float]:
    """The set of cells with the largest ratio after discounting for chance, and that ratio.

    Cells are ordered by the likelihood ratio of the counts `order`; how many of them to take is
    decided on separate `counts`, so cells that came first by chance are not believed.
    """
    one, other = ((part + 0.5) / (part.sum() + 0.5 * part.size) for part in order)
    ranked = np.argsort(-np.log(one / other), kind="stable")
    one_hits, other_hits = (np.cumsum(part[ranked]) for part in counts)
    value = _cautious(one_hits, other_hits, int(one_hits[-1]), int(other_hits[-1]))
    best = int(value.argmax())
    event = np.zeros(ranked.size, dtype=np.bool_)
    event[ranked[: best + 1]] = True
    return event, float(value[best])
