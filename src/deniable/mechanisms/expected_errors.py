"""What a mechanism's errors will be, before anything is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError

if TYPE_CHECKING:
    from deniable.mechanisms.mechanism import Mechanism

__all__ = ["infinite_population_errors"]

_EXPECTED = 2.0**50
"""The number of reports for which expected counts are rounded: enough that rounding does not
show."""


def infinite_population_errors(
    mechanism: Mechanism, n: int, proportions: Any
) -> NDArray[np.float64]:
    """The standard errors of `n` reports of people drawn from a population without end."""
    true = np.asarray(proportions, dtype=np.float64)
    if true.shape != (len(mechanism.labels),) or not np.isclose(true.sum(), 1) or true.min() < 0:
        raise ParameterError(
            "proportions",
            np.shape(proportions),
            f"must be {len(mechanism.labels)} proportions that sum to 1",
        )
    pair = mechanism.support()
    if pair is not None:
        a, b = pair
        lam = b + (a - b) * true
        return np.asarray(np.sqrt(lam * (1 - lam) / n) / np.abs(a - b), dtype=np.float64)
    channel = mechanism.channel()
    if not isinstance(channel, np.ndarray) or len(channel) != mechanism.cells:
        raise ParameterError(
            "mechanism", type(mechanism).__name__, "does not state its expected error"
        )
    # The variance of that many reports with exactly the expected counts, scaled to n.
    counts = np.rint(_EXPECTED * (channel @ true)).astype(np.int64)
    whole = int(counts.sum())
    return np.asarray(
        np.sqrt(mechanism.solve(counts, whole)[1] * ((whole - 1) / n)), dtype=np.float64
    )
