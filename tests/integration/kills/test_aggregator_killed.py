"""SIGKILL at random, fifty times, while logs grow: nothing is lost and nothing is counted twice.

Each report carries its own bucket, so any count other than 1 shows it.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from deniable.queries.columns.column import Column
from deniable.queries.schedule import Schedule
from toolkit.crowds import ORIGIN, Crowd, minute_query
from toolkit.servers.killed_engines import count, kill, started

KILLS = 50
PER_BATCH = 40


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_an_engine_killed_at_random_loses_and_repeats_nothing(
    n_proxies: int, tmp_path: Path
) -> None:
    kills = KILLS if n_proxies == 2 else 10
    n = kills * PER_BATCH
    query = minute_query(
        columns=[Column("number", [f"[{i},{i + 1})" for i in range(n)], other=True)],
        proxies=["one", "two", "three"][:n_proxies],
        schedule=Schedule(origin=ORIGIN, expires=ORIGIN + 86400, every=60, window=120, slide=60),
    )
    crowd = Crowd(tmp_path, query)
    crowd.engine()  # makes the state, with the query in it
    crowd.close()
    crowd.now = ORIGIN + 60 * (kills // 5)
    rng = random.Random(n_proxies)  # noqa: S311 - when to kill is no secret
    held: list[tuple[int, int, np.ndarray[tuple[int, ...], np.dtype[np.uint64]]]] = []
    n_sent = [0] * n_proxies

    def append(
        proxy: int, epoch: int, rows: np.ndarray[tuple[int, ...], np.dtype[np.uint64]]
    ) -> None:
        crowd.append(proxy, rows, epoch)
        n_sent[proxy] += rows.shape[1]

    for number in range(kills):
        epoch = number // 5
        process = started(count, tmp_path, crowd.now, query.proxies)
        shares = crowd.split(list(range(number * PER_BATCH, (number + 1) * PER_BATCH)), epoch)
        for proxy, rows in enumerate(shares):
            parts = np.array_split(rows, 4, axis=1)
            for part in parts[:3]:
                append(proxy, epoch, part)
            if rng.random() < 0.5:
                append(proxy, epoch, parts[1])  # a replay
            held.append((proxy, epoch, parts[3]))
        if number % 5 == 4:
            # The epoch's last shares, in another order than the proxies', and then its end.
            rng.shuffle(held)
            for proxy, held_epoch, part in held:
                append(proxy, held_epoch, part)
            held.clear()
            crowd.mark(epoch + 1)
        time.sleep(rng.random() * 0.02)
        kill(process)
    crowd.engine().drain()
    counts = crowd.counts()
    assert counts[:n].tolist() == [1] * n
    assert counts[n:].tolist() == [0]
    windows = crowd.windows()
    assert [window.index for window in windows] == list(range(kills // 5 - 1))
    assert [window.n for window in windows] == [2 * 5 * PER_BATCH] * len(windows)
    accounts = [crowd.accounts(epoch) for epoch in range(kills // 5)]
    for proxy in range(n_proxies):
        assert sum(account[proxy]["received"] for account in accounts) == n_sent[proxy]
        assert sum(account[proxy]["counted"] for account in accounts) == n
        assert sum(account[proxy].get("duplicate", 0) for account in accounts) == n_sent[proxy] - n
        assert not any(account[proxy].get("waiting") for account in accounts)
    crowd.close_all()
