"""Where every random bit comes from.

A :class:`Source` turns a stream of uniform bytes into the few kinds of draw that mechanisms are
made of. Each is exact: a probability is an integer over 2**64 and is decided by comparing integers,
so what is drawn is what the mechanism's channel says, to the last bit. No float decides a coin.

* :func:`system_source`: the default. AES-128-CTR keystream under a key from the operating system.
* :func:`seeded_source`: the same keystream under a key made from a seed, for simulation. Never for
  a person's answer.
* :class:`~deniable.scripted_randomness.ScriptedSource`: plays back given bytes, for test vectors.
* :func:`~deniable.scripted_randomness.every_path`: runs an experiment once for every outcome its
  draws could have, with the outcome's exact probability.
"""

from __future__ import annotations

import functools
import hashlib
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import groupby
from math import isqrt
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from deniable.errors import ParameterError
from deniable.exact_draws import add_ones, lemire, search_rows

__all__ = ["ONE", "Categorical", "Source", "seeded_source", "source_or_system", "system_source"]

ONE = 1 << 64
"""A probability of 1: all probabilities are integers over this."""

_Bytes = NDArray[np.uint8]
_Words = NDArray[np.uint64]

# Enough words for NumPy's overhead to vanish, few enough that the four rows a comparison works on
# stay in a core's cache.
_CHUNK_WORDS = 32_768
# Likewise for the half a dozen arrays of a binary search.
_CHUNK_PICKS = 8192
# Rows of a subset are gone through some thirty times: few enough that they stay in the cache as
# well.
_CHUNK_SETS = 4096
# After this many binary digits one word in thirty still holds an undecided lane: from here on, only
# those lanes go on.
_HEAD_DIGITS = 11
# Enough lookups for NumPy's overhead to vanish, few enough that prefixes and outcomes stay in a
# core's cache.
_CHUNK_PREFIXES = 65_536


class Categorical:
    """A law on few outcomes, prepared so that most draws are one lookup: `weights` are integers
    that sum to 2**64.

    Of the 65,536 values of a 16-bit number, outcome j owns `weights[j]` // 2**48 outright. The few
    last values together represent the rest of the weights; among them, 48 further bits decide. So
    outcome j has probability `weights[j]` / 2**64 exactly.
    """

    LARGEST = 4096

    def __init__(self, weights: Sequence[int]) -> None:
        if not 1 <= len(weights) <= self.LARGEST:
            raise ParameterError(
                "len(weights)", len(weights), f"must lie between 1 and {self.LARGEST}"
            )
        if min(weights) < 0 or sum(weights) != ONE:
            raise ParameterError(
                "sum(weights)", sum(weights), "must be 2**64, and no weight may be negative"
            )
        self.weights = tuple(weights)
        owned = [weight >> 48 for weight in weights]
        self.owned = sum(owned)
        """How many prefixes decide by themselves."""
        self.lookup = np.zeros(1 << 16, dtype=np.min_scalar_type(len(weights) - 1))
        self.lookup[: self.owned] = np.repeat(np.arange(len(weights)), owned)
        remainders = np.array(
            [weight & ((1 << 48) - 1) for weight in weights[:-1]], dtype=np.uint64
        )
        self.remainders = np.cumsum(remainders, dtype=np.uint64)
        """Where in the leftover, in units of 1/2**64, each outcome but the last ends."""

    def settle(self, prefixes: NDArray[np.uint16], words: _Words) -> NDArray[np.intp]:
        """The outcomes of prefixes that do not decide by themselves, by 48 bits of a word each."""
        place = prefixes.astype(np.uint64) - np.uint64(self.owned)
        return self.remainders.searchsorted(
            (place << np.uint64(48)) | (words >> np.uint64(16)), side="right"
        )


class Source(ABC):
    """Uniform bytes, and the exact draws made of them."""

    @abstractmethod
    def fill(self, buffer: _Bytes) -> None:
        """Overwrite a contiguous buffer with uniform bytes."""

    def words(self, n: int) -> _Words:
        """`n` uniform 64-bit words."""
        out = np.empty(n, dtype=np.uint64)
        self.fill(out.view(np.uint8))
        return out

    def coins(self, numerator: int, n: int) -> _Bytes:
        """`n` zeros and ones, each 1 with probability `numerator` / 2**64."""
        return np.unpackbits(self.bit_rows(numerator, 1, n)[0], count=n, bitorder="little")

    def bit_rows(self, numerator: int, n: int, width: int) -> _Bytes:
        """`n` rows of `width` packed bits, each bit 1 with probability `numerator` / 2**64.

        Bit j of a row is bit j % 8 of byte j // 8; what is left of the last byte is zero.
        """
        if not 0 <= numerator <= ONE:
            raise ParameterError("numerator", numerator, "must be an integer between 0 and 2**64")
        row_bytes = (width + 7) // 8
        n_words = (n * row_bytes + 7) // 8
        if numerator in (0, ONE) or n_words == 0:
            out = np.full(n_words, 0 if numerator == 0 else ONE - 1, dtype=np.uint64)
        else:
            out = self._bernoulli_words(numerator, n_words)
        rows = out.view(np.uint8)[: n * row_bytes].reshape(n, row_bytes)
        if width % 8:
            rows[:, -1] &= (1 << width % 8) - 1
        return rows

    def _bernoulli_words(self, numerator: int, n: int) -> _Words:
        """`n` words of independent bits: in each of 64 lanes a uniform number is compared with
        `numerator`, digit by digit.

        A lane is decided at the first binary digit where the two differ. A random 1 represents a
        digit 0 of the uniform number: it accepts where the numerator's digit is 1, because the
        number is then below it; a random 0 rejects where that digit is
        0. The few lanes that agree in all digits of the head are decided one by one.
        """
        runs, rest = _head(numerator)
        out = np.empty(n, dtype=np.uint64)
        places: list[NDArray[np.intp]] = []
        lanes: list[_Words] = []
        for start in range(0, n, _CHUNK_WORDS):
            accepted = out[start : start + _CHUNK_WORDS]
            agreed = self._compare_digits(runs, accepted)
            if rest:
                agreed |= accepted
                left = np.flatnonzero(agreed != accepted)
                lanes.append(agreed[left] ^ accepted[left])
                places.append(left + start)
        if rest:
            self._finish(np.uint64(rest), np.concatenate(places), np.concatenate(lanes), out)
        return out

    def _compare_digits(self, runs: Sequence[tuple[int, int]], accepted: _Words) -> _Words:
        """Draw words for digits, one row per digit, and compare them into `accepted`; returns the
        lanes that no digit has rejected.

        `runs` are the digits, equal ones together, as (digit, how many). The lanes returned include
        some already accepted: they stay accepted, and leaving them in saves a pass.
        """
        agreed, drawn, more = _scratch(accepted.size)
        seen: set[int] = set()
        for digit, length in runs:
            home, join = (accepted, np.bitwise_or) if digit else (agreed, np.bitwise_and)
            row = drawn if digit in seen else home  # a digit's first run is drawn where it belongs
            self.fill(row.view(np.uint8))
            for _ in range(length - 1):
                self.fill(more.view(np.uint8))
                join(row, more, out=row)
            if digit and 0 in seen:
                row &= agreed
            if digit in seen:
                join(home, row, out=home)
            seen.add(digit)
        if 0 not in seen:
            agreed.fill(ONE - 1)
        if 1 not in seen:
            accepted.fill(0)
        return agreed

    def _finish(
        self, rest: np.uint64, places: NDArray[np.intp], undecided: _Words, out: _Words
    ) -> None:
        """Decide the remaining lanes of the words at `places`, word by word.

        What remains of a lane's uniform number is a word of its own, and what remains of the
        numerator is `rest`.
        """
        lanes = np.unpackbits(undecided.view(np.uint8), bitorder="little").view(np.bool_)
        left = np.flatnonzero(lanes)
        lanes[left] = self.words(left.size) < rest
        out[places] |= np.packbits(lanes, bitorder="little").view(np.uint64)

    def below(self, bound: int, n: int) -> NDArray[np.int64]:
        """`n` integers, uniform on 0 … `bound` - 1, by rejection (Lemire 2019), hence without
        bias."""
        if not 1 <= bound <= 1 << 32:
            raise ParameterError("bound", bound, "must lie between 1 and 2**32")
        drawn = np.empty((n + 1) // 2 * 2, dtype=np.uint32)
        self.fill(drawn.view(np.uint8))
        out, rejected = lemire(drawn[:n], bound, 32)
        while rejected.size:
            again = np.empty((rejected.size + 1) // 2 * 2, dtype=np.uint32)
            self.fill(again.view(np.uint8))
            values, still = lemire(again[: rejected.size], bound, 32)
            out[rejected] = values
            rejected = rejected[still]
        return out

    def pick(self, thresholds: _Words, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """One cell for each entry of `rows`, by the cumulative weights in that row of `thresholds`.

        `thresholds[r, j]` is the weight of the cells 0 … j of row r, over 2**64, for all cells but
        the last: cell j is drawn with probability (thresholds[r, j] - thresholds[r, j - 1]) /
        2**64.
        """
        out = np.empty(rows.size, dtype=np.int64)
        for start in range(0, rows.size, _CHUNK_PICKS):
            part = slice(start, start + _CHUNK_PICKS)
            out[part] = search_rows(thresholds, rows[part], self.words(rows[part].size))
        return out

    def outcomes(self, law: Categorical, n: int) -> NDArray[Any]:
        """`n` outcomes of a law, as indices of its weights."""
        out = np.empty(n, dtype=law.lookup.dtype)
        scratch = np.empty(min(n, _CHUNK_PREFIXES), dtype=np.uint16)
        for start in range(0, n, _CHUNK_PREFIXES):
            part = out[start : start + _CHUNK_PREFIXES]
            prefixes = scratch[: part.size]
            self.fill(prefixes.view(np.uint8))
            # nothing is clipped; without a mode, `out` would be copied
            law.lookup.take(prefixes, out=part, mode="clip")
            undecided = np.flatnonzero(prefixes >= law.owned)
            part[undecided] = law.settle(prefixes[undecided], self.words(undecided.size))
        return out

    def subsets(self, n: int, width: int, size: int) -> _Bytes:
        """`n` rows of `width` packed bits, each with exactly `size` ones, all such rows equally
        likely.

        Draw independent bits, somewhat fewer than wanted, then add one at a time in a random free
        place. All places are treated alike, so all sets of the same size are equally likely. Rows
        that begin with too many ones are redrawn.
        """
        if not 0 <= size <= width:
            raise ParameterError("size", size, f"must lie between 0 and the width, {width}")
        few = min(size, width - size)
        rows = self._sparse_subsets(n, width, few)
        if few < size:
            np.bitwise_not(rows, out=rows)
            if width % 8:
                rows[:, -1] &= (1 << width % 8) - 1
        return rows

    def _sparse_subsets(self, n: int, width: int, size: int) -> _Bytes:
        """For a `size` up to half of `width`, so that at least every second place tried is free."""
        out = np.empty((n, (width + 7) // 8), dtype=np.uint8)
        # Begin at least 1.5 standard deviations below the size: few rows are redrawn, and none
        # lacks much. The initial density affects only the running time, so eight binary digits of
        # it are enough.
        begin = max(0, size - isqrt(9 * size * (width - size) // (4 * max(width, 1))))
        density = ((begin << 8) // max(width, 1)) << 56
        for start in range(0, n, _CHUNK_SETS):
            rows = out[start : start + _CHUNK_SETS]
            missing = np.full(len(rows), -1)
            while (again := np.flatnonzero(missing < 0)).size:
                rows[again] = self.bit_rows(density, again.size, width)
                missing[again] = size - np.bitwise_count(rows[again]).sum(axis=1, dtype=np.int64)
            short = np.flatnonzero(missing)
            while short.size:
                missing[short] -= add_ones(rows, short, self.below(width, short.size))
                short = short[missing[short] > 0]
        return out


@functools.lru_cache(maxsize=1024)
def _head(numerator: int) -> tuple[tuple[tuple[int, int], ...], int]:
    """The first binary digits of a numerator, equal ones together as (digit, how many), and what
    remains of it."""
    digits = [numerator >> (63 - i) & 1 for i in range(_HEAD_DIGITS)]
    rest = (numerator << _HEAD_DIGITS) % ONE
    # beyond its last 1 it cannot exceed anything: equal so far means "not below"
    while not rest and not digits[-1]:
        digits.pop()
    return tuple((digit, len(list(run))) for digit, run in groupby(digits)), rest


class _PerThread(threading.local):
    """Buffers for the rows of one chunk, kept per thread: allocating them again costs as much as
    filling them."""

    rows: _Words | None = None


_per_thread = _PerThread()


def _scratch(n: int) -> tuple[_Words, _Words, _Words]:
    """Three rows of `n` words, with whatever was left in them."""
    if _per_thread.rows is None:
        _per_thread.rows = np.empty((3, _CHUNK_WORDS), dtype=np.uint64)
    first, second, third = _per_thread.rows
    return first[:n], second[:n], third[:n]


_ZEROS = bytes(1 << 16)  # small, so as not to push the drawn words out of the cache


class _Keystream(Source):
    """AES-128 in counter mode. Safe to share between threads; a forked child gets its own key."""

    def __init__(self, seed: bytes | None) -> None:
        self._seed = seed
        self._rekey()
        if seed is None:
            _system_sources.add(self)

    def _rekey(self) -> None:
        key = (
            os.urandom(16)
            if self._seed is None
            else hashlib.sha256(b"deniable seeded source" + self._seed).digest()[:16]
        )
        self._lock = threading.Lock()
        self._cipher: CipherContext = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()

    def fill(self, buffer: _Bytes) -> None:
        view = buffer.data
        with self._lock:
            for start in range(0, len(view), len(_ZEROS)):
                part = view[start : start + len(_ZEROS)]
                self._cipher.update_into(
                    _ZEROS if len(part) == len(_ZEROS) else _ZEROS[: len(part)], part
                )

    def __repr__(self) -> str:
        return "<system source>" if self._seed is None else "<seeded source: for simulation only>"

    def __reduce__(self) -> tuple[Callable[[], Source], tuple[()]]:
        if self._seed is not None:
            raise TypeError(
                "a seeded source cannot be pickled: its copies would draw the same coins"
            )
        return system_source, ()


_system_sources: weakref.WeakSet[_Keystream] = weakref.WeakSet()


def _rekey_all() -> None:
    for source in _system_sources:
        source._rekey()


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_rekey_all)
_default = _Keystream(None)


def system_source() -> Source:
    """The cryptographic source of this process: the default of every draw."""
    return _default


def source_or_system(source: Source | None) -> Source:
    """The source given, which must be one, or else the system's.

    A seed or a NumPy generator in its place is refused: neither draws exact coins, and only the
    system's are unpredictable.
    """
    if source is None:
        return system_source()
    if not isinstance(source, Source):
        raise ParameterError(
            "source",
            type(source).__name__,
            "must be a Source, such as seeded_source(1) for simulation",
        )
    return source


def seeded_source(seed: int | np.integer[Any] | str | bytes) -> Source:
    """A source that draws the same bits for the same seed. For simulation and tests: anyone who
    knows the seed knows the answers.

    >>> seeded_source(7).below(6, 5).tolist() == seeded_source(7).below(6, 5).tolist()
    True
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer | str | bytes):
        raise ParameterError("seed", seed, "must be an integer, a text or bytes")
    if isinstance(seed, int | np.integer):
        seed = f"integer {int(seed)}"
    return _Keystream(seed if isinstance(seed, bytes) else seed.encode())
