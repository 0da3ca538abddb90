"""Reading each proxy's log in its own thread: a log that does not respond does not delay the
others."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import NamedTuple

from deniable.logs.share_logs import Position, Reading, ShareLog, unread

__all__ = ["LogReaders"]

_SECONDS_FOR_A_STEP = 1.0
"""How long a step waits for a log that it has just started to read."""
_SECONDS_FOR_A_LATE_ONE = 0.02
"""How long it waits for a reading that an earlier step started."""


class _UnderWay(NamedTuple):
    future: Future[Reading]
    after: Position
    since: float


class LogReaders:
    """Readers of all logs. A reading that takes longer than a step is handed to the step in which
    it completes."""

    def __init__(self, n_logs: int, silent: float) -> None:
        """A proxy is called silent when one reading has taken `silent` seconds."""
        self._silent = silent
        self._executor = ThreadPoolExecutor(n_logs, thread_name_prefix="log")
        self._under_way: dict[int, _UnderWay] = {}

    def close(self) -> None:
        """Start no more readings. A log that does not respond is not waited for."""
        self._executor.shutdown(wait=not self._under_way, cancel_futures=True)

    @property
    def pending(self) -> bool:
        """Whether a reading is in progress."""
        return bool(self._under_way)

    def read(
        self, logs: Sequence[ShareLog], positions: Sequence[Position], most_bytes: Sequence[int]
    ) -> list[Reading | None]:
        """What was found in each log after its position; None where that is not known yet."""
        late = set(self._under_way)
        for proxy, (log, after, most) in enumerate(zip(logs, positions, most_bytes, strict=True)):
            if proxy not in late:
                self._under_way[proxy] = _UnderWay(
                    self._executor.submit(log.read, after, most), after, time.monotonic()
                )
        fresh = [each.future for proxy, each in self._under_way.items() if proxy not in late]
        wait(fresh, _SECONDS_FOR_A_STEP)
        wait([self._under_way[proxy].future for proxy in late], _SECONDS_FOR_A_LATE_ONE)
        return [self._result(proxy, after) for proxy, after in enumerate(positions)]

    def _result(self, proxy: int, after: Position) -> Reading | None:
        under_way = self._under_way[proxy]
        if not under_way.future.done():
            if time.monotonic() - under_way.since < self._silent:
                return None
            return unread(after, f"has not answered for {self._silent:g} seconds", "proxy_silent")
        del self._under_way[proxy]
        try:
            found = under_way.future.result()
        except Exception as error:
            return unread(after, f"the log cannot be read: {type(error).__name__}")
        # None: the engine has been reloaded since this was requested
        return found if under_way.after == after else None
