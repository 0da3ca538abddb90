"""Containers: reports, tallies, permanent answers and reports about graphs in bytes that describe
themselves.

    magic     3 bytes: dnr reports, dnt a tally, dnp permanent answers, dng reports about a graph
    version   1 byte
    length    4 bytes, of the description
    description, in JSON: the mechanism and its parameters, from which the body can be read
    body      of the first three: a number of 8 bytes, then the rows or counts that it numbers

All numbers are little-endian. There is no order, length or spare bit that reveals more than the
mechanism's channel.
"""

from __future__ import annotations

import struct

from deniable.errors import WireError

__all__ = [
    "CONTAINER_VERSION",
    "GRAPH",
    "PERMANENT",
    "REPORTS",
    "TALLY",
    "pack_container",
    "pack_numbered",
    "unpack_container",
    "unpack_numbered",
]

CONTAINER_VERSION = 1
REPORTS, TALLY, PERMANENT, GRAPH = b"dnr", b"dnt", b"dnp", b"dng"
_HEADER = struct.Struct("<3sBI")
_NUMBER = struct.Struct("<Q")


def pack_container(magic: bytes, description: bytes, body: bytes) -> bytes:
    """A container of that kind."""
    return _HEADER.pack(magic, CONTAINER_VERSION, len(description)) + description + body


def unpack_container(magic: bytes, what: str, content: bytes) -> tuple[bytes, bytes]:
    """The description and the body that :func:`pack_container` was given; `what` names the kind in
    an error."""
    if len(content) < _HEADER.size:
        raise WireError("truncated", f"{len(content)} bytes are too few for {what}")
    found, version, length = _HEADER.unpack_from(content)
    if found != magic:
        raise WireError(
            "kind", f"these bytes are not {what}: they start with {found!r}, not {magic!r}"
        )
    if version != CONTAINER_VERSION:
        rule = f"this library knows version {CONTAINER_VERSION}"
        raise WireError("version", f"{what} of version {version} cannot be read: {rule}")
    if length > len(content) - _HEADER.size:
        raise WireError("truncated", f"the description of {what} is cut off")
    start = _HEADER.size + length
    return bytes(content[_HEADER.size : start]), content[start:]


def pack_numbered(n: int, rows: bytes) -> bytes:
    """A body: a number, and the rows or counts that it numbers."""
    return _NUMBER.pack(n) + rows


def unpack_numbered(what: str, body: bytes) -> tuple[int, bytes]:
    """What :func:`pack_numbered` was given."""
    if len(body) < _NUMBER.size:
        raise WireError("truncated", f"{what} end before their number")
    return int(_NUMBER.unpack_from(body)[0]), body[_NUMBER.size :]
