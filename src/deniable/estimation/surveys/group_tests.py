"""Do several groups of people differ? One test for all groups and all labels together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.display import Bar, Display
from deniable.errors import ParameterError
from deniable.estimation.estimate import Estimate
from deniable.estimation.intervals import p_text
from deniable.estimation.pooling import check_poolable
from deniable.estimation.tables import statistics
from deniable.results import Result

__all__ = ["GroupTest", "compare_groups"]

_Floats = NDArray[np.float64]
_ALIKE = 1e-9
"""Directions whose variance is below this part of the largest are sums that cannot vary."""


@dataclass(frozen=True, eq=False)
class GroupTest(Result):
    """An F test of whether groups have the same proportions, or the same mean."""

    name: str
    statistic: float
    degrees: tuple[float, float]
    """Of the numerator and the denominator; infinite where nothing limits the latter."""
    n: tuple[int, ...]
    """The reports of each group."""

    @property
    def p_value(self) -> float:
        """The probability of a statistic at least this large if the groups are alike."""
        from scipy.special import fdtrc  # noqa: PLC0415 - slow to import

        if self.degrees[0] <= 0 or self.degrees[1] <= 0:
            return 1.0
        return float(fdtrc(*self.degrees, self.statistic))

    def _display(self, confidence: float = 0.95) -> Display:
        rows = [(self.name, self.statistic, *self.degrees, self.p_value)]
        columns = ("test", "F", "degrees", "of error", "p")
        bars = [Bar("p", self.p_value)]
        return Display(columns, rows, (str(self),), bars, "p", 1 - confidence)

    def __str__(self) -> str:
        first, second = self.degrees
        return (
            f"{self.name}: F({first:.4g}, {second:.4g}) = {self.statistic:.3f},"
            f" {p_text(self.p_value)} ({len(self.n)} groups)"
        )


def compare_groups(groups: Mapping[Any, Estimate], name: str = "groups alike") -> GroupTest:
    """Whether groups of different people, asked in the same way, have the same proportions; for a
    column of numbers, the same mean.

    With d_g the difference of group g from all reports together, H = sum n_g d_g d_g'/n, and W the
    mean covariance of one report within groups, it is Pillai's trace V = tr H (H + W)^+ and its F:
    the multivariate analysis of variance of what reports contribute to the estimates. For two
    different reports n V is Pearson's chi-square of their table. Means are compared by Welch's F,
    which needs no equal variances. Pillai, Annals of Mathematical Statistics 26, 1955; Welch,
    Biometrika 38, 1951.

    >>> from deniable import Crosswise, seeded_source
    >>> survey, coins = Crosswise(1 / 6), seeded_source(1)
    >>> wards = {
    ...     ward: survey.estimate(survey.privatize(["yes"] * yes + ["no"] * (400 - yes), coins))
    ...     for ward, yes in (("north", 40), ("south", 160), ("west", 80))
    ... }
    >>> print(compare_groups(wards, "used by ward"))
    used by ward: F(2, 1197) = 20.708, p = 1.44e-09 (3 groups)
    """
    parts = list(groups.values())
    if len(parts) < 2:
        raise ParameterError("groups", list(groups), "must be two groups or more")
    first = parts[0]
    check_poolable(parts)
    for part in parts:
        if part.mechanism != first.mechanism or part.population is not None or part.strata:
            raise ParameterError(
                "groups",
                list(groups),
                "must be asked in the same way, without population or strata",
            )
    sizes = np.array([part.n for part in parts], dtype=np.float64)
    if first.numeric:
        return _welch(name, parts, sizes)
    covariances = [part.covariance for part in parts if part.covariance is not None]
    if len(covariances) < len(parts):
        raise ParameterError(
            "groups", list(groups), "must have covariances, which so many labels do not"
        )
    return _pillai(name, parts, np.array(covariances), sizes)


def _pillai(
    name: str, parts: Sequence[Estimate], covariances: _Floats, sizes: _Floats
) -> GroupTest:
    n, count = float(sizes.sum()), len(parts)
    # covariances divide by n_g - 1, so (n_g - 1) n_g C_g is the sum of squares within a group
    found = np.array([part.proportions for part in parts])
    apart = found - sizes @ found / n
    between = np.einsum("g,gi,gj->ij", sizes / n, apart, apart)
    whole = between + np.einsum("g,gij->ij", sizes * (sizes - 1) / n, covariances)
    weights, directions = np.linalg.eigh(whole)
    kept = weights > _ALIKE * max(float(weights[-1]), 0.0)
    along = directions[:, kept] / np.sqrt(weights[kept])
    trace, q = float(np.einsum("ij,ik,jk->", between, along, along)), int(kept.sum())
    s = min(q, count - 1)
    # 2m + s + 1 and 2N + s + 1 of Pillai's approximation
    more, left = max(q, count - 1), n - count - q + s
    if s == 0 or left <= 0:
        return GroupTest(name, 0.0, (0.0, 0.0), tuple(part.n for part in parts))
    statistic = trace / max(s - trace, 1e-300) * left / more
    return GroupTest(name, statistic, (s * more, s * left), tuple(part.n for part in parts))


def _welch(name: str, parts: Sequence[Estimate], sizes: _Floats) -> GroupTest:
    means = [statistics.mean(part) for part in parts]
    count = len(parts)
    weights = np.array([1 / mean.stderr**2 for mean in means])
    values = np.array([mean.value for mean in means])
    middle = weights @ values / weights.sum()
    uneven = float(((1 - weights / weights.sum()) ** 2 / np.maximum(sizes - 1, 1)).sum())
    spread = float(weights @ (values - middle) ** 2) / (count - 1)
    statistic = spread / (1 + 2 * (count - 2) / (count**2 - 1) * uneven)
    degrees = (float(count - 1), (count**2 - 1) / (3 * uneven))
    return GroupTest(name, statistic, degrees, tuple(part.n for part in parts))
