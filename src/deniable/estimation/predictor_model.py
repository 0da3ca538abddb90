"""The likelihood of an outcome that depends on randomized answers as well as on covariates: summed over the true answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.answer_models import softmax
from deniable.estimation.fitting import Model

__all__ = ["PredictorModel", "combinations"]

_Floats = NDArray[np.float64]
_MOST_REPORTS = 64


def combinations(likelihoods: list[_Floats]) -> tuple[_Floats, list[tuple[int, ...]]]:
    """P(reports | all true answers), one column per combination of answers; and the combinations."""
    joint = np.ones((len(likelihoods[0]), 1))
    for likelihood in likelihoods:
        joint = (joint[:, :, None] * likelihood[:, None, :]).reshape(len(joint), -1)
    return joint, list(product(*(range(likelihood.shape[1]) for likelihood in likelihoods)))


@dataclass(frozen=True, eq=False)
class PredictorModel:
    """P(reports, outcome report | w) = sum over z of P(z | w) P(reports | z) sum over v of P(outcome report | v) P(v | z, w).

    z is the combination of the true answers that predict, v the true outcome. P(v | z, w) is a multinomial logit in x(z, w): w
    and an indicator of each answer but the first of every predictor. P(z | w) is a multinomial logit in w, so that predictors
    may depend on the covariates. The parameters are the outcome's coefficients, then those of the predictors.
    """

    outcome: _Floats
    """P(outcome report | v), one row per person."""
    predictors: _Floats
    """P(reports | z), one column per combination."""
    covariates: _Floats
    """w with its column of ones."""
    indicators: _Floats
    """One row per combination, one column per answer but the first of every predictor."""
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

    def start(self) -> _Floats:
        """No effects and equally frequent combinations, slightly shifted, because that point is a saddle."""
        beta = np.zeros((self.outcome.shape[1] - 1, self.columns))
        beta[:, self.covariates.shape[1] :] = 0.1
        return np.concatenate([beta.ravel(), np.zeros((self.predictors.shape[1] - 1) * self.covariates.shape[1])])

    def evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        width = self.covariates.shape[1]
        beta = parameters[: self.n_outcome].reshape(-1, self.columns)
        alpha = parameters[self.n_outcome :].reshape(-1, width)
        prior = softmax(self.covariates @ alpha.T)
        base = self.covariates @ beta[:, :width].T
        shift = self.indicators @ beta[:, width:].T  # one row per combination
        given = [softmax(base + row) for row in shift]
        reported = np.stack([(self.outcome * chances).sum(axis=1) for chances in given], axis=1)
        joint = self.predictors * prior * reported
        total = joint.sum(axis=1)
        posterior = joint / total[:, None]
        scores = np.zeros((len(total), beta.shape[0], self.columns))
        for z, chances in enumerate(given):
            after = self.outcome * chances / np.maximum(reported[:, z : z + 1], 1e-300)
            gap = posterior[:, z : z + 1] * (after - chances)[:, 1:]
            scores[:, :, :width] += gap[:, :, None] * self.covariates[:, None, :]
            scores[:, :, width:] += gap[:, :, None] * self.indicators[z]
        of_predictors = (posterior - prior)[:, 1:, None] * self.covariates[:, None, :]
        return np.log(total), np.hstack([scores.reshape(len(total), -1), of_predictors.reshape(len(total), -1)])

    def information(self, parameters: _Floats, weights: _Floats | None) -> None:
        return None

    def alternatives(self) -> Iterator[Model] | None:
        if self.channels is None or len(self.channels[0]) * len(self.channels[1]) > _MOST_REPORTS:
            return None
        n = len(self.covariates)

        def one(row: _Floats) -> _Floats:
            return np.broadcast_to(row, (n, row.size))

        return (replace(self, outcome=one(u), predictors=one(z)) for u, z in product(*self.channels))
