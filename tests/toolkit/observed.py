"""All that can be seen of a device from outside, recorded, so that two devices that differ in their data alone can be compared.

The coins are dealt by position: each station of each walk of a device draws from a stream of its own, named by the number of the
walk and the station. A device that uses more coins than another to read its data still finds the same coins at every later
station, as it would if all coins of its life were written down beforehand.
"""

from __future__ import annotations

import functools
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.store import Store
from deniable.client.vault import Vault
from deniable.queries.query import Query
from deniable.randomness import Source, seeded_source
from deniable.wire.shares import record_bytes
from toolkit.devices import Network, at, signed

_VISIBLE = 32
"""Bytes of a share's record before the payload: version, kind, size class, epoch, channel, message id."""
_TABLES = ("spent", "charges", "epochs", "versions", "proxies", "receipts", "counters")
"""The tables of a store that decide what the device does next towards anybody, and the receipts."""


class PositionedSource(Source):
    """Coins that are found by where they are used, not by how many were used before. `step` is a device's `on_step`."""

    def __init__(self, seed: str) -> None:
        self._seed, self._walks, self._step = seed, 0, ""
        self._inner: Source | None = None

    def step(self, name: str) -> None:
        self._walks += name == "verified"
        self._step, self._inner = name, None

    def fill(self, buffer: NDArray[np.uint8]) -> None:
        self._inner = self._inner or seeded_source(f"{self._seed} {self._walks} {self._step}")
        self._inner.fill(buffer)


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


@dataclass
class VirtualClock:
    """A clock that goes when somebody sleeps, or works."""

    time: float = 0

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.time += seconds


@dataclass
class RecordingNetwork(Network):
    """A network that notes the time of all that passes."""

    clock: Callable[[], float] = float
    last: str = ""
    seen: Observed = field(default_factory=Observed)

    def send(self, proxy: str, token: str, body: bytes) -> None:
        shown: Any = body
        if proxy == self.last:
            length = record_bytes(body[2])
            shown = [body[start : start + _VISIBLE] for start in range(0, len(body), length)]
        self.seen.sends.append((self.clock(), proxy, token, len(body), shown))
        super().send(proxy, token, body)

    def queries(self, proxy: str) -> list[bytes]:
        self.seen.polls.append((self.clock(), proxy))
        return super().queries(proxy)


_signed = functools.lru_cache(signed)


def set_rows(vault: Vault, rows: Sequence[Any]) -> None:
    """Replace the distances in a vault."""
    with closing(sqlite3.connect(vault.path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("DELETE FROM trips")
        connection.executemany("INSERT INTO trips VALUES (?, 'x')", [(row,) for row in rows])


def make_person(folder: Path, policy: Policy, source: Source, **options: Any) -> Device:
    folder.mkdir()
    template = folder.parent / "empty.db"
    if not template.exists():
        empty = Vault.create(template)
        empty.import_rows("trips", {"distance": "REAL", "secret": "TEXT"}, [])
        empty.share("trips", ["distance"])
    vault = Vault(Path(shutil.copy(template, folder / "ann.db")))
    return Device(vault, policy, Store(folder / "store", durable=False), source=source, isolated=False, **options)


def live(folder: Path, policy: Policy, history: Sequence[Sequence[Any]], query: Query, others: Sequence[Query]) -> Observed:
    """A device with these rows in each epoch answers a query in all of them, and then ten others, and uploads what is due."""
    source = PositionedSource("coins")
    device = make_person(folder, policy, source, on_step=source.step)
    now = VirtualClock()
    network = RecordingNetwork(clock=now, last=query.proxies[-1])
    seen = network.seen

    def answer(asked: Query, epoch: int) -> None:
        receipt = device.answer(_signed(asked), at(epoch))
        seen.outcomes.append((receipt.outcome, receipt.reason, receipt.detail, receipt.epsilon, receipt.left))

    def upload(epoch: int, second: int) -> None:
        now.time = at(epoch, second)
        with device.store.transaction() as book:
            seen.queue += book._db.execute("SELECT proxy, due, expires, length(record) FROM queue ORDER BY place")
        device.upload(network, at(epoch, second))

    for epoch, rows in enumerate(history):
        set_rows(device.vault, rows)
        answer(query, epoch)
        upload(epoch, 300)
    for other in others:
        answer(other, len(history))
    for second in (200, 400, 620):
        upload(len(history), second)
    with device.store.transaction() as book:
        seen.ledger = {table: book._db.execute(f"SELECT * FROM {table}").fetchall() for table in _TABLES}  # noqa: S608
    return seen
