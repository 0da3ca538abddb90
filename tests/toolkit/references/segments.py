"""Where a bucket's segments are in tests."""

from __future__ import annotations

from deniable.wire.segments import ChannelEpoch


class InMemorySegments:
    """Segments in a dictionary, and which of them were read."""

    def __init__(self) -> None:
        self.content: dict[tuple[ChannelEpoch, int], bytes] = {}
        self.reads: list[int] = []

    def read(self, place: ChannelEpoch, number: int) -> bytes:
        self.reads.append(number)
        return self.content[place, number]

    def write(self, place: ChannelEpoch, number: int, content: bytes) -> None:
        assert (place, number) not in self.content
        self.content[place, number] = content

    def remove(self, place: ChannelEpoch, number: int) -> None:
        del self.content[place, number]
