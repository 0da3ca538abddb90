"""Do two ways of asking agree? A randomized estimate against a direct one, with the error of their difference."""

from __future__ import annotations

import math
from dataclasses import dataclass

from deniable.display import Bar, Display
from deniable.estimation.design_estimate import DesignEstimate
from deniable.estimation.intervals import p_text
from deniable.estimation.statistic import normal_reach
from deniable.results import Result

__all__ = ["AgreementTest", "agreement_test"]


@dataclass(frozen=True, eq=False)
class AgreementTest(Result):
    """Whether two samples, asked in different ways, agree: the first estimate minus the second."""

    parameter: str
    first: str
    second: str
    difference: float
    stderr: float

    @property
    def z(self) -> float:
        """The difference in standard errors."""
        return self.difference / self.stderr

    @property
    def p_value(self) -> float:
        """The probability of a difference at least this large in either direction, if both agreed."""
        return math.erfc(abs(self.z) / math.sqrt(2))

    @property
    def p_more(self) -> float:
        """The same for the one-sided question whether the first is *larger*, as for something people tend to hide."""
        return 0.5 * math.erfc(self.z / math.sqrt(2))

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high of the difference."""
        reach = normal_reach(confidence) * self.stderr
        return self.difference - reach, self.difference + reach

    def _display(self, confidence: float = 0.95) -> Display:
        low, high = self.interval(confidence)
        rows = [(self.parameter, self.difference, self.stderr, low, high, self.z, self.p_value)]
        bars = [Bar(f"{self.parameter}: {self.first} less {self.second}", 100 * self.difference, 100 * low, 100 * high)]
        columns = ("parameter", "difference", "stderr", "low", "high", "z", "p")
        return Display(columns, rows, (str(self),), bars, "difference (percentage points)", 0.0)

    def __str__(self) -> str:
        reach = 100 * normal_reach(0.95) * self.stderr
        return (
            f"{self.parameter}: {self.first} less {self.second}: {100 * self.difference:+.2f} % ± {reach:.2f}; "
            f"z = {self.z:+.2f}, {p_text(self.p_value)} for a difference, {p_text(self.p_more)} for more"
        )


def agreement_test(randomized: DesignEstimate, direct: DesignEstimate, parameter: str = "pi") -> AgreementTest:
    """Whether a randomized and a direct question (or any two designs) put to different people give the same estimate.

    If randomizing makes people admit more, the randomized estimate is the larger one ("more is better", which is valid only if
    nobody falsely says yes). z is the difference over the root of the summed variances; with a few hundred people it is normal.

    >>> from deniable import Crosswise, DirectQuestion
    >>> print(agreement_test(Crosswise(1 / 4).estimate_counts(same=198, n=310), DirectQuestion().estimate_counts(yes=7, n=96)))
    pi: Crosswise less DirectQuestion: +14.97 % ± 11.92; z = +2.46, p = 0.0139 for a difference, p = 0.00693 for more
    """
    parts = [(e[parameter], e.design.partition("(")[0]) for e in (randomized, direct)]
    (one, first), (other, second) = parts
    return AgreementTest(parameter, first, second, one.value - other.value, math.hypot(one.stderr, other.stderr))
