"""When a proxy accepts shares, and when it passes them on."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.checks import whole
from deniable.service.files.settings import Bytes, Seconds
from deniable.wire.blocks import MOST_PREFIX_BITS

__all__ = ["IntakeRules"]


@dataclass(frozen=True)
class IntakeRules:
    """When shares are accepted, and when they are passed on. Times are in seconds."""

    threshold: int = 4096
    """Shares of a channel and epoch are flushed as soon as this many are waiting."""
    deadline: Seconds = 10
    """No share waits longer than this, however few there are."""
    grace: Seconds = 600
    """How long after its end an epoch stays open."""
    skew: Seconds = 60
    """How far a device's clock may be ahead."""
    retention: Seconds = 7 * 86400
    """How long blocks stay in the log."""
    prefix_bits: int = 6
    most_ids: int = 50_000_000
    """How many message ids of open epochs are held. Each takes up to 32 bytes of memory while an
    epoch has at most a few million, and a quarter of that beyond, where they are kept on disk.
    Above this limit, uploads are deferred."""
    most_waiting: int = 4_000_000
    """How many shares may wait, in memory and in the spool, for an unreachable log; above it,
    uploads are deferred."""
    reserve: Bytes = 64 << 20
    """Bytes to keep free on the disk, because accepted shares must still be passed on; below it,
    uploads are deferred."""

    def __post_init__(self) -> None:
        for name in (
            "threshold",
            "deadline",
            "grace",
            "skew",
            "retention",
            "prefix_bits",
            "most_ids",
            "most_waiting",
            "reserve",
        ):
            least = 1 if name in ("threshold", "most_ids", "most_waiting") else 0
            whole(
                name,
                getattr(self, name),
                least,
                MOST_PREFIX_BITS if name == "prefix_bits" else 1 << 40,
            )
