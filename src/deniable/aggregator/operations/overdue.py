"""Windows that should have been released by now, judging by each query's own rhythm.

An epoch stays open for `patience` seconds while a proxy has not marked it, and until then nothing
is released: without this, a page would go on showing the last complete window as if all were well.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from deniable.aggregator.counting.catalogue import Published, published
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.operations.health import ProxyHealth
from deniable.aggregator.operations.state_access import StateAccess
from deniable.aggregator.state import Clock
from deniable.documents import Timestamp, times_of
from deniable.queries.times import with_times

__all__ = ["OverdueWindow", "OverdueWindows"]

_RECENT = 8
"""Windows whose delays say what is usual."""


@dataclass(frozen=True)
class OverdueWindow:
    """The first window of a query that should have been released and was not."""

    index: int
    start: Timestamp
    end: Timestamp
    since: Timestamp
    """When it should have been released at the latest."""
    proxies: tuple[str, ...]
    """The proxies that have not marked its epochs."""

    def document(self) -> dict[str, Any]:
        """The document of the interface, which also names the times in ISO 8601."""
        return with_times(asdict(self) | {"proxies": list(self.proxies)}, *times_of(OverdueWindow))


class OverdueWindows:
    """Looks for overdue windows. `proxies` tells how each proxy is doing."""

    def __init__(
        self,
        access: StateAccess,
        limits: EngineLimits,
        clock: Clock,
        proxies: Callable[[], Sequence[ProxyHealth]],
    ) -> None:
        self._access, self._limits, self._clock, self._proxies = access, limits, clock, proxies

    def find(self, query_id: str | None = None) -> dict[str, OverdueWindow]:
        """The overdue window of each query that has one."""
        now = self._clock()
        with self._access.reading() as connection:
            newest = {entry.query.id: entry for entry in published(connection, query_id)}
            found = {name: self._look(connection, entry, now) for name, entry in newest.items()}
        return {name: window for name, window in found.items() if window is not None}

    def _look(
        self, connection: sqlite3.Connection, entry: Published, now: int
    ) -> OverdueWindow | None:
        """The overdue window of a query.

        A window usually comes as late as the slowest of the last ones that no proxy held up. It is
        overdue after one more slide, or after `behind` seconds if a slide is longer than that.
        """
        schedule = entry.query.schedule
        recent = connection.execute(
            "SELECT number, condition, made FROM results WHERE query = ? AND revision = 0"
            " ORDER BY number DESC LIMIT ?",
            (entry.query.id, _RECENT),
        ).fetchall()
        # a window that began before anybody was asked has no result
        first = max(0, -(-(entry.published - schedule.origin) // schedule.slide))
        index = recent[0][0] + 1 if recent else first
        if index >= schedule.n_windows:
            return None
        start, end = schedule.bounds_of_window(index)
        if entry.stopped is not None and end > entry.stopped:
            return None
        delays = [
            made - schedule.bounds_of_window(number)[1]
            for number, condition, made in recent
            if made and condition != "proxy down"
        ]
        grace = entry.query.grace or 0
        usual = max(delays, default=self._limits.behind + grace)
        since = end + max(0, usual) + min(schedule.slide, self._limits.behind)
        if now <= since:
            return None
        # a healthy proxy marks an epoch before the next one is over
        late = tuple(each.name for each in self._proxies() if each.lag > usual + schedule.every)
        return OverdueWindow(index, start, end, since, late)
