"""What a report gives away once it has been shuffled among others of the *same mechanism*, from its
exact channel.

Each of the other n - 1 reports is, with probability g, drawn from the blanket w of the channel
(:mod:`deniable.mechanisms.blankets`). Even someone who is shown which reports are not still has to
distinguish the person's report from those that are. With G = e^promised, the probability that the
loss between the values v and v' exceeds `promised` is then at most (Balle, Bell, Gascón and Nissim,
"The privacy blanket of the shuffle model", CRYPTO 2019, lemma 5.1, in the mean over how many
reports come from the blanket)

    delta = E( (Z_1 + … + Z_n)_+ ) / n,     Z = (P(y | v) - G P(y | v'))/w(y) with probability w(y), 0 with probability 1 - g.

That expectation is bounded from above by adding up laws on a grid. Three facts make the bound
rigorous:

* (.)_+ is convex, so a value may be moved to its two neighbours on the grid with its mean kept, at
  every step;
* it is increasing, so a far lower tail may be moved up; and it grows no faster than its argument,
  so for a far upper tail that is moved down, the expected distance is added;
* all sums are of positive numbers, whose rounding is relative: a factor of 1 + 1e-9 covers all of
  it.

No normal approximation, no Fourier transform, no sampling.
"""

from __future__ import annotations

import math
from itertools import permutations
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_count, check_delta, check_loss
from deniable.mechanisms.blankets import Blanket
from deniable.numerics import root
from deniable.privacy.shuffling import shuffled_delta, shuffled_epsilon

__all__ = ["SHUFFLED_DELTA", "blanket_delta", "blanket_epsilon"]

SHUFFLED_DELTA = 1e-6
"""The chance for which plans and windows promise nothing, where they state a shuffled epsilon."""

_Floats = NDArray[np.float64]
_Pair = tuple[int, int]
_CELLS = 1024
"""The grid is coarsened if a law would take more cells."""
_FIRST_CELLS = 2048
"""Cells over the range of one term."""
_IGNORED = 1e-4
"""The part of delta reserved for moving tails."""
_ROUNDING = 1 + 1e-9
_CHANNEL = 4e-15
"""Far above the relative error of the channel's doubles."""
_TIES = 1e-12
"""Far above the relative rounding error of a sum of sums over a grid."""
_FEW_VALUES = 3
_CLOSE = 1e-4
_SMALLEST = 1e-15


class Shuffled(Protocol):
    """What must be known about a mechanism."""

    @property
    def epsilon(self) -> float:
        """Its local loss."""

    def blanket(self) -> Blanket | None:
        """The part of the report's law common to all values."""


def blanket_delta(mechanism: Shuffled, n: int, promised: float) -> float:
    """The probability that a report of `mechanism`, shuffled among `n`, loses more than `promised`:
    an upper bound.

    >>> from deniable import DirectEncoding
    >>> round(blanket_delta(DirectEncoding(2, 1.0), 12, 0.25), 3)  # the worst crowd of 12 has 0.048
    0.062
    """
    loss, count, wanted = (
        check_loss("epsilon", mechanism.epsilon),
        check_count("n", n),
        check_loss("promised", promised),
    )
    if wanted >= loss:
        return 0.0
    blanket = mechanism.blanket()
    if blanket is None:
        return shuffled_delta(loss, count, wanted)
    return min(_delta(blanket, count, wanted, 1e-9, _tellers(blanket, wanted)), 1.0)


def blanket_epsilon(mechanism: Shuffled, n: int, delta: float) -> float:
    """The loss of a report of `mechanism` shuffled among `n`, except with probability `delta`: an
    upper bound.

    Much below :func:`~deniable.privacy.shuffling.shuffled_epsilon`, which is valid for the worst
    mechanism of the same epsilon and is used if no blanket is known.

    >>> from deniable import DirectEncoding, SymmetricUnary
    >>> round(blanket_epsilon(DirectEncoding(16, 1.0), 100_000, 1e-6), 4)
    0.0053
    >>> round(blanket_epsilon(SymmetricUnary(16, 1.0), 100_000, 1e-6), 4)
    0.0088
    """
    loss, count, slack = (
        check_loss("epsilon", mechanism.epsilon),
        check_count("n", n),
        check_delta(delta),
    )
    blanket = mechanism.blanket()
    if blanket is None:
        return shuffled_epsilon(loss, count, slack)
    if slack < _SMALLEST or loss == 0:
        return loss
    # Solve for the most revealing pair of values, check whether another loses more there, and add
    # it.
    pairs = [_tellers(blanket, 0.0)[0]]
    while True:
        found = _solve(blanket, count, slack, loss, pairs)
        if found == loss:
            return loss
        others = [pair for pair in _tellers(blanket, found) if pair not in pairs]
        deltas = [_delta(blanket, count, found, slack, [pair]) for pair in others]
        if max(deltas, default=0.0) <= slack:
            return found
        pairs.append(others[deltas.index(max(deltas))])


def _solve(blanket: Blanket, n: int, slack: float, loss: float, pairs: list[_Pair]) -> float:
    """The least epsilon whose delta, for these pairs, is at most `slack`; from above.

    ln delta is nearly a line in epsilon where it matters, so few of its values are needed.
    """
    target = math.log(slack)
    low, high = 0.0, loss
    at_low, at_high = _log(_delta(blanket, n, low, slack, pairs)) - target, _log(0.0) - target
    if at_low <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        return _log(_delta(blanket, n, epsilon, slack, pairs)) - target

    return root(excess, low, high, at_low, at_high, relative=_CLOSE)


def _log(delta: float) -> float:
    return math.log(max(delta, 1e-30))


class _Law(NamedTuple):
    """The law of a sum on the grid `step` times whole numbers, of which `first` is the first."""

    mass: _Floats
    first: int
    step: float

    @property
    def places(self) -> _Floats:
        return self.step * np.arange(self.first, self.first + self.mass.size, dtype=np.float64)


def _delta(blanket: Blanket, n: int, promised: float, wanted: float, pairs: list[_Pair]) -> float:
    """The bound for the worst of some pairs of values. Tails are moved as far as does not affect a
    delta of about `wanted`."""
    growth = math.exp(promised)
    budget = _IGNORED * wanted * n
    worst = max(_positive_part(law, n, budget) for law in _terms(blanket, growth, pairs))
    ties = 0.0 if _is_small(blanket) else _TIES * sum(_reach(blanket, growth))
    return worst * _ROUNDING / n + _CHANNEL * (1 + growth) + ties


def _reach(blanket: Blanket, growth: float) -> tuple[float, float]:
    """How far any Z can be below 0, and above."""
    least, most = float(blanket.ratio.min()), float(blanket.ratio.max())
    return growth * most - least, max(most - growth * least, 0.0)


def _terms(blanket: Blanket, growth: float, pairs: list[_Pair]) -> list[_Law]:
    """The law of Z for each of the pairs, on one grid: each value goes to its two neighbours, with
    its mean kept."""
    weight, ratio = blanket
    below_zero, above_zero = _reach(blanket, growth)
    step = (below_zero + above_zero) / _FIRST_CELLS
    first = -math.ceil(below_zero / step) - 1
    cells = math.ceil(above_zero / step) + 2 - first
    nothing = max(1 - float(weight.sum()), 0.0)
    laws = []
    for one, other in pairs:
        place = (ratio[:, one] - growth * ratio[:, other]) / step - first
        below = np.floor(place).astype(np.intp)
        part = place - below
        mass = np.zeros(cells)
        np.add.at(mass, below, weight * (1 - part))
        np.add.at(mass, below + 1, weight * part)
        mass[-first] += nothing
        laws.append(_Law(mass, first, step))
    return laws


def _is_small(blanket: Blanket) -> bool:
    return bool(blanket.ratio.shape[1] <= _FEW_VALUES)


def _tellers(blanket: Blanket, promised: float) -> list[_Pair]:
    """The pairs of values to examine, the most revealing first: all, if there are few.

    Of many, those whose Z is not dominated by another's in spread: of two laws with E(Z - t)_+ <=
    E(Z' - t)_+ for all t, the second has the larger delta. If that fails only by rounding, delta is
    off by no more than that, which `_TIES` covers.
    """
    pairs = list(permutations(range(blanket.ratio.shape[1]), 2))
    masses = np.array([law.mass[::-1] for law in _terms(blanket, math.exp(promised), pairs)])
    tails = np.cumsum(np.cumsum(masses, axis=1), axis=1)
    kept: list[int] = []
    for i in np.argsort(-tails.sum(axis=1), kind="stable").tolist():
        if _is_small(blanket):
            known = any(np.array_equal(masses[i], masses[j]) for j in kept)
        else:
            known = any(np.all(tails[i] <= tails[j] * (1 + 1e-13)) for j in kept)
        if not known:
            kept.append(i)
    return [pairs[i] for i in kept]


def _positive_part(term: _Law, n: int, budget: float) -> float:
    """An upper bound on E(Z_1 + … + Z_n)_+, by doubling: sums of 1, 2, 4, … terms, adding those
    that make up n."""
    proportion = budget / (4 * n.bit_length())
    block, lost_in_block = term, 0.0
    total, lost_in_total = _Law(np.ones(1), 0, term.step), 0.0
    for digit in range(n.bit_length()):
        if digit:
            block, lost = _tidy(_add(block, block), proportion * (1 << digit) / n)
            lost_in_block = 2 * lost_in_block + lost
        if n >> digit & 1:
            total, lost = _tidy(_add(total, block), proportion)
            lost_in_total += lost_in_block + lost
    return float(np.maximum(total.places, 0) @ total.mass) + lost_in_total


def _add(one: _Law, other: _Law) -> _Law:
    """The law of the sum of two independent numbers."""
    while one.step < other.step:
        one = _coarser(one)
    while other.step < one.step:
        other = _coarser(other)
    return _Law(np.convolve(one.mass, other.mass), one.first + other.first, one.step)


def _coarser(law: _Law) -> _Law:
    """On twice the step: mass between two of the new points goes to both in equal parts, which
    keeps the mean."""
    mass, first = law.mass, law.first
    if first % 2:
        mass, first = np.concatenate([[0.0], mass]), first - 1
    if mass.size % 2 == 0:
        mass = np.append(mass, 0.0)
    even, half = mass[::2].copy(), mass[1::2] / 2
    even[:-1] += half
    even[1:] += half
    return _Law(even, first // 2, 2 * law.step)


def _tidy(law: _Law, lost: float) -> tuple[_Law, float]:
    """The law with its tails moved in as far as that changes no more than `lost`, and coarsened;
    and the upper loss."""
    mass, first, step = law
    # The expected distance by which a tail is moved to a point: the double cumulative sum of the
    # masses beyond it.
    from_below = step * np.cumsum(np.cumsum(mass))
    from_above = step * np.cumsum(np.cumsum(mass[::-1]))
    low = int(np.searchsorted(from_below, lost))
    high = mass.size - 1 - int(np.searchsorted(from_above, lost))
    if low >= high:
        low, high = 0, mass.size - 1
    moved = float(from_above[mass.size - 2 - high]) if high < mass.size - 1 else 0.0
    kept = mass[low : high + 1].copy()
    kept[0] += mass[:low].sum()
    kept[-1] += mass[high + 1 :].sum()
    tidied = _Law(kept, first + low, step)
    while tidied.mass.size > _CELLS:
        tidied = _coarser(tidied)
    return tidied, moved
