"""Blocks of shares, against the reference; cutting their rows again gives the same block."""

from __future__ import annotations

import numpy as np

from deniable.wire.blocks import Block, cut
from fuzz.vectors import agrees, vectors
from toolkit.references import wire_reference

WEIGHT, LONGEST = 24, 700
DICTIONARY = [b"\x01B\x00\x03", b"\x01B\x01\x00", b"\x01S", bytes(8), b"\xff" * 8]


def seeds() -> list[bytes]:
    wire = vectors("wire")
    return [bytes.fromhex(each["block"]) for each in [*wire["good_blocks"], *wire["bad_blocks"]]]


def check(data: bytes) -> None:
    block = agrees(wire_reference.block_fault(data), lambda: Block.from_bytes(data))
    assert block.to_bytes() == data
    assert [share.id + share.payload for share in block.shares()] == [
        row for _, row in wire_reference.block_rows_of(data)
    ]
    shuffled = block.columns[:, np.arange(len(block))[::-1]]
    (again,), repeated = cut(block.channel, block.epoch, block.size_class, shuffled, 0)
    assert repeated == 0
    assert np.array_equal(again.columns, block.columns)
