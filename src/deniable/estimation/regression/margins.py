"""What a logistic regression says in probabilities: predictions with intervals, and average effects
of the covariates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.regression.answer_models import softmax
from deniable.estimation.regression.covariates import design_matrix, named_columns
from deniable.estimation.regression.result import Regression
from deniable.estimation.tables.statistic import Statistic

__all__ = ["average_effects", "predicted_probabilities"]

_Floats = NDArray[np.float64]


def predicted_probabilities(fit: Regression, covariates: Any, confidence: float = 0.95) -> _Floats:
    """P(true answer | covariates) with its interval: person, answer, (value, low, high).

    The interval is that of the log-odds of each answer against all others, by the delta method, so
    it stays within 0 and 1.

    >>> from deniable import Warner, regress, seeded_source
    >>> age = np.random.default_rng(1).normal(size=2_000)
    >>> truth = np.random.default_rng(2).random(2_000) < 1 / (1 + np.exp(1 - age))
    >>> survey = Warner(0.9)
    >>> fit = regress(survey, survey.privatize(np.where(truth, "yes", "no"), seeded_source(1)), age)
    >>> predicted_probabilities(fit, np.array([[0.0]]))[0, 1].round(2).tolist()
    [0.26, 0.24, 0.29]
    """
    design, chances = _chances(fit, covariates)
    reach, size = fit.reach(confidence), fit.coefficients.size
    covariance = fit.covariance[:size, :size]
    out = np.empty((*chances.shape, 3))
    for answer in range(chances.shape[1]):
        # d log(P_v/(1 - P_v)) / d beta_w = x (1[v = w] - P_w)/(1 - P_v), as 1[v = w] - P_w is the
        # derivative of log P_v.
        own = chances[:, answer : answer + 1]
        slopes = (np.eye(chances.shape[1])[answer] - chances)[:, 1:] / np.maximum(1 - own, 1e-300)
        gradient = (slopes[:, :, None] * design[:, None, :]).reshape(len(design), -1)
        spread = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gradient, covariance, gradient), 0))
        logit = np.log(own[:, 0]) - np.log1p(-own[:, 0])
        ends = [logit + sign * reach * spread for sign in (0, -1, 1)]
        out[:, answer] = 1 / (1 + np.exp(-np.column_stack(ends)))
    return out


def average_effects(fit: Regression, covariates: Any) -> list[Statistic]:
    """For each answer but the first and each column: by how much P(answer) rises per unit of the
    column, on average over people.

    The mean over people of dP_v/dx_j = P_v (beta_vj - sum over w of P_w beta_wj), with standard
    errors by the delta method for these people.
    """
    design, _ = _chances(fit, covariates)
    size = fit.coefficients.size
    covariance = fit.covariance[:size, :size]
    first = int(fit.intercept)

    def effects(coefficients: _Floats) -> _Floats:
        beta = coefficients.reshape(fit.coefficients.shape)
        chances = softmax(design @ beta.T)[:, 1:]
        mean = chances @ beta[:, first:]
        return np.asarray(
            (chances[:, :, None] * (beta[None, :, first:] - mean[:, None, :])).mean(axis=0).ravel()
        )

    at = fit.coefficients.ravel()
    values = effects(at)
    steps = 1e-5 * np.maximum(np.abs(at), 1e-2)
    slopes = [
        (effects(at + row) - effects(at - row)) / (2 * step)
        for row, step in zip(np.diag(steps), steps, strict=True)
    ]
    gradient = np.array(slopes).T
    errors = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", gradient, covariance, gradient), 0))
    names = [
        f"effect of {name} on P({label})" for label in fit.labels[1:] for name in fit.names[first:]
    ]
    return [
        Statistic(name, float(value), float(error), fit.n)
        for name, value, error in zip(names, values, errors, strict=True)
    ]


def _chances(fit: Regression, covariates: Any) -> tuple[_Floats, _Floats]:
    names, columns = named_columns(covariates, fit.names[1:] if fit.intercept else fit.names, 1)
    if len(names) != len(fit.names) - fit.intercept:
        raise ParameterError(
            "len(covariates)", len(names), f"must be {len(fit.names) - fit.intercept}"
        )
    if not all(math.isfinite(value) for value in fit.coefficients.ravel()):
        raise ParameterError("fit", fit, "has no finite coefficients")
    design = design_matrix(columns, fit.intercept)
    return design, softmax(design @ fit.coefficients.T)
