"""A proxy that is killed at random: nothing that it acknowledged is lost, and nothing is
repeated."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import httpx
import numpy as np

from toolkit.servers import loopback
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import body_of, make_columns

N_KILLS = 12
N_SENDERS = 3
MORE = 100
SETTINGS = '[intake]\nthreshold = 300\ndeadline = "1 s"\n'
QUERY = query_of_today()


class Sender(threading.Thread):
    """A device's way of sending: the same bytes again and again until they are acknowledged."""

    def __init__(self, proxy: ProxyProcess, seed: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.proxy, self.random, self.stop = proxy, random.Random(seed), stop  # noqa: S311 - a test's schedule
        self.headers = proxy.token(quota=10_000_000)
        self.epoch = QUERY.schedule.epoch_of(int(time.time()))
        self.acknowledged: list[np.ndarray] = []
        self.problems: list[str] = []
        self.n_retries = self.n_acknowledged = 0

    def run(self) -> None:
        while not self.stop.is_set():
            columns, _ = make_columns(QUERY, self.epoch, self.random.choice([1, 7, 40, 120]))
            if self.send_until_taken(body_of(QUERY, self.epoch, columns), columns.shape[1]):
                self.acknowledged.append(columns)
                self.n_acknowledged += columns.shape[1]
            time.sleep(0.005)  # traffic at any moment, but no test of how fast it can be

    def send_until_taken(self, content: bytes, n: int) -> bool:
        while True:
            try:
                answer = loopback.post(
                    f"{self.proxy.address}/v1/shares",
                    content=content,
                    headers=self.headers,
                    timeout=5,
                )
            except httpx.TransportError:
                self.n_retries += 1
                time.sleep(0.02)
                continue
            if answer.status_code != 202 or sum(answer.json().values()) != n:
                self.problems.append(answer.text)
                return False
            return True


def wait_for_more(senders: list[Sender]) -> None:
    """Until so many more shares were acknowledged: however slow the machine, every life of the
    proxy has traffic."""
    goal = sum(sender.n_acknowledged for sender in senders) + MORE
    end = time.monotonic() + 60
    while sum(sender.n_acknowledged for sender in senders) < goal:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_proxy_that_is_killed_again_and_again_loses_and_repeats_nothing(tmp_path: Path) -> None:
    schedule = random.Random(20)  # noqa: S311 - a test's schedule
    stop = threading.Event()
    with ProxyProcess(tmp_path / "proxy", SETTINGS) as proxy:
        proxy.publish(QUERY)
        senders = [Sender(proxy, seed, stop) for seed in range(N_SENDERS)]
        for sender in senders:
            sender.start()
        for _ in range(N_KILLS):
            wait_for_more(senders)
            time.sleep(schedule.uniform(0, 0.4))
            proxy.stop(signal.SIGKILL)
            proxy.start()
        time.sleep(0.3)
        stop.set()
        for sender in senders:
            sender.join(timeout=30)
            assert not sender.is_alive()
        assert proxy.stop() == 0
        logged = proxy.logged()
    assert [sender.problems for sender in senders] == [[]] * N_SENDERS
    sent = np.concatenate(
        [columns for sender in senders for columns in sender.acknowledged], axis=1
    )
    assert sent.shape[1] >= N_KILLS * MORE
    assert sum(sender.n_retries for sender in senders) > N_KILLS  # the kills fell into the traffic
    counts = Counter(map(tuple, logged.T.tolist()))
    assert max(counts.values()) == 1
    assert counts == Counter(map(tuple, sent.T.tolist()))  # each row once, with its share unchanged
