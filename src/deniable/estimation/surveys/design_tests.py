"""Tests of a survey design: of a parameter's value, and of whether the design's model fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.display import Bar, Display
from deniable.estimation.intervals import p_text
from deniable.results import Result

__all__ = ["ModelFitTest", "ParameterTest"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ParameterTest(Result):
    """A test of whether a parameter has a given value.

    The score test takes the standard error that the estimate has *if the value is right*, as
    :func:`~deniable.planning.design_power.design_power` does: its size is the stated one and its
    power the promised one. The Wald test takes the estimated standard error.
    """

    name: str
    estimate: float
    value: float
    stderr: float
    null_stderr: float | None = None
    """The standard error if the parameter has the value; None for a Wald test."""

    @property
    def method(self) -> str:
        """The test that `z` and `p_value` are of."""
        return "Wald" if self.null_stderr is None else "score"

    @property
    def z(self) -> float:
        """The distance in standard errors."""
        return self._distance(self.stderr if self.null_stderr is None else self.null_stderr)

    @property
    def p_value(self) -> float:
        """Two-sided."""
        return _two_sided(self.z)

    def _distance(self, stderr: float) -> float:
        gap = self.estimate - self.value
        return gap / stderr if stderr > 0 else math.copysign(math.inf, gap) if gap else 0.0

    def _display(self, confidence: float = 0.95) -> Display:
        rows = [
            (self.name, self.estimate, self.stderr, self.value, self.z, self.p_value, self.method)
        ]
        columns = ("parameter", "estimate", "stderr", "compared with", "z", "p", "test")
        return Display(
            columns, rows, (str(self),), [Bar(self.name, self.estimate)], "estimate", self.value
        )

    def __str__(self) -> str:
        tested = f"z = {self.z:+.2f}, {p_text(self.p_value)} ({self.method} test"
        other = (
            ""
            if self.null_stderr is None
            else f"; Wald: {p_text(_two_sided(self._distance(self.stderr)))}"
        )
        return f"{self.name} = {self.value:g}: estimate {self.estimate:.4g}, {tested}{other})"


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


@dataclass(frozen=True, eq=False)
class ModelFitTest(Result):
    """A chi-square test of whether a design's model fits the answers."""

    name: str
    statistic: float
    degrees: int

    @property
    def p_value(self) -> float:
        """The probability of a chi-square at least this large if the model holds."""
        from scipy.special import chdtrc  # noqa: PLC0415 - slow to import

        return float(chdtrc(self.degrees, self.statistic))

    def _display(self, confidence: float = 0.95) -> Display:
        rows = [(self.name, self.statistic, self.degrees, self.p_value)]
        bars = [Bar("p", self.p_value)]
        return Display(
            ("test", "chi-square", "degrees", "p"), rows, (str(self),), bars, "p", 1 - confidence
        )

    def __str__(self) -> str:
        freedom = "degree" if self.degrees == 1 else "degrees"
        return (
            f"{self.name}: chi-square {self.statistic:.2f} ({self.degrees} {freedom} of freedom),"
            f" {p_text(self.p_value)}"
        )
