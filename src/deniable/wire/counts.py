"""Counts as they are stored, and as Spark's workers send them to its driver: signed 64-bit words,
little-endian.

The row they are part of names the query, version, epoch and stratum, and has the numbers of reports
and of messages with nothing to report. The bytes have no version of their own: they are a column of
a table, and its schema has one.
"""

from __future__ import annotations

import numpy as np

from deniable.counts import Counts
from deniable.errors import WireError

__all__ = ["pack_counts", "unpack_counts"]


def pack_counts(counts: Counts) -> bytes:
    """The counts of all cells.

    >>> pack_counts(Counts(np.array([1, 258]), 259)).hex()
    '01000000000000000201000000000000'
    """
    return counts.counts.astype("<i8", copy=False).tobytes()


def unpack_counts(content: bytes, n: int, nothing: int = 0) -> Counts:
    """What :func:`pack_counts` packed, with the numbers of its row; the counts can be added to."""
    if len(content) % 8 or not content:
        raise WireError("length", f"counts are 64-bit words, and these are {len(content)} bytes")
    return Counts(np.frombuffer(content, dtype="<i8").astype(np.int64), n, nothing)
