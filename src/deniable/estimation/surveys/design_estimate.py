"""The estimate of a survey design: parameters with standard errors, from rates of answers in one or
more samples."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.display import Bar, Display, coverage_text, limits_text, pad, pandas, text_width
from deniable.errors import ParameterError
from deniable.estimation.interval_laws import IntervalLaw, ProportionLaw
from deniable.estimation.intervals import critical_values, cut_to_proportions, skewed_reach
from deniable.estimation.surveys.design_tests import ParameterTest
from deniable.estimation.surveys.group_rates import GroupRates
from deniable.estimation.tables.statistic import Statistic, decimals_for, normal_reach
from deniable.results import Result, encode, fields_of

__all__ = [
    "DesignEstimate",
]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DesignEstimate(Result):
    """Estimated parameters of a survey design, with their covariance.

    There are two kinds of standard errors, and `errors` says which is shown: with a divisor of
    "n-1" or "n" for estimates that are linear in the counts ("n" is also what both the observed and
    the expected information give for them), and by the "observed" or the "expected" information for
    maximum likelihood. :meth:`with_errors` switches.
    """

    design: str
    names: tuple[str, ...]
    values: _Floats
    covariances: Mapping[str, _Floats]
    """By kind; the first is shown."""
    n: tuple[int, ...]
    """People in each sample."""
    epsilon: float
    """The loss for people who follow the instruction; infinite if an answer can be conclusive."""
    method: str = "moment"
    notes: tuple[str, ...] = ()
    population: int | None = None
    meanings: Mapping[str, str] = field(default_factory=dict)
    groups: GroupRates | None = None
    proportions: bool = True
    """Whether the parameters are proportions, to be shown as percentages and cut to [0, 1]."""
    shapes: _Floats | None = None
    """Skewness and kurtosis of one person's contribution to each parameter, if far from normal."""
    law: IntervalLaw | None = None
    """Of a single parameter: the law of its interval, if that is neither of the above."""
    degrees: tuple[float, ...] | None = None
    """Degrees of freedom of each variance, for differences of means; by default infinitely many."""

    @classmethod
    def linear(
        cls,
        groups: GroupRates,
        design: str,
        names: tuple[str, ...],
        epsilon: float,
        *,
        notes: tuple[str, ...] = (),
        population: int | None = None,
    ) -> DesignEstimate:
        """The parameters that are linear in the samples' rates, with both kinds of standard
        error."""
        covariances = {kind: groups.covariance(kind, population) for kind in ("n-1", "n")}
        return cls(
            design,
            names,
            groups.values,
            covariances,
            groups.sizes,
            epsilon,
            notes=notes,
            population=population,
            groups=groups,
        )

    @property
    def errors(self) -> str:
        """The kind of standard errors shown."""
        return next(iter(self.covariances))

    @property
    def covariance(self) -> _Floats:
        """Of the parameters."""
        return self.covariances[self.errors]

    @property
    def stderr(self) -> _Floats:
        """Standard error of each parameter."""
        return np.sqrt(np.diagonal(self.covariance))

    def with_errors(self, kind: str) -> DesignEstimate:
        """The same with the other kind of standard errors."""
        if kind not in self.covariances:
            raise ParameterError(
                "errors", kind, f"must be one of {', '.join(map(repr, self.covariances))}"
            )
        first = {kind: self.covariances[kind]}
        return self.replaced(
            covariances=first | {name: c for name, c in self.covariances.items() if name != kind}
        )

    def __getitem__(self, name: str) -> Statistic:
        """One parameter, as a value with its standard error and its interval."""
        at = self._place(name)
        return Statistic(
            name,
            float(self.values[at]),
            float(self.stderr[at]),
            sum(self.n),
            law=ProportionLaw(self, at),
        )

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise ParameterError("parameter", name, f"must be one of {', '.join(self.names)}")
        return self.names.index(name)

    def interval(self, confidence: float = 0.95, method: str | None = None) -> _Floats:
        """One row per parameter: low and high.

        "jeffreys" combines Jeffreys' intervals of the samples' rates (for a ratio, by Fieller's
        theorem) and is cut to [0, 1]. If the design lets a rate come so close to 0 or 1 that no
        interval covers just as stated (see :meth:`covers_more`), that rate's limits are Clopper and
        Pearson's. "wald" is the estimate ± the normal quantile times the standard error, which most
        packages print. The default is the first, if there are rates; for differences of means,
        Student's quantile with Welch and Satterthwaite's degrees of freedom (`degrees`); for skewed
        contributions (`shapes`) the skewness is transformed away, with degrees of freedom by their
        kurtosis (:func:`~deniable.estimation.intervals.skewed_reach`).
        """
        z = normal_reach(confidence)
        if method not in {None, "jeffreys", "wald"}:
            raise ParameterError("method", method, "must be 'jeffreys' or 'wald'")
        if method == "jeffreys" and self.groups is None:
            raise ParameterError(
                "method", method, "needs an estimate from rates of yes; use 'wald' for this one"
            )
        if self.shapes is not None and method is None:
            reach = np.array(
                [
                    skewed_reach(skewness, kurtosis, sum(self.n), confidence)
                    for skewness, kurtosis in self.shapes
                ]
            )
            return self.values[:, None] + reach * self.stderr[:, None]
        if self.law is not None and method is None:
            return cut_to_proportions(np.array([self.law.interval(confidence)]), self.stderr)
        if self.degrees is not None and method is None:
            student = critical_values(confidence, np.array(self.degrees), None, False) * self.stderr
            return np.column_stack([self.values - student, self.values + student])
        if self.groups is None or method == "wald":
            return np.column_stack([self.values - z * self.stderr, self.values + z * self.stderr])
        limits = self.groups.limits(self.values, confidence, self.population)
        return cut_to_proportions(limits, self.stderr) if self.proportions else limits

    def covers_more(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """For each parameter, whether its default interval covers at least, not just, as often as
        stated.

        It depends on the design and the numbers of people, not on their answers.
        """
        normal_reach(confidence)
        rare = self.groups is not None and self.shapes is None and any(self.groups.rare)
        return np.full(len(self.names), rare)

    def test(self, name: str, value: float = 0.0, method: str | None = None) -> ParameterTest:
        """Whether a parameter has the given value: by the score test where there are rates of yes,
        otherwise by Wald's.

        "score" takes the standard error at that value, with the other parameter at its most likely
        value there; "wald" the estimated one. Over 300 people and the unrelated question, Wald's
        test of level 5 % rejects a true null of 5 % in 6.7 % of surveys.

        >>> from deniable import UnrelatedQuestion
        >>> print(UnrelatedQuestion(0.7, 0.25).estimate_counts(yes=31, n=300).test("pi", 0.0))
        pi = 0: estimate 0.04048, z = +1.86, p = 0.0624 (score test; Wald: p = 0.108)
        """
        at = self._place(name)
        if method not in {None, "score", "wald"}:
            raise ParameterError("method", method, "must be 'score' or 'wald'")
        if method == "score" and self.groups is None:
            raise ParameterError(
                "method", method, "needs an estimate from rates of yes; use 'wald' for this one"
            )
        null = (
            None
            if self.groups is None or method == "wald"
            else self.groups.null_stderr(at, float(value), self.population)
        )
        return ParameterTest(
            name, float(self.values[at]), float(value), float(self.stderr[at]), null
        )

    # --- made from another

    def replaced(self, **changes: Any) -> DesignEstimate:
        """The same with some fields changed."""
        return dataclasses.replace(self, **changes)

    def transformed(self, names: tuple[str, ...], matrix: Any, shift: _Floats) -> DesignEstimate:
        """Linear combinations of the parameters: matrix @ values + shift."""
        by = np.asarray(matrix, dtype=np.float64)
        groups = self.groups
        if groups is not None:
            groups = dataclasses.replace(
                groups, weights=by @ groups.weights, shift=by @ groups.shift + shift
            )
        covariances = {
            kind: by @ covariance @ by.T for kind, covariance in self.covariances.items()
        }
        values = by @ self.values + shift
        return self.replaced(
            names=names, values=values, covariances=covariances, groups=groups, degrees=None
        )

    def ratio(self, name: str, numerator: int, denominator: int) -> DesignEstimate:
        """The denominator's parameter, and the numerator's over it, by the delta method.

        If the denominator is not above 0, the ratio has no estimate (NaN), but still an interval:
        all that is possible.
        """
        above, below = float(self.values[numerator]), float(self.values[denominator])
        gradient = np.zeros((2, len(self.names)))
        gradient[0, denominator] = 1
        if below > 0:
            gradient[1, numerator], gradient[1, denominator] = 1 / below, -above / below**2
        groups = self.groups
        if groups is not None:
            order = [denominator, numerator]
            groups = dataclasses.replace(
                groups, weights=groups.weights[order], shift=groups.shift[order], ratio=(1, 0)
            )
        covariances = {
            kind: gradient @ covariance @ gradient.T
            for kind, covariance in self.covariances.items()
        }
        notes = self.notes
        if below <= 0:
            known = np.array([[1.0, math.nan], [math.nan, math.nan]])
            covariances = {kind: covariance * known for kind, covariance in covariances.items()}
            notes = (
                *notes,
                (
                    f"{self.names[denominator]} is estimated at or below 0, so {name} cannot be"
                    " estimated"
                ),
            )
        values = np.array([below, above / below if below > 0 else math.nan])
        names = (self.names[denominator], name)
        return self.replaced(
            names=names, values=values, covariances=covariances, groups=groups, notes=notes
        )

    # --- other forms

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with the standard errors and 95 %
        intervals."""
        low, high = self.interval().T
        limits = {
            "low": encode(low),
            "high": encode(high),
            "confidence": 0.95,
            "covers_more": self.covers_more().tolist(),
        }
        return {**fields_of(self), "stderr": encode(self.stderr), **limits}

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per parameter, with estimate, stderr, low and high."""
        low, high = self.interval(confidence).T
        columns = {"estimate": self.values, "stderr": self.stderr, "low": low, "high": high}
        return pandas().DataFrame(columns, index=list(self.names))

    def _cells(self, confidence: float = 0.95) -> list[tuple[str, str, str, str]]:
        """Name, value, interval and meaning of each parameter, as texts."""
        cells = []
        for name, value, limits in zip(
            self.names, self.values, self.interval(confidence), strict=True
        ):
            if self.proportions:
                shown = "unknown" if math.isnan(value) else f"{100 * value:.2f} %"
                pair = shown, limits_text(limits, factor=100)
            else:
                digits = decimals_for(float(limits[1] - limits[0]) / 2)
                pair = f"{value:,.{digits}f}", limits_text(limits, digits)
            cells.append((name, *pair, self.meanings.get(name, "")))
        return cells

    def _provenance(self, confidence: float = 0.95) -> list[str]:
        people = " + ".join(f"{n:,}" for n in self.n)
        of = "" if self.population is None else f" of {self.population:,}"
        loss = "infinite" if math.isinf(self.epsilon) else f"{self.epsilon:.4g}"
        kind = {"n-1": "by n - 1", "n": "by n", "published": "as published"}.get(
            self.errors, f"by the {self.errors} information"
        )
        covers = coverage_text(confidence, bool(self.covers_more(confidence).any()))
        lines = [
            f"{self.design}: {people} people{of}; epsilon {loss}",
            f"intervals cover {covers}; standard errors {kind}",
        ]
        outside = [
            name
            for name, value in zip(self.names, self.values, strict=True)
            if self.proportions and (value < 0 or value > 1)
        ]
        if outside:
            lines.append(
                f"{' and '.join(outside)} outside 0 to 100 %: chance, or people did not follow the"
                " instructions"
            )
        return [*lines, *self.notes]

    def __str__(self) -> str:
        cells = self._cells()
        widths = [max(text_width(row[column]) for row in cells) for column in range(3)]
        rows = [
            f"{pad(a, widths[0])}  {pad(b, widths[1] + 1, True)}   {pad(c, widths[2], True)}   {d}".rstrip()
            for a, b, c, d in cells
        ]
        return "\n".join([*rows, *self._provenance()])

    def _display(self, confidence: float = 0.95) -> Display:
        limits, factor = self.interval(confidence), 100.0 if self.proportions else 1.0
        rows = [
            (name, float(value), float(error), float(low), float(high))
            for name, value, error, (low, high) in zip(
                self.names, self.values, self.stderr, limits, strict=True
            )
        ]
        bars = [
            Bar(
                f"{name}: {meaning}" if (meaning := self.meanings.get(name)) else name,
                *(factor * x for x in (v, low, high)),
            )
            for name, v, _, low, high in rows
        ]
        texts = [
            ("", "estimate", f"{coverage_text(confidence)} interval", "meaning"),
            *self._cells(confidence),
        ]
        unit, notes = "%" if self.proportions else "", tuple(self._provenance(confidence))
        return Display(
            ("name", "estimate", "stderr", "low", "high"), rows, notes, bars, unit, texts=texts
        )

    def __repr__(self) -> str:
        return f"<DesignEstimate of {', '.join(self.names)} by {self.design}>"
