"""The distance-sensitive protocol: values near the truth are reported more often than far ones
(Galanis 2021, section 4.6)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon
from deniable.errors import ParameterError
from deniable.mechanisms import exact
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.protocols.design_matrix import MatrixMechanism, check_size
from deniable.mechanisms.protocols.waves.wave import half_width, wave_columns

__all__ = ["DistanceSensitive"]

_NARROWER = Fraction(7, 10)


@dataclass(frozen=True, eq=False, repr=False)
class DistanceSensitive(MatrixMechanism):
    """Proportions of k ordered values, where mistaking a value for its neighbour matters less than
    for a distant one.

    `kernel="thesis"` is the protocol of Galanis 2021, 4.6.5 and 4.6.6. With theta = floor((sqrt(4
    e^epsilon + 1) - 1)/2), the true value has probability alpha = theta(theta + 1)/(3 theta^2 -
    theta + k - 1), and one at distance d has alpha/(c(c + 1)), c = min(theta, d). For a value near
    an end, m = the sum over its neighbours outside the domain of alpha/(c(c + 1)) -
    alpha/(theta(theta + 1)) is spread: m/(k - 1) is added to every value but the true one. The loss
    is ln(theta(theta + 1)), a staircase below the requested epsilon (lower still for small k:
    `epsilon` is exact). It needs epsilon >= ln 2, and theta < k.

    `kernel="full"` spends the whole epsilon: a square wave
    (:mod:`deniable.mechanisms.protocols.waves.wave`) of 0.7 times the half-width of
    :class:`SquareWave`. Its Kantorovich (earth mover's) error in thousandths of the range, k = 64,
    mean over six populations (one with spikes) and 30 trials each, with "em" / "ems":

        epsilon  reports    thesis         full           square wave
        1        1,000      184  / 176     48.7 / 39.0    50.3 / 39.5
        1        10,000     124  / 124     20.1 / 21.1    21.9 / 23.9
        1        100,000     62  / 117      9.0 / 18.1     9.6 / 21.0
        2        1,000       74  /  65     24.8 / 19.7    27.1 / 20.8
        2        10,000      25  /  29     11.0 / 10.7    11.5 / 11.0
        2        100,000      9.1 / 23.9    4.6 /  8.6     4.9 /  9.1
        3        10,000       8.8 /  9.6    7.2 /  7.0     7.5 /  7.0

    Estimators: "em" (default), "inverse", "ems", as for every matrix. The inverse is unbiased value
    by value, and so noisy that direct encoding has the smaller earth mover's error at a few hundred
    reports; its variance may rise with epsilon (by 46 % at most, with three values), where the
    kernel becomes narrower; "em" has about half the inverse's error there, and never more; "ems" is
    as good for few reports, but its smoothing stays as they become many. Kantorovich error in
    steps, k = 20, mean over four populations:

        epsilon  reports    full: inverse  em    ems     thesis: inverse  em    ems     direct encoding
        1        500              2.6      1.3   1.2              5.5     3.2   3.0     4.1
        1        10,000           0.58     0.36  0.96             1.7     1.3   2.8     0.70
        2        500              1.1      0.58  0.60             1.5     0.95  1.0     1.1
        2        10,000           0.24     0.18  0.54             0.32    0.27  0.79    0.25
        3.4      500              0.56     0.33  0.42             0.66    0.46  0.50    0.39

    "em" stays on the simplex and is biased for that, which the notes say; its intervals are those
    of the unbiased estimate. What needs an unbiased one (`compare`, `stratified`, `combine`) wants
    ``estimator="inverse"``. The thesis's kernel also has "paper", its own: (C(v)/n - q*)/(p* - q*)
    with p* the mass within theta of the truth and q* = alpha/(theta(theta + 1)). That one is
    biased, since neighbours support each other's count and only the truth's is subtracted; it is
    here for comparison.

    >>> DistanceSensitive(20, 3.4).theta
    4
    >>> round(DistanceSensitive(20, 3.4).epsilon, 4)  # ln 20
    2.9957
    >>> DistanceSensitive(20, 3.4, kernel="full").epsilon
    3.4
    """

    values: Any
    epsilon: float
    kernel: str = "thesis"

    ESTIMATOR: ClassVar[str] = "em"
    KERNELS: ClassVar[tuple[str, ...]] = ("thesis", "full")

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        k = check_size("values", len(domain))
        requested_epsilon = check_epsilon(self.epsilon)
        if self.kernel not in self.KERNELS:
            raise ParameterError(
                "kernel", self.kernel, f"must be one of {', '.join(map(repr, self.KERNELS))}"
            )
        if self.kernel == "thesis":
            theta = _theta(requested_epsilon, k)
            columns = exact.private(
                lambda target: _thesis_columns(k, theta, target), requested_epsilon
            )
            self._set(theta=theta, ESTIMATORS=(*MatrixMechanism.ESTIMATORS, "paper"))
        else:
            columns = wave_columns(
                k,
                2 * math.floor(_NARROWER * half_width(requested_epsilon) * k + Fraction(1, 2)) + 1,
                requested_epsilon,
            )
        self._set(requested_epsilon=requested_epsilon, values=domain.labels)
        self._derive(domain, columns, blame="epsilon")

    theta: ClassVar[int | None] = None
    """The reach of the thesis's kernel."""

    def parameters(self) -> dict[str, Any]:
        return {
            "values": self.domain.spec(),
            "epsilon": self.requested_epsilon,
            "kernel": self.kernel,
        }

    def _biased(self, estimator: str, counts: NDArray[np.int64]) -> tuple[NDArray[np.float64], str]:
        if estimator != "paper" or self.theta is None:
            return super()._biased(estimator, counts)
        k, theta = len(self.domain), self.theta
        alpha = theta * (theta + 1) / (3 * theta**2 - theta + k - 1)
        near, far = alpha * (1 + 2 * theta / (theta + 1)), alpha / (theta * (theta + 1))
        return (counts / counts.sum() - far) / (
            near - far
        ), "the thesis's own estimator (4.6.5): biased"


def _theta(epsilon: float, k: int) -> int:
    """The largest theta with theta(theta + 1) <= e^epsilon, allowing for the rounding of an epsilon
    such as math.log(20)."""
    growth = exact.exp(epsilon) * (1 + Fraction(1, 1 << 45))
    theta = (math.isqrt(4 * math.floor(growth) + 1) - 1) // 2
    if theta < 1:
        raise ParameterError(
            "epsilon",
            epsilon,
            "must be at least ln 2 = 0.693… for the thesis's kernel; kernel='full' accepts any",
        )
    if theta >= k:
        raise ParameterError(
            "epsilon",
            epsilon,
            f"makes theta = {theta}, which must be below k = {k}; kernel='full' accepts any",
        )
    return theta


def _thesis_columns(k: int, theta: int, epsilon: float) -> NDArray[np.uint64]:
    """The thesis's kernel in integers. Columns differ only by how much is spread at their end of
    the domain."""
    # theta(theta + 1), less a last digit where that would exceed the epsilon: alpha/far is the
    # loss.
    loss = min(Fraction(theta * (theta + 1)), exact.exp(epsilon))
    alpha = 1 / (1 + 2 * (1 - Fraction(1, theta)) + (k + 1 - 2 * theta) / loss)
    far = alpha / loss
    excess = [alpha / (c * (c + 1)) - far for c in range(1, theta)]
    # at a distance, of all that lie farther
    beyond = [*accumulate(reversed(excess), initial=Fraction(0))][::-1]
    near = [alpha, *(far + more for more in excess), far]
    index = np.arange(k)
    weights: list[Fraction] = []
    places = np.empty((k, k), dtype=np.intp)
    start: dict[Fraction, int] = {}  # where the weights of columns with that much to spread begin
    for value in range(k):
        outside = beyond[min(value, theta - 1)] + beyond[min(k - 1 - value, theta - 1)]
        if outside not in start:
            start[outside] = len(weights)
            weights += [alpha, *(probability + outside / (k - 1) for probability in near[1:])]
        places[value] = start[outside] + np.minimum(np.abs(index - value), theta)
    return exact.placed_columns(weights, places)
