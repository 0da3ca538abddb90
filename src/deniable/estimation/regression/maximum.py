"""A model at its maximum: its parameters, and their covariance by each kind of standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.errors import FitError, ParameterError
from deniable.estimation.regression.fitting import (
    Model,
    expected_information,
    is_definite,
    maximise,
    observed_information,
    score_information,
)
from deniable.estimation.surveys.sampling import Sample

__all__ = ["ERRORS", "RegressionFit"]

_Floats = NDArray[np.float64]


ERRORS = {
    "observed": "by the observed information",
    "expected": "by the expected information",
    "scores": "by the outer product of scores",
    "sandwich": "linearised (sandwich)",
}
"""The kinds of standard errors, and how they are printed."""


_LEAST_INFORMATION = 1e-3
"""Below this the standard error is above 30, in log-odds for a typical covariate: the maximum lies
at infinity."""


@dataclass(frozen=True, eq=False)
class RegressionFit:
    """A model at its maximum, from which tests and other kinds of standard errors are computed."""

    model: Model
    parameters: _Floats
    """In the model's own scale."""
    scale: _Floats
    """What the model's parameters are divided by for display."""
    value: float
    sample: Sample | None = None

    def shown(self) -> _Floats:
        """The parameters as the result shows them."""
        return self.parameters / self.scale

    def reference_error(self, coefficients: int) -> float | None:
        """The largest standard error of a coefficient, in log-odds for a typical covariate, if all
        were 0; None if not known.

        It follows from the covariates and the coins alone, not from the reports.
        """
        at = np.zeros_like(self.parameters)
        information = expected_information(self.model, at)
        if information is None or not is_definite(information):
            return None
        repeats = 1.0 if self.sample is None else self.sample.n / self.sample.effective_n
        return math.sqrt(
            repeats * float(np.diagonal(np.linalg.inv(information))[:coefficients].max())
        )

    def covariance(self, errors: str) -> _Floats:
        """Of the shown parameters, by one kind of standard errors."""
        inverse = self._inverse(self._information(errors))
        if errors == "sandwich":
            assert self.sample is not None  # noqa: S101 - asked for only where there is one
            inverse = (
                inverse @ self.sample.covariance(self.model.evaluate(self.parameters)[1]) @ inverse
            )
        return np.asarray(inverse / np.outer(self.scale, self.scale))

    def _information(self, errors: str) -> _Floats:
        if (errors == "sandwich") != (self.sample is not None):
            rule = (
                "must be 'sandwich' with weights, strata or clusters"
                if self.sample
                else "needs a sample"
            )
            raise ParameterError("errors", errors, rule)
        if errors in {"observed", "sandwich"}:
            return observed_information(
                self.model, self.parameters, None if self.sample is None else self.sample.weights
            )
        if errors == "scores":
            return score_information(self.model, self.parameters)
        found = expected_information(self.model, self.parameters) if errors == "expected" else None
        if found is None:
            allowed = (
                ERRORS if errors not in ERRORS else [kind for kind in ERRORS if kind != "expected"]
            )
            raise ParameterError(
                "errors", errors, f"must be one of {', '.join(map(repr, allowed))} for this model"
            )
        return found

    def _inverse(self, information: _Floats) -> _Floats:
        average = 1.0 if self.sample is None else float(self.sample.weights.mean())
        if (
            not is_definite(information)
            or np.linalg.eigvalsh(information)[0] < _LEAST_INFORMATION * average
        ):
            raise FitError(
                "the likelihood has no maximum at finite coefficients: some answer is certain, or"
                " absent, for some covariates. Drop the covariate or merge the labels that cause"
                " it, or collect more reports"
            )
        return np.asarray(np.linalg.inv(information))

    def constrained(self, fixed: dict[int, float]) -> float:
        """The largest log-likelihood with some parameters, in the displayed scale, fixed."""
        free = np.ones(self.parameters.size, dtype=bool)
        start = self.parameters.copy()
        for place, value in fixed.items():
            free[place] = False
            start[place] = value * self.scale[place]
        return maximise(self.model, start, None, free)[1]
