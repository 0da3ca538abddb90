"""How far the logs of the proxies are read: positions, which logs they are, and what is marked."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from deniable.aggregator.state import State
from deniable.aggregator.step import Step
from deniable.logs.share_logs import Reading, unread

__all__ = ["LogProgress", "RestoredLog"]


class RestoredLog(NamedTuple):
    """Where to continue with a log that was restored from a backup of the one that was read."""

    position: int
    """The end of what both have."""
    backed_up: int
    read: int


class LogProgress:
    """What a state holds of the logs, kept in memory; it changes with each step that is applied."""

    def __init__(self, state: State) -> None:
        self.positions = state.positions()
        self._identities = state.identities()
        self._marks = state.marks()

    def marked(self, proxy: int, channel: int) -> int:
        """The epoch before which a proxy has marked all epochs of a channel, in every partition, as
        far as it is read."""
        parts = range(len(self.positions[proxy]))
        return min(
            (self._marks.get((proxy, partition, channel), 0) for partition in parts), default=0
        )

    def restored(self, proxy: int, reading: Reading) -> RestoredLog | None:
        """Where to continue, if the log continues the one that was read before."""
        known, names = self._identities[proxy], [identity for identity, _ in reading.continues]
        if reading.problem or known not in names or known == reading.identity:
            return None
        since = reading.continues[names.index(known) :]
        (read,) = self.positions[proxy]
        return RestoredLog(min(read, *(offset for _, offset in since)), since[0][1], read)

    def checked(self, proxy: int, reading: Reading) -> Reading:
        """The reading, or a problem if it is not of the log that was read before."""
        after = self.positions[proxy]
        if not reading.problem and self._identities[proxy] not in (None, reading.identity):
            reading = unread(
                after, "this is not the log that was read before: its identity differs"
            )
        if not reading.problem and after and len(reading.position) != len(after):
            reading = unread(
                after,
                f"this log has {len(reading.position)} partitions, and {len(after)} were read"
                " before",
            )
        return reading

    def add(self, proxy: int, reading: Reading, channels: Container[int], step: Step) -> None:
        """Add to a step how far a reading goes. A proxy may mark any number of channels: only
        those in `channels` are kept."""
        if reading.position != self.positions[proxy] and (any(reading.position) or reading.marks):
            step.positions[proxy] = reading.position
            if self._identities[proxy] is None and reading.identity is not None:
                step.identities[proxy] = reading.identity
        for mark in reading.marks:
            place = (proxy, mark.partition, mark.channel)
            if mark.channel not in channels:
                continue
            if reading.position[mark.partition] >= mark.offset and mark.epoch > self._marks.get(
                place, 0
            ):
                step.marks[place] = max(mark.epoch, step.marks.get(place, 0))

    def apply(self, step: Step) -> None:
        """Follow a step that was committed."""
        for proxy, position in step.positions.items():
            self.positions[proxy] = position
        for proxy, identity in step.identities.items():
            self._identities[proxy] = identity
        self._marks.update(step.marks)
