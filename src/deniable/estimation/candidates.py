"""Which of some candidate texts were sent, and how often, from what cohorts of Bloom filters say on the whole.

Cohort j has n_j reports and, after unbiasing, a share t[j, i] of senders whose filter holds bit i. A text v of share pi_v puts
that share on each of its own bits x_v[j, i]. A text that is no candidate sets any bit with probability tau = 1 - (1 - 1/bits)^h
over the hash's choice, and the shares of all texts sum to 1; so

    E t[j, i] - tau = sum over candidates of pi_v (x_v[j, i] - tau),

exactly if every text that was sent is a candidate, and on average over the hash if not. :func:`decode` solves this by least
squares with the weights n_j, which depend on no answer, so the estimate is unbiased. The paper selects candidates by lasso
first; here all stay in, for what the same data selected has shares that are too large and p-values that are too small.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.simplex import project

__all__ = ["CORRECTIONS", "CandidateEstimate", "Decoded", "adjust", "check_correction", "decode"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class CandidateEstimate(Estimate):
    """An estimate of the shares of candidate texts, with a test of each against "nobody sent it"."""

    p_values: _Floats
    """Of each candidate alone: how likely a text that nobody sent is to look at least as frequent. One-sided, uncorrected."""
    detected: NDArray[np.bool_]
    """Whether the candidate was found at `significance`, corrected for the number of candidates."""
    significance: float
    correction: str
    others: tuple[float, float]
    """The share of all texts that are no candidates, and its standard error."""
    misfit: float
    """Spread of the cohorts about the fitted candidates, over what chance explains: near 1 if the candidates are all there is."""

    def projected(self) -> Estimate:
        """The nearest proper shares: none negative, sum at most 1, for there may be other texts. Biased."""
        note = "projected onto shares that sum to at most 1: biased towards them; ± is that of the unbiased estimate"
        return dataclasses.replace(self, proportions=_proper(self.proportions), notes=(*self.notes, note))

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        return {
            **super().to_dict(confidence),
            "p_values": self.p_values.tolist(),
            "detected": self.detected.tolist(),
            "significance": self.significance,
            "correction": self.correction,
            "others": list(self.others),
            "misfit": self.misfit,
        }

    def to_frame(self, confidence: float = 0.95) -> Any:
        """A pandas DataFrame: one row a candidate, with estimate, stderr, low, high, p_value and detected."""
        return super().to_frame(confidence).assign(p_value=self.p_values, detected=self.detected)


class Decoded(NamedTuple):
    """What the regression found."""

    shares: _Floats
    covariance: _Floats
    p_values: _Floats
    misfit: float


def decode(shares: _Floats, sizes: NDArray[np.int64], positions: NDArray[np.int64], a: float, b: float) -> Decoded:
    """The candidates' shares, their covariance, and one-sided p-values against "nobody sent it".

    `shares[j, i]` is the unbiased estimate of bit i in cohort j, `sizes[j]` the reports of cohort j and `positions[v, j]` the
    bits of candidate v there, of which several may coincide; a true bit is reported as 1 with probability `a`, another with `b`.
    Cohorts without reports are left out.

    Covariance. With Z_j = x - tau, N = sum n_j Z_j' Z_j and S_j the covariance of one report's unbiased bits, it is
    N^-1 (sum n_j Z_j' S_j Z_j) N^-1. S_j has the bits' variances on its diagonal, lam (1 - lam)/(a - b)^2, and off it, since the
    coins of different bits are independent, the covariance of the true bits, sum pi_v x_v x_v' - m m', m their mean. Both are
    taken from the fit, so that a cohort of a single report has its due error too. Texts that are no candidates
    raise bits wherever the hash puts them: that is a further error, of the same variance on every bit, which is estimated from
    what the residuals' sum of squares has in excess of its expectation and is added. `misfit` is the ratio of these two.

    Test. A share is found only if it is too large for chance by both of two standard errors: the one above, and one that is made
    of the residuals on the candidate's own bits (HC3; MacKinnon and White 1985), with Student's t of as many degrees of freedom
    as bits carry the estimate. The second sees what the first cannot: a frequent text that is no candidate and shares
    a few bits with one raises these few bits and not the others.
    """
    present = np.flatnonzero(sizes > 0)
    shares, sizes, positions = shares[present], sizes[present], positions[:, present]
    bits = shares.shape[1]
    tau = 1 - (1 - 1 / bits) ** positions.shape[2]
    filters = _filters(positions, bits)

    normal, uneven = (np.zeros((len(positions), len(positions))) for _ in range(2))
    moment = np.zeros(len(positions))
    for j, n in enumerate(sizes):
        centred = filters(j) - tau
        product = centred.T @ centred
        normal += n * product
        uneven += float(n) ** 2 * product
        moment += n * ((shares[j] - tau) @ centred)
    inverse = _inverse(normal)
    found = inverse @ moment

    likely = _proper(found)
    meat = np.zeros_like(normal)
    squares, explained = 0.0, 0.0
    own, weight, fourth = (np.zeros(len(positions)) for _ in range(3))
    for j, n in enumerate(sizes):
        raised = filters(j)
        centred = raised - tau
        mean = tau + centred @ found
        spread = _bit_covariance(raised, likely, tau, a, b)
        meat += n * (centred.T @ spread @ centred)
        residual = shares[j] - mean
        squares += n * float(residual @ residual)
        explained += float(np.trace(spread))
        pull = n * (centred @ inverse)  # how far each bit moves each share
        leverage = np.einsum("iv,iv->i", pull, centred)
        pull *= pull
        weight += pull.sum(axis=0)
        own += (residual / np.maximum(1 - leverage, 1e-9)) ** 2 @ pull
        fourth += np.einsum("iv,iv->v", pull, pull)
    left = explained - float(np.sum(inverse * meat))
    misfit = squares / left if left > 1e-9 * explained else 1.0
    if misfit > 1:
        meat += (squares - left) / (bits * float(sizes.sum()) - float(np.sum(inverse * uneven))) * uneven
    covariance = inverse @ meat @ inverse
    p_values = np.maximum(
        _upper_tail(found / np.sqrt(np.diagonal(covariance)), None),
        _upper_tail(found / np.sqrt(np.maximum(own, 1e-300)), np.maximum(weight**2 / fourth - 1, 1)),
    )
    return Decoded(found, covariance, p_values, misfit)


def _bit_covariance(raised: _Floats, likely: _Floats, tau: float, a: float, b: float) -> _Floats:
    """Of one report's unbiased bits, if texts that are no candidates are like one text that has a share tau of each bit."""
    rest = 1 - likely.sum()
    mean = raised @ likely + rest * tau
    spread: _Floats = (raised * likely) @ raised.T + (rest * tau**2 - np.outer(mean, mean))
    rate = b + (a - b) * mean
    np.fill_diagonal(spread, rate * (1 - rate) / (a - b) ** 2)
    return spread


def _proper(shares: _Floats) -> _Floats:
    """The nearest shares that are not negative and leave nothing negative to others."""
    positive = np.maximum(shares, 0)
    return positive if positive.sum() <= 1 else project(shares)


def _filters(positions: NDArray[np.int64], bits: int) -> Callable[[int], _Floats]:
    """A function that gives a cohort's design matrix: one row a bit, one column a candidate. One at a time, for memory's sake."""
    columns = np.arange(len(positions))[:, None]

    def of_cohort(j: int) -> _Floats:
        raised = np.zeros((bits, len(positions)))
        raised[positions[:, j], columns] = 1
        return raised

    return of_cohort


def _inverse(normal: _Floats) -> _Floats:
    values, vectors = np.linalg.eigh(normal)
    if values[0] <= 1e-9 * max(values[-1], 0):
        raise ParameterError(
            "candidates", f"{len(normal)} texts", "must be told apart by their bits: take fewer, or more bits, hashes or cohorts"
        )
    return np.asarray((vectors / values) @ vectors.T, dtype=np.float64)


def _upper_tail(statistic: _Floats, freedom: _Floats | None) -> _Floats:
    """P(a standard normal, or a Student's t, exceeds the statistic)."""
    from scipy import special  # noqa: PLC0415 - slow to import

    return np.asarray(special.ndtr(-statistic) if freedom is None else special.stdtr(freedom, -statistic), dtype=np.float64)


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
"""Bonferroni and Holm (1979) bound the chance of a single false find; Benjamini and Hochberg (1995) the share of false finds."""


def check_correction(correction: str) -> str:
    """The name of a correction, if there is one of that name."""
    if not isinstance(correction, str) or correction not in CORRECTIONS:
        raise ParameterError("correction", correction, f"must be one of {', '.join(CORRECTIONS)}")
    return correction


def adjust(p_values: _Floats, correction: str) -> _Floats:
    """p-values that account for how many were looked at: at most `significance` means found.

    >>> adjust(np.array([0.01, 0.5, 0.02]), "holm").round(3).tolist()
    [0.03, 0.5, 0.04]
    """
    corrected = CORRECTIONS[check_correction(correction)]
    order = np.argsort(p_values, kind="stable")
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(corrected(p_values[order]), 1)
    return adjusted
