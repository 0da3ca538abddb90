"""Do two groups differ? The difference of their proportions, with its error and a test."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.display import Bar, Display, coverage_text, limits_text, pad, text_width
from deniable.estimation.estimate import Estimate
from deniable.estimation.intervals import critical_values, p_text, square_and_add
from deniable.estimation.pooling import check_poolable, welch_satterthwaite
from deniable.results import Result, encode, fields_of

__all__ = ["Comparison", "compare"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Comparison(Result):
    """The first group's proportions minus the second's, with the standard errors."""

    labels: tuple[Hashable, ...]
    difference: _Floats
    variance: _Floats
    degrees: _Floats
    """Degrees of freedom of each variance (Welch and Satterthwaite)."""
    n: tuple[int, int]
    covariance: _Floats | None = None
    alike: _Floats | None = None
    """The covariance of the differences if the groups are alike, in infinite populations."""
    groups: tuple[Estimate, Estimate] | None = None
    """Both estimates, if their reports support labels or do not: then their intervals are
    asymmetric, and so is this one's."""

    @property
    def stderr(self) -> _Floats:
        """Standard error of each difference."""
        return np.sqrt(self.variance)

    @property
    def z(self) -> _Floats:
        """The differences in standard errors."""
        return np.divide(
            self.difference,
            self.stderr,
            out=np.zeros_like(self.difference),
            where=self.variance > 0,
        )

    @property
    def p_value(self) -> _Floats:
        """For each label, the probability of a difference at least this large if the groups were
        alike (two-sided, Student's t)."""
        from scipy.special import ndtr, stdtr  # noqa: PLC0415 - slow to import

        below = np.where(
            np.isinf(self.degrees),
            ndtr(-np.abs(self.z)),
            stdtr(np.clip(self.degrees, 1, 1e10), -np.abs(self.z)),
        )
        return np.asarray(2 * below)

    def interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> _Floats:
        """One row per label: low and high of the difference.

        If the reports of both groups support labels or do not, both groups' intervals are put
        together by square-and-add (Newcombe 1998); otherwise it is the difference ± Student's
        quantile times the standard error.
        """
        degrees = self.degrees if self.groups is None else np.full(self.difference.size, np.inf)
        t = critical_values(check_confidence(confidence), degrees, self.covariance, simultaneous)
        if self.groups is None:
            return np.column_stack(
                [self.difference - t * self.stderr, self.difference + t * self.stderr]
            )
        first, second = ((part.proportions, part._uncut(None, t)) for part in self.groups)
        return square_and_add(
            self.difference, [(1.0, *first), (1.0, -second[0], -second[1][:, ::-1])]
        )

    def covers_more(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """For each label, whether its interval covers at least, not just, as often as stated: if a
        group's does."""
        more = [part.covers_more(confidence) for part in self.groups or ()]
        return np.asarray(np.any([np.zeros(len(self.labels), dtype=bool), *more], axis=0))

    def overall(self) -> tuple[float, int, float]:
        """One test for all labels together: the statistic d' C^+ d, its degrees of freedom q, and
        the p-value.

        C is the covariance that the difference has if the groups are alike: both groups'
        covariances of one report, averaged by their sizes. It is estimated from n reports in all,
        so the statistic is Hotelling's T^2: T^2 (n - 1 - q)/((n - 2) q) has an F distribution with
        q and n - 1 - q degrees of freedom.
        """
        from scipy.special import fdtrc  # noqa: PLC0415 - slow to import

        covariance = self.alike
        if covariance is None:
            covariance = np.diag(self.variance) if self.covariance is None else self.covariance
        weights, directions = np.linalg.eigh(covariance)
        kept = weights > 1e-9 * max(weights[-1], 0.0)
        along = directions[:, kept].T @ self.difference
        statistic, degrees = float((along**2 / weights[kept]).sum()), int(kept.sum())
        left = sum(self.n) - 1 - degrees
        if degrees == 0 or left < 1:
            return statistic, degrees, 1.0
        return (
            statistic,
            degrees,
            float(fdtrc(degrees, left, statistic * left / ((left + degrees - 1) * degrees))),
        )

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with intervals."""
        low, high = self.interval(confidence).T
        limits = {"low": encode(low), "high": encode(high), "confidence": confidence}
        return {**fields_of(self), **limits, "covers_more": self.covers_more(confidence).tolist()}

    def _display(self, confidence: float = 0.95) -> Display:
        limits = self.interval(confidence)
        rows = [
            (str(label), float(d), float(error), float(low), float(high), float(p))
            for label, d, error, (low, high), p in zip(
                self.labels, self.difference, self.stderr, limits, self.p_value, strict=True
            )
        ]
        bars = [Bar(label, 100 * d, 100 * low, 100 * high) for label, d, _, low, high, _ in rows]
        columns = ("label", "difference", "stderr", "low", "high", "p")
        covers = coverage_text(confidence, bool(self.covers_more(confidence).any()))
        notes = (
            (
                f"{self.n[0]:,} against {self.n[1]:,} reports; intervals cover {covers}; p for each"
                " label alone"
            ),
        )
        return Display(columns, rows, notes, bars, "difference (percentage points)", 0.0)

    def __str__(self) -> str:
        names = [str(label) for label in self.labels]
        width = max(map(text_width, names))
        spans = [limits_text(limits, factor=100, sign="+") for limits in self.interval()]
        wide = max(map(len, spans))
        rows = [
            f"{pad(name, width)}  {100 * d:+7.2f} %   {span:>{wide}}   {p_text(p)}"
            for name, d, span, p in zip(names, self.difference, spans, self.p_value, strict=True)
        ]
        return "\n".join([*rows, *self._display().notes])


def compare(first: Estimate, second: Estimate) -> Comparison:
    """The difference between two groups' proportions, first minus second, with a test per label and
    one for all.

    The groups are different people; their mechanisms may differ. The variance is the sum of both,
    so the test accounts for the coins. For finite populations it tests whether these populations
    differ, not the distributions they might come from.

    >>> from deniable import BinaryResponse, seeded_source
    >>> survey, coins = BinaryResponse(p=0.5, q=0.5), seeded_source(8)
    >>> women = survey.estimate(survey.privatize([1] * 600 + [0] * 1_400, coins))
    >>> men = survey.estimate(survey.privatize([1] * 400 + [0] * 1_600, coins))
    >>> print(compare(women, men))
    0    -8.60 %   -14.59 to -2.59   p = 0.00502
    1    +8.60 %   +2.59 to +14.59   p = 0.00502
    2,000 against 2,000 reports; intervals cover 95 %; p for each label alone
    """
    check_poolable([first, second])
    covariance = None
    if first.covariance is not None and second.covariance is not None:
        covariance = first.covariance + second.covariance
    return Comparison(
        labels=first.labels,
        difference=first.proportions - second.proportions,
        variance=first.variance + second.variance,
        degrees=welch_satterthwaite([first.variance, second.variance], [first, second]),
        n=(first.n, second.n),
        covariance=covariance,
        alike=_if_alike(first, second),
        groups=(first, second) if first._has_score and second._has_score else None,
    )


def _if_alike(first: Estimate, second: Estimate) -> _Floats | None:
    """The covariance of the difference of two groups with the same proportions; None where it is
    not known."""
    known = [
        part.covariance is not None and part.population is None and not part.strata
        for part in (first, second)
    ]
    if not all(known) or first.mechanism != second.mechanism or first.epsilon != second.epsilon:
        return None
    assert first.covariance is not None  # noqa: S101 - just seen
    assert second.covariance is not None  # noqa: S101 - just seen
    of_one_report = (first.n**2 * first.covariance + second.n**2 * second.covariance) / (
        first.n + second.n
    )
    return of_one_report * (1 / first.n + 1 / second.n)
