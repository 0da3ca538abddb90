"""Joining: the shares of n proxies, matched by message id, one bucket of ids at a time.

A bucket holds the shares of one channel and epoch whose ids start with the same bits: few enough
for a core's cache. Blocks arrive with ascending ids, so matching compares sorted columns, and only
shares without a partner yet are kept.

A proxy's first share under an id is the one that counts. A later one is a duplicate, whether its
message still waits for other proxies or is already joined; so a message is joined from one share of
*every* proxy, never from two of the same proxy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deniable.service.files.file_arrays import on_disk
from deniable.wire.blocks import common_rows

__all__ = ["Bucket", "IdSet", "Joined", "merge_rows", "split_rows"]

_Words = NDArray[np.uint64]
_LARGEST_IN_MEMORY = 1 << 15
"""Ids in one in-memory run of a bucket: an epoch may stay open for days, and an engine has many
buckets."""


def merge_rows(parts: Sequence[_Words]) -> tuple[_Words, int]:
    """Merge columns with ascending ids into one; also returns how many rows were left out because
    their id was already there.

    Of several rows with the same id, the one in the earliest part is kept.

    >>> one, two = (np.array([high, [0] * len(high)], dtype=np.uint64) for high in ([1, 4, 7], [4, 5]))
    >>> merged, n_repeated = merge_rows([one, two])
    >>> merged[0].tolist(), n_repeated
    ([1, 4, 5, 7], 1)
    """
    if len(parts) == 1:
        return parts[0], 0
    rows = np.concatenate(parts, axis=1)
    order = np.argsort(rows[0])
    high = rows[0][order]
    tied = high[1:] == high[:-1]
    n_repeated = 0
    if tied.any():
        order = np.lexsort((rows[1], rows[0]))  # stable: among equal ids, the earlier stays first
        high, low = rows[0][order], rows[1][order]
        again = (high[1:] == high[:-1]) & (low[1:] == low[:-1])
        n_repeated = int(np.count_nonzero(again))
        order = order[np.concatenate([[True], ~again])]
    return np.take(rows, order, axis=1), n_repeated


def split_rows(
    rows: _Words, prefix_bits: int, prefix: int, bucket_bits: int
) -> Iterator[tuple[int, _Words]]:
    """Split the rows of a block by bucket, for when proxies and aggregator cut ids after different
    bits."""
    if prefix_bits >= bucket_bits:
        yield prefix >> (prefix_bits - bucket_bits), rows
        return
    first = prefix << (bucket_bits - prefix_bits)
    numbers = np.arange(first + 1, first + (1 << (bucket_bits - prefix_bits)))
    edges = np.searchsorted(rows[0], numbers.astype(np.uint64) << np.uint64(64 - bucket_bits))
    for i, part in enumerate(np.split(rows, edges, axis=1)):
        if part.shape[1]:
            yield first + i, part


class IdSet:
    """A set of message ids of two words each, kept in a few sorted runs, each at least twice as
    long as the next."""

    def __init__(self, folder: Path | None = None, largest: int = _LARGEST_IN_MEMORY) -> None:
        """Runs of more than `largest` ids are moved to the folder; without one, they stay in
        memory."""
        self._folder, self._largest = folder, largest
        self._runs: list[_Words] = []

    def __len__(self) -> int:
        return sum(run.shape[1] for run in self._runs)

    @property
    def runs(self) -> Sequence[_Words]:
        """The ids in ascending runs, longest first: added again in this order, they make the same
        set."""
        return self._runs

    def add(self, ids: _Words) -> None:
        """Add ascending ids, none of which is there yet."""
        if not ids.shape[1]:
            return
        self._runs.append(np.array(ids[:2]))
        while len(self._runs) > 1 and self._runs[-2].shape[1] < 2 * self._runs[-1].shape[1]:
            last = self._runs.pop()
            self._runs[-1] = merge_rows([self._runs[-1], last])[0]
        if self._folder is not None and self._runs[-1].shape[1] > self._largest:
            self._runs[-1] = on_disk(self._runs[-1], self._folder)

    def without(self, rows: _Words) -> _Words:
        """The rows whose ids are not in the set."""
        for run in self._runs:
            found = common_rows([rows[:2], run])[0]
            if found.size:
                rows = np.delete(rows, found, axis=1)
            if not rows.shape[1]:
                break
        return rows


@dataclass(frozen=True, repr=False)
class Joined:
    """The result of adding arrivals to a bucket."""

    matched: list[_Words]
    """For each proxy, the rows of the messages that are now complete, in the same order."""
    kept: list[_Words]
    """For each proxy, the arrived rows that wait for others."""
    duplicates: list[int]
    """For each proxy, how many arrivals came under an id it had already used."""

    @property
    def ids(self) -> _Words:
        """The ids of the complete messages."""
        return self.matched[0][:2]


class Bucket:
    """The waiting shares and the joined ids of one channel, epoch and prefix."""

    def __init__(self, n_proxies: int, folder: Path | None = None) -> None:
        """Joined ids may be moved to the folder, if there are many."""
        self.pending: list[_Words | None] = [None] * n_proxies
        self.done = IdSet(folder)

    def n_pending(self, proxy: int) -> int:
        """How many shares of a proxy are waiting."""
        rows = self.pending[proxy]
        return 0 if rows is None else int(rows.shape[1])

    def restore(self, proxy: int, rows: _Words) -> None:
        """Put back rows that waited when the state was stored; those joined since are left out."""
        waiting = self.pending[proxy]
        parts = [self.done.without(rows)] if waiting is None else [waiting, self.done.without(rows)]
        self.pending[proxy] = np.array(merge_rows(parts)[0])

    def add(self, arrivals: Sequence[Sequence[_Words]]) -> Joined:
        """Take in what came from each proxy, and return what is complete."""
        width = next(len(rows) for parts in arrivals for rows in parts)
        nothing = np.empty((width, 0), dtype=np.uint64)
        fresh, duplicates = [], []
        for proxy, parts in enumerate(arrivals):
            n_arrived = sum(rows.shape[1] for rows in parts)
            rows = self._unseen(proxy, merge_rows(parts)[0]) if parts else nothing
            fresh.append(rows)
            duplicates.append(n_arrived - rows.shape[1])
        waiting = [nothing if rows is None else rows for rows in self.pending]
        parts_of = [
            (old, new) if old.shape[1] and new.shape[1] else (old if old.shape[1] else new,)
            for old, new in zip(waiting, fresh, strict=True)
        ]
        everything = [merge_rows(parts)[0] for parts in parts_of]
        places = common_rows(everything)
        n_matched = places[0].size
        matched, kept = [], []
        for proxy, (rows, at) in enumerate(zip(everything, places, strict=True)):
            if n_matched == rows.shape[1]:
                matched.append(rows)
                self.pending[proxy] = None
                kept.append(nothing)
                continue
            matched.append(np.take(rows, at, axis=1))
            stays = np.ones(rows.shape[1], dtype=bool)
            stays[at] = False
            rest = rows[:, stays]
            self.pending[proxy] = rest
            kept.append(self._of_arrivals(rest, waiting[proxy], fresh[proxy]))
        self.done.add(matched[0][:2])
        return Joined(matched, kept, duplicates)

    def _unseen(self, proxy: int, rows: _Words) -> _Words:
        """The rows with ids that this proxy has not used before."""
        rows = self.done.without(rows)
        waiting = self.pending[proxy]
        if waiting is None or not waiting.shape[1] or not rows.shape[1]:
            return rows
        found = common_rows([rows[:2], waiting[:2]])[0]
        return np.delete(rows, found, axis=1) if found.size else rows

    @staticmethod
    def _of_arrivals(rest: _Words, waited: _Words, fresh: _Words) -> _Words:
        """Of the rows that wait now, those that have just arrived: only they have to be stored."""
        if not waited.shape[1]:
            return rest
        if not fresh.shape[1]:
            return rest[:, :0]
        return np.take(rest, common_rows([rest[:2], fresh[:2]])[0], axis=1)
