"""Pages of a log: blocks on their way from a proxy to the aggregator over HTTP, each with its
offset.

A page has no version of its own: it travels within one request and is never stored, and every block
in it has a version byte.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from deniable.checks import LARGEST_WORD
from deniable.errors import WireError

__all__ = ["pack_page", "unpack_page"]

_FRAME = struct.Struct("<QI")
"""Offset and length, which precede each block."""


def pack_page(blocks: Iterable[tuple[int, bytes]]) -> bytes:
    """Offsets and blocks as one body.

    >>> unpack_page(pack_page([(7, b"block"), (9, b"")]), after=6)
    [(7, b'block'), (9, b'')]
    """
    return b"".join(_FRAME.pack(offset, len(block)) + block for offset, block in blocks)


def unpack_page(content: bytes, after: int) -> list[tuple[int, bytes]]:
    """What :func:`pack_page` packed; offsets must ascend from `after` and be valid for a log."""
    out, at = [], 0
    while at < len(content):
        if len(content) - at < _FRAME.size:
            raise WireError("truncated", "a page ends within the offset and length of a block")
        offset, length = _FRAME.unpack_from(content, at)
        at += _FRAME.size + length
        if at > len(content):
            raise WireError("truncated", "a block is cut off")
        if not after < offset <= LARGEST_WORD:
            raise WireError("order", f"a block at offset {offset} comes after {after}")
        after = offset
        out.append((offset, content[at - length : at]))
    return out
