"""Batches of a collector, and what a proxy answers to them."""

from __future__ import annotations

import json
import struct

from deniable.wire.batches import (
    UploadOutcome,
    pack_batch,
    pack_outcomes,
    unpack_batch,
    unpack_outcomes,
)

WEIGHT, LONGEST = 24, 400
DICTIONARY = [
    b"\x01U\x00\x00",
    b"\x01R\x00\x00",
    b'[["late", 410, "closed", null]]',
    b'["',
    b"null",
    b"429",
]


def seeds() -> list[bytes]:
    refused = UploadOutcome(0, 0, ("late", 410, "the epoch is closed", None))
    return [
        pack_batch([], []),
        pack_batch([b"a" * 32, b"b" * 32], [b"one", b""]),
        pack_outcomes([]),
        pack_outcomes(
            [
                UploadOutcome(1, 0),
                refused,
                UploadOutcome(3, 4),
                UploadOutcome(0, 0, ("busy", 503, "", 5)),
            ]
        ),
    ]


def check(data: bytes) -> None:
    if data[1:2] == b"R":
        outcomes = unpack_outcomes(data)
        (n,) = struct.unpack_from("<I", data, 4)
        assert len(outcomes) == n
        refusals = json.loads(data[8 + 12 * n :])
        for i, outcome in enumerate(outcomes):
            accepted, already, number = struct.unpack_from("<III", data, 8 + 12 * i)
            assert outcome[:2] == (accepted, already)
            assert (outcome.refusal is None) == (number == 0)
            assert outcome.refusal is None or outcome.refusal[1] == refusals[number - 1][1]
        assert unpack_outcomes(pack_outcomes(outcomes)) == outcomes
        return
    uploads = unpack_batch(data)
    assert (
        pack_batch([client for client, _ in uploads], [content for _, content in uploads]) == data
    )
