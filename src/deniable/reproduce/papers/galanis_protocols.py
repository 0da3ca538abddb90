"""Galanis 2021, chapter 4: the protocols of the local model, and their simulated errors.

20,000 people report one of 50 ages. Errors are in counts, as in the thesis. Its random-matrix
protocol has m = 5 rows. The Kantorovich distance needs two distributions. As in the thesis, negative
counts are cut off for it; projected onto the simplex, as this library does, the errors stand beside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.distances import euclidean, kantorovich, manhattan
from deniable.estimation.simplex import project
from deniable.mechanisms.protocols.basic_rappor import BasicRappor
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.hadamard import HadamardResponse
from deniable.mechanisms.protocols.hashing import LocalHashing
from deniable.mechanisms.protocols.projection import RandomProjection
from deniable.mechanisms.protocols.subset import SubsetSelection
from deniable.mechanisms.protocols.threshold import ThresholdHistogram
from deniable.mechanisms.protocols.unary import OptimizedUnary, SymmetricUnary
from deniable.reproduce.experiment import (
    Context,
    Measured,
)
from deniable.reproduce.plotting import Series, plot_lines

__all__ = [
    "METRICS",
    "PAPER",
    "PROTOCOLS",
    "THESIS",
    "VALUES",
    "Errors",
    "Estimator",
    "ages",
    "draw_errors",
    "plain",
    "simulated_errors",
]

PAPER = "Galanis 2021"
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
VALUES = 50
Estimator = Callable[[Ints, float, Any], Floats]


def ages(context: Context, n: int) -> Ints:
    """Ages from 0 to 49 (above 18), most of them young, with a second hump."""
    random = context.random(3)
    young = random.normal(12, 6, n)
    older = random.normal(33, 7, n)
    return np.clip(np.where(random.random(n) < 0.6, young, older), 0, VALUES - 1).astype(np.int64)


def plain(
    make: Callable[[float], Any], estimator: str | None = None, shift: float = 0.0
) -> Estimator:
    """What a mechanism estimates from everybody's reports."""

    def estimate(values: Ints, epsilon: float, source: Any) -> Floats:
        mechanism = make(epsilon)
        reports = mechanism.privatize(values + shift if shift else values, source)
        found = (
            mechanism.estimate(reports)
            if estimator is None
            else mechanism.estimate(reports, estimator=estimator)
        )
        return np.asarray(found.proportions)

    return estimate


PROTOCOLS: dict[str, Estimator] = {
    "direct encoding": plain(lambda e: DirectEncoding(VALUES, e)),
    "histogram, threshold 2/3": plain(lambda e: ThresholdHistogram(VALUES, e, 2 / 3)),
    "optimized unary": plain(lambda e: OptimizedUnary(VALUES, e)),
    "basic RAPPOR": plain(lambda e: BasicRappor(VALUES, 0.5, 0.25, 0.75)),
    "random matrix, m = 5": plain(lambda e: RandomProjection(VALUES, e, m=5), "paper"),
    "random matrix, ours": plain(lambda e: RandomProjection(VALUES, e)),
    "symmetric unary": plain(lambda e: SymmetricUnary(VALUES, e)),
    "local hashing": plain(lambda e: LocalHashing(VALUES, e)),
    "Hadamard": plain(lambda e: HadamardResponse(VALUES, e)),
    "subset selection": plain(lambda e: SubsetSelection(VALUES, e)),
}
THESIS = ("direct encoding", "histogram, threshold 2/3", "optimized unary")
"""The pure protocols in its figures."""


def _cut_off(estimate: Floats) -> Floats:
    """Negative proportions set to 0, the others scaled to sum 1."""
    positive = np.maximum(estimate, 0)
    return np.asarray(positive / max(positive.sum(), 1e-300))


METRICS: dict[str, Callable[[Floats, Floats], float]] = {
    "Manhattan": manhattan,
    "Euclidean": euclidean,
    "Kantorovich": lambda estimate, truth: kantorovich(_cut_off(estimate), truth),
    "Kantorovich, projected": lambda estimate, truth: kantorovich(project(estimate), truth),
}


def simulated_errors(
    protocols: dict[str, Estimator],
    points: Sequence[tuple[float, int]],
    trials: int,
    context: Context,
) -> Measured:
    """The mean error of counts for each protocol, metric, epsilon and number of users."""
    rows = []
    everybody = ages(context, max(n for _, n in points))
    for place, (epsilon, n) in enumerate(points):
        values = everybody[:n]
        truth = np.bincount(values, minlength=VALUES) / n
        for number, (name, estimate) in enumerate(protocols.items()):
            source = context.source(1000 * place + number)
            found = [estimate(values, epsilon, source) for _ in range(trials)]
            for metric, distance in METRICS.items():
                errors = n * np.array([distance(each, truth) for each in found])
                stderr = float(errors.std(ddof=1)) / math.sqrt(trials)
                rows.append((name, metric, epsilon, n, float(errors.mean()), stderr))
        context.done((place + 1) / len(points))
    return Measured(
        ("protocol", "metric", "epsilon", "users", "error of counts", "stderr"), tuple(rows)
    )


class Errors:
    """The errors of a simulation, by protocol, metric, epsilon and number of users."""

    def __init__(self, measured: Measured) -> None:
        self._by = {row[:4]: row[4:] for row in measured.rows}

    def at(self, name: str, metric: str, epsilon: float, n: int) -> float:
        """The mean error of counts."""
        return float(self._by[name, metric, epsilon, n][0])

    def ahead(self, one: str, other: str, metric: str, epsilon: float, n: int) -> bool:
        """Whether the first has the smaller error, or not a larger one beyond 3 standard errors."""
        first, second = (self._by[name, metric, epsilon, n] for name in (one, other))
        return bool(first[0] < second[0] + 3 * math.hypot(first[1], second[1]))

    def order(self, names: Sequence[str], metric: str, epsilon: float, n: int) -> str:
        """The errors of these protocols, in words."""
        return ", ".join(f"{name} {self.at(name, metric, epsilon, n):,.0f}" for name in names)


def draw_errors(figure: Any, measured: Measured, metric: str, by_users: bool) -> None:
    """One line for each protocol."""
    lines = []
    for name in dict.fromkeys(measured.column("protocol")):
        own = [row for row in measured.rows if row[:2] == (name, metric)]
        unit = [row[3] if by_users else 1 for row in own]
        lines.append(
            Series(
                name,
                [row[3] if by_users else row[2] for row in own],
                [row[4] / each for row, each in zip(own, unit, strict=True)],
                error=[row[5] / each for row, each in zip(own, unit, strict=True)],
            )
        )
    label = f"{metric} error" + (" per user" if by_users else " of counts")
    x, log = ("users", "xy") if by_users else ("epsilon", "y")
    plot_lines(figure.subplots(), lines, x, label, log=log, legend=False)
    figure.legend(loc="outside right center", fontsize=8, frameon=False)
