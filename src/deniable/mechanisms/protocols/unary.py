"""Unary encoding: one bit per value, each bit randomized on its own (Wang et al. 2017, section
4.2).

A report is k packed bits. The bit of the true value is 1 with probability a, every other bit with
probability b. Two values differ in two bits, so the loss is epsilon = ln( a (1 - b) / (b (1 - a))
).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_double, check_epsilon
from deniable.errors import ParameterError, ReportFormatError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.bits import count_columns, flip_bits, put_bits, row_bytes
from deniable.mechanisms.blankets import Blanket, supporting_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.weights import bits_law, improbable_weight
from deniable.randomness import ONE, Source

__all__ = ["BitChannel", "OptimizedUnary", "SymmetricUnary", "UnaryEncoding"]


class BitChannel(NamedTuple):
    """The channel of reports that support labels."""

    a: float
    """P(supported | the label is true)."""
    b: float
    """P(supported | it is not)."""


class UnaryReports(Mechanism):
    """A report is one bit per value: the bits' layout, their counting and their estimate, however
    they were drawn."""

    independent_bits: ClassVar[bool] = True
    """Given the value, the bits are independent."""

    @abstractmethod
    def channel(self) -> BitChannel:
        """The pair (a, b): P(bit is 1 | its value is true) and P(… | it is not)."""

    @property
    def layout(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return np.dtype(np.uint8), (row_bytes(len(self.domain)),)

    @property
    def cells(self) -> int:
        return len(self.domain)

    def check(self, data: NDArray[Any]) -> None:
        spare = len(self.domain) % 8
        if spare and (data[:, -1] >> spare).any():
            raise ReportFormatError(f"a report of {len(self.domain)} bits has bits set beyond them")

    def count(self, data: NDArray[Any]) -> NDArray[np.int64]:
        return count_columns(data, len(self.domain))

    def supports(self, data: NDArray[Any]) -> NDArray[np.uint8]:
        """One row per report, one column per label: 1 where the report supports the label."""
        return np.unpackbits(data, axis=1, count=len(self.domain), bitorder="little")

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        return solving.pure_moments(counts, n, *self.channel())

    def blanket(self) -> Blanket:
        """A report may also come from an answer that has none of the labels."""
        a, b = self.channel()
        return supporting_blanket(a / b, (1 - a) / (1 - b), only=b * (1 - b), both=b * b, base=True)

    def doubts(
        self, counts: NDArray[np.int64], n: int, unlabelled: bool = False
    ) -> tuple[str, ...]:
        return self.doubts_of_sets(counts, n, unlabelled, 1)

    def doubts_of_sets(
        self, counts: NDArray[np.int64], n: int, unlabelled: bool, ones: int
    ) -> tuple[str, ...]:
        """The same for answers with up to `ones` labels each."""
        bits = n * len(self.domain)
        fewest, most = (
            bits_law(bits, true, *self.channel()) for true in (0 if unlabelled else n, n * ones)
        )
        return improbable_weight("ones", int(counts.sum()), n, fewest, most)

    def equal_reports(self) -> tuple[float, float] | None:
        a, b = self.channel()
        return 1.0, (a * a + (1 - a) ** 2) * (b * b + (1 - b) ** 2) ** (len(self.domain) - 1)

    def support(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        a, b = self.channel()
        return np.full(len(self.domain), a), np.full(len(self.domain), b)


class UnaryMechanism(UnaryReports):
    """Bits drawn in one step, with a protocol's a and b."""

    _a: int
    _b: int

    def _derive(self, values: int | Iterable[Hashable], a: int, b: int) -> None:
        """Set the numerators over 2**64 of a and b and what derives from them."""
        if not 0 < b < a < ONE:
            raise ParameterError("a", a / ONE, f"must exceed b = {b / ONE!r}")
        domain = Domain.of(values)
        self._set(
            domain=domain,
            values=domain.labels,
            _a=a,
            _b=b,
            epsilon=exact.log_ratio(self._ratio(a, b)),
        )

    @staticmethod
    def _ratio(a: int, b: int) -> Fraction:
        return Fraction(a * (ONE - b), b * (ONE - a))

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[np.uint8]:
        """One row per value; an index of -1 means "none of the labels", whose bits are all drawn
        with b.

        Against a one-hot answer it changes one bit, not two, so the loss stays within epsilon.
        """
        rows = source.bit_rows(self._b, indices.size, len(self.domain))
        coins = source.coins(self._a, indices.size)
        if self._a == ONE // 2:
            flip_bits(rows, indices, coins)  # whatever a bit was, flipped by a fair coin it is one
        else:
            put_bits(rows, indices, coins)
        return rows

    def draw_sets(self, sets: NDArray[np.intp], source: Source) -> NDArray[np.uint8]:
        """One row per person, who may have several labels: a row of `sets` has distinct indices,
        padded with -1.

        The bits of all labels that a person has are drawn with a, the others with b: see
        :meth:`answer_epsilon`.
        """
        rows = source.bit_rows(self._b, len(sets), len(self.domain))
        for labels in sets.T:
            coins = source.coins(self._a, len(sets))
            put = flip_bits if self._a == ONE // 2 else put_bits
            put(rows, np.ascontiguousarray(labels), coins)
        return rows

    def answer_epsilon(self, ones: int) -> float:
        """The loss of an answer with up to `ones` labels: another differs in up to 2 `ones` bits
        (Quoc 2017, appendix A).

        >>> SymmetricUnary(4, 1.0).answer_epsilon(3)
        3.0
        """
        return exact.log_ratio(self._ratio(self._a, self._b), ones)

    def channel(self) -> BitChannel:
        return BitChannel(self._a / ONE, self._b / ONE)


@dataclass(frozen=True, eq=False, repr=False)
class UnaryEncoding(UnaryMechanism):
    """Unary encoding with your own probabilities: a true bit is reported 1 with probability `a`,
    any other with `b` < `a`.

    >>> round(UnaryEncoding(4, a=0.5, b=0.25).epsilon, 4)
    1.0986
    """

    values: Any
    a: float
    b: float

    def __post_init__(self) -> None:
        a, b = check_double("a", self.a), check_double("b", self.b)
        if a <= b:
            raise ParameterError("a", self.a, f"must exceed b = {self.b!r}")
        self._set(a=float(a), b=float(b))
        self._derive(self.values, exact.nearest(a), exact.nearest(b))

    @classmethod
    def from_epsilon(cls, epsilon: float, *, values: Any) -> UnaryEncoding:
        """With coins halfway between the symmetric and the optimized ones.

        >>> 0.9999 < UnaryEncoding.from_epsilon(1.0, values=4).epsilon <= 1
        True
        """
        optimized, symmetric = (
            kind(values, epsilon).channel() for kind in (OptimizedUnary, SymmetricUnary)
        )
        b = Fraction((optimized.b + symmetric.b) / 2)
        growth = exact.exp(epsilon)
        return cls(
            values, exact.double_down(exact.down(growth * b / (1 - b + growth * b))), float(b)
        )

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "a": self.a, "b": self.b}


@dataclass(frozen=True, eq=False, repr=False)
class SymmetricUnary(UnaryMechanism):
    """Symmetric unary encoding: ones and zeros are kept equally often (basic one-time RAPPOR).

    a = e^(epsilon/2) / (e^(epsilon/2) + 1), b = 1 - a.

    >>> SymmetricUnary(["left", "right"], 1.0).epsilon
    1.0
    """

    values: Any
    epsilon: float

    def __post_init__(self) -> None:
        requested_epsilon = check_epsilon(self.epsilon)
        b = exact.up(1 / (exact.exp(Fraction(requested_epsilon) / 2) + 1))
        self._set(requested_epsilon=requested_epsilon)
        self._derive(self.values, ONE - b, b)

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon}


@dataclass(frozen=True, eq=False, repr=False)
class OptimizedUnary(UnaryMechanism):
    """Optimized unary encoding: a = 1/2, b = 1/(e^epsilon + 1), the least variance a unary protocol
    can have for rare values.

    Variance of a proportion f: 4 e^epsilon / (n (e^epsilon - 1)^2) + f/n, whatever k is. Wang,
    Blocki, Li and Jha, "Locally differentially private protocols for frequency estimation", USENIX
    Security 2017, 4.2.

    >>> from deniable import seeded_source
    >>> colours = OptimizedUnary(["red", "green", "blue"], epsilon=2.0)
    >>> reports = colours.privatize(["red"] * 700 + ["green"] * 300, source=seeded_source(1))
    >>> colours.estimate(reports).labels
    ('red', 'green', 'blue')
    """

    values: Any
    epsilon: float

    def __post_init__(self) -> None:
        requested_epsilon = check_epsilon(self.epsilon)
        self._set(requested_epsilon=requested_epsilon)
        self._derive(self.values, ONE // 2, exact.up(1 / (exact.exp(requested_epsilon) + 1)))

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon}
