"""What a proxy answers to a reader of its log: frames of blocks, marks and the log's name, as
`HttpLog` takes them."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

from deniable.errors import LogError
from deniable.logs.share_logs import HttpLog

WEIGHT, LONGEST = 10, 400
DICTIONARY = [b"0000000000000007:4:1", b",", b":", b"\n", bytes(8), b"\xff" * 4]


def seeds() -> list[bytes]:
    frame = struct.pack("<QI", 3, 5) + b"block" + struct.pack("<QI", 4, 0)
    return [
        b"\n1\nlog\n",
        b"0000000000000007:4:1,00000000000000ff:2:3\n4\nlog-1\n" + frame,
        b"x\n9999\n\n" + frame,
    ]


class _Client:
    """Answers every request with one page."""

    def __init__(self, marks: str, end: str, identity: str, content: bytes) -> None:
        headers = {"Log-Marks": marks, "Log-End": end, "Log-Identity": identity}
        self._answer = SimpleNamespace(
            status_code=200, is_success=True, headers=headers, iter_raw=lambda: iter([content])
        )

    def stream(self, *_: Any, **__: Any) -> Any:
        return self

    def __enter__(self) -> Any:
        return self._answer

    def __exit__(self, *_: object) -> None:
        return None


def check(data: bytes) -> None:
    marks, end, identity, content = (data.split(b"\n", 3) + [b""] * 4)[:4]
    client = _Client(
        marks.decode("latin-1"), end.decode("latin-1"), identity.decode("latin-1"), content
    )
    reading = HttpLog("http://127.0.0.1:1", "token", client).read((2,), 1 << 20)
    if reading.problem:
        assert reading.position == (2,), "nothing was read, and the position moved"
        assert not reading.blocks
        assert not reading.marks
        raise LogError(reading.problem)
    at, rest = 2, content
    for block in reading.blocks:
        offset, length = struct.unpack_from("<QI", rest)
        assert at < offset < 1 << 63
        assert rest[12 : 12 + length] == block
        at, rest = offset, rest[12 + length :]
    assert not rest
    assert reading.position == (at,)
    written = [
        (f"{mark.channel:016x}", str(mark.epoch), str(mark.offset)) for mark in reading.marks
    ]
    stated = [mark.split(":") for mark in marks.decode("ascii").split(",")] if marks else []
    assert written == [
        (channel, epoch.lstrip("0") or "0", offset.lstrip("0") or "0")
        for channel, epoch, offset in stated
    ]
