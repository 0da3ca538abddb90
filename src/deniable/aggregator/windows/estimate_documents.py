"""An estimate as JSON, and back; the format is the same in the results of windows and of the
history."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.estimate import Estimate
from deniable.estimation.pooling import pooled_covariance
from deniable.estimation.report_counts import ReportCounts
from deniable.estimation.unbias import covariances_up_to, finite
from deniable.mechanisms.registry import from_dict as mechanism_from_dict
from deniable.results import encode

__all__ = ["LARGEST_SENT", "LARGEST_SOLVED", "describe_estimate", "plain_figures", "read_estimate"]

LARGEST_SENT = 64
"""With up to this many labels, a result carries the covariance of its estimate; with more, it is
recomputed from the counts."""
LARGEST_SOLVED = 1024
"""With up to this many labels, a result has the covariance that tables of its composite buckets
need."""
_Floats = NDArray[np.float64]


def describe_estimate(
    estimate: Estimate, confidence: float, simultaneous: bool = False
) -> dict[str, Any]:
    """What :func:`read_estimate` reads. Covariances of many labels are left out if they can be
    recomputed from the counts.

    With `simultaneous`, all limits jointly have the given confidence.
    """
    document = _slimmed(estimate).to_dict(confidence)
    del document["window"]
    if simultaneous:
        limits = estimate.interval(confidence, simultaneous=True)
        document["low"], document["high"] = (plain_figures(side.tolist()) for side in limits.T)
    covariance = estimate.covariance
    if covariance is not None and len(covariance) <= LARGEST_SENT:
        document["covariance"] = encode(covariance)
    return document


def read_estimate(document: Mapping[str, Any], period: tuple[int, int]) -> Estimate:
    """The estimate that :func:`describe_estimate` described."""
    # Results of earlier versions have standard errors only.
    variance = np.square(np.array(document["stderr"], dtype=np.float64)).tolist()
    return _with_covariances(
        Estimate.from_dict({"variance": variance, **document, "window": list(period)})
    )


def _slimmed(estimate: Estimate) -> Estimate:
    """The estimate without the covariances that can be recomputed from its counts, or those of its
    strata."""
    strata = tuple((weight, _slimmed(part)) for weight, part in estimate.strata)
    kept = None if estimate.reports is not None or strata else estimate.covariance
    return dataclasses.replace(estimate, covariance=kept, strata=strata)


def _with_covariances(estimate: Estimate) -> Estimate:
    """The estimate with the covariances that :func:`_slimmed` left out."""
    strata = tuple((weight, _with_covariances(part)) for weight, part in estimate.strata)
    covariance = estimate.covariance
    if covariance is None and estimate.reports is not None:
        covariance = _solved_covariance(estimate.reports)
    elif covariance is None and strata:
        covariance = pooled_covariance(strata)
    return dataclasses.replace(estimate, covariance=covariance, strata=strata)


def _solved_covariance(counted: ReportCounts) -> _Floats | None:
    found = counted.solved
    with covariances_up_to(LARGEST_SOLVED):
        moments = mechanism_from_dict(counted.mechanism).solve(found.counts, found.n)
        covariance = finite(moments, counted.population)[2]
    return None if covariance is None else covariance * counted.repeats


def plain_figures(value: Any) -> Any:
    """The value without infinities, which JSON does not have."""
    if isinstance(value, list):
        return [plain_figures(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
