"""Logistic regression of a randomized answer on covariates that were not randomized."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import FitError, NoReportsError, ParameterError
from deniable.estimation.intervals import check_confidence, p_text
from deniable.estimation.likelihood import Randomizer, likelihoods
from deniable.results import Result

__all__ = ["Regression", "regress"]

_Floats = NDArray[np.float64]
_LEAST_INFORMATION = 1e-3
"""Below this the standard error is above 30, in log-odds for a typical covariate: the maximum lies at infinity."""


@dataclass(frozen=True, eq=False)
class Regression(Result):
    """Fitted log-odds of each answer against the first one, as linear functions of the covariates."""

    labels: tuple[Hashable, ...]
    """The answers; the first is the one the others are compared with."""
    names: tuple[str, ...]
    """Of the columns: the intercept, if there is one, and the covariates."""
    coefficients: _Floats
    """One row an answer but the first, one column a covariate."""
    covariance: _Floats
    """Of the coefficients, row after row: the inverse of the observed information."""
    log_likelihood: float
    """Of the reports given the covariates, up to a constant of the mechanism."""
    n: int
    intercept: bool
    mechanism: str
    epsilon: float

    @property
    def stderr(self) -> _Floats:
        """Standard error of each coefficient."""
        return np.sqrt(np.diagonal(self.covariance)).reshape(self.coefficients.shape)

    @property
    def z(self) -> _Floats:
        """The coefficients in standard errors."""
        return self.coefficients / self.stderr

    @property
    def p_value(self) -> _Floats:
        """How probable so large a coefficient would be if the covariate made no difference (two-sided, Wald)."""
        from scipy.special import ndtr  # noqa: PLC0415 - slow to import

        return np.asarray(2 * ndtr(-np.abs(self.z)))

    def interval(self, confidence: float = 0.95) -> _Floats:
        """Low and high of each coefficient, along the last axis."""
        from scipy.special import ndtri  # noqa: PLC0415 - slow to import

        reach = ndtri((1 + check_confidence(confidence)) / 2) * self.stderr
        return np.stack([self.coefficients - reach, self.coefficients + reach], axis=-1)

    def predict(self, covariates: Any) -> _Floats:
        """P(true answer | covariates): one row a person, one column an answer."""
        names, columns = _columns(covariates, self.names[1:] if self.intercept else self.names)
        if len(names) != len(self.names) - self.intercept:
            raise ParameterError("covariates", len(names), f"is their number, which must be {len(self.names) - self.intercept}")
        return _softmax(_design(columns, self.intercept) @ self.coefficients.T)

    def __str__(self) -> str:
        name_width = max(map(len, self.names))
        lines = []
        for label, row in zip(self.labels[1:], range(len(self.coefficients)), strict=True):
            lines.append(f"log-odds of {label} against {self.labels[0]}")
            for name, value, error, z, p in zip(
                self.names, self.coefficients[row], self.stderr[row], self.z[row], self.p_value[row], strict=True
            ):
                lines.append(f"  {name:<{name_width}}  {value:+9.4f} ± {1.96 * error:.4f}   z = {z:+.2f}   {p_text(p)}")
        lines.append(
            f"{self.n:,} reports; epsilon {self.epsilon:.4g} per report; log-likelihood {self.log_likelihood:.2f}; ± covers 95 %"
        )
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Regression of {len(self.labels)} answers on {len(self.names)} columns, {self.n:,} reports>"


def regress(
    mechanism: Randomizer,
    reports: Any,
    covariates: Any,
    *,
    intercept: bool = True,
    names: Sequence[str] | None = None,
    max_iterations: int = 100,
) -> Regression:
    """How the true answer depends on covariates, from randomized answers: maximum likelihood with standard errors.

    The model: P(answer v | x) = exp(x'beta_v) / sum over w of exp(x'beta_w), beta of the first label being 0 (with two
    labels, logistic regression), and P(report u | x) = sum over v of P[u, v] P(answer v | x). For a yes/no answer, P(yes
    reported | x) = b + (a - b) / (1 + exp(-x'beta)). Assumptions: the covariates are known as they are, the answers given
    them independent. `covariates` is an array with one row a report, or a DataFrame, whose column names are kept.

    Newton's method on the likelihood, with steps halved until it rises. With the answers' probabilities pi given x and w
    given x and the report, its gradient is sum of (w - pi) x' and the observed information sum of (V(pi) - V(w)) ⊗ x x', V(q)
    = diag(q) - q q': what would be known from the answers less what the coins hide (Louis 1982). Standard errors come from
    that information. The likelihood need not have one maximum only; the search starts where the covariates make no
    difference. Van den Hout, van der Heijden and Gilchrist, "The logistic regression model with response variables
    subject to randomized response", Computational Statistics & Data Analysis 2007.

    >>> from deniable import BinaryResponse, seeded_source
    >>> survey, rng = BinaryResponse.from_epsilon(2.0), np.random.default_rng(1)
    >>> age = rng.uniform(-2, 2, 2_000)
    >>> truth = rng.random(2_000) < 1 / (1 + np.exp(1 - 0.8 * age))
    >>> print(regress(survey, survey.privatize(truth, seeded_source(1)), age, names=["age"]))
    log-odds of 1 against 0
      (intercept)    -1.0071 ± 0.1700   z = -11.61   p < 1e-16
      age            +0.8723 ± 0.1563   z = +10.94   p < 1e-16
    2,000 reports; epsilon 2 per report; log-likelihood -1208.71; ± covers 95 %
    """
    likelihood = likelihoods(mechanism, reports)
    if not len(likelihood):
        raise NoReportsError("there are no reports, so there is nothing to regress")
    found, columns = _columns(covariates, names)
    if len(columns) != len(likelihood):
        raise ParameterError(
            "covariates", len(columns), f"is their number of rows, which must be that of the reports, {len(likelihood)}"
        )
    design = _design(columns, intercept)
    all_names = ("(intercept)", *found) if intercept else found
    _check_rank(design, all_names)
    scale = np.sqrt((design**2).mean(axis=0))
    beta, value = _maximise(likelihood, design / scale, intercept, max_iterations)
    information = _information(*_both(likelihood, design / scale, beta), design / scale)
    if np.linalg.eigvalsh(information)[0] < _LEAST_INFORMATION:
        raise FitError(
            "the likelihood has no maximum at finite coefficients: some answer is certain, or absent, for some covariates. "
            "Leave out the covariate or merge the labels that cause it, or collect more reports"
        )
    rescale = np.tile(scale, len(beta))
    return Regression(
        labels=tuple(mechanism.labels),
        names=all_names,
        coefficients=beta / scale,
        covariance=np.linalg.inv(information) / np.outer(rescale, rescale),
        log_likelihood=value,
        n=len(likelihood),
        intercept=intercept,
        mechanism=type(mechanism).__name__,
        epsilon=mechanism.epsilon,
    )


def _maximise(likelihood: _Floats, design: _Floats, intercept: bool, max_iterations: int) -> tuple[_Floats, float]:
    beta = np.zeros((likelihood.shape[1] - 1, design.shape[1]))
    if intercept:
        shares = _shares(likelihood)
        beta[:, 0] = np.log(shares[1:] / shares[0]) / np.abs(design[0, 0])
    value = _log_likelihood(likelihood, design, beta)
    for _ in range(max_iterations):
        prior, after = _both(likelihood, design, beta)
        gradient = ((after - prior)[:, 1:].T @ design).ravel()
        information = _information(prior, after, design)
        if not _is_definite(information):
            # Far from the maximum the coins may hide more than the answers would tell; squared scores always point upwards.
            scores = ((after - prior)[:, 1:, np.newaxis] * design[:, np.newaxis, :]).reshape(len(design), -1)
            information = scores.T @ scores
        step = np.linalg.lstsq(information, gradient, rcond=None)[0].reshape(beta.shape)
        promised = float(gradient @ step.ravel())  # twice what the likelihood can still rise by, near its maximum
        if promised < 1e-12:
            return beta, value
        for halvings in range(40):
            trial = beta + step / 2**halvings
            risen = _log_likelihood(likelihood, design, trial)
            if risen > value:
                beta, value = trial, risen
                break
        else:
            if promised < 1e-6 + 1e-12 * abs(value):  # what is left is below what the sum of logarithms resolves
                return beta, value
            break
    raise FitError(
        f"the coefficients did not settle within {max_iterations} steps: most likely the likelihood has no maximum, because the "
        "reports fit a certain answer best for some covariates. Leave out covariates or merge labels, or collect more reports"
    )


def _shares(likelihood: _Floats) -> _Floats:
    """The answers' shares whatever the covariates, by some steps of EM: inside the simplex, which is all that a start needs."""
    shares = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(10):
        posterior = likelihood * shares
        shares = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(np.maximum(shares, 1e-3))


def _softmax(logits: _Floats) -> _Floats:
    """Probabilities, from log-odds against the first label, which is not among the columns."""
    full = np.hstack([np.zeros((len(logits), 1)), logits])
    full = np.exp(full - full.max(axis=1, keepdims=True))
    return np.asarray(full / full.sum(axis=1, keepdims=True))


def _log_likelihood(likelihood: _Floats, design: _Floats, beta: _Floats) -> float:
    return float(np.log((likelihood * _softmax(design @ beta.T)).sum(axis=1)).sum())


def _both(likelihood: _Floats, design: _Floats, beta: _Floats) -> tuple[_Floats, _Floats]:
    """The answers' probabilities without and with the report."""
    prior = _softmax(design @ beta.T)
    joint = likelihood * prior
    return prior, joint / joint.sum(axis=1, keepdims=True)


def _information(prior: _Floats, posterior: _Floats, design: _Floats) -> _Floats:
    answers, columns = prior.shape[1] - 1, design.shape[1]
    total = np.empty((answers, columns, answers, columns))
    for u in range(answers):
        for v in range(u, answers):
            weight = posterior[:, u + 1] * posterior[:, v + 1] - prior[:, u + 1] * prior[:, v + 1]
            if u == v:
                weight += prior[:, u + 1] - posterior[:, u + 1]
            block = design.T @ (design * weight[:, np.newaxis])
            total[u, :, v, :] = block
            total[v, :, u, :] = block.T
    return total.reshape(answers * columns, answers * columns)


def _is_definite(information: _Floats) -> bool:
    weights = np.linalg.eigvalsh(information)
    return bool(weights[0] > 1e-8 * max(weights[-1], 1.0))


def _columns(covariates: Any, names: Sequence[str] | None) -> tuple[tuple[str, ...], _Floats]:
    """The covariates' names and a matrix of them, one row a person."""
    given = getattr(covariates, "columns", None)
    found = None if given is None else [str(name) for name in given]
    try:
        matrix = np.asarray(covariates.to_numpy() if hasattr(covariates, "to_numpy") else covariates, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(
            "covariates", type(covariates).__name__, "must hold numbers only; code categories as 0 and 1"
        ) from None
    if matrix.ndim == 1:
        matrix = matrix[:, np.newaxis]
    if matrix.ndim != 2:
        raise ParameterError("covariates", matrix.shape, "is their shape, which must be rows of people and columns of covariates")
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        raise ParameterError("covariates", int(bad.argmax()), "is the first row with a missing or infinite entry")
    if names is None:
        names = [f"x{i + 1}" for i in range(matrix.shape[1])] if found is None else found
    if isinstance(names, str) or len(names) != matrix.shape[1]:
        raise ParameterError("names", list(names), f"must be as many as the covariates, {matrix.shape[1]}")
    return tuple(names), matrix


def _design(columns: _Floats, intercept: bool) -> _Floats:
    return np.hstack([np.ones((len(columns), 1)), columns]) if intercept else columns


def _check_rank(design: _Floats, names: Sequence[str]) -> None:
    """Refuse covariates of which one follows from the others, and say which."""
    norms = np.sqrt((design**2).sum(axis=0))
    for j, name in enumerate(names):
        if norms[j] == 0:
            raise FitError(f"covariate {name!r} is 0 for everybody")
        unit = design[:, :j] / norms[:j]
        column = design[:, j] / norms[j]
        rest = column - unit @ np.linalg.lstsq(unit, column, rcond=None)[0] if j else column
        if math.sqrt(float(rest @ rest)) < 1e-8:
            raise FitError(f"covariate {name!r} is a linear combination of {', '.join(map(repr, names[:j]))}: leave it out")
