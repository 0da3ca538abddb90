"""One number derived from estimated proportions, with its standard error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deniable.checks import check_confidence
from deniable.display import Bar, Display, coverage_text, limits_text, pad, text_width
from deniable.errors import ParameterError
from deniable.estimation.interval_laws import IntervalLaw
from deniable.numerics import normal_quantile
from deniable.results import Result, encode, fields_of

__all__ = [
    "Statistic",
    "aligned_statistics",
    "decimals_for",
    "displayed_statistics",
    "normal_reach",
]


@dataclass(frozen=True, eq=False)
class Statistic(Result):
    """A value with its standard error and an interval.

    >>> mean = Statistic("mean of age", 41.25, 0.5, n=10_000)
    >>> print(mean)
    mean of age: 41.250, 40.270 to 42.230 (95 %, from 10,000 reports)
    """

    name: str
    value: float
    stderr: float
    n: int | None
    """How many reports it was derived from; None if that is private."""
    notes: tuple[str, ...] = ()
    law: IntervalLaw | None = None
    """The law of the interval, if value ± standard errors would not cover."""
    biased: bool = False
    """Whether the value has a bias that the standard error does not include: then no interval
    covers."""

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """An interval that covers the true value with the given probability.

        Refused for a biased value, because an interval around it would not cover as stated.
        """
        if self.biased:
            raise ParameterError(
                self.name, self.value, "is biased, so no interval around it covers as stated"
            )
        if self.law is not None:
            return self.law.interval(confidence)
        reach = normal_reach(confidence) * self.stderr
        return self.value - reach, self.value + reach

    def covers_more(self, confidence: float = 0.95) -> bool:
        """Whether the interval covers at least, not just, as often as stated."""
        return self.law is not None and self.law.covers_more(confidence)

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with an interval; None for the limits of a
        biased value."""
        low, high = (None, None) if self.biased else self.interval(confidence)
        more = self.covers_more(confidence)
        limits = {
            "low": encode(low),
            "high": encode(high),
            "confidence": confidence,
            "covers_more": more,
        }
        return {**fields_of(self), **limits}

    def _display(self, confidence: float = 0.95) -> Display:
        return displayed_statistics([self], self.notes, confidence)

    def _limits(self, confidence: float) -> tuple[float | None, float | None]:
        return (None, None) if self.biased else self.interval(confidence)

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        digits, source = (
            decimals_for(normal_reach(0.95) * self.stderr),
            ("" if self.n is None else f", from {self.n:,} reports"),
        )
        shown = f"{self.name}: {self.value:,.{digits}f}"
        if self.biased:
            line = (
                f"{shown}, standard error {self.stderr:.{digits}f} (biased, so no 95 %"
                f" interval{source})"
            )
        else:
            covers = coverage_text(at_least=self.covers_more())
            line = f"{shown}, {limits_text(self.interval(), digits)} ({covers}{source})"
        return "\n".join([line, *self.notes])


def displayed_statistics(
    statistics: Sequence[Statistic], notes: tuple[str, ...], confidence: float
) -> Display:
    """Several statistics of one result: name, value, standard error and limits of each."""
    rows = [(part.name, part.value, part.stderr, *part._limits(confidence)) for part in statistics]
    bars = [Bar(part.name, part.value, *part._limits(confidence)) for part in statistics]
    texts = [("", "value", f"{100 * confidence:g} % interval")]
    for part in statistics:
        digits = decimals_for(normal_reach(0.95) * part.stderr)
        low, high = part._limits(confidence)
        limits = "biased: none" if low is None or high is None else limits_text((low, high), digits)
        if part.covers_more(confidence):
            limits += f" ({coverage_text(confidence, at_least=True)})"
        texts.append((part.name, f"{part.value:,.{digits}f}", limits))
    return Display(("name", "value", "stderr", "low", "high"), rows, notes, bars, "", texts=texts)


def aligned_statistics(statistics: Sequence[Statistic]) -> list[str]:
    """Several statistics of one result as lines: value and 95 % interval."""
    width = max(text_width(part.name) for part in statistics)
    lines = []
    for part in statistics:
        digits = min(decimals_for(normal_reach(0.95) * part.stderr), 4)
        low, high = part._limits(0.95)
        limits = (
            "biased, so no interval"
            if low is None or high is None
            else limits_text((low, high), digits)
        )
        if part.covers_more():
            limits += f" ({coverage_text(at_least=True)})"
        lines.append(f"{pad(part.name, width)}  {part.value:10,.{digits}f}   {limits}")
    return lines


def normal_reach(confidence: float) -> float:
    """How many standard errors to either side of an estimate cover with the given probability."""
    return normal_quantile((1 + check_confidence(confidence)) / 2)


def decimals_for(reach: float) -> int:
    """Decimals that show three digits of an error, and no more than a float has."""
    return (
        next((digits for digits in range(12) if reach * 10**digits >= 100), 12) if reach > 0 else 3
    )
