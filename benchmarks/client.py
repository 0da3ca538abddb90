"""What one answer costs a device, on the terms of PrivApprox's Table 3, and how fast a fleet turns true answers into shares.

    python benchmarks/client.py

Table 3 of Quoc et al. 2017 gives the operations a second of a client's three steps: SQLite read (phone 1,162, server 23,418),
randomized response (168,938; 1,809,662) and XOR encryption (15,026; 1,351,937); the read is the bottleneck. The same three are
timed here, one answer at a time: the read inside the sandbox, once in this process and once in a process of its own (as
devices do), then the randomizing of 11 buckets, and the splitting into two tagged shares. The times are of a wall clock, the
shortest of several runs; the fleet's are also given in processor time, so that a busy machine does not count.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from deniable.client import encoding, sandbox
from deniable.client.device import Device
from deniable.client.fleet import Fleet
from deniable.client.policy import Policy
from deniable.client.store import Store
from deniable.client.vault import Vault
from deniable.privacy.ledger import Limit
from deniable.queries.buckets import Column
from deniable.queries.keys import AnalystKey, KeyRing, TrustedKey
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.queries.signing import sign
from deniable.randomness import system_source

N_FLEET = 1_000_000
N_DEVICES = 500
MILES = [*(f"[{i},{i + 1})" for i in range(10)), "[10,inf)"]


def per_call(run: Callable[[], Any], calls: int, clock: Callable[[], float] = time.perf_counter, repeat: int = 7) -> float:
    """Seconds a call takes, in the quickest of some runs."""
    shortest = float("inf")
    for _ in range(repeat):
        start = clock()
        for _ in range(calls):
            run()
        shortest = min(shortest, (clock() - start) / calls)
    return shortest


def taxi_query(**changes: Any) -> Query:
    given: dict[str, Any] = {
        "id": "taxi-distance",
        "analyst": "City of Exampleton",
        "sql": "SELECT distance FROM trips",
        "columns": [Column("distance", MILES)],
        "schedule": Schedule(origin=0, expires=1 << 31, every=600, window=3600, slide=600),
        "proxies": ["https://one.example", "https://two.example"],
        "mechanism": {"name": "TwoCoin", "p": 0.9, "q": 0.6},
    }
    return Query(**{**given, **changes})


def single(folder: Path) -> None:
    query = taxi_query()
    vault = Vault.create(folder / "ann.db")
    vault.import_rows("trips", {"distance": "REAL"}, [(i / 7,) for i in range(100)])
    vault.share("trips", ["distance"])
    source = system_source()
    index = np.array([3])
    report = encoding.randomize(query, index, source)
    read_here = per_call(lambda: sandbox.run(vault, query.sql, isolated=False), 50)
    read_apart = per_call(lambda: sandbox.run(vault, query.sql), 2)
    randomizing = per_call(lambda: encoding.randomize(query, index, source), 500)
    splitting = per_call(lambda: encoding.share_records(query, 3, report, 1, 0, source), 500)
    print("one answer, 100 rows of data, 11 buckets, 2 proxies          us      a second")
    for name, seconds in (
        ("sandboxed SQLite read, in a process of its own", read_apart),
        ("sandboxed SQLite read, in this process", read_here),
        ("randomized response", randomizing),
        ("XOR: id, key, tag and two shares", splitting),
    ):
        print(f"  {name:<52} {seconds * 1e6:9.1f} {1 / seconds:13,.0f}")
    both = randomizing + splitting
    print(f"  randomizing and splitting / the read in this process: {both / read_here:.2f} (must stay below 0.5)")
    print(f"  randomizing and splitting / the read as devices do it: {both / read_apart:.4f}")


def devices(folder: Path) -> None:
    key = AnalystKey.generate("City of Exampleton")
    query = taxi_query()
    signed = sign(query, key)
    policy = Policy(
        KeyRing([TrustedKey(key.public)]), dict.fromkeys(query.proxies, "t"), epsilon_per_answer=100, limits=(Limit(10**6),)
    )
    vault = Vault.open(folder / "ann.db")
    many = [Device(vault, policy, Store(folder / f"{i}.client", durable=False), isolated=False) for i in range(N_DEVICES)]
    for epoch, what in ((0, "the first epoch, which makes their stores"), (1, "the next epoch")):
        start = time.process_time()
        for device in many:
            assert device.answer(signed, 600 * epoch).outcome == "answered"
        print(f"whole devices in one process, {what}: {(time.process_time() - start) / N_DEVICES * 1e3:.2f} ms each")


def fleets() -> None:
    truth = np.random.default_rng(1).integers(0, 11, N_FLEET)
    print(f"a fleet of {N_FLEET:,}, true answers of 11 buckets to shares: million devices a second, processor and wall clock")
    for name, changes in (
        ("all answer", {}),
        ("60 % answer", {"sampling": 0.6}),
        ("60 % answer, the others send cover", {"sampling": 0.6, "cover": True}),
        ("all answer, memoized", {"memoize": True}),
    ):
        fleet = Fleet(taxi_query(**changes), N_FLEET)
        rates = [
            N_FLEET / per_call(lambda: fleet.answer(3, truth), 1, clock, 5) / 1e6  # noqa: B023 - called at once
            for clock in (time.process_time, time.perf_counter)
        ]
        print(f"  {name:<40} {rates[0]:6.2f} {rates[1]:6.2f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        single(Path(name))
        devices(Path(name))
    fleets()


if __name__ == "__main__":
    main()
