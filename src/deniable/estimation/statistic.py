"""One number that was derived from estimated shares, with its standard error."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

from deniable.estimation.intervals import check_confidence

__all__ = ["Statistic", "decimals_for", "normal_reach"]


@dataclass(frozen=True)
class Statistic:
    """A value ± its standard error.

    >>> mean = Statistic("mean of age", 41.25, 0.5, n=10_000)
    >>> print(mean)
    mean of age: 41.250 ± 0.980 (95 %, from 10,000 reports)
    """

    name: str
    value: float
    stderr: float
    n: int | None
    """Reports it was derived from; None where their number is private."""
    notes: tuple[str, ...] = ()

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Low and high, which together cover the true value with the given probability, where the delta method holds."""
        reach = normal_reach(confidence) * self.stderr
        return self.value - reach, self.value + reach

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        low, high = self.interval(confidence)
        return {
            "name": self.name,
            "value": self.value,
            "stderr": self.stderr,
            "low": low,
            "high": high,
            "confidence": confidence,
            "n": self.n,
            "notes": list(self.notes),
        }

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        reach = normal_reach(0.95) * self.stderr
        digits, source = decimals_for(reach), "" if self.n is None else f", from {self.n:,} reports"
        line = f"{self.name}: {self.value:.{digits}f} ± {reach:.{digits}f} (95 %{source})"
        return "\n".join([line, *self.notes])


def normal_reach(confidence: float) -> float:
    """Standard errors to either side of an estimate that together cover with the given probability."""
    return NormalDist().inv_cdf((1 + check_confidence(confidence)) / 2)


def decimals_for(reach: float) -> int:
    """Decimals that show three digits of the ±, and no more than a float has."""
    return next((digits for digits in range(12) if reach * 10**digits >= 100), 12) if reach > 0 else 3
