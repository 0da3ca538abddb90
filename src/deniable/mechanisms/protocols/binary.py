"""Two-coin randomized response to a yes/no question."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_double, check_epsilon, check_probability
from deniable.errors import ParameterError
from deniable.matrices import left_inverse
from deniable.mechanisms import exact, solving
from deniable.mechanisms.blankets import Blanket, matrix_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.values import ValueReports
from deniable.randomness import ONE, Source

__all__ = ["BinaryResponse"]


@dataclass(frozen=True, eq=False, repr=False)
class BinaryResponse(ValueReports):
    """Tell the truth with probability `p`; otherwise say 1 with probability `q` (Warner 1965;
    Greenberg et al. 1969).

    a = P(1|1) = p + (1 - p) q and b = P(1|0) = (1 - p) q, so epsilon = ln max(a/b, (1 - b)/(1 -
    a)): both ratios count, whichever answer reveals more.

    >>> BinaryResponse(p=0.5, q=0.5).channel()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> round(BinaryResponse(p=0.5, q=0.5).epsilon, 4)
    1.0986

    Instead of `p` an `epsilon` may be given, as for :meth:`from_epsilon`; `labels` are those of
    "no" and of "yes", 0 and 1 unless given.
    """

    yes_or_no = True

    p: Any = None
    q: Any = 0.5
    epsilon: Any = None
    labels: Any = None

    def __post_init__(self) -> None:
        if (self.p is None) == (self.epsilon is None):
            raise ParameterError(
                "p",
                self.p,
                message=(
                    f"give one of p and epsilon, not p = {self.p!r} and epsilon = {self.epsilon!r}"
                ),
            )
        if self.p is None:
            self._set(p=_most_truthful(self.epsilon, self.q))
        domain = Domain.of(2 if self.labels is None else self.labels)
        if len(domain) != 2:
            raise ParameterError("labels", self.labels, "must be two, that of 'no' first")
        p = exact.nearest(check_double("p", self.p))
        q = exact.nearest(check_double("q", self.q))
        b = Fraction((ONE - p) * q, ONE * ONE)
        a = b + Fraction(p, ONE)
        self._set(
            p=float(self.p),
            q=float(self.q),
            domain=domain,
            labels=tuple(domain.labels),
            _p=p,
            _q=q,
            _one=(float(b), float(a)),
            epsilon=exact.log_ratio(max(a / b, (1 - b) / (1 - a))),
        )

    _p = _q = 0
    _one = (0.0, 0.0)

    @classmethod
    def from_epsilon(cls, epsilon: float, q: float = 0.5, *, values: Any = 2) -> BinaryResponse:
        """The most truthful response with at most this loss.

        With q = 1/2, the best choice if neither answer is known to be rare, p = (e^epsilon - 1) /
        (e^epsilon + 1).

        >>> BinaryResponse.from_epsilon(1.0).epsilon
        1.0
        """
        if values != 2:
            raise ParameterError("values", values, "must be 2 for BinaryResponse")
        return cls(_most_truthful(epsilon, q), q)

    def parameters(self) -> dict[str, Any]:
        return {"p": self.p, "q": self.q} | (
            {} if self.domain.numbered else {"labels": list(self.domain.labels)}
        )

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        truthful = source.coins(self._p, indices.size)
        made_up = source.coins(self._q, indices.size)
        # Bitwise, so that a report takes the same time whatever the answer is.
        return (truthful & indices.astype(np.uint8)) | (~truthful & 1 & made_up)

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        channel = self.channel()
        return solving.matrix_moments(counts, n, left_inverse(channel), channel)

    def channel(self) -> NDArray[np.float64]:
        """P[report, value]."""
        ones = np.array(self._one)
        return np.array([1 - ones, ones])

    def blanket(self) -> Blanket:
        return matrix_blanket(self.channel())

    def support(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        b, a = self._one
        return np.array([1 - b, a]), np.array([1 - a, b])


def _most_truthful(epsilon: float, q: float) -> float:
    growth = exact.exp(check_epsilon(epsilon)) - 1
    proportion = Fraction(exact.nearest(check_probability("q", q)), ONE)
    # p/b and p/(1 - a) may each grow to e^epsilon - 1.
    rarer = min(proportion, 1 - proportion)
    return exact.double_down(exact.down(growth * rarer / (1 + growth * rarer)))
