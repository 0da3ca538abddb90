"""Unbiased estimates from counts: invert the channel, and carry its covariance along.

All start from the covariance in an infinite population; :func:`finite` then removes the sampling
error that a finite one does not have (docs/estimation.md): V = (V_rr + (1 - n/U) V_s)/n is the
infinite one less V_s/U, with V_s = diag(pi) - pi pi'.

A few reports can all be equal and seem to have no error although the coins have one. So the errors
assume that no report is less than half as frequent as the coins alone make it, whatever the truth.
(Half: the whole would also widen what is below 0 merely by chance, and intervals would cover too
often.)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "LARGEST_COVARIANCE",
    "LEAST",
    "affine_moments",
    "coin_variances",
    "covariances_up_to",
    "finite",
    "largest_covariance",
    "matrix_moments",
    "pure_moments",
    "report_rates",
    "support_rates",
    "without_negative_eigenvalues",
]

_Floats = NDArray[np.float64]
Moments = tuple[_Floats, _Floats, "_Floats | None"]
"""Proportions, their variances, and their covariance if it is not too large."""

LEAST = 1e-3
"""The least fraction of a variance that remains in a finite population, if only the total is known:
coins are never certain."""


_ROUNDING = 1e-10
"""An eigenvalue of a correlation that is below 0 by no more is 0."""
LARGEST_COVARIANCE = 512
"""Up to this many labels, an Estimate keeps the whole covariance matrix; beyond it, the
diagonal."""
_LARGEST: ContextVar[int] = ContextVar("largest_covariance", default=LARGEST_COVARIANCE)


def largest_covariance() -> int:
    """The most labels for which the covariance is computed: it takes a hundred times as long as the
    rest."""
    return _LARGEST.get()


@contextmanager
def covariances_up_to(labels: int) -> Iterator[None]:
    """Within the context, compute covariances for up to `labels` labels."""
    token = _LARGEST.set(labels)
    try:
        yield
    finally:
        _LARGEST.reset(token)


def support_rates(rate: _Floats, a: float | _Floats, b: float | _Floats) -> _Floats:
    """Rates of supporting reports used for the errors: from half of b up to halfway from a to 1."""
    least, most = np.minimum(a, b), np.maximum(a, b)
    return np.asarray(np.clip(rate, least / 2, (1 + most) / 2))


def report_rates(rate: _Floats, channel: _Floats) -> _Floats:
    """Rates of a matrix's reports used for the errors: each at least half of its smallest
    probability, and sum 1."""
    raised = np.maximum(rate, channel.min(axis=1) / 2)
    return np.asarray(raised / raised.sum())


def coin_variances(inverse: _Floats, channel: _Floats) -> _Floats:
    """For each label, the least variance that the coins alone give one report's contribution,
    whatever the truth."""
    return np.asarray(np.maximum((inverse**2 @ channel - (inverse @ channel) ** 2).min(axis=1), 0))


def without_negative_eigenvalues(covariance: _Floats) -> _Floats:
    """The covariance with the same variances and no negative eigenvalue, which a difference of two
    estimated ones can have."""
    spread = np.sqrt(np.diagonal(covariance))
    scale = np.where(spread > 0, spread, 1.0)
    correlation = covariance / np.outer(scale, scale)
    # Diagonally dominant, as when the coins' noise is large; or by rows as they are, as every
    # multinomial covariance is (its rows sum to 0). Both without a factorisation, whose time varies
    # fifty-fold with the threads of the linear algebra library on a busy computer.
    if np.abs(correlation).sum(axis=1).max() <= 2:
        return covariance
    dominated = np.abs(covariance).sum(axis=1) <= (2 + _ROUNDING) * np.diagonal(covariance)
    if dominated.all():
        return covariance
    # a tenth of the cost of eigenvalues, which are rarely needed
    with suppress(np.linalg.LinAlgError):
        np.linalg.cholesky(correlation + _ROUNDING * np.eye(len(correlation)))
        return covariance
    weights, directions = np.linalg.eigh(correlation)
    proper = (directions * np.maximum(weights, 0)) @ directions.T
    kept = np.sqrt(np.maximum(np.diagonal(proper), np.finfo(np.float64).tiny))
    return np.asarray(proper * np.outer(spread / kept, spread / kept))


def pure_moments(
    counts: NDArray[np.int64], n: int, a: float | _Floats, b: float | _Floats
) -> Moments:
    """For a pure protocol, whose reports support a label with probability `a` if it is true and `b`
    if not.

    Estimate (C/n - b)/(a - b); variance lam(1 - lam)/((a - b)^2 (n - 1)); and if reports support
    different labels independently given the truth, the covariance of two of them is -pi_u pi_v / n.
    """
    rate = counts / n
    proportions = (rate - b) / (a - b)
    rate = support_rates(rate, a, b)
    variance = rate * (1 - rate) / ((a - b) ** 2 * max(n - 1, 1))
    covariance = None
    if proportions.size <= largest_covariance():
        covariance = np.outer(proportions, -proportions / max(n - 1, 1))
        np.fill_diagonal(covariance, variance)
    return proportions, variance, covariance


def affine_moments(
    sums: NDArray[np.int64], n: int, zero: float, one: float, variance: float
) -> Moments:
    """For reports that are one noisy number per label, whose mean is `one` if the label is true and
    `zero` if not.

    Estimate (S/n - zero)/(one - zero), whose variance is (V + f (1 - f))/n with V = `variance`/(one
    - zero)^2 that of the noise; n - 1 makes the stated one unbiased. The noise is independent, so
    the covariance of two labels is -pi_u pi_v / n.
    """
    proportions = (sums / n - zero) / (one - zero)
    # only here: outside [0, 1] a sampling variance would be negative
    clipped = np.clip(proportions, 0, 1)
    scale = 1 / max(n - 1, 1)
    spread = scale * (variance / (one - zero) ** 2 + clipped * (1 - clipped))
    covariance = None
    if proportions.size <= largest_covariance():
        covariance = np.outer(proportions, -scale * proportions)
        np.fill_diagonal(covariance, spread)
    return proportions, spread, covariance


def matrix_moments(
    counts: NDArray[np.int64], n: int, inverse: _Floats, channel: _Floats
) -> Moments:
    """For a channel P and its (left) inverse: pi = P^-1 lam, covariance P^-1 (diag(lam) - lam lam')
    P^-T / (n - 1)."""
    proportions = inverse @ (counts / n)
    rate = report_rates(counts / n, channel)
    mean, scale = inverse @ rate, 1 / max(n - 1, 1)
    if proportions.size > largest_covariance():
        return proportions, scale * np.maximum(inverse**2 @ rate - mean**2, 0), None
    covariance = scale * ((inverse * rate) @ inverse.T - np.outer(mean, mean))
    variance = np.maximum(np.diagonal(covariance), 0)  # rounding could make it negative
    np.fill_diagonal(covariance, variance)
    return proportions, variance, covariance


def finite(moments: Moments, population: int | None) -> Moments:
    """Remove the sampling error that a finite population does not have, leaving a proper
    covariance."""
    proportions, variance, covariance = moments
    if population is not None:
        # only here: outside [0, 1] a sampling variance would be negative
        clipped = np.clip(proportions, 0, 1)
        variance = np.maximum(variance - clipped * (1 - clipped) / population, LEAST * variance)
        if covariance is not None:
            covariance = covariance + np.outer(clipped, clipped) / population
            np.fill_diagonal(covariance, variance)
    if covariance is not None:
        covariance = without_negative_eigenvalues(covariance)
    return proportions, variance, covariance
