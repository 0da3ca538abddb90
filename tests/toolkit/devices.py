"""Devices to test with: keys, policies, vaults, signed queries and a network that is a
dictionary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable.client.device import Device
from deniable.client.policy import Policy
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import UploadError
from deniable.privacy.ledger import Limit
from deniable.queries.budget import Budget
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.queries.signed.keys import AnalystKey
from deniable.queries.signed.signing import SignedQuery, sign
from deniable.randomness import Source
from deniable.wire.message import Message
from deniable.wire.shares import Share, join, record_bytes
from toolkit.queries import make_query

ORIGIN, EVERY = 1_700_000_000, 600
KEY = AnalystKey("City of Exampleton", bytes(range(32)))
STRANGER = AnalystKey("City of Exampleton", bytes(32))


def asked(**changes: Any) -> Query:
    """The usual query, which every device answers and which sets no budget, with changes."""
    return make_query(
        **{"sampling": 1.0, "budget": Budget(), "question": "How far do you go?", **changes}
    )


def signed(query: Query) -> SignedQuery:
    return sign(query, KEY)


def at(epoch: int, second: int = 0) -> int:
    return ORIGIN + epoch * EVERY + second


def make_policy(query: Query, **changes: Any) -> Policy:
    given = {
        "ring": KeyRing([TrustedKey(KEY.public)]),
        "proxies": dict.fromkeys(query.proxies, "token"),
        "limits": (Limit(1000),),
        "epsilon_per_answer": 10,
    }
    return Policy(**{**given, **changes})


def make_vault(path: Path, distances: Sequence[float | None]) -> Vault:
    """A vault with trips, of which the distance is shared."""
    vault = Vault.create(path)
    vault.import_rows(
        "trips", {"distance": "REAL", "secret": "TEXT"}, [(distance, "x") for distance in distances]
    )
    vault.grant("trips", ["distance"])
    return vault


def make_device(
    folder: Path,
    query: Query,
    distances: Sequence[float | None] = (3.5,),
    *,
    policy: Policy | None = None,
    source: Source | None = None,
    on_step: Callable[[str], None] | None = None,
) -> Device:
    vault = make_vault(folder / "ann.db", distances)
    store = Store(folder / "ann.db.client", durable=False)
    return Device(
        vault,
        policy or make_policy(query),
        store,
        source=source,
        clock=lambda: at(0),
        isolated=False,
        on_step=on_step,
    )


@dataclass
class Network:
    """Proxies that keep what they are sent, by address; `down` of them do not answer, `deaf` ones
    lose the acknowledgement, and no connection can be made to `unconnected` ones."""

    down: set[str] = field(default_factory=set)
    deaf: set[str] = field(default_factory=set)
    unconnected: set[str] = field(default_factory=set)
    refusing: set[bytes] = field(default_factory=set)
    postponing: set[bytes] = field(default_factory=set)
    relayed: dict[str, list[bytes]] = field(default_factory=dict)
    skews: dict[str, float] = field(default_factory=dict)
    told_revoked: dict[str, frozenset[str]] = field(default_factory=dict)
    concurrent: bool = False
    bodies: list[tuple[str, str, bytes]] = field(default_factory=list)
    kept: dict[str, dict[bytes, Share]] = field(default_factory=dict)

    def send(self, proxy: str, token: str, body: bytes) -> None:
        if proxy in self.unconnected:
            raise UploadError("cannot be reached: nobody listens there", unsent=True)
        if proxy in self.down:
            raise UploadError("cannot be reached")
        self.bodies.append((proxy, token, body))
        length = record_bytes(body[2])
        shares = [Share.from_bytes(body[i : i + length]) for i in range(0, len(body), length)]
        if any(share.id in self.refusing for share in shares):
            raise UploadError("answered 410", final=True)
        if any(share.id in self.postponing for share in shares):
            raise UploadError("answered 422", early=True)
        for share in shares:
            before = self.kept.setdefault(proxy, {}).setdefault(share.id, share)
            assert before == share, "a share was changed between two uploads"
        if proxy in self.deaf:
            raise UploadError("cannot be reached")

    def queries(self, proxy: str) -> list[bytes]:
        if proxy in self.down:
            raise UploadError("cannot be reached")
        return self.relayed.get(proxy, [])

    def revoked(self, proxy: str) -> frozenset[str]:
        return self.told_revoked.get(proxy, frozenset())

    def skew(self, proxy: str) -> float | None:
        return self.skews.get(proxy)

    def messages(self) -> list[Message]:
        """What the shares that all proxies have make together."""
        first, *others = self.kept.values()
        return [
            join([share, *(other[key] for other in others)])
            for key, share in first.items()
            if all(key in o for o in others)
        ]


def queued(device: Device) -> list[tuple[str, int, int]]:
    with device.store.transaction() as transaction:
        return transaction.outbox.schedule()


def records(device: Device) -> dict[str, list[bytes]]:
    """The shares that wait, by proxy."""
    with device.store.transaction() as transaction:
        return {
            proxy: [share.record for share in transaction.outbox.due_shares(proxy, 1 << 40, 1000)]
            for proxy in transaction.outbox.waiting_proxies(1 << 40)
        }


def opened(device: Device) -> list[Message]:
    """The messages whose shares wait."""
    columns = records(device).values()
    return [
        join([Share.from_bytes(record) for record in row]) for row in zip(*columns, strict=True)
    ]


def bits(report: bytes, k: int) -> NDArray[np.uint8]:
    return np.unpackbits(np.frombuffer(report, dtype=np.uint8), bitorder="little")[:k]
