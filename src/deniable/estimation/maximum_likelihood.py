"""The most likely distribution behind the reports of any mechanism."""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol

import numpy as np

from deniable.errors import ParameterError
from deniable.estimation import em
from deniable.estimation.estimate import Estimate
from deniable.estimation.likelihood import ReportLikelihood, likelihoods

__all__ = ["maximum_likelihood"]

LARGEST_FIT = 1 << 27
"""The most different reports times labels: beyond this, their likelihoods would fill memory."""


class _Estimator(ReportLikelihood, Protocol):
    def estimate(self, reports: Any, population: int | None = None) -> Estimate: ...


def maximum_likelihood(
    mechanism: _Estimator, reports: Any, population: int | None = None, *, smooth: bool = False
) -> Estimate:
    """The distribution under which these reports are most likely: none negative, sum 1.

    Maximises the sum over reports of ln sum_v pi_v P(report | v) by expectation maximisation
    (:mod:`deniable.estimation.em`), whether the channel is a matrix or reports support labels:
    equal reports are counted together, and likelihoods matter only up to a factor. It uses which
    bits occurred together, which inverting the counts of bits ignores, and stays on the simplex,
    which biases it; the intervals stay those of the unbiased estimate. `smooth` is for ordered
    labels.

    >>> from deniable import OptimizedUnary, seeded_source
    >>> colours = OptimizedUnary(["red", "green", "blue"], 1.0)
    >>> reports = colours.privatize(["red"] * 900 + ["green"] * 100, seeded_source(2))
    >>> bool(maximum_likelihood(colours, reports).proportions.min() >= 0)
    True
    """
    unbiased = mechanism.estimate(reports, population).without_bias()
    received = mechanism.reports(reports)
    rows = np.ascontiguousarray(received.data).view(np.uint8).reshape(len(received), -1)
    _, first, counts = np.unique(rows, axis=0, return_index=True, return_counts=True)
    if first.size * len(unbiased.labels) > LARGEST_FIT:
        rule = f"times {len(unbiased.labels)} labels must be at most {LARGEST_FIT}"
        raise ParameterError("different reports", first.size, rule)
    found = em.fit(counts, likelihoods(mechanism, received[first]), smooth=smooth)
    kind = "maximum likelihood with smoothing (EMS)" if smooth else "maximum likelihood (EM)"
    note = (
        f"{kind}: biased, because it stays on the simplex; intervals are those of the unbiased"
        " estimate"
    )
    return dataclasses.replace(
        unbiased,
        proportions=found.proportions,
        unbiased=unbiased.proportions,
        notes=(*unbiased.notes, note),
    )
