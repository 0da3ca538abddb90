"""Choose a generalisation by looking at the table, and pay for that with a separate epsilon.

**Score.** At levels v a class of c rows with labels x is worth W(x) F(c). W is what its labels keep
of a row (granularity, in whole units), at most W_max. F(c) = c P(Binomial(c, beta) >= k) is its
rows times the probability that it is released, in whole units; F does not fall. The score of v is
the sum over its classes.

**Sensitivity.** A row more lies in one class at each v, so exactly one c grows by 1. The score then
grows by W(x) (F(c + 1) - F(c)), which lies between 0 and Delta = W_max max_c (F(c + 1) - F(c)). The
scores of all v grow or stay together. With T = floor(8 score / Delta) the same holds for whole
numbers: T grows by 0 to 8, because floor(x + 8) = floor(x) + 8. All of this is integer arithmetic.

**Draw** (permute and flip: McKenna and Sheldon 2020). Go through the generalisations in random
order and take v with probability r^(T_max - T(v)): the event that as many coins, each heads with
probability r, all show heads. Let w(v) = r^(-T(v)). With a random time of arrival for each, v is
taken with probability

    P(v) = w(v) * integral from 0 to 1/w_max of prod over u other than v of (1 - s w(u)) ds.

With a row more, w(u) <= w'(u) <= R w(u) for all u, where R = r^-8. So

    P'(v) <= R w(v) * integral to 1/w_max of prod (1 - s w(u)) ds = R P(v), and, substituting s = R s',
    P(v) = R w(v) * integral to 1/(R w_max) of prod (1 - s' R w(u)) ds'
        <= R w'(v) * integral to 1/w'_max of prod (1 - s' w'(u)) ds' = R P'(v).

The loss is ln R = 8 ln(1/r), without the factor 2 that scores need which may move against each
other. r is an integer over 2**64, rounded up, so that the loss never exceeds the epsilon asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from deniable.checks import check_epsilon, whole
from deniable.errors import ReleaseError
from deniable.mechanisms import exact
from deniable.randomness import ONE, Source
from deniable.release.classes import Cube
from deniable.release.guarantee import Guarantee
from deniable.release.lattice import LARGEST_LATTICE, BestFirst, Progress, lattice
from deniable.release.table import Integers, Levels

__all__ = ["Scores", "permute_and_flip", "private_choice", "public_choice"]

STEPS = 8
"""Whole numbers into which the sensitivity is divided: what rounding costs is an eighth of what one
row can change."""
_WEIGHT_UNITS = 1 << 16
_CHANCE_UNITS = 1 << 14
_FIRST_COINS, _MOST_COINS = 64, 1 << 20
"""Coins tossed at once: few, because most runs end soon, and then twice as many, because with a
small epsilon they do not."""


class Scores:
    """The score of a generalisation, as an integer, its sensitivity, and bounds on it.

    With a `scale`, as if each class had so many times its rows: for public data of another size.
    """

    def __init__(self, cube: Cube, guarantee: Guarantee, scale: float = 1.0) -> None:
        self._cube, self._scale = cube, scale
        if cube.n * scale * len(cube.attributes) * _WEIGHT_UNITS * _CHANCE_UNITS >= 1 << 62:
            raise ReleaseError(
                f"{cube.n:,} rows of {len(cube.attributes)} columns are too many to be scored"
            )
        self._worth = _expected_rows(guarantee)
        self._weights = [
            [np.round((1 - losses) * _WEIGHT_UNITS).astype(np.int64) for losses in attribute.losses]
            for attribute in cube.attributes
        ]
        self.sensitivity = (
            len(cube.attributes)
            * _WEIGHT_UNITS
            * int(np.diff(self._worth).max(initial=_CHANCE_UNITS))
        )

    def look(self, levels: Levels) -> tuple[int, int]:
        """The score at these levels, and the sum of F over the classes.

        The latter is not above that of any coarser generalisation: F(a) + F(b) <= F(a + b), because
        F(c)/c does not fall.
        """
        classes = self._cube.classes(levels)
        weight = np.zeros(classes.sizes.size, dtype=np.int64)
        for weights, labels, level in zip(self._weights, classes.labels, levels, strict=True):
            weight += weights[level][labels]
        sizes = (
            classes.sizes
            if self._scale == 1
            else np.floor(classes.sizes * self._scale).astype(np.int64)
        )
        table = self._worth
        rows = np.where(
            sizes < table.size, table[np.minimum(sizes, table.size - 1)], sizes * _CHANCE_UNITS
        )
        return int(weight @ rows), int(rows.sum())

    def search(self, nodes: Integers, progress: Progress | None = None) -> BestFirst:
        """Look for the highest score; what was not looked at has a bound that is not above it."""
        most = np.zeros(len(nodes), dtype=np.int64)
        for weights, levels in zip(self._weights, nodes.T, strict=True):
            most += np.array([weight.max(initial=0) for weight in weights])[levels]
        everything = math.ceil(self._cube.n * self._scale) * _CHANCE_UNITS
        found = BestFirst(
            nodes, most * everything, self.look, lambda rows, which: most[which] * rows
        )
        found.run(progress=progress)
        return found

    def steps(self, score: int) -> int:
        """T: a score in eighths of the sensitivity, rounded down."""
        return STEPS * score // self.sensitivity


def _expected_rows(guarantee: Guarantee) -> Integers:
    """F(c) for c = 0, 1, … up to where it is c itself, in units in which the probability is a whole
    number that does not fall."""
    from scipy.special import bdtrc  # noqa: PLC0415 - slow to import

    beta, k = float(guarantee.sampling), guarantee.k
    # Beyond this size a class is released but for a chance far below one unit.
    last = math.ceil((k + 20 * math.sqrt(k) + 100) / beta)
    sizes = np.arange(last)
    chance = np.where(sizes >= k, bdtrc(k - 1, np.maximum(sizes, k), beta), 0.0)
    whole = np.maximum.accumulate(np.floor(np.clip(chance, 0, 1) * _CHANCE_UNITS).astype(np.int64))
    return np.append(sizes * whole, last * _CHANCE_UNITS)


def private_choice(
    cube: Cube,
    allowed: Sequence[range],
    guarantee: Guarantee,
    epsilon: float,
    source: Source,
    candidates: int = 10_000,
    progress: Progress | None = None,
) -> tuple[Levels, float]:
    """Levels that keep much, chosen at the cost of `epsilon`, and what the choice really costs.

    Of more generalisations than `candidates` a random subset is scored: which ones must not depend
    on the table, and how many can be scored in a given time does.
    """
    check_epsilon(epsilon, "search_epsilon")
    whole("candidates", candidates, 1, LARGEST_LATTICE)
    nodes = _some(lattice(allowed), candidates, source)
    scores = Scores(cube, guarantee)
    found = scores.search(nodes, progress)
    numerator = exact.up(1 / exact.exp(Fraction(epsilon) / STEPS))

    def steps(i: int) -> int:
        found.look(i)
        return scores.steps(int(found.upper[i]))

    chosen = permute_and_flip(
        [scores.steps(int(bound)) for bound in found.upper], steps, numerator, source
    )
    return tuple(nodes[chosen].tolist()), exact.log_ratio(Fraction(ONE, numerator), STEPS)


def public_choice(
    cube: Cube,
    allowed: Sequence[range],
    guarantee: Guarantee,
    scale: float = 1.0,
    progress: Progress | None = None,
) -> Levels:
    """The levels with the highest score on public data, of which the table to release has `scale`
    times the rows."""
    nodes = lattice(allowed)
    found = Scores(cube, guarantee, scale).search(nodes, progress)
    return tuple(nodes[0 if found.best is None else found.best[1]].tolist())


def permute_and_flip(
    bounds: Sequence[int], score: Callable[[int], int], numerator: int, source: Source
) -> int:
    """An index, likely of a high score: the first in random order for which `highest -
    score(index)` coins all show heads.

    A coin shows heads with probability `numerator` / 2**64. No score is above its bound, and the
    highest bound is a score. The first `highest - bound` coins are tossed without knowing the
    score: mostly one of them shows tails, and it is not needed.
    """
    highest = max(bounds)
    waiting = list(range(len(bounds)))
    while True:
        at = int(source.below(len(waiting), 1)[0])
        waiting[at], waiting[-1] = waiting[-1], waiting[at]
        index = waiting.pop()
        surely = highest - bounds[index]
        if _all_heads(surely, numerator, source) and _all_heads(
            highest - score(index) - surely, numerator, source
        ):
            return index


def _all_heads(n: int, numerator: int, source: Source) -> bool:
    at_once = _FIRST_COINS
    while n:
        now = min(n, at_once)
        if not source.coins(numerator, now).all():
            return False
        n -= now
        at_once = min(2 * at_once, _MOST_COINS)
    return True


def _some(nodes: Integers, most: int, source: Source) -> Integers:
    """Up to so many of the generalisations, by lot."""
    if len(nodes) <= most:
        return nodes
    order = np.arange(len(nodes))
    for i in range(most):
        j = i + int(source.below(len(nodes) - i, 1)[0])
        order[[i, j]] = order[[j, i]]
    return nodes[np.sort(order[:most])]
