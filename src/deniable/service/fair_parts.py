"""Fair parts of what a service has only so much of: nobody gets less because somebody else wants
more.

All three are max-min fair between owners (analysts): while there is room, everybody gets what they
ask for; when there is not, the one who has least is served next, and the one who has most waits, is
refused or gives way.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from deniable.errors import RefusedError

__all__ = ["FairTurns", "HeldStream", "StreamLimits", "fair_selection", "interleaved"]

_Item = TypeVar("_Item")
_Owner = TypeVar("_Owner", bound=Hashable)


def fair_selection(
    sizes: Mapping[_Owner, Sequence[int]], room: int, most: int
) -> dict[_Owner, int]:
    """How many of each owner's items fit, first to last: at most `most` items that take at most
    `room` together.

    The next item is given to the one who then has least, until it does not fit. So one who asks for
    no more than an equal part of the room gets all of it, however much the others want.

    >>> fair_selection({"ann": [3, 3, 3, 3], "ben": [4]}, room=10, most=100)
    {'ann': 2, 'ben': 1}
    >>> fair_selection({"ann": [3, 3, 3, 3]}, room=10, most=100)
    {'ann': 3}
    """
    chosen = dict.fromkeys(sizes, 0)
    waiting = [(sizes[owner][0], place, owner) for place, owner in enumerate(sizes) if sizes[owner]]
    heapq.heapify(waiting)
    while waiting and most:
        total, place, owner = heapq.heappop(waiting)
        size = sizes[owner][chosen[owner]]
        if size > room:
            continue
        room, most = room - size, most - 1
        chosen[owner] += 1
        if chosen[owner] < len(sizes[owner]):
            heapq.heappush(waiting, (total + sizes[owner][chosen[owner]], place, owner))
    return chosen


def interleaved(items: Mapping[_Owner, Sequence[_Item]]) -> list[_Item]:
    """Everybody's first item, then everybody's second, and so on.

    >>> interleaved({"ann": [1, 2, 3], "ben": [4]})
    [1, 4, 2, 3]
    """
    longest = max((len(each) for each in items.values()), default=0)
    return [each[i] for i in range(longest) for each in items.values() if i < len(each)]


class FairTurns:
    """Work that is done a few at a time. Of those who wait, the one whose owner has the fewest
    turns now is next.

    For use in one event loop.
    """

    def __init__(
        self, at_once: int, most_waiting: int, patience: float = 30.0, reason: str = "busy"
    ) -> None:
        """At most `most_waiting` of one owner wait, and for at most `patience` seconds; `reason` is
        that of the refusal."""
        self._at_once, self._most_waiting, self._patience, self._reason = (
            at_once,
            most_waiting,
            patience,
            reason,
        )
        self._running: Counter[str] = Counter()
        self._waiting: defaultdict[str, deque[asyncio.Future[None]]] = defaultdict(deque)

    async def enter(self, owner: str) -> None:
        """Wait for a turn, which :meth:`leave` ends; raises :class:`RefusedError` (429) if the
        owner waits for too many."""
        if self._running.total() < self._at_once and not self._waiting:
            self._running[owner] += 1
            return
        if len(self._waiting.get(owner, ())) >= self._most_waiting:
            raise self._refusal(f"{self._most_waiting} requests of {owner!r} are waiting already")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[owner].append(turn)
        try:
            async with asyncio.timeout(self._patience):
                await turn
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled():  # it came at the same moment
                self.leave(owner)
            elif owner in self._waiting and turn in self._waiting[owner]:
                self._forget(owner, turn)
            if isinstance(error, TimeoutError):
                raise self._refusal(f"no turn came within {self._patience:g} seconds") from None
            raise

    def leave(self, owner: str) -> None:
        """End a turn, and begin the next."""
        self._running[owner] -= 1
        self._running += Counter()  # without those that have none
        if self._waiting:
            # of several, who was served longest ago
            following = min(self._waiting, key=lambda each: self._running[each])
            turns = self._waiting.pop(following)
            turn = turns.popleft()
            if turns:
                self._waiting[following] = turns
            self._running[following] += 1
            turn.set_result(None)

    @asynccontextmanager
    async def turn(self, owner: str) -> AsyncIterator[None]:
        """A turn for the body."""
        await self.enter(owner)
        try:
            yield
        finally:
            self.leave(owner)

    def _forget(self, owner: str, turn: asyncio.Future[None]) -> None:
        self._waiting[owner].remove(turn)
        if not self._waiting[owner]:
            del self._waiting[owner]

    def _refusal(self, why: str) -> RefusedError:
        detail = f"{self._at_once} such requests are answered at a time, and {why}; ask again later"
        return RefusedError(self._reason, 429, detail, retry_after=2)


class HeldStream:
    """One open stream, counted until it is closed."""

    def __init__(self, limits: StreamLimits, token: str, owner: str) -> None:
        self._limits, self.token, self.owner = limits, token, owner
        self.gave_way = False
        """Whether it has to end, because somebody with fewer streams needs its place."""

    def close(self) -> None:
        """Stop counting it."""
        self._limits.release(self)


class StreamLimits:
    """How many streams may be open: under one token, and together. For use in one event loop.

    A stream is counted from the moment it is admitted. When there are as many as there may be, a
    newcomer takes the place of the newest stream of the one who has most, if that leaves the
    newcomer no better off; its reader reconnects.
    """

    def __init__(self, most: int, most_per_token: int, what: str) -> None:
        self._most, self._most_per_token, self._what = most, most_per_token, what
        self._open: dict[HeldStream, None] = {}
        self.by_token: Counter[str] = Counter()
        self._by_owner: Counter[str] = Counter()

    def admit(self, token: str, owner: str) -> HeldStream:
        """Count one more stream; raises :class:`RefusedError` beyond the limits."""
        if self.by_token[token] >= self._most_per_token:
            raise RefusedError(
                "followers",
                429,
                f"{self._most_per_token} {self._what} already follow under this token",
            )
        if len(self._open) >= self._most:
            largest, n = self._by_owner.most_common(1)[0]
            if n <= self._by_owner[owner] + 1:
                raise RefusedError(
                    "followers", 503, f"{self._most} {self._what} already follow", retry_after=5
                )
            newest = next(each for each in reversed(self._open) if each.owner == largest)
            newest.gave_way = True
            self.release(newest)
        stream = HeldStream(self, token, owner)
        self._open[stream] = None
        self.by_token[token] += 1
        self._by_owner[owner] += 1
        return stream

    def release(self, stream: HeldStream) -> None:
        """Stop counting a stream, if it still is."""
        if stream not in self._open:
            return
        del self._open[stream]
        for counter, key in ((self.by_token, stream.token), (self._by_owner, stream.owner)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]
