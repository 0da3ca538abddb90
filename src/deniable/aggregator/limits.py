"""How much an engine takes on, and how long it waits."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.errors import ParameterError
from deniable.service.settings_file import Bytes, Seconds

__all__ = ["EngineLimits"]


@dataclass(frozen=True)
class EngineLimits:
    """How much the engine takes on, and how long it waits."""

    patience: Seconds = 1800
    """Seconds after the end of an epoch until it is closed without the proxies that have not marked it: more than their grace."""
    behind: Seconds = 900
    """Seconds after the end of an epoch from which a proxy that has not marked it is called behind."""
    skew: Seconds = 300
    """Seconds by which a device's clock may be ahead: shares of epochs that begin later are refused."""
    step_bytes: Bytes = 64 << 20
    """What is read of each log in one step."""
    most_waiting: int = 8_000_000
    """Shares of one proxy that may wait for the others."""
    bucket_bits: int = 6
    """Bits of the message id that choose a bucket."""
    retention: Seconds = 30 * 86400
    """Seconds for which panes, accounts and results are kept."""
    garbage: int = 4096
    """Rows of closed epochs that are deleted at once."""
    workers: int = 2

    def __post_init__(self) -> None:
        for name, least in (("patience", 1), ("behind", 0), ("skew", 0), ("step_bytes", 1), ("most_waiting", 1), ("workers", 1)):
            if getattr(self, name) < least:
                raise ParameterError(name, getattr(self, name), f"must be at least {least}")
        if not 0 <= self.bucket_bits <= 16:
            raise ParameterError("bucket_bits", self.bucket_bits, "must lie between 0 and 16")
