"""Counting: what every engine does with a block, from the bytes of a log to panes and accounts.

An engine decides what is read together and where buckets are kept. Only this module decides what
becomes of a share.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from deniable.aggregator.counting.catalogue import CountedChannel
from deniable.aggregator.counting.conservation import OUTSIDE, Ledger
from deniable.aggregator.counting.join import Bucket, Joined, split_rows
from deniable.aggregator.counting.panes import Counted, Panes, Reports, count_messages
from deniable.counts import add_by_key
from deniable.errors import WireError
from deniable.wire.blocks import LARGEST_BLOCK, Block
from deniable.wire.shares import join_columns

__all__ = ["Arrivals", "Router", "Task", "book", "join_and_count"]

_Words = NDArray[np.uint64]
Task = tuple[int, int, int]
"""Channel, epoch and bucket."""
Arrivals = dict[Task, list[list[_Words]]]
"""For each task, the rows that came from each proxy."""


@dataclass(frozen=True)
class Router:
    """Decides where the shares of a block are joined, or why they are not."""

    channels: Mapping[int, CountedChannel]
    fronts: Mapping[int, int]
    """For each channel, the first epoch that is not closed."""
    n_proxies: int
    bucket_bits: int
    skew: int
    retention: int
    now: int

    def route(
        self,
        proxy: int,
        content: bytes | memoryview,
        arrivals: Arrivals,
        ledger: Ledger,
        partition: tuple[int, int] = (0, 0),
    ) -> None:
        """Put a block where its shares are joined, or book why it is not.

        `partition` gives the number of the block's partition and how many bits chose it: a block in
        the wrong partition would never meet its partners.
        """
        outside = (proxy, OUTSIDE, OUTSIDE)
        try:
            block = Block.from_bytes(content)
        except WireError as error:
            n = _claimed_count(content)
            ledger.enter(outside, "received", n)
            ledger.enter(outside, "malformed", n, error.reason)
            return
        n = len(block)
        reason = self._refusal(block, *partition)
        if reason:
            ledger.enter(outside, "received", n)
            ledger.enter(outside, "malformed", n, reason)
            return
        place = (proxy, block.channel, block.epoch)
        ledger.enter(place, "received", n)
        if block.epoch < self.fronts[block.channel]:
            ledger.enter(place, "late", n)
            return
        for bucket, rows in split_rows(
            block.columns, block.prefix_bits, block.prefix, self.bucket_bits
        ):
            task = (block.channel, block.epoch, bucket)
            arrivals.setdefault(task, [[] for _ in range(self.n_proxies)])[proxy].append(rows)

    def _refusal(self, block: Block, partition: int, partition_bits: int) -> str:
        """Why a whole block is refused; empty if it is not."""
        channel = self.channels.get(block.channel)
        if channel is None:
            return "channel"
        if block.size_class != channel.size_class:
            return "size_class"
        if block.epoch >= channel.n_epochs:
            return "expired"
        spare = block.prefix_bits - partition_bits
        if spare < 0 or block.prefix >> spare != partition:
            return "partition"
        if channel.schedule.start_of_epoch(block.epoch) > self.now + self.skew:
            return "future"
        oldest = self.now - max(self.retention, channel.grace)
        return "ancient" if channel.schedule.end_of_epoch(block.epoch) < oldest else ""


def _claimed_count(content: bytes | memoryview) -> int:
    """How many shares an unreadable block claims to hold, if that is at all possible; otherwise
    1."""
    claimed = int.from_bytes(content[20:24], "little") if len(content) >= 24 else 1
    return claimed if 1 <= claimed <= LARGEST_BLOCK else 1


def join_and_count(
    bucket: Bucket,
    parts: list[list[_Words]],
    epoch: int,
    channel: CountedChannel,
    keep: Reports | None = None,
) -> tuple[Joined, Counted]:
    """Join and count what arrived in one bucket; counted reports are added to `keep`, if it is
    given."""
    joined = bucket.add(parts)
    if not joined.ids.shape[1]:
        return joined, Counted({}, {})
    return joined, count_messages(
        join_columns(joined.matched, epoch), channel.versions, epoch, keep
    )


def book(task: Task, joined: Joined, counted: Counted, ledger: Ledger, panes: Panes) -> None:
    """Enter what became of the shares of a bucket, and add its counts to the panes."""
    channel, epoch, _ = task
    n_counted = joined.ids.shape[1] - sum(counted.refused.values())
    for proxy, duplicates in enumerate(joined.duplicates):
        place = (proxy, channel, epoch)
        ledger.enter(place, "counted", n_counted)
        ledger.enter(place, "duplicate", duplicates)
        for reason, n in counted.refused.items():
            ledger.enter(place, "malformed", n, reason)
    add_by_key(panes, counted.panes)
