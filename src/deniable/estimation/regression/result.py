"""What a regression finds: coefficients with standard errors of a named kind, tests and
intervals."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.display import Bar, Display, coverage_text, limits_text, pandas
from deniable.errors import FitError, ParameterError
from deniable.estimation.intervals import p_text
from deniable.estimation.regression.answer_models import softmax
from deniable.estimation.regression.coefficient_tests import CoefficientTest, columns_named
from deniable.estimation.regression.covariates import design_matrix, named_columns
from deniable.estimation.regression.maximum import ERRORS, RegressionFit
from deniable.estimation.tables.statistic import Statistic
from deniable.numerics import normal_quantile, root
from deniable.results import Result, encode, fields_of

__all__ = [
    "Regression",
]

_Floats = NDArray[np.float64]
_ROUGH = 0.25
"""Standard errors above this, in log-odds for a typical covariate, mean a skewed likelihood: the
interval covers more."""
_ROUGH_REFERENCE = 0.18
"""The same of standard errors at coefficients of 0, which are smaller."""
_VERY_ROUGH = 0.5
"""Estimated standard errors above this mean one even if those at coefficients of 0 are small, as
with rare answers."""


@dataclass(frozen=True, eq=False)
class Regression(Result):
    """Fitted log-odds of each answer against the first one, as linear functions of the
    covariates."""

    labels: tuple[Hashable, ...]
    """The answers; the others are compared with the first."""
    names: tuple[str, ...]
    """Of the columns: the intercept, if there is one, the covariates, and the answers that
    predict."""
    coefficients: _Floats
    """One row per answer but the first, one column per covariate."""
    covariance: _Floats
    """Of the coefficients, row after row, and then of the rates."""
    log_likelihood: float
    """Of the reports given the covariates, up to a constant of the mechanism."""
    n: int
    intercept: bool
    mechanism: str
    epsilon: float
    rates: dict[str, float] = field(default_factory=dict)
    """What else was estimated: t, gamma or u of a design with two samples, sigma of a random
    intercept."""
    errors: str = "observed"
    """The kind of standard errors: "observed", "expected", "scores" or "sandwich"."""
    degrees: float = math.inf
    """Degrees of freedom of the errors, if they come from clusters or strata."""
    notes: tuple[str, ...] = ()
    typical: _Floats | None = None
    """A typical size of each coefficient's covariate: a coefficient times that is a log-odds."""
    reference_error: float | None = None
    """The largest standard error in such log-odds if all coefficients were 0: by the covariates and
    the coins alone."""
    _fit: RegressionFit | None = field(default=None, repr=False)
    """The model with its data, which are not written: a result read from a document has no profile
    intervals."""

    KEYS: ClassVar[Mapping[str, str]] = {"coefficients": "coefficient_matrix"}

    @property
    def stderr(self) -> _Floats:
        """Standard error of each coefficient."""
        return np.sqrt(np.diagonal(self.covariance))[: self.coefficients.size].reshape(
            self.coefficients.shape
        )

    @property
    def z(self) -> _Floats:
        """The coefficients in standard errors."""
        return self.coefficients / self.stderr

    @property
    def p_value(self) -> _Floats:
        """The probability of a coefficient at least this large if the covariate had no effect
        (two-sided, Wald)."""
        from scipy.special import ndtr, stdtr  # noqa: PLC0415 - slow to import

        below = -np.abs(self.z)
        return np.asarray(
            2 * (ndtr(below) if math.isinf(self.degrees) else stdtr(self.degrees, below))
        )

    def reach(self, confidence: float = 0.95) -> float:
        """How many standard errors to either side cover: by the normal law, or Student's with the
        sample's degrees of freedom."""
        from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

        level = (1 + check_confidence(confidence)) / 2
        return (
            normal_quantile(level)
            if math.isinf(self.degrees)
            else float(stdtrit(self.degrees, level))
        )

    @property
    def conservative(self) -> bool:
        """Whether the reports are so few for this model that intervals cover more than nominal, up
        to 99 % in simulations.

        Judged by `reference_error` where that is known: estimated standard errors depend on the
        noise that decides whether an interval contains the truth, and of 300 people with forced
        response, the 7 % of fits with the smallest ones covered 86.5 %.
        """
        if self.typical is None:
            return False
        estimated = float((self.stderr.ravel() * self.typical).max())
        if self.reference_error is None:
            return estimated > _ROUGH
        return self.reference_error > _ROUGH_REFERENCE or estimated > _VERY_ROUGH

    def interval(self, confidence: float = 0.95, method: str = "wald") -> _Floats:
        """Low and high of each coefficient, along the last axis.

        "wald" is the coefficient ± standard errors; "profile" are the values that a
        likelihood-ratio test does not reject, which takes several fits of the model for each. If
        reports are few for the model (`conservative`), the first covers at least nominally, the
        second somewhat less (92 to 95 % for 95 %).
        """
        if method not in {"wald", "profile"}:
            raise ParameterError("method", method, "must be 'wald' or 'profile'")
        if method == "wald":
            reach = self.reach(confidence) * self.stderr
            return np.stack([self.coefficients - reach, self.coefficients + reach], axis=-1)
        flat = [
            self._profile(place, check_confidence(confidence))
            for place in range(self.coefficients.size)
        ]
        return np.array(flat).reshape(*self.coefficients.shape, 2)

    def _profile(self, place: int, confidence: float) -> tuple[float, float]:
        from scipy.special import chdtri  # noqa: PLC0415 - slow to import

        fit = self._likelihood()
        drop = float(chdtri(1, 1 - confidence)) / 2
        centre, step = float(fit.shown()[place]), 2 * math.sqrt(self.covariance[place, place])

        def excess(value: float) -> float:
            return fit.value - fit.constrained({place: value}) - drop

        ends = []
        for sign in (-1, 1):
            far, beyond = centre + sign * step, 0.0
            for _ in range(20):
                try:
                    beyond = excess(far)
                except FitError:
                    far = sign * math.inf
                if beyond > 0 or math.isinf(far):
                    break
                far += sign * step
            if beyond <= 0:  # the data exclude no value on this side, however far
                far = sign * math.inf
            ends.append(
                far
                if math.isinf(far)
                else root(excess, centre, far, -drop, beyond, tolerance=1e-6 * step)
            )
        return ends[0], ends[1]

    def _likelihood(self) -> RegressionFit:
        if self._fit is None or self._fit.sample is not None:
            raise ParameterError(
                "errors",
                self.errors,
                message=(
                    "a weighted or clustered sample has no likelihood: use p_value, interval() or"
                    " wald()"
                ),
            )
        return self._fit

    def rate_interval(self, name: str, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high of one of the `rates`: by profile likelihood; in a weighted sample, ±
        standard errors."""
        rate = self[name]
        if self._fit is None or self._fit.sample is not None:
            reach = self.reach(confidence) * rate.stderr
            return rate.value - reach, rate.value + reach
        low, high = self._profile(
            self.coefficients.size + list(self.rates).index(name), check_confidence(confidence)
        )
        return (max(low, 0.0), high) if name == "sigma" else (low, high)

    def likelihood_ratio(self, *names: str) -> CoefficientTest:
        """Whether the coefficients of these columns are 0, for all answers; "sigma" asks whether
        the intercepts differ at all."""
        from scipy.special import chdtrc  # noqa: PLC0415 - slow to import

        places = self._places(names)
        fit = self._likelihood()
        statistic = max(2 * (fit.value - fit.constrained(dict.fromkeys(places, 0.0))), 0.0)
        p = float(chdtrc(len(places), statistic))
        return CoefficientTest(names, statistic, len(places), p / 2 if names == ("sigma",) else p)

    def wald(self, *names: str) -> CoefficientTest:
        """The same test by the coefficients' covariance alone, which is valid for weighted samples
        too.

        If the errors have degrees of freedom, the statistic is compared with degrees × F.
        """
        from scipy.special import chdtrc, fdtrc  # noqa: PLC0415 - slow to import

        places = self._places(names)
        values = np.append(self.coefficients.ravel(), list(self.rates.values()))[places]
        statistic = float(values @ np.linalg.solve(self.covariance[np.ix_(places, places)], values))
        q = len(places)
        if math.isinf(self.degrees):
            return CoefficientTest(names, statistic, q, float(chdtrc(q, statistic)), "Wald")
        left = max(self.degrees - q + 1, 1)
        return CoefficientTest(
            names, statistic, q, float(fdtrc(q, left, statistic / q * left / self.degrees)), "Wald"
        )

    def _places(self, given: tuple[str, ...]) -> list[int]:
        names = columns_named(given, (*self.names, *(["sigma"] if "sigma" in self.rates else [])))
        if "sigma" in names and len(names) > 1:
            raise ParameterError(
                "names",
                list(given),
                "must test 'sigma' alone: it cannot be negative, and has another distribution",
            )
        if names == ("sigma",):
            return [self.coefficients.size + list(self.rates).index("sigma")]
        width = len(self.names)
        return [
            row * width + self.names.index(name)
            for row in range(len(self.coefficients))
            for name in names
        ]

    def with_errors(self, kind: str) -> Regression:
        """The same with another kind of standard errors."""
        if kind not in ERRORS:
            raise ParameterError("errors", kind, f"must be one of {', '.join(map(repr, ERRORS))}")
        assert self._fit is not None  # noqa: S101 - set by every fit
        size = len(self.covariance)
        return dataclasses.replace(
            self, errors=kind, covariance=self._fit.covariance(kind)[:size, :size]
        )

    def __getitem__(self, name: str) -> Statistic:
        """One of the `rates`, as a value with its standard error."""
        if name not in self.rates:
            raise ParameterError("rate", name, f"must be one of {', '.join(self.rates) or 'none'}")
        place = self.coefficients.size + list(self.rates).index(name)
        return Statistic(name, self.rates[name], math.sqrt(self.covariance[place, place]), self.n)

    def predict(self, covariates: Any) -> _Floats:
        """P(true answer | covariates): one row per person, one column per answer. Answers that
        predict are columns of 0 and 1.

        With a random intercept, for a cluster whose intercept is 0.
        """
        names, columns = named_columns(
            covariates, self.names[1:] if self.intercept else self.names, 1
        )
        if len(names) != len(self.names) - self.intercept:
            raise ParameterError(
                "len(covariates)", len(names), f"must be {len(self.names) - self.intercept}"
            )
        return softmax(design_matrix(columns, self.intercept) @ self.coefficients.T)

    # --- other forms

    def rows(self, confidence: float = 0.95) -> list[dict[str, Any]]:
        """One mapping per coefficient or rate: answer, name, estimate, stderr, low, high, z,
        p_value."""
        limits, out = self.interval(confidence), []
        for at, label in enumerate(self.labels[1:]):
            for column, name in enumerate(self.names):
                low, high = limits[at, column].tolist()
                figures = {
                    "estimate": self.coefficients,
                    "stderr": self.stderr,
                    "z": self.z,
                    "p_value": self.p_value,
                }
                numbers = {key: float(values[at, column]) for key, values in figures.items()}
                out.append(
                    {"answer": str(label), "name": name, **numbers, "low": low, "high": high}
                )
        for name, value in self.rates.items():
            low, high = self.rate_interval(name, confidence)
            rate = {"estimate": value, "stderr": self[name].stderr, "z": None, "p_value": None}
            out.append({"answer": "", "name": name, **rate, "low": low, "high": high})
        return out

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with one row per coefficient."""
        rows = encode(self.rows(confidence))
        return {
            **fields_of(self),
            "reference": str(self.labels[0]),
            "coefficients": rows,
            "confidence": confidence,
        }

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per coefficient, by answer and name."""
        return pandas().DataFrame(self.rows(confidence)).set_index(["answer", "name"])

    def _display(self, confidence: float = 0.95) -> Display:
        return coefficient_display(
            self.rows(confidence), str(self), "log-odds", len(self.labels) > 2
        )

    def __str__(self) -> str:
        width = max(map(len, [*self.names, *self.rates]))
        limits, lines = self.interval(), []
        for row, label in enumerate(self.labels[1:]):
            lines.append(f"log-odds of {label} against {self.labels[0]}")
            spans = [limits_text(ends, 4, sign="+") for ends in limits[row]]
            wide = max(map(len, spans))
            for name, value, span, z, p in zip(
                self.names,
                self.coefficients[row],
                spans,
                self.z[row],
                self.p_value[row],
                strict=True,
            ):
                lines.append(
                    f"  {name:<{width}}  {value:+9.4f}   {span:>{wide}}   z = {z:+.2f}  "
                    f" {p_text(p)}"
                )
        for name, value in self.rates.items():
            low, high = self.rate_interval(name)
            lines.append(f"  {name:<{width}}  {value:9.4f}, {low:.4f} to {high:.4f}")
        loss = "infinite" if math.isinf(self.epsilon) else f"{self.epsilon:.4g}"
        covers = f"intervals cover {coverage_text(at_least=self.conservative)}"
        likelihood = (
            "" if self.errors == "sandwich" else f"log-likelihood {self.log_likelihood:.2f}; "
        )
        lines.append(
            f"{self.n:,} reports; epsilon {loss} per report; {likelihood}{covers}, standard errors"
            f" {ERRORS[self.errors]}"
        )
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return (
            f"<Regression of {len(self.labels)} answers on {len(self.names)} columns, {self.n:,}"
            " reports>"
        )


def coefficient_display(
    found: list[dict[str, Any]], text: str, unit: str, several: bool = False
) -> Display:
    """A table and bars of the coefficients of one or several answers, with the remaining lines of
    `text`."""
    names = [f"{row['answer']}: {row['name']}" if several else row["name"] for row in found]
    bars = [
        Bar(name, row["estimate"], row["low"], row["high"])
        for name, row in zip(names, found, strict=True)
    ]
    notes = tuple(line for line in text.splitlines() if not line.startswith("  "))
    return Display(tuple(found[0]), [tuple(row.values()) for row in found], notes, bars, unit, 0.0)
