"""Channels: the epochs and share size common to one or several queries, as proxies and aggregators
see them.

A channel belongs to one holder. In format 2 the holder's key is part of the tag, and other keys
need a permission that the holder signed (:mod:`.permissions`). In format 1 the tag is derived from
a name alone: an analyst's id if the query names no channel, and any text if it does. Such a channel
belongs to the analyst whose query it is by default, or else to the first analyst seen on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deniable.errors import ParameterError, RefusedError
from deniable.queries.header import QueryHeader
from deniable.queries.schedule import Schedule

__all__ = ["Channel", "channels_of", "check_joining"]


@dataclass(frozen=True)
class Channel:
    """A channel's schedule and size class, and how many messages a device may send in an epoch of
    it."""

    tag: int
    schedule: Schedule
    """The schedule of the query that expires last; all have the same origin and epoch length."""
    n_epochs: int
    """Epochs in which devices answer: before the last version expires or is stopped."""
    size_class: int
    most_messages: int = 1
    grace: int = 0
    """Seconds after the end of an epoch in which its shares are accepted, if longer than the
    service's setting."""

    @classmethod
    def of_query(cls, header: QueryHeader, stopped: int | None = None) -> Channel:
        """The channel of a query; if it was stopped, up to the epoch in which it was."""
        schedule = header.schedule
        n_epochs = schedule.n_epochs if stopped is None else schedule.epochs_begun(stopped)
        return cls(
            header.channel_tag,
            schedule,
            n_epochs,
            header.size_class,
            header.most_rows,
            header.grace or 0,
        )

    @property
    def spelled(self) -> str:
        """The tag as people and logs write it."""
        return f"{self.tag:016x}"

    def epochs_over(self, time: int) -> int:
        """How many of its epochs, counted from the first, have ended at a time."""
        return min(self.schedule.epochs_over(time), self.n_epochs)

    def check(self, epoch: int, size_class: int, now: int, skew: int, closed: int) -> None:
        """Refuse a share that does not have this channel's size, or comes too early or too late.

        `closed` is the first epoch that is still open; `skew` is how many seconds a device's clock
        may be ahead.
        """
        name = f"channel {self.spelled}"
        if size_class != self.size_class:
            raise RefusedError(
                "size_class",
                422,
                f"shares of {name} have size class {self.size_class}, not {size_class}",
            )
        if epoch < closed:
            raise RefusedError(
                "late", 410, f"epoch {epoch} of {name} is closed: the first open epoch is {closed}"
            )
        if epoch >= self.n_epochs:
            raise RefusedError(
                "ended", 422, f"{name} has epochs 0 to {self.n_epochs - 1}, not {epoch}"
            )
        if now + skew < self.schedule.start_of_epoch(epoch):
            raise RefusedError("early", 422, f"epoch {epoch} of {name} has not begun")

    def joined(self, other: Channel, most_messages: int) -> Channel:
        """One channel for the queries of both."""
        mine, theirs = self.schedule, other.schedule
        if (mine.origin, mine.every, self.size_class) != (
            theirs.origin,
            theirs.every,
            other.size_class,
        ):
            raise ParameterError(
                "channel", self.spelled, "cannot have two schedules or size classes"
            )
        last = max(mine, theirs, key=lambda schedule: schedule.expires)
        n_epochs, grace = max(self.n_epochs, other.n_epochs), max(self.grace, other.grace)
        return replace(
            self, schedule=last, n_epochs=n_epochs, most_messages=most_messages, grace=grace
        )


def channels_of(queries: Iterable[tuple[QueryHeader, int | None]]) -> dict[int, Channel]:
    """The channels of queries, in order of publication, each with the time it was stopped or None.

    Versions of one query take turns, so a device may send the most that one of them allows;
    different queries of one channel add up, but those of a guest to no more than the holder
    permits. A query on a channel of another holder adds nothing to it: no wait, no message and no
    epoch.
    """
    queries = list(queries)
    holders = _holders(header for header, _ in queries)
    by_query: dict[tuple[int, str, str], Channel] = {}
    permitted: dict[tuple[int, str], int] = {}
    for header, stopped in queries:
        channel, guest = Channel.of_query(header, stopped), _guest(header)
        if header.channel_holder != holders[channel.tag]:
            continue
        if header.permission is not None:
            permitted[channel.tag, guest] = max(
                permitted.get((channel.tag, guest), 0), header.permission.messages
            )
        known = by_query.get((channel.tag, guest, header.id))
        if known is not None:
            channel = known.joined(channel, max(known.most_messages, channel.most_messages))
        by_query[channel.tag, guest, header.id] = channel
    by_guest: dict[tuple[int, str], Channel] = {}
    for (tag, guest, _), channel in by_query.items():
        known = by_guest.get((tag, guest))
        total = channel.most_messages + (0 if known is None else known.most_messages)
        total = min(total, permitted.get((tag, guest), total))
        by_guest[tag, guest] = (
            replace(channel, most_messages=total) if known is None else known.joined(channel, total)
        )
    found: dict[int, Channel] = {}
    for (tag, _), channel in by_guest.items():
        known = found.get(tag)
        found[tag] = (
            channel
            if known is None
            else known.joined(channel, known.most_messages + channel.most_messages)
        )
    return found


def check_joining(
    header: QueryHeader, queries: Iterable[tuple[QueryHeader, int | None]], now: int
) -> None:
    """Refuse a query that would use a channel of another holder, or ask for more messages than its
    holder permits.

    `queries` are those published before it, in order, each with the time it was stopped or None.
    """
    others = [
        (each, stopped) for each, stopped in queries if each.channel_tag == header.channel_tag
    ]
    holder = _holders([*(each for each, _ in others), header])[header.channel_tag]
    if header.channel_holder != holder:
        rule = (
            "belongs to another analyst: choose another name, or sign the query again with this"
            " release"
        )
        raise ParameterError("channel", header.channel, rule)
    if header.permission is None:
        return
    running: dict[str, int] = {}
    for each, stopped in others:
        if (
            _guest(each) == _guest(header)
            and each.id != header.id
            and stopped is None
            and now < each.schedule.expires
        ):
            running[each.id] = max(running.get(each.id, 0), each.most_rows)
    total = sum(running.values()) + header.most_rows
    if total > header.permission.messages:
        rule = (
            f"permits {header.permission.messages} messages per device and epoch; with this query,"
            f" yours would ask for {total}"
        )
        raise ParameterError("channel", header.channel, rule)


def _guest(header: QueryHeader) -> str:
    """The key that was permitted to use the channel; empty for the holder's own queries."""
    return "" if header.permission is None else header.permission.guest


def _holders(headers: Iterable[QueryHeader]) -> dict[int, str]:
    """To whom each channel belongs: to the analyst whose query has no other channel, or else to the
    first one seen."""
    holders: dict[int, str] = {}
    own: set[int] = set()
    for header in headers:
        tag = header.channel_tag
        if tag not in holders or (header.channel is None and tag not in own):
            holders[tag] = header.channel_holder
        if header.channel is None:
            own.add(tag)
    return holders
