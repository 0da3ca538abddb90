"""One reader for all followers: news is looked up and serialized once, however many pages are open.

A follower that begins in the past reads pages from the state until it has caught up, and then waits
with the others.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from deniable.aggregator.operations.health import AggregatorHealth
from deniable.aggregator.service import Service
from deniable.service.fair_parts import HeldStream, StreamLimits
from deniable.service.http.event_stream import RETRY, SIGN_OF_LIFE, event_text

__all__ = ["Feed"]

_SECONDS_BETWEEN_LOOKS = 0.25
_LOOKS_BETWEEN_NEWS = 4
"""Health and the list of queries are checked once per second."""
_SECONDS_BETWEEN_SIGNS_OF_LIFE = 15.0
_MOST_KEPT = 512
_PAGE = 100
MOST_FOLLOWERS = 800
MOST_FOLLOWERS_PER_TOKEN = 400


def _slim_health(report: AggregatorHealth) -> dict[str, Any]:
    """Health without what changes with every step, so that it is sent only when there is news."""
    proxies = [
        {
            "name": each["name"],
            "condition": each["condition"],
            "lag": each["lag"] // 60 * 60,
            "problem": each["problem"],
        }
        for each in report["proxies"]
    ]
    return {**report, "proxies": proxies}


class _Event(NamedTuple):
    number: int
    analyst: str
    text: bytes


class Feed:
    """News of all queries, as server-sent events."""

    def __init__(self, service: Service, ending: Callable[[], bool]) -> None:
        self._service, self._ending = service, ending
        self._followers = StreamLimits(MOST_FOLLOWERS, MOST_FOLLOWERS_PER_TOKEN, "pages")
        self._recent: deque[_Event] = deque(maxlen=_MOST_KEPT)
        self._front = 0
        """The newest result that has been read."""
        self._dropped = 0
        """The newest result that is no longer among the recent ones."""
        self._health = b""
        self._versions: dict[str, str] = {}
        self._readable: dict[str, frozenset[str]] = {}
        """For each following token, the analysts whose queries it may read as of the last look;
        empty if it was revoked."""
        self._fresh = asyncio.Event()
        self._reader: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()

    def admit(self, token: str, owner: str) -> HeldStream:
        """Count one more follower; refuses those beyond the limits."""
        return self._followers.admit(token, owner)

    async def follow(self, after: int | None, stream: HeldStream) -> AsyncIterator[bytes]:
        """Events after `after` (without it, from the next one), until the client or the server
        disconnects."""
        token = stream.token
        await self._start()
        if token not in self._readable:
            await self._look_at_news()
        yield RETRY
        position = self._front if after is None else min(after, self._front)
        sent = self._news(token)
        yield b"".join(sent.values())
        while not self._ending() and not stream.gave_way and token in self._readable:
            readable = self._readable[token]
            waiting = self._fresh
            # it begins in the past, or reads more slowly than results come
            while position < self._dropped:
                page = await run_in_threadpool(self._encoded, position, self._dropped)
                position = page[-1].number if page else self._dropped
                if past := b"".join(event.text for event in page if event.analyst in readable):
                    yield past
            parts = [
                event.text
                for event in self._recent
                if event.number > position and event.analyst in readable
            ]
            position = max(position, self._front)
            news = self._news(token)
            parts += [text for name, text in news.items() if sent.get(name) != text]
            sent = news
            if parts:
                yield b"".join(parts)
                continue
            try:
                await asyncio.wait_for(waiting.wait(), _SECONDS_BETWEEN_SIGNS_OF_LIFE)
            except TimeoutError:
                yield SIGN_OF_LIFE

    async def _start(self) -> None:
        """Start the one reader, if no follower has started it yet."""
        async with self._starting:
            if self._reader is not None and not self._reader.done():
                return
            self._front = self._dropped = await run_in_threadpool(
                self._service.windows.newest_number
            )
            self._recent.clear()
            await self._look_at_news()
            self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        looks = 0
        while self._followers.by_token and not self._ending():
            await asyncio.sleep(_SECONDS_BETWEEN_LOOKS)
            looks += 1
            found = await run_in_threadpool(self._encoded, self._front, None)
            changed = bool(found)
            for event in found:
                if len(self._recent) == _MOST_KEPT:
                    self._dropped = self._recent[0].number
                self._recent.append(event)
                self._front = event.number
            if looks % _LOOKS_BETWEEN_NEWS == 0:
                changed = await self._look_at_news() or changed
            if changed:
                self._wake()
        self._wake()

    def _wake(self) -> None:
        fresh, self._fresh = self._fresh, asyncio.Event()
        fresh.set()

    async def _look_at_news(self) -> bool:
        before = self._health, self._versions, self._readable
        self._health = _encoded_event(
            "health", _slim_health(await run_in_threadpool(self._service.health_report))
        )
        self._versions = await run_in_threadpool(self._changes)
        self._readable = await run_in_threadpool(self._look_up, list(self._followers.by_token))
        return before != (self._health, self._versions, self._readable)

    def _changes(self) -> dict[str, str]:
        """For each analyst, a text that changes with the list of queries, and when a window becomes
        overdue or comes after all."""
        changes = self._service.queries.changes()
        for name, window in self._service.overdue.find().items():
            owner = self._service.queries.owner_of(name)
            if owner in changes:
                changes[owner] += f" {name} {window.index} {' '.join(window.proxies)}"
        return changes

    def _look_up(self, tokens: list[str]) -> dict[str, frozenset[str]]:
        """What each of these tokens may read now; revoked ones are left out."""
        holders = {token: self._service.holder_of(token) for token in tokens}
        return {token: holder.readable for token, holder in holders.items() if holder is not None}

    def _news(self, token: str) -> dict[str, bytes]:
        """Health, and a text that changes whenever a query that the token may read changes."""
        readable = self._readable.get(token, frozenset())
        versions = [text for analyst, text in self._versions.items() if analyst in readable]
        return {
            "health": self._health,
            "queries": _encoded_event("queries", {"version": ", ".join(versions)}),
        }

    def _encoded(self, after: int, up_to: int | None) -> list[_Event]:
        rows = self._service.windows.of_all(after, up_to, _PAGE)
        return [
            _Event(number, analyst, event_text("window", document, number))
            for number, analyst, document in rows
        ]


def _encoded_event(name: str, content: dict[str, Any]) -> bytes:
    return event_text(name, json.dumps(content))
