"""An estimate as JSON, the same in the results of windows and of the history, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from deniable.estimation.estimate import Estimate

__all__ = ["describe_estimate", "plain_figures", "read_estimate"]

_LARGEST_SENT = 64
"""Up to this many labels a result carries the covariance of its estimate."""


def describe_estimate(estimate: Estimate, confidence: float, simultaneous: bool = False) -> dict[str, Any]:
    """What :func:`read_estimate` reads: figures a label, where they come from, covariance and support.

    With `simultaneous`, all limits together cover with the given confidence.
    """
    document = estimate.to_dict(confidence)
    document.pop("window")
    if simultaneous:
        limits = estimate.interval(confidence, simultaneous=True)
        document["low"], document["high"] = limits[:, 0].tolist(), limits[:, 1].tolist()
    covariance = estimate.covariance
    document["covariance"] = covariance.tolist() if covariance is not None and len(covariance) <= _LARGEST_SENT else None
    document["support"] = None if estimate.support is None else [side.tolist() for side in estimate.support]
    return {name: plain_figures(value) for name, value in document.items()}


def read_estimate(document: Mapping[str, Any], period: tuple[int, int]) -> Estimate:
    """The estimate that :func:`describe_estimate` described."""
    support = document["support"]
    return Estimate(
        labels=tuple(document["labels"]),
        proportions=np.array(document["estimate"], dtype=np.float64),
        variance=np.square(np.array(document["stderr"], dtype=np.float64)),
        covariance=None if document["covariance"] is None else np.array(document["covariance"], dtype=np.float64),
        n=document["n"],
        population=document["population"],
        mechanism=document["mechanism"],
        epsilon=document["epsilon_local"],
        sampled_epsilon=document["epsilon_sampled"],
        support=None if support is None else (np.array(support[0]), np.array(support[1])),
        window=period,
        notes=tuple(document["notes"]),
    )


def plain_figures(value: Any) -> Any:
    """The value without infinities, which JSON does not have."""
    if isinstance(value, list):
        return [plain_figures(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
