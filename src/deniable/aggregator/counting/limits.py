"""How much an engine takes on, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, fields

from deniable.checks import whole
from deniable.service.files.settings import Bytes, Seconds

__all__ = ["EngineLimits"]


@dataclass(frozen=True)
class EngineLimits:
    """How much the engine takes on, and how long it waits."""

    patience: Seconds = 1800
    """Seconds after the end of an epoch until it is closed without the proxies that have not marked
    it: more than their grace."""
    behind: Seconds = 900
    """Seconds after the end of an epoch until a proxy that has not marked it is called behind."""
    silent: Seconds = 10
    """Seconds without a response after which a proxy is called silent."""
    reserve: Bytes = 256 << 20
    """Health reports a low disk when fewer bytes than this are free on the state's disk."""
    early: Seconds = 600
    """Seconds after the end of a window until its first result, for queries with a grace of their
    own; it is revised at twice that age, four times, and so on."""
    skew: Seconds = 300
    """Seconds by which a device's clock may be ahead: shares of epochs that begin later are
    refused."""
    step_bytes: Bytes = 64 << 20
    """Bytes read from each log in one step."""
    most_waiting: int = 8_000_000
    """The most shares of one proxy that may wait for the others."""
    bucket_bits: int = 6
    """Bits of the message id that choose a bucket."""
    retention: Seconds = 30 * 86400
    """Seconds for which accounts and results are kept."""
    pane_retention: Seconds = 10 * 365 * 86400
    """Seconds for which panes are kept; any period can be estimated again from them, and they are
    small."""
    garbage: int = 4096
    """Rows of closed epochs that are deleted at a time."""
    workers: int = 2

    def __post_init__(self) -> None:
        for each in fields(self):
            least = 0 if each.name in ("behind", "skew", "bucket_bits", "reserve") else 1
            whole(
                each.name,
                getattr(self, each.name),
                least,
                {"bucket_bits": 16, "workers": 1024}.get(each.name, 1 << 40),
            )
