"""How each proxy is doing, as its log shows it: one report for all engines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from deniable.aggregator.limits import EngineLimits
from deniable.logs.share_logs import Position
from deniable.queries.channels import Channel

__all__ = ["ProxyHealth", "ProxyProgress", "health_report"]


@dataclass(frozen=True)
class ProxyHealth:
    """How a proxy is doing."""

    name: str
    condition: str
    """"up", "behind" or "down"."""
    position: Position
    """How far its log is counted: an offset for each partition."""
    lag: int
    """Seconds since the end (and the query's own grace) of the first epoch that it has not marked; 0 if there is none."""
    waiting: int
    problem: str


@dataclass(frozen=True)
class ProxyProgress:
    """What an engine knows of a proxy's log."""

    marked: Mapping[int, int]
    """For each channel the epoch before which all are marked."""
    waiting: int
    """Shares that wait for those of other proxies."""
    position: Position = ()
    problem: str = ""


def health_report(
    names: Sequence[str],
    progress: Sequence[ProxyProgress],
    channels: Collection[Channel],
    firsts: Mapping[int, int],
    limits: EngineLimits,
    now: int,
) -> list[ProxyHealth]:
    """The report on all proxies. `firsts` has for each channel the first epoch that is counted."""
    report = []
    for name, each in zip(names, progress, strict=True):
        lag = max((_lag(channel, each.marked.get(channel.tag, 0), firsts[channel.tag], now) for channel in channels), default=0)
        condition = "down" if lag >= limits.patience else "behind" if lag >= limits.behind else "up"
        report.append(ProxyHealth(name, condition, each.position, lag, each.waiting, each.problem))
    return report


def _lag(channel: Channel, marked: int, first: int, now: int) -> int:
    """Seconds since the end of the first epoch of a channel that is not marked; 0 if all that are over are."""
    unmarked = max(marked, first)
    return max(0, now - channel.schedule.end_of_epoch(unmarked) - channel.grace) if unmarked < channel.n_epochs else 0
