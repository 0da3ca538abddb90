"""Hierarchical ranges: each person reports a node of one level of a tree over ordered values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_epsilon, whole
from deniable.errors import ParameterError, ReportFormatError
from deniable.mechanisms import exact, solving
from deniable.mechanisms.blankets import Blanket
from deniable.mechanisms.domain import Domain
from deniable.mechanisms.mechanism import Mechanism
from deniable.mechanisms.protocols.direct import DirectEncoding
from deniable.mechanisms.protocols.hierarchy.fan_outs import (
    best_fan_outs,
    level_sizes,
    node_variance,
)
from deniable.mechanisms.protocols.subset import SubsetSelection, best_size
from deniable.randomness import Source

__all__ = ["HierarchicalRanges"]

_Floats = NDArray[np.float64]
LARGEST_TREE = 2048
"""The most values, so that an estimate has the covariance that its ranges need."""
_EXPECTED = 1 << 50
"""The number of reports for which expected counts are rounded: enough that rounding does not
show."""


@dataclass(frozen=True, eq=False, repr=False)
class HierarchicalRanges(Mechanism):
    """The distribution of an ordered value: ranges, quantiles and the cumulative curve with far
    smaller errors than from any flat report.

    The values, in the order given, are the leaves of a tree. A person's coins choose one of its L
    levels, all equally likely, and the node of that level above the value is reported with the
    whole epsilon: by direct encoding where that errs least, else by subset selection. A range is a
    sum of a few nodes of every level, where it would be a sum of many values of a flat report: at
    256 values its error is half as large, at 1,024 a third.

    Each level estimates its nodes without bias from its own reports, and the least-squares solution
    makes all levels consistent (:mod:`deniable.estimation.tables.tree_consistency`), with the exact
    covariance of the result. The fan-outs, from the root down, are those with the least variance
    averaged over all ranges (:mod:`~deniable.mechanisms.protocols.hierarchy.fan_outs`), unless
    given. Cormode, Kulkarni and Srivastava, "Answering range queries under local differential
    privacy", VLDB 2019; there, too, sampling a level is better than dividing
    epsilon among all levels.

    The level of a report does not depend on the value. For large epsilon and few values one level
    is best, and the reports are those of a flat protocol.

    >>> from deniable import seeded_source
    >>> ages = HierarchicalRanges(list(range(18, 98)), epsilon=2.0)
    >>> ages.fan_outs, ages.sizes
    ((8, 5, 2), (8, 40, 80))
    >>> people = np.random.default_rng(1).integers(30, 50, 20_000)
    >>> estimate = ages.estimate(ages.privatize(people, source=seeded_source(2)))
    >>> print(estimate.range(30, 39))
    proportion from 30 to 39: 0.4854, 0.4589 to 0.5118 (95 %, from 20,000 reports)
    """

    stated: ClassVar[tuple[str, ...]] = ("fan_outs",)

    values: Any
    epsilon: float
    fan_outs: Any = None

    def __post_init__(self) -> None:
        domain = Domain.of(self.values)
        requested_epsilon = check_epsilon(self.epsilon)
        if len(domain) > LARGEST_TREE:
            raise ParameterError(
                "values", len(domain), f"must be at most {LARGEST_TREE} for a tree of ranges"
            )
        fan_outs = (
            best_fan_outs(len(domain), requested_epsilon)
            if self.fan_outs is None
            else _check_fan_outs(self.fan_outs, len(domain))
        )
        sizes = level_sizes(len(domain), fan_outs)
        growth = exact.exp(requested_epsilon)
        levels = tuple(
            (DirectEncoding if best_size(size, growth) == 1 else SubsetSelection)(
                size, requested_epsilon
            )
            for size in sizes
        )
        self._set(
            domain=domain,
            values=domain.labels,
            requested_epsilon=requested_epsilon,
            fan_outs=fan_outs,
            sizes=sizes,
            levels=levels,
            epsilon=max(level.epsilon for level in levels),
            _leaves=tuple(prod(fan_outs[depth + 1 :]) for depth in range(len(sizes))),
        )

    sizes: ClassVar[tuple[int, ...]] = ()
    """The numbers of nodes of the levels, the leaves last."""
    levels: ClassVar[tuple[Any, ...]] = ()
    """The mechanism of each level."""
    _leaves: ClassVar[tuple[int, ...]] = ()

    def parameters(self) -> dict[str, Any]:
        return {
            "values": self.domain.spec(),
            "epsilon": self.requested_epsilon,
            "fan_outs": list(self.fan_outs),
        }

    @property
    def layout(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        return np.dtype(np.uint8), (1 + max(level.report_bytes for level in self.levels),)

    @property
    def cells(self) -> int:
        return sum(1 + level.cells for level in self.levels)

    def draw(self, indices: NDArray[np.intp], source: Source) -> NDArray[np.uint8]:
        depth = source.below(len(self.levels), indices.size)
        rows = np.zeros((indices.size, *self.layout[1]), dtype=np.uint8)
        rows[:, 0] = depth
        for number, (level, leaves) in enumerate(zip(self.levels, self._leaves, strict=True)):
            chosen = np.flatnonzero(depth == number)
            drawn = level.draw(indices[chosen] // leaves, source)
            width = level.report_bytes
            rows[chosen, 1 : 1 + width] = drawn.view(np.uint8).reshape(chosen.size, width)
        return rows

    def _by_level(self, data: NDArray[Any]) -> Iterator[tuple[Any, NDArray[np.intp], NDArray[Any]]]:
        """Each level, which rows are its reports, and these as the level's own rows."""
        for number, level in enumerate(self.levels):
            chosen = np.flatnonzero(data[:, 0] == number)
            dtype, shape = level.layout
            rows = np.ascontiguousarray(data[chosen, 1 : 1 + level.report_bytes])
            yield level, chosen, rows.view(dtype).reshape(chosen.size, *shape)

    def check(self, data: NDArray[Any]) -> None:
        if data.size and data[:, 0].max() >= len(self.levels):
            raise ReportFormatError(f"a report is of none of the {len(self.levels)} levels")
        for level, chosen, rows in self._by_level(data):
            if data[chosen, 1 + level.report_bytes :].any():
                raise ReportFormatError("a report has bytes set beyond its level's")
            level.check(rows)

    def count(self, data: NDArray[Any]) -> NDArray[np.int64]:
        parts = [
            np.concatenate([[chosen.size], level.count(rows)])
            for level, chosen, rows in self._by_level(data)
        ]
        return np.concatenate(parts).astype(np.int64)

    def _split(self, counts: NDArray[np.int64]) -> list[tuple[Any, int, NDArray[np.int64]]]:
        """Each level, the number of its reports, and its counts."""
        parts, start = [], 0
        for level in self.levels:
            end = start + 1 + level.cells
            parts.append((level, int(counts[start]), counts[start + 1 : end]))
            start = end
        return parts

    def check_counts(self, counts: NDArray[np.int64], n: int) -> None:
        super().check_counts(counts, n)
        parts = self._split(counts)
        if sum(reports for _, reports, _ in parts) != n:
            raise ReportFormatError(f"a tally of {n} reports has levels that do not sum to {n}")
        for level, reports, inner in parts:
            level.check_counts(inner, reports)

    def supports(self, data: NDArray[Any]) -> NDArray[np.uint8]:
        """One row per report, one column per label: 1 where the report supports the node above the
        label."""
        out = np.empty((len(data), len(self.domain)), dtype=np.uint8)
        leaves = np.arange(len(self.domain))
        for (level, chosen, rows), width in zip(self._by_level(data), self._leaves, strict=True):
            nodes = (
                rows[:, None] == np.arange(len(level.domain))
                if isinstance(level, DirectEncoding)
                else level.supports(rows)
            )
            out[chosen] = nodes[:, leaves // width]
        return out

    def channel(self) -> tuple[Any, ...]:
        """The channels of the levels, of which each is chosen with the same probability."""
        return tuple(level.channel() for level in self.levels)

    def blanket(self) -> Blanket:
        """That of two values which no node but the root has in common."""
        parts = [level.blanket() for level in self.levels]
        return Blanket(
            np.concatenate([part.weight for part in parts]) / len(parts),
            np.concatenate([part.ratio for part in parts]),
        )

    # --- the way back

    @cached_property
    def _tree(self) -> Any:
        growth = exact.exp(self.requested_epsilon)
        variances = [node_variance(size, growth) for size in self.sizes]
        return solving.TreeConsistency(self.sizes, self.fan_outs, variances)

    def solve(self, counts: NDArray[np.int64], n: int) -> solving.Moments:
        """Consistent proportions with their covariance.

        A level without a report, possible in very small crowds, counts as zeros, and the others by
        the reciprocal of the probability of having one, which keeps the estimate unbiased for every
        n.
        """
        wanted = solving.largest_covariance()
        nodes, errors = [], []
        present = -np.expm1(n * np.log1p(-1 / len(self.levels))) if len(self.levels) > 1 else 1.0
        for level, reports, inner in self._split(counts):
            if reports:
                with solving.covariances_up_to(LARGEST_TREE if wanted else 0):
                    found, variance, covariance = level.solve(inner, reports)
            else:
                # nothing is known: the error of a zero, and of as many reports as were expected
                found = np.zeros(len(level.domain))
                variance = np.full(
                    found.size, 0.25 + level.solve(inner, 1)[1] * len(self.levels) / n
                )
                covariance = np.diag(variance)
            nodes.append(found / present)
            errors.append(np.diag(variance) if covariance is None else covariance)
        proportions = self._tree.leaves(nodes)
        covariance = self._tree.covariance(errors)
        variance = np.maximum(np.diagonal(covariance), 0)
        np.fill_diagonal(covariance, variance)
        return proportions, variance, covariance if wanted else None

    def _infinite_errors(self, n: int, shares: Any) -> _Floats:
        return np.asarray(np.sqrt(np.diagonal(self.expected_covariance(n, shares))))

    def expected_covariance(self, n: int, proportions: Any) -> _Floats:
        """The covariance of the estimate from `n` reports of an infinite population with these true
        proportions: w' C w is the variance of a range with the indicators w.

        From the covariance of each level, if it has its part of the reports and its nodes have
        exactly the expected counts.

        >>> covariance = HierarchicalRanges(64, 1.0).expected_covariance(10_000, [1 / 64] * 64)
        >>> round(float(covariance[:32, :32].sum() ** 0.5), 4)
        0.0381
        """
        true = np.asarray(proportions, dtype=np.float64)
        if true.shape != (len(self.domain),) or not np.isclose(true.sum(), 1) or true.min() < 0:
            rule = f"must be {len(self.domain)} proportions that sum to 1"
            raise ParameterError("proportions", np.shape(proportions), rule)
        errors = []
        for level, width in zip(self.levels, self._leaves, strict=True):
            a, b = (float(side[0]) for side in level.support())
            nodes = np.add.reduceat(true, np.arange(0, true.size, width))
            counts = np.rint(_EXPECTED * (b + (a - b) * nodes)).astype(np.int64)
            with solving.covariances_up_to(LARGEST_TREE):
                errors.append(level.solve(counts, _EXPECTED)[2] * (_EXPECTED - 1))
        return np.asarray(self._tree.covariance(errors) * (len(self.levels) / n))

    def contribution_ranges(self) -> _Floats:
        """For levels of equal size, and the largest over all answers of the others.

        A report counts as its difference from its level's mean, which lies between the least and
        the largest weight of a node. Liars choose their level.
        """
        highest, lowest = [], []
        above, below = [], []
        for number, level in enumerate(self.levels):
            a, b = (float(side[0]) for side in level.support())
            weights = self._tree.level_map(number, np.eye(len(level.domain)))
            ordered = np.sort(weights, axis=1)
            chosen = getattr(level, "w", 1)
            base = b * weights.sum(axis=1)
            most = (ordered[:, -chosen:].sum(axis=1) - base) / (a - b)
            least = (ordered[:, :chosen].sum(axis=1) - base) / (a - b)
            highest.append(most)
            lowest.append(least)
            above.append(most - ordered[:, 0])
            below.append(ordered[:, -1] - least)
        within = np.max(np.array(highest) - np.array(lowest), axis=0)
        pairs = [
            above[i] + below[j] for i in range(len(above)) for j in range(len(above)) if i != j
        ]
        return np.asarray(len(above) * np.max([within, *pairs], axis=0), dtype=np.float64)


def _check_fan_outs(given: Any, values: int) -> tuple[int, ...]:
    """Fan-outs of at least 2 whose tree has exactly these values as its leaves."""
    if isinstance(given, str | bytes) or not isinstance(given, Sequence) or not given:
        raise ParameterError("fan_outs", given, "must be a list of whole numbers from 2 on")
    fan_outs = tuple(whole(f"fan_outs[{at}]", x, 2, LARGEST_TREE) for at, x in enumerate(given))
    if level_sizes(values, fan_outs)[0] != fan_outs[0]:
        raise ParameterError(
            "fan_outs", list(given), f"must be the fan-outs of a tree of {values} values"
        )
    return fan_outs
