"""Covariates as a matrix with names, from arrays and data frames; collinear ones are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import FitError, ParameterError

__all__ = ["check_rank", "design_matrix", "named_columns"]

_Floats = NDArray[np.float64]


def named_columns(
    covariates: Any, names: Sequence[str] | None, n: int
) -> tuple[tuple[str, ...], _Floats]:
    """The covariates' names and matrix, one row per person; None means no covariates for `n`
    people."""
    if covariates is None:
        covariates = np.zeros((n, 0))
    given = getattr(covariates, "columns", None)
    found = None if given is None else [str(name) for name in given]
    try:
        matrix = np.asarray(
            covariates.to_numpy() if hasattr(covariates, "to_numpy") else covariates,
            dtype=np.float64,
        )
    except (TypeError, ValueError):
        raise ParameterError(
            "covariates",
            type(covariates).__name__,
            "must hold numbers only; code categories as 0 and 1",
        ) from None
    if matrix.ndim == 1:
        matrix = matrix[:, np.newaxis]
    if matrix.ndim != 2:
        raise ParameterError("covariates.shape", matrix.shape, "must be (people, covariates)")
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        raise ParameterError(
            f"covariates[{bad.argmax()}]", "…", "must not have a missing or infinite entry"
        )
    if names is None:
        names = [f"x{i + 1}" for i in range(matrix.shape[1])] if found is None else found
    if isinstance(names, str) or len(names) != matrix.shape[1]:
        raise ParameterError(
            "names", list(names), f"must have one name per covariate, {matrix.shape[1]}"
        )
    return tuple(names), matrix


def design_matrix(columns: _Floats, intercept: bool) -> _Floats:
    """The covariates with a column of ones before them, if there is to be an intercept."""
    return np.hstack([np.ones((len(columns), 1)), columns]) if intercept else columns


def check_rank(design: _Floats, names: Sequence[str]) -> None:
    """Refuse covariates that are linearly dependent, and say which."""
    norms = np.sqrt((design**2).sum(axis=0))
    for j, name in enumerate(names):
        if norms[j] == 0:
            raise FitError(f"covariate {name!r} is 0 for everybody")
        unit = design[:, :j] / norms[:j]
        column = design[:, j] / norms[j]
        rest = column - unit @ np.linalg.lstsq(unit, column, rcond=None)[0] if j else column
        if math.sqrt(float(rest @ rest)) < 1e-8:
            raise FitError(
                f"covariate {name!r} is a linear combination of {', '.join(map(repr, names[:j]))}:"
                " leave it out"
            )
