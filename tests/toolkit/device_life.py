"""The life of a device, simulated: offline spells, clock jumps, hung, deaf and dead proxies, kills
at every step.

`python -m toolkit.device_life 10000` (from tests/) lives as many lives and says what it saw. The
device, its store, its ledger and its uploads are the real ones; only the SQL is left out, and
proxies are dictionaries. Each life is made from its seed alone.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import numpy as np

from deniable.client.device import Device
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.errors import UploadError
from deniable.privacy.ledger import Limit
from deniable.queries.query import Query
from deniable.queries.signed.signing import SignedQuery
from deniable.randomness import seeded_source
from deniable.wire.shares import Share, record_bytes
from toolkit.devices import EVERY, asked, at, make_policy, signed

AGE = 36 * EVERY
STEPS = 16
CEILING = 12


class Killed(BaseException):
    """The process is gone, wherever it was."""


class SimulatedDevice(Device):
    """A device whose SQL always finds the third bucket: what it draws from is not what is
    simulated."""

    def _check_sql(self, transaction: object, query: Query) -> None:
        pass

    def _truth(
        self, transaction: object, query: Query
    ) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
        return np.full(query.most_rows, 3, dtype=np.intp)


@dataclass
class World:
    """True time, and proxies in all their moods."""

    query: Query
    signed: SignedQuery
    now: int = at(100)
    moods: dict[str, str] = field(default_factory=dict)
    received: dict[str, dict[bytes, Share]] = field(default_factory=dict)
    """What each proxy has, by message id."""
    tried: dict[str, set[bytes]] = field(default_factory=dict)
    """What was ever sent to it, whatever came of it."""
    concurrent: bool = False

    def _mood(self, proxy: str) -> str:
        return self.moods.get(proxy, "up")

    def send(self, proxy: str, token: str, body: bytes) -> None:
        length = record_bytes(body[2])
        shares = [Share.from_bytes(body[i : i + length]) for i in range(0, len(body), length)]
        self.tried.setdefault(proxy, set()).update(share.id for share in shares)
        mood = self._mood(proxy)
        if mood == "hung":
            self.now += 20  # until the request is given up
        if mood in ("down", "hung"):
            raise UploadError("did not answer in time")
        closed = [
            share
            for share in shares
            if self.now >= self.query.schedule.end_of_epoch(share.epoch) + AGE
        ]
        if closed:
            raise UploadError("answered 410", final=True)
        if any(
            share.epoch > (self.now + 60 - self.query.schedule.origin) // EVERY for share in shares
        ):
            raise UploadError("answered 422", early=True)
        for share in shares:
            before = self.received.setdefault(proxy, {}).setdefault(share.id, share)
            assert before == share, "a share was changed between two uploads"
        if mood == "deaf":
            raise UploadError("did not answer in time")

    def queries(self, proxy: str) -> list[bytes]:
        if self._mood(proxy) in ("down", "hung"):
            raise UploadError("did not answer in time")
        return [self.signed.to_bytes()]

    def revoked(self, proxy: str) -> frozenset[str]:
        return frozenset()

    def skew(self, proxy: str) -> float | None:
        return None


@dataclass
class Life:
    """One device in one world."""

    seed: int
    folder: Path
    seen: Counter[str] = field(default_factory=Counter)

    def live(self) -> None:
        """Live, and see at each step that all promises are kept."""
        coins = random.Random(self.seed)  # noqa: S311 - what happens, not what is drawn
        query = (
            asked(sampling=coins.choice([1.0, 0.7]), rows="several", most_rows=coins.choice([2, 3]))
            if coins.random() < 0.2
            else asked()
        )
        self.world = World(query, signed(query))
        self.query = query
        self.offset = 0
        self.ticks = coins.randrange(EVERY)
        self.kill_at = -1
        policy = make_policy(
            query,
            queue_age=AGE,
            upload_within=120,
            limits=(Limit(CEILING, period=40 * EVERY),),
            epsilon_per_answer=20,
        )
        vault = Vault(self.folder / "never-read.db")
        store = Store(self.folder / f"{self.seed}.store", durable=False)
        self.device = SimulatedDevice(
            vault,
            policy,
            store,
            source=seeded_source(self.seed),
            clock=self._clock,
            isolated=False,
            on_step=self._step,
        )
        for _ in range(STEPS):
            self._change(coins)
            self.kill_at = coins.randrange(14) if coins.random() < 0.3 else -1
            try:
                self.device.once(self.world)
            except Killed:
                self.seen["killed"] += 1
            self.kill_at = -1
            self._check()
        self._heal()
        store.path.unlink()

    def _clock(self) -> float:
        return float(self.world.now + self.offset)

    def _step(self, _: str) -> None:
        if self.kill_at == 0:
            self.kill_at = -1
            raise Killed
        self.kill_at -= 1

    def _change(self, coins: random.Random) -> None:
        world = self.world
        world.now += coins.choice([30, 120, EVERY // 2, EVERY, EVERY, 3 * EVERY])
        for proxy in self.query.proxies:
            if coins.random() < 0.3:
                world.moods[proxy] = coins.choice(["up", "up", "down", "hung", "deaf"])
        if coins.random() < 0.05:
            world.now += AGE + EVERY  # the device was off for long
        if coins.random() < 0.06:
            self.offset = coins.choice([0, 0, -5 * EVERY, 3600, 30 * EVERY, -17])
            self.seen["clock jumps"] += 1

    def _check(self) -> None:
        query, world = self.query, self.world
        with self.device.store.transaction() as transaction:
            receipts = transaction.journal.receipts()
            spent = transaction.charges.spent_on(query.analyst, query.id)
            counters = dict(transaction.journal.counters())
            waiting = [
                (proxy, Share.from_bytes(record), tried)
                for proxy, record, tried in transaction._db.execute(
                    "SELECT proxy, record, tried FROM queue"
                )
            ]
            limit_spent = transaction.charges.accountant(
                self.device.policy.limits, int(self._clock())
            ).spent()
        answered = [receipt.epoch for receipt in receipts if receipt.outcome == "answered"]
        given_back = [receipt.epoch for receipt in receipts if receipt.outcome == "given back"]
        assert len(answered) == len(set(answered)), "an epoch was answered twice"
        assert set(given_back) <= set(answered)
        cost = Fraction(repr(query.epsilon)) * query.most_rows
        assert spent == limit_spent == cost * (len(answered) - len(given_back)), (
            "the ledger differs from the receipts"
        )
        assert len(answered) == counters.get("epochs answered", 0)
        drawn: dict[int, set[bytes]] = {}
        for shares in world.received.values():
            for share in shares.values():
                drawn.setdefault(share.epoch, set()).add(share.id)
        for _, share, _ in waiting:
            drawn.setdefault(share.epoch, set()).add(share.id)
        for epoch, ids in drawn.items():
            assert len(ids) <= query.most_rows, f"epoch {epoch} was drawn twice"
            assert epoch in answered
        for proxy, share, tried in waiting:
            assert tried or share.id not in world.tried.get(proxy, set()), (
                "a share left without a note"
            )
        for returned in given_back:
            for one in drawn.get(returned or 0, set()):
                left = [proxy for proxy in query.proxies if one in world.tried.get(proxy, set())]
                assert len(left) < len(query.proxies), "what may have left was given back"
        self.seen["answered"] = len(answered)
        self.seen["given back"] = len(given_back)

    def _heal(self) -> None:
        """The network comes back within the time that shares are kept: all that waits arrives."""
        with self.device.store.transaction() as transaction:
            now = int(self._clock())
            due = [
                (proxy, Share.from_bytes(record))
                for proxy, record, expires in transaction._db.execute(
                    "SELECT proxy, record, expires FROM queue"
                )
                if self.offset == 0 and expires > now + 4 * 3600
            ]
        self.world.moods.clear()
        for _ in range(24):
            self.world.now += 600
            self.device.upload(self.world)
        for proxy, share in due:
            # of a clock ahead, some have not
            begun = self.query.schedule.start_of_epoch(share.epoch) + 1800 < self.world.now
            if begun and self.world.now < self.query.schedule.end_of_epoch(share.epoch) + AGE:
                assert share.id in self.world.received.get(proxy, {}), (
                    "a share that was in time got lost"
                )
                self.seen["delivered in the end"] += 1
        self._check()


def live(seeds: range) -> Counter[str]:
    """As many lives; gives what was seen in all of them."""
    total: Counter[str] = Counter()
    memory = Path("/dev/shm")  # noqa: S108 - of a system that has it; a folder of our own is made there
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        for seed in seeds:
            life = Life(seed, Path(folder))
            try:
                life.live()
            except AssertionError as error:
                raise AssertionError(f"life {seed}: {error}") from error
            total += life.seen
            total["lives"] += 1
    return total


if __name__ == "__main__":
    start = time.process_time()
    found = live(range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
    print(dict(found), f"{time.process_time() - start:.0f} s of processor time")  # noqa: T201 - a program of its own
