"""All that can be seen of a device from outside, recorded, so that two devices that differ in their data alone can be compared.

The coins are dealt by position: each station of each walk of a device draws from a stream of its own, named by the number of the
walk and the station. A device that uses more coins than another to read its data still finds the same coins at every later
station, as it would if all coins of its life were written down beforehand. So whatever differs, differs because of the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.randomness import Source, seeded_source
from deniable.wire.shares import record_bytes

__all__ = ["LEDGER_TABLES", "VISIBLE_BYTES", "ListeningNetwork", "Observed", "PositionedSource", "VirtualClock", "shown_to_proxy"]

VISIBLE_BYTES = 32
"""Bytes of a share's record before the payload: version, kind, size class, epoch, channel, message id."""
LEDGER_TABLES = ("spent", "charges", "epochs", "versions", "proxies", "receipts", "counters")
"""The tables of a store that decide what the device does next towards anybody, and the receipts."""


class PositionedSource(Source):
    """Coins that are found by where they are used, not by how many were used before. `step` is a device's `on_step`."""

    def __init__(self, seed: str) -> None:
        self._seed, self._walks, self._step = seed, 0, ""
        self._inner: Source | None = None

    def step(self, name: str) -> None:
        """The device has come to a station of its walk."""
        self._walks += name == "verified"
        self._step, self._inner = name, None

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self._inner = self._inner or seeded_source(f"{self._seed} {self._walks} {self._step}")
        self._inner.fill(buffer)


@dataclass
class VirtualClock:
    """A clock that goes when somebody sleeps, or works."""

    time: float = 0

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self.time += seconds


@dataclass
class Observed:
    """What came of one life: the same for two devices whose data differ, or the data show."""

    sends: list[tuple[Any, ...]] = field(default_factory=list)
    """When what was sent to whom: all bytes for all proxies but the last, whose payloads hold the report, and of its records how
    long they are and what the proxy can read in them."""
    polls: list[tuple[Any, ...]] = field(default_factory=list)
    outcomes: list[tuple[Any, ...]] = field(default_factory=list)
    ledger: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    queue: list[tuple[Any, ...]] = field(default_factory=list)

    def difference(self, other: Observed) -> str | None:
        """What tells the two apart, in a word; None if nothing does."""
        for part in ("outcomes", "ledger", "queue", "sends", "polls"):
            if getattr(self, part) != getattr(other, part):
                return part
        return None


def shown_to_proxy(body: bytes, last: bool) -> Any:
    """What of an upload has to be the same whatever the data are: all of it or, for the last proxy, all but the payloads."""
    if not last:
        return body
    length = record_bytes(body[2])
    return [body[start : start + VISIBLE_BYTES] for start in range(0, len(body), length)]


@dataclass
class ListeningNetwork:
    """Proxies that relay queries and take all that they are sent, and somebody who notes the time of it."""

    clock: Callable[[], float]
    proxies: tuple[str, ...]
    relayed: list[bytes]
    seen: Observed = field(default_factory=Observed)
    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    """What each proxy was sent."""
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
        """How far a proxy's clock is ahead: not at all."""
        return None

    def revoked(self, proxy: str) -> frozenset[str]:
        """The keys that a proxy says were revoked: none."""
        return frozenset()
