"""Size classes: how long a share is. Only the class is visible, so that a length does not reveal
which query was answered."""

from __future__ import annotations

from deniable.errors import ParameterError

__all__ = ["SIZE_CLASSES", "capacity", "row_words", "smallest_class"]

SIZE_CLASSES = range(7)
"""In class c a row (message id and share) takes 64 x 2**c bytes."""
_OVERHEAD = 56
"""Bytes of a row besides the report: message id 16, header 8, query tag 8, key 16, integrity tag
8."""


def row_words(size_class: int) -> int:
    """How many 64-bit words a row of this class takes."""
    return 8 << size_class


def capacity(size_class: int) -> int:
    """How many bytes of report fit in this class.

    >>> [capacity(c) for c in SIZE_CLASSES]
    [8, 72, 200, 456, 968, 1992, 4040]
    """
    return (64 << size_class) - _OVERHEAD


def smallest_class(n_bytes: int) -> int:
    """The smallest class with room for a report of `n_bytes`."""
    for size_class in SIZE_CLASSES:
        if n_bytes <= capacity(size_class):
            return size_class
    raise ParameterError(
        "report",
        f"{n_bytes} bytes",
        f"must fit in {capacity(SIZE_CLASSES[-1])} bytes, the largest size class",
    )
