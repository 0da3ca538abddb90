"""Channels: what a proxy has to know of queries to tell a share that is in time and in order from one that is not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from deniable.errors import ParameterError, RefusedError
from deniable.queries.query import Query

__all__ = ["Channel", "channels_of"]


@dataclass(frozen=True)
class Channel:
    """A channel's schedule and size class, and how many messages a device may send in an epoch of it."""

    tag: int
    origin: int
    every: int
    n_epochs: int
    size_class: int
    most_messages: int

    @classmethod
    def of_query(cls, query: Query, stopped: int | None = None) -> Channel:
        """The channel of a query; of one that was stopped, up to the epoch in which it was."""
        schedule = query.schedule
        n_epochs = schedule.n_epochs
        if stopped is not None:
            n_epochs = min(n_epochs, max(0, (stopped - schedule.origin) // schedule.every + 1))
        size_class = query.size_class or 0
        return cls(query.channel_tag, schedule.origin, schedule.every, n_epochs, size_class, query.most_rows)

    def due(self, time: int) -> int:
        """How many of its epochs, from the first on, have ended at a time."""
        return min(max(0, (time - self.origin) // self.every), self.n_epochs)

    def check(self, epoch: int, size_class: int, now: int, skew: int, closed: int) -> None:
        """Refuse a share that is not of this channel's size, or comes too early or too late.

        `closed` is the first epoch that is still open; `skew` is how many seconds a device's clock may be ahead.
        """
        if size_class != self.size_class:
            rule = f"shares of channel {self.tag:016x} have size class {self.size_class}, and these {size_class}"
            raise RefusedError("size_class", 422, rule)
        if epoch < closed:
            raise RefusedError(
                "late", 410, f"epoch {epoch} of channel {self.tag:016x} is closed: {closed} is the first that is open"
            )
        if epoch >= self.n_epochs:
            raise RefusedError("ended", 422, f"channel {self.tag:016x} has epochs 0 to {self.n_epochs - 1}, and not {epoch}")
        if now + skew < self.origin + epoch * self.every:
            raise RefusedError("early", 422, f"epoch {epoch} of channel {self.tag:016x} has not begun")

    def joined(self, other: Channel) -> Channel:
        """One channel that carries the queries of both."""
        if (self.tag, self.origin, self.every, self.size_class) != (other.tag, other.origin, other.every, other.size_class):
            raise ParameterError("channel", f"{self.tag:016x}", "names two schedules or size classes, which it cannot")
        return replace(self, n_epochs=max(self.n_epochs, other.n_epochs), most_messages=self.most_messages + other.most_messages)


def channels_of(queries: Iterable[tuple[Query, int | None]]) -> dict[int, Channel]:
    """The channels of queries, each with the time it was stopped or None.

    Versions of one query take turns, so a device may send the most that one of them allows; different queries of one channel
    add up.
    """
    by_query: dict[tuple[int, str], Channel] = {}
    for query, stopped in queries:
        channel = Channel.of_query(query, stopped)
        known = by_query.get((channel.tag, query.id))
        if known is not None:
            most = max(known.most_messages, channel.most_messages)
            channel = replace(channel, n_epochs=max(known.n_epochs, channel.n_epochs), most_messages=most)
        by_query[channel.tag, query.id] = channel
    found: dict[int, Channel] = {}
    for (tag, _), channel in by_query.items():
        found[tag] = found[tag].joined(channel) if tag in found else channel
    return found
