"""Batches: the uploads of many devices in one body, from a process that terminates their
connections to the proxy that receives them.

    batch      version, kind 'U', two bytes 0, number of uploads (4 bytes)                                   8 bytes
               for each upload the SHA-256 of the token it came under                                        32 bytes each
               for each upload the length of its records                                                      4 bytes each
               the records of all uploads, one after the other
    outcome    version, kind 'R', two bytes 0, number of uploads (4 bytes)                                   8 bytes
               for each upload: shares accepted, shares already taken, number of its refusal or 0            12 bytes each
               the refusals, as a JSON list

Numbers are little-endian.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from deniable.errors import WireError
from deniable.wire.message import VERSION, check_stamp

__all__ = [
    "LARGEST_BATCH",
    "UploadOutcome",
    "batched_bytes",
    "pack_batch",
    "pack_outcomes",
    "unpack_batch",
    "unpack_outcomes",
]

LARGEST_BATCH = 16 << 20
"""The most bytes of a batch."""
_BATCH, _OUTCOMES = ord("U"), ord("R")
_HEADER = struct.Struct("<BBHI")
_HASH_BYTES = 32


class UploadOutcome(NamedTuple):
    """The outcome of an upload: how many of its shares were accepted now and before, or why it was
    refused."""

    accepted: int
    already: int
    refusal: tuple[str, int, str, int | None] | None = None
    """Reason, status, detail, and the seconds after which to retry."""


def batched_bytes(content: bytes) -> int:
    """How many bytes an upload takes in a batch."""
    return _HASH_BYTES + 4 + len(content)


def pack_batch(clients: Sequence[bytes], contents: Sequence[bytes]) -> bytes:
    """Uploads as a batch.

    >>> unpack_batch(pack_batch([b"a" * 32, b"b" * 32], [b"one", b""]))
    [(b'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', b'one'), (b'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb', b'')]
    """
    lengths = np.fromiter(map(len, contents), dtype="<u4", count=len(contents))
    return b"".join(
        (_HEADER.pack(VERSION, _BATCH, 0, len(contents)), *clients, lengths.tobytes(), *contents)
    )


def unpack_batch(content: bytes) -> list[tuple[bytes, bytes]]:
    """The token hash and the records of each upload."""
    n = _count(content, _BATCH, "a batch", _HASH_BYTES + 4)
    at = _HEADER.size + _HASH_BYTES * n
    ends = (
        np.cumsum(np.frombuffer(content, dtype="<u4", count=n, offset=at).astype(np.int64))
        + at
        + 4 * n
    )
    if (int(ends[-1]) if n else at) != len(content):
        raise WireError(
            "truncated",
            f"the uploads of a batch of {len(content)} bytes do not have the stated lengths",
        )
    hashes = range(_HEADER.size, at, _HASH_BYTES)
    starts = [at + 4 * n, *ends.tolist()]
    return [
        (content[h : h + _HASH_BYTES], content[starts[i] : starts[i + 1]])
        for i, h in enumerate(hashes)
    ]


def pack_outcomes(outcomes: Sequence[UploadOutcome]) -> bytes:
    """The outcomes of a batch's uploads, in order.

    >>> refused = UploadOutcome(0, 0, ("late", 410, "the epoch is closed", None))
    >>> unpack_outcomes(pack_outcomes([UploadOutcome(1, 0), refused])) == [UploadOutcome(1, 0), refused]
    True
    """
    refusals: dict[tuple[str, int, str, int | None], int] = {}
    numbers = [
        refusals.setdefault(each.refusal, len(refusals) + 1) if each.refusal else 0
        for each in outcomes
    ]
    rows = np.array(
        [(each[0], each[1], number) for each, number in zip(outcomes, numbers, strict=True)],
        dtype="<u4",
    )
    return (
        _HEADER.pack(VERSION, _OUTCOMES, 0, len(outcomes))
        + rows.tobytes()
        + json.dumps(list(refusals)).encode()
    )


def unpack_outcomes(content: bytes) -> list[UploadOutcome]:
    """What :func:`pack_outcomes` wrote."""
    n = _count(content, _OUTCOMES, "an outcome", 12)
    rows = np.frombuffer(content, dtype="<u4", count=3 * n, offset=_HEADER.size).reshape(n, 3)
    try:
        refusals: list[Any] = [
            _refusal(*each) for each in json.loads(content[_HEADER.size + 12 * n :])
        ]
    except (ValueError, TypeError, RecursionError):
        raise WireError(
            "refusals",
            "the refusals of an outcome must be a list of reason, status, detail and seconds",
        ) from None
    if n and int(rows[:, 2].max()) > len(refusals):
        raise WireError(
            "refusals", f"an outcome names a refusal that is not among its {len(refusals)}"
        )
    return [
        UploadOutcome(new, old, refusals[number - 1] if number else None)
        for new, old, number in rows.tolist()
    ]


def _refusal(
    reason: str, status: int, detail: str, retry_after: int | None
) -> tuple[str, int, str, int | None]:
    typed = (
        isinstance(reason, str) and isinstance(detail, str) and isinstance(retry_after, int | None)
    )
    if not typed or type(status) is not int or not 400 <= status <= 599:
        raise ValueError
    return reason[:100], status, detail[:1000], retry_after


def _count(content: bytes, kind: int, what: str, least_each: int) -> int:
    if len(content) < _HEADER.size:
        raise WireError(
            "truncated",
            f"{what} has a header of {_HEADER.size} bytes, but there are only {len(content)}",
        )
    version, found, reserved, n = _HEADER.unpack_from(content)
    check_stamp(what, version, found, kind)
    if reserved:
        raise WireError(
            "reserved", f"the third and fourth byte of {what} are {reserved:#06x} but must be 0"
        )
    if _HEADER.size + least_each * n > len(content):
        raise WireError(
            "truncated", f"{what} of {n} uploads has at least {least_each} bytes per upload"
        )
    return int(n)
