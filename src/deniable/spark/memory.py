"""What a bucket remembers from one batch to the next: of open epochs only, as one binary value of Spark's state.

Layout: the length of a JSON header (four bytes, little-endian), the header, then 64-bit words: the parts that the header lists,
one after the other. A part is what waits of one proxy (`words` a share), or a run of the ids that are joined (two words each), of
one channel, epoch and sub-bucket. Parts that a batch does not touch are passed on as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting import Task
from deniable.aggregator.join import Bucket
from deniable.errors import StateError

__all__ = ["Memory"]

_Words = NDArray[np.uint64]
VERSION = 1
_DONE = -1
"""In the place of a proxy: ids that are joined."""


class Memory:
    """Fronts, marks and shares of one bucket."""

    def __init__(self, n_proxies: int, content: bytes = b"") -> None:
        self.n_proxies = n_proxies
        self.fronts: dict[int, int] = {}
        """For each channel the first epoch that is not closed here."""
        self.marks: list[dict[int, int]] = [{} for _ in range(n_proxies)]
        """For each proxy and channel the first epoch that it has not marked here."""
        self._stored: dict[Task, list[tuple[int, _Words]]] = {}
        self._buckets: dict[Task, Bucket] = {}
        if content:
            self._read(content)

    def _read(self, content: bytes) -> None:
        length = int.from_bytes(content[:4], "little")
        header = json.loads(content[4 : 4 + length])
        if header["version"] != VERSION or len(header["marks"]) != self.n_proxies:
            found = f"version {header['version']}, {len(header['marks'])} proxies"
            raise StateError(
                f"the checkpoint holds buckets of {found}, and these are version {VERSION}, {self.n_proxies} proxies"
            )
        self.fronts = {int(channel): front for channel, front in header["fronts"].items()}
        self.marks = [{int(channel): epoch for channel, epoch in marks.items()} for marks in header["marks"]]
        at = 4 + length
        for channel, epoch, number, proxy, words, n in header["parts"]:
            rows = np.frombuffer(content, dtype="<u8", count=words * n, offset=at).reshape(words, n)
            self._stored.setdefault((channel, epoch, number), []).append((proxy, rows))
            at += 8 * words * n

    def to_bytes(self) -> bytes:
        """What the next batch starts from."""
        parts = [(*task, *part) for task in sorted(self.tasks()) for part in self._parts(task)]
        header = {
            "version": VERSION,
            "fronts": self.fronts,
            "marks": self.marks,
            "parts": [[*task, proxy, *rows.shape] for *task, proxy, rows in parts],
        }
        told = json.dumps(header, separators=(",", ":")).encode()
        return b"".join([len(told).to_bytes(4, "little"), told, *(np.ascontiguousarray(part[-1], "<u8").data for part in parts)])

    def tasks(self) -> set[Task]:
        """Of which channels, epochs and sub-buckets there is anything."""
        return {*self._stored, *self._buckets}

    def bucket(self, task: Task) -> Bucket:
        """Where the shares of a task are joined."""
        if task not in self._buckets:
            bucket = self._buckets[task] = Bucket(self.n_proxies)
            for proxy, rows in self._stored.pop(task, []):
                if proxy == _DONE:
                    bucket.done.add(rows)
                else:
                    bucket.pending[proxy] = rows
        return self._buckets[task]

    def _parts(self, task: Task) -> Iterator[tuple[int, _Words]]:
        if task in self._stored:
            yield from self._stored[task]
            return
        bucket = self._buckets[task]
        for run in bucket.done.runs:
            yield _DONE, run
        for proxy, rows in enumerate(bucket.pending):
            if rows is not None and rows.shape[1]:
                yield proxy, rows

    def drop(self, channel: int, epoch: int) -> list[int]:
        """Forget an epoch; returns how many shares of each proxy waited in it."""
        waiting = [0] * self.n_proxies
        for task in [task for task in self.tasks() if task[:2] == (channel, epoch)]:
            for proxy, rows in self._parts(task):
                if proxy != _DONE:
                    waiting[proxy] += rows.shape[1]
            self._stored.pop(task, None)
            self._buckets.pop(task, None)
        return waiting
