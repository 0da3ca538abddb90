"""How many messages each client has sent in one epoch, kept only in memory, under pseudonyms that
mean nothing afterwards.

A pseudonym is 64 bits of BLAKE2b of the hash of the client's first token, keyed with 256 random
bits drawn for this epoch. A count takes 12 bytes: recent ones are in a dictionary, the others in
sorted runs that are merged as they grow.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["MessageCounts"]

_MOST_RECENT = 1 << 16
_LARGEST_RUN = 1 << 20
"""Runs with at least this many counts are no longer merged: merging them would briefly take several
times their memory."""
_Run = tuple[NDArray[np.uint64], NDArray[np.uint32]]


class MessageCounts:
    """The counts of one epoch.

    >>> counts = MessageCounts()
    >>> ann, bob = counts.pseudonym(b"ann"), counts.pseudonym(b"bob")
    >>> counts.add({ann: 2})
    >>> counts.add({ann: 1, bob: 5})
    >>> counts.of([ann, bob, 7]).tolist()
    [3, 5, 0]
    """

    def __init__(self, most_recent: int = _MOST_RECENT) -> None:
        self._keyed = hashlib.blake2b(key=secrets.token_bytes(32), digest_size=8)
        self._most_recent = most_recent
        self._recent: dict[int, int] = {}
        self._runs: list[_Run] = []
        """Oldest first: large ones, then each at most half as large as the one before it."""

    def pseudonym(self, client: bytes) -> int:
        """The pseudonym of a client, which cannot be computed once the key is dropped."""
        keyed = self._keyed.copy()
        keyed.update(client)
        return int.from_bytes(keyed.digest(), "little")

    def __iter__(self) -> Iterator[bytes]:
        names = {*self._recent, *(name for names, _ in self._runs for name in names.tolist())}
        return (name.to_bytes(8, "little") for name in names)

    def of(self, pseudonyms: Sequence[int]) -> NDArray[np.int64]:
        """How many messages each of these clients has sent."""
        found = np.fromiter(
            (self._recent.get(each, 0) for each in pseudonyms),
            dtype=np.int64,
            count=len(pseudonyms),
        )
        if self._runs:
            wanted = np.array(pseudonyms, dtype=np.uint64)
            for names, counts in self._runs:
                at = np.minimum(np.searchsorted(names, wanted), names.size - 1)
                found += np.where(names[at] == wanted, counts[at], 0)
        return found

    def add(self, sent: dict[int, int]) -> None:
        """Add to the counts of these clients."""
        recent = self._recent
        for name, n in sent.items():
            recent[name] = recent.get(name, 0) + n
        if len(recent) >= self._most_recent:
            self._settle()

    def _settle(self) -> None:
        names = np.fromiter(self._recent.keys(), dtype=np.uint64, count=len(self._recent))
        counts = np.fromiter(self._recent.values(), dtype=np.uint32, count=len(self._recent))
        self._recent = {}
        order = np.argsort(names)
        run = names[order], counts[order]
        while self._runs and self._runs[-1][0].size <= min(2 * run[0].size, _LARGEST_RUN):
            run = _merged(self._runs.pop(), run)
        self._runs.append(run)


def _merged(one: _Run, other: _Run) -> _Run:
    names, counts = np.concatenate([one[0], other[0]]), np.concatenate([one[1], other[1]])
    order = np.argsort(names, kind="stable")
    names, counts = names[order], counts[order]
    starts = np.flatnonzero(np.concatenate([[True], names[1:] != names[:-1]]))
    return names[starts], np.add.reduceat(counts, starts).astype(np.uint32)
