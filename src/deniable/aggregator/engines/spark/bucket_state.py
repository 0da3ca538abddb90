"""What a bucket remembers from one batch to the next, for open epochs only.

Each open epoch has a log of segments, which record what each batch added to it: joined ids and
waiting shares. So a batch writes only what it changed, however much its epoch holds. A head, a
short JSON text, lists the segments. From time to time the segments of an epoch are replaced by a
single one with what is left of them.

A process that has counted the epoch before still has it in its cache, and reads only the segments
that others have written since. Tokens show whether the cache is valid: each segment gets a new one,
and names the token of the segment before it. A failed attempt leaves tokens in the cache that the
log does not have, and then everything is read again.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.blocks import Task
from deniable.aggregator.counting.join import Bucket, Joined
from deniable.errors import StateError, WireError
from deniable.wire.segments import (
    JOINED,
    BucketHead,
    BucketSegment,
    ChannelEpoch,
    SegmentPart,
    WrittenEpoch,
)

__all__ = ["EpochCache", "Memory", "Segments"]

_Words = NDArray[np.uint64]
# Segments are merged when there are this many and they hold as much as the first one, or when there
# are too many to read.
_FEW_SEGMENTS, _MANY_SEGMENTS = 16, 512


class Segments(Protocol):
    """Where the segments of a bucket are kept."""

    def read(self, place: ChannelEpoch, number: int) -> bytes:
        """Read a segment that was written."""
        ...

    def write(self, place: ChannelEpoch, number: int, content: bytes) -> None:
        """Store a segment."""
        ...

    def remove(self, place: ChannelEpoch, number: int) -> None:
        """Delete a segment that was written."""
        ...


@dataclass(repr=False)
class _Epoch:
    """The cached form of an epoch: its shares by sub-bucket, as of a segment."""

    buckets: dict[int, Bucket] = field(default_factory=dict)
    following: int = 0
    token: str = ""

    def n_bytes(self) -> int:
        """How much memory it takes."""
        return sum(rows.nbytes for bucket in self.buckets.values() for rows in _rows(bucket))


def _rows(bucket: Bucket) -> Iterator[_Words]:
    yield from bucket.done.runs
    yield from (rows for rows in bucket.pending if rows is not None)


class EpochCache:
    """The epochs that a process keeps in memory: the most recently used, up to a number of
    bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._epochs: OrderedDict[tuple[int, ChannelEpoch], tuple[_Epoch, int]] = OrderedDict()
        self._n_bytes = 0

    def __len__(self) -> int:
        return len(self._epochs)

    def take(self, bucket: int, place: ChannelEpoch) -> _Epoch | None:
        """The cached epoch; it leaves the cache until it is put back."""
        epoch, n_bytes = self._epochs.pop((bucket, place), (None, 0))
        self._n_bytes -= n_bytes
        return epoch

    def put(self, bucket: int, place: ChannelEpoch, epoch: _Epoch) -> None:
        """Keep an epoch, and evict the least recently used ones if there is too much."""
        n_bytes = epoch.n_bytes()
        self._epochs[bucket, place] = (epoch, n_bytes)
        self._n_bytes += n_bytes
        while self._n_bytes > self.most_bytes:
            _, (_, n_bytes) = self._epochs.popitem(last=False)
            self._n_bytes -= n_bytes

    def keep_only(self, bucket: int, places: Sequence[ChannelEpoch]) -> None:
        """Evict all epochs of a bucket but these: they are closed."""
        for key in [key for key in self._epochs if key[0] == bucket and key[1] not in places]:
            self.take(*key)


class Memory:
    """Fronts, marks and shares of one bucket."""

    def __init__(
        self, n_proxies: int, bucket: int, head: str, segments: Segments, cache: EpochCache
    ) -> None:
        self.n_proxies = n_proxies
        self.fronts: dict[int, int] = {}
        """For each channel, the first epoch that is not closed here."""
        self.marks: list[dict[int, int]] = [{} for _ in range(n_proxies)]
        """For each proxy and channel, the first epoch that it has not marked here."""
        self._bucket, self._segments, self._cache = bucket, segments, cache
        self._written: dict[ChannelEpoch, WrittenEpoch] = {}
        self._epochs: dict[ChannelEpoch, _Epoch] = {}
        self._new: dict[ChannelEpoch, list[SegmentPart]] = {}
        if head:
            self._read(head)
        cache.keep_only(bucket, list(self._written))

    def _read(self, head: str) -> None:
        try:
            found = BucketHead.from_text(head, self.n_proxies)
        except WireError as error:
            raise StateError(str(error)) from None
        self.fronts, self.marks = dict(found.fronts), [dict(marks) for marks in found.marks]
        self._written = dict(found.epochs)

    # --- during a batch

    @property
    def places(self) -> set[ChannelEpoch]:
        """The channels and epochs for which there is anything."""
        return {*self._written, *self._epochs}

    def bucket(self, task: Task) -> Bucket:
        """Where the shares of a task are joined."""
        *place, number = task
        return _bucket(self._epoch((place[0], place[1])), number, self.n_proxies)

    def note(self, task: Task, joined: Joined) -> None:
        """Record what a bucket made of its arrivals, to be written at the end of the batch."""
        channel, epoch, number = task
        parts = self._new.setdefault((channel, epoch), [])
        parts += [SegmentPart(number, JOINED, joined.ids)]
        parts += [SegmentPart(number, proxy, rows) for proxy, rows in enumerate(joined.kept)]

    def drop(self, channel: int, epoch: int) -> list[int]:
        """Forget an epoch; returns how many shares of each proxy waited in it."""
        place = (channel, epoch)
        written = self._written.pop(place, WrittenEpoch(waiting=[0] * self.n_proxies))
        known = self._epochs.pop(place, None)
        self._new.pop(place, None)
        self._cache.take(self._bucket, place)
        for number in range(written.first, written.following):
            self._segments.remove(place, number)
        return written.waiting if known is None else self._waiting(known)

    def _waiting(self, epoch: _Epoch) -> list[int]:
        return [
            sum(bucket.n_pending(proxy) for bucket in epoch.buckets.values())
            for proxy in range(self.n_proxies)
        ]

    # --- segments

    def save(self) -> str:
        """Write what is new; returns the head that the next batch starts from."""
        for place, epoch in self._epochs.items():
            parts = [part for part in self._new.get(place, []) if part.rows.shape[1]]
            if parts:
                self._append(place, epoch, parts)
            if place in self._written:
                self._cache.put(self._bucket, place, epoch)
        self._epochs, self._new = {}, {}
        return BucketHead(self.fronts, self.marks, self._written).to_text()

    def _append(self, place: ChannelEpoch, epoch: _Epoch, parts: list[SegmentPart]) -> None:
        written = self._written.setdefault(place, WrittenEpoch())
        n_segments = written.following - written.first
        if n_segments >= _MANY_SEGMENTS or (
            n_segments >= _FEW_SEGMENTS and written.added >= written.base
        ):
            for number in range(written.first, written.following):
                self._segments.remove(place, number)
            written.first, written.token, written.base, written.added = written.following, "", 0, 0
            parts = [
                SegmentPart(number, whose, rows)
                for number, bucket in epoch.buckets.items()
                for whose, rows in (
                    *((JOINED, run) for run in bucket.done.runs),
                    *enumerate(bucket.pending),
                )
                if rows is not None and rows.shape[1]
            ]
        token = secrets.token_hex(8)
        content = BucketSegment(written.token, token, parts).to_bytes()
        self._segments.write(place, written.following, content)
        if written.following == written.first:
            written.base = len(content)
        else:
            written.added += len(content)
        written.following += 1
        written.token = epoch.token = token
        epoch.following = written.following
        written.waiting = self._waiting(epoch)

    def _epoch(self, place: ChannelEpoch) -> _Epoch:
        if place not in self._epochs:
            self._epochs[place] = self._load(place) if place in self._written else _Epoch()
        return self._epochs[place]

    def _load(self, place: ChannelEpoch) -> _Epoch:
        written = self._written[place]
        known = self._cache.take(self._bucket, place)
        if known is not None and written.first < known.following <= written.following:
            found = [
                BucketSegment.from_bytes(self._segments.read(place, i))
                for i in range(known.following, written.following)
            ]
            if (found[0].after if found else written.token) == known.token:
                return self._catch_up(known, found)
        everything = [
            BucketSegment.from_bytes(self._segments.read(place, i))
            for i in range(written.first, written.following)
        ]
        return self._catch_up(_Epoch(), everything, written.first)

    def _catch_up(self, epoch: _Epoch, segments: list[BucketSegment], first: int = 0) -> _Epoch:
        """Load segments. All joined ids come first, because shares that waited for them no longer
        wait."""
        parts = [part for segment in segments for part in segment.parts]
        joined = [part for part in parts if part.whose == JOINED]
        for part in joined:
            _bucket(epoch, part.number, self.n_proxies).done.add(part.rows)
        for number in {part.number for part in joined}:
            bucket = epoch.buckets[number]
            bucket.pending = [
                None if rows is None else bucket.done.without(rows) for rows in bucket.pending
            ]
        for part in parts:
            if part.whose != JOINED:
                _bucket(epoch, part.number, self.n_proxies).restore(part.whose, part.rows)
        if segments:
            epoch.following = max(epoch.following, first) + len(segments)
            epoch.token = segments[-1].token
        return epoch


def _bucket(epoch: _Epoch, number: int, n_proxies: int) -> Bucket:
    if number not in epoch.buckets:
        epoch.buckets[number] = Bucket(n_proxies)
    return epoch.buckets[number]
