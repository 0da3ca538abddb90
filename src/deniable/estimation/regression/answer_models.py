"""Likelihoods of randomized answers given covariates: for several labels, and for yes/no answers
with a compliance rate."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

__all__ = ["AnswerModel", "BinaryModel", "binary_terms", "softmax"]

_Floats = NDArray[np.float64]
_MOST_REPORTS = 256
"""The most different reports for which the expected information sums over all of them."""


def softmax(logits: _Floats) -> _Floats:
    """Probabilities from log-odds against the first label, which has no column."""
    full = np.hstack([np.zeros((len(logits), 1)), logits])
    full = np.exp(full - full.max(axis=1, keepdims=True))
    return np.asarray(full / full.sum(axis=1, keepdims=True))


@dataclass(frozen=True, eq=False)
class AnswerModel:
    """Multinomial logit: P(answer v | x) = softmax(x'beta)_v, seen through the coins. The
    parameters are beta, row after row."""

    likelihood: _Floats
    """P(report | value): one row per person, up to a factor."""
    design: _Floats
    channel: _Floats | None = None
    """P[report, value], where reports are numbered."""

    def _both(self, parameters: _Floats) -> tuple[_Floats, _Floats, _Floats]:
        """The probability of each report, and those of the answers without and with it."""
        prior = softmax(self.design @ parameters.reshape(-1, self.design.shape[1]).T)
        joint = self.likelihood * prior
        total = joint.sum(axis=1)
        return total, prior, joint / total[:, None]

    def start(self, intercept: bool) -> _Floats:
        """No covariate effects, and proportions from a few EM steps: inside the simplex, which is
        enough."""
        labels = self.likelihood.shape[1]
        beta = np.zeros((labels - 1, self.design.shape[1]))
        if intercept:
            proportions = np.full(labels, 1 / labels)
            for _ in range(10):
                posterior = self.likelihood * proportions
                proportions = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
            proportions = np.maximum(proportions, 1e-3)
            beta[:, 0] = np.log(proportions[1:] / proportions[0]) / np.abs(self.design[0, 0])
        return beta.ravel()

    def evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        total, prior, after = self._both(parameters)
        scores = (after - prior)[:, 1:, None] * self.design[:, None, :]
        return np.log(total), scores.reshape(len(scores), -1)

    def information(self, parameters: _Floats, weights: _Floats | None) -> _Floats:
        """Sum of (V(pi) - V(w)) ⊗ x x', V(q) = diag(q) - q q'; pi without and w with the report
        (Louis 1982)."""
        _, prior, after = self._both(parameters)
        answers, columns = prior.shape[1] - 1, self.design.shape[1]
        total = np.empty((answers, columns, answers, columns))
        for u in range(answers):
            for v in range(u, answers):
                weight = after[:, u + 1] * after[:, v + 1] - prior[:, u + 1] * prior[:, v + 1]
                if u == v:
                    weight += prior[:, u + 1] - after[:, u + 1]
                if weights is not None:
                    weight *= weights
                block = self.design.T @ (self.design * weight[:, None])
                total[u, :, v, :] = block
                total[v, :, u, :] = block.T
        return total.reshape(answers * columns, answers * columns)

    def alternatives(self) -> Iterator[AnswerModel] | None:
        if self.channel is None or len(self.channel) > _MOST_REPORTS:
            return None
        return (
            replace(self, likelihood=np.broadcast_to(row, (len(self.design), row.size)))
            for row in self.channel
        )


def binary_terms(
    eta: _Floats, yes: _Floats, no: _Floats
) -> tuple[_Floats, _Floats, _Floats, _Floats]:
    """P(report) where the log-odds of "yes" are eta; its first and second derivative by eta; and
    P(yes | eta)."""
    proportion = np.exp(-np.logaddexp(0, -eta))
    gap = yes - no
    slope = gap * proportion * (1 - proportion)
    return no + gap * proportion, slope, slope * (1 - 2 * proportion), proportion


@dataclass(frozen=True, eq=False)
class BinaryModel:
    """Logistic regression of a yes/no answer whose coins depend on a rate: P(report | truth) =
    constant + rate × slope.

    The parameters are beta, and the rate where there is one: of carriers who tell the truth, of
    people who cheat, or of yes to an unrelated question. Like the moment estimates, the rate is not
    confined to 0 to 1: if it leaves that range, chance or another kind of noncompliance is at work.
    """

    design: _Floats
    yes: _Floats
    """Of the report given, if "yes" is true: one row per person, constant and slope."""
    no: _Floats
    has_rate: bool
    other: tuple[_Floats, _Floats] | None = None
    """The same of the report not given."""

    def channels(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        """P(report | yes) and P(report | no) of each person at this rate, the last parameter."""
        rate = parameters[-1] if self.has_rate else 0.0
        return self.yes[:, 0] + rate * self.yes[:, 1], self.no[:, 0] + rate * self.no[:, 1]

    def start(self, intercept: bool) -> _Floats:
        """The best of a grid of intercepts and rates, without covariate effects."""
        tried = (
            [(-2.0, 0.1), (0.0, 0.1)]
            if not intercept
            else [(at, 0.1) for at in (-2.0, -1.0, 0.0, 1.0, 2.0)]
        )
        if self.has_rate:
            tried = [(at, rate) for at, _ in tried for rate in (0.05, 0.25, 0.5, 0.75, 0.95)]
        rows = []
        for at, rate in tried:
            beta = np.zeros(self.design.shape[1])
            if intercept:
                beta[0] = at / abs(self.design[0, 0])
            rows.append(np.append(beta, rate) if self.has_rate else beta)
        return max(rows, key=lambda row: float(self.evaluate(row)[0].sum()))

    def evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        yes, no = self.channels(parameters)
        p, slope, _, proportion = binary_terms(
            self.design @ parameters[: self.design.shape[1]], yes, no
        )
        if p.min() <= 0:
            return np.full(p.size, -np.inf), np.zeros((p.size, parameters.size))
        scores = (slope / p)[:, None] * self.design
        if self.has_rate:
            scores = np.column_stack(
                [scores, (self.no[:, 1] + (self.yes[:, 1] - self.no[:, 1]) * proportion) / p]
            )
        return np.log(p), scores

    def information(self, parameters: _Floats, weights: _Floats | None) -> _Floats:
        yes, no = self.channels(parameters)
        p, slope, curve, proportion = binary_terms(
            self.design @ parameters[: self.design.shape[1]], yes, no
        )
        own = np.ones(p.size) if weights is None else weights
        first = slope / p
        among = self.design.T @ (self.design * (own * (first**2 - curve / p))[:, None])
        if not self.has_rate:
            return np.asarray(among)
        gap = self.yes[:, 1] - self.no[:, 1]
        by_rate = (self.no[:, 1] + gap * proportion) / p
        cross = self.design.T @ (own * (first * by_rate - gap * proportion * (1 - proportion) / p))
        return np.block([[among, cross[:, None]], [cross[None], np.array([[own @ by_rate**2]])]])

    def alternatives(self) -> Iterator[BinaryModel] | None:
        if self.other is None:
            return None
        yes, no = self.other
        return iter((self, replace(self, yes=yes, no=no, other=(self.yes, self.no))))
