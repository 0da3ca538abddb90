"""The crosswise model: say only whether two answers are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from deniable.errors import ParameterError
from deniable.mechanisms import solving
from deniable.mechanisms.designs.design import YES_NO, SurveyDesign
from deniable.mechanisms.designs.parameters import chance, count, odds_chance, one_of, two_labels

__all__ = ["Crosswise"]


@dataclass(frozen=True, eq=False, repr=False)
class Crosswise(SurveyDesign):
    """Report whether the sensitive and the other answer are the "same" or "different" (Yu, Tian and
    Tang 2008).

    `p` is the known prevalence of the other question, such as a birthday in some months. P(same) =
    p pi + (1 - p)(1 - pi): the distribution of Warner's design, with other labels. epsilon =
    |ln(p/(1 - p))| against anyone who does not know the other answer, and once per such fact: two
    sensitive questions over the same birthday are not independent. With `epsilon`, p = 1/(1 + E).

    People who answer at random pull the estimate towards 1/2: :meth:`estimate_with_anchor` measures
    and corrects that.

    >>> print(Crosswise(1 / 6).estimate_counts(same=512, n=730))
    pi   19.79 %   14.94 to 24.89
    Crosswise(p='1/6'): 730 people; epsilon 1.609
    intervals cover 95 %; standard errors by n - 1
    """

    p: Any = None
    epsilon: Any = None
    labels: Any = YES_NO

    def __post_init__(self) -> None:
        one_of(self.p, self.epsilon)
        p = chance("p", self.p) if self.epsilon is None else 1 - odds_chance(self.epsilon)
        self._set(requested_epsilon=self.epsilon, p=p)
        self._derive(
            two_labels(self.labels), ("different", "same"), [[p, 1 - p], [1 - p, p]], blame="p"
        )

    def parameters(self) -> dict[str, Any]:
        return self._described(
            p=self.p if self.requested_epsilon is None else None, epsilon=self.requested_epsilon
        )

    def estimate_with_anchor(
        self, *, same: int, anchor_same: int, both: int, n: int, anchor_p: Any = None
    ) -> solving.DesignEstimate:
        """Prevalence corrected for people who answer at random, with a second crosswise question
        whose prevalence is 0.

        `same` and `anchor_same` of `n` people said "same" to the sensitive and to the anchor
        question, `both` of them to both; `anchor_p` is the known prevalence of the anchor's other
        question, `p` unless given. A proportion t of people follow the instructions, and the others
        say "same" half of the time: t = (lam' - 1/2)/(1/2 - p'), pi = 1/2 + (naive - 1/2)/t
        (Atsusaka and Stevenson 2023). Standard errors are by the delta method and include the
        covariance of the two answers.

        >>> print(Crosswise(0.15).estimate_with_anchor(same=1427, anchor_same=1541, both=1116, n=2000))
        pi   10.54 %    6.09 to 14.99
        t    77.29 %   72.02 to 82.55   people who follow the instructions
        Crosswise(p='3/20') with an anchor: 2,000 people; epsilon 1.735
        intervals cover 95 %; standard errors by n - 1
        """
        p, other = (
            float(self.p),
            float(self.p if anchor_p is None else chance("anchor_p", anchor_p)),
        )
        people = count("n", n)
        lam, anchor, joint = (
            count(name, value, people) / people
            for name, value in (("same", same), ("anchor_same", anchor_same), ("both", both))
        )
        if joint > min(lam, anchor) or lam + anchor - joint > 1 + 1e-12:
            raise ParameterError("both", both, "must lie between what same and anchor_same allow")
        t = (anchor - 0.5) / (0.5 - other)
        naive = (lam - (1 - p)) / (2 * p - 1)
        if t <= 0:
            raise ParameterError(
                "anchor_same",
                anchor_same,
                "leaves no proportion of people who follow the instructions",
            )
        pi = 0.5 + (naive - 0.5) / t
        gradient = np.array(
            [
                [1 / ((2 * p - 1) * t), -(naive - 0.5) / t**2 / (0.5 - other)],
                [0.0, 1 / (0.5 - other)],
            ]
        )
        spread = np.array(
            [[lam * (1 - lam), joint - lam * anchor], [joint - lam * anchor, anchor * (1 - anchor)]]
        )
        covariance = gradient @ spread @ gradient.T
        return solving.DesignEstimate(
            design=f"{self!r} with an anchor",
            names=("pi", "t"),
            values=np.array([pi, t]),
            covariances={"n-1": covariance / max(people - 1, 1), "n": covariance / people},
            n=(people,),
            epsilon=self.epsilon,
            meanings={"t": "people who follow the instructions"},
        )
