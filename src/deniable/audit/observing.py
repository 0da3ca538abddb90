"""Record everything visible of a device from outside, so that two devices that differ only in their
data can be compared.

Coins are assigned by position: each step of each walk of a device draws from its own stream, named
by the walk's number and the step. A device that uses more coins than another to read its data still
finds the same coins at every later step, as if all coins of its life had been written down
beforehand. So any difference is due to the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import floor
from time import process_time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.randomness import Source, seeded_source
from deniable.wire.shares import record_bytes

__all__ = [
    "LEDGER_TABLES",
    "VISIBLE_BYTES",
    "ListeningNetwork",
    "Observed",
    "PositionedSource",
    "VirtualClock",
    "WorkClock",
    "shown_to_proxy",
]

VISIBLE_BYTES = 32
"""Bytes of a share's record before the payload: version, kind, size class, epoch, channel, message
id."""
LEDGER_TABLES = ("spent", "charges", "epochs", "versions", "proxies", "receipts", "counters")
"""The store's tables that determine what the device does next towards any other party, and the
receipts."""


_SLOWNESS = 4.0
"""How much slower a device is than this machine."""
_STEP = 0.5
"""Seconds on the device's clock: less work than this is not told from none."""


class PositionedSource(Source):
    """Coins determined by where they are used, not by how many were used before. `step` is a
    device's `on_step`."""

    def __init__(self, seed: str) -> None:
        self._seed, self._walks, self._step = seed, 0, ""
        self._inner: Source | None = None

    def step(self, name: str) -> None:
        """The device has reached a step of its walk."""
        self._walks += name == "verified"
        self._step, self._inner = name, None

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self._inner = self._inner or seeded_source(f"{self._seed} {self._walks} {self._step}")
        self._inner.fill(buffer)


@dataclass
class VirtualClock:
    """A clock that advances only when something sleeps or works."""

    time: float = 0

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self.time += seconds


class WorkClock(VirtualClock):
    """A clock that also advances, in steps of half a second, by the processor time that this
    process uses.

    Waiting costs nothing, so that a busy machine does not look like a device that works.
    """

    def __init__(self, time: float = 0) -> None:
        super().__init__(time)
        self._mark, self._told = process_time(), time

    def __call__(self) -> float:
        used = _SLOWNESS * (process_time() - self._mark)
        self._told = self.time + floor(used / _STEP) * _STEP
        return self._told

    def sleep(self, seconds: float) -> None:
        """Let time pass, from the time last told."""
        self.time = self._told
        super().sleep(seconds)
        self._told, self._mark = self.time, process_time()


@dataclass
class Observed:
    """The observable results of one life. If they differ between two devices that differ only in
    their data, the data leak."""

    sends: list[tuple[Any, ...]] = field(default_factory=list)
    """What was sent to whom, and when: all bytes for every proxy but the last, whose payloads
    contain the report; for its records, their length and what the proxy can read in them."""
    polls: list[tuple[Any, ...]] = field(default_factory=list)
    outcomes: list[tuple[Any, ...]] = field(default_factory=list)
    ledger: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    queue: list[tuple[Any, ...]] = field(default_factory=list)
    rounds: list[float] = field(default_factory=list)
    """When each round was over: whatever the device does next, it cannot do earlier."""

    def difference(self, other: Observed) -> str | None:
        """The name of the first thing that differs; None if nothing does."""
        for part in ("outcomes", "ledger", "queue", "sends", "polls", "rounds"):
            if getattr(self, part) != getattr(other, part):
                return part
        return None


def shown_to_proxy(body: bytes, last: bool) -> Any:
    """The part of an upload that must be the same whatever the data: all of it or, for the last
    proxy, all but the payloads."""
    if not last:
        return body
    length = record_bytes(body[2])
    return [body[start : start + VISIBLE_BYTES] for start in range(0, len(body), length)]


@dataclass
class ListeningNetwork:
    """Proxies that relay queries and accept everything they are sent, and an observer who notes the
    time."""

    clock: Callable[[], float]
    proxies: tuple[str, ...]
    relayed: list[bytes]
    seen: Observed = field(default_factory=Observed)
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    """Everything sent to each proxy."""
    concurrent: bool = False

    def send(self, proxy: str, token: str, body: bytes) -> None:
        """Take an upload."""
        shown = shown_to_proxy(body, proxy == self.proxies[-1])
        self.seen.sends.append((self.clock(), proxy, token, len(body), shown))
        self.bodies.append((proxy, body))

    def queries(self, proxy: str) -> list[bytes]:
        """What a proxy relays."""
        self.seen.polls.append((self.clock(), proxy))
        return self.relayed

    def skew(self, proxy: str) -> float | None:
        """How far a proxy's clock is ahead: these proxies do not say."""
        return None

    def revoked(self, proxy: str) -> frozenset[str]:
        """The keys a proxy reports as revoked: none."""
        return frozenset()
