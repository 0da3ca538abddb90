"""Random projection: one randomized sign of a public random matrix."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, whole
from deniable.errors import ParameterError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.bits import row_bytes
from deniable.mechanisms.blankets import Blanket, supporting_blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.reports import require_reports
from deniable.mechanisms.values import IndexReports
from deniable.randomness import ONE, Source, seeded_source

__all__ = ["RandomProjection"]

_Floats = NDArray[np.float64]

LARGEST_MATRIX = 1 << 32
"""The most signs in a matrix: 512 MiB."""
LARGEST_EXACT = 4096
"""The most values for which the Gram matrix of the columns is inverted."""
_BLOCK_SIGNS = 1 << 24
_ROWS_A_VALUE = 16
_SMALLEST_DEFAULT, _LARGEST_DEFAULT = 1 << 10, 1 << 16
_SURELY_INDEPENDENT = 1 << 10


@dataclass(frozen=True, eq=False, repr=False)
class RandomProjection(IndexReports):
    """A report of one random row and one sign: the frequency oracle of Bassily and Smith (STOC
    2015).

    Phi is a public m x k matrix with entries +-1/sqrt(m). The user draws a row r and reports it
    with the sign of Phi[r, v], kept with probability e^epsilon / (e^epsilon + 1). The report is the
    number 2 r + 1 for a plus and 2 r for a minus.

    With c = (e^epsilon + 1) / (e^epsilon - 1) and s the sign reported, c s sqrt(m) Phi[r, :] has
    the expectation G pi, where G = Phi' Phi. There are two estimators:

    * "paper": the mean of that, with covariance (c^2 G - p p') / n around p = G pi. The columns of
      Phi are only nearly orthogonal, so it is off by an amount of order 1/sqrt(m), the `floor`,
      which neither n nor epsilon removes.
    * "least squares": G^-1 times it. Phi is known, so this inverts the channel: unbiased, with
      covariance (c^2 G^-1 - pi pi') / n. It costs a factor of about 1 / (1 - k/m) in variance, so m
      is by default the power of two from 16 k on, at least 1,024 and at most 65,536. It is the
      default estimator, unless m < k, or k > 4,096, or the columns of a tiny m are dependent: then
      only the paper's is available, and the Estimate says so.

    >>> projection = RandomProjection(100, epsilon=1.0)
    >>> projection.m, projection.n_outputs
    (2048, 4096)
    >>> round(projection.floor, 4)
    0.0221
    """

    values: Any
    epsilon: float
    m: int | None = None

    _rows: int = field(init=False)
    _truthful: int = field(init=False)

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        requested_epsilon = check_epsilon(self.epsilon)
        m = _default_rows(len(domain)) if self.m is None else _check_rows(self.m, len(domain))
        growth = exact.exp(requested_epsilon)
        truthful = exact.down(growth / (growth + 1))
        self._set(
            domain=domain,
            values=domain.labels,
            requested_epsilon=requested_epsilon,
            m=m,
            _rows=m,
            _truthful=truthful,
        )
        self._set(epsilon=exact.log_ratio(Fraction(truthful, ONE - truthful)))

    def parameters(self) -> dict[str, Any]:
        return {"values": self.domain.spec(), "epsilon": self.requested_epsilon, "m": self.m}

    @property
    def n_outputs(self) -> int:
        return 2 * self._rows

    @property
    def floor(self) -> float:
        """1/sqrt(m), the root mean square of the inner product of two columns of Phi.

        Over random matrices, the bias of the paper's estimate of a proportion has the root mean
        square floor times the root of the sum of the squares of the other proportions: at most the
        floor.
        """
        return 1 / math.sqrt(self._rows)

    @cached_property
    def _signs(self) -> NDArray[np.uint8]:
        """m rows of k packed bits, 1 for a plus: keystream under a key made of m and k, so it is
        the same everywhere."""
        k = len(self.domain)
        packed = np.empty(self._rows * row_bytes(k), dtype=np.uint8)
        seeded_source(f"random projection of {k} values on {self._rows} rows").fill(packed)
        return packed.reshape(self._rows, -1)

    def _blocks(self, dtype: type[np.floating[Any]]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """sqrt(m) Phi, plus and minus one, some rows at a time."""
        k = len(self.domain)
        step = max(1, _BLOCK_SIGNS // k)
        for first in range(0, self._rows, step):
            part = slice(first, min(first + step, self._rows))
            signs = np.unpackbits(self._signs[part], axis=1, count=k, bitorder="little").astype(
                dtype
            )
            signs *= 2
            signs -= 1
            yield part, signs

    @cached_property
    def _gram(self) -> _Floats:
        """G = Phi' Phi. In single precision sums of up to 2^24 signs are exact, and m is no
        larger."""
        k = len(self.domain)
        total = np.zeros((k, k), dtype=np.float32)
        for _, signs in self._blocks(np.float32):
            total += signs.T @ signs
        return total.astype(np.float64) / self._rows

    @cached_property
    def _inverse(self) -> _Floats:
        return np.asarray(np.linalg.inv(self._gram), dtype=np.float64)

    @cached_property
    def invertible(self) -> bool:
        """Whether Phi determines the proportions, and is small enough to be inverted."""
        k, m = len(self.domain), self._rows
        if m < k or k > LARGEST_EXACT:
            return False
        # Columns of 1,024 random signs and more are never dependent: the odds are below k^2 /
        # 2^1024.
        return m >= _SURELY_INDEPENDENT or bool(np.linalg.matrix_rank(self._gram) == k)

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[Any]:
        row = source.below(self._rows, indices.size)
        lie = 1 - source.coins(self._truthful, indices.size)
        place = row * self._signs.shape[1] + (indices >> 3)
        plus = self._signs.reshape(-1)[place] >> (indices & 7).astype(np.uint8) & 1
        report: NDArray[Any] = (2 * row + (plus ^ lie)).astype(self.layout[0])
        return report

    def estimate(
        self, reports: Any, population: int | None = None, estimator: str | None = None
    ) -> solving.Estimate:
        """What reports say about the population, by "least squares" or the "paper" estimator: see
        the class."""
        chosen = self._estimator(estimator)
        tally = self.gather(reports)
        n = require_reports(tally.n)
        population = solving.check_population(population, n)
        moments = self._solve(tally.counts, n, chosen)
        return self.describe(
            solving.finite(moments, population), n, population, self._notes(chosen)
        )

    def _estimator(self, requested: str | None) -> str:
        if requested not in (None, "least squares", "paper"):
            raise ParameterError("estimator", requested, 'must be "least squares" or "paper"')
        if requested == "least squares" and not self.invertible:
            raise ParameterError(
                "estimator",
                requested,
                f"needs m = {self._rows} independent rows for k = {len(self.domain)} values, at"
                f" most {LARGEST_EXACT}",
            )
        return requested or ("least squares" if self.invertible else "paper")

    def _notes(self, estimator: str) -> Iterable[str]:
        if estimator == "paper":
            why = (
                ""
                if self.invertible
                else f"; m = {self._rows} rows leave no other for k = {len(self.domain)} values"
            )
            yield (
                f"the paper's estimator{why}: off by up to about {self.floor:.2g} per proportion"
                " (1/sqrt(m)) for any number of reports; intervals do not cover that"
            )

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        return self._solve(counts, n, self._estimator(None))

    def _solve(self, counts: NDArray[np.int64], n: int, estimator: str) -> solving.Moments:
        scale = ONE / (2 * self._truthful - ONE)
        surplus = (counts[1::2] - counts[::2]) * (scale / n)
        proportions = np.zeros(len(self.domain))
        for part, signs in self._blocks(np.float64):
            proportions += surplus[part] @ signs
        # E[y^2] is the same for both signs and all rows, so the second moment is known and not
        # estimated.
        if estimator == "paper":
            second = self._gram if proportions.size <= solving.largest_covariance() else None
            spread = np.ones(proportions.size)
        else:
            proportions = self._inverse @ proportions
            second, spread = self._inverse, np.diagonal(self._inverse)
        each = max(n - 1, 1)
        # No proportion exceeds 1, but the estimate from a few reports can, by so much that the
        # variance would be negative.
        variance = (scale**2 * spread - np.minimum(proportions**2, 1)) / each
        covariance = None
        if second is not None and proportions.size <= solving.largest_covariance():
            covariance = (scale**2 * second - np.outer(proportions, proportions)) / each
            np.fill_diagonal(covariance, variance)
        return proportions, variance, covariance

    def blanket(self) -> Blanket:
        """The two columns of Phi that agree least are the easiest to distinguish; among many
        columns, two may never agree."""
        kept, k = self._truthful / ONE, len(self.domain)
        agree = (
            (1 + float((self._gram + np.eye(k)).min())) / 2
            if k <= solving.LARGEST_COVARIANCE
            else 0.0
        )
        return supporting_blanket(2 * kept, 2 * (1 - kept), only=(1 - agree) / 2, both=agree / 2)

    def contribution_ranges(self) -> _Floats:
        return self._ranges

    @cached_property
    def _ranges(self) -> _Floats:
        """A row contributes c G^-1 times its signs with one report, and the opposite with the
        other."""
        largest = np.ones(len(self.domain))
        if self.invertible:
            for _, signs in self._blocks(np.float64):
                np.maximum(largest, np.abs(signs @ self._inverse).max(axis=0), out=largest)
        return largest * (2 * ONE / (2 * self._truthful - ONE))

    def channel(self) -> _Floats:
        """P[report, value]."""
        kept = self._truthful / ONE
        matrix = np.empty((self._rows, 2, len(self.domain)))
        for part, signs in self._blocks(np.float64):
            matrix[part, 0] = np.where(signs < 0, kept, 1 - kept) / self._rows
            matrix[part, 1] = np.where(signs > 0, kept, 1 - kept) / self._rows
        return matrix.reshape(2 * self._rows, -1)


def _default_rows(k: int) -> int:
    wanted = min(max(_ROWS_A_VALUE * k, _SMALLEST_DEFAULT), _LARGEST_DEFAULT)
    affordable = LARGEST_MATRIX // k
    return min(1 << (wanted - 1).bit_length(), 1 << (affordable.bit_length() - 1))


def _check_rows(m: Any, k: int) -> int:
    whole("m", m, 2, 1 << 24)
    if m * k > LARGEST_MATRIX:
        raise ParameterError(
            "m", m, message=f"m times k = {m} * {k} must be at most {LARGEST_MATRIX} signs"
        )
    return int(m)
