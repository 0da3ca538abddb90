"""Marks: a proxy's promise, written between its blocks, that no more shares will come for epochs
before a given one.

In a log with several partitions, every partition carries its own mark, after the last block that
the promise covers. So anyone who reads a partition in order knows from it alone when an epoch is
complete.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from deniable.errors import WireError
from deniable.wire.message import VERSION, check_stamp

__all__ = ["MarkRecord", "is_mark"]

KIND = ord("M")
_RECORD = struct.Struct("<BBHIQ")


def is_mark(content: bytes | memoryview) -> bool:
    """Whether a record of a log claims to be a mark; anything else is read as a block, and refused
    if it is not one."""
    return content[1:2] == b"M"


class MarkRecord(NamedTuple):
    """All of a channel's blocks of epochs before `epoch` come before this record.

    >>> MarkRecord.from_bytes(MarkRecord(channel=7, epoch=4).to_bytes())
    MarkRecord(channel=7, epoch=4)
    """

    channel: int
    epoch: int

    def to_bytes(self) -> bytes:
        """Sixteen bytes, laid out like the header of a share or a block."""
        return _RECORD.pack(VERSION, KIND, 0, self.epoch, self.channel)

    @classmethod
    def from_bytes(cls, content: bytes | memoryview) -> MarkRecord:
        """What :meth:`to_bytes` wrote, and nothing else."""
        if len(content) != _RECORD.size:
            reason = "truncated" if len(content) < _RECORD.size else "trailing"
            raise WireError(reason, f"a mark has {_RECORD.size} bytes, not {len(content)}")
        version, kind, reserved, epoch, channel = _RECORD.unpack(content)
        check_stamp("a mark", version, kind, KIND)
        if reserved:
            raise WireError(
                "reserved", f"the third and fourth byte of a mark are {reserved:#06x} but must be 0"
            )
        return cls(channel, epoch)
