"""Forced response: the dice may answer for you."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deniable.checks import check_epsilon
from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.mechanisms.designs.design import YES_NO, SurveyDesign
from deniable.mechanisms.designs.parameters import chance, one_of, rounded, two_labels

__all__ = ["ForcedResponse"]


@dataclass(frozen=True, eq=False, repr=False)
class ForcedResponse(SurveyDesign):
    """Tell the truth with probability `p`; say yes with probability `yes` and no otherwise,
    whatever is true (Boruch 1971).

    P(yes) = yes + p pi, so pi = (lam - yes)/p; epsilon = ln max(a/b, (1 - b)/(1 - a)), a = p + yes,
    b = yes: infinite where nobody is forced to one of the two answers. Without `yes`, both are
    forced equally often. With `epsilon` instead, p = (E - 1)/(E + 1).

    Other names: RRreg "FR" has p = (forced no, forced yes); rr "forced-known" has p (truth), p1
    (forced yes), p0 (forced no); RRTCS "ForcedResponse" has p1 (forced yes), p2 (forced no); GLMMRR
    has p1 (truth) and p2, the proportion of yes among the forced.

    >>> print(ForcedResponse(3 / 4, yes=1 / 6).estimate_counts(yes=626, n=1525))
    pi   32.51 %   29.24 to 35.82
    ForcedResponse(p='3/4', yes='1/6'): 1,525 people; epsilon 2.303
    intervals cover 95 %; standard errors by n - 1
    """

    p: Any = None
    yes: Any = None
    epsilon: Any = None
    labels: Any = YES_NO

    def __post_init__(self) -> None:
        one_of(self.p, self.epsilon)
        if self.epsilon is None:
            p = chance("p", self.p)
        elif self.yes is not None:
            raise ParameterError(
                "yes",
                self.yes,
                "cannot be given with epsilon: the least error has both answers forced equally"
                " often",
            )
        else:
            growth = exact.exp(check_epsilon(self.epsilon))
            p = rounded((growth - 1) / (growth + 1))
        forced = (1 - p) / 2 if self.yes is None else chance("yes", self.yes, edges=True)
        if p + forced > 1:
            raise ParameterError("yes", self.yes, f"must be at most 1 - p = {1 - p}")
        labels = two_labels(self.labels)
        self._set(requested_epsilon=self.epsilon, p=p, yes=forced)
        self._derive(
            labels, labels, [[1 - forced, forced], [1 - p - forced, p + forced]], blame="p"
        )

    def parameters(self) -> dict[str, Any]:
        if self.requested_epsilon is not None:
            return self._described(epsilon=self.requested_epsilon)
        return self._described(p=self.p, yes=self.yes)
