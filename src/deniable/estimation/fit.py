"""Whether reports can come from a mechanism at all: answers that were never randomized give
impossible estimates.

An estimated proportion may lie below 0 or above 1, but only by so much. If nobody has a label, its
estimate is 0 on average, with a variance from the coins alone; so the probability of an estimate
below 0 can be bounded without knowing the truth. The same applies at 1.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.estimation import em
from deniable.estimation.intervals import p_text
from deniable.results import Result

__all__ = ["FALSE_ALARM", "EdgeVariances", "FitTest", "edge_variances", "fit_test", "misfit"]

_Floats = NDArray[np.float64]
EdgeVariances = tuple[_Floats, _Floats]
"""For each label, the largest variance of one report's contribution if nobody has it, and if
everybody has it."""

FALSE_ALARM = 1e-5
"""The largest probability that an estimate's notes call fitting reports a misfit."""
_TELLING = 1e-3
_LARGEST_FIT = 512


def edge_variances(inverse: _Floats, channel: _Floats) -> EdgeVariances:
    """Of a matrix and its (left) inverse."""
    second = inverse**2 @ channel
    everybody = np.diagonal(second) - 1
    np.fill_diagonal(second, 0)
    return second.max(axis=1), np.maximum(everybody, 0)


def _worst(proportions: _Floats, n: int, edges: EdgeVariances) -> tuple[int, float]:
    """The least plausible label, and a bound on the probability that any looks as bad, whatever the
    truth (Bonferroni)."""
    nobody, everybody = (np.maximum(part, 1e-300) for part in edges)
    outside = np.maximum(
        -proportions / np.sqrt(nobody / n), (proportions - 1) / np.sqrt(everybody / n)
    )
    at = int(outside.argmax())
    return at, min(
        1.0, 2 * proportions.size * 0.5 * math.erfc(max(float(outside[at]), 0.0) / math.sqrt(2))
    )


def misfit(
    labels: Sequence[Hashable], proportions: _Floats, n: int, edges: EdgeVariances | None
) -> tuple[str, ...]:
    """A note for an estimate whose reports cannot come from its mechanism; none if they can.

    It looks at each label once, so that every estimate can afford it.
    """
    if edges is None or n == 0 or not np.any((proportions < 0) | (proportions > 1)):
        return ()
    at, p_value = _worst(proportions, n, edges)
    if p_value > FALSE_ALARM:
        return ()
    return (
        (
            f"THESE REPORTS DO NOT FIT THE MECHANISM: the proportion of {str(labels[at])!r} would"
            " be"
            f" {100 * proportions[at]:.1f} %, which happens by chance with {p_text(p_value)}. Were"
            " they randomized, and with these parameters?"
        ),
    )


class _Mechanism(Protocol):
    @property
    def labels(self) -> tuple[Any, ...]: ...

    def gather(self, reports: Any) -> Any: ...

    def solve(self, counts: Any, n: int) -> Any: ...

    def edge_errors(self) -> EdgeVariances | None: ...

    def channel(self) -> Any: ...


@dataclass(frozen=True, eq=False)
class FitTest(Result):
    """How well reports fit their mechanism."""

    p_value: float
    """The probability of reports at least this bad under the truth that explains them best; an
    upper bound."""
    reason: str
    n: int

    def __str__(self) -> str:
        verdict = "do not fit the mechanism" if self.p_value < 0.01 else "fit the mechanism"
        return f"{self.n:,} reports {verdict}: {self.reason}, {p_text(self.p_value)}"


def fit_test(mechanism: _Mechanism, reports: Any) -> FitTest:
    """Whether these reports can come from the mechanism, under any truth at all.

    Two tests, and twice the smaller p-value. For every label: how far its estimated proportion lies
    outside 0 to 1, relative to the coins' own error (:func:`misfit`, which every estimate runs).
    And for a matrix of up to 512 reports: the likelihood ratio of the observed counts against the
    likeliest distribution, by a chi-square with one degree of freedom less than there are reports,
    which is conservative.

    >>> from deniable import BinaryResponse
    >>> survey = BinaryResponse(p=0.5, q=0.5)
    >>> print(fit_test(survey, survey.reports([0] * 900 + [1] * 100)))  # doctest: +ELLIPSIS
    1,000 reports do not fit the mechanism: the proportion of ... %, p < 1e-16
    """
    tally = mechanism.gather(reports)
    proportions = mechanism.solve(tally.counts, tally.n)[0]
    found = [(1.0, "all proportions lie within 0 to 1")]
    edges = mechanism.edge_errors()
    if edges is not None:
        at, p_value = _worst(proportions, tally.n, edges)
        if not 0 <= proportions[at] <= 1:
            found.append(
                (
                    p_value,
                    f"the proportion of {mechanism.labels[at]} would be"
                    f" {100 * proportions[at]:.1f} %",
                )
            )
    channel = mechanism.channel()
    if (
        isinstance(channel, np.ndarray)
        and channel.ndim == 2
        and len(channel) <= _LARGEST_FIT
        and len(tally.counts) == len(channel)
    ):
        found.append(_likelihood_ratio(tally.counts, channel))
    p_value, reason = min(found)
    # An impossible proportion says more to a person than a likelihood ratio, whichever p-value is
    # smaller.
    telling = next((why for p, why in found if p < _TELLING), reason)
    return FitTest(min(1.0, 2 * p_value), telling, tally.n)


def _likelihood_ratio(counts: NDArray[np.int64], channel: _Floats) -> tuple[float, str]:
    from scipy.special import chdtrc  # noqa: PLC0415 - slow to import

    seen = counts > 0
    fitted = (channel @ em.em(counts, channel))[seen] * counts.sum()
    statistic = max(2 * float(counts[seen] @ np.log(counts[seen] / fitted)), 0.0)
    degrees = len(counts) - 1
    return (
        float(chdtrc(degrees, statistic)),
        (
            f"likelihood ratio {statistic:.4g}, at most {degrees}"
            f" degree{'s' if degrees > 1 else ''} of freedom"
        ),
    )
