"""How each proxy is doing, judging by its log: one report for all engines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NotRequired

from deniable.aggregator.counting.limits import EngineLimits
from deniable.documents import WrittenAs
from deniable.logs.share_logs import Position
from deniable.queries.channels import Channel
from deniable.service.faults import HealthDocument

__all__ = ["AggregatorHealth", "ProxyHealth", "ProxyProgress", "health_report"]


@dataclass(frozen=True)
class ProxyHealth:
    """How a proxy is doing."""

    name: str
    condition: str
    """"up", "behind" or "down"."""
    position: Position
    """How far its log is counted: one offset per partition."""
    lag: int
    """Seconds since the end (plus the query's own grace) of the first epoch that it has not marked;
    0 if there is none."""
    waiting: int
    problem: str
    """Why its log cannot be read, or why it cannot do its work; empty if all is well."""
    fault: str = ""
    """The name of the fault behind that (:mod:`deniable.service.faults`)."""
    backlog: int = 0
    """Blocks of its log that are not counted yet, as far as the log reports them."""
    mark_age: int = 0
    """Seconds since the aggregator last found one of its marks, or since the aggregator began to
    look."""


class AggregatorHealth(HealthDocument):
    """The health page of an aggregator. Of each part, "running" or what is wrong with it."""

    engine: str
    relay: str
    history: NotRequired[str]
    controller: NotRequired[str]
    proxies: list[Annotated[dict[str, Any], WrittenAs(ProxyHealth)]]


@dataclass(frozen=True)
class ProxyProgress:
    """What an engine knows about a proxy's log."""

    marked: Mapping[int, int]
    """For each channel, the epoch before which all are marked."""
    waiting: int
    """Shares that wait for those of other proxies."""
    position: Position = ()
    problem: str = ""
    fault: str = ""
    unread: bool = False
    """Whether its log may hold more than was read: then a missing mark is not the proxy's fault."""
    backlog: int = 0
    marked_at: int | None = None
    """When one of its marks was last found."""


def health_report(
    names: Sequence[str],
    progress: Sequence[ProxyProgress],
    channels: Collection[Channel],
    firsts: Mapping[int, int],
    limits: EngineLimits,
    now: int,
) -> list[ProxyHealth]:
    """The report on all proxies. `firsts` gives, for each channel, the first epoch that is counted.

    A proxy is blamed only for marks that are missing from its own log once that has been read to
    its end: not for epochs that stay open because of another proxy, nor for what the aggregator has
    not read yet.
    """
    report = []
    for name, each in zip(names, progress, strict=True):
        lag = max(
            (
                _lag(channel, each.marked.get(channel.tag, 0), firsts[channel.tag], now)
                for channel in channels
            ),
            default=0,
        )
        if each.unread:
            lag = 0
        condition = "down" if lag >= limits.patience else "behind" if lag >= limits.behind else "up"
        age = 0 if each.marked_at is None else max(0, now - each.marked_at)
        about = (each.waiting, each.problem, each.fault, each.backlog, age)
        report.append(ProxyHealth(name, condition, each.position, lag, *about))
    return report


def _lag(channel: Channel, marked: int, first: int, now: int) -> int:
    """Seconds since the end of the first unmarked epoch of a channel; 0 if all past epochs are
    marked."""
    unmarked = max(marked, first)
    return (
        max(0, now - channel.schedule.end_of_epoch(unmarked) - channel.grace)
        if unmarked < channel.n_epochs
        else 0
    )
