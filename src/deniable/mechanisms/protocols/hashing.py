"""Local hashing: hash the value into a few buckets with a randomly drawn hash function, and
randomize the bucket.

The hash functions are multiply-shift (Dietzfelbinger, "Universal hashing and k-wise independent
random variables via integer arithmetic without primes", STACS 1996; Thorup, "High speed hashing for
integers and strings", arXiv 1504.06804): exactly pairwise independent, and a support count costs a
multiplication, an addition and a comparison of 32-bit words.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, whole
from deniable.errors import ReportFormatError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.blankets import Blanket, supporting_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.protocols.unary import BitChannel
from deniable.mechanisms.pure import PureMechanism, rare_variance
from deniable.randomness import ONE, Source

__all__ = ["LocalHashing", "MultiplyShift"]

LARGEST_G = 1 << 16
# The leading binary digits of the fractional parts of the golden ratio, pi and e: any numbers would
# do.
_MIXERS = (0x9E3779B97F4A7C15, 0x243F6A8885A308D3, 0xB7E151628AED2A6A)
# Users per chunk: three arrays of 64 KiB stay in a core's cache and outweigh the cost of a NumPy
# call.
_CHUNK = 16_384


@dataclass(frozen=True)
class MultiplyShift:
    """The hash functions h(v) = floor(g top / 2^l), with top the upper l bits of alpha c(v) + beta
    mod 2^w.

    alpha and beta are uniform w-bit words and c(v) is a public code of u bits. Since w = u + l - 1,
    the tops of two different values are independent and uniform. A bucket takes the floor or the
    ceiling of 2^l / g of the 2^l tops.

    Pairwise independence says nothing about triples: values whose codes form an arithmetic
    progression collide together more often than by chance. So c scatters the values over all u
    bits, one to one, and few of them form such a progression.
    """

    word: np.dtype[Any]
    g: int

    @classmethod
    def for_values(cls, k: int, g: int) -> MultiplyShift:
        """The family with the smallest words that has codes to spare for `k` values."""
        return cls(np.dtype(np.uint32 if k <= 1 << 16 else np.uint64), g)

    @property
    def word_bits(self) -> int:
        return 8 * self.word.itemsize

    @property
    def code_bits(self) -> int:
        """u: half the word."""
        return self.word_bits // 2

    @property
    def top_bits(self) -> int:
        """l: half the word and one more."""
        return self.word_bits // 2 + 1

    @property
    def collision(self) -> Fraction:
        """P(h(u) = h(v)) of two different values: 1/g, or slightly more if g does not divide
        2^l."""
        small, larger = divmod(1 << self.top_bits, self.g)
        return Fraction(
            larger * (small + 1) ** 2 + (self.g - larger) * small**2, 1 << 2 * self.top_bits
        )

    def codes(self, values: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """c(v): a fixed bijection on u bits, composed of invertible steps."""
        half, mask = np.uint64(self.code_bits // 2), np.uint64((1 << self.code_bits) - 1)
        code = values.astype(np.uint64)
        for digits in _MIXERS:
            mixer = np.uint64(digits >> (64 - self.code_bits) | 1)
            code *= mixer
            code &= mask
            code ^= code >> half
        return code.astype(self.word)

    def hash(
        self, alpha: NDArray[Any], beta: NDArray[Any], values: NDArray[np.integer[Any]]
    ) -> NDArray[np.int64]:
        """The bucket of each value under its own hash function."""
        top = (alpha * self.codes(values) + beta) >> self.word.type(self.word_bits - self.top_bits)
        bucket: NDArray[np.int64] = (
            (top.astype(np.uint64) * np.uint64(self.g)) >> np.uint64(self.top_bits)
        ).astype(np.int64)
        return bucket

    def _edges(self) -> NDArray[Any]:
        """Where the buckets begin among the words; the last entry, where the last bucket ends, is
        2^w, which is 0."""
        tops = [-(-(y << self.top_bits) // self.g) for y in range(self.g)]
        return np.array(
            [top << (self.word_bits - self.top_bits) for top in tops] + [0], dtype=self.word
        )

    def count(
        self, alpha: NDArray[Any], beta: NDArray[Any], buckets: NDArray[Any], k: int
    ) -> NDArray[np.int64]:
        """For each of the values 0 … k - 1, how many hash functions map it to the bucket reported
        with them."""
        codes = self.codes(np.arange(k))
        counts = np.zeros(k, dtype=np.int64)
        word = np.empty(_CHUNK, dtype=self.word)
        inside = np.empty(_CHUNK, dtype=bool)
        for a, b, limit in self._chunks(alpha, beta, buckets):
            w, hit = word[: a.size], inside[: a.size]
            for v in range(k):
                np.multiply(a, codes[v, ...], out=w)
                np.add(w, b, out=w)
                np.less(w, limit, out=hit)
                counts[v] += np.count_nonzero(hit)
        return counts

    def _chunks(
        self, alpha: NDArray[Any], beta: NDArray[Any], buckets: NDArray[Any]
    ) -> Iterator[tuple[NDArray[Any], ...]]:
        """Multiplier, offset and limit such that "v lies in the bucket" is one comparison: alpha
        c(v) + offset < limit."""
        edges = self._edges()
        start, size = edges[:-1], np.diff(edges)
        for first in range(0, alpha.size, _CHUNK):
            part = slice(first, first + _CHUNK)
            y = buckets[part]
            yield alpha[part].astype(self.word), beta[part].astype(self.word) - start[y], size[y]


@dataclass(frozen=True, eq=False, repr=False)
class LocalHashing(PureMechanism):
    """Optimized local hashing: a hash function drawn by the user, and the value's bucket under it,
    randomized by direct encoding.

    a = e^epsilon / (e^epsilon + g - 1) and b = 1/g; more exactly b = a c + (1 - c)(1 - a)/(g - 1),
    with c the probability that two values collide, which is 1/g where g is a power of two and else
    above it by less than g / 2^34. Variance of a proportion f: b(1-b)/(n(a-b)^2) +
    f(1-a-b)/(n(a-b)) + f(1-f)/n. The first part is least where g = e^epsilon + 1, there 4 e^epsilon
    / (n (e^epsilon - 1)^2); the default is the whole number, up to 65,536, with the least. Wang,
    Blocki, Li and Jha, "Locally differentially private protocols for frequency estimation", USENIX
    Security 2017, section 4.

    A report is (alpha, beta, y): 9 bytes up to k = 65,536 and g = 256. Estimates and variances need
    only pairwise independence and are exact. The covariance, -pi_u pi_v / n, assumes hash functions
    independent on triples, which is only nearly true here: it is right on average over pairs, but a
    pair can be off if its codes form an arithmetic progression with that of a common value.

    >>> from deniable import seeded_source
    >>> words = LocalHashing(["apple", "pear", "plum"], epsilon=1.0)
    >>> words.g
    4
    >>> len(words.privatize(["plum"] * 10, source=seeded_source(1)).data.tobytes())
    90
    """

    values: Any
    epsilon: float
    g: int | None = None

    _family: MultiplyShift = field(init=False)
    _truthful: int = field(init=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        requested_epsilon = check_epsilon(self.epsilon)
        g = _best_g(requested_epsilon) if self.g is None else _check_g(self.g)
        growth = exact.exp(requested_epsilon)
        self._set(
            domain=domain,
            values=domain.labels,
            requested_epsilon=requested_epsilon,
            g=g,
            _truthful=exact.down(growth / (growth + g - 1)),
        )
        self._derive(MultiplyShift.for_values(len(domain), g))

    def _derive(self, family: MultiplyShift) -> None:
        """Set the hash functions and what derives from them."""
        a = Fraction(self._truthful, ONE)
        other = (1 - a) / (family.g - 1)
        b = a * family.collision + other * (1 - family.collision)
        ratio = a / other
        self._set(
            _family=family,
            _pair=BitChannel(float(a), float(b)),
            epsilon=exact.log_ratio(max(ratio, 1 / ratio)),
        )

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon, "g": self.g}

    @property
    def layout(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        word = self._family.word.newbyteorder("<")
        bucket = np.min_scalar_type(self._family.g - 1).newbyteorder("<")
        return np.dtype([("alpha", word), ("beta", word), ("y", bucket)]), ()

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        return self.answer(self.seeds(indices.size, source), indices, source)

    def seeds(self, n: int, source: Source) -> NDArray[Any]:
        """`n` hash functions: rows of alpha and beta."""
        out = np.empty((n, 2), dtype=self._family.word)
        source.fill(out.reshape(-1).view(np.uint8))
        return out

    def answer(
        self, seeds: NDArray[Any], indices: NDArray[np.intp], source: Source
    ) -> NDArray[Any]:
        """The reports of these values under these hash functions: the only draws that depend on a
        value."""
        rows = np.empty(indices.size, dtype=self.layout[0])
        rows["alpha"], rows["beta"] = seeds.T
        bucket = self._family.hash(seeds[:, 0], seeds[:, 1], indices)
        lie = 1 - source.coins(self._truthful, indices.size).astype(np.int64)
        other = source.below(self._family.g - 1, indices.size)
        other += other >= bucket  # the buckets except the true one, in order
        rows["y"] = bucket + lie * (other - bucket)
        return rows

    def check(self, data: NDArray[Any]) -> None:
        if data.size and data["y"].max() >= self._family.g:
            raise ReportFormatError(f"a report's bucket lies outside 0 to {self._family.g - 1}")

    def count(self, data: NDArray[Any]) -> NDArray[np.int64]:
        return self._family.count(data["alpha"], data["beta"], data["y"], len(self.domain))

    def supports(self, data: NDArray[Any]) -> NDArray[np.uint8]:
        values = np.arange(len(self.domain))
        buckets = self._family.hash(data["alpha"][:, None], data["beta"][:, None], values)
        return np.asarray(buckets == data["y"][:, None], dtype=np.uint8)

    def blanket(self) -> Blanket:
        g, a, collision = self._family.g, self._pair.a, float(self._family.collision)
        return supporting_blanket(
            a * g, (1 - a) * g / (g - 1), only=(1 - collision) / g, both=collision / g
        )

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        return solving.pure_moments(counts, n, *self._pair)


def _best_g(epsilon: float) -> int:
    """The number of buckets with the least variance for rare values, among those available."""
    growth = math.exp(epsilon)
    near = min(math.floor(growth + 1), LARGEST_G - 1)
    return min((near, near + 1), key=lambda g: rare_variance(growth / (growth + g - 1), 1 / g))


def _check_g(g: Any) -> int:
    return whole("g", g, 2, LARGEST_G)
