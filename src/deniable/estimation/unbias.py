"""Unbiased estimates from counts: invert the channel, and carry its covariance along.

All of them start from the covariance in an infinite population; :func:`finite` then takes away the sampling error that a
finite one does not have (MATHS 1): V = (V_rr + (1 - n/U) V_s)/n is the infinite one less V_s/U, with V_s = diag(pi) - pi pi'.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.estimate import LARGEST_COVARIANCE

__all__ = ["affine_moments", "finite", "matrix_moments", "pure_moments"]

_Floats = NDArray[np.float64]
Moments = tuple[_Floats, _Floats, "_Floats | None"]
"""Proportions, their variances, and their covariance where it is not too large."""


def pure_moments(counts: NDArray[np.int64], n: int, a: float | _Floats, b: float | _Floats) -> Moments:
    """Of a pure protocol, whose reports support a label with probability `a` if it is true and `b` if not.

    Estimate (C/n - b)/(a - b); variance lam(1 - lam)/((a - b)^2 (n - 1)); and if reports support different labels independently
    given the truth, the covariance of two of them is -pi_u pi_v / n.
    """
    rate = counts / n
    proportions = (rate - b) / (a - b)
    variance = rate * (1 - rate) / ((a - b) ** 2 * max(n - 1, 1))
    covariance = None
    if proportions.size <= LARGEST_COVARIANCE:
        covariance = np.outer(proportions, -proportions / max(n - 1, 1))
        np.fill_diagonal(covariance, variance)
    return proportions, variance, covariance


def affine_moments(sums: NDArray[np.int64], n: int, zero: float, one: float, variance: float) -> Moments:
    """Of reports that are a noisy number a label, whose mean is `one` if the label is true and `zero` if not.

    Estimate (S/n - zero)/(one - zero), whose variance is (V + f (1 - f))/n with V = `variance`/(one - zero)^2 that of the noise;
    n - 1 makes the stated one unbiased. The noise is independent, so the covariance of two labels is -pi_u pi_v / n.
    """
    proportions = (sums / n - zero) / (one - zero)
    shares = np.clip(proportions, 0, 1)  # only here: outside [0, 1] a variance of sampling would be negative
    scale = 1 / max(n - 1, 1)
    spread = scale * (variance / (one - zero) ** 2 + shares * (1 - shares))
    covariance = None
    if proportions.size <= LARGEST_COVARIANCE:
        covariance = np.outer(proportions, -scale * proportions)
        np.fill_diagonal(covariance, spread)
    return proportions, spread, covariance


def matrix_moments(counts: NDArray[np.int64], n: int, inverse: _Floats) -> Moments:
    """Of a channel with the given (left) inverse: pi = P^-1 lam, covariance P^-1 (diag(lam) - lam lam') P^-T / (n - 1)."""
    rate = counts / n
    proportions = inverse @ rate
    scale = 1 / max(n - 1, 1)
    if proportions.size > LARGEST_COVARIANCE:
        return proportions, scale * np.maximum(inverse**2 @ rate - proportions**2, 0), None
    covariance = scale * ((inverse * rate) @ inverse.T - np.outer(proportions, proportions))
    variance = np.maximum(np.diagonal(covariance), 0)  # where all reports are alike, rounding could leave less than nothing
    np.fill_diagonal(covariance, variance)
    return proportions, variance, covariance


def finite(moments: Moments, population: int | None) -> Moments:
    """Take away the sampling error that a finite population does not have."""
    if population is None:
        return moments
    proportions, variance, covariance = moments
    shares = np.clip(proportions, 0, 1)  # only here: outside [0, 1] a variance of sampling would be negative
    variance = np.maximum(variance - shares * (1 - shares) / population, 0)
    if covariance is not None:
        covariance = covariance + np.outer(shares, shares) / population
        np.fill_diagonal(covariance, variance)
    return proportions, variance, covariance
