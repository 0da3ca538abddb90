"""The likelihood of an outcome that depends on randomized answers as well as on covariates: summed
over the true answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.likelihood import bit_pair, likelihoods
from deniable.estimation.regression.answer_models import softmax
from deniable.estimation.regression.fitting import Model

__all__ = [
    "Predictor",
    "PredictorModel",
    "answer_predictor",
    "combinations",
    "joint_basis",
    "joint_channel",
]

_Floats = NDArray[np.float64]
_MOST_REPORTS = 64
_DEGREE = 4
"""Of the polynomial whose exponential is the distribution of a number."""
_BLOCK = 1 << 20
"""How many cells, of people, combinations and labels, are computed at once."""
_MOST_CHOICES = 6
"""The most labels of a multiple choice whose sets are listed."""


@dataclass(frozen=True, eq=False)
class Predictor:
    """One randomized question that predicts: what its reports say about each possible true
    answer."""

    names: tuple[str, ...]
    """Of the columns."""
    likelihood: _Floats
    """P(report | answer), one row per person."""
    columns: _Floats
    """What each answer (row) contributes to the outcome's model."""
    channel: _Floats | None
    """P[report, answer], where reports can be listed."""
    scales: tuple[float, ...] = ()
    """What the columns were divided by."""
    basis: _Floats | None = None
    """For an answer with many ordered values: the functions that its distribution is made from;
    None for any distribution."""


def answer_predictor(name: str, mechanism: Any, reports: Any) -> Predictor:
    """An indicator of each answer but the first; if a person may choose several labels, one of each
    label."""
    if not getattr(mechanism, "exclusive", True):
        return _choices_predictor(name, mechanism, reports)
    channel = mechanism.channel()
    if getattr(mechanism, "numeric", False):
        return _number_predictor(name, mechanism, reports)
    return Predictor(
        tuple(f"{name}[{label}]" for label in mechanism.labels[1:]),
        likelihoods(mechanism, reports),
        np.eye(len(mechanism.labels))[:, 1:],
        channel if isinstance(channel, np.ndarray) else None,
    )


def _number_predictor(name: str, mechanism: Any, reports: Any) -> Predictor:
    """A randomized number: one column with its value, and a smooth distribution, exp of a
    polynomial."""
    values = np.asarray(mechanism.labels, dtype=np.float64)
    scale = float(np.abs(values).max())
    centred = (values - values.mean()) / max(np.ptp(values) / 2, 1e-300)
    basis = np.polynomial.legendre.legvander(centred, min(_DEGREE, values.size - 1))[:, 1:]
    channel = mechanism.channel()
    return Predictor(
        (name,),
        likelihoods(mechanism, reports),
        (values / scale)[:, None],
        channel,
        (scale,),
        basis,
    )


def _choices_predictor(name: str, mechanism: Any, reports: Any) -> Predictor:
    """Multiple choice: the possible answers are sets of labels, and each label's bit has its own
    coin."""
    k = len(mechanism.labels)
    if k > _MOST_CHOICES:
        rule = (
            f"must be at most {_MOST_CHOICES}: take single options, such as"
            f" {name}[{mechanism.labels[0]}]"
        )
        raise ParameterError(f"len({name}.labels)", k, rule)
    a, b = bit_pair(mechanism)
    listed = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1
    sets = mechanism.answer_sets()
    rate = np.where(sets, a, b)  # answer, label
    channel = np.where(listed[:, None, :], rate, 1 - rate).prod(axis=2)
    numbers = mechanism.supports(mechanism.reports(reports).data) @ (1 << np.arange(k))
    names = tuple(f"{name}[{label}]" for label in mechanism.labels)
    return Predictor(names, channel[numbers], sets.astype(np.float64), channel)


def combinations(predictors: Sequence[Predictor]) -> tuple[_Floats, _Floats]:
    """P(reports | all true answers), one column per combination of answers; and the columns of each
    combination."""
    joint, columns = predictors[0].likelihood, predictors[0].columns
    for other in predictors[1:]:
        joint = (joint[:, :, None] * other.likelihood[:, None, :]).reshape(len(joint), -1)
        repeated = np.repeat(columns, len(other.columns), axis=0)
        columns = np.hstack([repeated, np.tile(other.columns, (len(columns), 1))])
    return joint, columns


def joint_basis(predictors: Sequence[Predictor]) -> _Floats | None:
    """The functions of the combinations that P(combination | w) is made from; None for any
    distribution of them.

    All products of functions of single answers, so that the answers may depend on each other. The
    first combination is 0.
    """
    if all(predictor.basis is None for predictor in predictors):
        return None
    joint = np.ones((1, 1))
    for predictor in predictors:
        size = len(predictor.columns)
        own = np.eye(size)[:, 1:] if predictor.basis is None else predictor.basis
        joint = np.asarray(np.kron(joint, np.column_stack([np.ones(size), own])), dtype=np.float64)
    return np.asarray((joint - joint[0])[:, 1:])


def joint_channel(predictors: Sequence[Predictor]) -> _Floats | None:
    """P[combination of reports, combination of answers]; None unless the reports of all predictors
    can be listed."""
    together = np.ones((1, 1))
    for predictor in predictors:
        if predictor.channel is None:
            return None
        together = np.asarray(np.kron(together, predictor.channel), dtype=np.float64)
    return together


@dataclass(frozen=True, eq=False)
class PredictorModel:
    """P(reports, outcome report | w) = sum over z of P(z | w) P(reports | z) sum over v of
    P(outcome report | v) P(v | z, w).

    z is the combination of the true answers that predict, v the true outcome. P(v | z, w) is a
    multinomial logit in x(z, w): w and an indicator of each answer but the first of every
    predictor. P(z | w) is a multinomial logit in w, so that predictors may depend on the
    covariates. The parameters are the outcome's coefficients, then those of the predictors.
    """

    outcome: _Floats
    """P(outcome report | v), one row per person."""
    predictors: _Floats
    """P(reports | z), one column per combination."""
    covariates: _Floats
    """w with its column of ones."""
    indicators: _Floats
    """One row per combination, one column per answer but the first of every predictor."""
    basis: _Floats | None = None
    """One row per combination: P(z | w) has logits linear in these functions of z, instead of one
    per combination."""
    channels: tuple[_Floats, _Floats] | None = None
    """P[outcome report, v] and P[combination of reports, z], where reports are numbered."""

    @property
    def columns(self) -> int:
        """Of x."""
        return int(self.covariates.shape[1] + self.indicators.shape[1])

    @property
    def n_outcome(self) -> int:
        """Coefficients of the outcome."""
        return int(self.outcome.shape[1] - 1) * self.columns

    @property
    def n_functions(self) -> int:
        """How many functions of z have a logit, each with a coefficient per column of w."""
        return int(self.predictors.shape[1] - 1 if self.basis is None else self.basis.shape[1])

    def start(self) -> _Floats:
        """No effects and equally frequent combinations, slightly shifted, because that point is a
        saddle."""
        beta = np.zeros((self.outcome.shape[1] - 1, self.columns))
        beta[:, self.covariates.shape[1] :] = 0.1
        return np.concatenate([beta.ravel(), np.zeros(self.n_functions * self.covariates.shape[1])])

    def evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        width = self.covariates.shape[1]
        beta = parameters[: self.n_outcome].reshape(-1, self.columns)
        alpha = parameters[self.n_outcome :].reshape(-1, width)
        logits = self.covariates @ alpha.T
        prior = softmax(logits if self.basis is None else logits @ self.basis[1:].T)
        log_likelihood, scores, posterior = self._outcome_part(prior, beta)
        gaps = (posterior - prior)[:, 1:]
        gaps = gaps if self.basis is None else gaps @ self.basis[1:]
        of_predictors = gaps[:, :, None] * self.covariates[:, None, :]
        rows = len(log_likelihood)
        return log_likelihood, np.hstack(
            [scores.reshape(rows, -1), of_predictors.reshape(rows, -1)]
        )

    def _outcome_part(self, prior: _Floats, beta: _Floats) -> tuple[_Floats, _Floats, _Floats]:
        """Log-likelihoods, the scores of the outcome's coefficients, and P(z | reports), for blocks
        of people at a time."""
        n, width = self.covariates.shape
        kinds, labels = self.predictors.shape[1], self.outcome.shape[1]
        shift = self.indicators @ beta[:, width:].T  # one row per combination
        total, posterior = np.empty(n), np.empty((n, kinds))
        scores = np.empty((n, labels - 1, self.columns))
        step = max(1, _BLOCK // (kinds * labels))
        for rows in (slice(first, first + step) for first in range(0, n, step)):
            covariates, outcome = self.covariates[rows], self.outcome[rows]
            # person, combination, label but the first
            logits = (covariates @ beta[:, :width].T)[:, None, :] + shift
            chances = softmax(logits.reshape(-1, labels - 1)).reshape(
                len(covariates), kinds, labels
            )
            seen = outcome[:, None, :] * chances
            reported = seen.sum(axis=2)
            joint = self.predictors[rows] * prior[rows] * reported
            total[rows] = joint.sum(axis=1)
            posterior[rows] = joint / total[rows, None]
            after = seen / np.maximum(reported, 1e-300)[:, :, None]
            gap = posterior[rows, :, None] * (after - chances)[:, :, 1:]
            scores[rows, :, :width] = gap.sum(axis=1)[:, :, None] * covariates[:, None, :]
            scores[rows, :, width:] = np.einsum("nkl,kc->nlc", gap, self.indicators)
        return np.log(total), scores, posterior

    def information(self, parameters: _Floats, weights: _Floats | None) -> None:
        return None

    def alternatives(self) -> Iterator[Model] | None:
        if self.channels is None or len(self.channels[0]) * len(self.channels[1]) > _MOST_REPORTS:
            return None
        n = len(self.covariates)

        def one(row: _Floats) -> _Floats:
            return np.broadcast_to(row, (n, row.size))

        return (
            replace(self, outcome=one(u), predictors=one(z)) for u, z in product(*self.channels)
        )
