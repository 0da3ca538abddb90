"""Randomized response against rounded Laplace noise at the same epsilon (Wang, Wu and Hu 2016,
theorems 2 to 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_range, whole
from deniable.estimation.surveys.one_person import check_prior, matched
from deniable.matrices import left_inverse
from deniable.renames import reads_old_names
from deniable.results import Result

__all__ = [
    "ErrorComparison",
    "laplace_matrix",
    "proportion_errors",
    "response_matrix",
    "value_errors",
]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ErrorComparison(Result):
    """The same error under both, one entry per value."""

    response: _Floats
    """For randomized response: exp(epsilon)/(exp(epsilon) + k - 1) on the diagonal, the others
    equal."""
    laplace: _Floats
    """For Laplace((k - 1)/epsilon) noise on the value's number, rounded to the nearest value."""
    laplace_epsilon: float
    """The true loss of the rounded noise: less than the requested epsilon, which randomized
    response spends in full."""
    weights: _Floats
    """The weight of each value in the mean."""

    @property
    def means(self) -> tuple[float, float]:
        """The mean error of randomized response, and of Laplace."""
        return float(self.weights @ self.response), float(self.weights @ self.laplace)


def value_errors(k: int, epsilon: float, prior: Any = None) -> ErrorComparison:
    """For each value, the probability that a guess from its report is wrong: E(x' - x)^2 of
    equation 12, with the guess drawn from the posterior.

    Theorem 2 (k = 2): randomized response is never worse, whatever the prior. That is correct; its
    proof prints 1 - (p^2 + (1 - p^2)) for 1 - (p^2 + (1 - p)^2), p = P(1 | 1). Theorem 4 claims the
    same for any k, which is wrong: Laplace noise confuses neighbours and keeps distant values
    apart, so a prior on two distant values favours it. Under a uniform prior the first and last
    value, which take in the tails, do better with Laplace if epsilon is small (k = 3, epsilon =
    0.1), and with many values even the mean does, slightly (k = 20, epsilon = 0.5). From epsilon =
    4 on, randomized response was better for each value and each of hundreds of random priors, up to
    k = 10.

    >>> response, laplace = value_errors(2, 1.0).means
    >>> round(response, 3), round(laplace, 3)
    (0.393, 0.423)
    >>> response, laplace = value_errors(10, 1.0, prior=[0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0.5]).means
    >>> response > laplace
    True
    """
    before = check_prior(prior, _check_k(k))
    noisy = laplace_matrix(k, epsilon)
    return ErrorComparison(
        1 - matched(response_matrix(k, epsilon), before),
        1 - matched(noisy, before),
        _loss(noisy),
        before,
    )


@reads_old_names
def proportion_errors(k: int, epsilon: float, n: int, proportions: Any = None) -> ErrorComparison:
    """For each value, the variance of its estimated proportion from n reports.

    The diagonal of P^-1 (diag(lam) - lam lam') P^-T / n; the paper's n - 1 belongs to the estimate
    of it from the reports. Theorem 3 (k = 2): randomized response is never worse. For k > 2 the
    paper has no proof; over the epsilons and proportions the tests try, its mean variance is far
    smaller.

    >>> versus = proportion_errors(2, 1.0, 1_000)
    >>> versus.response.round(6).tolist(), versus.laplace.round(6).tolist()
    ([0.001171, 0.001171], [0.001615, 0.001615])
    """
    pi = check_prior(proportions, _check_k(k))
    whole("n", n, 1)
    noisy = laplace_matrix(k, epsilon)
    flat = np.full(k, 1 / k)
    return ErrorComparison(
        _variances(response_matrix(k, epsilon), pi, n), _variances(noisy, pi, n), _loss(noisy), flat
    )


def response_matrix(k: int, epsilon: float) -> _Floats:
    """The design matrix of randomized response (equation 19).

    >>> response_matrix(2, np.log(3)).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    growth = math.expm1(_check_epsilon(epsilon))
    return np.asarray((np.ones((_check_k(k), k)) + growth * np.eye(k)) / (growth + k))


def laplace_matrix(k: int, epsilon: float) -> _Floats:
    """The design matrix of Laplace noise on the value's number, rounded to the nearest of 1 to k
    (equation 21).

    F(u + 1/2) - F(u - 1/2), the ends taking the tails, with F Laplace's distribution function
    around v of scale (k - 1)/epsilon. The paper prints epsilon/(k - 1) for the scale in equation
    21, and lambda for epsilon in equation 20.

    >>> laplace_matrix(2, 1.0).round(4).tolist()
    [[0.6967, 0.3033], [0.3033, 0.6967]]
    """
    scale = (_check_k(k) - 1) / _check_epsilon(epsilon)
    edges = np.concatenate([[-np.inf], np.arange(1, k) - 0.5, [np.inf]])
    away = (edges[:, np.newaxis] - np.arange(k)) / scale
    tail = np.exp(-np.abs(away)) / 2
    return np.asarray(np.diff(np.where(away < 0, tail, 1 - tail), axis=0))


def _variances(matrix: _Floats, pi: _Floats, n: int) -> _Floats:
    inverse = left_inverse(matrix)
    return np.asarray((inverse**2 @ (matrix @ pi) - pi**2) / n)


def _loss(matrix: _Floats) -> float:
    return float(np.log((matrix.max(axis=1) / matrix.min(axis=1)).max()))


def _check_k(k: Any) -> int:
    return whole("k", k, 2)


def _check_epsilon(epsilon: Any) -> float:
    return check_range("epsilon", epsilon, above=0, below=700)
