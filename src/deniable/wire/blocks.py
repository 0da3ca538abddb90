"""Blocks: thousands of shares in one buffer, column by column, in the order of their message ids.

All shares of a message have the same id, so blocks cut by a prefix of the id bring them together
without a shuffle. Ids are uniform, so their order says nothing about the order of arrival; and rows
in order are matched without sorting them again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError, WireError
from deniable.wire.message import VERSION, message_words
from deniable.wire.shares import Share, check_header
from deniable.wire.sizes import row_words

__all__ = ["LARGEST_BLOCK", "MOST_PREFIX_BITS", "Block", "block_bytes", "common_rows", "cut"]

LARGEST_BLOCK = 1 << 16
"""The most rows of a block."""
MOST_PREFIX_BITS = 16
KIND = ord("B")
_HEADER = struct.Struct("<BBBBIQII")
_Words = NDArray[np.uint64]


def block_bytes(size_class: int, n_rows: int) -> int:
    """The number of bytes of a block with `n_rows` shares.

    >>> block_bytes(0, 4096)
    262168
    """
    return _HEADER.size + 8 * row_words(size_class) * n_rows


@dataclass(frozen=True, repr=False, eq=False)
class Block:
    """Shares of one channel, epoch and size class whose message ids start with the same bits."""

    channel: int
    epoch: int
    size_class: int
    prefix_bits: int
    prefix: int
    columns: _Words
    """`row_words` rows of words, one column per share: high and low word of the message id, then
    the share."""

    def __post_init__(self) -> None:
        n_rows = message_words(self.size_class) + 2
        if self.columns.ndim != 2 or len(self.columns) != n_rows or self.columns.dtype != np.uint64:
            raise WireError(
                "size_class", f"a block of size class {self.size_class} has {n_rows} words per row"
            )
        if not 1 <= self.columns.shape[1] <= LARGEST_BLOCK:
            raise WireError(
                "count", f"a block has 1 to {LARGEST_BLOCK} rows, not {self.columns.shape[1]}"
            )
        if not 0 <= self.prefix_bits <= MOST_PREFIX_BITS or self.prefix >> self.prefix_bits:
            raise WireError(
                "prefix",
                f"the prefix {self.prefix} does not have {self.prefix_bits} bits, or has more than"
                f" {MOST_PREFIX_BITS}",
            )
        high, low = self.columns[:2]
        if not _ascending(high, low):
            raise WireError("order", "the message ids of a block must ascend without repetition")
        shift = 64 - self.prefix_bits
        if int(high[0]) >> shift != self.prefix or int(high[-1]) >> shift != self.prefix:
            raise WireError("prefix", "a message id does not start with the block's prefix")

    def __len__(self) -> int:
        return int(self.columns.shape[1])

    def __repr__(self) -> str:
        place = f"channel {self.channel:016x}, epoch {self.epoch}, size class {self.size_class}"
        return (
            f"<block of {len(self):,} shares: {place}, prefix {self.prefix} of {self.prefix_bits}"
            " bits>"
        )

    def to_bytes(self) -> bytes:
        """Header and columns."""
        head = (
            VERSION,
            KIND,
            self.size_class,
            self.prefix_bits,
            self.epoch,
            self.channel,
            self.prefix,
            len(self),
        )
        return _HEADER.pack(*head) + np.ascontiguousarray(self.columns, dtype="<u8").tobytes()

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> Block:
        """What :meth:`to_bytes` wrote, checked. The columns are read in place, without a copy."""
        size_class, prefix_bits, epoch, channel = check_header(content, KIND, "a block")
        if len(content) < _HEADER.size:
            raise WireError(
                "truncated",
                f"a block has a header of {_HEADER.size} bytes, but there are only {len(content)}",
            )
        prefix, count = struct.unpack_from("<II", content, 16)
        if not 1 <= count <= LARGEST_BLOCK:
            raise WireError("count", f"a block has 1 to {LARGEST_BLOCK} rows, not {count}")
        length = _HEADER.size + 8 * row_words(size_class) * count
        if len(content) != length:
            reason = "truncated" if len(content) < length else "trailing"
            raise WireError(
                reason,
                f"a block of {count} rows of size class {size_class} has {length} bytes, not"
                f" {len(content)}",
            )
        columns = np.frombuffer(content, dtype="<u8", offset=_HEADER.size).reshape(-1, count)
        return cls(channel, epoch, size_class, prefix_bits, prefix, columns)

    def shares(self) -> list[Share]:
        """The shares, one by one."""
        rows = np.ascontiguousarray(self.columns.T)
        return [
            Share(self.channel, self.epoch, self.size_class, row[:2].tobytes(), row[2:].tobytes())
            for row in rows
        ]


def _ascending(high: _Words, low: _Words) -> bool:
    if (high[1:] > high[:-1]).all():
        return True
    return bool(((high[1:] > high[:-1]) | ((high[1:] == high[:-1]) & (low[1:] > low[:-1]))).all())


def cut(
    channel: int,
    epoch: int,
    size_class: int,
    columns: _Words,
    prefix_bits: int,
    most_rows: int = LARGEST_BLOCK,
) -> tuple[list[Block], int]:
    """Rows in any order as blocks, sorted and cut by the first bits of the message id; and how many
    rows were repeated ids.

    Of rows with the same id, the first is kept: a share that arrives twice counts once.
    """
    if not 0 <= prefix_bits <= MOST_PREFIX_BITS:
        raise ParameterError(
            "prefix_bits", prefix_bits, f"must lie between 0 and {MOST_PREFIX_BITS}"
        )
    if not 1 <= most_rows <= LARGEST_BLOCK:
        raise ParameterError("most_rows", most_rows, f"must lie between 1 and {LARGEST_BLOCK}")
    order, n_repeated = _order(columns[0], columns[1])
    high = columns[0][order]
    edges = (
        np.searchsorted(high >> np.uint64(64 - prefix_bits), np.arange((1 << prefix_bits) + 1))
        if prefix_bits
        else [0, len(order)]
    )
    blocks = []
    for prefix in range(1 << prefix_bits):
        for start in range(int(edges[prefix]), int(edges[prefix + 1]), most_rows):
            chosen = order[start : min(start + most_rows, int(edges[prefix + 1]))]
            rows = np.take(columns, chosen, axis=1)
            blocks.append(Block(channel, epoch, size_class, prefix_bits, prefix, rows))
    return blocks, n_repeated


def _order(high: _Words, low: _Words) -> tuple[NDArray[np.intp], int]:
    """The positions of the rows in order of their ids, only the first of each id; and how many were
    left out."""
    order = np.argsort(high)
    ordered = high[order]
    tied = ordered[1:] == ordered[:-1]
    if not tied.any():
        return order, 0
    order = np.lexsort((low, high))  # stable, so that the first of equal ids stays first
    same = (high[order][1:] == high[order][:-1]) & (low[order][1:] == low[order][:-1])
    return order[np.concatenate([[True], ~same])], int(np.count_nonzero(same))


def common_rows(columns: Sequence[_Words]) -> list[NDArray[np.intp]]:
    """The positions, in each of these, of the message ids common to all. Ids ascend in each, as in
    a block.

    >>> one, two = (np.array([high, [0] * len(high)], dtype=np.uint64) for high in ([1, 4, 7], [4, 5, 7, 9]))
    >>> [places.tolist() for places in common_rows([one, two])]
    [[1, 2], [0, 2]]
    """
    places = [np.arange(rows.shape[1]) for rows in columns]
    for i, rows in enumerate(columns[1:], 1):
        mine, theirs = columns[0][:2, places[0]], rows[:2]
        if mine.shape == theirs.shape and np.array_equal(mine, theirs):
            continue
        left, right = _intersection(mine, theirs)
        places = [kept[left] for kept in places[:i]] + [right] + places[i + 1 :]
    return places


def _intersection(left: _Words, right: _Words) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    if not left.shape[1] or not right.shape[1]:
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    if (right[0, 1:] == right[0, :-1]).any() or (left[0, 1:] == left[0, :-1]).any():
        # Ids do not share their high word by chance: if they do, somebody chose them, and whole ids
        # are compared.
        named = [np.ascontiguousarray(ids.T).view("V16").reshape(-1) for ids in (left, right)]
        index = {name.tobytes(): i for i, name in enumerate(named[1])}
        pairs = [
            (i, index[name.tobytes()]) for i, name in enumerate(named[0]) if name.tobytes() in index
        ]
        found = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        return found[:, 0], found[:, 1]
    at = np.minimum(np.searchsorted(right[0], left[0]), right.shape[1] - 1)
    hits = np.flatnonzero((right[0, at] == left[0]) & (right[1, at] == left[1]))
    return hits, at[hits]
