"""What a report gives away to anyone who cannot tell whether its sender took part: in a crowd of a
given size.

Each of n people takes part with probability s. The adversary sees the reports without names, and so
how many there are; knows n, the channel and everybody else's true answer; and wants to know which
of two answers one person has. Silence is then a report like any other, which every answer gives
with probability 1 - s: sampling and randomizing together are one mechanism, and the reports of all
are its reports, shuffled. So

* its blanket is s w(y) for a report y, and 1 - s for silence, where w is the blanket of the
  channel; :mod:`.blanket` turns it into an upper bound that is rigorous, almost exact for the
  mechanisms of this library, and quick for any n;
* where there are few people and few reports, every crowd is enumerated, and the figure is exact.

ln(1 + s (e^epsilon - 1)), which is quoted for sampling
(:func:`~deniable.privacy.response.sampled_epsilon`), holds in no crowd without a delta: a single
person who is heard at all is heard with the local epsilon. More people never reveal more, because
anyone can add the reports of people whose answers they know.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.checks import check_count, check_delta, check_loss, check_proportion
from deniable.errors import ParameterError
from deniable.mechanisms.blankets import Blanket
from deniable.numerics import boundary
from deniable.privacy.blanket import Shuffled, blanket_delta, blanket_epsilon
from deniable.renames import reads_old_names

__all__ = ["crowd_delta", "crowd_epsilon", "exact_crowd_delta"]

_Floats = NDArray[np.float64]
_LARGEST_WORK = 200_000
"""The most cells, over all crowds, for which every crowd is enumerated without being asked to."""
_LARGEST_ASKED = 20_000_000
_MOST_VALUES = 6
"""The most values and reports for which that is tried."""
_LARGEST_CLONED = 500.0
"""The loss from which on no other report can be taken for the person's: e^-epsilon has no digits
left."""


@reads_old_names
def crowd_delta(
    mechanism: Shuffled | float, sampling: float, population: int, promised: float
) -> float:
    """The probability that a report loses more than `promised` among `population`, who take part
    with probability `sampling`.

    `mechanism` is a mechanism or a local epsilon, for the worst mechanism that has it. An upper
    bound, which is exact for a mechanism with a small matrix and few people: 5 people who answer a
    yes/no question with epsilon 2 and probability 0.3 lose more than the 1.0705 of the formula for
    large crowds with probability 0.0065.

    >>> from deniable import DirectEncoding
    >>> [round(crowd_delta(DirectEncoding(2, 2.0), 0.3, n, 1.0705), 4) for n in (1, 5)]
    [0.1599, 0.0065]
    """
    subject, proportion = _Subject.of(mechanism), check_proportion("sampling", sampling)
    count, wanted = check_count("population", population), check_loss("promised", promised)
    if proportion == 0 or wanted >= subject.epsilon:
        return 0.0
    if subject.epsilon > _LARGEST_CLONED:
        return proportion
    bound = blanket_delta(_Sampled(subject, proportion), count, wanted)
    crowds = _enumerated(subject, proportion, count)
    return bound if crowds is None else min(bound, crowds.delta(wanted))


@reads_old_names
def crowd_epsilon(
    mechanism: Shuffled | float, sampling: float, population: int, delta: float
) -> float:
    """The loss of a report among `population` who take part with probability `sampling`, except
    with probability `delta`.

    `mechanism` is a mechanism or a local epsilon, for the worst mechanism that has it. An upper
    bound, never above the local epsilon; exact for a mechanism with a small matrix and few people.

    >>> from deniable import DirectEncoding
    >>> three = DirectEncoding(3, 2.0)
    >>> round(crowd_epsilon(three, 0.05, 2, 1e-3), 2), round(crowd_epsilon(three, 0.05, 50, 1e-6), 2)
    (1.43, 0.43)
    """
    subject, proportion = _Subject.of(mechanism), check_proportion("sampling", sampling)
    count, slack = check_count("population", population), check_delta(delta)
    if proportion == 0 or subject.epsilon == 0:
        return 0.0
    if subject.epsilon > _LARGEST_CLONED:
        return subject.epsilon
    bound = blanket_epsilon(_Sampled(subject, proportion), count, slack)
    crowds = _enumerated(subject, proportion, count) if slack else None
    return bound if crowds is None else min(bound, crowds.epsilon(slack, subject.epsilon))


@reads_old_names
def exact_crowd_delta(matrix: Any, sampling: float, population: int, promised: float) -> float:
    """The delta of the worst crowd for a channel P[report, value], by enumerating what everybody
    else may have answered.

    It takes time in proportion to the number of crowds and of their possible reports, and is
    refused where these are too many.

    >>> round(exact_crowd_delta([[0.75, 0.25], [0.25, 0.75]], 0.1, 10, 0.3), 6)
    0.000974
    """
    channel = np.asarray(matrix, dtype=np.float64)
    if channel.ndim != 2 or channel.min() < 0 or not np.allclose(channel.sum(axis=0), 1):
        raise ParameterError(
            "matrix", channel.shape, "must have a column of probabilities for each value"
        )
    count, proportion, wanted = (
        check_count("population", population),
        check_proportion("sampling", sampling),
        check_loss("promised", promised),
    )
    if _work(channel, count) > _LARGEST_ASKED:
        raise ParameterError(
            "population",
            population,
            "makes too many crowds to enumerate; use crowd_delta, which bounds them",
        )
    return _Crowds.of(channel, proportion, count).delta(wanted)


@dataclass(frozen=True)
class _Subject:
    """What is known about the mechanism: its loss, its blanket, and its matrix if that is small."""

    epsilon: float
    known: Any = None

    @classmethod
    def of(cls, given: Shuffled | float) -> _Subject:
        if isinstance(given, int | float):
            return cls(check_loss("epsilon", given))
        return cls(check_loss("epsilon", given.epsilon), given)

    def blanket(self) -> Blanket:
        found = None if self.known is None else self.known.blanket()
        return _clones(self.epsilon) if found is None else found

    def matrix(self) -> _Floats | None:
        if not 0 < len(getattr(self.known, "labels", ())) <= _MOST_VALUES:
            return None
        found = self.known.channel()
        return found if isinstance(found, np.ndarray) and len(found) <= _MOST_VALUES else None


@dataclass(frozen=True)
class _Sampled:
    """A mechanism whose reports include silence."""

    subject: _Subject
    sampling: float

    @property
    def epsilon(self) -> float:
        return self.subject.epsilon

    def blanket(self) -> Blanket:
        weight, ratio = self.subject.blanket()
        silent = np.ones((1, ratio.shape[1]))
        return Blanket(
            np.append(self.sampling * weight, 1 - self.sampling), np.vstack([ratio, silent])
        )


def _clones(epsilon: float) -> Blanket:
    """A blanket that every mechanism of a given loss has, for any two of its values (Feldman,
    McMillan and Talwar 2021).

    With probability e^-epsilon, another person's report is a clone: equally likely to be drawn from
    either of the two parts of which the reports of both values are mixtures, with the weights
    e^epsilon/(e^epsilon + 1) and 1/(e^epsilon + 1).
    """
    weight, rare = math.exp(-epsilon) / 2, 1 / (math.exp(epsilon) + 1)
    ratio = np.array([[1 - rare, rare], [rare, 1 - rare]]) / weight
    return Blanket(np.array([weight, weight]), ratio)


# --- every crowd, where there are few


def _work(matrix: _Floats, population: int) -> int:
    """How many cells there are: crowds of everybody else, times possible counts of reports, times
    pairs of values."""
    reports, values = int(matrix.shape[0]), int(matrix.shape[1])
    cells: int = values * (population + 1) ** reports
    return math.comb(population - 1 + values - 1, values - 1) * cells


def _enumerated(subject: _Subject, sampling: float, population: int) -> _Crowds | None:
    """All crowds of that size or, if they are too many, of the largest that is feasible: it bounds
    the larger ones."""
    matrix = subject.matrix()
    if matrix is None:
        return None
    fewer = population
    while fewer > 1 and _work(matrix, fewer) > _LARGEST_WORK:
        fewer = fewer * 7 // 8
    if fewer == 1 or fewer < population // 4:  # the bound is far below what so small a crowd gives
        return None
    return _all_crowds(matrix.tobytes(), (len(matrix), matrix.shape[1]), sampling, fewer)


@lru_cache(maxsize=32)
def _all_crowds(matrix: bytes, shape: tuple[int, int], sampling: float, population: int) -> _Crowds:
    return _Crowds.of(np.frombuffer(matrix).reshape(shape), sampling, population)


@dataclass(frozen=True, eq=False)
class _Crowds:
    """For every crowd and every two answers of one person in it, the laws of all reports under
    both."""

    one: _Floats
    other: _Floats

    @classmethod
    def of(cls, matrix: _Floats, sampling: float, population: int) -> _Crowds:
        seen = sampling * matrix
        pairs = list(permutations(range(matrix.shape[1]), 2))
        laws: list[tuple[_Floats, _Floats]] = []
        start = np.zeros((population + 1,) * len(matrix))
        start[(0,) * len(matrix)] = 1.0
        for crowd in _others(start, seen, 0, population - 1):
            answers = [_with(crowd, column, sampling).reshape(-1) for column in seen.T]
            laws.extend((answers[v], answers[w]) for v, w in pairs)
        return cls(np.array([one for one, _ in laws]), np.array([other for _, other in laws]))

    def delta(self, promised: float) -> float:
        """The largest excess of one law over e^promised times the other. The factor covers the
        rounding of sums."""
        growth = math.exp(promised)
        return float(np.maximum(self.one - growth * self.other, 0).sum(axis=1).max()) * (1 + 1e-12)

    def epsilon(self, delta: float, most: float) -> float:
        """The least promise that is kept except with probability `delta`, from above."""
        return boundary(
            lambda promised: self.delta(promised) <= delta, 0.0, most, tolerance=1e-6 * most
        )


def _others(law: _Floats, seen: _Floats, first: int, population: int) -> Iterator[_Floats]:
    """The laws of the reports of all others, for every choice of their answers, each set of answers
    once."""
    if not population:
        yield law
        return
    for value in range(first, seen.shape[1]):
        column = seen[:, value]
        yield from _others(_with(law, column, float(column.sum())), seen, value, population - 1)


def _with(law: _Floats, column: _Floats, sampling: float) -> _Floats:
    """The law of the counts with one more person. An axis of the array is a report, the place on it
    how often it was sent."""
    out = (1 - sampling) * law
    for report, chance in enumerate(column.tolist()):
        source = tuple(
            slice(None, -1) if axis == report else slice(None) for axis in range(law.ndim)
        )
        target = tuple(
            slice(1, None) if axis == report else slice(None) for axis in range(law.ndim)
        )
        out[target] += chance * law[source]
    return out
