"""Whether coefficients are 0: the test's result, and the columns that a name stands for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.intervals import p_text
from deniable.results import Result

__all__ = ["CoefficientTest", "columns_named"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CoefficientTest(Result):
    """Whether coefficients are all 0: by twice the drop in log-likelihood without them, or by their
    covariance (Wald)."""

    names: tuple[str, ...]
    statistic: float
    degrees: int
    p_value: float
    """By chi-square; half of that for a standard deviation, which cannot be negative."""
    method: str = "likelihood ratio"

    def __str__(self) -> str:
        degrees = "1 degree" if self.degrees == 1 else f"{self.degrees} degrees"
        return (
            f"{', '.join(self.names)} = 0: {self.method} chi-square {self.statistic:.4g} ({degrees}"
            f" of freedom), {p_text(self.p_value)}"
        )


def columns_named(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of these names; the name of a question or category without an answer means all of
    its columns.

    >>> columns_named(("region",), ("(intercept)", "region[south]", "region[west]"))
    ('region[south]', 'region[west]')
    """
    found = [
        column
        for name in names
        for column in known
        if column == name or column.startswith(f"{name}[")
    ]
    if not names or any(
        not any(column == name or column.startswith(f"{name}[") for column in known)
        for name in names
    ):
        raise ParameterError("names", list(names), f"must be among {', '.join(known)}")
    return tuple(dict.fromkeys(found))
