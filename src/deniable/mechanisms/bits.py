"""Rows of packed bits: flip, set or read one bit per row, and count the ones of every column, a
machine word at a time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["count_columns", "flip_bits", "get_bits", "put_bits", "row_bytes"]

_Bytes = NDArray[np.uint8]
_WORD = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SLAB_WORDS = 8192
# Rows per chunk, so that intermediate arrays stay in the cache; more if a row is one machine word.
_BLOCK_ROWS = 8192
_BLOCK_WORDS = 32_768


def row_bytes(width: int) -> int:
    """The number of bytes in a row of `width` bits."""
    return (width + 7) // 8


def put_bits(rows: _Bytes, places: NDArray[np.intp], bits: _Bytes) -> None:
    """Make bit `places[i]` of row i equal to `bits[i]`, in place; a place of -1 leaves the row
    unchanged."""
    _turn(rows, places, bits ^ np.uint8(1), set_first=True)


def flip_bits(rows: _Bytes, places: NDArray[np.intp], bits: _Bytes) -> None:
    """Flip bit `places[i]` of row i where `bits[i]` is 1, in place; a place of -1 leaves the row
    unchanged."""
    _turn(rows, places, bits, set_first=False)


def _turn(rows: _Bytes, places: NDArray[np.intp], bits: _Bytes, *, set_first: bool) -> None:
    """Flip bits, as :func:`flip_bits` does, or set them all before that.

    Nothing branches on a place, so that the time does not depend on where, or whether, a bit is
    flipped.
    """
    n, length = rows.shape
    word = _WORD.get(length)
    block = _BLOCK_WORDS if word else _BLOCK_ROWS
    for start in range(0, n, block):
        part = slice(start, start + block)
        if word:
            words = rows[part].view(word)[:, 0]
            # -1 becomes the largest unsigned number, and a shift that far gives 0: no bit changes.
            shifts = places[part].astype(word)
            if set_first:
                words |= word(1) << shifts
            words ^= bits[part] << shifts
        else:
            flat = rows[part].reshape(-1)
            at, shifts = _in_bytes(places[part], length)
            # shifted out of the byte: no bit changes
            shifts |= (places[part] < 0).view(np.uint8) << 7
            found = flat[at]
            if set_first:
                found |= np.uint8(1) << shifts
            found ^= bits[part] << shifts
            flat[at] = found


def get_bits(rows: _Bytes, places: NDArray[np.intp]) -> _Bytes:
    """Bit `places[i]` of row i."""
    at, shifts = _in_bytes(places, rows.shape[1])
    bits: _Bytes = rows.reshape(-1)[at] >> shifts & np.uint8(1)
    return bits


def _in_bytes(places: NDArray[np.intp], length: int) -> tuple[NDArray[np.intp], _Bytes]:
    """Which byte of all rows, laid end to end, holds each place, and which bit of that byte it
    is."""
    at = np.maximum(places, 0) >> 3
    at += np.arange(0, places.size * length, length)
    return at, (places & 7).astype(np.uint8)


def count_columns(rows: _Bytes, width: int) -> NDArray[np.int64]:
    """How many rows have a one in each of the first `width` columns.

    Words are added up in carry-save form (Harley and Seal): three planes of weight w become one of
    weight w and one of weight 2w with five bitwise operations, so a million rows shrink to a few
    planes before single bits are counted.
    """
    length = rows.shape[1]
    period = math.lcm(length, 8)  # bytes after which rows and words start together again
    flat = np.ascontiguousarray(rows).reshape(-1)
    whole = flat.size // period * period
    lanes = (
        _byte_histogram(flat[whole:].reshape(-1, length), 1)
        if whole < flat.size
        else np.zeros(8 * length, np.int64)
    )
    if whole:
        words = flat[:whole].view(np.uint64).reshape(-1, period // 8)
        lanes += _sum_words(words).reshape(-1, 8 * length).sum(axis=0)
    return lanes[:width]


def _sum_words(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """The number of ones in each of the bit columns of `words`."""
    n, length = words.shape
    slab = max(1, min(_SLAB_WORDS, words.size // 32) // length)
    planes: list[list[NDArray[np.uint64]]] = [[]]
    for start in range(0, n - slab + 1, slab):
        planes[0].append(words[start : start + slab])
        weight = 0
        while len(planes[weight]) == 3:
            total, carry = _full_adder(*planes[weight])
            planes[weight] = [total]
            weight += 1
            if weight == len(planes):
                planes.append([])
            planes[weight].append(carry)
    rest = words[n - n % slab :]
    lanes = _byte_histogram(rest.view(np.uint8), 1)
    for weight, level in enumerate(planes):
        for plane in level:
            lanes += _byte_histogram(plane.view(np.uint8), 1 << weight)
    return lanes


def _full_adder(
    x: NDArray[np.uint64], y: NDArray[np.uint64], z: NDArray[np.uint64]
) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """Sum and carry of three bits, in every lane."""
    half = x ^ y
    carry = x & y
    total = half ^ z
    half &= z
    carry |= half
    return total, carry


_BITS_OF_BYTE = np.unpackbits(
    np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"
).astype(np.int64)


def _byte_histogram(rows: _Bytes, weight: int) -> NDArray[np.int64]:
    """`weight` times the ones in each bit column, by counting how often each byte occurs in each
    byte column."""
    length = rows.shape[1]
    keys = rows.astype(np.intp)
    keys += np.arange(0, 256 * length, 256)
    found = np.bincount(keys.reshape(-1), minlength=256 * length).reshape(length, 256)
    return weight * (found @ _BITS_OF_BYTE).reshape(-1)
