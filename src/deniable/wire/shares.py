"""Shares: a message split into n pieces of which any n - 1 are uniform noise, under a message id
drawn for it alone.

For one message, in this order, the source is asked for: id (two words), key (two words), then the
words of every share except the last, which is the message XOR all others. In bulk, each message's
draws stay together: the same script gives the same bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import ParameterError, WireError
from deniable.randomness import Source, system_source
from deniable.wire.message import (
    ANSWER,
    CHUNK,
    VERSION,
    Message,
    Opened,
    check_stamp,
    message_words,
    open_columns,
    seal_columns,
)
from deniable.wire.sizes import row_words

__all__ = [
    "Share",
    "join",
    "join_columns",
    "pack_records",
    "read_batch",
    "record_bytes",
    "split",
    "split_columns",
]

_HEADER = struct.Struct("<BBBBIQ")
KIND = ord("S")
_Words = NDArray[np.uint64]


def record_bytes(size_class: int) -> int:
    """The number of bytes of a share on its way to a proxy."""
    message_words(size_class)
    return _HEADER.size + 8 * row_words(size_class)


def check_header(content: bytes | memoryview, kind: int, what: str) -> tuple[int, int, int, int]:
    """Size class, fourth byte, epoch and channel of a share or block, if its version and kind are
    right."""
    if len(content) < _HEADER.size:
        raise WireError(
            "truncated",
            f"{what} has a header of {_HEADER.size} bytes, but there are only {len(content)}",
        )
    version, found, size_class, fourth, epoch, channel = _HEADER.unpack_from(content)
    check_stamp(what, version, found, kind)
    message_words(size_class)
    return size_class, fourth, epoch, channel


@dataclass(frozen=True, repr=False)
class Share:
    """One proxy's piece of a message. Everything but `payload` is in clear; repr shows neither the
    payload nor the id."""

    channel: int
    epoch: int
    size_class: int
    id: bytes
    payload: bytes

    def __repr__(self) -> str:
        return (
            f"<share of channel {self.channel:016x}, epoch {self.epoch}, size class"
            f" {self.size_class}>"
        )

    def to_bytes(self) -> bytes:
        """The record that travels to a proxy."""
        return (
            _HEADER.pack(VERSION, KIND, self.size_class, 0, self.epoch, self.channel)
            + self.id
            + self.payload
        )

    @classmethod
    def from_bytes(cls, content: bytes) -> Share:
        """What :meth:`to_bytes` wrote, and nothing else."""
        size_class, reserved, epoch, channel = check_header(content, KIND, "a share")
        if reserved:
            raise WireError("reserved", f"the fourth byte of a share is {reserved} but must be 0")
        length = record_bytes(size_class)
        if len(content) != length:
            reason = "truncated" if len(content) < length else "trailing"
            raise WireError(
                reason, f"a share of size class {size_class} has {length} bytes, not {len(content)}"
            )
        return cls(
            channel,
            epoch,
            size_class,
            content[_HEADER.size : _HEADER.size + 16],
            content[_HEADER.size + 16 :],
        )


def pack_records(columns: _Words, channel: int, epoch: int, size_class: int) -> bytes:
    """The records of many shares, one after the other: those of :meth:`Share.to_bytes`, in bulk.

    `columns` are those of :func:`split_columns`: a column for each share, with its id and its
    payload.
    """
    out = np.empty((columns.shape[1], record_bytes(size_class)), dtype=np.uint8)
    header = _HEADER.pack(VERSION, KIND, size_class, 0, epoch, channel)
    out[:, : _HEADER.size] = np.frombuffer(header, dtype=np.uint8)
    out[:, _HEADER.size :] = np.ascontiguousarray(columns.T, dtype="<u8").view(np.uint8)
    return out.tobytes()


def _check_shares(n_shares: int) -> None:
    if n_shares < 2:
        raise ParameterError(
            "n_shares", n_shares, "must be at least 2: a single share would be the message"
        )


def split(
    message: Message, size_class: int, n_shares: int, channel: int, source: Source | None = None
) -> list[Share]:
    """The message as shares, one per proxy."""
    _check_shares(n_shares)
    length = 8 * message_words(size_class)
    drawn = (source or system_source()).words(4 + (n_shares - 1) * length // 8).tobytes()
    content = message.seal(size_class, struct.unpack_from("<QQ", drawn, 16))
    payloads = [drawn[start : start + length] for start in range(32, len(drawn), length)]
    payloads.append(_xor([content, *payloads]))
    return [Share(channel, message.epoch, size_class, drawn[:16], payload) for payload in payloads]


def join(shares: Sequence[Share]) -> Message:
    """The message that all these shares make up."""
    if len(shares) < 2:
        raise WireError("shares", f"a message has at least 2 shares, not {len(shares)}")
    first = shares[0]
    for share in shares[1:]:
        if (share.channel, share.epoch, share.size_class) != (
            first.channel,
            first.epoch,
            first.size_class,
        ):
            raise WireError(
                "shares", "the shares came in different channels, epochs or size classes"
            )
        if share.id != first.id:
            raise WireError("shares", "the shares are of different messages")
    return Message.open(_xor([share.payload for share in shares]), first.size_class, first.epoch)


def _xor(parts: Sequence[bytes]) -> bytes:
    total = 0
    for part in parts:
        total ^= int.from_bytes(part, "little")
    return total.to_bytes(len(parts[0]), "little")


def split_columns(
    reports: NDArray[Any],
    query_tag: int,
    epoch: int,
    size_class: int,
    n_shares: int,
    strata: Any = 0,
    kinds: Any = ANSWER,
    source: Source | None = None,
) -> list[_Words]:
    """Many reports (one row of bytes each) as rows for each proxy: the bulk form of :func:`split`.

    What comes back is, for each proxy, `row_words` rows of words with one column per message:
    message id, then share.
    """
    _check_shares(n_shares)
    n_words = message_words(size_class)
    reports = np.asarray(reports)
    if reports.ndim != 2 or reports.dtype != np.uint8:
        raise ParameterError("reports", f"{reports.dtype} {reports.shape}", "must be rows of bytes")
    n = len(reports)
    source = source or system_source()
    out = [np.empty((n_words + 2, n), dtype=np.uint64) for _ in range(n_shares)]
    strata, kinds = np.asarray(strata), np.asarray(kinds)
    for start in range(0, n, CHUNK):
        part = slice(start, start + CHUNK)
        size = min(CHUNK, n - start)
        drawn = source.words(size * (4 + (n_shares - 1) * n_words)).reshape(size, -1).T
        last = out[-1][2:, part]
        seal_columns(
            reports[part],
            query_tag,
            epoch,
            strata[part] if strata.ndim else strata,
            kinds[part] if kinds.ndim else kinds,
            drawn[2:4],
            size_class,
            last,
        )
        for i, share in enumerate(out):
            share[:2, part] = drawn[:2]
            if i < n_shares - 1:
                share[2:, part] = drawn[4 + i * n_words : 4 + (i + 1) * n_words]
                last ^= share[2:, part]
    return out


def join_columns(shares: Sequence[_Words], epoch: int) -> Opened:
    """The messages that all these shares make up, column by column: the bulk form of :func:`join`.

    The columns must be in the same order in all of them: the caller has matched the ids
    (:func:`deniable.wire.blocks.common_rows`).
    """
    if len(shares) < 2:
        raise WireError("shares", f"a message has at least 2 shares, not {len(shares)}")
    first = shares[0]
    for share in shares[1:]:
        if share.shape != first.shape or not np.array_equal(share[:2], first[:2]):
            raise WireError("shares", "the columns are of different messages")
    words = first[2:] ^ shares[1][2:]
    for share in shares[2:]:
        words ^= share[2:]
    return open_columns(words, epoch)


def read_batch(content: bytes) -> dict[tuple[int, int, int], _Words]:
    """Many share records of one size class, one after the other, as columns for each (channel,
    epoch, size class).

    Used by a proxy on the body of an upload: all of it is accepted, or none.
    """
    size_class, *_ = check_header(content, KIND, "a share")
    length = record_bytes(size_class)
    if len(content) % length:
        rule = (
            f"records of size class {size_class} have {length} bytes, and {len(content)} is not a"
            " multiple of that"
        )
        raise WireError("truncated", rule)
    records = np.frombuffer(content, dtype="<u8").reshape(-1, length // 8)
    heads = records[:, 0] & np.uint64(0xFFFFFFFF)
    odd = np.flatnonzero(heads != heads[0])
    if odd.size:
        at = int(odd[0]) * length
        # says what is wrong, unless it is only the size class
        Share.from_bytes(content[at : at + length])
        raise WireError("size_class", "all records of an upload must have the same size class")
    Share.from_bytes(content[:length])
    out = {}
    if (records[:, :2] == records[0, :2]).all():  # nearly always; finding distinct ones would sort
        keys, group = records[:1, :2], np.zeros(len(records), dtype=np.intp)
    else:
        keys, group = np.unique(records[:, :2], axis=0, return_inverse=True)
    for i, (head, channel) in enumerate(keys.tolist()):
        chosen = records if len(keys) == 1 else records[group.reshape(-1) == i]
        out[channel, head >> 32, size_class] = np.ascontiguousarray(chosen[:, 2:].T)
    return out
