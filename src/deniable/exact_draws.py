"""Arithmetic of exact draws: from uniform words to numbers, cells and places, whole columns at
once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["add_ones", "lemire", "search_rows"]

_Bytes = NDArray[np.uint8]
_Words = NDArray[np.uint64]


def add_ones(rows: _Bytes, which: NDArray[np.intp], places: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Set bit `places[i]` of row `which[i]`, in place; returns for each whether it was still
    free."""
    flat = rows.reshape(-1)
    at = which * rows.shape[1]
    at += places >> 3
    masks = np.left_shift(1, places & 7).astype(np.uint8)
    before = flat[at]
    flat[at] = before | masks
    free: NDArray[np.bool_] = (before & masks) == 0
    return free


def lemire(
    drawn: NDArray[Any], bound: int, bits: int
) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
    """Map uniform `bits`-bit integers to 0 … `bound` - 1; the second array marks the draws that
    must be repeated."""
    product = drawn.astype(np.uint64) * np.uint64(bound)
    values = (product >> np.uint64(bits)).astype(np.int64)
    leftover = (1 << bits) % bound
    if not leftover:
        return values, np.empty(0, dtype=np.intp)
    product &= np.uint64((1 << bits) - 1)
    return values, np.flatnonzero(product < np.uint64(leftover))


def search_rows(thresholds: _Words, rows: NDArray[np.intp], words: _Words) -> NDArray[np.int64]:
    """How many thresholds of its row each word reaches: a binary search in all rows at once."""
    n_thresholds = thresholds.shape[1]
    flat = thresholds.reshape(-1)
    base = rows * n_thresholds
    found = np.zeros(words.size, dtype=np.int64)
    step = 1 << (n_thresholds.bit_length() - 1) if n_thresholds else 0
    while step:
        probe = found + step
        inside = probe <= n_thresholds
        np.minimum(probe, n_thresholds, out=probe)
        reached = flat[base + probe - 1] <= words
        reached &= inside
        found[reached] += step
        step >>= 1
    return found
