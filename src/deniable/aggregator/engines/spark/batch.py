"""What one bucket makes of the records of a batch. Pure: records and memory in, figures and memory
out; no Spark here.

A bucket is a partition of every proxy's log. It sees, in order, each proxy's blocks and marks, so
it closes its epochs by itself: an epoch is closed here once every proxy has marked it here, or once
the driver has ordered it because a proxy has not marked it in time. A record has the same outcome
in every attempt, because only the records and the memory determine it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from deniable.aggregator.counting.blocks import Arrivals, Router, book, join_and_count
from deniable.aggregator.counting.catalogue import CountedChannel
from deniable.aggregator.counting.conservation import Ledger
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.counting.panes import Panes, Reports
from deniable.aggregator.engines.spark.bucket_state import Memory
from deniable.aggregator.windows.closing import due_epochs
from deniable.errors import WireError
from deniable.wire.marks import MarkRecord, is_mark

__all__ = ["BatchOutcome", "BatchRecord", "BatchRules", "Closed", "work"]


class BatchRecord(NamedTuple):
    """A record of a partition."""

    proxy: int
    offset: int
    content: bytes | memoryview


class Closed(NamedTuple):
    """An epoch that a bucket has closed, and the proxies that had not marked it there."""

    channel: int
    epoch: int
    missing: tuple[int, ...]


@dataclass
class BatchOutcome:
    """What a bucket made of a batch."""

    ledger: Ledger = field(default_factory=Ledger)
    panes: Panes = field(default_factory=dict)
    closed: list[Closed] = field(default_factory=list)
    marks: dict[tuple[int, int], int] = field(default_factory=dict)
    """For each proxy and channel, the new mark."""
    reports: Reports = field(default_factory=list)


@dataclass(frozen=True)
class BatchRules:
    """The rules that all buckets follow."""

    channels: Mapping[int, CountedChannel]
    firsts: Mapping[int, int]
    """For each channel, the first epoch that is counted."""
    n_proxies: int
    partition_bits: int
    limits: EngineLimits
    keep_reports: bool = False


def work(
    rules: BatchRules,
    memory: Memory,
    partition: int,
    records: Iterable[BatchRecord],
    now: int,
    orders: Mapping[int, int] | None = None,
) -> BatchOutcome:
    """Count the records of a partition, and close the epochs that are complete and those that are
    ordered to be closed: for each channel, all before an epoch. Changes the memory.
    """
    out = BatchOutcome()
    for tag, first in rules.firsts.items():
        memory.fronts.setdefault(tag, first)
    bits = max(rules.limits.bucket_bits, rules.partition_bits)
    limits = rules.limits
    router = Router(
        rules.channels, memory.fronts, rules.n_proxies, bits, limits.skew, limits.retention, now
    )
    arrivals: Arrivals = {}
    for proxy, _, content in sorted(records, key=lambda record: record[:2]):
        mark = _mark(content)
        if mark is None:
            router.route(proxy, content, arrivals, out.ledger, (partition, rules.partition_bits))
        elif mark.channel in rules.channels and mark.epoch > memory.marks[proxy].get(
            mark.channel, 0
        ):
            memory.marks[proxy][mark.channel] = out.marks[proxy, mark.channel] = mark.epoch
    keep = out.reports if rules.keep_reports else None
    for task, parts in arrivals.items():
        joined, counted = join_and_count(
            memory.bucket(task), parts, task[1], rules.channels[task[0]], keep
        )
        book(task, joined, counted, out.ledger, out.panes)
        memory.note(task, joined)
    for channel in rules.channels.values():
        _close(channel, (orders or {}).get(channel.tag, 0), memory, out)
    return out


def _mark(content: bytes | memoryview) -> MarkRecord | None:
    """The mark in a record; None for anything else, which is then treated as a block, and refused
    if it is not one."""
    if not is_mark(content):
        return None
    try:
        return MarkRecord.from_bytes(content)
    except WireError:
        return None


def _close(channel: CountedChannel, ordered: int, memory: Memory, out: BatchOutcome) -> None:
    marked = [marks.get(channel.tag, 0) for marks in memory.marks]
    for epoch, missing in due_epochs(channel, memory.fronts[channel.tag], marked, ordered):
        for proxy, n in enumerate(memory.drop(channel.tag, epoch)):
            out.ledger.enter((proxy, channel.tag, epoch), "orphaned", n)
        out.closed.append(Closed(channel.tag, epoch, missing))
        memory.fronts[channel.tag] = epoch + 1
