"""docs/wire.md written out a second time, as plainly as it can be: bytes and loops, nothing of the
library.

`python -m toolkit.references.wire_reference` (from tests/) writes the vectors of tests/vectors.
What the library does is compared with both.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[2] / "vectors" / "wire-v1.json"
MASK = (1 << 64) - 1


def siphash24(key: bytes, data: bytes) -> int:
    """SipHash-2-4 of any bytes, after the paper's definition (Aumasson and Bernstein 2012, section
    2)."""

    def rotl(x: int, n: int) -> int:
        return ((x << n) | (x >> (64 - n))) & MASK

    k0, k1 = struct.unpack("<QQ", key)
    v: list[int] = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]

    def sipround() -> None:
        v[0] = (v[0] + v[1]) & MASK
        v[2] = (v[2] + v[3]) & MASK
        v[1], v[3] = rotl(v[1], 13), rotl(v[3], 16)
        v[1] ^= v[0]
        v[3] ^= v[2]
        v[0] = rotl(v[0], 32)
        v[2] = (v[2] + v[1]) & MASK
        v[0] = (v[0] + v[3]) & MASK
        v[1], v[3] = rotl(v[1], 17), rotl(v[3], 21)
        v[1] ^= v[2]
        v[3] ^= v[0]
        v[2] = rotl(v[2], 32)

    tail = len(data) % 8
    padded = data + bytes(7 - tail) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        (word,) = struct.unpack_from("<Q", padded, at)
        v[3] ^= word
        sipround()
        sipround()
        v[0] ^= word
    v[2] ^= 0xFF
    for _ in range(4):
        sipround()
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def message(
    size_class: int,
    kind: int,
    stratum: int,
    epoch: int,
    query_tag: int,
    report: bytes,
    key: bytes,
    version: int = 1,
) -> bytes:
    body = (
        bytes([version, kind])
        + stratum.to_bytes(2, "little")
        + epoch.to_bytes(4, "little")
        + query_tag.to_bytes(8, "little")
    )
    body += report + bytes(64 * 2**size_class - 56 - len(report))
    return body + key + siphash24(key, body).to_bytes(8, "little")


def xor(*parts: bytes) -> bytes:
    out = bytearray(len(parts[0]))
    for part in parts:
        for i, byte in enumerate(part):
            out[i] ^= byte
    return bytes(out)


def record(
    size_class: int,
    epoch: int,
    channel: int,
    message_id: bytes,
    payload: bytes,
    version: int = 1,
    reserved: int = 0,
) -> bytes:
    head = (
        bytes([version, ord("S"), size_class, reserved])
        + epoch.to_bytes(4, "little")
        + channel.to_bytes(8, "little")
    )
    return head + message_id + payload


def block(
    size_class: int,
    epoch: int,
    channel: int,
    prefix_bits: int,
    prefix: int,
    rows: list[bytes],
    **changes: int,
) -> bytes:
    """Rows (message id and payload) as they stand, column by column."""
    head = bytes([changes.get("version", 1), ord("B"), size_class, prefix_bits])
    head += epoch.to_bytes(4, "little") + channel.to_bytes(8, "little")
    head += prefix.to_bytes(4, "little") + changes.get("count", len(rows)).to_bytes(4, "little")
    columns = [b"".join(row[at : at + 8] for row in rows) for at in range(0, len(rows[0]), 8)]
    return head + b"".join(columns)


def header_fault(content: bytes, kind: str) -> str | None:
    """What is wrong with the first sixteen bytes of a share or a block."""
    if len(content) < 16:
        return "truncated"
    if content[0] != 1:
        return "version"
    if content[1] != ord(kind):
        return "kind"
    return "size_class" if content[2] > 6 else None


def _length_fault(content: bytes, length: int) -> str | None:
    return None if len(content) == length else "truncated" if len(content) < length else "trailing"


def record_fault(content: bytes) -> str | None:
    """Why these bytes are not one share; None if they are."""
    fault = header_fault(content, "S")
    if fault is None and content[3]:
        fault = "reserved"
    return fault or _length_fault(content, 16 + 64 * 2 ** content[2])


def mark_fault(content: bytes) -> str | None:
    """Why these bytes are not a mark."""
    fault = _length_fault(content, 16)
    if fault is None:
        fault = "version" if content[0] != 1 else "kind" if content[1] != ord("M") else None
    return fault or ("reserved" if content[2] or content[3] else None)


def block_rows_of(content: bytes) -> list[tuple[int, bytes]]:
    """The id (as a number: high word, then low) and the bytes of each row of a well-formed
    block."""
    words, count = 8 * 2 ** content[2], int.from_bytes(content[20:24], "little")
    rows = []
    for i in range(count):
        row = b"".join(
            content[24 + 8 * (word * count + i) : 32 + 8 * (word * count + i)]
            for word in range(words)
        )
        rows.append(
            (int.from_bytes(row[:8], "little") << 64 | int.from_bytes(row[8:16], "little"), row)
        )
    return rows


def block_fault(content: bytes) -> str | None:
    """Why these bytes are not a block."""
    fault = header_fault(content, "B")
    if fault is None and len(content) < 24:
        fault = "truncated"
    if fault:
        return fault
    count, bits, prefix = (
        int.from_bytes(content[20:24], "little"),
        content[3],
        int.from_bytes(content[16:20], "little"),
    )
    if not 1 <= count <= 65536:
        return "count"
    fault = _length_fault(content, 24 + 64 * 2 ** content[2] * count)
    if fault:
        return fault
    if bits > 16 or prefix >= 2**bits:
        return "prefix"
    ids = [row_id for row_id, _ in block_rows_of(content)]
    if sorted(set(ids)) != ids:
        return "order"
    return "prefix" if any(row_id >> (128 - bits) != prefix for row_id in ids) else None


def message_fault(content: bytes, size_class: int, epoch: int) -> str | None:
    """Why these bytes are not a message of this size class that came as of this epoch."""
    fault = _length_fault(content, 64 * 2**size_class - 16)
    if fault:
        return fault
    if siphash24(content[-24:-8], content[:-24]) != int.from_bytes(content[-8:], "little"):
        return "tag"
    if content[0] != 1:
        return "version"
    if content[1] > 1:
        return "kind"
    if int.from_bytes(content[4:8], "little") != epoch:
        return "epoch"
    return "padding" if content[1] == 1 and any(content[16:-24]) else None


def stream(n: int, start: int) -> bytes:
    """Bytes that look like noise and anybody can make again: SipHash of a counter under the zero
    key."""
    out = b""
    while len(out) < n:
        out += siphash24(bytes(16), start.to_bytes(8, "little")).to_bytes(8, "little")
        start += 1
    return out[:n]


def good_messages() -> list[dict[str, Any]]:
    cases = [
        ("eleven buckets, two proxies", 0, 2, 0, 0, 7, b"\x12\x04"),
        ("a full report, three proxies", 0, 3, 0, 65535, 4294967295, bytes(range(1, 9))),
        ("nothing to say", 0, 2, 1, 3, 0, b"\0\0"),
        ("two hundred buckets in size class 1", 1, 2, 0, 1, 52, bytes(range(25))),
        ("a report of two bytes in size class 2", 2, 4, 0, 0, 1, b"\xff\x07"),
    ]
    out = []
    for i, (name, size_class, n_shares, kind, stratum, epoch, report) in enumerate(cases):
        length = 64 * 2**size_class - 16
        drawn = stream(32 + (n_shares - 1) * length, 1000 * i)
        query_tag, channel = 0x0123456789ABCDEF + i, 0xFEDCBA9876543210 - i
        content = message(size_class, kind, stratum, epoch, query_tag, report, drawn[16:32])
        payloads = [drawn[at : at + length] for at in range(32, len(drawn), length)]
        payloads.append(xor(content, *payloads))
        records = [record(size_class, epoch, channel, drawn[:16], payload) for payload in payloads]
        out.append(
            {
                "name": name,
                "size_class": size_class,
                "n_shares": n_shares,
                "kind": kind,
                "stratum": stratum,
                "epoch": epoch,
                "query_tag": f"{query_tag:016x}",
                "channel": f"{channel:016x}",
                "report": report.hex(),
                "drawn": drawn.hex(),
                "message": content.hex(),
                "shares": [r.hex() for r in records],
            }
        )
    return out


def spoiled(content: bytes, at: int, mask: int) -> bytes:
    out = bytearray(content)
    out[at] ^= mask
    return bytes(out)


def bad_messages() -> list[dict[str, Any]]:
    """Shares that are well-formed each, and must not be counted together."""
    drawn = stream(80, 77_000)
    message_id, key, pad = drawn[:16], drawn[16:32], drawn[32:80]
    good = message(0, 0, 0, 7, 5, b"\x12\x04", key)

    def pair(
        content: bytes,
        epochs: tuple[int, int] = (7, 7),
        ids: tuple[bytes, bytes] = (message_id, message_id),
    ) -> list[str]:
        return [
            record(0, e, 9, i, p).hex()
            for e, i, p in zip(epochs, ids, (pad, xor(content, pad)), strict=True)
        ]

    cases = [
        ("a bit of the report flipped in one share", "tag", pair(spoiled(good, 16, 1))),
        ("a bit of the key flipped in one share", "tag", pair(spoiled(good, 24, 128))),
        ("a bit of the tag flipped in one share", "tag", pair(spoiled(good, 47, 1))),
        ("a bit of the query tag flipped in one share", "tag", pair(spoiled(good, 8, 1))),
        (
            "a share of zeros instead of the second",
            "tag",
            [pair(good)[0], record(0, 7, 9, message_id, bytes(48)).hex()],
        ),
        ("the same share twice", "tag", [pair(good)[0], pair(good)[0]]),
        (
            "a message of version 2",
            "version",
            pair(message(0, 0, 0, 7, 5, b"\x12\x04", key, version=2)),
        ),
        ("a message of an unknown kind", "kind", pair(message(0, 2, 0, 7, 5, b"\x12\x04", key))),
        (
            "a message of another epoch than its shares",
            "epoch",
            pair(message(0, 0, 0, 8, 5, b"\x12\x04", key)),
        ),
        (
            "a message that says nothing and holds something",
            "padding",
            pair(message(0, 1, 0, 7, 5, b"\x12\x04", key)),
        ),
        (
            "padding that is not zeros",
            "padding",
            pair(message(0, 0, 0, 7, 5, b"\x12\x04\x01", key)),
        ),
        ("shares of different epochs", "shares", pair(good, epochs=(7, 8))),
        (
            "shares of different messages",
            "shares",
            pair(good, ids=(message_id, spoiled(message_id, 15, 1))),
        ),
        ("one share alone", "shares", pair(good)[:1]),
    ]
    return [
        {"name": name, "reason": reason, "shares": shares, "report_bytes": 2}
        for name, reason, shares in cases
    ]


def bad_records() -> list[dict[str, str]]:
    good = record(0, 7, 9, stream(16, 1), stream(48, 2))
    cases = [
        ("nothing at all", "truncated", b""),
        ("a header cut off", "truncated", good[:15]),
        ("a share cut off", "truncated", good[:-1]),
        ("a byte too many", "trailing", good + b"\0"),
        ("version 0", "version", spoiled(good, 0, 1)),
        ("version 2", "version", spoiled(good, 0, 3)),
        ("a block's kind", "kind", spoiled(good, 1, ord("S") ^ ord("B"))),
        ("size class 7", "size_class", spoiled(good, 2, 7)),
        ("the length of size class 0 under size class 1", "truncated", spoiled(good, 2, 1)),
        ("the fourth byte set", "reserved", spoiled(good, 3, 1)),
    ]
    return [
        {"name": name, "reason": reason, "record": content.hex()} for name, reason, content in cases
    ]


def block_rows() -> list[bytes]:
    """Five rows of size class 0 whose ids start with the bits 101, in order. A word is
    little-endian: its last byte leads."""
    highs = [
        0xA000000000000000,
        0xA000000000000001,
        0xA000000000000001,
        0xB123456789ABCDEF,
        0xBFFFFFFFFFFFFFFF,
    ]
    lows = [5, 1, 2, 0, MASK]
    return [
        struct.pack("<QQ", high, low) + stream(48, 90 + i)
        for i, (high, low) in enumerate(zip(highs, lows, strict=True))
    ]


def good_blocks() -> list[dict[str, Any]]:
    rows = block_rows()
    return [
        {
            "name": "five rows, a prefix of three bits",
            "channel": f"{9:016x}",
            "epoch": 7,
            "size_class": 0,
            "prefix_bits": 3,
            "prefix": 5,
            "rows": [row.hex() for row in rows],
            "block": block(0, 7, 9, 3, 5, rows).hex(),
        },
        {
            "name": "one row, no prefix",
            "channel": f"{9:016x}",
            "epoch": 0,
            "size_class": 0,
            "prefix_bits": 0,
            "prefix": 0,
            "rows": [rows[0].hex()],
            "block": block(0, 0, 9, 0, 0, rows[:1]).hex(),
        },
    ]


def bad_blocks() -> list[dict[str, str]]:
    rows = block_rows()
    good = block(0, 7, 9, 3, 5, rows)
    cases = [
        ("a header cut off", "truncated", good[:23]),
        ("a block cut off", "truncated", good[:-1]),
        ("trailing bytes", "trailing", good + bytes(8)),
        ("one row more than there is", "truncated", block(0, 7, 9, 3, 5, rows, count=6)),
        ("one row fewer than there are", "trailing", block(0, 7, 9, 3, 5, rows, count=4)),
        ("no rows", "count", good[:20] + bytes(4)),
        ("more rows than a block may hold", "count", block(0, 7, 9, 3, 5, rows, count=65537)),
        ("version 2", "version", block(0, 7, 9, 3, 5, rows, version=2)),
        ("a share's kind", "kind", spoiled(good, 1, ord("S") ^ ord("B"))),
        ("size class 7", "size_class", spoiled(good, 2, 7)),
        (
            "two rows in the wrong order",
            "order",
            block(0, 7, 9, 3, 5, [rows[1], rows[0], *rows[2:]]),
        ),
        (
            "the low words in the wrong order",
            "order",
            block(0, 7, 9, 3, 5, [rows[0], rows[2], rows[1], *rows[3:]]),
        ),
        ("an id twice", "order", block(0, 7, 9, 3, 5, [rows[0], rows[0]])),
        ("an id of another prefix", "prefix", block(0, 7, 9, 3, 4, rows)),
        ("the last id of another prefix", "prefix", block(0, 7, 9, 4, 10, rows)),
        ("a prefix of more bits than it says", "prefix", block(0, 7, 9, 3, 13, rows)),
        ("a prefix of 17 bits", "prefix", block(0, 7, 9, 17, 5 << 14, rows[:1])),
    ]
    return [
        {"name": name, "reason": reason, "block": content.hex()} for name, reason, content in cases
    ]


def vectors() -> dict[str, Any]:
    return {
        "wire_version": 1,
        "good_messages": good_messages(),
        "bad_messages": bad_messages(),
        "bad_shares": bad_records(),
        "good_blocks": good_blocks(),
        "bad_blocks": bad_blocks(),
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
