"""The best channel for a stated utility, among all that lose at most epsilon: a linear programme.

Let U[u, v] be what a report u is worth if the truth is v. A channel P[u, v] loses at most epsilon
if the entries of each row are within a factor E = e^epsilon of each other, so with the smallest
entry m[u] of each row

    maximise   sum over v of prior[v] sum over u of U[u, v] P[u, v]
    subject to m[u] <= P[u, v] <= E m[u],  sum over u of P[u, v] = 1.

Without a prior, the utility of the value that fares worst is maximised instead. Wang, Wu and Hu
2016, section 8, leave utilities other than the mean squared error open. The best channel is one of
the staircase mechanisms of Kairouz, Oh and Viswanath 2016, of which there are 2^k rows; the
programme has one row for each report that the utility names.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from deniable.checks import check_epsilon
from deniable.errors import ParameterError, PlanError
from deniable.mechanisms import exact

__all__ = ["BestChannel", "best_channel"]

_MOST_ENTRIES = 1_600
_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BestChannel:
    """A channel, and what its reports are worth."""

    matrix: _Floats
    """P[u, v], the probability of reporting u if the truth is v."""
    epsilon: float
    """Its exact loss, rounded up; at most what was asked for."""
    utility: float
    """The expected utility under the prior or, without one, that of the value that fares worst."""
    by_value: _Floats
    """The expected utility for each value."""


def best_channel(utility: Any, epsilon: float, prior: Any = None) -> BestChannel:
    """The channel whose reports are worth most, among those that lose at most `epsilon`.

    `utility[u][v]` is what a report u is worth if the truth is v. Right guesses alone:

    >>> best = best_channel([[1, 0, 0], [0, 1, 0], [0, 0, 1]], math.log(3))
    >>> best.matrix.round(3).tolist(), round(best.utility, 3)
    ([[0.6, 0.2, 0.2], [0.2, 0.6, 0.2], [0.2, 0.2, 0.6]], 0.6)
    """
    worth = _checked(utility)
    growth = math.exp(check_epsilon(epsilon))
    reports, values = worth.shape
    weights = _prior(prior, values)
    n = reports * values
    # variables: P row by row, the least entry of each row, and the utility of the worst value
    entries = np.eye(n)
    least = np.repeat(np.eye(reports), values, axis=0)
    above = np.zeros((2 * n + values, n + reports + 1))
    above[:n, :n], above[:n, n:-1] = -entries, least
    above[n : 2 * n, :n], above[n : 2 * n, n:-1] = entries, -growth * least
    cost = np.zeros(n + reports + 1)
    if weights is None:
        above[2 * n :, :n] = -np.hstack([np.diag(row) for row in worth])
        above[2 * n :, -1] = 1.0
        cost[-1] = -1.0
    else:
        cost[:n] = -(worth * weights).ravel()
    sums = np.zeros((values, n + reports + 1))
    sums[:, :n] = np.tile(np.eye(values), reports)
    lowest, highest = np.zeros(cost.size), np.ones(cost.size)
    lowest[-1], highest[-1] = (-np.inf, np.inf) if weights is None else (0.0, 0.0)
    found = linprog(
        cost,
        A_ub=above,
        b_ub=np.zeros(len(above)),
        A_eq=sums,
        b_eq=np.ones(values),
        bounds=list(zip(lowest.tolist(), highest.tolist(), strict=True)),
        method="highs",
    )
    if found.status != 0 or found.x is None:
        raise PlanError(f"the linear programme has no solution: {found.message}")
    matrix, loss = _within(np.reshape(found.x[:n], worth.shape), float(epsilon))
    by_value = (worth * matrix).sum(axis=0)
    return BestChannel(
        matrix,
        loss,
        float(by_value.min() if weights is None else by_value @ weights),
        by_value,
    )


def _within(solved: _Floats, epsilon: float) -> tuple[_Floats, float]:
    """The solution as a channel of exact coins, and its loss: mixed with as little uniform noise as
    brings it within epsilon in spite of the solver's tolerance."""
    used = solved.max(axis=1) > 1e-7
    kept = np.clip(solved[used], 0, None)
    kept /= kept.sum(axis=0)
    matrix = np.zeros_like(solved)
    if len(kept) == 1:  # the same report whatever the truth is
        matrix[used] = 1.0
        return matrix, 0.0
    for noise in (0.0, *(10.0**-power for power in range(12, 3, -1))):
        mixed = (1 - noise) * kept + noise / len(kept)
        if not (mixed > 0).all():
            continue
        columns = exact.integer_columns(
            [[Fraction(x) for x in column] for column in mixed.T.tolist()]
        )
        weights = np.asarray(columns, dtype=np.uint64)
        loss = exact.matrix_epsilon(weights)
        if loss <= epsilon:
            matrix[used] = mixed
            return matrix, loss
    raise PlanError("the linear programme was not solved exactly enough for this epsilon")


def _checked(utility: Any) -> _Floats:
    try:
        worth = np.array(utility, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("utility", utility, "must be a table of numbers") from None
    if worth.ndim != 2 or min(worth.shape) < 2 or not np.isfinite(worth).all():
        raise ParameterError(
            "utility", worth.shape, "must be a table of numbers, at least 2 reports by 2 values"
        )
    if worth.size > _MOST_ENTRIES:
        raise ParameterError("utility", worth.shape, f"must have at most {_MOST_ENTRIES:,} entries")
    return worth


def _prior(given: Any, values: int) -> _Floats | None:
    if given is None:
        return None
    prior = np.asarray(given, dtype=np.float64)
    if prior.shape != (values,) or (prior < 0).any() or not abs(prior.sum() - 1) < 1e-9:
        raise ParameterError(
            "prior", given, f"must be {values} proportions, one for each value, whose sum is 1"
        )
    return prior
