"""What a curator releases: numbers, histograms and choices with their errors, costs and
protection."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.curator.error_laws import ErrorLaw, NoError
from deniable.curator.law import DiscreteLaplace, choice_shortfall, proportion_limits, sum_reach
from deniable.curator.protection import Protection
from deniable.display import Bar, Display, coverage_text, limits_text, pad, text_width
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.estimate_text import coverage_line
from deniable.estimation.tables.statistic import Statistic, decimals_for
from deniable.results import Result, decode, encode, fields_of

__all__ = ["Choice", "Grouped", "Histogram", "Preview", "Release"]

_Floats = NDArray[np.float64]
_ROWS_SHOWN = 24


@dataclass(frozen=True, eq=False)
class Release(Statistic):
    """A number with noise. Its interval covers the exact one: that of the rows in the table, after
    clamping to the bounds."""

    epsilon: float = math.nan
    """What it cost."""
    protection: Protection = field(default_factory=Protection)
    error: ErrorLaw = field(default_factory=NoError, repr=False)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high, which cover the exact value with at least the given probability."""
        return self.error.limits(self.value, confidence)

    def covers_more(self, confidence: float = 0.95) -> bool:
        """True if there is noise: its law is inverted tail by tail, in whole steps."""
        check_confidence(confidence)
        return self.epsilon > 0

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with an interval."""
        return {**super().to_dict(confidence), **self.protection.terms()}

    def __str__(self) -> str:
        low, high = self.interval(0.95)
        reach = max(high - self.value, self.value - low)
        whole = all(number.is_integer() for number in (low, self.value, high))
        digits = 0 if whole else decimals_for(reach)
        shown = f"{self.value:,.{digits}f}"
        if high > low:
            shown += (
                f", {limits_text((low, high), digits)}"
                f" ({coverage_text(at_least=self.covers_more())})"
            )
        cost = f"epsilon {self.epsilon:.4g}" if self.epsilon else "public"
        return "\n".join([f"{self.name}: {shown}; {cost}, {self.protection}", *self.notes])


@dataclass(frozen=True, eq=False)
class Histogram(Estimate):
    """Proportions from noisy counts; an Estimate like any other, so that it can be compared with
    one from randomized reports.

    The intervals cover the noise, which is the only error: the exact proportions are those of the
    rows in the table.
    """

    noisy_counts: _Floats = field(default_factory=lambda: np.empty(0))
    """Unbiased, and below 0 where the noise is."""
    law: DiscreteLaplace = field(default_factory=lambda: DiscreteLaplace(1.0))
    """Of the noise on each count."""
    protection: Protection = field(default_factory=Protection)
    total: int | None = None
    """The number of rows, where it is public; else the proportions are of the sum of the noisy
    counts."""

    KEYS: ClassVar[Mapping[str, str]] = {"proportions": "estimate", "noisy_counts": "counts"}

    def counts(self, size: int | None = None) -> _Floats:
        """The noisy counts or, given a size, the proportions of it."""
        return self.noisy_counts.copy() if size is None else super().counts(size)

    def count_interval(self, confidence: float = 0.95, *, simultaneous: bool = False) -> _Floats:
        """One row per label: low and high, which cover the exact count with at least the given
        probability."""
        reach = self.law.reach(self._level(confidence, simultaneous))
        return np.column_stack([self.noisy_counts - reach, self.noisy_counts + reach])

    def interval(
        self, confidence: float = 0.95, method: str | None = None, *, simultaneous: bool = False
    ) -> _Floats:
        """One row per label: low and high, which cover the exact proportion with at least the given
        probability.

        There is one method, by the exact law of the noise; after :meth:`consistent` the interval
        still is that of the noisy counts, extended to contain the changed proportion.
        """
        if method is not None:
            raise ParameterError(
                "method", method, "must be None: the law of a curator's noise is known"
            )
        if self.total is not None:
            limits = self.count_interval(confidence, simultaneous=simultaneous) / self.total
        else:
            noisy, level = self.noisy_counts, self._level(confidence, simultaneous)
            limits = proportion_limits(noisy, float(noisy.sum()), self.law.scale, noisy.size, level)
        limits[:, 0] = np.minimum(limits[:, 0], self.proportions)
        limits[:, 1] = np.maximum(limits[:, 1], self.proportions)
        return limits

    def covers_more(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """True of every label: the noise is of whole numbers, and its law is inverted tail by
        tail."""
        check_confidence(confidence)
        return np.full(len(self.labels), True)

    def plus_minus(self, confidence: float = 0.95, *, simultaneous: bool = False) -> _Floats:
        """How far the noise reaches to either side of each proportion."""
        level = self._level(confidence, simultaneous)
        if self.total is not None:
            return np.full(self.noisy_counts.size, self.law.reach(level) / self.total)
        k = self.noisy_counts.size
        proportions = np.clip(self.noisy_counts / self.n, 0, 1)
        weights = (
            np.broadcast_to(-proportions[:, np.newaxis], (k, k)) + np.eye(k)
            if k <= 512
            else np.ones((k, 1))
        )
        return (sum_reach(weights, level) * self.stderr * self.n + 0.5) / self.n

    def _level(self, confidence: float, simultaneous: bool) -> float:
        check_confidence(confidence)
        return 1 - (1 - confidence) / self.noisy_counts.size if simultaneous else confidence

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with standard errors and an interval."""
        return {**super().to_dict(confidence), **self.protection.terms()}

    def plot(self, ax: Any = None, *, confidence: float = 0.95, truth: Any = None) -> Any:
        """Draw the proportions as bars with their intervals, the truth as marks where it is given;
        returns matplotlib's axes."""
        axes = super().plot(ax, truth=truth, confidence=confidence)
        axes.set_title(f"{self._size}, epsilon {self.epsilon:.4g} (curator)")
        return axes

    @property
    def _size(self) -> str:
        return f"{self.n:,} rows" if self.total is not None else f"about {self.n:,} rows"

    def privacy_line(self, confidence: float = 0.95) -> str:
        """What it cost, whom it protects, and what the intervals cover."""
        return (
            f"{self._size}; epsilon {self.epsilon:.4g}, {self.protection};"
            f" {coverage_line(self, confidence)}"
        )

    def __str__(self) -> str:
        shown = len(self.labels) if len(self.labels) <= _ROWS_SHOWN else _ROWS_SHOWN - 4
        width = max(text_width(str(label)) for label in self.labels[:shown])
        counts = [f"{count:,.0f}" for count in self.noisy_counts[:shown]]
        spans = [limits_text(limits, 0) for limits in self.count_interval()[:shown]]
        wide, far = max(map(len, counts)), max(map(len, spans))
        rows = [
            f"{pad(str(label), width)}  {count:>{wide}}   {span:>{far}}   {100 * proportion:6.2f} %"
            for label, count, span, proportion in zip(
                self.labels, counts, spans, self.proportions, strict=False
            )
        ]
        more = [] if shown == len(self.labels) else [f"… and {len(self.labels) - shown} more"]
        return "\n".join([*rows, *more, self.privacy_line(), *self.notes])

    def __repr__(self) -> str:
        return f"<Histogram of {len(self.labels)} labels, {self.mechanism}>"


@dataclass(frozen=True, eq=False)
class Choice(Result):
    """A label that was chosen with noise."""

    name: str
    label: Hashable
    epsilon: float
    protection: Protection
    scale: float
    candidates: int

    def shortfall(self, confidence: float = 0.95) -> float:
        """With at least this probability the label has at most so many rows fewer than the most
        frequent one."""
        return choice_shortfall(self.scale, self.candidates, confidence)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with the shortfall."""
        known = {"shortfall": self.shortfall(confidence), "confidence": confidence}
        return {**fields_of(self), **known, **self.protection.terms()}

    def _display(self, confidence: float = 0.95) -> Display:
        short = self.shortfall(confidence)
        rows = [(self.name, self.label, short, self.candidates, self.epsilon)]
        columns = ("name", "label", "rows short at most", "candidates", "epsilon")
        bars = [Bar(f"{self.label}: at most", short)]
        return Display(columns, rows, (str(self),), bars, "rows fewer than the most frequent label")

    def __str__(self) -> str:
        short = f"at most {self.shortfall(0.95):.1f} rows short of the most frequent (95 %)"
        return f"{self.name}: {self.label}, {short}; epsilon {self.epsilon:.4g}, {self.protection}"


@dataclass(frozen=True, eq=False)
class Grouped(Result, Mapping[Hashable, Any]):
    """One result per group. The groups are disjoint, so all together cost as much as one."""

    column: str
    results: dict[Hashable, Any]
    epsilon: float

    def __getitem__(self, key: Hashable) -> Any:
        return self.results[key]

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads."""
        groups = [
            {"group": encode(key), "type": type(result).__name__, **result.to_dict(confidence)}
            for key, result in self.results.items()
        ]
        return {"group_by": self.column, "epsilon": self.epsilon, "groups": groups}

    def _display(self, confidence: float = 0.95) -> Display:
        shown = {key: result._display(confidence) for key, result in self.results.items()}
        first = next(iter(shown.values()))
        rows = [(key, *row) for key, display in shown.items() for row in display.rows]
        bars = [
            bar._replace(label=f"{key}: {bar.label}")
            for key, display in shown.items()
            for bar in display.bars
        ]
        notes = (f"by {self.column}; epsilon {self.epsilon:.4g}, the groups being disjoint",)
        return Display((self.column, *first.columns), rows, notes, bars, first.unit)

    @classmethod
    def _arguments(cls, document: Mapping[str, Any]) -> dict[str, Any]:
        results = {
            decode(Hashable, group["group"]): decode(Result, group) for group in document["groups"]
        }
        return {"column": document["group_by"], "results": results, "epsilon": document["epsilon"]}

    def __str__(self) -> str:
        return "\n".join(
            f"{self.column} = {key}\n  " + str(result).replace("\n", "\n  ")
            for key, result in self.results.items()
        )


@dataclass(frozen=True, eq=False)
class Preview(Result):
    """What a release would cost and how large its error would be. It reads no data, so it costs
    nothing."""

    name: str
    epsilon: float
    """What the release would cost."""
    left: float
    """What would be left of the budget; below 0, it would be refused."""
    protection: Protection
    mechanism: str
    error: ErrorLaw = field(repr=False)
    unit: str = ""
    """What the error is measured in, if not in what is released."""
    bound: bool = False
    """Whether the error depends on the data, and this is the largest it can be."""

    KEYS: ClassVar[Mapping[str, str]] = {"bound": "at_most"}

    @property
    def stderr(self) -> float:
        """The standard error that the release would have."""
        return self.error.stderr

    def plus_minus(self, confidence: float = 0.95) -> float:
        """How far the interval would reach to either side."""
        low, high = self.error.limits(0.0, confidence)
        return max(high, -low)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with the errors to expect."""
        errors = {
            "plus_minus": self.plus_minus(confidence),
            "stderr": encode(self.stderr),
            "confidence": confidence,
        }
        return {**fields_of(self), **errors, **self.protection.terms()}

    def _display(self, confidence: float = 0.95) -> Display:
        reach = self.plus_minus(confidence)
        columns = ("name", "plus_minus", "stderr", "mechanism", "epsilon", "left")
        rows = [(self.name, reach, self.stderr, self.mechanism, self.epsilon, self.left)]
        return Display(
            columns,
            rows,
            tuple(str(self).splitlines()),
            [Bar(self.name, 0.0, -reach, reach)],
            "error to expect",
            0.0,
        )

    def __str__(self) -> str:
        reach = self.plus_minus(0.95)
        digits = 0 if reach.is_integer() else decimals_for(reach)
        most, unit = "at most " if self.bound else "", f" {self.unit}" if self.unit else ""
        cost = (
            f"epsilon {self.epsilon:.4g}, {self.left:.4g} left"
            if self.left >= 0
            else f"epsilon {self.epsilon:.4g}: refused"
        )
        return (
            f"{self.name}: ± {most}{reach:.{digits}f}{unit} (95 %); {cost}\n  {self.mechanism};"
            f" {self.protection}"
        )
