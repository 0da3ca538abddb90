"""Files of reports and tallies, of graphs too: what is read is written again as the same bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

from deniable import (
    BasicRappor,
    DirectEncoding,
    LocalHashing,
    OptimizedUnary,
    SubsetSelection,
    seeded_source,
)
from deniable.errors import DeniableError
from deniable.graphs.reports import GraphReports
from deniable.mechanisms.reports import Reports, Tally

WEIGHT, LONGEST = 2, 400
DICTIONARY = [
    b'"mechanism":',
    b'"values":',
    b'"epsilon":',
    b"DirectEncoding",
    b"OptimizedUnary",
    b"Rappor",
    b"1e400",
    b"NaN",
    b"null",
    b"[",
    b"-1",
]
DICTIONARY += [
    b"dnr\x01",
    b"dnt\x01",
    bytes(8),
    b"\xff" * 8,
    b"SummedHistogram",
    b"SquareWave",
    b'"P":[[0.5,0.5],[0.5,0.5]]',
    b"true",
]


def seeds() -> list[bytes]:
    source = seeded_source(5)
    out = []
    for mechanism in (
        DirectEncoding(4, 1.0),
        OptimizedUnary(["a", "b", "c"], 2.0),
        SubsetSelection(6, 1.0),
        LocalHashing(9, 1.0),
    ):
        reports = mechanism.privatize(
            [0, 1, 2] if mechanism.labels[0] == 0 else ["a", "b", "c"], source=source
        )
        out += [reports.to_bytes(), mechanism.tally().update(reports).to_bytes()]
    out.append(BasicRappor(3, f=0.5, p=0.5, q=0.75).privatize([1], source=source).to_bytes())
    return out


def check(data: bytes) -> None:
    kind: Any = {b"dnr": Reports, b"dnt": Tally}.get(data[:3], GraphReports)
    # The length of the description is made to fit, so that mutations of it are read at all.
    if len(data) > 8 and kind is not GraphReports:
        end = data.rfind(b"}", 0, 8 + 300) + 1
        data = data[:4] + struct.pack("<I", max(0, end - 8)) + data[8:]
    read = kind.from_bytes(data)
    written = read.to_bytes()
    assert kind.from_bytes(written) == read
    if kind is GraphReports:
        return
    (length,) = struct.unpack_from("<I", data, 4)
    (written_length,) = struct.unpack_from("<I", written, 4)
    assert written[8 + written_length :] == data[8 + length :], "the rows changed"
    if kind is Reports:
        try:
            read.mechanism.tally().update(read)
        except DeniableError as error:
            raise AssertionError("reports are read that cannot be counted") from error
    json.loads(data[8 : 8 + length])
