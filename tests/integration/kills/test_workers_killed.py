"""Fifty kills over workers, intake and collector: each acknowledged share is in the log once, and a
replay is still found."""

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
from toolkit.servers.collectors import CollectorProcess
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import body_of, make_columns

N_KILLS = 50
N_SENDERS = 4
SETTINGS = 'workers = 2\n[intake]\nthreshold = 300\ndeadline = "1 s"\n'
QUERY = query_of_today()


class Sender(threading.Thread):
    """A device's way of sending: the same bytes again and again, by either way, until they are
    acknowledged."""

    def __init__(
        self, addresses: list[str], headers: dict[str, str], seed: int, stop: threading.Event
    ) -> None:
        super().__init__(daemon=True)
        self.addresses, self.headers, self.stop = addresses, headers, stop
        self.random = random.Random(seed)  # noqa: S311 - a test's schedule
        self.epoch = QUERY.schedule.epoch_of(int(time.time()))
        self.acknowledged: list[np.ndarray] = []
        self.problems: list[str] = []
        self.n_retries = 0

    def run(self) -> None:
        with httpx.Client(timeout=20) as client:
            while not self.stop.is_set():
                columns, _ = make_columns(QUERY, self.epoch, self.random.choice([1, 1, 1, 7, 40]))
                body = body_of(QUERY, self.epoch, columns)
                if self.send_until_taken(client, body, columns.shape[1]):
                    self.acknowledged.append(columns)
                time.sleep(0.01)  # traffic at any moment, but no test of how fast it can be

    def send_until_taken(self, client: httpx.Client, content: bytes, n: int) -> bool:
        while True:
            address = self.random.choice(self.addresses)
            try:
                answer = client.post(f"{address}/v1/shares", content=content, headers=self.headers)
            except httpx.TransportError:
                answer = None
            if (
                answer is not None
                and answer.status_code == 202
                and sum(answer.json().values()) == n
            ):
                return True
            if answer is not None and answer.status_code != 503:
                self.problems.append(answer.text)
                return False
            self.n_retries += 1
            time.sleep(0.02)


def wait_for_more(senders: list[Sender], more: int) -> None:
    """Until so many more uploads were acknowledged: however slow the machine, every life has
    traffic."""
    goal = sum(len(sender.acknowledged) for sender in senders) + more
    end = time.monotonic() + 60
    while sum(len(sender.acknowledged) for sender in senders) < goal:
        assert time.monotonic() < end, [sender.problems for sender in senders]
        time.sleep(0.005)


def test_fifty_kills_of_workers_intake_and_collector_lose_and_repeat_nothing(
    tmp_path: Path,
) -> None:
    schedule = random.Random(21)  # noqa: S311 - a test's schedule
    stop = threading.Event()
    killed: Counter[str] = Counter()
    with ProxyProcess(tmp_path / "proxy", SETTINGS) as proxy:
        proxy.publish(QUERY)
        headers = proxy.token(quota=10_000_000)
        with CollectorProcess(tmp_path / "collector", proxy) as collector:
            addresses = [proxy.address, collector.address]
            senders = [Sender(addresses, headers, seed, stop) for seed in range(N_SENDERS)]
            for sender in senders:
                sender.start()
            for i in range(N_KILLS):
                wait_for_more(senders, 15)
                time.sleep(schedule.uniform(0, 0.1))
                what = ("worker", "intake", "collector")[
                    0 if i % 3 == 0 else 1 if i % 3 == 1 else 2
                ]
                if what == "collector":
                    collector.stop(signal.SIGKILL)
                    collector.start()
                else:
                    intake, workers = proxy.intake_and_workers()
                    proxy.kill_child(intake if what == "intake" else schedule.choice(workers))
                killed[what] += 1
            wait_for_more(senders, 10)
            stop.set()
            for sender in senders:
                sender.join(timeout=60)
                assert not sender.is_alive()
            for columns in senders[0].acknowledged[::20]:  # a replay, by whichever process gets it
                content = body_of(QUERY, senders[0].epoch, columns)
                for address in addresses:
                    answer = loopback.post(f"{address}/v1/shares", content=content, headers=headers)
                    assert answer.json() == {"accepted": 0, "already": columns.shape[1]}
            assert collector.stop() == 0
        assert proxy.stop() == 0
        logged = proxy.logged()
    assert killed == {"worker": 17, "intake": 17, "collector": 16}
    assert [sender.problems for sender in senders] == [[]] * N_SENDERS
    sent = np.concatenate(
        [columns for sender in senders for columns in sender.acknowledged], axis=1
    )
    # the kills fell into the traffic
    assert sum(sender.n_retries for sender in senders) > N_KILLS // 2
    counts = Counter(map(tuple, logged.T.tolist()))
    assert max(counts.values()) == 1
    assert counts == Counter(map(tuple, sent.T.tolist()))  # each row once, with its share unchanged
