"""How one budget is split among questions: the split with the least sum of weighted variances.

A question's variance falls with its epsilon, but neither smoothly nor along a convex curve, because
mechanisms change where another becomes better. Steps that always go to the question that gains most
can therefore stop far from the optimum. The search here is exact on a grid of budgets (dynamic
programming), and then moves ever smaller amounts between pairs of questions.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.checks import LARGEST_EPSILON, SMALLEST_EPSILON

__all__ = ["VarianceCurve", "split_budget"]

_Floats = NDArray[np.float64]
_LEAST_EPSILON = 5e-3
"""Below this, the variance grows with 1/epsilon^2."""
_POINTS = 129
_NARROWEST = 1.0005
"""Epsilons within this factor are alike."""
_STEPS = 400
_STEPS_A_QUESTION = 12
_HALVINGS = 12


class VarianceCurve(NamedTuple):
    """The least variance that can be had for an epsilon, or for less."""

    epsilons: _Floats
    least: _Floats
    """Up to each of the epsilons: never rises."""
    at: _Floats
    """The epsilon at which that variance is reached."""
    logarithms: tuple[_Floats, _Floats]
    """Of the epsilons and the variances, from the smallest possible epsilon on."""

    @classmethod
    def of(cls, best: Callable[[float], tuple[Hashable, float]]) -> VarianceCurve:
        """From the best mechanism's kind and variance at an epsilon: where the kind changes, the
        variance may rise.

        The last epsilon of every kind is found by bisection, so that the least variance before a
        rise is listed.
        """
        found: dict[float, tuple[Hashable, float]] = {}

        def at(epsilon: float) -> Hashable:
            if epsilon not in found:
                found[epsilon] = best(epsilon)
            return found[epsilon][0]

        grid = np.geomspace(_LEAST_EPSILON, LARGEST_EPSILON, _POINTS).tolist()
        cells = list(pairwise(grid))
        while cells:
            low, high = cells.pop()
            if at(low) != at(high) and high > low * _NARROWEST:
                middle = (low + high) / 2
                cells += [(low, middle), (middle, high)]
        epsilons = np.array(sorted(found))
        raw = np.array([found[epsilon][1] for epsilon in epsilons.tolist()])
        least = np.asarray(np.minimum.accumulate(raw))
        reached = np.maximum.accumulate(np.where(raw == least, np.arange(raw.size), 0))
        first = least[0] * (_LEAST_EPSILON / SMALLEST_EPSILON) ** 2
        logarithms = (
            np.log(np.append(SMALLEST_EPSILON, epsilons)),
            np.log(np.append(first, least)),
        )
        return cls(epsilons, least, epsilons[reached], logarithms)

    def least_up_to(self, epsilon: float) -> tuple[float, float]:
        """The best of the listed epsilons that are not larger, and its variance; if all are larger,
        no variance at all."""
        place = int(np.searchsorted(self.epsilons, epsilon, side="right")) - 1
        return (epsilon, np.inf) if place < 0 else (float(self.at[place]), float(self.least[place]))

    def variances(self, epsilons: Any) -> _Floats:
        """The least variances at some epsilons, by interpolation of logarithms."""
        return np.asarray(np.exp(np.interp(np.log(epsilons), *self.logarithms)))


def split_budget(
    costs: Sequence[Callable[[_Floats], _Floats]], budget: float, ceiling: float | None = None
) -> list[float]:
    """The epsilon of each question for the least sum of `costs`, functions of epsilon that never
    rise.

    The epsilons sum to at most `budget`, and none exceeds `ceiling`.

    >>> parts = split_budget([lambda e: 1 / e**2, lambda e: 8 / e**2], 3.0)
    >>> [round(part, 3) for part in parts]
    [1.0, 2.0]
    """
    d = len(costs)
    steps = max(_STEPS, _STEPS_A_QUESTION * d)
    unit = budget / steps
    top = min(LARGEST_EPSILON, budget if ceiling is None else ceiling)
    most = min(steps - d + 1, max(1, int(top / unit * (1 + 1e-12))))
    sizes = np.arange(1, most + 1, dtype=np.float64) * unit
    tables = [cost(sizes) for cost in costs]
    parts = np.asarray(unit * (1 + _best_steps(np.array(tables), steps)), dtype=np.float64)
    return [float(part) for part in _exchanged(costs, parts, budget, unit, min(top, budget))]


def _best_steps(tables: _Floats, steps: int) -> NDArray[np.intp]:
    """For each question, the number of steps beyond the first, exactly the best for these tables of
    costs."""
    d, most = tables.shape
    free = steps - d
    # the least cost of the questions so far, by the steps they have beyond their first
    total = np.zeros(free + 1)
    taken = np.zeros((d, free + 1), dtype=np.intp)
    for question in range(d):
        best = np.full(free + 1, np.inf)
        for extra in range(min(most, free + 1)):
            tried = total[: free + 1 - extra] + tables[question, extra]
            better = tried < best[extra:]
            best[extra:][better] = tried[better]
            taken[question, extra:][better] = extra
        total = best
    found, left = np.zeros(d, dtype=np.intp), int(total.argmin())
    for question in range(d - 1, -1, -1):
        found[question] = taken[question, left]
        left -= int(found[question])
    return found


def _exchanged(
    costs: Sequence[Callable[[_Floats], _Floats]],
    parts: _Floats,
    budget: float,
    unit: float,
    top: float,
) -> _Floats:
    """Move ever smaller amounts to a question, from another one or from what is left, while the sum
    of costs falls."""

    def values(epsilons: _Floats) -> _Floats:
        return np.array(
            [float(cost(epsilon)) for cost, epsilon in zip(costs, epsilons, strict=True)]
        )

    parts, amount = parts.copy(), unit
    for _ in range(_HALVINGS):
        for _ in range(4 * len(parts)):
            now = values(parts)
            gain = np.where(
                parts + amount <= top, now - values(np.minimum(parts + amount, top)), -np.inf
            )
            kept = parts - amount > SMALLEST_EPSILON
            loss = np.where(kept, values(np.where(kept, parts - amount, parts)) - now, np.inf)
            free = 0.0 if parts.sum() + amount <= budget else np.inf
            change = gain[:, None] - np.append(loss, free)[None, :]
            np.fill_diagonal(change, -np.inf)
            to, of = np.unravel_index(change.argmax(), change.shape)
            if not change[to, of] > 0:
                break
            parts[to] += amount
            if of < len(parts):
                parts[of] -= amount
        amount /= 2
    return parts
