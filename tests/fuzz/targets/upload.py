"""Bodies of uploads: many records at once, against each record by itself."""

from __future__ import annotations

from deniable.errors import WireError
from deniable.wire.shares import read_batch
from fuzz.vectors import vectors
from toolkit.references import wire_reference

WEIGHT, LONGEST = 24, 700
DICTIONARY = [b"\x01S\x00\x00", b"\x01S\x01\x00"]


def seeds() -> list[bytes]:
    records = [
        bytes.fromhex(record)
        for message in vectors("wire")["good_messages"][:3]
        for record in message["shares"]
    ]
    longer = bytes.fromhex(vectors("wire")["good_messages"][3]["shares"][0])
    return [
        records[0],
        records[0] + records[1],
        b"".join(records[:6]),
        records[0] + records[0],
        longer + records[0],
    ]


def check(data: bytes) -> None:
    length = 16 + 64 * 2 ** data[2] if wire_reference.header_fault(data, "S") is None else 0
    records = [data[at : at + length] for at in range(0, len(data), length)] if length else []
    # one size class to an upload, so that nothing is cut off unseen
    alike = all(len(record) == length for record in records)
    fine = bool(records) and alike and not any(map(wire_reference.record_fault, records))
    try:
        read = read_batch(data)
    except WireError:
        assert not fine, "all records are fine, and the upload is refused"
        raise
    assert fine, "a record is not fine, and the upload is taken"
    rows = []
    for (channel, epoch, size_class), columns in read.items():
        for row in columns.T.copy():
            rows.append(
                wire_reference.record(
                    size_class, epoch, channel, row[:2].tobytes(), row[2:].tobytes()
                )
            )
    assert sorted(rows) == sorted(records)
