"""Killed by SIGKILL at any point of its walk, a device spends nothing twice, answers no epoch
twice, loses no share."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deniable.client.device import STEPS
from deniable.client.storage.store import Store
from deniable.client.vaults.vault import Vault
from deniable.mechanisms.protocols.permanent import MemoizedMechanism
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed.key_ring import KeyRing, TrustedKey
from deniable.wire.message import ANSWER, Message
from deniable.wire.shares import join
from toolkit.devices import KEY, asked, at, bits, signed
from toolkit.servers.http_proxy import Proxy

UPLOAD_STEPS = ("sending", "acknowledged", "removed")
DRIVER = Path(__file__).with_name("killed_device.py")
K = 64
TRUTH = 17
ROUNDS = 180


@pytest.fixture
def proxies() -> Iterator[list[Proxy]]:
    started = [Proxy(lose_every=7), Proxy(lose_every=5)]
    yield started
    for proxy in started:
        proxy.stop()


def questions(proxies: list[Proxy]) -> dict[str, Query]:
    """One drawn afresh, one memoized in two steps, one with sampling and cover."""
    ranges = [f"[{i},{i + 1})" for i in range(K)]
    common: dict[str, Any] = {"proxies": [proxy.address for proxy in proxies]}
    noisy = {
        "columns": [Column("distance", ranges)],
        "mechanism": {"name": "UnaryEncoding", "a": 0.6, "b": 0.4},
    }
    rappor = {"name": "BasicRappor", "f": 0.5, "p": 0.25, "q": 0.75}
    return {
        "fresh": asked(id="fresh", **noisy, **common),
        "kept": asked(
            id="kept",
            mechanism=rappor,
            memoize=True,
            columns=[Column("distance", ranges, other=True)],
            **common,
        ),
        "covered": asked(id="covered", sampling=0.5, cover=True, **noisy, **common),
    }


class Driver:
    """The process that forks and kills the device's processes."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, str(DRIVER), str(folder)]
        self._process = subprocess.Popen(  # noqa: S603 - our own script
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": ":".join(sys.path)},
        )

    def run(self, **task: float) -> tuple[int, str]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        status, step = json.loads(self._process.stdout.readline())
        return int(status), str(step)

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=60)


def make_person(folder: Path, proxies: list[Proxy], queries: dict[str, Query]) -> None:
    vault = Vault.create(folder / "ann.db")
    vault.import_rows("trips", {"distance": "REAL"}, [(TRUTH + 0.5,)])
    vault.grant("trips", ["distance"])
    KeyRing([TrustedKey(KEY.public)]).save(folder / "ring.json")
    (folder / "proxies.json").write_text(json.dumps([proxy.address for proxy in proxies]))
    for proxy in proxies:
        proxy.relayed = [signed(query).to_bytes() for query in queries.values()]


def joined(proxies: list[Proxy]) -> list[Message]:
    first, second = (proxy.shares for proxy in proxies)
    assert set(first) == set(second), "a share was lost on its way to one of the proxies"
    return [join([first[key], second[key]]) for key in first]


def test_a_device_killed_at_any_point_neither_repeats_nor_loses_anything(
    tmp_path: Path, proxies: list[Proxy]
) -> None:
    queries = questions(proxies)
    make_person(tmp_path, proxies, queries)
    dice = random.Random(1)  # noqa: S311 - when to kill; no answer depends on it
    killed_at: Counter[str] = Counter()
    killed_from_outside = 0
    with Driver(tmp_path) as driver:
        for epoch in range(2):  # how long a process of this device lives on this machine
            started = time.perf_counter()
            assert driver.run(now=at(epoch)) == (0, "")
            lifetime = time.perf_counter() - started
        for i in range(4, ROUNDS):
            # Two processes an epoch: the second finds what the first left of it.
            now, isolated = at(i // 2, 300 * (i % 2)), i % 20 == 0
            if i % 3:
                status, step = driver.run(now=now, isolated=isolated, step=1 + i % 40)
                killed_at[step] += 1
            else:
                status, _ = driver.run(now=now, isolated=isolated, delay=dice.uniform(0, lifetime))
                killed_from_outside += status == -9
            assert status in (0, -9)
        for proxy in proxies:
            proxy.lose_every = 0
        last = ROUNDS // 2
        # and at last it is left in peace, for as long as a proxy may have to be left alone
        for i in range(4):
            assert driver.run(now=at(last + 40 * i)) == (0, "")
    del killed_at[""]
    assert set(killed_at) == {*STEPS, *UPLOAD_STEPS}, "no step was spared"
    assert sum(killed_at.values()) + killed_from_outside >= 100
    assert killed_from_outside >= 20

    messages = joined(proxies)
    for proxy in proxies:
        assert (proxy.counts["changed"], proxy.counts["malformed"]) == (0, 0)
        assert proxy.counts["again"] > 0, "some shares had to be sent twice"
    names = {query.tag: name for name, query in queries.items()}
    by_query: dict[str, list[Message]] = {name: [] for name in queries}
    for message in messages:
        by_query[names[message.query_tag]].append(message)
    for name, found in by_query.items():
        epochs = [message.epoch for message in found]
        assert len(epochs) == len(set(epochs)), f"an epoch of {name} was answered twice"
        assert len(epochs) > ROUNDS // 8

    answers = {name: [m for m in found if m.kind == ANSWER] for name, found in by_query.items()}
    with Store(tmp_path / "ann.db.client", durable=False).transaction() as transaction:
        assert transaction.outbox.n_queued() == 0
        counters = transaction.journal.counters()
        assert not any(name.startswith(("refused", "shares dropped")) for name in counters)
        decided = sum(len(found) for found in by_query.values())
        assert counters["epochs answered"] == sum(map(len, answers.values()))
        assert counters["epochs answered"] + counters["epochs sampled out"] == decided
        receipts = Counter(
            (receipt.query, receipt.epoch) for receipt in transaction.journal.receipts()
        )
        assert receipts == Counter((names[m.query_tag], m.epoch) for m in messages)
        for name in ("fresh", "covered"):
            cost = len(answers[name]) * Fraction(repr(queries[name].epsilon))
            assert transaction.charges.spent_on(queries[name].analyst, name) == cost, (
                "each answer is paid for, and paid for once"
            )
        mechanism = queries["kept"].mechanism
        assert isinstance(mechanism, MemoizedMechanism)
        assert transaction.charges.spent_on(queries["kept"].analyst, "kept") == Fraction(
            repr(mechanism.lifetime_epsilon)
        )
        assert transaction._db.execute("SELECT count(*) FROM memo").fetchone()[0] == 1

    # A true answer would be one bit of 64. A randomized one has 26 on average, and only that bit
    # with a probability of 1e-14.
    drawn = np.array([bits(m.report, K) for name in ("fresh", "covered") for m in answers[name]])
    assert drawn.sum(axis=1).min() > 1
    n = drawn.size - len(drawn)
    others = np.delete(drawn, TRUTH, axis=1)
    assert abs(others.mean() - 0.4) < 6.2 * np.sqrt(0.24 / n)
    assert abs(drawn[:, TRUTH].mean() - 0.6) < 6.2 * np.sqrt(0.24 / len(drawn))
