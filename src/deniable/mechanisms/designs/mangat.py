"""Mangat's design: carriers tell the truth, the others let the dice decide."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.mechanisms.designs.design import YES_NO, SurveyDesign
from deniable.mechanisms.designs.parameters import chance, two_labels

__all__ = ["Mangat"]


@dataclass(frozen=True, eq=False, repr=False)
class Mangat(SurveyDesign):
    """Carriers say yes; everybody else says no with probability `p`, and yes otherwise (Mangat
    1994).

    P(yes) = pi + (1 - pi)(1 - p), so pi = (lam - 1 + p)/p. A carrier never says "no", so a "no"
    clears a person for certain and epsilon is **infinite** whatever p is. RRreg "Mangat" has the
    same p; RRTCS "Mangat" is a different design, the two-stage one of 1992.

    >>> print(Mangat(3 / 5).estimate_counts(yes=520, n=1000))
    pi   20.00 %   14.75 to 25.23
    Mangat(p='3/5'): 1,000 people; epsilon infinite
    intervals cover at least 95 %; standard errors by n - 1
    a report of 'no' rules out 'yes': epsilon is infinite
    """

    p: Any
    labels: Any = YES_NO

    def __post_init__(self) -> None:
        p = chance("p", self.p)
        labels = two_labels(self.labels)
        self._set(requested_epsilon=None, p=p)
        self._derive(labels, labels, [[p, 1 - p], [Fraction(0), Fraction(1)]], blame="p")

    def parameters(self) -> dict[str, Any]:
        return self._described(p=self.p)
