"""Shares for tests of what lies behind a device: real queries, real splitting, and bodies as
devices send them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from deniable.queries.query import Query
from deniable.wire.shares import Share, split_columns

Words = NDArray[np.uint64]


def make_columns(query: Query, epoch: int, n: int, n_shares: int = 2) -> list[Words]:
    """For each proxy, n rows of message id and share; the report of message i is the number i."""
    reports = np.zeros((n, query.report_bytes), dtype=np.uint8)
    numbers = np.arange(n, dtype="<u4").view(np.uint8).reshape(n, 4)
    reports[:, : min(4, query.report_bytes)] = numbers[:, : query.report_bytes]
    return split_columns(reports, query.tag, epoch, query.size_class or 0, n_shares)


def body_of(query: Query, epoch: int, columns: Words) -> bytes:
    """The rows as the body of an upload."""
    return b"".join(records_of(query, epoch, columns))


def records_of(query: Query, epoch: int, columns: Words) -> list[bytes]:
    """The rows as records, one a share."""
    rows = np.ascontiguousarray(columns.T)
    size_class = query.size_class or 0
    return [
        Share(query.channel_tag, epoch, size_class, row[:2].tobytes(), row[2:].tobytes()).to_bytes()
        for row in rows
    ]
