"""A script of draws: what a source gave to many at once, given again to each of them alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.randomness import Source


class Recorder(Source):
    """Draws from another source, and notes the outcome of each draw that was asked for from
    outside."""

    def __init__(self, inner: Source) -> None:
        self._inner = inner
        self.draws: list[tuple[str, Any, NDArray[Any]]] = []

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self._inner.fill(buffer)

    def _note(self, kind: str, key: Any, out: NDArray[Any]) -> NDArray[Any]:
        self.draws.append((kind, key, out.copy()))
        return out

    def words(self, n: int) -> NDArray[np.uint64]:
        return self._note("words", None, self._inner.words(n))

    def coins(self, numerator: int, n: int) -> NDArray[np.uint8]:
        return self._note("coins", numerator, self._inner.coins(numerator, n))

    def bit_rows(self, numerator: int, n: int, width: int) -> NDArray[np.uint8]:
        return self._note("bit_rows", (numerator, width), self._inner.bit_rows(numerator, n, width))

    def below(self, bound: int, n: int) -> NDArray[np.int64]:
        return self._note("below", bound, self._inner.below(bound, n))

    def pick(self, thresholds: NDArray[np.uint64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
        return self._note("pick", thresholds.tobytes(), self._inner.pick(thresholds, rows))

    def subsets(self, n: int, width: int, size: int) -> NDArray[np.uint8]:
        return self._note("subsets", (width, size), self._inner.subsets(n, width, size))


class ReplayedSource(Source):
    """Gives one of many its own part of the recorded draws: of draw number i, that at `place(i,
    size)`."""

    def __init__(self, recorder: Recorder, place: Callable[[int, int], int]) -> None:
        self._draws, self._place = recorder.draws, place
        self.used = 0

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        raise AssertionError("a lane plays back draws, not bytes")

    def _next(self, kind: str, key: Any, n: int) -> NDArray[Any]:
        found, recorded, out = self._draws[self.used]
        assert (found, recorded) == (
            kind,
            key,
        ), "a device alone asks for another draw than the fleet does"
        if kind == "words":
            out = out.reshape(-1, n)  # n words a device
            mine = out[self._place(self.used, len(out))]
        else:
            assert n == 1
            at = self._place(self.used, len(out))
            mine = out[at : at + 1]
        self.used += 1
        copied: NDArray[Any] = mine.copy()
        return copied

    def words(self, n: int) -> NDArray[np.uint64]:
        return self._next("words", None, n)

    def coins(self, numerator: int, n: int) -> NDArray[np.uint8]:
        return self._next("coins", numerator, n)

    def bit_rows(self, numerator: int, n: int, width: int) -> NDArray[np.uint8]:
        return self._next("bit_rows", (numerator, width), n)

    def below(self, bound: int, n: int) -> NDArray[np.int64]:
        return self._next("below", bound, n)

    def pick(self, thresholds: NDArray[np.uint64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
        return self._next("pick", thresholds.tobytes(), rows.size)

    def subsets(self, n: int, width: int, size: int) -> NDArray[np.uint8]:
        return self._next("subsets", (width, size), n)
