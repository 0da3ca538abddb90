"""Share records, against the reference."""

from __future__ import annotations

from deniable.wire.shares import Share
from fuzz.vectors import agrees, vectors
from toolkit.references import wire_reference

WEIGHT, LONGEST = 30, 300
DICTIONARY = [b"\x01S\x00\x00", b"\x01S\x01\x00", b"\x01B"]


def seeds() -> list[bytes]:
    wire = vectors("wire")
    good = [record for message in wire["good_messages"] for record in message["shares"]]
    return [bytes.fromhex(text) for text in [*good, *(bad["record"] for bad in wire["bad_shares"])]]


def check(data: bytes) -> None:
    share = agrees(wire_reference.record_fault(data), lambda: Share.from_bytes(data))
    assert share.to_bytes() == data
    again = wire_reference.record(
        share.size_class, share.epoch, share.channel, share.id, share.payload
    )
    assert again == data
    assert share.payload.hex() not in repr(share)
