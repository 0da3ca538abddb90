"""How each proxy is doing, as its log shows it: one report for all engines."""

from __future__ import annotations

from dataclasses import dataclass

from deniable.aggregator.limits import EngineLimits
from deniable.logs.share_logs import Position

__all__ = ["ProxyHealth", "condition_of"]


@dataclass(frozen=True)
class ProxyHealth:
    """How a proxy is doing, as its log shows it."""

    name: str
    condition: str
    """"up", "behind" or "down"."""
    position: Position
    """How far its log is counted: an offset for each partition."""
    lag: int
    """Seconds since the end of the first epoch that it has not marked; 0 if it has marked all that are over."""
    waiting: int
    problem: str


def condition_of(lag: int, limits: EngineLimits) -> str:
    """What a proxy is called that lags by so many seconds."""
    return "down" if lag >= limits.patience else "behind" if lag >= limits.behind else "up"
