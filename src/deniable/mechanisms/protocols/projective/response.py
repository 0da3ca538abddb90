"""Projective geometry response: report a point that lies in your value's hyperplane more often than
by chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, whole
from deniable.errors import ParameterError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.blankets import Blanket, supporting_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.protocols.projective.space import ProjectiveSpace, is_prime
from deniable.mechanisms.protocols.unary import BitChannel
from deniable.mechanisms.pure import PureMechanism
from deniable.mechanisms.values import IndexReports
from deniable.randomness import ONE, Source

__all__ = ["ProjectiveResponse", "projective_variance"]

_LARGEST_TRANSFORM = 1 << 25
"""The most vectors of a space: counting transforms as many numbers."""


@dataclass(frozen=True, eq=False, repr=False)
class ProjectiveResponse(IndexReports, PureMechanism):
    """A report of about log2(k) bits with nearly the least error possible, at every epsilon, and
    counting that does not grow with the number of reports.

    Values are points of the projective space of t dimensions over the field of q elements, which
    has K = (q^t - 1)/(q - 1) >= k points. The report is a point y: each of the c = (q^(t-1) - 1)/(q
    - 1) points with x . y = 0 is e^epsilon times as likely as each of the others, x being the value's
    point. So a = c e^epsilon/(c e^epsilon + K - c), and as two hyperplanes have c' = (q^(t-2) -
    1)/(q - 1) points in common, another value is supported with b = (a c' + (1 - a)(c - c') c/(K -
    c))/c. Feldman, Nelson, Nguyen and Talwar, "Private frequency estimation via projective
    geometry", ICML 2022.

    A hyperplane has about 1/q of all points, and 1/(e^epsilon + 1) would be best: q is the prime
    with the least variance for k equally frequent values, unless given. Powers of primes, which the
    paper allows too, are not offered.

    >>> from deniable import seeded_source
    >>> words = ProjectiveResponse(20_000, epsilon=3.0)
    >>> words.q, words.t, words.n_outputs
    (23, 5, 292561)
    >>> len(words.privatize([0, 19_999], source=seeded_source(2)).data.tobytes())
    8
    """

    stated: ClassVar[tuple[str, ...]] = ("q",)

    values: Any
    epsilon: float
    q: int | None = None

    t: int = field(init=False)
    _truthful: int = field(init=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        requested_epsilon = check_epsilon(self.epsilon)
        k = len(domain)
        q = best_field(k, requested_epsilon) if self.q is None else _check_field(self.q, k)
        space = ProjectiveSpace(q, _dimensions(q, k))
        points, near = space.n_points, space.below(space.t - 1)
        common = space.below(space.t - 2)
        growth = exact.exp(requested_epsilon)
        truthful = exact.down(near * growth / (near * growth + points - near))
        a = Fraction(truthful, ONE)
        b = (a * common + (1 - a) * (near - common) * Fraction(near, points - near)) / near
        ratio = a * (points - near) / ((1 - a) * near)
        self._set(
            domain=domain,
            values=domain.labels,
            requested_epsilon=requested_epsilon,
            q=q,
            t=space.t,
            _space=space,
            _truthful=truthful,
            _pair=BitChannel(float(a), float(b)),
            epsilon=exact.log_ratio(max(ratio, 1 / ratio)),
        )

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon, "q": self.q}

    _space = ProjectiveSpace(2, 2)

    @property
    def n_outputs(self) -> int:
        """K, the number of points."""
        return self._space.n_points

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        space, n = self._space, indices.size
        others = space.q ** (space.t - 1)
        near = source.coins(self._truthful, n).astype(np.int64)
        # All coordinates but the one where the value's point has its leading 1; that one is then
        # solved for x . y = 0, which needs another nonzero coordinate, or for x . y = 1.
        drawn = near * (source.below(others - 1, n) + 1)
        drawn += (1 - near) * source.below(others, n)
        point = space.vectors(space.codes(indices))
        lead = space.leads(point)
        free = ProjectiveSpace(space.q, space.t - 1).vectors(drawn)
        row = np.arange(n)
        shifted = np.arange(space.t) - (np.arange(space.t) > lead[:, None])
        vector = free[row[:, None], np.minimum(shifted, space.t - 2)]
        vector[row, lead] = 0
        vector[row, lead] = (1 - near - (vector * point).sum(axis=1)) % space.q
        return space.numbers(vector).astype(self.layout[0])

    def supports(self, data: NDArray[Any]) -> NDArray[np.uint8]:
        space = self._space
        values = space.vectors(space.codes(np.arange(len(self.domain))))
        products = space.vectors(space.codes(data)) @ values.T
        return np.asarray(products % space.q == 0, dtype=np.uint8)

    def blanket(self) -> Blanket:
        space, a = self._space, self._pair.a
        points, near, common = space.n_points, space.below(space.t - 1), space.below(space.t - 2)
        return supporting_blanket(
            a * points / near,
            (1 - a) * points / (points - near),
            only=(near - common) / points,
            both=common / points,
        )

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        k, (a, b) = len(self.domain), self._pair
        supported = self._space.orthogonal_sums(counts)[:k]
        with solving.covariances_up_to(0):
            proportions, variance, _ = solving.pure_moments(supported, n, a, b)
        if k > solving.largest_covariance():
            return proportions, variance, None
        seen = np.flatnonzero(counts)
        sets = self.supports(seen).astype(np.float64)
        rate = supported / n
        covariance = (sets.T * (counts[seen] / n)) @ sets - np.outer(rate, rate)
        covariance /= (a - b) ** 2 * max(n - 1, 1)
        np.fill_diagonal(covariance, variance)
        return proportions, variance, covariance


def _dimensions(q: int, k: int) -> int:
    """The fewest dimensions, at least 2, with a point for each value."""
    t = 2
    while ProjectiveSpace(q, t).n_points < k:
        t += 1
    return t


def projective_variance(k: int, q: int, growth: Fraction) -> Fraction:
    """n times the mean variance that the coins give the proportions of k equally frequent
    values."""
    space = ProjectiveSpace(q, _dimensions(q, k))
    points, near, common = space.n_points, space.below(space.t - 1), space.below(space.t - 2)
    p = 1 / (near * growth + points - near)
    a, b = near * growth * p, (common * growth + near - common) * p
    return (b * (1 - b) * (k - 1) + a * (1 - a)) / (k * (a - b) ** 2)


def _fields(k: int, growth: Fraction) -> Iterator[int]:
    """The primes worth trying: up to four times the best one in theory, and the first that makes a
    plane of it, where a report is one of the values."""
    largest = min(int(4 * (growth + 1)), k, isqrt(_LARGEST_TRANSFORM)) + 3
    yield from (q for q in range(2, largest) if is_prime(q))
    yield next(q for q in range(max(k - 1, 2), 2 * k + 3) if is_prime(q))


@lru_cache(maxsize=256)
def best_field(k: int, epsilon: float) -> int:
    """The prime with the least :func:`projective_variance` among those whose space can be counted.

    >>> best_field(1024, 3.0)
    19
    """
    growth = exact.exp(epsilon)
    fits = [q for q in _fields(k, growth) if q ** _dimensions(q, k) <= _LARGEST_TRANSFORM]
    if not fits:
        raise ParameterError(
            "values", k, "are too many to be points of a space that can be counted"
        )
    return min(fits, key=lambda q: projective_variance(k, q, growth))


def _check_field(q: object, k: int) -> int:
    number = whole("q", q, 2, 1 << 24)
    if not is_prime(number):
        raise ParameterError("q", q, "must be a prime number")
    if number ** _dimensions(number, k) > _LARGEST_TRANSFORM:
        raise ParameterError("q", q, f"makes too large a space for {k} values")
    return number
