"""What Spark's checkpoint keeps of a bucket: a head, and for each open epoch the segments that the
head lists.

A segment is the length of a JSON header (four bytes, little-endian), the header, and the parts that
it lists: their 64-bit words, little-endian, column by column. The header gives for each part its
sub-bucket, whose it is (a proxy, or -1 for joined ids), and the numbers of its words and rows. A
head is JSON with a version, which covers its segments too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.errors import WireError

__all__ = [
    "HEAD_VERSION",
    "JOINED",
    "BucketHead",
    "BucketSegment",
    "ChannelEpoch",
    "SegmentPart",
    "WrittenEpoch",
]

_Words = NDArray[np.uint64]
ChannelEpoch = tuple[int, int]
"""Channel and epoch."""
HEAD_VERSION = 2
JOINED = -1
"""In place of a proxy's number: joined ids."""
_LENGTH_BYTES = 4


@dataclass(frozen=True, repr=False)
class SegmentPart:
    """Joined ids, or waiting shares of a proxy, in one sub-bucket."""

    number: int
    whose: int
    rows: _Words


@dataclass(frozen=True, repr=False)
class BucketSegment:
    """What one batch added to an epoch of a bucket."""

    after: str
    """The token of the segment before it; empty for the first."""
    token: str
    parts: Sequence[SegmentPart]

    def to_bytes(self) -> bytes:
        """As stored."""
        shapes = [[part.number, part.whose, *part.rows.shape] for part in self.parts]
        header = {"after": self.after, "token": self.token, "parts": shapes}
        document = json.dumps(header, separators=(",", ":")).encode()
        words = (np.ascontiguousarray(part.rows, "<u8").data for part in self.parts)
        return b"".join([len(document).to_bytes(_LENGTH_BYTES, "little"), document, *words])

    @classmethod
    def from_bytes(cls, content: bytes) -> BucketSegment:
        """What :meth:`to_bytes` wrote, and nothing else."""
        at = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
        if at > len(content):
            raise WireError("truncated", f"a segment of {len(content)} bytes has a header of {at}")
        header = _parsed(content[_LENGTH_BYTES:at], "the header of a segment")
        parts = []
        try:
            for number, whose, words, n in header["parts"]:
                if words * n * 8 > len(content) - at or min(words, n) < 0:
                    raise WireError("truncated", "a part of a segment is cut off")
                rows = np.frombuffer(content, dtype="<u8", count=words * n, offset=at)
                parts.append(SegmentPart(number, whose, rows.reshape(words, n)))
                at += rows.nbytes
            segment = cls(header["after"], header["token"], parts)
        except (KeyError, TypeError) as error:
            raise WireError("header", f"the header of a segment lacks something: {error}") from None
        if at != len(content):
            raise WireError(
                "trailing", f"{len(content) - at} bytes follow the last part of a segment"
            )
        return segment


@dataclass
class WrittenEpoch:
    """Which segments an epoch has, and what the head says about them."""

    first: int = 0
    following: int = 0
    """The number of the next segment."""
    token: str = ""
    """The token of the last segment."""
    base: int = 0
    """The bytes of the first segment."""
    added: int = 0
    """The bytes of the others."""
    waiting: list[int] = field(default_factory=list)
    """For each proxy, how many shares wait."""


@dataclass(frozen=True)
class BucketHead:
    """What a bucket knows besides its shares, and which segments those are in."""

    fronts: Mapping[int, int]
    """For each channel, the first epoch that is not closed in the bucket."""
    marks: Sequence[Mapping[int, int]]
    """For each proxy and channel, the first epoch that it has not marked in the bucket."""
    epochs: Mapping[ChannelEpoch, WrittenEpoch]

    def to_text(self) -> str:
        """As stored."""
        document = {
            "version": HEAD_VERSION,
            "fronts": self.fronts,
            "marks": self.marks,
            "epochs": [
                [*place, *vars(written).values()] for place, written in sorted(self.epochs.items())
            ],
        }
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str, n_proxies: int) -> BucketHead:
        """What :meth:`to_text` wrote for that many proxies, and nothing else."""
        document = _parsed(text.encode(), "the head of a bucket")
        try:
            version, marks = document["version"], document["marks"]
            if version != HEAD_VERSION or len(marks) != n_proxies:
                found = f"version {version}, {len(marks)} proxies"
                rule = f"these are version {HEAD_VERSION}, {n_proxies} proxies"
                raise WireError("version", f"the checkpoint holds buckets of {found}, and {rule}")
            return cls(
                {int(channel): front for channel, front in document["fronts"].items()},
                [{int(channel): epoch for channel, epoch in each.items()} for each in marks],
                {
                    (channel, epoch): WrittenEpoch(*rest)
                    for channel, epoch, *rest in document["epochs"]
                },
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise WireError("header", f"the head of a bucket lacks something: {error}") from None


def _parsed(content: bytes, what: str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise WireError("header", f"{what} is not a JSON object")
    return document
