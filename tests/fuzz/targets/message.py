"""Joined messages: the single and the bulk form against the reference. An odd first byte has the
tag made anew."""

from __future__ import annotations

import numpy as np

from deniable.wire.message import Message, MessageFault, open_columns
from fuzz.vectors import agrees, vectors
from toolkit.references import wire_reference

WEIGHT, LONGEST = 8, 240
DICTIONARY = [b"\x01\x00", b"\x01\x01", bytes(16)]


def seeds() -> list[bytes]:
    out = []
    for each in vectors("wire")["good_messages"]:
        content = bytes.fromhex(each["message"])
        out += [
            bytes([each["size_class"] << 1 | retag]) + content[4:8] + content for retag in (0, 1)
        ]
    return out


def check(data: bytes) -> None:
    first, epoch, content = data[0] if data else 0, int.from_bytes(data[1:5], "little"), data[5:]
    size_class = (first >> 1) % 3
    if first & 1 and len(content) > 32:
        content = content[:-8] + wire_reference.siphash24(content[-24:-8], content[:-24]).to_bytes(
            8, "little"
        )
    fault = wire_reference.message_fault(content, size_class, epoch)
    if len(content) == 64 * 2**size_class - 16:
        words = np.frombuffer(content, dtype="<u8").reshape(-1, 1)
        found = MessageFault(int(open_columns(words.copy(), epoch).faults[0]))
        assert found.name.lower() == (fault or "none"), (
            f"in bulk {found.name}, and the reference says {fault}"
        )
    message = agrees(fault, lambda: Message.open(content, size_class, epoch))
    key = int.from_bytes(content[-24:-16], "little"), int.from_bytes(content[-16:-8], "little")
    assert message.seal(size_class, key) == content
