"""Broker and proxies killed in the middle of a stream: every answer is in the panes once, as if
nothing had happened.

Each report carries its own bucket, so any count other than 1 shows.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from deniable.aggregator.counting.catalogue import publish
from deniable.aggregator.counting.limits import EngineLimits
from deniable.aggregator.engines.embedded import Engine
from deniable.aggregator.state import State
from deniable.devtools.broker import Broker
from deniable.logs.kafka_settings import KafkaSettings
from deniable.logs.share_logs import KafkaShareLog
from deniable.queries.budget import Budget
from deniable.queries.columns.column import Column
from deniable.queries.query import Query
from deniable.queries.signed.signing import sign
from deniable.randomness import seeded_source
from deniable.wire.shares import split_columns
from toolkit.crowds import KEY, RING
from toolkit.servers import loopback
from toolkit.servers.engines import outcome_of, wait_until_visible
from toolkit.servers.proxies import ProxyProcess, query_of_today
from toolkit.shares import body_of

N = 1200
BATCH = 25
NAMES = ["one", "two"]
INTAKE = '[intake]\nthreshold = 60\ndeadline = "1 s"\n'


def own_bucket_query() -> Query:
    """As many buckets as there are answers, and so little noise that each report says its own."""
    columns = [Column("number", [f"[{i},{i + 1})" for i in range(N)], other=True)]
    mechanism = {"name": "DirectEncoding", "epsilon": 40.0}
    return query_of_today(
        proxies=NAMES,
        columns=columns,
        mechanism=mechanism,
        sampling=1.0,
        budget=Budget(),
        minimum_cohort=1,
    )


class Sender(threading.Thread):
    """Brings all batches to one proxy, each again and again until it is acknowledged."""

    def __init__(self, proxy: ProxyProcess, query: Query, epoch: int, rows: Any) -> None:
        super().__init__(daemon=True)
        self._proxy, self._headers = proxy, proxy.token(quota=10_000_000)
        self._bodies = [
            body_of(query, epoch, rows[:, start : start + BATCH]) for start in range(0, N, BATCH)
        ]
        self.n_taken = 0
        self.may_send = len(self._bodies)

    def run(self) -> None:
        for body in self._bodies:
            while self.n_taken >= self.may_send or not self._taken(body):
                time.sleep(0.02)
            self.n_taken += 1

    def _taken(self, body: bytes) -> bool:
        try:
            answer = loopback.post(
                f"{self._proxy.address}/v1/shares", content=body, headers=self._headers, timeout=20
            )
        except httpx.TransportError:
            return False
        assert answer.status_code == 202, answer.text
        return True


def wait(is_so: Callable[[], bool], seconds: float = 90) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Stream:
    """Two proxies on Kafka, and devices that send through them."""

    def __init__(
        self, proxies: list[ProxyProcess], settings: list[KafkaSettings], query: Query
    ) -> None:
        self.proxies, self.settings, self.query = proxies, settings, query
        epoch = query.schedule.epoch_of(int(time.time()))
        reports = query.mechanism.draw(np.arange(N), seeded_source(1)).reshape(N, -1).view(np.uint8)
        shares = split_columns(reports, query.tag, epoch, query.size_class or 0, len(NAMES))
        self.senders = [
            Sender(proxy, query, epoch, rows) for proxy, rows in zip(proxies, shares, strict=True)
        ]

    def start(self, share: float = 1.0) -> None:
        self.allow(share)
        for sender in self.senders:
            sender.start()

    def allow(self, share: float) -> None:
        """Let senders go on to this share of their batches."""
        for sender in self.senders:
            sender.may_send = int(share * N / BATCH)

    def wait_for(self, share: float) -> None:
        wait(lambda: all(sender.n_taken >= int(share * N / BATCH) for sender in self.senders))

    def end(self) -> None:
        """All of it sent, moved to the log, and the proxies stopped in order."""
        self.allow(1.0)
        for sender in self.senders:
            sender.join(90)
            assert not sender.is_alive()
        wait(lambda: all(proxy.metrics()["shares_waiting"] == 0 for proxy in self.proxies))
        assert [proxy.stop() for proxy in self.proxies] == [0, 0]


@contextmanager
def streaming(broker: Broker, fresh_topic: Callable[[str], str], folder: Path) -> Iterator[Stream]:
    query = own_bucket_query()
    settings = [KafkaSettings(broker.bootstrap, fresh_topic(name), partitions=4) for name in NAMES]
    with ExitStack() as stack:
        proxies = []
        for each in settings:
            kafka = (
                f'[kafka]\nbootstrap = "{each.bootstrap}"\ntopic = "{each.topic}"\npartitions ='
                f" {each.partitions}\n"
            )
            proxies.append(ProxyProcess(folder / each.topic, INTAKE + kafka))
            stack.push(proxies[-1].__exit__)  # whatever happens, it is ended
        with ThreadPoolExecutor(2) as starter:
            list(starter.map(ProxyProcess.start, proxies))
        for proxy in proxies:
            proxy.publish(query)
        yield Stream(proxies, settings, query)


def check_that_each_is_counted_once(stream: Stream, folder: Path) -> None:
    state, now = State(folder / "state.db", NAMES), int(time.time())
    with state.transaction():
        publish(
            state.connection, sign(stream.query, KEY), RING, NAMES, stream.query.schedule.origin
        )
    for settings in stream.settings:
        wait_until_visible(settings)
    engine = Engine(
        state,
        [KafkaShareLog(settings) for settings in stream.settings],
        EngineLimits(workers=1),
        clock=lambda: now,
    )
    engine.drain()
    outcome = outcome_of(state, [stream.query])
    for log in engine.logs:
        log.close()
    engine.close()
    state.close()
    ((n, nothing, counts),) = outcome.panes.values()
    assert (n, nothing) == (N, 0)
    assert counts == [1] * N + [0]
    # Not even the aggregator had to drop anything: the logs themselves hold each share once.
    assert list(outcome.accounts.values()) == [{"received": N, "counted": N}] * 2
    assert outcome.refusals == {}


def test_a_broker_that_is_killed_in_the_middle_of_a_stream_costs_nothing(
    broker: Broker, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    with streaming(broker, fresh_topic, tmp_path) as stream:
        stream.start(0.3)
        stream.wait_for(0.2)
        broker.kill()
        stream.allow(0.7)
        stream.wait_for(0.7)  # what comes while it is away is acknowledged all the same
        wait(lambda: all(proxy.metrics()["log_away"] == 1 for proxy in stream.proxies))
        assert all(proxy.metrics()["shares_waiting"] > 0 for proxy in stream.proxies)
        broker.start()
        stream.end()
        check_that_each_is_counted_once(stream, tmp_path)
        for proxy in stream.proxies:
            assert '"event": "log away"' in proxy.errors()
            assert '"event": "log back"' in proxy.errors()


def test_proxies_that_are_killed_at_random_while_they_append_cost_nothing(
    broker: Broker, fresh_topic: Callable[[str], str], tmp_path: Path
) -> None:
    schedule = random.Random(4)  # noqa: S311 - when to kill is no secret
    n_rounds = 3
    with streaming(broker, fresh_topic, tmp_path) as stream, ThreadPoolExecutor(2) as starter:
        stream.start(0.0)
        for i in range(n_rounds):
            # Chosen before they may go on: a sender that is done with its part meanwhile would
            # never reach a goal beyond it.
            goals = [sender.n_taken + schedule.randrange(1, 6) for sender in stream.senders]
            stream.allow((i + 1) / (n_rounds + 1))
            assert all(
                goal <= sender.may_send for goal, sender in zip(goals, stream.senders, strict=True)
            )
            for proxy, sender, goal in zip(stream.proxies, stream.senders, goals, strict=True):
                wait(lambda sender=sender, goal=goal: sender.n_taken >= goal)  # type: ignore[misc]
                time.sleep(schedule.uniform(0, 0.15))
                proxy.stop(signal.SIGKILL)
            list(starter.map(ProxyProcess.start, stream.proxies))
        stream.end()
        check_that_each_is_counted_once(stream, tmp_path)
