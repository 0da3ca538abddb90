"""Channels: the epochs and share size common to one or several queries, as proxies and aggregators see them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deniable.errors import ParameterError, RefusedError
from deniable.queries.header import QueryHeader
from deniable.queries.schedule import Schedule

__all__ = ["Channel", "channels_of"]


@dataclass(frozen=True)
class Channel:
    """A channel's schedule and size class, and how many messages a device may send in an epoch of it."""

    tag: int
    schedule: Schedule
    """The schedule of the query that expires last; all have the same origin and epoch length."""
    n_epochs: int
    """Epochs in which devices answer: before the last version expires or is stopped."""
    size_class: int
    most_messages: int = 1
    grace: int = 0
    """Seconds after the end of an epoch in which its shares are accepted, if longer than the service's setting."""

    @classmethod
    def of_query(cls, header: QueryHeader, stopped: int | None = None) -> Channel:
        """The channel of a query; if it was stopped, up to the epoch in which it was."""
        schedule = header.schedule
        n_epochs = schedule.n_epochs if stopped is None else schedule.epochs_begun(stopped)
        return cls(header.channel_tag, schedule, n_epochs, header.size_class, header.most_rows, header.grace or 0)

    @property
    def spelled(self) -> str:
        """The tag as people and logs write it."""
        return f"{self.tag:016x}"

    def epochs_over(self, time: int) -> int:
        """How many of its epochs, counted from the first, have ended at a time."""
        return min(self.schedule.epochs_over(time), self.n_epochs)

    def check(self, epoch: int, size_class: int, now: int, skew: int, closed: int) -> None:
        """Refuse a share that does not have this channel's size, or comes too early or too late.

        `closed` is the first epoch that is still open; `skew` is how many seconds a device's clock may be ahead.
        """
        name = f"channel {self.spelled}"
        if size_class != self.size_class:
            raise RefusedError("size_class", 422, f"shares of {name} have size class {self.size_class}, not {size_class}")
        if epoch < closed:
            raise RefusedError("late", 410, f"epoch {epoch} of {name} is closed: the first open epoch is {closed}")
        if epoch >= self.n_epochs:
            raise RefusedError("ended", 422, f"{name} has epochs 0 to {self.n_epochs - 1}, not {epoch}")
        if now + skew < self.schedule.start_of_epoch(epoch):
            raise RefusedError("early", 422, f"epoch {epoch} of {name} has not begun")

    def joined(self, other: Channel, most_messages: int) -> Channel:
        """One channel for the queries of both."""
        mine, theirs = self.schedule, other.schedule
        if (mine.origin, mine.every, self.size_class) != (theirs.origin, theirs.every, other.size_class):
            raise ParameterError("channel", self.spelled, "cannot have two schedules or size classes")
        last = max(mine, theirs, key=lambda schedule: schedule.expires)
        n_epochs, grace = max(self.n_epochs, other.n_epochs), max(self.grace, other.grace)
        return replace(self, schedule=last, n_epochs=n_epochs, most_messages=most_messages, grace=grace)


def channels_of(queries: Iterable[tuple[QueryHeader, int | None]]) -> dict[int, Channel]:
    """The channels of queries, each with the time it was stopped or None.

    Versions of one query take turns, so a device may send the most that one of them allows; different queries of one channel
    add up.
    """
    by_query: dict[tuple[int, str], Channel] = {}
    for header, stopped in queries:
        channel = Channel.of_query(header, stopped)
        known = by_query.get((channel.tag, header.id))
        if known is not None:
            channel = known.joined(channel, max(known.most_messages, channel.most_messages))
        by_query[channel.tag, header.id] = channel
    found: dict[int, Channel] = {}
    for (tag, _), channel in by_query.items():
        known = found.get(tag)
        found[tag] = channel if known is None else known.joined(channel, known.most_messages + channel.most_messages)
    return found
