"""Random sources for exact tests: bytes that are played back, and every path that draws can take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, pairwise
from math import comb
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from deniable.errors import RandomnessError
from deniable.randomness import ONE, Categorical, Source

__all__ = ["ScriptedSource", "every_path"]

_Bytes = NDArray[np.uint8]
_Words = NDArray[np.uint64]


_T = TypeVar("_T")


class ScriptedSource(Source):
    """Plays back the given bytes, and fails when they are used up.

    >>> ScriptedSource(bytes(8)).words(1).tolist()
    [0]
    """

    def __init__(self, script: bytes) -> None:
        self._script, self._used = script, 0

    @property
    def remaining(self) -> int:
        """How many bytes of the script are left."""
        return len(self._script) - self._used

    def fill(self, buffer: _Bytes) -> None:
        if len(buffer) > self.remaining:
            raise RandomnessError(
                f"the script has {self.remaining} bytes left and {len(buffer)} were asked for"
            )
        buffer[:] = np.frombuffer(
            self._script, dtype=np.uint8, count=len(buffer), offset=self._used
        )
        self._used += len(buffer)


class _PathSource(Source):
    """Follows one path through the tree of outcomes, and notes the branches it passed."""

    def __init__(self, prefix: Sequence[int]) -> None:
        self._prefix = prefix
        self.taken: list[int] = []
        self.branches: list[int] = []
        self.probability = Fraction(1)

    def _branch(self, weights: Sequence[int]) -> int:
        possible = [outcome for outcome, weight in enumerate(weights) if weight]
        depth = len(self.taken)
        choice = self._prefix[depth] if depth < len(self._prefix) else 0
        self.taken.append(choice)
        self.branches.append(len(possible))
        outcome = possible[choice]
        self.probability *= Fraction(weights[outcome], sum(weights))
        return outcome

    def fill(self, buffer: _Bytes) -> None:
        raise RandomnessError(
            "every_path walks the exact draws of a source; raw bytes have too many outcomes to walk"
        )

    def bit_rows(self, numerator: int, n: int, width: int) -> _Bytes:
        bits = [
            [self._branch((ONE - numerator, numerator)) for _ in range(width)] for _ in range(n)
        ]
        return np.packbits(
            np.array(bits, dtype=np.uint8).reshape(n, width), axis=1, bitorder="little"
        )

    def below(self, bound: int, n: int) -> NDArray[np.int64]:
        return np.array([self._branch([1] * bound) for _ in range(n)], dtype=np.int64)

    def pick(self, thresholds: _Words, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        out = []
        for row in rows:
            edges = [0, *(int(t) for t in thresholds[row]), ONE]
            out.append(self._branch([high - low for low, high in pairwise(edges)]))
        return np.array(out, dtype=np.int64)

    def outcomes(self, law: Categorical, n: int) -> NDArray[Any]:
        return np.array([self._branch(law.weights) for _ in range(n)], dtype=law.lookup.dtype)

    def subsets(self, n: int, width: int, size: int) -> _Bytes:
        every = list(combinations(range(width), size))
        rows = np.zeros((n, width), dtype=np.uint8)
        for row in rows:
            row[list(every[self._branch([1] * comb(width, size))])] = 1
        return np.packbits(rows, axis=1, bitorder="little")


def every_path(experiment: Callable[[Source], _T]) -> Iterator[tuple[Fraction, _T]]:
    """Run `experiment` once for each outcome of its draws; yield the outcome's exact probability
    and what it returned.

    >>> sum(p for p, die in every_path(lambda source: source.below(6, 1)[0]) if die >= 4)
    Fraction(1, 3)
    """
    prefix: list[int] = []
    while True:
        source = _PathSource(prefix)
        result = experiment(source)
        yield source.probability, result
        prefix = source.taken
        while prefix and prefix[-1] + 1 == source.branches[len(prefix) - 1]:
            prefix.pop()
        if not prefix:
            return
        prefix[-1] += 1
