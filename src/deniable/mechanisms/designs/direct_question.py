"""The direct question, for comparison: no randomness, no protection."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable.mechanisms.designs.design import YES_NO, SurveyDesign
from deniable.mechanisms.designs.parameters import two_labels

__all__ = ["DirectQuestion"]


@dataclass(frozen=True, eq=False, repr=False)
class DirectQuestion(SurveyDesign):
    """People say what is true, or what they would like to be true. Epsilon is **infinite**: nothing
    is hidden.

    It is here because surveys ask part of the sample directly, to see whether randomizing makes
    people admit more (:func:`~deniable.agreement_test`).

    >>> print(DirectQuestion().estimate_counts(yes=158, n=365))
    pi   43.29 %   38.14 to 48.54
    DirectQuestion(): 365 people; epsilon infinite
    intervals cover at least 95 %; standard errors by n - 1
    a report of 'no' rules out 'yes': epsilon is infinite
    a report of 'yes' rules out 'no': epsilon is infinite
    """

    labels: Any = YES_NO

    def __post_init__(self) -> None:
        one, zero = Fraction(1), Fraction(0)
        labels = two_labels(self.labels)
        self._set(requested_epsilon=None)
        self._derive(labels, labels, [[one, zero], [zero, one]], blame="labels")

    def parameters(self) -> dict[str, Any]:
        return self._described()
