"""Where a bucket's segments are in tests."""

from __future__ import annotations

from deniable.spark.memory import Place


class Shelf:
    """Segments in a dictionary, and which of them were read."""

    def __init__(self) -> None:
        self.content: dict[tuple[Place, int], bytes] = {}
        self.reads: list[int] = []

    def read(self, place: Place, number: int) -> bytes:
        self.reads.append(number)
        return self.content[place, number]

    def write(self, place: Place, number: int, content: bytes) -> None:
        assert (place, number) not in self.content
        self.content[place, number] = content

    def remove(self, place: Place, number: int) -> None:
        del self.content[place, number]
