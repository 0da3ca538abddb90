"""The byte formats between and within services (docs/wire.md), written out a second time: bytes and
loops only.

`python -m toolkit.references.format_reference` (from tests/) writes tests/vectors/formats-v1.json.
What the library does is compared with both. The formats of messages, shares and blocks are in
`wire_reference`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parents[2] / "vectors" / "formats-v1.json"
CODED = '{"epsilon":2.0,"mechanism":"DirectEncoding","values":["a","b","c"]}'
"""A mechanism's description: sorted keys, no spaces."""


def number(value: int, n_bytes: int) -> bytes:
    return value.to_bytes(n_bytes, "little", signed=value < 0)


def container(magic: str, description: str, body: bytes, version: int = 1) -> bytes:
    head = description.encode()
    return magic.encode() + bytes([version]) + number(len(head), 4) + head + body


def counts(cells: list[int]) -> bytes:
    return b"".join(number(cell, 8) for cell in cells)


def records(size_class: int, epoch: int, channel: int, rows: list[bytes]) -> bytes:
    header = bytes([1, ord("S"), size_class, 0]) + number(epoch, 4) + number(channel, 8)
    return b"".join(header + row for row in rows)


def page(blocks: list[tuple[int, bytes]]) -> bytes:
    return b"".join(number(offset, 8) + number(len(block), 4) + block for offset, block in blocks)


def segment(after: str, token: str, parts: list[tuple[int, int, list[list[int]]]]) -> bytes:
    """A part is its sub-bucket, whose it is, and its rows, each a list of words; they are stored
    word by word."""
    shapes = [[place, whose, len(rows[0]), len(rows)] for place, whose, rows in parts]
    header = f'{{"after":"{after}","token":"{token}","parts":{json.dumps(shapes, separators=(",", ":"))}}}'.encode()
    words = b""
    for _, _, rows in parts:
        for at in range(len(rows[0])):
            words += b"".join(number(row[at], 8) for row in rows)
    return number(len(header), 4) + header + words


def good(name: str, kind: str, n: int, rows: bytes) -> dict[str, Any]:
    content = container(kind, CODED, number(n, 8) + rows)
    return {
        "name": name,
        "kind": kind,
        "description": CODED,
        "n": n,
        "rows": rows.hex(),
        "bytes": content.hex(),
    }


def bad(name: str, reason: str, content: bytes, **more: Any) -> dict[str, Any]:
    return {"name": name, "reason": reason, "bytes": content.hex(), **more}


def vectors() -> dict[str, Any]:
    tally = container("dnt", CODED, number(6, 8) + counts([1, 2, 3]))
    rows = [bytes(range(start, start + 64)) for start in (0, 64, 128)]
    parts = [(3, -1, [[1, 2], [3, 4], [2**64 - 1, 6]]), (3, 1, [[7, 8, 9]])]
    whole = segment("0011223344556677", "8899aabbccddeeff", parts)
    pages = page([(7, b"block"), (9, b"other")])
    head = (
        '{"version":2,"fronts":{"18446744073709551615":4},"marks":[{"18446744073709551615":5},{}],'
        '"epochs":[[18446744073709551615,4,0,2,"8899aabbccddeeff",120,80,[3,0]]]}'
    )
    return {
        "good_containers": [
            good("reports", "dnr", 3, bytes([0, 2, 1])),
            good("a tally", "dnt", 6, counts([1, 2, 3])),
        ],
        "bad_containers": [
            bad("nothing at all", "truncated", b""),
            bad("a header cut off", "truncated", tally[:7]),
            bad("another kind", "kind", container("dnr", CODED, number(0, 8))),
            bad(
                "a version that is not known",
                "version",
                container("dnt", CODED, number(0, 8), version=2),
            ),
            bad("a description cut off", "truncated", tally[:20]),
            bad("no number", "truncated", container("dnt", CODED, b"\0\0\0")),
        ],
        "good_counts": [
            {
                "name": "cells below and above a byte",
                "cells": [0, 1, 255, 256],
                "bytes": counts([0, 1, 255, 256]).hex(),
            },
            {"name": "the largest", "cells": [2**63 - 1], "bytes": counts([2**63 - 1]).hex()},
        ],
        "bad_counts": [
            bad("nothing at all", "length", b""),
            bad("a cell cut off", "length", counts([1, 2])[:-1]),
        ],
        "good_records": [
            {
                "name": "three shares in bulk",
                "size_class": 0,
                "epoch": 7,
                "channel": "fedcba9876543210",
                "rows": [row.hex() for row in rows],
                "bytes": records(0, 7, 0xFEDCBA9876543210, rows).hex(),
            }
        ],
        "good_pages": [
            {
                "name": "two blocks",
                "after": 6,
                "blocks": [[7, b"block".hex()], [9, b"other".hex()]],
                "bytes": pages.hex(),
            },
            {"name": "nothing new", "after": 6, "blocks": [], "bytes": ""},
        ],
        "bad_pages": [
            bad("a length cut off", "truncated", pages[:11], after=6),
            bad("a block cut off", "truncated", pages[:-1], after=6),
            bad("a block that was read before", "order", pages, after=7),
            bad("offsets that do not ascend", "order", page([(9, b"x"), (8, b"y")]), after=6),
            bad("an offset beyond a log", "order", page([(2**63, b"x")]), after=6),
        ],
        "good_segments": [
            {
                "name": "joined ids, and a share that waits",
                "after": "0011223344556677",
                "token": "8899aabbccddeeff",
                "parts": [
                    [place, whose, [[f"{word:016x}" for word in row] for row in of]]
                    for place, whose, of in parts
                ],
                "bytes": whole.hex(),
            }
        ],
        "bad_segments": [
            bad("nothing at all", "truncated", b""),
            bad("a header cut off", "truncated", whole[:30]),
            bad("a header that is not JSON", "header", number(4, 4) + b"{no}"),
            bad("a header without a token", "header", number(24, 4) + b'{"after":"","parts":[] }'),
            bad("a part cut off", "truncated", whole[:-8]),
            bad("more than the header lists", "trailing", whole + bytes(8)),
        ],
        "good_heads": [
            {
                "name": "two proxies, an open epoch",
                "proxies": 2,
                "channel": "ffffffffffffffff",
                "front": 4,
                "marked": 5,
                "epoch": [4, 0, 2, "8899aabbccddeeff", 120, 80, [3, 0]],
                "text": head,
            }
        ],
        "bad_heads": [
            {
                "name": "an earlier version",
                "reason": "version",
                "proxies": 2,
                "text": head.replace('"version":2', '"version":1'),
            },
            {"name": "other proxies", "reason": "version", "proxies": 3, "text": head},
            {"name": "not JSON", "reason": "header", "proxies": 2, "text": head[:-1]},
            {
                "name": "no marks",
                "reason": "header",
                "proxies": 2,
                "text": '{"version":2,"fronts":{},"epochs":[]}',
            },
        ],
    }


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
