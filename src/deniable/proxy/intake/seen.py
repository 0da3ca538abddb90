"""The message ids seen in one epoch of one channel, each with a check of its share: 24 bytes per
message, and a filter.

Ids are uniform, so the first bits of an id say where to look in a mostly empty bitmap: nearly every
new id is recognised as new in one lookup. The others are searched in sorted runs, four of which are
merged into one of the next size.

An epoch may stay open for days. Runs of a million ids are no longer merged but written to disk, in
unnamed files that vanish with the process: only the filter, 4 to 8 bytes per id, stays in memory.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.service.files.file_arrays import on_disk
from deniable.wire.sizes import SIZE_CLASSES, row_words

__all__ = ["Checker", "EpochIds", "SeenResult"]

_Words = NDArray[np.uint64]
_HALF = np.uint64(0xFFFFFFFF)
_CHUNK = 8192  # columns at a time: as many as fit in a core's cache
_FEW = 256
_LARGEST_RUN = 1 << 20
"""Runs with at least this many ids are no longer merged."""
_FAN_IN = 4
_SLOTS_PER_ID = 32
_FEWEST_SLOT_BITS = 12


class Checker:
    """Compares shares by a 64-bit check: the universal hash NH of UMAC, under a secret of this
    process.

    With a(i), b(i) the halves of word i and k(i), l(i) those of the key, the check is the sum over
    i of ((a(i) + k(i)) mod 2**32) ((b(i) + l(i)) mod 2**32), modulo 2**64. Two different shares
    have the same check with probability at most 2**-32, even if an attacker chose them (Black,
    Halevi, Krawczyk, Krovetz and Rogaway, "UMAC", CRYPTO 1999). A changed share that goes unnoticed
    is answered like an identical one, and the first one still counts.
    """

    def __init__(self, secret: bytes) -> None:
        self._low, self._high = np.frombuffer(secret, dtype="<u4").astype(np.uint64).reshape(2, -1)

    @classmethod
    def fresh(cls) -> Checker:
        """A checker with a fresh random secret, long enough for the largest size class."""
        return cls(secrets.token_bytes(8 * row_words(SIZE_CLASSES[-1])))

    def __call__(self, columns: _Words) -> _Words:
        """The check of each column's share: of all its words except the two of the message id."""
        # all words at once: less work in Python, and still in a core's cache
        if columns.shape[1] <= _FEW:
            low = (columns[2:] + self._low[: len(columns) - 2, None]) & _HALF
            low *= ((columns[2:] >> np.uint64(32)) + self._high[: len(columns) - 2, None]) & _HALF
            return np.asarray(low.sum(axis=0, dtype=np.uint64))
        checks = np.zeros(columns.shape[1], dtype=np.uint64)
        for start in range(0, columns.shape[1], _CHUNK):
            part = slice(start, start + _CHUNK)
            for word, low_key, high_key in zip(
                columns[2:, part], self._low, self._high, strict=False
            ):
                low = word + low_key
                low &= _HALF
                high = word >> np.uint64(32)
                high += high_key
                high &= _HALF
                low *= high
                checks[part] += low
        return checks


class SeenResult(NamedTuple):
    """What is known about a batch of messages."""

    new: NDArray[np.intp]
    """The indices of messages not seen before; of equal ones, the first."""
    n_same: int
    """How many were seen before with the same share."""
    n_changed: int
    """How many were seen before with a different share."""
    same: NDArray[np.bool_]
    """For each, whether it was seen before with the same share."""
    repeated: NDArray[np.bool_]
    """For each, whether its id occurs earlier in the batch."""


class _Run(NamedTuple):
    ids: NDArray[np.bytes_]
    """Sixteen bytes each, ascending: compared whole, so that maliciously similar ids cost no more
    than others."""
    checks: _Words


class EpochIds:
    """The ids of one epoch.

    >>> seen = EpochIds()
    >>> rows, checks = np.array([[5, 1, 5], [0, 0, 0]], dtype=np.uint64), np.array([7, 8, 7], dtype=np.uint64)
    >>> found = seen.look(rows, checks)
    >>> found.new.tolist(), found.n_same, found.n_changed
    ([0, 1], 1, 0)
    >>> seen.add(rows[:, found.new], checks[found.new])
    >>> seen.look(rows, np.array([7, 9, 7], dtype=np.uint64))[1:3]
    (2, 1)
    """

    def __init__(self, folder: Path | None = None, largest_run: int = _LARGEST_RUN) -> None:
        """Large runs are written to the folder; without one, they stay in memory."""
        self._folder, self._largest_run = folder, largest_run
        self._tiers: list[list[_Run]] = [[]]
        self._settled: list[_Run] = []
        self._n = 0
        self._slot_bits = _FEWEST_SLOT_BITS
        self._filter = np.zeros(1 << self._slot_bits - 3, dtype=np.uint8)

    def __len__(self) -> int:
        return self._n

    def look(self, ids: _Words, checks: _Words) -> SeenResult:
        """Which of these messages are new. `ids` has two rows, the high and the low words; nothing
        is stored yet."""
        first = _first_of_equal(ids)
        repeated = first != np.arange(first.size)
        known = np.zeros(first.size, dtype=bool)
        same = checks == checks[first]
        maybe = np.flatnonzero(self._maybe(ids[0]))
        if maybe.size:
            named = _names(ids[:, maybe])
            for run in self._runs():
                at = np.minimum(np.searchsorted(run.ids, named), run.ids.size - 1)
                hit = run.ids[at] == named
                known[maybe[hit]] = True
                same[maybe[hit]] = run.checks[at[hit]] == checks[maybe[hit]]
        old = known | repeated
        same &= old
        n_same = int(np.count_nonzero(same))
        return SeenResult(
            np.flatnonzero(~old), n_same, int(np.count_nonzero(old)) - n_same, same, repeated
        )

    def add(self, ids: _Words, checks: _Words) -> None:
        """Store messages, all of which must be new."""
        if not checks.size:
            return
        self._n += checks.size
        order = _order(ids)
        self._tiers[0].append(_Run(_names(ids[:, order]), checks[order]))
        for i, tier in enumerate(self._tiers):
            if len(tier) < _FAN_IN:
                break
            merged = _merged(tier)
            tier.clear()
            if merged.ids.size >= self._largest_run:
                if self._folder is not None:
                    merged = _Run(
                        on_disk(merged.ids, self._folder), on_disk(merged.checks, self._folder)
                    )
                self._settled.append(merged)
                break
            if i + 1 == len(self._tiers):
                self._tiers.append([])
            self._tiers[i + 1].append(merged)
        if self._n * _SLOTS_PER_ID > 1 << self._slot_bits:
            self._widen()
        else:
            self._set(ids[0])

    def _runs(self) -> Iterator[_Run]:
        yield from self._settled
        for tier in self._tiers:
            yield from tier

    def _widen(self) -> None:
        self._slot_bits = (self._n * _SLOTS_PER_ID).bit_length()
        self._filter = np.zeros(1 << self._slot_bits - 3, dtype=np.uint8)
        for run in self._runs():
            self._set(run.ids.view(">u8")[::2].astype(np.uint64))

    def _slots(self, high: _Words) -> tuple[_Words, NDArray[np.uint8]]:
        slots = high >> np.uint64(64 - self._slot_bits)
        return slots >> np.uint64(3), np.left_shift(
            np.uint8(1), (slots & np.uint64(7)).astype(np.uint8)
        )

    def _set(self, high: _Words) -> None:
        byte, bit = self._slots(high)
        # of two ids in one byte, one pass writes only one; a single pass is nearly always enough
        while byte.size:
            self._filter[byte] |= bit
            left = self._filter[byte] & bit == 0
            byte, bit = byte[left], bit[left]

    def _maybe(self, high: _Words) -> NDArray[np.bool_]:
        byte, bit = self._slots(high)
        return np.asarray(self._filter[byte] & bit != 0)


def _names(ids: _Words) -> NDArray[np.bytes_]:
    return np.ascontiguousarray(ids.T.astype(">u8")).view("S16").reshape(-1)


def _order(ids: _Words, kind: Literal["quicksort", "stable"] = "quicksort") -> NDArray[np.intp]:
    """The indices that sort the ids; of equal ones, the first comes first."""
    order = np.argsort(ids[0], kind=kind)
    ordered = ids[0][order]
    return np.lexsort((ids[1], ids[0])) if (ordered[1:] == ordered[:-1]).any() else order


def _first_of_equal(ids: _Words) -> NDArray[np.intp]:
    """For each id, the index of its first occurrence."""
    ordered = np.sort(ids[0])
    if not (ordered[1:] == ordered[:-1]).any():
        return np.arange(ordered.size)
    order = _order(ids)
    starts = np.ones(order.size, dtype=bool)
    starts[1:] = (ids[:, order[1:]] != ids[:, order[:-1]]).any(axis=0)
    first = np.empty(order.size, dtype=np.intp)
    first[order] = order[np.flatnonzero(starts)[np.cumsum(starts) - 1]]
    return first


def _merged(runs: list[_Run]) -> _Run:
    names, checks = (
        np.concatenate([run.ids for run in runs]),
        np.concatenate([run.checks for run in runs]),
    )
    # a stable sort merges sorted runs
    order = _order(names.view(">u8").reshape(-1, 2).T.astype(np.uint64), "stable")
    return _Run(names[order], checks[order])
