"""Maximum likelihood for the regressions: Newton's method on people's scores, and three kinds of
information."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.errors import FitError

__all__ = [
    "Model",
    "expected_information",
    "is_definite",
    "maximise",
    "observed_information",
    "score_information",
]

_Floats = NDArray[np.float64]
_STEP = 1e-5
"""Step of a central difference of scores, whose error is of the order of its square."""
_HALVINGS = 40


class Model(Protocol):
    """A likelihood, one term per unit: a person, or a cluster of people with something in
    common."""

    def evaluate(self, parameters: _Floats) -> tuple[_Floats, _Floats]:
        """The logarithm of each unit's likelihood, and its gradient by the parameters: one row per
        unit.

        -inf in the first where the parameters are impossible.
        """
        ...

    def information(self, parameters: _Floats, weights: _Floats | None) -> _Floats | None:
        """The negative second derivative of the weighted sum of log-likelihoods; None to compute it
        by differences."""
        ...

    def alternatives(self) -> Iterator[Model] | None:
        """The same people with every report they might have given, one model each; None if there
        are too many."""
        ...


def maximise(
    model: Model,
    start: _Floats,
    weights: _Floats | None = None,
    free: NDArray[np.bool_] | None = None,
    max_iterations: int = 100,
) -> tuple[_Floats, float]:
    """The parameters at which the weighted log-likelihood is largest, and its value; those that are
    not `free` stay as they are.

    Newton's method, with steps halved until the likelihood rises. Far from the maximum, where the
    information is not positive definite, squared scores replace it: they always point upwards.
    """
    at = start.astype(np.float64)
    free = np.ones(at.size, dtype=bool) if free is None else free
    value, scores = _evaluate(model, at, weights)
    for _ in range(max_iterations):
        gradient = scores.sum(axis=0)[free]
        information = observed_information(model, at, weights)[np.ix_(free, free)]
        if not is_definite(information):
            information = scores[:, free].T @ scores[:, free]
        step = np.linalg.lstsq(information, gradient, rcond=None)[0]
        # twice what the likelihood can still rise by, near its maximum
        promised = float(gradient @ step)
        if promised < 1e-12:
            return at, value
        # Less than 0.003 standard errors are left. If the full step does not climb them, they are
        # below the resolution of a sum of logarithms, or of integrals; shorter ones climb its noise
        settled = promised < 1e-5 + 1e-12 * abs(value)
        for halvings in range(1 if settled else _HALVINGS):
            trial = at.copy()
            trial[free] += step / 2**halvings
            risen, its_scores = _evaluate(model, trial, weights)
            if risen > value:
                at, value, scores = trial, risen, its_scores
                break
        else:
            if settled:
                return at, value
            break
    raise FitError(
        f"the coefficients did not settle within {max_iterations} steps: most likely the likelihood"
        " has no maximum, because the reports fit a certain answer best for some covariates. Drop"
        " covariates, merge labels, or collect more reports"
    )


def _evaluate(model: Model, at: _Floats, weights: _Floats | None) -> tuple[float, _Floats]:
    terms, scores = model.evaluate(at)
    return (
        (float(terms.sum()), scores)
        if weights is None
        else (float(weights @ terms), scores * weights[:, None])
    )


def observed_information(model: Model, at: _Floats, weights: _Floats | None = None) -> _Floats:
    """The negative second derivative of the log-likelihood at these reports."""
    found = model.information(at, weights)
    if found is not None:
        return found
    columns = []
    for place in range(at.size):
        step = np.zeros_like(at)
        step[place] = _STEP * max(1.0, abs(at[place]))
        above, below = (
            _evaluate(model, at + sign * step, weights)[1].sum(axis=0) for sign in (1, -1)
        )
        columns.append((below - above) / (2 * step[place]))
    matrix = np.array(columns)
    return np.asarray((matrix + matrix.T) / 2)


def score_information(model: Model, at: _Floats) -> _Floats:
    """The sum of the squared scores: the outer product of gradients."""
    scores = model.evaluate(at)[1]
    return np.asarray(scores.T @ scores)


def expected_information(model: Model, at: _Floats) -> _Floats | None:
    """The observed information averaged over the reports that the model predicts; None if they are
    too many."""
    alternatives = model.alternatives()
    if alternatives is None:
        return None
    total = np.zeros((at.size, at.size))
    for other in alternatives:
        terms, scores = other.evaluate(at)
        total += (scores * np.exp(terms)[:, None]).T @ scores
    return total


def is_definite(information: _Floats) -> bool:
    """Whether it can be inverted and belongs to a maximum."""
    if not np.all(np.isfinite(information)):
        return False
    weights = np.linalg.eigvalsh(information)
    return bool(weights[0] > 1e-8 * max(weights[-1], 1.0))
