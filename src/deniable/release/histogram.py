"""A released column as an Estimate: counts scaled up by the sampling, with intervals that cover,
dropped labels included."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_confidence
from deniable.errors import ParameterError, ReleaseError
from deniable.estimation.estimate import Estimate
from deniable.estimation.estimate_text import coverage_line
from deniable.estimation.report_counts import check_population
from deniable.numerics import boundaries
from deniable.randomness import Source
from deniable.release.guarantee import Guarantee
from deniable.release.hierarchy import Categories, Hierarchy
from deniable.release.private import release
from deniable.release.table import CodedTable, Integers
from deniable.results import encode

__all__ = ["ReleasedHistogram", "count_limits", "histogram"]

_Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ReleasedHistogram(Estimate):
    """Proportions from a release: X rows of a label were kept out of c, X ~ Binomial(c, beta), and
    X below k is not shown.

    The estimate of c is X/beta, unbiased except for dropped labels: these are 0, and their
    intervals reach up to the largest c that fits any X below k. Intervals are exact (Clopper and
    Pearson's, for an unknown number of trials): they cover at least as often as stated, whether a
    label was dropped or not. A dropped label's standard error is its 95 % limit over 1.96; it is
    not a standard deviation.
    """

    kept: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """The rows of each label that were released; 0 for a label that was dropped."""
    guarantee: Guarantee | None = None

    def interval(
        self, confidence: float = 0.95, method: str | None = None, *, simultaneous: bool = False
    ) -> _Floats:
        """One row per label: low and high, which cover the true proportion with at least the given
        probability.

        `method` is ``"exact"`` or None: there is no other. `simultaneous` makes all rows cover
        together (Šidák 1967).
        """
        check_confidence(confidence)
        if method not in {None, "exact"}:
            raise ParameterError("method", method, "must be 'exact'")
        if self.guarantee is None or self.population is None:
            raise ParameterError("guarantee", None, "must be known, and the population too")
        one = confidence ** (1 / len(self.labels)) if simultaneous else confidence
        limits: _Floats = np.minimum(
            count_limits(self.kept, self.guarantee, one) / self.population, 1.0
        )
        # changed by `consistent`: extended to contain the changed value
        if self.unbiased is not None:
            limits[:, 0] = np.minimum(limits[:, 0], self.proportions)
            limits[:, 1] = np.maximum(limits[:, 1], self.proportions)
        return limits

    def plus_minus(self, confidence: float = 0.95, *, simultaneous: bool = False) -> _Floats:
        """The distance from each proportion to the farther end of its interval."""
        low, high = self.interval(confidence, None, simultaneous=simultaneous).T
        reach: _Floats = np.maximum(self.proportions - low, high - self.proportions)
        return reach

    @property
    def dropped(self) -> tuple[Hashable, ...]:
        """The labels of which fewer than k rows were kept."""
        return tuple(
            label for label, kept in zip(self.labels, self.kept.tolist(), strict=True) if not kept
        )

    def to_dict(self, confidence: float = 0.95) -> dict[str, Any]:
        """As of any estimate, with the guarantee and the labels that were dropped."""
        known = {} if self.guarantee is None else self.guarantee.terms()
        return {**super().to_dict(confidence), **known, "dropped": encode(self.dropped)}

    def covers_more(self, confidence: float = 0.95) -> NDArray[np.bool_]:
        """True of every label: the counts are whole numbers, and their law is inverted tail by
        tail."""
        check_confidence(confidence)
        return np.full(len(self.labels), True)

    def privacy_line(self, confidence: float = 0.95) -> str:
        """How many rows were released, and what that costs each person."""
        if self.guarantee is None:
            return super().privacy_line(confidence)
        return (
            f"{self.n:,} rows released of {self.population:,}; epsilon"
            f" {self.guarantee.epsilon:.4g}, delta {self.guarantee.delta:.2g} for one row more or"
            f" less; {coverage_line(self, confidence)}"
        )

    def __repr__(self) -> str:
        return f"<ReleasedHistogram of {len(self.labels)} proportions from {self.n:,} rows>"


def count_limits(kept: Integers, guarantee: Guarantee, confidence: float) -> _Floats:
    """The smallest and the largest number of rows that explain each released count; 0 stands for
    any count below k.

    >>> count_limits(np.array([0, 500]), Guarantee.of(1.0, 1e-5, sampling=0.5), 0.95).tolist()
    [[0.0, 91.0], [939.0, 1064.0]]
    """
    tail = (1 - confidence) / 2
    beta = float(guarantee.sampling)
    shown = kept > 0
    low = np.where(shown, _first(kept, beta, tail), 0)
    high = _last(np.where(shown, kept, guarantee.k - 1), beta, tail)
    return np.column_stack([low, high]).astype(np.float64)


def _first(kept: Integers, beta: float, tail: float) -> Integers:
    """The smallest c with P(Binomial(c, beta) >= kept) above the tail."""
    from scipy.special import bdtrc  # noqa: PLC0415 - slow to import

    # P(at least kept) = P(more than kept - 1) grows with c.
    return _bisect(lambda c: bdtrc(kept - 1, c, beta) > tail, kept - 1, kept, beta)


def _last(kept: Integers, beta: float, tail: float) -> Integers:
    """The largest c with P(Binomial(c, beta) <= kept) above the tail."""
    from scipy.special import bdtr  # noqa: PLC0415 - slow to import

    return _bisect(lambda c: bdtr(kept, c, beta) <= tail, kept, kept, beta) - 1


def _bisect(holds: Any, low: Integers, kept: Integers, beta: float) -> Integers:
    """The smallest c above `low` from which on a condition holds that does not hold at `low`."""
    low = low.astype(np.int64)
    high = np.ceil((kept + 40 * np.sqrt(kept + 1) + 1600) / beta).astype(np.int64)
    return boundaries(holds, low, high, halvings=64)


def histogram(
    frame: Any,
    column: str,
    epsilon: float,
    delta: float,
    *,
    labels: Sequence[Hashable] | None = None,
    hierarchy: Hierarchy | None = None,
    level: int = 0,
    population: int | None = None,
    sampling: float | None = None,
    k: int | None = None,
    source: Source | None = None,
) -> ReleasedHistogram:
    """The proportions of a column's labels as a private release of that column shows them, with
    intervals that cover.

    `labels` are all labels that could occur (else those of the hierarchy's level, where it knows
    them): dropped ones are then shown with what is known about them. Without labels only those that
    were released can be named. `population` is the number of people, by default the number of rows,
    which is then taken as public, as it is where everybody reports.

    >>> from deniable.randomness import seeded_source
    >>> table = {"city": ["Oslo"] * 6000 + ["Rome"] * 3990 + ["Bern"] * 10}
    >>> print(histogram(table, "city", 1.0, 1e-5, labels=["Oslo", "Rome", "Bern"], source=seeded_source(1)))
    Oslo    59.31 %   57.74 to 60.93
    Rome    40.10 %   38.81 to 41.43
    Bern     0.00 %     0.00 to 0.85
    4,713 rows released of 10,000; epsilon 1, delta 8.9e-06 for one row more or less; intervals cover at least 95 %
    Dropped, fewer than 32 rows kept: Bern.
    The number of rows, 10,000, is taken as public.
    """
    if hierarchy is None:
        hierarchy = Categories(None if labels is None else tuple(labels))
    table = CodedTable.of(frame, [column])
    made = release(
        table,
        {column: hierarchy},
        epsilon,
        delta,
        levels={column: level},
        sampling=sampling,
        k=k,
        source=source,
    )
    assert made.guarantee is not None  # noqa: S101 - for mypy: a private release has one
    notes = (
        [] if population is not None else [f"The number of rows, {table.n:,}, is taken as public."]
    )
    people = check_population(population if population is not None else table.n, made.n)
    assert people is not None  # noqa: S101 - for mypy
    counts = dict(zip(made.labels[column], made.counts.tolist(), strict=True))
    known = list(labels) if labels is not None else hierarchy.domain(level)
    if known is None:
        known = list(counts)
        notes.insert(0, "Labels with fewer kept rows than the threshold are not named.")
    shown = list(dict.fromkeys([*known, *counts]))
    if not shown:
        raise ReleaseError(
            f"no label of column {column!r} has {made.guarantee.k} kept rows, and none is given by"
            " name"
        )
    kept = np.array([counts.get(label, 0) for label in shown], dtype=np.int64)
    beta = float(made.guarantee.sampling)
    limit = count_limits(kept, made.guarantee, 0.95)[:, 1]
    spread = np.where(kept > 0, np.sqrt(kept * (1 - beta)) / beta, limit / 1.959963984540054)
    if not kept.all():
        dropped = ", ".join(
            str(label) for label, number in zip(shown, kept.tolist(), strict=True) if not number
        )
        notes.insert(0, f"Dropped, fewer than {made.guarantee.k} rows kept: {dropped}.")
    return ReleasedHistogram(
        labels=tuple(shown),
        proportions=kept / beta / people,
        variance=(spread / people) ** 2,
        n=made.n,
        population=people,
        mechanism="release",
        epsilon=math.nan,
        notes=tuple(notes),
        kept=kept,
        guarantee=made.guarantee,
    )
