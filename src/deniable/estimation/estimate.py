"""What an analyst learns: proportions with honest error bars."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Hashable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import MissingExtraError, ParameterError
from deniable.estimation.simplex import project

__all__ = ["LARGEST_COVARIANCE", "Estimate"]

LARGEST_COVARIANCE = 1024
"""Up to this many labels an Estimate holds the whole covariance matrix; beyond it, the diagonal."""

_Floats = NDArray[np.float64]
_ROWS_SHOWN = 24


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimated proportions of the population, one a label, with the covariance of their errors.

    The proportions are unbiased, so single ones may lie below 0 or above 1: that is what a fair error bar around a small
    share looks like. :meth:`projected` gives a proper distribution, by name.
    """

    labels: tuple[Hashable, ...]
    proportions: _Floats
    variance: _Floats
    """Of each proportion; what `interval` uses."""
    n: int
    """Reports received."""
    covariance: _Floats | None = None
    """Of the proportions, where there are at most `LARGEST_COVARIANCE` of them."""
    population: int | None = None
    """How many people there are, where that is known: the error then vanishes as n approaches it, but for the coins."""
    mechanism: str = ""
    epsilon: float = math.nan
    """Local: what a report tells whoever knows who sent it."""
    sampled_epsilon: float | None = None
    """What it tells whoever does not know who took part."""
    support: tuple[_Floats, _Floats] | None = None
    """P(report supports the label | the label is true) and P(… | it is not), where reports either support a label or do not."""
    window: tuple[Any, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def stderr(self) -> _Floats:
        """Standard error of each proportion."""
        return np.sqrt(self.variance)

    def interval(self, confidence: float = 0.95) -> _Floats:
        """One row a label: low and high, which together cover the true proportion with the given probability."""
        check_confidence(confidence)
        reach = NormalDist().inv_cdf((1 + confidence) / 2) * self.stderr
        return np.column_stack([self.proportions - reach, self.proportions + reach])

    def counts(self, size: int | None = None) -> _Floats:
        """The proportions as numbers of people: of `size`, else of the population, else of those who reported."""
        return self.proportions * (size if size is not None else self.population or self.n)

    def projected(self) -> Estimate:
        """The nearest proper distribution: none negative, sum 1. Biased; the ± stays that of the unbiased estimate."""
        return dataclasses.replace(
            self,
            proportions=project(self.proportions),
            notes=(*self.notes, "projected onto the simplex: biased towards it; ± is that of the unbiased estimate"),
        )

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON."""
        low, high = self.interval(confidence).T
        return {
            "labels": list(self.labels),
            "estimate": self.proportions.tolist(),
            "stderr": self.stderr.tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
            "confidence": confidence,
            "n": self.n,
            "population": self.population,
            "mechanism": self.mechanism,
            "epsilon_local": self.epsilon,
            "epsilon_sampled": self.sampled_epsilon,
            "window": None if self.window is None else [str(edge) for edge in self.window],
            "notes": list(self.notes),
        }

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row a label, with estimate, stderr, low and high."""
        try:
            import pandas as pd  # noqa: PLC0415 - an extra, and slow to import
        except ImportError:
            raise MissingExtraError("pandas", "frames", "to_frame()") from None
        low, high = self.interval(confidence).T
        columns = {"estimate": self.proportions, "stderr": self.stderr, "low": low, "high": high}
        return pd.DataFrame(columns, index=pd.Index(list(self.labels), name="label"))

    def __str__(self) -> str:
        return "\n".join([*_rows(self), _privacy_line(self), *self.notes])

    def __repr__(self) -> str:
        return f"<Estimate of {len(self.labels)} proportions from {self.n:,} reports, {self.mechanism}>"


def check_confidence(confidence: float) -> float:
    """The confidence, if it lies strictly between 0 and 1."""
    if not isinstance(confidence, float | int) or not 0 < confidence < 1:
        raise ParameterError("confidence", confidence, "must lie strictly between 0 and 1")
    return float(confidence)


def check_population(population: int | None, n: int) -> int | None:
    """The population, if it is a whole number that holds all who reported."""
    if population is None:
        return None
    if isinstance(population, bool) or population != int(population) or population < 1:
        raise ParameterError("population", population, "must be a whole number above 0")
    if population < n:
        raise ParameterError("population", population, f"must be at least the number of reports, {n}")
    return int(population)


def _rows(estimate: Estimate) -> list[str]:
    reach = estimate.interval(0.95)[:, 1] - estimate.proportions
    shown = len(estimate.labels) if len(estimate.labels) <= _ROWS_SHOWN else _ROWS_SHOWN - 4
    names = [str(label) for label in estimate.labels[:shown]]
    width = max(len(name) for name in names)
    rows = [
        f"{name:<{width}}  {100 * share:7.2f} % ± {100 * plus_minus:.2f}"
        for name, share, plus_minus in zip(names, estimate.proportions, reach, strict=False)
    ]
    if shown < len(estimate.labels):
        rows.append(f"… and {len(estimate.labels) - shown} more")
    return rows


def _privacy_line(estimate: Estimate) -> str:
    of = "" if estimate.population is None else f" of {estimate.population:,} people"
    sampled = "" if estimate.sampled_epsilon is None else f" (sampled {estimate.sampled_epsilon:.3g})"
    return f"{estimate.n:,} reports{of}; epsilon {estimate.epsilon:.4g}{sampled} a report; ± covers 95 %"
