"""Uploads that are taken together, so that one disk sync covers them all, and the result of
each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable.errors import RefusedError
from deniable.proxy.intake.open_epochs import OpenEpoch
from deniable.proxy.intake.spool import Group
from deniable.service.tokens import Bound

__all__ = ["Commit", "Upload", "UploadPart", "UploadReceipt"]

_Words = NDArray[np.uint64]


class Upload(NamedTuple):
    """The content of one request."""

    client: bytes
    """What the sender's quota is counted by: the same for all tokens that a device was given one
    after the other. On the way to a proxy, the token's hash."""
    quota: int | None
    """How many messages the token may send per epoch of a channel; None for what the channel's
    queries allow a device."""
    content: bytes
    bound: Bound | None = None
    """What the token is good for, if not for everything."""


class UploadReceipt(NamedTuple):
    """The result of an accepted upload."""

    accepted: int
    already: int
    """How many of its shares had already been accepted, byte for byte."""


class UploadPart(NamedTuple):
    """The part of a valid upload that belongs to one epoch."""

    group: Group
    epoch: OpenEpoch
    rows: _Words
    checks: _Words
    pseudonym: int


class Commit:
    """Uploads that are taken together, and the result of each."""

    def __init__(
        self, uploads: Sequence[Upload], now: int, room_for_ids: int, room_to_wait: int
    ) -> None:
        self.uploads, self.now = uploads, now
        self.results: list[UploadReceipt | RefusedError | None] = [None] * len(uploads)
        self.fresh: dict[Group, list[_Words]] = {}
        """New shares, which must be on the disk before anything is acknowledged."""
        self.n_accepted = self.n_already = 0
        self._room_for_ids, self._room_to_wait = room_for_ids, room_to_wait

    def no_room(self, n_new: int) -> RefusedError | None:
        """Why `n_new` more shares cannot be accepted now; None if they can."""
        if self.n_accepted + n_new > self._room_for_ids:
            return RefusedError(
                "full",
                503,
                "The proxy has reached its limit on message ids; retry later.",
                retry_after=60,
            )
        if self.n_accepted + n_new > self._room_to_wait:
            return RefusedError("behind", 503, "The backlog is full; retry later.", retry_after=30)
        return None

    def receipt(self, i: int, n_new: int, n_already: int) -> None:
        """Record that an upload is accepted."""
        self.n_accepted += n_new
        self.n_already += n_already
        self.results[i] = UploadReceipt(n_new, n_already)
