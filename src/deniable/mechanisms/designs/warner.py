"""Warner's design: answer the question, or its negation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deniable.mechanisms.designs.design import YES_NO, SurveyDesign
from deniable.mechanisms.designs.parameters import chance, odds_chance, one_of, two_labels

__all__ = ["Warner"]


@dataclass(frozen=True, eq=False, repr=False)
class Warner(SurveyDesign):
    """With probability `p` the question is asked, else its negation; only the person knows which
    (Warner 1965).

    P(yes) = p pi + (1 - p)(1 - pi), so pi = (lam - (1 - p))/(2p - 1); epsilon = |ln(p/(1 - p))|.
    `p` may be a Fraction, a float or a text; or give `epsilon`, and p = E/(1 + E) with E =
    e^epsilon. RRreg and RRTCS call it "Warner" with the same p; rr calls it "mirrored".

    >>> print(Warner(7 / 10).estimate_counts(yes=412, n=1000))
    pi   28.00 %   20.45 to 35.68
    Warner(p='7/10'): 1,000 people; epsilon 0.8473
    intervals cover 95 %; standard errors by n - 1
    >>> round(Warner(epsilon=1.0).epsilon, 6)
    1.0
    """

    p: Any = None
    epsilon: Any = None
    labels: Any = YES_NO

    def __post_init__(self) -> None:
        one_of(self.p, self.epsilon)
        p = chance("p", self.p) if self.epsilon is None else odds_chance(self.epsilon)
        labels = two_labels(self.labels)
        self._set(requested_epsilon=self.epsilon, p=p)
        self._derive(labels, labels, [[p, 1 - p], [1 - p, p]], blame="p")

    def parameters(self) -> dict[str, Any]:
        return self._described(
            p=self.p if self.requested_epsilon is None else None, epsilon=self.requested_epsilon
        )
