"""The whole system under SIGKILL: any process, at random, fifty times. Nothing is lost and nothing
is repeated.

Each report carries its own bucket, so any count other than 1 shows it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from deniable.client.encoding import upload_body
from deniable.client.http_transport import HttpTransport
from deniable.errors import UploadError
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.schedule import Schedule
from deniable.randomness import seeded_source
from deniable.wire.shares import split_columns
from toolkit.crowds import minute_query
from toolkit.servers.systems import System, running_system

KILLS = 50
N_REPORTS = 3000
AT_ONCE = 20
# small flushes: many moments at which to die
INTAKE = {"threshold": 60, "deadline": 1, "grace": 15, "skew": 30}


class Sender(threading.Thread):
    """Sends each report to every proxy, the same bytes again and again until they are
    acknowledged."""

    def __init__(self, system: System, killing: threading.Event) -> None:
        super().__init__(daemon=True)
        self.system, self.killing = system, killing
        self.refused: list[str] = []
        self.n_retries = 0

    def run(self) -> None:
        query, source = self.system.query, seeded_source(4)
        with HttpTransport(timeout=5) as transport:
            for start in range(0, N_REPORTS, AT_ONCE):
                epoch = query.schedule.epoch_of(int(time.time()))
                reports = query.mechanism.draw(np.arange(start, start + AT_ONCE), source)
                rows = np.ascontiguousarray(reports).view(np.uint8).reshape(AT_ONCE, -1)
                shares = split_columns(
                    rows, query.tag, epoch, query.size_class or 0, len(query.proxies), source=source
                )
                for proxy, token, columns in zip(
                    query.proxies, self.system.tokens, shares, strict=True
                ):
                    self.send(transport, proxy, token, upload_body(query, epoch, columns))
                if self.killing.is_set():
                    time.sleep(0.1)

    def send(self, transport: HttpTransport, proxy: str, token: str, body: bytes) -> None:
        while True:
            try:
                transport.send(proxy, token, body)
            except UploadError as error:
                if error.final:
                    self.refused.append(error.detail)
                    return
                self.n_retries += 1
                time.sleep(0.05)
                continue
            return


def test_any_process_killed_at_random_loses_and_repeats_nothing(tmp_path: Path) -> None:
    def ask(proxies: Sequence[str]) -> Query:
        now = int(time.time())
        labels = [f"[{i},{i + 1})" for i in range(N_REPORTS)]
        schedule = Schedule(now, now + 3600, 4, 4, 4)
        return minute_query(
            proxies=proxies, schedule=schedule, columns=[Column("number", labels, other=True)]
        )

    chance = random.Random(50)  # noqa: S311 - when to kill is no secret
    counts = np.zeros(N_REPORTS + 1, dtype=np.int64)
    n_at_work = 0
    with running_system(tmp_path, ask, 2, INTAKE) as system:
        services, query = system.services, system.query
        killing = threading.Event()
        killing.set()
        sender = Sender(system, killing)
        sender.start()
        up = dict.fromkeys(services.names, True)
        for _ in range(KILLS):
            time.sleep(chance.uniform(0.05, 0.5))
            name = chance.choice(services.names)
            if not up[name] and chance.random() < 0.5:  # or else while it starts
                services.wait_until_up(name)
                up[name] = True
                time.sleep(chance.uniform(0.0, 0.3))
            n_at_work += up[name]
            services.kill(name)
            services.start(name)
            up[name] = False
        for name in services.names:
            if not up[name]:
                services.wait_until_up(name)
        killing.clear()
        sender.join(timeout=60)
        assert not sender.is_alive()
        last = query.schedule.epoch_of(int(time.time()))
        windows = []
        for window in system.analyst.follow(query, after=0):
            windows.append(window)
            if window.index >= last:
                break
        stored = system.analyst.history(query)
    assert sender.refused == []
    assert n_at_work > KILLS // 3
    assert sender.n_retries > 5  # the kills fell into the traffic
    assert [window.index for window in windows] == list(range(last + 1))
    for window in windows:
        # withheld: an epoch in which nothing was sent
        assert window.condition in ("complete", "withheld")
        assert window.conservation["balanced"] is True
        if window.estimate is not None:
            counts += np.rint(window.estimate.proportions * window.n).astype(np.int64)
    assert counts[:N_REPORTS].tolist() == [1] * N_REPORTS
    assert counts[N_REPORTS] == 0
    # The history went through the same kills: each report is there once.
    assert stored.n_reports == stored.scanned == N_REPORTS
    assert np.rint(stored.estimate.proportions * N_REPORTS).tolist() == [1] * N_REPORTS + [0]
    totals = {
        name: sum(window.conservation["proxies"][name]["counted"] for window in windows)
        for name in query.proxies
    }
    assert totals == dict.fromkeys(query.proxies, N_REPORTS)
