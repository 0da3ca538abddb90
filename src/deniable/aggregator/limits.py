"""How much an engine takes on, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass, fields

from deniable.checks import whole
from deniable.service.settings_file import Bytes, Seconds

__all__ = ["EngineLimits"]


@dataclass(frozen=True)
class EngineLimits:
    """How much the engine takes on, and how long it waits."""

    patience: Seconds = 1800
    """Seconds after the end of an epoch until it is closed without the proxies that have not marked it: more than their grace."""
    behind: Seconds = 900
    """Seconds after the end of an epoch from which a proxy that has not marked it is called behind."""
    silent: Seconds = 10
    """Seconds without an answer after which a proxy is called silent."""
    reserve: Bytes = 256 << 20
    """Bytes of the state's disk below which health says that the disk is low."""
    early: Seconds = 600
    """Seconds after the end of a window until its first result, for queries with a grace of their own; revised at twice that age,
    four times, and so on."""
    skew: Seconds = 300
    """Seconds by which a device's clock may be ahead: shares of epochs that begin later are refused."""
    step_bytes: Bytes = 64 << 20
    """What is read of each log in one step."""
    most_waiting: int = 8_000_000
    """Shares of one proxy that may wait for the others."""
    bucket_bits: int = 6
    """Bits of the message id that choose a bucket."""
    retention: Seconds = 30 * 86400
    """Seconds for which accounts and results are kept."""
    pane_retention: Seconds = 10 * 365 * 86400
    """Seconds for which panes are kept, from which any period can be estimated again; they are small."""
    garbage: int = 4096
    """Rows of closed epochs that are deleted at once."""
    workers: int = 2

    def __post_init__(self) -> None:
        for each in fields(self):
            least = 0 if each.name in ("behind", "skew", "bucket_bits", "reserve") else 1
            whole(each.name, getattr(self, each.name), least, {"bucket_bits": 16, "workers": 1024}.get(each.name, 1 << 40))
