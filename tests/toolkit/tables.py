"""Simulated tables: contingency tensors of reports drawn straight from the exact channel, thousands
of them in a moment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import Estimate, Mechanism, Table
from deniable.estimation.tables.counted_cells import CountedCellErrors
from deniable.matrices import left_inverse

Floats = NDArray[np.float64]


class Outcomes:
    """A mechanism as a matrix of outcomes by labels, with what each outcome contributes to the
    labels.

    A unary mechanism of k labels has 2**k outcomes: the same estimator as from its bits
    (tests/unit/estimation/tables/test_tables.py holds that).
    """

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        channel = mechanism.channel()
        if isinstance(channel, np.ndarray):
            self.channel: Floats = channel
            self.inverse: Floats = left_inverse(channel)
            return
        a, b = channel
        k = len(mechanism.labels)
        bits = np.arange(2**k)[:, None] >> np.arange(k) & 1
        chance = np.where(np.eye(k, dtype=bool), a, b)
        self.channel = np.prod(np.where(bits[:, None, :] == 1, chance, 1 - chance), axis=2)
        contribution = (bits - b) / (a - b)
        self.inverse = (contribution + (1 - contribution.sum(axis=1, keepdims=True)) / k).T


def along(tensor: Floats, matrices: Sequence[Floats]) -> Floats:
    """The tensor with each axis multiplied by its matrix, by way of the Kronecker product that the
    library avoids."""
    whole: Any = np.ones((1, 1))
    for matrix in matrices:
        whole = np.kron(whole, matrix)
    shape = [len(matrix) for matrix in matrices]
    return np.asarray((whole @ tensor.reshape(-1)).reshape(shape), dtype=np.float64)


class Crowds:
    """Many crowds of n people with the same true shares, each attribute randomized by itself."""

    def __init__(self, mechanisms: dict[str, Mechanism], truth: Floats, n: int, seed: int) -> None:
        self.axes = tuple(mechanisms)
        self.labels = tuple(m.labels for m in mechanisms.values())
        self.outcomes = [Outcomes(m) for m in mechanisms.values()]
        self.truth, self.n = truth, n
        self.rate = along(truth, [o.channel for o in self.outcomes])
        self.rng = np.random.default_rng(seed)

    def counts(self, trials: int) -> NDArray[np.int64]:
        drawn = self.rng.multinomial(self.n, self.rate.reshape(-1) / self.rate.sum(), size=trials)
        return drawn.reshape(trials, *self.rate.shape)

    def table(self, counts: NDArray[np.int64], population: int | None = None) -> Table:
        spread = CountedCellErrors(counts, [o.inverse for o in self.outcomes])
        return Table(self.axes, self.labels, spread, self.n, population)

    def tables(self, trials: int) -> list[Table]:
        return [self.table(counts) for counts in self.counts(trials)]


def assert_stated_errors_hold(values: Any, stated: Any, within: float = 0.05) -> None:
    """The mean stated standard error is that of the simulated values, up to `within`, for each
    column."""
    ratio = np.mean(stated, axis=0) / np.std(values, axis=0, ddof=1)
    np.testing.assert_array_less(np.abs(ratio - 1), within)


def covariance(subject: Table | Estimate) -> Floats:
    """Of the cells or labels, which are few enough for it to be there."""
    assert subject.covariance is not None
    return subject.covariance
