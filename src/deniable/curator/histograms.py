"""Histograms: how many rows have each of some declared labels, or lie in each of some declared
bins."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.curator.error_laws import LinearError
from deniable.curator.grid import check_bounds
from deniable.curator.noise import LaplaceNoise
from deniable.curator.protection import Protection
from deniable.curator.questions import CuratorQuestion, Foresight, QuestionRows
from deniable.curator.results import Histogram
from deniable.errors import ParameterError
from deniable.estimation.unbias import LARGEST_COVARIANCE

__all__ = ["LabelHistogram", "NumberHistogram", "check_labels"]

_MOST_BINS = 10**6


def check_labels(labels: Any, name: str) -> tuple[Hashable, ...]:
    """Different labels, at least one. They are declared, never read from the data: a rare label
    belongs to somebody."""
    if labels is None:
        raise ParameterError(name, labels, "must be declared: which values occur is private")
    if isinstance(labels, str | bytes) or not isinstance(labels, Iterable):
        raise ParameterError(name, labels, "must be a list of values")
    listed = tuple(label.item() if isinstance(label, np.generic) else label for label in labels)
    if not listed:
        raise ParameterError(name, labels, "must hold at least one value")
    for label in listed:
        if (
            not isinstance(label, Hashable)
            or label is None
            or (isinstance(label, float) and math.isnan(label))
        ):
            raise ParameterError(
                name, label, "must be a text, a number or another value that is not missing"
            )
    if len({str(label) for label in listed}) < len(listed):
        raise ParameterError(name, list(listed), "must be different values")
    return listed


class _Counts(CuratorQuestion):
    """Noisy counts of disjoint sets of rows, and the proportions that follow."""

    labels: tuple[Hashable, ...]
    complete: bool
    """Whether every row is in one of the sets."""

    def noise(self, protection: Protection, epsilon: Fraction) -> LaplaceNoise:
        return LaplaceNoise(protection.of_vector(1), epsilon)

    def answer(
        self,
        exact: NDArray[np.int64],
        noise: LaplaceNoise,
        protection: Protection,
        epsilon: Fraction,
    ) -> Histogram:
        counts = np.array(noise.add(exact.tolist()), dtype=np.float64)
        total = protection.size if self.complete else None
        n = total if total is not None else max(round(float(counts.sum())), 1)
        k, proportions = counts.size, counts / n
        variance, covariance = np.full(k, noise.law.variance / n**2), None
        clipped = np.clip(proportions, 0, 1)
        if total is None:  # X_j - share_j times the sum of all X
            variance = variance * ((1 - clipped) ** 2 + (k - 1) * clipped**2)
        if k <= LARGEST_COVARIANCE:
            moved = np.eye(k) if total is not None else np.eye(k) - clipped[:, np.newaxis]
            covariance = noise.law.variance / n**2 * (moved @ moved.T)
        return Histogram(
            labels=self.labels,
            proportions=proportions,
            variance=variance,
            n=n,
            covariance=covariance,
            population=n,
            mechanism=self.mechanism(noise),
            epsilon=float(epsilon),
            noisy_counts=counts,
            law=noise.law,
            protection=protection,
            total=total,
        )

    def foresee(self, noise: LaplaceNoise, protection: Protection, size: int | None) -> Foresight:
        return Foresight(LinearError(noise.law), "rows per label")


class LabelHistogram(_Counts):
    """How many rows have each label. `other` names a label for all other values; without it they
    are not counted."""

    def __init__(self, column: str, labels: Any, other: Hashable | None = "other") -> None:
        self.column, self.columns, self.name = column, (column,), f"histogram of {column}"
        self.declared = check_labels(labels, f"labels of {column}")
        self.complete = other is not None
        self.labels = self.declared if other is None else (*self.declared, other)
        if other is not None and str(other) in {str(label) for label in self.declared}:
            raise ParameterError("other", other, "must be none of the labels, or None")

    def exact(self, rows: QuestionRows, protection: Protection) -> NDArray[np.int64]:
        codes = rows.codes(self.column, self.declared)
        # Place -1, what is no label, moves to the end.
        counted = np.bincount(
            np.where(codes < 0, len(self.declared), codes), minlength=len(self.declared) + 1
        )
        return counted if self.complete else counted[:-1]


class NumberHistogram(_Counts):
    """How many rows lie in each bin: [first edge, second), and so on, the last one closed; the
    outer bins take what is beyond."""

    numeric = True
    complete = True

    def __init__(self, column: str, bins: Any, bounds: Any = None) -> None:
        self.column, self.columns, self.name = column, (column,), f"histogram of {column}"
        self.edges = _edges(bins, bounds, column)
        inner = [
            f"[{low:g}, {high:g})"
            for low, high in zip(self.edges[:-2], self.edges[1:-1], strict=True)
        ]
        self.labels = (*inner, f"[{self.edges[-2]:g}, {self.edges[-1]:g}]")

    def exact(self, rows: QuestionRows, protection: Protection) -> NDArray[np.int64]:
        places = np.searchsorted(self.edges[1:-1], rows.numbers(self.column), side="right")
        return np.bincount(places, minlength=len(self.labels))


def _edges(bins: Any, bounds: Any, column: str) -> NDArray[np.float64]:
    """The edges themselves or, for a number of bins, those of as many equal ones between the
    bounds."""
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if not 1 <= bins <= _MOST_BINS:
            raise ParameterError("bins", bins, f"must be from 1 to {_MOST_BINS:,}")
        return np.linspace(*check_bounds(bounds, column), int(bins) + 1)
    if bounds is not None:
        raise ParameterError("bounds", bounds, "must not be given together with the edges of bins")
    try:
        edges = np.asarray(bins, dtype=np.float64)
    except (TypeError, ValueError):
        edges = np.empty(0)
    if (
        edges.ndim != 1
        or edges.size < 2
        or not np.all(np.isfinite(edges))
        or np.any(np.diff(edges) <= 0)
    ):
        raise ParameterError("bins", bins, "must be their number, or at least two increasing edges")
    return edges
