"""All uploads of a group commit as one array of records: NumPy once per commit instead of Python
once per upload.

Most uploads contain records of one channel, epoch and size class, and are grouped by these. The
rest (bytes that are not records, several epochs in one upload) are left for the caller to examine
one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.wire.message import VERSION
from deniable.wire.shares import KIND, record_bytes
from deniable.wire.sizes import SIZE_CLASSES

__all__ = ["UploadedRecords", "gather"]

_Words = NDArray[np.uint64]
_HEADS = {
    bytes((VERSION, KIND, size_class, 0)): record_bytes(size_class) for size_class in SIZE_CLASSES
}
"""The first bytes of a record of each size class, and its length."""


class UploadedRecords(NamedTuple):
    """The records of uploads that all have one channel, epoch and size class."""

    key: tuple[int, int, int]
    columns: _Words
    """Message ids and shares, one column per record."""
    uploads: NDArray[np.intp]
    """The uploads they belong to, in order."""
    starts: NDArray[np.intp]
    """Where the records of each upload begin."""

    def per_upload(self, chosen: NDArray[np.bool_]) -> NDArray[np.intp]:
        """How many records of each upload are chosen."""
        return np.add.reduceat(chosen.astype(np.intp), self.starts)

    def spread(self, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """For each record, whether its upload is chosen."""
        return np.repeat(chosen, np.diff(np.append(self.starts, self.columns.shape[1])))


def gather(contents: Sequence[bytes]) -> tuple[list[UploadedRecords], list[int]]:
    """The uploads grouped by content, and those that must be examined one by one."""
    by_head: dict[bytes, list[int]] = {}
    odd: list[int] = []
    for i, content in enumerate(contents):
        head = content[:4]
        length = _HEADS.get(head, 0)
        if length and len(content) % length == 0:
            by_head.setdefault(head, []).append(i)
        else:
            odd.append(i)
    found: list[UploadedRecords] = []
    for head, chosen in by_head.items():
        parts, mixed = _of_one_size(
            head, [contents[i] for i in chosen], np.array(chosen, dtype=np.intp)
        )
        found += parts
        odd += mixed
    return found, sorted(odd)


def _of_one_size(
    head: bytes, contents: list[bytes], uploads: NDArray[np.intp]
) -> tuple[list[UploadedRecords], list[int]]:
    length = _HEADS[head]
    records = np.frombuffer(b"".join(contents), dtype="<u8").reshape(-1, length // 8)
    sizes = np.fromiter(map(len, contents), dtype=np.intp, count=len(contents)) // length
    starts = np.cumsum(sizes) - sizes
    size_class = head[2]
    first = records[0, :2]
    # nearly always; finding the distinct ones would need a sort
    if (records[:, :2] == first).all():
        return [_part(size_class, records, uploads, starts)], []
    keys, kind = np.unique(records[:, :2], axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    lowest, highest = np.minimum.reduceat(kind, starts), np.maximum.reduceat(kind, starts)
    whole = (lowest == highest) & (
        keys[lowest, 0] & np.uint64(0xFFFFFFFF) == np.uint64(int.from_bytes(head, "little"))
    )
    parts = []
    for i in range(len(keys)):
        mine = whole & (lowest == i)
        if mine.any():
            chosen = sizes[mine]
            parts.append(
                _part(
                    size_class,
                    records[np.repeat(mine, sizes)],
                    uploads[mine],
                    np.cumsum(chosen) - chosen,
                )
            )
    return parts, uploads[~whole].tolist()


def _part(
    size_class: int, records: _Words, uploads: NDArray[np.intp], starts: NDArray[np.intp]
) -> UploadedRecords:
    word, channel = records[0, :2].tolist()
    return UploadedRecords(
        (channel, word >> 32, size_class), np.ascontiguousarray(records[:, 2:].T), uploads, starts
    )
