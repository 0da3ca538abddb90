"""The triangular model: say only whether either of two things is true of you."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.mechanisms.designs.design import YES_NO, SurveyDesign
from deniable.mechanisms.designs.parameters import chance, two_labels

__all__ = ["Triangular"]


@dataclass(frozen=True, eq=False, repr=False)
class Triangular(SurveyDesign):
    """Report "neither" if both the sensitive and the other answer are no, else "at least one" (Yu,
    Tian and Tang 2008).

    `p` is the known prevalence of the other question, such as a birthday in some months. P(neither)
    = (1 - pi)(1 - p). A carrier never says "neither", so epsilon is **infinite**. People who say
    "at least one" are protected against anyone who does not know the other answer, and once per
    such fact. RRreg codes 1 for "at least one".

    >>> print(Triangular(1 / 4).estimate_counts(neither=350, n=700))
    pi   33.33 %   28.31 to 38.36
    Triangular(p='1/4'): 700 people; epsilon infinite
    intervals cover at least 95 %; standard errors by n - 1
    a report of 'neither' rules out 'yes': epsilon is infinite
    """

    p: Any
    labels: Any = YES_NO

    def __post_init__(self) -> None:
        p = chance("p", self.p)
        self._set(requested_epsilon=None, p=p)
        self._derive(
            two_labels(self.labels),
            ("neither", "at least one"),
            [[1 - p, p], [Fraction(0), Fraction(1)]],
            blame="p",
        )

    def parameters(self) -> dict[str, Any]:
        return self._described(p=self.p)
