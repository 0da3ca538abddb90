"""The unrelated question: chance decides between the sensitive question and a harmless one."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon
from deniable.errors import ParameterError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.designs.design import YES_NO, SurveyDesign, exact_loss
from deniable.mechanisms.designs.parameters import chance, one_of, rounded, two_labels
from deniable.mechanisms.designs.two_group import TwoGroupDesign

__all__ = ["UnrelatedQuestion", "UnrelatedQuestionUnknown"]


@dataclass(frozen=True, eq=False, repr=False)
class UnrelatedQuestion(SurveyDesign):
    """With probability `p` the sensitive question is asked, else a harmless one to which a known
    proportion `u` says yes.

    P(yes) = p pi + (1 - p) u, so pi = (lam - (1 - p) u)/p (Greenberg et al. 1969); epsilon = ln
    max(a/b, (1 - b)/(1 - a)), a = p + (1 - p) u, b = (1 - p) u. With `u` and `epsilon`, p is the
    largest that loses no more. If `u` is unknown, two samples with different p determine it:
    :meth:`unknown`. If the harmless answer is a fact such as a birthday, the loss applies to anyone
    who does not know that fact, and once per fact. RRreg "UQTknown" and RRTCS "Horvitz" use the
    same p; RRTCS calls u alpha.

    >>> print(UnrelatedQuestion(p=7 / 10, u=1 / 4).estimate_counts(yes=301, n=900))
    pi   37.06 %   32.74 to 41.54
    UnrelatedQuestion(p='7/10', u='1/4'): 900 people; epsilon 2.335
    intervals cover 95 %; standard errors by n - 1
    """

    p: Any = None
    u: Any = None
    epsilon: Any = None
    labels: Any = YES_NO

    def __post_init__(self) -> None:
        one_of(self.p, self.epsilon)
        if self.u is None:
            raise ParameterError(
                "u",
                None,
                "must be given: the prevalence of the unrelated question, or use"
                " UnrelatedQuestion.unknown",
            )
        u = chance("u", self.u, edges=True)
        if self.epsilon is None:
            p = chance("p", self.p)
        elif not 0 < u < 1:
            raise ParameterError(
                "u", self.u, "must lie strictly between 0 and 1 for a finite epsilon"
            )
        else:
            odds = (exact.exp(check_epsilon(self.epsilon)) - 1) * min(u, 1 - u)
            p = rounded(odds / (1 + odds))
        labels = two_labels(self.labels)
        self._set(requested_epsilon=self.epsilon, p=p, u=u)
        self._derive(
            labels,
            labels,
            [[1 - (1 - p) * u, (1 - p) * u], [(1 - p) * (1 - u), p + (1 - p) * u]],
            blame="p",
        )

    @staticmethod
    def unknown(p1: Any, p2: Any) -> UnrelatedQuestionUnknown:
        """The two-sample design, whose different p determine `u` as well."""
        return UnrelatedQuestionUnknown(p1, p2)

    def parameters(self) -> dict[str, Any]:
        return self._described(
            p=self.p if self.requested_epsilon is None else None,
            u=self.u,
            epsilon=self.requested_epsilon,
        )


@dataclass(frozen=True)
class UnrelatedQuestionUnknown(TwoGroupDesign):
    """The unrelated question with an unknown prevalence u: two samples, asked the sensitive
    question with p1 and p2.

    lam_i = p_i pi + (1 - p_i) u (Greenberg et al. 1969; RRreg "UQTunknown"). The loss is that of
    the sample with the larger p at the estimated u, so it is known only afterwards.

    >>> print(UnrelatedQuestion.unknown(7 / 10, 3 / 10).estimate_counts(yes=(180, 220), n=(400, 500)))
    pi   45.75 %   36.46 to 55.14
    u    43.25 %   34.67 to 51.92
    UnrelatedQuestionUnknown(p1='7/10', p2='3/10'): 400 + 500 people; epsilon 1.856
    intervals cover at least 95 %; standard errors by n - 1
    epsilon is that at the estimated u, in the group with the larger p
    """

    p1: Any
    p2: Any

    names = ("pi", "u")
    compliance = "u"

    def __post_init__(self) -> None:
        p1, p2 = chance("p1", self.p1), chance("p2", self.p2)
        self._derive((p1, p2), [[p1, 1 - p1], [p2, 1 - p2]], [0, 0])

    def group(self, index: int, u: Any) -> UnrelatedQuestion:
        """The design of one sample, if the prevalence of the unrelated question is `u`."""
        return UnrelatedQuestion(p=(self.p1, self.p2)[index], u=u)

    @property
    def classes(self) -> tuple[str, ...]:
        return ("neither", "unrelated only", "sensitive only", "both")

    def class_channel(self, index: int) -> tuple[tuple[Fraction, ...], ...]:
        p, one, zero = (self.p1, self.p2)[index], Fraction(1), Fraction(0)
        return ((one, zero), (p, 1 - p), (1 - p, p), (zero, one))

    def class_proportions(self, *values: float) -> NDArray[np.float64]:
        pi, u = values
        return np.array([(1 - pi) * (1 - u), (1 - pi) * u, pi * (1 - u), pi * u])

    def answer_chances(
        self, index: int
    ) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
        p = (self.p1, self.p2)[index]
        return (Fraction(0), 1 - p), (p, 1 - p)

    @property
    def epsilon(self) -> float:
        """Unknown until `u` is known: see :meth:`epsilon_at`."""
        return float("nan")

    def epsilon_at(self, u: float) -> float:
        """The loss if the unrelated question has the prevalence `u`."""
        proportion = chance("u", min(max(u, 0.0), 1.0), edges=True)
        return max(
            exact_loss(
                [
                    [1 - (1 - p) * proportion, (1 - p) * proportion],
                    [(1 - p) * (1 - proportion), p + (1 - p) * proportion],
                ]
            )
            for p in (self.p1, self.p2)
        )

    def _finish(self, estimate: solving.DesignEstimate) -> solving.DesignEstimate:
        note = "epsilon is that at the estimated u, in the group with the larger p"
        return estimate.replaced(
            epsilon=self.epsilon_at(float(estimate.values[1])), notes=(*estimate.notes, note)
        )
