"""Linear regression in which the outcome, predictors or both were randomized: corrected normal
equations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.display import Display, limits_text, pandas
from deniable.errors import FitError, ParameterError
from deniable.estimation.intervals import p_text
from deniable.estimation.regression.coefficient_tests import CoefficientTest, columns_named
from deniable.estimation.regression.covariates import check_rank, design_matrix, named_columns
from deniable.estimation.regression.result import coefficient_display
from deniable.estimation.surveys.sampling import Sample
from deniable.estimation.tables.guesses import Variable, numeric_variable, predictor_variable
from deniable.estimation.tables.statistic import decimals_for
from deniable.results import Result, encode, fields_of

__all__ = ["LinearRegression", "regress_linear"]

_Floats = NDArray[np.float64]
ERRORS = {"jackknife": "by the jackknife (HC3)", "sandwich": "linearised (sandwich)"}
_LEAST = 0.02
"""Below this fraction of what independent columns would have, the coins leave nothing to
distinguish the columns by."""


@dataclass(frozen=True, eq=False)
class LinearRegression(Result):
    """Coefficients of a linear model, with standard errors that are valid for any error
    distribution."""

    names: tuple[str, ...]
    coefficients: _Floats
    covariance: _Floats
    n: int
    degrees: float
    """Degrees of freedom: people minus coefficients, or clusters minus strata."""
    outcome: str
    epsilon: float
    """Loss of all of a person's randomized answers."""
    errors: str = "jackknife"
    """The kind of standard errors: "jackknife" (HC3), or "sandwich" from clusters and strata."""
    notes: tuple[str, ...] = ()

    @property
    def stderr(self) -> _Floats:
        """Standard error of each coefficient."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def t(self) -> _Floats:
        """The coefficients in standard errors."""
        return self.coefficients / self.stderr

    @property
    def p_value(self) -> _Floats:
        """The probability of a coefficient at least this large if it were 0 (two-sided, Student's
        t)."""
        from scipy.special import stdtr  # noqa: PLC0415 - slow to import

        return np.asarray(2 * stdtr(self.degrees, -np.abs(self.t)))

    def interval(self, confidence: float = 0.95) -> _Floats:
        """One row per coefficient: low and high."""
        reach = self._reach(confidence) * self.stderr
        return np.column_stack([self.coefficients - reach, self.coefficients + reach])

    def _reach(self, confidence: float) -> float:
        from scipy.special import stdtrit  # noqa: PLC0415 - slow to import

        return float(stdtrit(self.degrees, (1 + check_confidence(confidence)) / 2))

    def wald(self, *names: str) -> CoefficientTest:
        """Whether these coefficients are all 0."""
        from scipy.special import fdtrc  # noqa: PLC0415 - slow to import

        places = [self.names.index(name) for name in columns_named(names, self.names)]
        values, q = self.coefficients[places], len(places)
        statistic = float(values @ np.linalg.solve(self.covariance[np.ix_(places, places)], values))
        return CoefficientTest(
            names, statistic, q, float(fdtrc(q, self.degrees, statistic / q)), "Wald"
        )

    def rows(self, confidence: float = 0.95) -> list[dict[str, Any]]:
        """One mapping per coefficient: name, estimate, stderr, t, p_value, low, high."""
        limits = self.interval(confidence)
        columns = {
            "estimate": self.coefficients,
            "stderr": self.stderr,
            "t": self.t,
            "p_value": self.p_value,
            "low": limits[:, 0],
        }
        columns["high"] = limits[:, 1]
        return [
            {"name": name} | {key: float(v[at]) for key, v in columns.items()}
            for at, name in enumerate(self.names)
        ]

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with one row per coefficient."""
        return {
            **fields_of(self),
            "coefficients": encode(self.rows(confidence)),
            "confidence": confidence,
        }

    KEYS: ClassVar[Mapping[str, str]] = {"coefficients": "coefficient_vector"}

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per coefficient."""
        return pandas().DataFrame(self.rows(confidence)).set_index("name")

    def _display(self, confidence: float = 0.95) -> Display:
        return coefficient_display(self.rows(confidence), str(self), "coefficient")

    def __str__(self) -> str:
        width, lines = max(map(len, self.names)), [f"mean of {self.outcome}"]
        limits = self.interval()
        digits = [decimals_for(float(high - low) / 2) for low, high in limits]
        spans = [
            limits_text(ends, places, sign="+") for ends, places in zip(limits, digits, strict=True)
        ]
        wide = max(map(len, spans))
        for name, value, span, places, t, p in zip(
            self.names, self.coefficients, spans, digits, self.t, self.p_value, strict=True
        ):
            lines.append(
                f"  {name:<{width}}  {value:+11,.{places}f}   {span:>{wide}}   t = {t:+.2f}  "
                f" {p_text(p)}"
            )
        loss = "infinite" if math.isinf(self.epsilon) else f"{self.epsilon:.4g}"
        lines.append(
            f"{self.n:,} people; epsilon {loss} per person; intervals cover 95 %, standard errors"
            f" {ERRORS[self.errors]}"
        )
        return "\n".join([*lines, *self.notes])

    def __repr__(self) -> str:
        return (
            f"<LinearRegression of {self.outcome} on {len(self.names)} columns, {self.n:,} people>"
        )


def regress_linear(
    outcome: Any,
    covariates: Any = None,
    *,
    randomized: Mapping[str, Any] | None = None,
    scores: Sequence[float] | Mapping[str, Sequence[float]] | None = None,
    sample: Sample | None = None,
    intercept: bool = True,
    names: Sequence[str] | None = None,
    outcome_name: str = "outcome",
) -> LinearRegression:
    """How the mean of a number depends on covariates and on answers, any of which may be
    randomized.

    `outcome` is a column of numbers, or (mechanism, reports): of a scored answer (two labels count
    as 0 and 1, numeric labels as their values, others by `scores`), or of a number scrambled by
    :class:`~deniable.Scrambling`. `randomized` maps names to (mechanism, reports) of predicting
    answers or numbers, randomized or scrambled. `scores` are those of the outcome, or a mapping
    from names: a predicting answer with scores is one column, not an indicator per label.
    `covariates` are as they are.

    Least squares would solve sum x x' beta = sum x y. For a randomized predictor its unbiased guess
    is used, in the products too: for the indicators r of an answer, sum diag(r) instead of sum e e'
    (the guesses' own products would include the coins' variance and shrink the coefficients). Both
    sides are then unbiased, whatever the error distribution and however the predictors depend on
    each other. Standard errors come from leaving out each person (the jackknife; for plain columns,
    HC3) or, with a `sample`, from clusters and strata. Corrected moments are those of Fuller,
    "Measurement Error Models", 1987.

    >>> from deniable import Warner, seeded_source
    >>> rng, survey = np.random.default_rng(1), Warner(0.8)
    >>> used, age = rng.random(3_000) < 0.3, rng.normal(size=3_000)
    >>> hours = 8 - 2 * used + 0.5 * age + rng.normal(size=3_000)
    >>> reports = survey.privatize(np.where(used, "yes", "no"), seeded_source(1))
    >>> print(regress_linear(hours, age, names=["age"], randomized={"used": (survey, reports)}, outcome_name="hours"))
    mean of hours
      (intercept)      +8.0178   +7.9525 to +8.0832   t = +240.60   p < 1e-16
      age              +0.5299   +0.4658 to +0.5941   t = +16.20   p < 1e-16
      used[yes]         -2.252     -2.465 to -2.039   t = -20.73   p < 1e-16
    3,000 people; epsilon 1.386 per person; intervals cover 95 %, standard errors by the jackknife (HC3)
    """
    given = _scores_by_name(scores, outcome_name, randomized or {})
    target = numeric_variable(outcome_name, outcome, given.get(outcome_name))
    found, columns = named_columns(covariates, names, target.n)
    clear = design_matrix(columns, intercept)
    clear_names = ("(intercept)", *found) if intercept else found
    hidden = [
        predictor_variable(name, pair, given.get(name)) for name, pair in (randomized or {}).items()
    ]
    _check_lengths(
        target.n,
        {
            "covariates": len(clear),
            **{v.names[0]: v.n for v in hidden},
            "sample": target.n if sample is None else sample.n,
        },
    )
    check_rank(clear, clear_names)
    all_names = (*clear_names, *(name for variable in hidden for name in variable.names))
    values, products = _design(clear, hidden)
    weights = np.ones(target.n) if sample is None else sample.weights
    left = np.einsum("i,ijk->jk", weights, products)
    right = (weights[:, None] * values).T @ target.values[:, 0]
    _check_definite(left, all_names)
    coefficients = np.linalg.solve(left, right)
    contributions = values * target.values - products @ coefficients
    if sample is None:
        degrees = float(target.n - len(all_names))
        if degrees < 1:
            raise FitError(f"{target.n} people are too few for {len(all_names)} coefficients")
        contributions = _left_out(products, left, contributions)
        spread = contributions.T @ contributions
    else:
        degrees, spread = sample.effective_degrees, sample.covariance(contributions)
    inverse = np.linalg.inv(left)
    return LinearRegression(
        names=all_names,
        coefficients=coefficients,
        covariance=inverse @ spread @ inverse.T,
        n=target.n,
        degrees=degrees,
        outcome=outcome_name,
        epsilon=target.epsilon + sum(variable.epsilon for variable in hidden),
        errors="jackknife" if sample is None else "sandwich",
        notes=(
            ()
            if sample is None
            else (f"weighted; {sample.effective_degrees:.4g} degrees of freedom",)
        ),
    )


def _design(clear: _Floats, hidden: Sequence[Variable]) -> tuple[_Floats, _Floats]:
    """The columns, or guesses of them, and unbiased guesses of their products: person, column,
    column."""
    values = np.hstack([clear, *(variable.values for variable in hidden)])
    products = values[:, :, None] * values[:, None, :]
    at = clear.shape[1]
    for variable in hidden:
        width = variable.values.shape[1]
        products[:, at : at + width, at : at + width] = variable.products
        at += width
    return values, products


def _left_out(products: _Floats, left: _Floats, contributions: _Floats) -> _Floats:
    """(I - M_i A^-1)^-1 (m_i - M_i beta): A times the change of the coefficients without a person.
    For plain columns, HC3's."""
    leverage = products @ np.linalg.inv(left)
    return np.asarray(
        np.linalg.solve(np.eye(len(left)) - leverage, contributions[:, :, None])[:, :, 0]
    )


def _scores_by_name(
    scores: Sequence[float] | Mapping[str, Sequence[float]] | None,
    outcome: str,
    randomized: Mapping[str, Any],
) -> Mapping[str, Sequence[float]]:
    given = scores if isinstance(scores, Mapping) else {} if scores is None else {outcome: scores}
    unknown = set(given) - {outcome, *randomized}
    if unknown:
        raise ParameterError(
            "scores", sorted(unknown), f"must be of {', '.join([outcome, *randomized])}"
        )
    return given


def _check_lengths(n: int, sizes: Mapping[str, int]) -> None:
    for name, size in sizes.items():
        if size != n:
            raise ParameterError(f"len({name})", size, f"must be that of the outcome, {n}")


def _check_definite(left: _Floats, names: Sequence[str]) -> None:
    """Refuse if the coins' noise has made the matrix of the columns' products singular or
    indefinite."""
    diagonal = np.diagonal(left)
    if diagonal.min() > 0:
        scale = np.sqrt(diagonal)
        if np.linalg.eigvalsh(left / np.outer(scale, scale))[0] > _LEAST / len(names):
            return
    raise FitError(
        f"the reports are too few to distinguish {', '.join(names)}: the coins' noise hides how"
        " they vary. Drop a predictor, merge labels, or collect more reports"
    )
