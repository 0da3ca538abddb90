"""What the store of a device hands out: shares that wait, and rows of permanent answers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["QueuedShare", "Seat"]


@dataclass(frozen=True, repr=False)
class QueuedShare:
    """A share that waits for its proxy."""

    place: int
    record: bytes

    def __repr__(self) -> str:
        return f"<queued share {self.place}>"


@dataclass(frozen=True, repr=False)
class Seat:
    """A row for a permanent answer: the hash by which it is found, and the epoch for which it last
    spoke."""

    place: int
    name: bytes
    permanent: bytes
    spoke: int

    def __repr__(self) -> str:
        return f"<seat {self.place}>"
