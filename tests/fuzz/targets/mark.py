"""Marks, against the reference."""

from __future__ import annotations

from deniable.wire.marks import MarkRecord, is_mark
from fuzz.vectors import agrees
from toolkit.references import wire_reference

WEIGHT, LONGEST = 16, 24
DICTIONARY = [b"\x01M\x00\x00"]


def seeds() -> list[bytes]:
    return [MarkRecord(7, 4).to_bytes(), MarkRecord((1 << 64) - 1, (1 << 32) - 1).to_bytes(), b""]


def check(data: bytes) -> None:
    mark = agrees(wire_reference.mark_fault(data), lambda: MarkRecord.from_bytes(data))
    assert is_mark(data)
    assert mark.to_bytes() == data
