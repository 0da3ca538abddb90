"""Multiple imputation: several complete columns of true answers drawn from a fitted model, so that
any analysis can be run.

A column that is drawn says nothing more about a person than the report and the model do; only what
several of them say together, by Rubin's rules, is an estimate. Rubin, "Multiple Imputation for
Nonresponse in Surveys", 1987, chapter 3.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence, whole
from deniable.display import Bar, Display
from deniable.errors import ParameterError
from deniable.estimation.likelihood import ReportLikelihood, likelihoods
from deniable.estimation.regression.answer_models import softmax
from deniable.estimation.regression.covariates import design_matrix, named_columns
from deniable.estimation.regression.logistic import regress
from deniable.results import Result

__all__ = ["ImputedStatistic", "impute_answers", "pool_imputations"]

_Floats = NDArray[np.float64]


def impute_answers(
    mechanism: ReportLikelihood,
    reports: Any,
    covariates: Any = None,
    *,
    times: int = 20,
    seed: int | None = None,
) -> list[NDArray[Any]]:
    """Columns of true answers, drawn `times` times given the reports and the covariates.

    The model is that of :func:`~deniable.regress`. For each column its coefficients are drawn from
    their normal distribution, and each person's answer from P(answer | report, covariates) under
    them, so that the columns differ by as much as is not known. Put into `covariates` whatever the
    analysis relates the answers to: a relation that the model does not have comes out too weak.

    >>> from deniable import Warner, seeded_source
    >>> survey = Warner(0.8)
    >>> reports = survey.privatize(["yes"] * 300 + ["no"] * 700, seeded_source(1))
    >>> columns = impute_answers(survey, reports, times=50, seed=1)
    >>> means = [float((column == "yes").mean()) for column in columns]
    >>> found = pool_imputations(means, [mean * (1 - mean) / 1_000 for mean in means], name="used")
    >>> bool(abs(found.value - 0.3) < 3 * found.stderr)
    True
    """
    whole("times", times, 2)
    fit = regress(mechanism, reports, covariates)
    likelihood = likelihoods(mechanism, reports)
    _, columns = named_columns(covariates, None, len(likelihood))
    design = design_matrix(columns, True)
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_normal(
        fit.coefficients.ravel(), fit.covariance, size=times, method="eigh"
    )
    labels = np.array(mechanism.labels)
    found = []
    for coefficients in drawn:
        joint = likelihood * softmax(design @ coefficients.reshape(fit.coefficients.shape).T)
        below = np.cumsum(joint / joint.sum(axis=1, keepdims=True), axis=1)
        places = (rng.random(len(joint))[:, None] > below[:, :-1]).sum(axis=1)
        found.append(labels[places])
    return found


@dataclass(frozen=True, eq=False)
class ImputedStatistic(Result):
    """A figure pooled over imputations, with the error of the sample and of what was imputed."""

    name: str
    value: float
    stderr: float
    degrees: float
    """Of freedom, by Rubin."""
    missing: float
    """The fraction of the information that the randomization took."""
    times: int

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high, by Student's t."""
        from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

        reach = (
            float(stdtrit(min(self.degrees, 1e10), (1 + check_confidence(confidence)) / 2))
            * self.stderr
        )
        return self.value - reach, self.value + reach

    def _display(self, confidence: float = 0.95) -> Display:
        low, high = self.interval(confidence)
        rows = [(self.name, self.value, self.stderr, low, high)]
        columns = ("name", "estimate", "stderr", "low", "high")
        return Display(
            columns, rows, (str(self),), [Bar(self.name, self.value, low, high)], "estimate"
        )

    def __str__(self) -> str:
        low, high = self.interval()
        return (
            f"{self.name}: {self.value:.4g}, {low:.4g} to {high:.4g} (95 %, {self.times}"
            f" imputations, {100 * self.missing:.0f} % of the information lost to the coins)"
        )


def pool_imputations(
    values: Sequence[float], variances: Sequence[float], name: str = "estimate"
) -> ImputedStatistic:
    """Rubin's rules: the mean of the figures, and W + (1 + 1/m) B, their mean variance and the
    variance between them.

    Degrees of freedom are (m - 1)(1 + W/((1 + 1/m) B))^2.

    >>> print(pool_imputations([0.31, 0.29, 0.33, 0.30], [0.0002] * 4, name="used"))
    used: 0.3075, 0.2516 to 0.3634 (95 %, 4 imputations, 65 % of the information lost to the coins)
    """
    found, within = np.asarray(values, dtype=np.float64), np.asarray(variances, dtype=np.float64)
    if found.ndim != 1 or found.size < 2 or within.shape != found.shape:
        raise ParameterError(
            "values.shape", found.shape, "must be two or more figures, with as many variances"
        )
    if not (np.isfinite(found).all() and np.isfinite(within).all() and within.min() >= 0):
        raise ParameterError(
            "variances", within.tolist(), "must be finite, and no variance may be negative"
        )
    times, mean = found.size, float(within.mean())
    between = float(found.var(ddof=1)) * (1 + 1 / times)
    total = mean + between
    degrees = math.inf if between == 0 else (times - 1) * (1 + mean / between) ** 2
    missing = 0.0 if total == 0 else between / total
    return ImputedStatistic(name, float(found.mean()), math.sqrt(total), degrees, missing, times)
