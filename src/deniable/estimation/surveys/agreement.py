"""Do two ways of asking agree? A randomized estimate against a direct one, with the error of their
difference."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from deniable.display import Bar, Display, coverage_text, limits_text
from deniable.estimation.intervals import p_text
from deniable.estimation.surveys.design_estimate import DesignEstimate
from deniable.estimation.tables.statistic import Statistic, normal_reach
from deniable.results import Result, fields_of

__all__ = ["AgreementTest", "agreement_test"]


@dataclass(frozen=True, eq=False)
class AgreementTest(Result):
    """Whether two samples, asked in different ways, agree: the first estimate minus the second."""

    parameter: str
    first: str
    second: str
    difference: float
    stderr: float
    parts: tuple[Statistic, Statistic] | None = None
    """Both estimates, whose intervals give that of the difference."""

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return self.difference / self.stderr

    @property
    def p_value(self) -> float:
        """The probability of a difference at least this large in either direction, if both
        agreed."""
        return math.erfc(abs(self.z) / math.sqrt(2))

    @property
    def p_more(self) -> float:
        """The same for the one-sided question whether the first is *larger*, as for something
        people tend to hide."""
        return 0.5 * math.erfc(self.z / math.sqrt(2))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high of the difference: both estimates' intervals put together by square-and-add
        (Newcombe 1998)."""
        reach = normal_reach(confidence) * self.stderr
        if self.parts is None:
            return self.difference - reach, self.difference + reach
        first, second = self.parts
        (low, high), (other_low, other_high) = (
            first.interval(confidence),
            second.interval(confidence),
        )
        below = math.hypot(first.value - low, other_high - second.value)
        above = math.hypot(high - first.value, second.value - other_low)
        return self.difference - below, self.difference + above

    def covers_more(self, confidence: float = 0.95) -> bool:
        """Whether the interval covers at least, not just, as often as stated: if that of either
        estimate does."""
        return any(part.covers_more(confidence) for part in self.parts or ())

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Ready for JSON: what :meth:`from_dict` reads, with an interval."""
        low, high = self.interval(confidence)
        limits = {
            "low": low,
            "high": high,
            "confidence": confidence,
            "covers_more": self.covers_more(confidence),
        }
        return {**fields_of(self), **limits}

    def _display(self, confidence: float = 0.95) -> Display:
        low, high = self.interval(confidence)
        rows = [(self.parameter, self.difference, self.stderr, low, high, self.z, self.p_value)]
        bars = [
            Bar(
                f"{self.parameter}: {self.first} less {self.second}",
                100 * self.difference,
                100 * low,
                100 * high,
            )
        ]
        columns = ("parameter", "difference", "stderr", "low", "high", "z", "p")
        return Display(columns, rows, (str(self),), bars, "difference (percentage points)", 0.0)

    def __str__(self) -> str:
        limits = (
            f"{limits_text(self.interval(), factor=100, sign='+')}"
            f" ({coverage_text(at_least=self.covers_more())})"
        )
        return (
            f"{self.parameter}: {self.first} less {self.second}: {100 * self.difference:+.2f} %,"
            f" {limits}; z = {self.z:+.2f}, {p_text(self.p_value)}; for more, {p_text(self.p_more)}"
        )


def agreement_test(
    randomized: DesignEstimate, direct: DesignEstimate, parameter: str = "pi"
) -> AgreementTest:
    """Whether a randomized and a direct question (or any two designs) put to different people give
    the same estimate.

    If randomizing makes people admit more, the randomized estimate is the larger one ("more is
    better", which is valid only if nobody falsely says yes). z is the difference over the root of
    the summed variances; with a few hundred people it is normal.

    >>> from deniable import Crosswise, DirectQuestion
    >>> print(agreement_test(Crosswise(1 / 4).estimate_counts(same=198, n=310), DirectQuestion().estimate_counts(yes=7, n=96)))
    pi: Crosswise less DirectQuestion: +14.97 %, +2.34 to +26.70 (at least 95 %); z = +2.46, p = 0.0139; for more, p = 0.00693
    """
    parts = [(e[parameter], e.design.partition("(")[0]) for e in (randomized, direct)]
    (one, first), (other, second) = parts
    stderr = math.hypot(one.stderr, other.stderr)
    return AgreementTest(parameter, first, second, one.value - other.value, stderr, (one, other))
