"""Server-sent events, both ends: how services write them, and how programs read them.

This is the part of the HTML standard's event streams that the services use. An event has a name, a
document in JSON and, if it can be resumed after, a number; a comment shows that the stream lives.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = [
    "EVENT_STREAM",
    "LAST_EVENT",
    "RETRY",
    "SIGN_OF_LIFE",
    "Event",
    "StreamPace",
    "event_number",
    "event_text",
    "parse_events",
]

EVENT_STREAM = "text/event-stream"
"""The media type."""
LAST_EVENT = "Last-Event-ID"
"""The header by which a reader says after which number it continues."""
RETRY = b"retry: 1000\n\n"
"""Tells a browser to reconnect after a second."""
SIGN_OF_LIFE = b": nothing new\n\n"
"""A comment, which readers ignore: without it, nobody could tell a silent stream from a broken
one."""
_MOST_DIGITS = 18
"""As many as a number in SQLite has at most."""


def event_text(name: str, data: str, number: int | None = None) -> bytes:
    r"""An event with a JSON text on one line, as :func:`json.dumps` writes it.

    >>> event_text("window", '{"index": 3}', 7)
    b'id: 7\nevent: window\ndata: {"index": 3}\n\n'
    """
    head = "" if number is None else f"id: {number}\n"
    return f"{head}event: {name}\ndata: {data}\n\n".encode()


def event_number(text: str) -> int | None:
    """The number in an event's id or in :data:`LAST_EVENT`; None for anything else."""
    plain = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if plain else None


class StreamPace:
    """Pauses between looks for news, with a sign of life when there has been none for long."""

    def __init__(self, between_looks: float, between_signs: float) -> None:
        self._between_looks, self._between_signs = between_looks, between_signs
        self._silence = 0.0

    def spoke(self) -> None:
        """Note that something was sent."""
        self._silence = 0.0

    async def pause(self) -> bytes:
        """Wait until the next look; returns what has to be sent before it, if anything."""
        due = self._silence >= self._between_signs
        if due:
            self._silence = 0.0
        await asyncio.sleep(self._between_looks)
        self._silence += self._between_looks
        return SIGN_OF_LIFE if due else b""


class Event(NamedTuple):
    """An event that was read."""

    name: str
    data: str
    number: int | None
    """The last number that the stream gave, with this event or before it."""

    @property
    def document(self) -> Any:
        """The data, decoded."""
        return json.loads(self.data)


def parse_events(lines: Iterable[str]) -> Iterator[Event]:
    """The events in the lines of a stream. One that was cut off is not returned.

    >>> list(parse_events(["id: 7", "event: window", "data: {}", "", ": comment", "data: {"]))
    [Event(name='window', data='{}', number=7)]
    """
    name, number = "message", None
    data: list[str] = []
    for line in lines:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif field == "id":
            stated = event_number(value)
            number = number if stated is None else stated
        elif not line:
            if data:
                yield Event(name, "\n".join(data), number)
            name, data = "message", []
