"""From unbiased proportions to ones that look like a distribution: always by name, because each of
these trades bias for noise.

Which to use, as measured by the tests (k = 1024, epsilon = 1, 100,000 reports, proportions falling
like 1/rank^1.3):

    method      sum 1   no negatives   bias                                          summed squared error
    (unbiased)  no      no             none                                          1
    norm        yes     no             none                                          1 - 1/k or so
    norm-sub    yes     yes            large proportions down a little, absent ones up    about 1/10
    base-cut    no      yes            none above the cut, down to 0 below it        about 1/14
    smooth      as was  no             towards the mean of the neighbours            depends on how smooth the truth is

Setting negatives to 0 and dividing by the sum is not offered: noise on a thousand absent labels
would count as people, and the largest proportion would come out as 0.09 instead of 0.28.

References. Wang, Lopuhaä-Zwakenberg, Li, Skoric and Li, "Locally differentially private frequency
estimation with consistency", NDSS 2020 (norm, norm-sub, base-cut). Mallows, "Some comments on C_p",
Technometrics 1973 (how much to smooth).
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_range, whole
from deniable.errors import ParameterError
from deniable.estimation.simplex import project
from deniable.numerics import normal_quantile

if TYPE_CHECKING:
    from deniable.estimation.estimate import Estimate

__all__ = ["METHODS", "best_passes", "changed", "make_consistent", "smooth"]

_Floats = NDArray[np.float64]


def make_consistent(estimate: Estimate, method: str, **options: Any) -> Estimate:
    """The estimate after one of `METHODS`, with a note that says so (see
    :meth:`Estimate.consistent`)."""
    chosen = METHODS.get(method) if isinstance(method, str) else None
    if chosen is None:
        raise ParameterError("method", method, f"must be one of {', '.join(sorted(METHODS))}")
    if not estimate.exclusive and method != "base-cut":
        raise ParameterError(
            "method",
            method,
            "makes the proportions sum to 1, but a person may have several of these labels",
        )
    known = list(inspect.signature(chosen).parameters)[1:]
    for name, value in options.items():
        if name not in known:
            raise ParameterError(
                name,
                value,
                f"is not an option of {method!r}, which has {', '.join(known) or 'none'}",
            )
    return chosen(estimate, **options)


def norm_sub(estimate: Estimate) -> Estimate:
    """Take the same amount from every label, and 0 where that would be negative, so that the sum is
    1.

    max(x - t, 0) with sum 1 is the projection onto the simplex in Euclidean distance: norm-sub and
    projection are the same (Wang et al. 2020, theorem on constrained least squares).
    """
    return changed(
        estimate,
        project(estimate.proportions),
        "projected onto the simplex (norm-sub): biased towards it; intervals are those of the"
        " unbiased estimate",
    )


def norm(estimate: Estimate) -> Estimate:
    """Add the same amount to every label, so that the sum is 1. Unbiased; negatives stay."""
    k = estimate.proportions.size
    moved = estimate.proportions + (1 - estimate.proportions.sum()) / k
    note = "the same was added to every label so that they sum to 1 (norm)"
    if estimate.unbiased is not None:
        return changed(estimate, moved, note)
    covariance, variance = estimate.covariance, estimate.variance
    if covariance is not None:
        # (I - 11'/k) C (I - 11'/k): rows and columns lose their means.
        covariance = covariance - covariance.mean(axis=0)
        covariance = covariance - covariance.mean(axis=1, keepdims=True)
        variance = np.maximum(np.diagonal(covariance), 0)
    return dataclasses.replace(
        estimate,
        proportions=moved,
        variance=variance,
        covariance=covariance,
        support=None,
        score_law=None,
        strata=(),
        notes=(*estimate.notes, f"{note}: still unbiased"),
    )


def base_cut(estimate: Estimate, false_alarm: float = 0.05) -> Estimate:
    """Keep what is too large to be noise on an absent label, and set the rest to 0.

    The cut, in standard errors of an absent label, is chosen so that, if all k labels were absent,
    any would be kept with probability at most `false_alarm` (Bonferroni).
    """
    check_range("false_alarm", false_alarm, above=0, below=1)
    spread = estimate.stderr
    if estimate.support is not None:
        a, b = estimate.support
        spread = np.sqrt(b * (1 - b) / estimate.n) / np.abs(a - b)
    cut = normal_quantile(1 - false_alarm / estimate.proportions.size) * spread
    kept = np.where(estimate.proportions > cut, estimate.proportions, 0.0)
    return changed(
        estimate,
        kept,
        f"{np.count_nonzero(kept)} of {kept.size} labels stand out from the noise, the others are"
        " set to 0 (base-cut): biased for those; intervals are those of the unbiased estimate",
    )


def smoothed(estimate: Estimate, passes: int | None = None) -> Estimate:
    """Average each label with its neighbours, for labels in a natural order; `passes` times, or the
    best number of times."""
    if passes is None:
        if estimate.covariance is None:
            raise ParameterError(
                "passes",
                passes,
                f"must be given for {estimate.proportions.size} labels, because their covariance is"
                " not kept",
            )
        passes = best_passes(estimate.proportions, estimate.covariance)
    whole("passes", passes, 0)
    return changed(
        estimate,
        smooth(estimate.proportions, passes),
        f"smoothed over neighbouring labels, {passes} times: biased towards their mean; "
        "intervals are those of the unbiased estimate",
    )


METHODS: dict[str, Callable[..., Estimate]] = {
    "norm-sub": norm_sub,
    "norm": norm,
    "base-cut": base_cut,
    "smooth": smoothed,
}


def smooth(proportions: _Floats, passes: int) -> _Floats:
    """Each entry replaced by half of itself and a quarter of either neighbour, `passes` times; the
    sum is unchanged.

    At the ends,
    the missing neighbour is the entry itself.

    >>> smooth(np.array([1.0, 0.0, 0.0, 0.0]), 1).tolist()
    [0.75, 0.25, 0.0, 0.0]
    """
    for _ in range(passes):
        padded = np.pad(proportions, 1, mode="edge")
        proportions = (padded[:-2] + 2 * proportions + padded[2:]) / 4
    return proportions


def best_passes(proportions: _Floats, covariance: _Floats) -> int:
    """How often to smooth for the smallest squared error, estimated without knowing the truth
    (Mallows' C_p).

    One pass is a symmetric matrix S with eigenvectors cos(pi j (v + 1/2)/k) and eigenvalues
    cos^2(pi j/2k). The summed squared error of S^m x has the unbiased estimate |S^m x - x|^2 + 2
    tr(S^m C) - tr(C), with C the covariance of x.
    """
    k = proportions.size
    waves = np.arange(k)
    basis = np.cos(np.pi * np.outer(np.arange(k) + 0.5, waves) / k)
    basis /= np.sqrt((basis**2).sum(axis=0))
    eigenvalues = np.cos(np.pi * waves / (2 * k)) ** 2
    power = (basis.T @ proportions) ** 2
    noise = ((covariance @ basis) * basis).sum(axis=0)
    # After k^2 passes nothing but the mean is left; in between, steps of 10 % are fine enough.
    choices = np.unique(
        np.concatenate([[0], np.round(1.1 ** np.arange(0, 2 * np.log(k) / np.log(1.1) + 1))])
    ).astype(int)
    kept = eigenvalues ** choices[:, np.newaxis]
    return int(choices[((1 - kept) ** 2 @ power + 2 * kept @ noise).argmin()])


def changed(estimate: Estimate, proportions: _Floats, note: str) -> Estimate:
    """The estimate with other proportions; intervals stay those of the unbiased ones."""
    unbiased = estimate.proportions if estimate.unbiased is None else estimate.unbiased
    return dataclasses.replace(
        estimate, proportions=proportions, unbiased=unbiased, notes=(*estimate.notes, note)
    )
