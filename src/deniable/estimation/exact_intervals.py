"""Intervals for small populations and rare reports, by the exact law of the count.

If nearly all of a few people take part and their coins rarely lie, the number of reports that
support a label takes so few values that no formula for a standard error describes it. But then
everything can be computed: j of U people have the label, so there are U + 1 possible truths, and
under each of them the law of the count is known exactly.

If the coins rarely support a label that is not true, the count of a rare label takes few values
too, whatever the population. The law of the count is then inverted tail by tail, so that the
interval covers at least as often as stated.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from deniable.estimation.intervals import score_limits

__all__ = [
    "LARGEST",
    "count_laws",
    "few_reports",
    "rare_limits",
    "rate_limits",
    "small_intervals",
    "small_population_limits",
]

_Floats = NDArray[np.float64]
LARGEST = 200
"""The largest population. Beyond it, counts have enough values for score intervals to cover, and
exact laws would be slow."""
FEWEST = 10.0
"""The least variance of a count with which score and Jeffreys' intervals cover 93.5 to 97 % for 95
%, at nearly every rate.

At a variance of 4 they fall below 93.5 % at up to 13 % of the rates, by enumeration of 20 to 5,000
reports.
"""
_TRIED = 8
"""How many ends are tried on either side of a region."""
_BALANCE = 1 / 3
"""What a difference between the two tails costs, against missing the confidence: of 0.2 to 0.5 it
made the steps least felt."""


def few_reports(n: float | _Floats, a: _Floats, b: _Floats) -> NDArray[np.bool_]:
    """Whether a true proportion exists at which the count of supporting reports has a variance
    below `FEWEST`.

    It depends on the number of reports and on the coins alone, not on the counts: what an interval
    claims must not depend on the noise that decides whether it contains the truth.
    """
    rarest = np.minimum(np.minimum(a, b), 1 - np.maximum(a, b))
    return np.asarray(n * rarest * (1 - rarest) < FEWEST)


def rate_limits(counts: _Floats, n: float | _Floats, confidence: float | _Floats) -> _Floats:
    """Low and high of a rate, each of which the count exceeds with at most half of 1 - `confidence`
    (Clopper and Pearson 1934).

    >>> rate_limits(np.array([0.0, 3.0]), 30, 0.95).round(4).tolist()
    [[0.0, 0.1157], [0.0211, 0.2653]]
    """
    from scipy.special import betaincinv  # noqa: PLC0415 - slow to import

    tail = (1 - np.asarray(confidence)) / 2
    low = np.where(counts <= 0, 0.0, betaincinv(np.maximum(counts, 1e-9), n - counts + 1, tail))
    high = np.where(
        counts >= n, 1.0, betaincinv(counts + 1, np.maximum(n - counts, 1e-9), 1 - tail)
    )
    return np.column_stack([low, high])


def rare_limits(
    proportions: _Floats,
    support: tuple[_Floats, _Floats],
    n: float | _Floats,
    population: int | None,
    reach: _Floats,
) -> _Floats:
    """Low and high of proportions by :func:`rate_limits`, for the confidence that `reach` normal
    standard errors have; not cut.

    In a finite population each distance shrinks as that of the score interval does, down to one
    person.
    """
    from scipy.special import erf  # noqa: PLC0415 - slow to import

    a, b = support
    counts = np.clip(n * (b + (a - b) * proportions), 0, n)
    whole = counts.round()
    counts = np.where(np.abs(counts - whole) < 1e-6, whole, counts)
    limits = (rate_limits(counts, n, erf(reach / np.sqrt(2))) - b[:, None]) / (a - b)[:, None]
    limits.sort(axis=1)
    if population is None:
        return limits
    centre = proportions[:, None]
    sampled, bounded = (
        np.abs(score_limits(proportions, support, n, of, reach) - centre)
        for of in (None, population)
    )
    shrink = np.divide(bounded, sampled, out=np.ones_like(sampled), where=sampled > 0)
    outward = np.array([-1.0, 1.0])
    return np.asarray(
        centre + outward * np.maximum(np.abs(limits - centre) * shrink, 1 / population)
    )


def small_population_limits(
    counts: NDArray[np.int64],
    n: int,
    population: int,
    a: float,
    b: float,
    confidence: float,
    at_least: bool = False,
) -> _Floats:
    """Low and high proportion of a label, for each count of supporting reports among `n` out of
    `population` people.

    For every possible truth, a region of counts is chosen whose probability is as close to
    `confidence` as the discrete steps allow, with tails as equal as possible; regions never move
    down as the truth goes up. The interval consists of the truths whose region contains the count
    (Neyman 1937). A count that no truth explains gets only the nearest truth. With `at_least`,
    neither tail of a region has more than half of 1 - `confidence`.

    >>> small_population_limits(np.array([3]), n=30, population=30, a=0.98, b=0.04, confidence=0.95).round(2).tolist()
    [[0.0, 0.1]]
    """
    lows, highs = (ends[counts] for ends in _limits(n, population, a, b, confidence, at_least))
    # While the coins are random, "nobody" or "everybody" is never certain: one person more or less
    # is always possible.
    highs, lows = np.where(highs == 0, 1, highs), np.where(lows == population, population - 1, lows)
    return np.column_stack([lows, highs]) / population


def count_laws(n: int, population: int, a: float, b: float) -> _Floats:
    """The law of the number of supporting reports, one row for each number of people who have the
    label.

    Of `n` people drawn from the population h have the label, hypergeometric; h of them support it
    with probability a each, and n - h with probability b.
    """
    from scipy import stats  # noqa: PLC0415 - slow to import

    drawn = np.arange(n + 1)
    with_label, without = (
        np.asarray(stats.binom.pmf(drawn, drawn[:, None], chance)) for chance in (a, b)
    )
    reported = np.array(
        [np.convolve(with_label[h, : h + 1], without[n - h, : n - h + 1]) for h in drawn]
    )
    laws: _Floats = (
        stats.hypergeom.pmf(drawn, population, np.arange(population + 1)[:, None], n) @ reported
    )
    return laws


@lru_cache(maxsize=64)
def _limits(
    n: int, population: int, a: float, b: float, confidence: float, at_least: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each count, the first and last number of people with the label that explain it."""
    laws = count_laws(n, population, a, b)
    region = _whole_region if at_least else _region
    regions = np.array([region(law, confidence) for law in laws])
    first = np.maximum.accumulate(regions[:, 0])
    last = np.minimum.accumulate(regions[::-1, 1])[::-1]
    counts = np.arange(n + 1)
    # Both ends ascend with the truth. A count is explained from the first truth whose region
    # reaches up to it ...
    lows = np.minimum(last.searchsorted(counts, side="left"), population)
    # ... to the last one whose region reaches down to it.
    highs = np.maximum(first.searchsorted(counts, side="right") - 1, 0)
    return np.minimum(lows, highs), np.maximum(lows, highs)


def _region(law: _Floats, confidence: float) -> tuple[int, int]:
    """The first and last count of a region whose probability is as close to `confidence` as the
    steps allow."""
    up_to = np.cumsum(law)
    below, above = np.concatenate([[0.0], up_to[:-1]]), 1 - up_to
    # One tail may contain more than all that is left out, if a single step is that large.
    starts = np.flatnonzero(below <= 2 * (1 - confidence))[-_TRIED:]
    ends = np.flatnonzero(above <= 2 * (1 - confidence))[:_TRIED]
    lower, upper = below[starts][:, None], above[ends][None, :]
    cost = np.abs(1 - lower - upper - confidence) + _BALANCE * np.abs(lower - upper)
    i, j = divmod(int(cost.argmin()), ends.size)
    return int(starts[i]), int(ends[j])


def _whole_region(law: _Floats, confidence: float) -> tuple[int, int]:
    """The first and last count of the smallest region that leaves out at most half of 1 -
    `confidence` on either side."""
    tail, up_to = (1 - confidence) / 2, np.cumsum(law)
    last = int(np.argmax(1 - up_to <= tail)) if np.any(1 - up_to <= tail) else law.size - 1
    return min(int(np.searchsorted(up_to, tail, side="right")), law.size - 1), last


def small_intervals(
    counts: NDArray[np.int64],
    n: int,
    population: int,
    support: tuple[_Floats, _Floats],
    reach: _Floats,
    at_least: NDArray[np.bool_],
) -> _Floats:
    """The interval of each label in a small population; labels with the same coins are looked up
    together."""
    out = np.empty((counts.size, 2))
    kinds, which = np.unique(
        np.column_stack([*support, reach, at_least]), axis=0, return_inverse=True
    )
    for i, (a, b, z, exact) in enumerate(kinds.tolist()):
        chosen, level = which.reshape(-1) == i, math.erf(z / math.sqrt(2))
        out[chosen] = small_population_limits(
            counts[chosen], n, population, a, b, level, bool(exact)
        )
    return out
