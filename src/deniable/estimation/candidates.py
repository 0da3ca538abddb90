"""Which candidate texts were sent, and how often, from the aggregated Bloom filters of cohorts.

Cohort j has n_j reports and, after unbiasing, a proportion t[j, i] of senders whose filter holds
bit i. A text v of proportion pi_v puts that proportion on each of its own bits x_v[j, i]. A text
that is not a candidate sets any bit with probability tau = 1 - (1 - 1/bits)^h over the hash's
choice, and the proportions of all texts sum to 1; so

    E t[j, i] - tau = sum over candidates of pi_v (x_v[j, i] - tau),

exactly if every text that was sent is a candidate, and on average over the hash if not.
:func:`decode` solves this by least squares with the weights n_j, which depend on no answer, so the
estimate is unbiased. The paper selects candidates by lasso first; here all stay in, because
candidates selected by the same data would have proportions that are too large and p-values that are
too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.consistency import changed
from deniable.estimation.estimate import Estimate
from deniable.estimation.simplex import project

__all__ = [
    "CORRECTIONS",
    "CandidateEstimate",
    "Decoded",
    "adjust",
    "bit_ranges",
    "check_correction",
    "decode",
]

_Floats = NDArray[np.float64]
_SMALL = 1 << 20


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CandidateEstimate(Estimate):
    """An estimate of the proportions of candidate texts, with a test of each against "nobody sent
    it"."""

    p_value: _Floats
    """For each candidate alone: the probability that a text nobody sent looks at least as frequent.
    One-sided, uncorrected."""
    detected: NDArray[np.bool_]
    """Whether the candidate was found at `significance`, corrected for the number of candidates."""
    significance: float
    correction: str
    others: tuple[float, float]
    """The proportion of all texts that are not candidates, and its standard error."""
    misfit: float
    """Spread of the cohorts about the fitted candidates, over what chance explains: near 1 if the
    candidates are all there is."""

    def projected(self) -> Estimate:
        """The nearest proper proportions: none negative, sum at most 1, because there may be other
        texts. Biased."""
        note = (
            "projected onto proportions that sum to at most 1: biased towards them; intervals are"
            " those"
            " of the unbiased estimate"
        )
        return changed(self, _proper(self.proportions), note)

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row per candidate, with estimate, stderr, low, high, p_value and
        detected."""
        return super().to_frame(confidence).assign(p_value=self.p_value, detected=self.detected)


class Decoded(NamedTuple):
    """What the regression found."""

    proportions: _Floats
    covariance: _Floats
    p_values: _Floats
    misfit: float


def decode(
    proportions: _Floats, sizes: NDArray[np.int64], positions: NDArray[np.int64], a: float, b: float
) -> Decoded:
    """The candidates' proportions, their covariance, and one-sided p-values against "nobody sent
    it".

    `proportions[j, i]` is the unbiased estimate of bit i in cohort j, `sizes[j]` the reports of
    cohort j and `positions[v, j]` the bits of candidate v there, of which several may coincide; a
    true bit is reported as 1 with probability `a`, another with `b`. Cohorts without reports are
    left out.

    Covariance. With Z_j = x - tau, N = sum n_j Z_j' Z_j and S_j the covariance of one report's
    unbiased bits, it is N^-1 (sum n_j Z_j' S_j Z_j) N^-1. S_j has the bits' variances on its
    diagonal, lam (1 - lam)/(a - b)^2, and off it, since the coins of different bits are
    independent, the covariance of the true bits, sum pi_v x_v x_v' - m m', m their mean. Both are
    taken from the fit, so that even a cohort with a single report has a proper error. Texts that
    are not candidates raise bits wherever the hash puts them: a further error, with the same
    variance on every bit, which is estimated from the excess of the residuals' sum of squares over
    its expectation and added. `misfit` is the ratio of these two.

    Test. A candidate is detected only if its proportion is too large for chance by both of two
    standard errors: the one above, and one from the residuals on the candidate's own bits (HC3;
    MacKinnon and White 1985), with as many degrees of freedom as bits carry the estimate. The
    second catches what the first cannot: a frequent text that is not a candidate but shares a few
    bits with one raises only those bits.
    """
    present = np.flatnonzero(sizes > 0)
    bits = proportions.shape[1]
    design = _Design(positions[:, present], bits)
    n = np.repeat(sizes[present].astype(np.float64), bits)
    excess = proportions[present].reshape(-1) - design.tau
    inverse = _inverse(design.gram(n))
    found = inverse @ design.transposed(n * excess)
    residual = excess - design.times(found)

    meat, explained = _sampling_error(design, n, _proper(found), a, b)
    left = explained - float(np.sum(inverse * meat))
    squares = float(n @ residual**2)
    misfit = squares / left if left > 1e-9 * explained else 1.0
    if misfit > 1:
        uneven = design.gram(n**2)
        meat += (squares - left) / float(n.sum() - np.sum(inverse * uneven)) * uneven
    covariance = inverse @ meat @ inverse
    own, freedom = _own_error(design, n, inverse, residual)
    p_values = np.maximum(
        _upper_tail(found / np.sqrt(np.diagonal(covariance)), None),
        _upper_tail(found / np.sqrt(np.maximum(own, 1e-300)), freedom),
    )
    return Decoded(found, covariance, p_values, misfit)


def bit_ranges(sizes: _Floats, positions: NDArray[np.int64], bits: int) -> _Floats:
    """How far one report can move the proportion of each candidate, if each of its unbiased bits
    moves by 1: the worst cohort's sum."""
    present = np.flatnonzero(sizes > 0)
    design = _Design(positions[:, present], bits)
    inverse = _inverse(design.gram(np.repeat(sizes[present], bits)))
    # The weight of a cohort is its size, and a report is one of that many: what is left is the
    # report's own pull.
    worst = np.zeros(len(inverse))
    for _, x in design.cohorts():
        pull = x @ inverse - design.tau * inverse.sum(axis=0)
        np.maximum(worst, np.abs(pull).sum(axis=0), out=worst)
    return worst


class _Design:
    """Z = x - tau: one row per bit of a cohort, one column per candidate. x is sparse, and Z is
    never made."""

    def __init__(self, positions: NDArray[np.int64], bits: int) -> None:
        from scipy import sparse  # noqa: PLC0415 - slow to import

        candidates, cohorts, hashes = positions.shape
        self.bits = bits
        self.tau = 1 - (1 - 1 / bits) ** hashes
        rows = (positions + bits * np.arange(cohorts)[:, None]).reshape(-1)
        columns = np.repeat(np.arange(candidates), cohorts * hashes)
        x = sparse.csr_array(
            (np.ones(rows.size), (rows, columns)), shape=(cohorts * bits, candidates)
        )
        x.sum_duplicates()
        x.data[:] = 1  # hashes that coincide set a bit once
        self.x: Any = x

    def cohorts(self) -> Iterator[tuple[slice, Any]]:
        """The rows of each cohort, and x there: as plain arrays where they are small, for sparse
        ones take longer to make."""
        x = self.x.toarray() if self.x.shape[0] * self.x.shape[1] <= _SMALL else self.x
        for start in range(0, self.x.shape[0], self.bits):
            rows = slice(start, start + self.bits)
            yield rows, x[rows]

    def times(self, vector: _Floats) -> _Floats:
        """Z v."""
        return np.asarray(self.x @ vector - self.tau * vector.sum(axis=0), dtype=np.float64)

    def transposed(self, vector: _Floats) -> _Floats:
        """Z' v."""
        return np.asarray(self.x.T @ vector - self.tau * vector.sum(), dtype=np.float64)

    def gram(self, weights: _Floats) -> _Floats:
        """Z' diag(weights) Z."""
        return self.sandwich(
            self.x.T @ (self.x * weights[:, None]), self.x.T @ weights, weights.sum()
        )

    def sandwich(self, inner: Any, marginal: _Floats, total: float) -> _Floats:
        """Z' M Z of a symmetric M, from x' M x, x' M 1 and 1' M 1."""
        dense: _Floats = inner if isinstance(inner, np.ndarray) else inner.toarray()
        dense -= self.tau * np.add.outer(marginal, marginal)
        dense += self.tau**2 * total
        return dense


def _sampling_error(
    design: _Design, n: _Floats, likely: _Floats, a: float, b: float
) -> tuple[_Floats, float]:
    """sum n_j Z_j' S_j Z_j, and the sum of the traces of S_j. Texts that are not candidates count
    as one text with tau of each bit."""
    tau, rest = design.tau, 1 - likely.sum()
    mean = design.x @ likely + rest * tau
    rate = b + (a - b) * mean
    variance = rate * (1 - rate) / (a - b) ** 2
    inner, marginal, total = 0, np.zeros(likely.size), 0.0
    columns = []
    for rows, x in design.cohorts():
        size = n[rows.start]
        together = size * ((x * likely) @ x.T)  # how many have both of two bits
        inner = inner + x.T @ together @ x
        ones = together.sum(axis=0)
        marginal += x.T @ ones
        total += float(ones.sum())
        columns.append(
            np.sqrt(size)
            * np.array(
                [x.T @ mean[rows] - tau * mean[rows].sum(), x.sum(axis=0) - tau * design.bits]
            )
        )
    of_mean, of_ones = np.swapaxes(columns, 0, 1)
    meat = design.sandwich(inner, marginal, total)
    meat += rest * tau**2 * (of_ones.T @ of_ones) - of_mean.T @ of_mean
    # The diagonal of S_j has the variances, not those of the true bits alone.
    meat += design.gram(n * (variance - (design.x @ likely + rest * tau**2 - mean**2)))
    return meat, float(variance.sum())


def _own_error(
    design: _Design, n: _Floats, inverse: _Floats, residual: _Floats
) -> tuple[_Floats, _Floats]:
    """HC3 variances of the proportions, and how many bits carry each, less one."""
    own, second, fourth = (np.zeros(len(inverse)) for _ in range(3))
    for rows, x in design.cohorts():
        # how far each bit moves each proportion
        pull = n[rows.start] * (x @ inverse - design.tau * inverse.sum(axis=0))
        leverage = (x * pull).sum(axis=1) - design.tau * pull.sum(axis=1)
        pull *= pull
        own += (residual[rows] / np.maximum(1 - leverage, 1e-9)) ** 2 @ pull
        second += pull.sum(axis=0)
        fourth += np.einsum("iv,iv->v", pull, pull)
    return own, np.maximum(second**2 / fourth - 1, 1)


def _proper(proportions: _Floats) -> _Floats:
    """The nearest proportions that are not negative and leave nothing negative to others."""
    positive = np.maximum(proportions, 0)
    return positive if positive.sum() <= 1 else project(proportions)


def _inverse(normal: _Floats) -> _Floats:
    values, vectors = np.linalg.eigh(normal)
    if values[0] <= 1e-9 * max(values[-1], 0):
        raise ParameterError(
            "candidates",
            f"{len(normal)} texts",
            "cannot be distinguished by their bits: use fewer, or more bits, hashes or cohorts",
        )
    return np.asarray((vectors / values) @ vectors.T, dtype=np.float64)


def _upper_tail(statistic: _Floats, freedom: _Floats | None) -> _Floats:
    """P(a standard normal, or a Student's t, exceeds the statistic)."""
    from scipy import special  # noqa: PLC0415 - slow to import

    return np.asarray(
        special.ndtr(-statistic) if freedom is None else special.stdtr(freedom, -statistic),
        dtype=np.float64,
    )


def _bonferroni(ascending: _Floats) -> _Floats:
    return ascending.size * ascending


def _holm(ascending: _Floats) -> _Floats:
    return np.maximum.accumulate(ascending * np.arange(ascending.size, 0, -1))


def _benjamini_hochberg(ascending: _Floats) -> _Floats:
    scaled = ascending * ascending.size / np.arange(1, ascending.size + 1)
    return np.minimum.accumulate(scaled[::-1])[::-1]


CORRECTIONS: dict[str, Callable[[_Floats], _Floats]] = {
    "bonferroni": _bonferroni,
    "holm": _holm,
    "fdr": _benjamini_hochberg,
}
"""Bonferroni and Holm (1979) bound the probability of any false detection; Benjamini and Hochberg
(1995) the proportion of false detections."""


def check_correction(correction: str) -> str:
    """The name of a correction, checked."""
    if not isinstance(correction, str) or correction not in CORRECTIONS:
        raise ParameterError("correction", correction, f"must be one of {', '.join(CORRECTIONS)}")
    return correction


def adjust(p_values: _Floats, correction: str) -> _Floats:
    """p-values adjusted for their number: at most `significance` means detected.

    >>> adjust(np.array([0.01, 0.5, 0.02]), "holm").round(3).tolist()
    [0.03, 0.5, 0.04]
    """
    corrected = CORRECTIONS[check_correction(correction)]
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(corrected(p_values[order]), 1)
    return adjusted
