"""Lives of devices, all that can be seen of them recorded, so that two that differ in their data
alone can be compared."""

from __future__ import annotations

import functools
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deniable.audit.observing import (
    LEDGER_TABLES,
    Observed,
    PositionedSource,
    VirtualClock,
    shown_to_proxy,
)
from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.queries.query import Query
from deniable.randomness import Source
from toolkit.devices import Network, at, signed

__all__ = [
    "Observed",
    "PositionedSource",
    "RecordingNetwork",
    "VirtualClock",
    "live",
    "make_person",
    "set_rows",
]


@dataclass
class RecordingNetwork(Network):
    """A network that notes the time of all that passes."""

    clock: Callable[[], float] = float
    last: str = ""
    seen: Observed = field(default_factory=Observed)

    def send(self, proxy: str, token: str, body: bytes) -> None:
        shown = shown_to_proxy(body, proxy == self.last)
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
        empty.grant("trips", ["distance"])
    vault = Vault(Path(shutil.copy(template, folder / "ann.db")))
    return Device(
        vault,
        policy,
        Store(folder / "store", durable=False),
        source=source,
        isolated=False,
        **options,
    )


def live(
    folder: Path,
    policy: Policy,
    history: Sequence[Sequence[Any]],
    query: Query,
    others: Sequence[Query],
) -> Observed:
    """A device with these rows in each epoch answers a query in all of them, and then ten others,
    and uploads what is due."""
    source = PositionedSource("coins")
    device = make_person(folder, policy, source, on_step=source.step)
    now = VirtualClock()
    network = RecordingNetwork(clock=now, last=query.proxies[-1])
    seen = network.seen

    def answer(asked: Query, epoch: int) -> None:
        receipt = device.answer(_signed(asked), at(epoch))
        seen.outcomes.append(
            (receipt.outcome, receipt.reason, receipt.detail, receipt.epsilon, receipt.left)
        )

    def upload(epoch: int, second: int) -> None:
        now.time = at(epoch, second)
        with device.store.transaction() as transaction:
            seen.queue += transaction._db.execute(
                "SELECT proxy, due, expires, length(record) FROM queue ORDER BY place"
            )
        device.upload(network, at(epoch, second))

    for epoch, rows in enumerate(history):
        set_rows(device.vault, rows)
        answer(query, epoch)
        upload(epoch, 300)
    for other in others:
        answer(other, len(history))
    for second in (200, 400, 620):
        upload(len(history), second)
    with device.store.transaction() as transaction:
        seen.ledger = {
            table: transaction._db.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608
            for table in LEDGER_TABLES
        }
    return seen
