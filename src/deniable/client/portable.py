"""The draws of docs/wire.md, one 64-bit word at a time: what a client in another language makes of
the same random bytes.

The library's own sources draw the same laws in bulk, from other bits. This one is slow and plain.
The vectors of `tests/vectors/client-v1.json` are made with it, so that a port can be compared with
the library byte by byte.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.randomness import ONE, Categorical
from deniable.scripted_randomness import ScriptedSource

__all__ = ["PortableSource"]

_Bytes = NDArray[np.uint8]


class PortableSource(ScriptedSource):
    """Plays back the given bytes, and makes every draw of them as the specification says.

    >>> PortableSource(bytes(7) + b"\\x80" + bytes(8)).coins(1 << 63, 2).tolist()  # 2**63 is not below 2**63, and 0 is
    [0, 1]
    """

    def word(self) -> int:
        """The next 8 bytes, little-endian."""
        return int(self.words(1)[0])

    def fill(self, buffer: _Bytes) -> None:
        """Whole words are used: of the last one, the bytes that are not needed are dropped."""
        whole = np.empty(-(-len(buffer) // 8) * 8, dtype=np.uint8)
        super().fill(whole)
        buffer[:] = whole[: len(buffer)]

    def bit_rows(self, numerator: int, n: int, width: int) -> _Bytes:
        bits = [[self.word() < numerator for _ in range(width)] for _ in range(n)]
        return np.packbits(
            np.array(bits, dtype=np.uint8).reshape(n, width), axis=1, bitorder="little"
        )

    def below(self, bound: int, n: int) -> NDArray[np.int64]:
        return np.array([self._below(bound) for _ in range(n)], dtype=np.int64)

    def _below(self, bound: int) -> int:
        if bound < 1:
            raise ParameterError("bound", bound, "must be at least 1")
        while True:
            high, low = divmod(self.word() * bound, ONE)
            if low >= ONE % bound:
                return high

    def pick(self, thresholds: NDArray[np.uint64], rows: NDArray[np.intp]) -> NDArray[np.int64]:
        return np.array(
            [_reached(thresholds[row].tolist(), self.word()) for row in rows], dtype=np.int64
        )

    def outcomes(self, law: Categorical, n: int) -> NDArray[Any]:
        edges = list(accumulate(law.weights[:-1]))
        return np.array([_reached(edges, self.word()) for _ in range(n)], dtype=law.lookup.dtype)

    def subsets(self, n: int, width: int, size: int) -> _Bytes:
        rows = np.zeros((n, width), dtype=np.uint8)
        for row in rows:
            left = size
            for place in range(width):
                row[place] = self._below(width - place) < left
                left -= int(row[place])
        return np.packbits(rows, axis=1, bitorder="little")


def _reached(thresholds: list[int], word: int) -> int:
    return sum(threshold <= word for threshold in thresholds)
