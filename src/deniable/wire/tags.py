"""SipHash-2-4: the tag inside a message, for one message and for columns of them.

Aumasson and Bernstein, "SipHash: a fast short-input PRF", INDOCRYPT 2012.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["siphash", "siphash_columns"]

_Words = NDArray[np.uint64]

_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_MASK = (1 << 64) - 1
# Shift amounts as arrays, made once: converting a number takes NumPy as long as shifting thousands
# of words.
_BITS = {bits: np.array(bits, dtype=np.uint64) for bits in (13, 16, 17, 21, 32, 43, 47, 48, 51)}


def siphash(key: tuple[int, int], words: Sequence[int]) -> int:
    """The 64-bit SipHash-2-4 of a text of whole 64-bit little-endian words."""
    v0, v1 = key[0] ^ _INITIAL[0], key[1] ^ _INITIAL[1]
    v2, v3 = key[0] ^ _INITIAL[2], key[1] ^ _INITIAL[3]
    last = len(words)
    mask = _MASK
    # The rounds stand here, not in a function: a call costs as much as a round, and a device makes
    # a dozen for each share. Word `last` is the length; then come four rounds without a word.
    for place in range(last + 3):
        word = words[place] if place < last else (8 * last & 0xFF) << 56 if place == last else 0
        v3 ^= word
        if place == last + 1:
            v2 ^= 0xFF
        for _ in (0, 1):
            v0 = (v0 + v1) & mask
            v1 = (v1 << 13 & mask | v1 >> 51) ^ v0
            v0 = v0 << 32 & mask | v0 >> 32
            v2 = (v2 + v3) & mask
            v3 = (v3 << 16 & mask | v3 >> 48) ^ v2
            v0 = (v0 + v3) & mask
            v3 = (v3 << 21 & mask | v3 >> 43) ^ v0
            v2 = (v2 + v1) & mask
            v1 = (v1 << 17 & mask | v1 >> 47) ^ v2
            v2 = v2 << 32 & mask | v2 >> 32
        v0 ^= word
    return v0 ^ v1 ^ v2 ^ v3


def siphash_columns(key0: _Words, key1: _Words, words: _Words) -> _Words:
    """The SipHash-2-4 of each column of `words`, under the key of that column.

    The caller keeps the number of columns small enough for a core's cache: every step visits all of
    them.
    """
    keys = key0, key1
    state = [keys[i % 2] ^ np.uint64(initial) for i, initial in enumerate(_INITIAL)]
    scratch = np.empty_like(state[0])
    last = np.uint64((8 * len(words) & 0xFF) << 56)
    for word in (*words, last):
        state[3] ^= word
        _round_columns(state, scratch)
        _round_columns(state, scratch)
        state[0] ^= word
    state[2] ^= np.uint64(0xFF)
    for _ in range(4):
        _round_columns(state, scratch)
    out = state[0]
    for other in state[1:]:
        out ^= other
    return out


def _rotate(x: _Words, bits: int, scratch: _Words) -> None:
    np.right_shift(x, _BITS[64 - bits], out=scratch)
    np.left_shift(x, _BITS[bits], out=x)
    np.bitwise_or(x, scratch, out=x)


def _round_columns(state: list[_Words], scratch: _Words) -> None:
    v0, v1, v2, v3 = state
    v0 += v1
    _rotate(v1, 13, scratch)
    v1 ^= v0
    _rotate(v0, 32, scratch)
    v2 += v3
    _rotate(v3, 16, scratch)
    v3 ^= v2
    v0 += v3
    _rotate(v3, 21, scratch)
    v3 ^= v0
    v2 += v1
    _rotate(v1, 17, scratch)
    v1 ^= v2
    _rotate(v2, 32, scratch)
