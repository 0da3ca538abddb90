"""Maximum likelihood by expectation maximisation: the most likely distribution behind counts of
reports.

Of the counts C of reports drawn from lam = P pi, the log-likelihood is l(pi) = sum_u C_u ln (P
pi)_u. It is concave, and one step of expectation maximisation, pi_v <- pi_v g_v with g = P' (C/n /
lam), never lowers it (Dempster, Laird and Rubin 1977). The result is a distribution: no entry is
negative, and they sum to 1. Staying inside the simplex makes it biased; where the inverse of P is
noisy, the saving in variance is usually far larger.

How far a distribution can be from the best one is known at every step: l(max) - l(pi) <= n (max_v
g_v - 1), since l is concave. Plain steps are slow where P is nearly singular, so after a while
Newton steps towards the same maximum take over.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_range, whole
from deniable.errors import NoReportsError, ParameterError

__all__ = [
    "DistributionFit",
    "em",
    "fit",
    "log_likelihood",
    "observed_covariance",
    "smooth_steps",
    "steps",
]

_Floats = NDArray[np.float64]

TOLERANCE = 1e-3
MAX_ITERATIONS = 20_000
_PLAIN_STEPS = 60
_NEWTON_STEPS = 200


class DistributionFit(NamedTuple):
    """A distribution and a bound on how far it is from the best."""

    proportions: _Floats
    shortfall: float
    """The most its log-likelihood can be below the maximum. With smoothing, the mass that one more
    step would move."""
    iterations: int


def em(
    counts: NDArray[np.int64] | _Floats,
    matrix: _Floats,
    *,
    smooth: bool = False,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> _Floats:
    """The distribution pi under which `counts`, drawn from `matrix` @ pi, are most likely.

    `matrix[u, v]` is the probability of report u when the truth is v, and positive. The iteration
    ends when the log-likelihood provably lies within `tolerance` of its maximum.

    With `smooth`, each step is followed by averaging neighbours with weights 1/4, 1/2, 1/4 (the EMS
    of Li et al., SIGMOD 2020, section 5.5), which keeps ordered values from breaking up into
    spikes. That has a fixed point instead of a maximum; the iteration ends when a step moves less
    mass than `tolerance` / 10**5.

    >>> em(np.array([70, 30]), np.array([[0.8, 0.3], [0.2, 0.7]])).round(3).tolist()
    [0.8, 0.2]
    """
    return fit(
        counts, matrix, smooth=smooth, tolerance=tolerance, max_iterations=max_iterations
    ).proportions


def fit(
    counts: NDArray[np.int64] | _Floats,
    matrix: _Floats,
    *,
    smooth: bool = False,
    tolerance: float = TOLERANCE,
    max_iterations: int = MAX_ITERATIONS,
) -> DistributionFit:
    """The same as :func:`em`, with a bound on what is left to gain: it exceeds `tolerance` if the
    iterations did not suffice."""
    check_range("tolerance", tolerance, above=0)
    whole("max_iterations", max_iterations, 1)
    goal = tolerance * 1e-5 if smooth else tolerance
    path = (smooth_steps if smooth else steps)(counts, matrix)
    for iteration, (proportions, shortfall) in enumerate(islice(path, max_iterations), start=1):
        best = DistributionFit(proportions, shortfall, iteration)
        if shortfall <= goal:
            break
    return best


def steps(counts: NDArray[np.int64] | _Floats, matrix: _Floats) -> Iterator[tuple[_Floats, float]]:
    """Maximisation step by step: each distribution with the bound on what its log-likelihood still
    lacks. It never falls."""
    rate, matrix, n = _check(counts, matrix)
    current = np.full(matrix.shape[1], 1 / matrix.shape[1])
    for _ in range(_PLAIN_STEPS):
        gain = matrix.T @ (rate / (matrix @ current))
        yield current, n * (float(gain.max()) - 1)
        current = _distribution(current * gain)
    value = _value(rate, matrix, current)
    for proportions in chain([current], _newton(rate, matrix, current)):
        reached = _value(rate, matrix, proportions)
        # near the maximum, values differ only in the last digit
        if reached >= value - 1e-15 * abs(value):
            value = max(value, reached)
            yield proportions, n * (float((matrix.T @ (rate / (matrix @ proportions))).max()) - 1)


def smooth_steps(
    counts: NDArray[np.int64] | _Floats, matrix: _Floats
) -> Iterator[tuple[_Floats, float]]:
    """Smoothed maximisation, step by step: each distribution with the mass that one more step would
    move.

    Two steps and an extrapolation along them (SQUAREM, Varadhan and Roland 2008), kept where it
    brings the fixed point nearer.
    """
    rate, matrix, _ = _check(counts, matrix)

    def step(mass: _Floats) -> _Floats:
        return _smooth(_distribution(mass * (matrix.T @ (rate / (matrix @ mass)))))

    current = np.full(matrix.shape[1], 1 / matrix.shape[1])
    first = step(current)
    while True:
        yield current, _moved(current, first)
        second = step(first)
        bold = _extrapolate(current, first, second)
        after = step(bold)
        if _moved(bold, after) < _moved(first, second):
            current, first = bold, after
        else:
            current, first = second, step(second)


def log_likelihood(
    counts: NDArray[np.int64] | _Floats, matrix: _Floats, proportions: _Floats
) -> float:
    """sum_u C_u ln (P pi)_u: the log-probability of the counts, up to a term that does not depend
    on pi."""
    return _value(np.asarray(counts, dtype=np.float64), matrix, proportions)


def observed_covariance(
    counts: NDArray[np.int64] | _Floats, matrix: _Floats, proportions: _Floats
) -> _Floats:
    """The asymptotic covariance of the maximum likelihood estimate: the inverse of the observed
    information on the simplex.

    The information is P' diag(C / lam^2) P, taken along directions that keep the sum 1. It is valid
    only inside the simplex: where an entry is (nearly) 0 the estimate is not normal around the
    truth, and the call is refused. Not for smoothed estimates.
    """
    rate, matrix, n = _check(counts, matrix)
    lam = matrix @ proportions
    if proportions.min() <= 1 / n:
        raise ParameterError(
            "proportions",
            float(proportions.min()),
            "must all exceed 1/n: there is no such covariance at the edge",
        )
    information = n * (matrix * (rate / lam**2)[:, None]).T @ matrix
    k = proportions.size
    along = np.vstack([np.eye(k - 1), -np.ones(k - 1)])
    return np.asarray(
        along @ np.linalg.solve(along.T @ information @ along, along.T), dtype=np.float64
    )


def _check(counts: NDArray[np.int64] | _Floats, matrix: _Floats) -> tuple[_Floats, _Floats, float]:
    """Only the reports that occurred: the others do not enter the likelihood."""
    counts = np.asarray(counts, dtype=np.float64)
    if matrix.ndim != 2 or counts.shape != matrix.shape[:1]:
        raise ParameterError(
            "counts",
            counts.shape,
            f"must have one count per report of the matrix, {matrix.shape[0]}",
        )
    if not np.all(np.isfinite(counts)) or counts.min() < 0:
        raise ParameterError("counts", float(counts.min()), "must be finite and not negative")
    n = float(counts.sum())
    if n == 0:
        raise NoReportsError("there are no reports, so there is nothing to estimate")
    seen = counts > 0
    return counts[seen] / n, np.ascontiguousarray(matrix[seen]), n


def _value(rate: _Floats, matrix: _Floats, proportions: _Floats) -> float:
    seen = rate > 0
    return float(rate[seen] @ np.log(matrix[seen] @ proportions))


def _distribution(mass: _Floats) -> _Floats:
    """Each step may change the last digit of the sum; over thousands of steps that would add up."""
    total: _Floats = mass / mass.sum()
    return total


def _newton(rate: _Floats, matrix: _Floats, start: _Floats) -> Iterator[_Floats]:
    """Primal-dual interior points towards the maximum, each scaled to a distribution.

    With sum_v pi_v added to -sum_u (C_u/n) ln (P pi)_u, the minimum over pi >= 0 has sum 1 by
    itself, so there is no other constraint. Its conditions are 1 - g_v = z_v >= 0 and pi_v z_v = 0;
    the last is relaxed to a target that shrinks towards 0.
    """
    k = start.size
    inside = np.maximum(start, 1e-6 / k)
    slack = np.full(k, 0.1)
    for _ in range(_NEWTON_STEPS):
        lam = matrix @ inside
        gradient = 1 - matrix.T @ (rate / lam)
        target = 0.1 * float(inside @ slack) / k
        if target < 1e-18:  # doubles resolve nothing finer
            return
        curvature = (matrix * (rate / lam**2)[:, None]).T @ matrix
        curvature[np.diag_indices(k)] += slack / inside
        move: _Floats = np.linalg.solve(curvature, target / inside - gradient).astype(
            np.float64, copy=False
        )
        turn = (target - slack * move) / inside - slack
        inside = inside + _reach(inside, move) * move
        slack = slack + _reach(slack, turn) * turn
        yield _distribution(inside)


def _reach(positive: _Floats, move: _Floats) -> float:
    """How much of the move keeps every entry positive."""
    falling = move < 0
    return min(1.0, 0.99 * float(np.min(-positive[falling] / move[falling], initial=np.inf)))


def _moved(before: _Floats, after: _Floats) -> float:
    return float(np.abs(after - before).sum()) / 2


def _extrapolate(current: _Floats, first: _Floats, second: _Floats) -> _Floats:
    step = first - current
    bend = (second - first) - step
    length = float(np.linalg.norm(bend))
    if length == 0:
        return second
    reach = max(float(np.linalg.norm(step)) / length, 1.0)
    # An entry that reached 0 could never leave it again, so overshooting ones stop a little short
    # of it.
    return _distribution(np.maximum(current + 2 * reach * step + reach**2 * bend, second / 100))


def _smooth(mass: _Floats) -> _Floats:
    """Weights 1/4, 1/2, 1/4; what would leave at an end stays there, so that no mass is lost."""
    out = mass / 2
    out[1:] += mass[:-1] / 4
    out[:-1] += mass[1:] / 4
    out[0] += mass[0] / 4
    out[-1] += mass[-1] / 4
    return out
