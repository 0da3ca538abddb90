"""Direct encoding: report your value, or any other at random."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon
from deniable.mechanisms import exact, solving
from deniable.mechanisms.blankets import Blanket, supporting_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.values import ValueReports
from deniable.randomness import ONE, Source

__all__ = ["DirectEncoding"]


@dataclass(frozen=True, eq=False, repr=False)
class DirectEncoding(ValueReports):
    """Generalized randomized response: the true value with probability e^epsilon / (e^epsilon + k -
    1), else another one.

    The best design matrix for its epsilon (Wang, Wu and Hu 2016, equation 19), and the best
    protocol where k < 3 e^epsilon + 2 (Wang et al. 2017). Variance of a proportion f: (e^epsilon +
    k - 2) / (n (e^epsilon - 1)^2) + f (k - 2) / (n (e^epsilon - 1)).

    >>> from deniable import seeded_source
    >>> survey = DirectEncoding(["never", "once", "often"], epsilon=2.0)
    >>> reports = survey.privatize(["never"] * 900 + ["often"] * 100, source=seeded_source(4))
    >>> len(reports)
    1000
    """

    values: Any
    epsilon: float

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        requested_epsilon = check_epsilon(self.epsilon)
        k = len(domain)
        growth = exact.exp(requested_epsilon)
        # A coin for "tell the truth", then one of the k - 1 others: both exact for any k.
        truthful = exact.down(growth / (growth + k - 1))
        other = Fraction(ONE - truthful, ONE * (k - 1))
        ratio = Fraction(truthful, ONE) / other
        self._set(
            domain=domain,
            values=domain.labels,
            requested_epsilon=requested_epsilon,
            _truthful=truthful,
            _pair=(truthful / ONE, float(other)),
        )
        self._set(epsilon=exact.log_ratio(max(ratio, 1 / ratio)))

    _truthful = 0
    _pair = (0.0, 0.0)

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon}

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        lie = 1 - source.coins(self._truthful, indices.size).astype(np.int64)
        other = source.below(len(self.domain) - 1, indices.size)
        other += other >= indices  # the values except the true one, in order
        return (indices + lie * (other - indices)).astype(self.layout[0])

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        a, b = self._pair
        proportions = (counts / n - b) / (a - b)
        # see estimation.unbias: the coins have an error even if all reports are equal
        rate = np.maximum(counts / n, b / 2)
        rate /= rate.sum()
        scale = 1 / ((a - b) ** 2 * max(n - 1, 1))
        variance = scale * rate * (1 - rate)
        covariance = None
        if rate.size <= solving.largest_covariance():
            # P^-1 (diag(lam) - lam lam') P^-T: the constant part of P^-1 vanishes, because the
            # entries of lam sum to 1.
            covariance = np.outer(-scale * rate, rate)
            np.fill_diagonal(covariance, variance)
        return proportions, variance, covariance

    def channel(self) -> NDArray[np.float64]:
        """P[report, value]."""
        a, b = self._pair
        matrix = np.full((len(self.domain), len(self.domain)), b)
        np.fill_diagonal(matrix, a)
        return matrix

    def blanket(self) -> Blanket:
        (a, b), k = self._pair, len(self.domain)
        return supporting_blanket(a * k, b * k, only=1 / k, both=0.0)

    def support(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        a, b = self._pair
        return np.full(len(self.domain), a), np.full(len(self.domain), b)
