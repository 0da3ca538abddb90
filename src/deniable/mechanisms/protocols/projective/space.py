"""The points of a projective space over a prime field, as numbers.

A point is a line through the origin of F_q^t. It is written as the vector on it whose first nonzero
coordinate is 1, and numbered by that vector read as an integer in base q, least significant
coordinate last: the (q^r - 1)/(q - 1) points before q^r have fewer than r + 1 coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["ProjectiveSpace", "is_prime"]

_Integers = NDArray[np.int64]


def is_prime(number: int) -> bool:
    """Whether a small number is prime."""
    return number >= 2 and all(number % d for d in range(2, int(number**0.5) + 1))


@dataclass(frozen=True)
class ProjectiveSpace:
    """PG(t - 1, q), with the bilinear form x . y."""

    q: int
    t: int

    @property
    def n_points(self) -> int:
        """(q^t - 1)/(q - 1)."""
        return self.below(self.t)

    def below(self, dimensions: int) -> int:
        """The number of points of a subspace of so many dimensions; 0 for none."""
        return int((self.q**dimensions - 1) // (self.q - 1)) if dimensions > 0 else 0

    @cached_property
    def _powers(self) -> _Integers:
        return self.q ** np.arange(self.t - 1, -1, -1, dtype=np.int64)

    @cached_property
    def _firsts(self) -> _Integers:
        """The number of the first point with each number of coordinates."""
        return np.array([self.below(r) for r in range(self.t)], dtype=np.int64)

    @cached_property
    def _inverses(self) -> _Integers:
        return np.array([0, *(pow(x, -1, self.q) for x in range(1, self.q))], dtype=np.int64)

    def codes(self, points: NDArray[np.integer]) -> _Integers:
        """The vectors of numbered points, as integers in base q."""
        places = points.astype(np.int64)
        length = self._firsts.searchsorted(places, side="right") - 1
        return places - self._firsts[length] + self._powers[::-1][length]

    def vectors(self, codes: _Integers) -> _Integers:
        """One row of t coordinates for each integer."""
        return np.asarray(codes[:, None] // self._powers % self.q)

    def leads(self, vectors: _Integers) -> _Integers:
        """The place of the first nonzero coordinate of each row."""
        return np.asarray((vectors != 0).argmax(axis=1))

    def numbers(self, vectors: _Integers) -> _Integers:
        """The numbers of the points on which these vectors, none of them zero, lie."""
        lead = self.leads(vectors)
        scale = self._inverses[vectors[np.arange(len(vectors)), lead]]
        codes = (vectors * scale[:, None] % self.q) @ self._powers
        length = self.t - 1 - lead
        return np.asarray(codes - self._powers[::-1][length] + self._firsts[length])

    def orthogonal_sums(self, counts: _Integers) -> _Integers:
        """For every point x, the sum of the counts of all points y with x . y = 0.

        With f(sy) = counts[y] for all s from 1 to q - 1, the sum over y of f(y) w^(x . y), w a
        primitive q-th root of 1, is q times the wanted sum less the sum of all counts: one Fourier
        transform of q^t numbers, rounded to integers.
        """
        codes = self.codes(np.arange(self.n_points))
        extended = np.zeros(self.q**self.t)
        vectors = self.vectors(codes)
        for scale in range(1, self.q):
            extended[(vectors * scale % self.q) @ self._powers] = counts
        spectrum = np.fft.fftn(extended.reshape((self.q,) * self.t)).real.reshape(-1)
        sums = np.rint((spectrum[codes] + counts.sum()) / self.q)
        return np.asarray(sums, dtype=np.int64)
