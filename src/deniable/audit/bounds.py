"""From counts of an event to bounds on epsilon, and which event to count."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["LossBounds", "best_event", "invisible_below", "loss_bounds"]

_CAUTION = 3.5
"""Standard errors by which the value of an event is discounted when one is chosen."""


class LossBounds(NamedTuple):
    """Between what ln(P(event | one)/P(event | other)) lies, with the stated confidence."""

    low: float
    high: float


def _clopper_pearson(hits: int, n: int, error: float) -> tuple[float, float]:
    """Between what the probability lies; each side fails with probability `error` at most (Clopper and Pearson 1934)."""
    from scipy.stats import beta  # noqa: PLC0415 - slow to import

    low = 0.0 if hits == 0 else float(beta.ppf(error, hits, n - hits + 1))
    high = 1.0 if hits == n else float(beta.isf(error, hits + 1, n - hits))
    return low, high


def loss_bounds(hits_one: int, hits_other: int, n: int, error: float) -> LossBounds:
    """Bounds from `n` reports of either value. Together the four sides fail with probability `error` at most.

    If epsilon is claimed for both, no event has a larger ratio, so a lower bound above the claim refutes it.
    """
    one, other = (_clopper_pearson(hits, n, error / 4) for hits in (hits_one, hits_other))
    low = math.log(one[0] / other[1]) if one[0] > 0 else -math.inf
    high = math.log(one[1] / other[0]) if other[0] > 0 else math.inf
    return LossBounds(low, high)


def invisible_below(n: int, error: float) -> float:
    """The probability below which an event may well not occur in `n` reports, so that nothing is learnt about it."""
    return -math.expm1(math.log(error / 4) / n)


def best_event(
    order: tuple[NDArray[np.int64], NDArray[np.int64]], counts: tuple[NDArray[np.int64], NDArray[np.int64]]
) -> tuple[NDArray[np.bool_], float]:
    """The set of cells that promises the largest ratio, discounted for what chance may have added to it, and that figure.

    Cells are ordered by the likelihood ratio of the counts `order`, and how many of the first to take is read off other `counts`:
    cells that came first by chance are not believed.
    """
    one, other = ((part + 0.5) / (part.sum() + 0.5 * part.size) for part in order)
    ranked = np.argsort(-np.log(one / other), kind="stable")
    seen = [np.cumsum(part[ranked]) + 0.5 for part in counts]
    p, q = (hits / (hits[-1] + 0.5) for hits in seen)
    spread = np.sqrt((1 - p) / seen[0] + (1 - q) / seen[1])
    value = np.log(p / q) - _CAUTION * spread
    best = int(value.argmax())
    event = np.zeros(ranked.size, dtype=np.bool_)
    event[ranked[: best + 1]] = True
    return event, float(value[best])
