"""Hadamard response: report a column of a Hadamard matrix in which your value's row is more likely
+1 than -1."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon
from deniable.mechanisms import exact, solving
from deniable.mechanisms.blankets import Blanket, supporting_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.protocols.unary import BitChannel
from deniable.mechanisms.pure import PureMechanism
from deniable.mechanisms.values import IndexReports
from deniable.randomness import ONE, Source

__all__ = ["HadamardResponse", "walsh_hadamard"]


@dataclass(frozen=True, eq=False, repr=False)
class HadamardResponse(IndexReports, PureMechanism):
    """A report of log2(K) bits, and an estimate in O(K log K) for any number of reports.

    K is the next power of two above k, and H[r, y] = (-1)^(ones of r & y) the Hadamard matrix of
    Sylvester. Value v has the row v + 1, because row 0 is constant. The report y is uniform among
    the K/2 columns where that row is +1 with probability a = e^epsilon / (e^epsilon + 1), and else
    uniform among the others; another value's row is +1 there with probability b = 1/2.

    With t = H counts / n and c = (e^epsilon + 1) / (e^epsilon - 1), the estimate is pi_v = c t[v +
    1], and n Var(v) = c^2 - pi_v^2. Rows multiply to rows, H[r, y] H[s, y] = H[r xor s, y], so t
    holds the second moments too: n Cov(u, v) = c^2 t[(u + 1) xor (v + 1)] - pi_u pi_v, which is c
    pi_w - pi_u pi_v for the value w whose row that is. Acharya, Sun and Zhang, "Hadamard response:
    estimating distributions privately, efficiently, and with little communication", AISTATS 2019,
    the scheme for high privacy.

    >>> from deniable import seeded_source
    >>> days = HadamardResponse(365, epsilon=1.0)
    >>> days.n_outputs
    512
    >>> len(days.privatize([0, 100, 364], source=seeded_source(2)).data.tobytes())
    6
    """

    values: Any
    epsilon: float

    _truthful: int = field(init=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        requested_epsilon = check_epsilon(self.epsilon)
        growth = exact.exp(requested_epsilon)
        truthful = exact.down(growth / (growth + 1))
        self._set(
            domain=domain,
            values=domain.labels,
            requested_epsilon=requested_epsilon,
            _truthful=truthful,
        )
        self._set(
            _pair=BitChannel(truthful / ONE, 0.5),
            epsilon=exact.log_ratio(Fraction(truthful, ONE - truthful)),
        )

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon}

    @property
    def n_outputs(self) -> int:
        """K, the next power of two above k."""
        return 1 << len(self.domain).bit_length()

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        row = indices.astype(np.uint32)
        row += 1
        column = source.below(self.n_outputs, indices.size).astype(np.uint32)
        lie = 1 - source.coins(self._truthful, indices.size)
        # If the row's sign is not the wanted one, flip the row's lowest bit in the column: this
        # maps one half onto the other.
        turn = (np.bitwise_count(row & column) & 1) ^ lie
        column ^= (row & -row) * turn
        return column.astype(self.layout[0])

    def supports(self, data: NDArray[Any]) -> NDArray[np.uint8]:
        rows = np.arange(1, len(self.domain) + 1, dtype=np.uint32)
        return np.asarray(
            1 - (np.bitwise_count(data.astype(np.uint32)[:, None] & rows) & 1), dtype=np.uint8
        )

    def blanket(self) -> Blanket:
        a = self._pair.a
        return supporting_blanket(2 * a, 2 * (1 - a), only=0.25, both=0.25)

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        k = len(self.domain)
        scale = 1 / (2 * self._pair.a - 1)
        means: NDArray[np.float64] = walsh_hadamard(counts) * np.float64(scale / n)
        proportions = means[1 : k + 1].copy()
        # no proportion exceeds 1, but an estimate can
        variance = (scale**2 - np.minimum(proportions**2, 1)) / max(n - 1, 1)
        covariance = None
        if k <= solving.largest_covariance():
            rows = np.arange(1, k + 1)
            covariance = np.outer(proportions, proportions / -max(n - 1, 1))
            covariance += (means * (scale / max(n - 1, 1)))[rows[:, None] ^ rows]
            np.fill_diagonal(covariance, variance)
        return proportions, variance, covariance


def walsh_hadamard(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """H times `values`, whose length is a power of two, in Sylvester's order.

    >>> walsh_hadamard(np.array([4, 1, 0, 0])).tolist()
    [5, 3, 5, 3]
    """
    out = values.copy()
    half = 1
    while half < out.size:
        pairs = out.reshape(-1, 2, half)
        difference = pairs[:, 0] - pairs[:, 1]
        pairs[:, 0] += pairs[:, 1]
        pairs[:, 1] = difference
        half *= 2
    return out
