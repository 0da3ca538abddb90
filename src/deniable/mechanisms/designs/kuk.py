"""Kuk's design: draw cards from the deck that matches your answer, and report how many are red."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import whole
from deniable.errors import ParameterError
from deniable.mechanisms import solving
from deniable.mechanisms.designs.design import YES_NO, SurveyDesign
from deniable.mechanisms.designs.parameters import chance, odds_chance, one_of, two_labels
from deniable.mechanisms.reports import require_reports

__all__ = ["Kuk"]

_MOST_DRAWS = 50


@dataclass(frozen=True, eq=False, repr=False)
class Kuk(SurveyDesign):
    """Draw `draws` cards, with replacement, from the "yes" or the "no" deck, and report the number
    of red ones (Kuk 1990).

    The proportions of red cards in the decks are `p1` (yes) and `p2` (no). All cards come from one
    deck, so the count is a mixture: Binomial(k, p1) with probability pi, else Binomial(k, p2). The
    loss is k times that of one draw. With `epsilon`, the decks mirror each other: p1 = E'/(1 + E'),
    p2 = 1 - p1, E' = e^(epsilon/draws). RRreg "Kuk" has p = (p1, p2) and Kukrep = draws.

    The moment estimator (red/(n k) - p2)/(p1 - p2) is unbiased, and is what `estimate` returns.
    `method="ml"` of :meth:`estimate_counts` is maximum likelihood, which for k > 1 is a different
    estimate with a smaller error.

    >>> print(Kuk(4 / 5, 3 / 10, draws=5).estimate_counts([60, 110, 130, 120, 110, 70]))
    pi   41.33 %   36.37 to 46.38
    Kuk(p1='4/5', p2='3/10', draws=5): 600 people; epsilon 6.264
    intervals cover 95 %; standard errors by n - 1
    """

    p1: Any = None
    p2: Any = None
    draws: int = 1
    epsilon: Any = None
    labels: Any = YES_NO

    def __post_init__(self) -> None:
        one_of(self.p1, self.epsilon)
        whole("draws", self.draws, 1, _MOST_DRAWS)
        if self.epsilon is None:
            if self.p2 is None:
                raise ParameterError(
                    "p2",
                    None,
                    "must be given: the proportion of red cards in the deck of those who have"
                    " nothing to say",
                )
            p1, p2 = chance("p1", self.p1), chance("p2", self.p2)
        else:
            if self.p2 is not None:
                raise ParameterError(
                    "p2", self.p2, "cannot be given with epsilon: the decks mirror each other then"
                )
            p1 = odds_chance(self.epsilon / self.draws)
            p2 = 1 - p1
        k = self.draws
        self._set(requested_epsilon=self.epsilon, p1=p1, p2=p2)
        self._derive(
            two_labels(self.labels),
            tuple(range(k + 1)),
            [_binomial(k, p2), _binomial(k, p1)],
            blame="p1",
        )
        red = (np.arange(k + 1) / k - float(p2)) / float(p1 - p2)
        self._set(_inverse=np.array([1 - red, red]))

    def parameters(self) -> dict[str, Any]:
        given = (
            {"epsilon": self.requested_epsilon}
            if self.requested_epsilon is not None
            else {"p1": self.p1, "p2": self.p2}
        )
        return self._described(**given, draws=self.draws)

    def support(self) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        return super().support() if self.draws == 1 else None

    def estimate_counts(
        self,
        counts: Any = None,
        *,
        n: int | None = None,
        population: int | None = None,
        method: str = "moment",
        **named: int,
    ) -> solving.DesignEstimate:
        """The prevalence from the numbers of people who reported 0, 1, … `draws` red cards.

        `method` is "moment", whose standard errors are Kuk's formula ("n") and that of the sample
        variance ("n-1"); or "ml", with those of the "observed" and of the "expected" information.
        """
        if method not in {"moment", "ml"}:
            raise ParameterError("method", method, "must be 'moment' or 'ml'")
        if self.draws == 1 and method == "moment":
            return super().estimate_counts(
                counts, n=n, population=population, method=method, **named
            )
        if population is not None:
            raise ParameterError(
                "population",
                population,
                "is not supported for several draws: use estimate() with reports",
            )
        tally = self.counted(counts, n=n, **named)
        people = require_reports(tally.n)
        value, variances = (self._moments if method == "moment" else self._likeliest)(
            tally.counts, people
        )
        return solving.DesignEstimate(
            design=repr(self),
            names=("pi",),
            values=np.array([value]),
            covariances={kind: np.array([[variance]]) for kind, variance in variances.items()},
            n=(people,),
            epsilon=self.epsilon,
            method=method,
            law=self._law(method, value, tally.counts, people),
        )

    def _law(self, method: str, value: float, counts: NDArray[np.int64], n: int) -> Any:
        """Of the interval: by Kuk's variance at each prevalence, or by the likelihood."""
        if method == "ml":
            return solving.LikelihoodLaw(value, counts, self._matrix[:, 0], self._matrix[:, 1])
        p1, p2, k = float(self.p1), float(self.p2), self.draws
        # phi (1 - phi)/(k (p1 - p2)^2) + (1 - 1/k) pi (1 - pi) over n, with phi = p2 + (p1 - p2)
        # pi.
        constant = p2 * (1 - p2) / (k * (p1 - p2) ** 2)
        slope = (1 - 2 * p2) / (k * (p1 - p2)) + 1 - 1 / k
        return solving.OwnVarianceLaw(value, constant / n, slope / n, n)

    def _moments(self, counts: NDArray[np.int64], n: int) -> tuple[float, dict[str, float]]:
        rate = counts / n
        red = self._inverse[1]
        value = float(red @ rate)
        # At a possible truth, so that the coins' error is never left out.
        pi = min(max(value, 0.0), 1.0)
        p1, p2, k = float(self.p1), float(self.p2), self.draws
        phi = pi * p1 + (1 - pi) * p2
        kuk = phi * (1 - phi) / (n * k * (p1 - p2) ** 2) + (1 - 1 / k) * pi * (1 - pi) / n
        sample = float(red**2 @ rate - value**2) / max(n - 1, 1)
        return value, {"n-1": sample if sample > 0 else kuk, "n": kuk}

    def _likeliest(self, counts: NDArray[np.int64], n: int) -> tuple[float, dict[str, float]]:
        fit = solving.em.fit(counts, self._matrix, tolerance=1e-12)
        pi = float(fit.proportions[1])
        # to the last digit: the iteration above stops where the likelihood no longer grows
        for _ in range(50):
            lam = self._matrix @ [1 - pi, pi]
            gap = self._matrix[:, 1] - self._matrix[:, 0]
            step = float(counts @ (gap / lam)) / float(counts @ (gap / lam) ** 2)
            pi = min(max(pi + step, 0.0), 1.0)
            if abs(step) < 1e-15:
                break
        lam = self._matrix @ [1 - pi, pi]
        observed, expected = float(counts @ (gap / lam) ** 2), n * float((gap**2 / lam).sum())
        return pi, {"observed": 1 / observed, "expected": 1 / expected}


def _binomial(k: int, p: Fraction) -> list[Fraction]:
    return [math.comb(k, red) * p**red * (1 - p) ** (k - red) for red in range(k + 1)]
