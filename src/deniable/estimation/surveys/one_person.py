"""What a report reveals about the person who sent it: to explain a plan to people, and to judge
it."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.display import Bar, Display
from deniable.errors import ParameterError
from deniable.estimation.likelihood import ReportLikelihood, bit_pair, likelihoods
from deniable.results import Result

__all__ = ["Guess", "check_prior", "guess", "matched", "posterior"]

_Floats = NDArray[np.float64]
_LARGEST_LISTED = 16
"""Up to this many independent bits, all 2^k reports are enumerated."""


def posterior(mechanism: ReportLikelihood, reports: Any, prior: Any = None) -> _Floats:
    """P(value | report), one row per report and one column per value, for an observer with this
    `prior` about the person.

    Bayes: prior times P(report | value), divided by its sum. Without a prior, all values are
    equally likely. No probability changes by more than a factor of exp(epsilon), odds included.

    >>> from deniable import BinaryResponse
    >>> survey = BinaryResponse(p=0.5, q=0.5)
    >>> posterior(survey, [1], prior=[0.9, 0.1]).round(3).tolist()  # a yes, of which one in ten are true
    [[0.75, 0.25]]
    """
    before = check_prior(prior, len(mechanism.labels))
    joint = likelihoods(mechanism, reports) * before
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class Guess(Result):
    """How often an observer of a report guesses the value behind it."""

    best: float
    """P(right) of an observer who always names the most probable value. Nobody does better."""
    blind: float
    """P(right) without the report: the largest prior probability."""
    limit: float
    """The bound for any mechanism of this epsilon: exp(epsilon) m / (1 + (exp(epsilon) - 1) m), m
    the largest prior probability."""
    matched: _Floats | None
    """For each value, P(right) of an observer who draws a value from the posterior (Wang, Wu and Hu
    2016, Q1: equations 5 and 14).

    None if that would need a sum over too many reports.
    """
    prior: _Floats
    labels: tuple[Hashable, ...]

    def _display(self, confidence: float = 0.95) -> Display:
        figures = [
            ("without the report", self.blind),
            ("with the report", self.best),
            ("at most, at this epsilon", self.limit),
        ]
        bars = [Bar(name, 100 * value) for name, value in figures]
        return Display(("guess", "right"), figures, (str(self),), bars, "guessed right (%)")

    def __str__(self) -> str:
        return (
            f"A report is guessed right {100 * self.best:.1f} % of the time, without it"
            f" {100 * self.blind:.1f} %; no report of this epsilon allows more than"
            f" {100 * self.limit:.1f} %"
        )


def guess(mechanism: ReportLikelihood, prior: Any = None) -> Guess:
    """The probability of guessing one person's value from the report, given a prior.

    The best guess is right with probability sum over reports u of max over v of prior_v P[u, v].
    Wang, Wu and Hu's Q1 has the guesser draw from the posterior instead: given the value v, right
    with probability sum over u of P[u, v] P(v | u). For independent bits the best guess takes,
    among the labels supported, the one with the largest prior, unless an unsupported one is
    exp(epsilon) times as probable: a sum over which label that is, not over 2^k reports.

    >>> from deniable import DirectEncoding, OptimizedUnary
    >>> print(guess(DirectEncoding(["a", "b", "c", "d"], 1.0)))
    A report is guessed right 47.5 % of the time, without it 25.0 %; no report of this epsilon allows more than 47.5 %
    >>> print(guess(OptimizedUnary(1024, 1.0)))
    A report is guessed right 0.2 % of the time, without it 0.1 %; no report of this epsilon allows more than 0.3 %
    """
    k = len(mechanism.labels)
    before = check_prior(prior, k)
    channel = mechanism.channel()
    if isinstance(channel, np.ndarray):
        best = float((channel * before).max(axis=1).sum())
        right: _Floats | None = matched(channel, before)
    elif getattr(mechanism, "independent_bits", False):
        a, b = bit_pair(mechanism)
        best = _best_of_bits(a, b, before)
        right = matched(_bit_matrix(a, b, k), before) if k <= _LARGEST_LISTED else None
    else:
        raise ParameterError(
            "mechanism", mechanism, "has neither a matrix nor independent bits for a channel"
        )
    largest = float(before.max())
    growth = math.expm1(mechanism.epsilon)
    limit = (1 + growth) * largest / (1 + growth * largest)
    return Guess(
        best=best,
        blind=largest,
        limit=limit,
        matched=right,
        prior=before,
        labels=tuple(mechanism.labels),
    )


def matched(matrix: _Floats, prior: _Floats) -> _Floats:
    """For each value v, sum over u of P[u, v] P(v | u): how often an observer who draws from the
    posterior is right."""
    joint = matrix * prior
    reported = joint.sum(axis=1, keepdims=True)
    after = np.divide(joint, reported, out=np.zeros_like(joint), where=reported > 0)
    return np.asarray((matrix * after).sum(axis=0))


def check_prior(prior: Any, k: int) -> _Floats:
    """The prior as k probabilities; without one, all the same."""
    if prior is None:
        return np.full(k, 1 / k)
    try:
        given = np.asarray(prior, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError("prior", type(prior).__name__, f"must be {k} probabilities") from None
    if given.shape != (k,):
        raise ParameterError(
            "prior.shape", given.shape, f"must be ({k},): one probability per label"
        )
    if not np.all(given >= 0) or abs(given.sum() - 1) > 1e-9:
        raise ParameterError(
            "sum(prior)", float(given.sum()), "must be 1, and no entry may be negative"
        )
    return given


def _best_of_bits(a: float, b: float, prior: _Floats) -> float:
    descending = np.sort(prior)[::-1]
    odds = a * (1 - b) / (b * (1 - a))
    # Relative to a person with none of the values, whose bits are all 1 with probability b, a
    # report is this much likelier under a value that it does not support; `odds` times that under
    # one it does.
    unsupported = (1 - a) / (1 - b)
    # the most probable of the supported values is the j-th
    first = b * (1 - b) ** np.arange(prior.size)
    worth = np.maximum(descending[0], odds * descending)
    return float(unsupported * (first @ worth + (1 - b) ** prior.size * descending[0]))


def _bit_matrix(a: float, b: float, k: int) -> _Floats:
    """P(report | value) of all 2^k reports of independent bits."""
    bits = (np.arange(1 << k)[:, np.newaxis] >> np.arange(k)) & 1
    absent = np.where(bits, b, 1 - b)
    change = np.where(bits, a / b, (1 - a) / (1 - b))
    return np.asarray(absent.prod(axis=1, keepdims=True) * change)
