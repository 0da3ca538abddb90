"""Pure protocols: a report supports some of the values, the true one more often than any other
(Wang et al. 2017, section 3)."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.unary import BitChannel

__all__ = ["PureMechanism", "rare_variance"]


class PureMechanism(Mechanism):
    """Holds a = P(v supported | v is true) and b = P(v supported | another value is), the same for
    all values."""

    _pair: BitChannel

    @property
    def cells(self) -> int:
        return len(self.domain)

    def channel(self) -> BitChannel:
        """The pair (a, b): P(a report supports v | v is true), P(it supports v | another value is
        true)."""
        return self._pair

    @abstractmethod
    def supports(self, data: NDArray[Any]) -> NDArray[np.uint8]:
        """One row per report, one column per label: 1 where the report supports the label."""

    def support(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        k = len(self.domain)
        return np.full(k, self._pair.a), np.full(k, self._pair.b)


def rare_variance(a: float, b: float) -> float:
    """n times the variance of the estimate of a value that nobody has, by which protocols of the
    same epsilon are compared."""
    return b * (1 - b) / (a - b) ** 2
