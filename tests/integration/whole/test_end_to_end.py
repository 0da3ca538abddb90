"""Ten thousand clients, real HTTP, a process for every service: windows equal counting the same
reports offline, exactly."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from deniable.client.encoding import upload_body
from deniable.client.simulation.fleet import Fleet
from deniable.mechanisms.reports import Reports
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import seeded_source
from toolkit.queries import make_query
from toolkit.servers.systems import running_system

N_CLIENTS = 10_000
N_EPOCHS = 3
AT_ONCE = 700
# epochs may be sent ahead: the test need not wait for them
INTAKE = {"threshold": 2000, "deadline": 1, "grace": 10, "skew": 600}


def opened(query: Query, columns: list[NDArray[np.uint64]]) -> NDArray[np.uint8]:
    """The reports in the shares that the test made, by XOR and their place in docs/wire.md, not by
    the code that is tested."""
    words = np.bitwise_xor.reduce([share[2:] for share in columns])
    return np.ascontiguousarray(words.T).view(np.uint8)[:, 16 : 16 + query.report_bytes].copy()


@pytest.mark.parametrize("n_proxies", [2, 3])
def test_windows_equal_counting_the_same_reports_offline_exactly(
    n_proxies: int, tmp_path: Path
) -> None:
    def ask(proxies: Sequence[str]) -> Query:
        now = int(time.time())
        return make_query(
            proxies=proxies, schedule=Schedule(now, now + 3600, 2, 4, 2), population=N_CLIENTS
        )

    truth = np.random.default_rng(5).integers(-1, 11, N_CLIENTS)  # a twelfth have no answer
    sent: list[NDArray[np.uint8]] = []
    with (
        running_system(tmp_path, ask, n_proxies, INTAKE) as system,
        httpx.Client(timeout=30) as client,
    ):
        query = system.query
        fleet = Fleet(query, N_CLIENTS, source=seeded_source(n_proxies))
        for epoch in range(N_EPOCHS):
            shares = fleet.answer(epoch, truth)
            sent.append(opened(query, shares.columns))
            for start in range(0, len(shares), AT_ONCE):
                for proxy, token, columns in zip(
                    query.proxies, system.tokens, shares.columns, strict=True
                ):
                    body = upload_body(query, epoch, columns[:, start : start + AT_ONCE])
                    headers = {
                        "Authorization": f"Bearer {token}",
                        "Content-Type": "application/octet-stream",
                    }
                    answer = client.post(f"{proxy}/v1/shares", content=body, headers=headers)
                    assert answer.status_code == 202, answer.text
        windows = []
        for window in system.analyst.follow(query, after=0):
            windows.append(window)
            if window.index >= N_EPOCHS - 2:
                break
    assert [window.index for window in windows] == [0, 1]
    for window in windows:
        in_window = [sent[epoch] for epoch in query.schedule.epochs_of_window(window.index)]
        n = [len(reports) for reports in in_window]
        assert (window.condition, window.n) == ("complete", sum(n))
        assert min(n) > 5700  # six in ten of 10,000
        offline = query.mechanism.estimate(
            Reports(query.mechanism, np.concatenate(in_window)),
            sum(n) ** 2 * N_CLIENTS // sum(each**2 for each in n),
        )
        assert window.estimate is not None
        assert window.estimate.proportions.tolist() == offline.proportions.tolist()
        assert window.estimate.stderr == pytest.approx(offline.stderr, rel=1e-12)
        expected = {
            "received": sum(n),
            "counted": sum(n),
            "orphaned": 0,
            "duplicate": 0,
            "late": 0,
            "malformed": 0,
            "waiting": 0,
        }
        assert window.conservation == {
            "proxies": dict.fromkeys(query.proxies, expected),
            "balanced": True,
        }
